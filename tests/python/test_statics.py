"""Static regions: written once by a session, and part of every line that names them for all commands.

Needs the compiled module (BACKSTAY_BUILD_PYTHON=ON).
"""

import shutil

import numpy as np
import pytest
from commands import backstay as command
from writer import flip

pytest.importorskip("backstay._core")

import backstay
import h5py
from backstay import lines


@pytest.fixture
def ran(tmp_path):
    """The directory of a job with four lines, of which the last two are kept."""
    with backstay.Session(dir=tmp_path, every="1", policy="wait", levels="shared", log="quiet") as run:
        state, mesh = run.state(step=0), np.arange(300.0).reshape(3, 100)
        run.protect_static("mesh", mesh, units="m")
        run.protect_static("names", save=lambda: b"some bytes", load=lambda given: None)
        while state.step < 4:
            run.checkpoint()
            state.step += 1
    return tmp_path


def static_lines(directory):
    return sorted(path.parent.name for path in (directory / "shared-static").glob("*/manifest"))


def test_they_are_written_once_and_come_back(ran):
    assert static_lines(ran) == ["line-00000001"]
    with backstay.Session(dir=ran, every="1", levels="shared", log="quiet") as run:
        state, mesh, given = run.state(step=0), np.zeros((3, 100)), []
        run.protect_static("mesh", mesh, units="m")
        run.protect_static("names", save=lambda: b"some bytes", load=lambda given_: given.append(given_))
        assert run.resume()
        assert state.step == 3 and given == [b"some bytes"]
        assert np.array_equal(mesh, np.arange(300.0).reshape(3, 100))
        run.checkpoint(now=True)
        run.wait()
    assert static_lines(ran) == ["line-00000001"]


def test_the_next_region_is_not_static(tmp_path):
    with backstay.Session(dir=tmp_path, levels="shared", log="quiet") as run:
        with pytest.raises(backstay.Error):
            run.protect_static("x", "not an array")
        run.protect("x", np.zeros(3))
        run.checkpoint(now=True)
    assert not (tmp_path / "shared-static").exists()


def test_ls_tells_their_size_once(ran):
    listed = command("ls", ran)
    assert listed.status == 0
    assert listed.out.count("Static regions of 2 lines") == 1 and "in line 1 (shared-static)" in listed.out
    found = command("ls", ran, "--json").json["lines"]
    assert [line["line"] for line in found] == [4, 3]
    assert {line["static_line"] for line in found} == {1}
    assert all(line["static_bytes"] > 2400 for line in found)


def test_show_export_view_and_diff_have_them(ran, tmp_path):
    shown = command("show", ran, "--json").json
    assert [region["name"] for region in shown["regions"]] == ["step", "mesh", "names"]
    assert shown["static_line"] == 1
    for more in ([], ["--virtual"]):
        out = tmp_path / f"out{len(more)}.h5"
        assert command("export", ran, "--out", out, *more).status == 0
        with h5py.File(out) as file:
            assert np.array_equal(file["mesh"][...], np.arange(300.0).reshape(3, 100))
            assert file["mesh"].attrs["units"] == "m" and file["step"][()] == 3
    compared = command("diff", f"{ran}@3", f"{ran}@4", "--json").json
    status = {region["region"]: region["status"] for region in compared["regions"]}
    assert status == {"step": "differs", "mesh": "same", "names": "same"}


def test_verify_reads_them_once_and_finds_damage(ran):
    assert command("verify", ran).out.startswith("3 lines,")
    path = next((ran / "shared-static").glob("*/*.h5"))
    flip(path, 8200)
    found = command("verify", ran)
    assert found.status == 1
    assert "Line 1 (shared-static)" in found.out and "region 'mesh'" in found.out


def test_a_line_without_them_is_not_whole(ran):
    shutil.rmtree(ran / "shared-static")
    assert "line 1 (shared-static), which has its static regions: it is not there" in command("ls", ran).out
    assert command("verify", ran).status == 1
    assert command("show", ran).status != 0
    assert not any(line.whole for line in lines.read_lines(lines.open_directory(ran)))


def test_prune_removes_those_that_no_line_names(ran):
    with backstay.Session(dir=ran, every="1", policy="wait", levels="shared", log="quiet") as run:  # a new history
        run.protect("a", np.zeros(3))
        run.protect_static("mesh", np.ones(50))
        run.checkpoint(now=True)
    assert static_lines(ran) == ["line-00000001", "line-00000005"]
    assert command("prune", "--keep", "2", ran).status == 0
    assert static_lines(ran) == ["line-00000001", "line-00000005"], "line 4 names 1"
    assert "(shared-static)" in command("prune", "--keep", "1", "--dry-run", ran).out
    assert command("prune", "--keep", "1", ran).status == 0
    assert static_lines(ran) == ["line-00000005"]
    assert command("verify", ran).status == 0
