"""`backstay prune`: what stays, what goes, and when it refuses."""

import errno
import fcntl
import os
import struct
import time

import numpy as np
import pytest
from commands import backstay, sentence_of
from writer import Checkpoint, flip


def lines(directory, *levels, numbers=(1, 2, 3, 4)):
    for line in numbers:
        for level in levels or ("shared", "partner"):
            Checkpoint(line=line, ranks=2, nodes=2).replicated("x", np.arange(3)).write(directory, level)


def left(directory, everything=True):
    found = backstay("ls", directory, "--json", *(["--all"] if everything else [])).json["lines"]
    return [(line["line"], line["level"]) for line in found]


def test_the_newest_lines_of_each_level_stay(tmp_path):
    lines(tmp_path)
    ended = backstay("prune", "--keep", 2, tmp_path)
    assert ended.status == 0
    assert left(tmp_path) == [(4, "shared"), (4, "partner"), (3, "shared"), (3, "partner")]
    assert not (tmp_path / "node-1/partner/line-00000001").exists()
    assert backstay("verify", tmp_path).status == 0


def test_a_dry_run_removes_nothing(tmp_path):
    lines(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    ended = backstay("prune", "--keep", 1, tmp_path, "--dry-run")
    assert ended.status == 0 and ended.out.count("would be removed: line") == 6
    assert sorted(tmp_path.rglob("*")) == before
    found = backstay("prune", "--keep", 1, tmp_path, "--dry-run", "--json").json
    assert sorted(found) == ["dry_run", "freed_bytes", "kept", "removed"]
    assert found["dry_run"] and len(found["removed"]) == 6 and len(found["kept"]) == 2


def test_only_the_chosen_level_is_pruned(tmp_path):
    lines(tmp_path)
    backstay("prune", "--keep", 1, tmp_path, "--level", "partner")
    assert left(tmp_path) == [(4, "shared"), (4, "partner"), (3, "shared"), (2, "shared"), (1, "shared")]


def test_a_damaged_newest_line_does_not_push_out_the_last_good_one(tmp_path):
    lines(tmp_path, "shared")
    for line in (3, 4):
        flip(tmp_path / f"shared/line-0000000{line}/rank-00000.h5", 8192)  # only its checksum shows it
    ended = backstay("prune", "--keep", 1, tmp_path)
    assert ended.status == 0 and "Line 4 (shared) is damaged and does not count" in ended.err
    assert left(tmp_path) == [(4, "shared"), (3, "shared"), (2, "shared")]


def test_a_partner_line_with_a_lost_copy_still_counts(tmp_path):
    lines(tmp_path, "partner")
    os.unlink(tmp_path / "node-0/partner/line-00000004/rank-00000.h5")
    backstay("prune", "--keep", 1, tmp_path)
    assert left(tmp_path) == [(4, "partner")]


def test_nothing_goes_where_nothing_is_whole(tmp_path):
    lines(tmp_path, "shared")
    for line in range(1, 5):
        os.unlink(tmp_path / f"shared/line-0000000{line}/rank-00001.h5")
    ended = backstay("prune", "--keep", 1, tmp_path)
    assert ended.status == 0 and "nothing is removed" in ended.out and len(left(tmp_path)) == 4


def test_old_unfinished_lines_go_and_new_ones_stay(tmp_path):
    lines(tmp_path, "shared")
    for line in (2, 4):
        os.unlink(tmp_path / f"shared/line-0000000{line}/manifest")
    backstay("prune", "--keep", 2, tmp_path)
    assert left(tmp_path) == [(4, "shared"), (3, "shared"), (1, "shared")]


def test_nothing_else_in_the_directory_is_touched(tmp_path):
    lines(tmp_path, "shared")
    (tmp_path / "shared/notes.txt").write_text("mine")
    (tmp_path / "shared/line-00000001/mine").mkdir()
    (tmp_path / "shared/line-00000001/mine/too").write_text("mine")
    text = sentence_of(backstay("prune", "--keep", 1, tmp_path))
    assert "holds a directory that backstay did not make" in text
    assert (tmp_path / "shared/notes.txt").exists() and (tmp_path / "shared/line-00000001/mine/too").exists()


def flock(kind):
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)


@pytest.mark.parametrize("where", ["lock", "node-1/lock", "run.lock"])
@pytest.mark.parametrize("command", [fcntl.F_OFD_SETLK, fcntl.F_SETLK])
def test_a_running_job_is_left_alone(tmp_path, where, command):
    lines(tmp_path)
    child = os.fork()  # a lock of the old kind belongs to a process, and does not keep that process out
    if child == 0:
        fd = os.open(tmp_path / where, os.O_RDWR | os.O_CREAT)
        fcntl.fcntl(fd, command, flock(fcntl.F_WRLCK))
        (tmp_path / "ready").touch()
        time.sleep(60)
        os._exit(0)
    try:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        text = sentence_of(backstay("prune", "--keep", 1, tmp_path, "--force"))
        assert "A running job holds" in text and len(left(tmp_path)) == 8
        assert backstay("prune", "--keep", 1, tmp_path, "--dry-run").err.startswith("A job is running here")
        found = backstay("ls", tmp_path, "--json").json
        assert found["running"] is True
        assert backstay("verify", tmp_path).status == 0
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert backstay("prune", "--keep", 1, tmp_path).status == 0  # a dead job does not keep its lock


def test_a_directory_of_something_else_is_left_as_it_is(tmp_path):
    (tmp_path / "foo").write_text("")
    ended = backstay("prune", "--keep", 1, tmp_path)
    assert ended.status == 1 and "does not look like a checkpoint directory" in ended.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["foo"]


def test_a_directory_that_may_not_be_written_has_a_sentence_with_a_next_step(tmp_path, monkeypatch):
    lines(tmp_path)
    (tmp_path / "lock").mkdir()  # which the superuser cannot open to write either
    text = sentence_of(backstay("prune", "--keep", 1, tmp_path))
    assert "cannot be opened (Is a directory), so nothing is removed: do it as the user" in text
    (tmp_path / "lock").rmdir()

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "unlink", refuse)
    text = sentence_of(backstay("prune", "--keep", 1, tmp_path))
    assert "Line 1 (partner) cannot be removed (" in text and "Permission denied): prune as its owner." in text


def test_a_line_is_not_what_prune_takes(tmp_path):
    for line in (1, 2, 3):
        Checkpoint(line=line).replicated("x", np.arange(4)).write(tmp_path)
    for words in ([f"{tmp_path}@1"], ["1", "--dir", tmp_path]):
        assert "Line 1 is named, but prune takes a directory" in sentence_of(
            backstay("prune", "--keep", 1, "--json", *words), 2
        )
    assert len(list((tmp_path / "shared").iterdir())) == 3
