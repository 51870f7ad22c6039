"""The kinds of bench/failures.py that need more than `backstay run --kill`: storage that fails under a running job."""

import os
import shutil
from pathlib import Path

import failures
import faults
import pytest
from backstay.mpirun import find

BUILD = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", failures.ROOT / "build" / "dev"))
PROGRAM = BUILD / "apps" / "tgv" / "tgv"
MPIRUN = shutil.which("mpirun")

needs_ulfm = pytest.mark.skipif(
    MPIRUN is None or find(MPIRUN, 2).kind != "openmpi" or not failures.library_of(PROGRAM).exists(),
    reason="this MPI cannot go on after the loss of a rank",
)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(failures, "STEPS", 70)
    monkeypatch.setattr(failures, "BESIDE_STEPS", 80)


def run(only, program=PROGRAM):
    return failures.run(failures.parse(["--turns", "1", "--only", only, "--program", str(program)]))


@needs_ulfm
@pytest.mark.skipif(not faults.can_make_read_only(), reason="this process may not mount")
def test_a_disk_that_becomes_read_only_gives_up_lines_and_nobody_is_lost(short):
    (row,) = run("a disk becomes read-only")
    assert row["lost_work"] == 0 and "| nobody is lost |" in failures.told(row)
    assert not [line for line in Path("/proc/self/mounts").read_text().splitlines() if "backstay-failures" in line]


@needs_ulfm
def test_a_spare_whose_disk_is_full_leaves_the_place_to_another_one(short):
    (row,) = run("the disk of a spare is full")
    assert row["stood_still"] > 0 and "| a spare |" in failures.told(row)


def test_kinds_that_cannot_be_measured_here_are_left_out_with_a_sentence(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(faults, "can_make_read_only", lambda: False)
    assert run("read-only|the disk of a spare", tmp_path / "apps" / "tgv" / "tgv") == []
    said = capsys.readouterr().err
    assert "not measured: a disk becomes read-only, at level local rs(3,1): this process may not mount" in said
    assert "the disk of a spare is full, at level local rs(7,1): there is no " in said and "libfaulty_system.so" in said
