"""`backstay verify`."""

import contextlib
import fcntl
import os
import shutil
import struct
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from backstay.cli import verify
from commands import backstay, sentence_of
from writer import Checkpoint, flip, rewrite


def line_at_every_level(directory, line=1):
    c = (
        Checkpoint(line=line, ranks=4, nodes=2)
        .replicated("x", np.arange(9.0))
        .private("y", [np.arange(r) for r in range(4)])
    )
    return [f for level in ("shared", "partner", "local") for f in c.write(directory, level)]


def test_whole_lines_have_no_damage(tmp_path):
    files = line_at_every_level(tmp_path) + line_at_every_level(tmp_path, 2)
    ended = backstay("verify", tmp_path)
    assert ended.status == 0 and "6 lines" in ended.out and "no damage" in ended.out
    found = backstay("verify", tmp_path, "--json").json
    assert sorted(found) == ["bytes", "damaged", "dir", "lines", "ok", "seconds"]
    assert found["bytes"] == sum(f.stat().st_size for f in files if f.suffix)
    assert found["ok"] and len(found["lines"]) == 6


def test_a_number_that_is_a_directory_here_is_not_taken_for_a_line(tmp_path, monkeypatch):
    line_at_every_level(tmp_path / "backstay-checkpoints")
    flip(line_at_every_level(tmp_path / "1")[0], 5000)
    monkeypatch.chdir(tmp_path)
    said = sentence_of(backstay("verify", "1", "--json"), 2)
    assert "1 is a directory here: write ./1 for it, or @1 for that line" in said
    assert backstay("verify", "./1").status == 1
    assert backstay("verify", "@1").status == 0
    assert backstay("verify", "1", "--dir", "backstay-checkpoints").status == 0


def test_damage_is_one_sentence_each_and_status_1(tmp_path):
    line_at_every_level(tmp_path)
    flip(tmp_path / "node-1/partner/line-00000001/copy-rank-00000.h5", 8192)
    flip(tmp_path / "shared/line-00000001/rank-00002.h5", 8192)
    flip(tmp_path / "shared/line-00000001/rank-00003.h5", 5000)
    ended = backstay("verify", tmp_path)
    assert ended.status == 1
    *sentences, left, summary = ended.out.splitlines()
    assert len(sentences) == 3 and all(s.startswith("Line 1 (") and s.endswith(".") for s in sentences)
    assert "level shared has no other whole copy of it" in sentences[0] and "HDF5 metadata" in sentences[1]
    assert sentences[2].endswith("node-0/partner/line-00000001/rank-00000.h5 is whole.")
    assert left == "Line 1 (shared) cannot be read, but level partner has this line, too, and can be read."
    assert "damage in 2 lines, at 3 places" in summary
    found = backstay("verify", tmp_path, "--json")
    assert found.status == 1 and found.json["damaged"] == 3 and not found.json["ok"]


@pytest.mark.parametrize(("lost", "left"), [("shared-static", "shared"), ("shared", "shared-static")])
def test_a_line_and_static_regions_of_its_number_are_not_each_other(lost, left):
    def of(level, readable):
        line = SimpleNamespace(level=level, number=6, heading=level, may_be_of_checkpoint_of=lambda other: True)
        return {"line": line, "readable": readable, "retired": False}

    assert verify._what_is_left([of(lost, False), of(left, True)]) == []
    other = lost.replace("shared", "partner")
    assert verify._what_is_left([of(lost, False), of(other, True)]) == [
        f"{lost} cannot be read, but level {other} has this line, too, and can be read."
    ]


def test_every_flip_fails_the_command(tmp_path):
    files = line_at_every_level(tmp_path)
    for path in files:
        good = path.read_bytes()
        for offset in (0, 9, len(good) // 2, len(good) - 1):
            flip(path, offset)
            assert backstay("verify", tmp_path).status == 1, (path, offset)
            rewrite(path, good)


def test_a_level_and_a_line_can_be_chosen(tmp_path):
    line_at_every_level(tmp_path, 1)
    line_at_every_level(tmp_path, 2)
    flip(tmp_path / "shared/line-00000002/rank-00000.h5", 8192)
    assert backstay("verify", tmp_path, "--level", "local").status == 0
    assert backstay("verify", f"{tmp_path}@1").status == 0
    assert backstay("verify", f"{tmp_path}@2").status == 1


def test_a_lost_node_is_damage_of_its_lines(tmp_path):
    line_at_every_level(tmp_path)
    shutil.rmtree(tmp_path / "node-0")
    found = backstay("verify", tmp_path, "--json").json
    by_level = {line["level"]: line for line in found["lines"]}
    assert by_level["partner"]["whole"] and len(by_level["partner"]["damage"]) == 4
    assert not by_level["local"]["whole"] and by_level["shared"]["damage"] == []


def test_what_is_retired_while_it_is_checked_is_no_damage(tmp_path, monkeypatch):
    files = Checkpoint(ranks=2).replicated("x", np.arange(9.0)).write(tmp_path)
    Checkpoint(line=2, ranks=2).replicated("x", np.arange(9.0)).write(tmp_path)
    from backstay.cli import verify as module

    original = module.__dict__["verify_line"]

    def overtaken(line, advance):
        if line.number == 1:
            files[-1].unlink()
            flip(files[0], 8192)
        return original(line, advance)

    monkeypatch.setitem(module.verify.__globals__, "verify_line", overtaken)
    ended = backstay("verify", tmp_path)
    assert ended.status == 0 and "retired line 1 (shared) while it was checked" in ended.out


@pytest.mark.parametrize("what", ["a line that it commits", "a line that it retires", "damage"])
def test_what_a_running_job_changes_meanwhile_is_no_damage(tmp_path, monkeypatch, what):
    """It does so on one node and then on the next."""
    for number in (1, 2):
        Checkpoint(line=number, ranks=2, nodes=2).replicated("x", np.arange(9.0)).write(tmp_path, "local")
    first, second = (tmp_path / f"node-{node}/local/line-00000001/manifest" for node in range(2))
    second.rename(tmp_path / "aside")
    from backstay.cli import verify as module

    original = module.__dict__["verify_line"]

    def as_it_goes_on(line, advance):
        found = original(line, advance)
        if what == "a line that it commits" and not second.exists():
            (tmp_path / "aside").rename(second)
        if what == "a line that it retires" and line.number == 1:
            first.unlink(missing_ok=True)
        return found

    monkeypatch.setitem(module.verify.__globals__, "verify_line", as_it_goes_on)
    with open(tmp_path / "node-0" / "lock", "w") as lock:
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        ended = backstay("verify", tmp_path)
    assert ended.status == (what == "damage"), ended
    assert ("retired line 1 (local) while it was checked" in ended.out) == (what == "a line that it retires"), ended


@pytest.mark.parametrize("command", ["verify", "ls"])
def test_a_file_in_place_of_a_level_is_told(tmp_path, command):
    line_at_every_level(tmp_path)
    shutil.rmtree(tmp_path / "shared")
    (tmp_path / "shared").touch()
    assert f"The level {tmp_path}/shared cannot be read (Not a directory)" in sentence_of(backstay(command, tmp_path))


def test_nothing_to_check_is_no_damage(tmp_path):
    (tmp_path / "session.json").write_text("{}")
    ended = backstay("verify", tmp_path)
    assert ended.status == 0 and "There is no line" in ended.out


def test_a_directory_of_something_else_is_not_in_order(tmp_path):
    (tmp_path / "foo").write_text("")
    sentence = sentence_of(backstay("verify", tmp_path))
    assert "does not look like a checkpoint directory" in sentence and "is this the right directory?" in sentence
    ended = backstay("verify", tmp_path, "--json")
    assert ended.status == 1 and ended.json == {"ok": False, "error": sentence.removeprefix("backstay: ")}
    (tmp_path / "shared").mkdir()  # a job began here, and has made no line yet
    assert backstay("verify", tmp_path).status == 0


def test_help_says_that_every_line_is_checked():
    text = " ".join(backstay("verify", "--help").out.split())
    assert "every line if none is named" in text and "newest whole line" not in text


@pytest.mark.parametrize("command", [["verify"], ["ls"], ["prune", "--keep", 1]])
def test_a_level_that_cannot_be_read_is_a_problem(tmp_path, command):
    line_at_every_level(tmp_path)
    shutil.rmtree(tmp_path / "shared")
    (tmp_path / "shared").symlink_to("shared")  # which the superuser cannot read either
    ended = backstay(*command, tmp_path)
    text = sentence_of(ended)
    assert f"The level {tmp_path}/shared cannot be read (" in text and "which lines it has is not known" in text
    assert ended.out == ""
    assert backstay(*command, tmp_path, "--level", "partner").status == 0


def test_a_lines_directory_that_cannot_be_read_is_damage(tmp_path):
    line_at_every_level(tmp_path)
    (tmp_path / "shared/line-00000002").symlink_to("line-00000002")
    ended = backstay("verify", tmp_path)
    assert ended.status == 1 and "Line 2 (shared): the manifest" in ended.out and "cannot be used" in ended.out


@contextlib.contextmanager
def directory_of_nobody():
    """Where the superuser looks on as another user, who may not read everything."""
    backstay("verify", "--help")  # modules that a command loads may lie where that one may not read
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        was = os.geteuid()
        if was == 0:
            os.seteuid(65534)
        try:
            yield Path(place) / "ck"
        finally:
            if was == 0:
                os.seteuid(0)


@pytest.mark.parametrize("name", ["shared", "node-1/partner", "node-0", "shared/line-00000001"])
def test_what_may_not_be_read_is_not_in_order(name):
    with directory_of_nobody() as ck:
        line_at_every_level(ck)
        os.chmod(ck / name, 0)
        ended = backstay("verify", ck)
        os.chmod(ck / name, 0o700)
    assert ended.status == 1 and "no damage" not in ended.out


@pytest.mark.parametrize("level", ["shared", "partner", "local"])
def test_a_directory_of_one_line_that_may_not_be_read_is_named_and_hides_nothing_else(level):
    with directory_of_nobody() as ck:
        line_at_every_level(ck)
        line_at_every_level(ck, 2)
        place = ck / ("" if level == "shared" else "node-1") / level / "line-00000002"
        os.chmod(place, 0)
        listed = backstay("ls", ck)
        verified = backstay("verify", ck)
        last = backstay("verify", ck, "--level", level, "--json").json["lines"][-1]
        pruned = backstay("prune", ck, "--keep", "1")
        os.chmod(place, 0o700)
    assert listed.status == 0 and listed.out.count("whole") >= 5, listed
    assert verified.status == 1 and f"{place}" in verified.out and "Permission denied" in verified.out
    assert "missing" not in verified.out
    assert (last["line"], last["whole"]) == (1, True)
    if level == "partner":  # where it is the newest one all the same, by its copies
        assert "Permission denied" in sentence_of(pruned) and "nothing was removed" in pruned.err
    else:
        assert pruned.status == 0, pruned


def test_a_line_behind_a_link_is_followed_and_one_that_leads_nowhere_is_named(tmp_path):
    ck = tmp_path / "ck"
    line_at_every_level(ck)
    place = ck / "shared/line-00000001"
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    assert backstay("verify", ck).status == 0
    (tmp_path / "moved").rename(tmp_path / "away")
    ended = backstay("verify", ck)
    assert ended.status == 1 and f"{place} is a link that leads nowhere" in ended.out
    assert f"{place.relative_to(ck)} is a link that leads nowhere" in backstay("ls", ck).out


def test_what_a_node_still_has_that_the_job_has_left_is_no_damage(tmp_path):
    for number in (1, 2):
        Checkpoint(line=number, ranks=4, nodes=2).replicated("step", 3).write(tmp_path, "local")
    shutil.rmtree(tmp_path / "node-1/local/line-00000001")
    ended = backstay("verify", tmp_path)
    assert ended.status == 0 and "Line 1 (local) was retired by nodes that the job went on with" in ended.out
    assert "left behind by 1 node, and retired by the others" in backstay("ls", tmp_path).out
    assert "removed: line 1 (local) (left behind)" in backstay("prune", tmp_path, "--keep", "1").out
    assert backstay("verify", tmp_path).status == 0 and not (tmp_path / "node-0/local/line-00000001").exists()


def test_a_line_of_which_only_a_node_that_the_job_has_left_has_a_manifest_is_no_damage(tmp_path):
    """The other node has retired it, and keeps its files to use them again."""
    for number, ranks, nodes in ((1, 4, 2), (2, 2, 1)):
        Checkpoint(line=number, ranks=ranks, nodes=nodes).replicated("step", 3).write(tmp_path, "local")
    (tmp_path / "node-0/local/line-00000001/manifest").unlink()
    ended = backstay("verify", tmp_path)
    assert ended.status == 0 and "retired by nodes that the job went on with; " in ended.out, ended.out
    assert "node-1/local/line-00000001 is left of it" in ended.out.replace("\n", "")
    assert "left behind by 1 node, and retired by the others" in backstay("ls", tmp_path).out
    assert backstay("verify", f"{tmp_path}@1").status == 0
    (tmp_path / "node-0/local/line-00000002/rank-00000.h5").unlink()  # then the older one counts
    ended = backstay("verify", tmp_path)
    assert ended.status == 1 and "was retired" not in ended.out
    assert backstay("verify", f"{tmp_path}@1").status == 1


@pytest.mark.parametrize("gone", ["file", "newer", "node"])
def test_what_is_lost_otherwise_is_damage(tmp_path, gone):
    for number in (1, 2):
        Checkpoint(line=number, ranks=4, nodes=2).replicated("step", 3).write(tmp_path, "local")
    if gone == "file":
        (tmp_path / "node-1/local/line-00000001/rank-00002.h5").unlink()
    if gone == "newer":
        shutil.rmtree(tmp_path / "node-1/local/line-00000001")
        (tmp_path / "node-0/local/line-00000002/rank-00000.h5").unlink()
    if gone == "node":
        shutil.rmtree(tmp_path / "node-1")
    ended = backstay("verify", tmp_path)
    assert ended.status == 1 and "was retired" not in ended.out
