"""Written by 8 ranks, put back by any other number: the whole of the data is the same, bit for bit, and rank-private
data is refused with one sentence."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", Path(__file__).parents[2] / "build" / "dev"))
MPIRUN = Path(__file__).parents[2] / "cmake" / "mpirun.sh"
PROGRAM = Path(os.environ.get("ANYRANK_OF_BACKSTAY", BUILD / "tests" / "mpi" / "anyrank"))
READERS = (1, 3, 6, 12)
LIMIT = 120  # seconds

LEVELS = {
    "file_per_rank": {"LEVELS": "shared", "SHARED_LAYOUT": "file-per-rank"},
    "file_per_node": {"LEVELS": "shared", "SHARED_LAYOUT": "file-per-node"},
    "three_files": {"LEVELS": "shared", "SHARED_FILES": "3"},
    "one_file": {"LEVELS": "shared", "SHARED_LAYOUT": "one-file"},
    "local": {"LEVELS": "local"},
    "partner": {"LEVELS": "partner"},
}


def anyrank(ranks, what, directory, options):
    """(exit status, stdout, stderr) of a launch."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    options = {"DIR": str(directory), "EVERY": "1", **options}
    environment |= {f"BACKSTAY_{name}": value for name, value in options.items()}
    mpirun = shutil.which("mpirun") or shutil.which("mpiexec")
    command = ["sh", MPIRUN, mpirun, str(ranks), str(LIMIT), PROGRAM, what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT + 60, check=False)
    return done.returncode, done.stdout, done.stderr


def data_of(ranks, what, directory, options):
    status, out, err = anyrank(ranks, what, directory, options)
    assert status == 0, err
    return next(line for line in out.splitlines() if line.startswith("field "))


@pytest.fixture
def directory():
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="backstay-test.", dir=place) as path:
        yield Path(path)


def nodes_for(ranks, level):
    """Two nodes; but one rank is one node, and the local files of two could not come back on it."""
    return "1" if level == "local" else str(min(ranks, 2))


@pytest.mark.parametrize("level", LEVELS)
def test_any_number_of_ranks_puts_back_the_same_data(level, directory):
    def options(ranks):
        return {**LEVELS[level], "NODES": nodes_for(ranks, level)}

    written = data_of(8, "write", directory, options(8))
    assert written.endswith("of 1003 step 3")
    for ranks in READERS:
        reading = options(ranks)
        assert data_of(ranks, "read", directory, reading) == written, ranks


def test_local_data_of_two_nodes_come_back_on_two_nodes(directory):
    written = data_of(8, "write", directory, {"LEVELS": "local", "NODES": "2"})
    for ranks in (3, 6, 12):
        assert data_of(ranks, "read", directory, {"LEVELS": "local", "NODES": "2"}) == written, ranks


def test_more_nodes_than_wrote_put_back_the_same_data(directory):
    written = data_of(8, "write", directory, {"LEVELS": "partner", "NODES": "2"})
    assert data_of(6, "read", directory, {"LEVELS": "partner", "NODES": "3"}) == written


def test_a_lost_node_is_replaced_by_its_copies_on_another_number_of_ranks(directory):
    written = data_of(8, "write", directory, {"LEVELS": "partner", "NODES": "4"})
    shutil.rmtree(directory / "node-2")
    assert data_of(6, "read", directory, {"LEVELS": "partner", "NODES": "4"}) == written


def test_private_data_are_refused_alike_on_all_ranks_and_come_back_on_as_many(directory, tmp_path, monkeypatch):
    options = {"LEVELS": "shared", "SHARED_LAYOUT": "one-file"}
    data_of(4, "private-write", directory, options)
    monkeypatch.setenv("SENTENCES_OF_ANYRANK", str(tmp_path))
    status, _, err = anyrank(3, "private-read", directory, options)
    assert status == 3, err
    sentences = [(tmp_path / str(rank)).read_text() for rank in range(3)]
    assert len(set(sentences)) == 1, sentences
    assert "region 'own' is private to a rank and was saved by 4 ranks, and this job has 3" in sentences[0]
    data_of(4, "private-read", directory, options)  # the refusal has left the lines as they were
