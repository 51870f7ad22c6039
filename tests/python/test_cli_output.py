"""Where `view`, `export` and `demo` may write: never over what backstay keeps, and over other files only if told."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from backstay.cli.output import require_outside
from backstay.lines import Problem
from commands import backstay, sentence_of
from writer import Checkpoint

MANIFEST = "ck/shared/line-00000001/manifest"


@pytest.fixture
def ck(tmp_path, monkeypatch):
    """A checkpoint at two levels in ./ck, and in ./other what a running job has without any line yet."""
    monkeypatch.chdir(tmp_path)
    c = Checkpoint(ranks=2, nodes=2).replicated("a", np.arange(4.0))
    c.write("ck")
    c.write("ck", "partner")
    for name in ("session.json", "events.jsonl", "lock"):
        (tmp_path / "ck" / name).write_text("{}")
    (tmp_path / "other" / "local").mkdir(parents=True)
    (tmp_path / "other" / "lock").touch()
    (tmp_path / "link").symlink_to("ck/shared/line-00000001")
    (tmp_path / "picture.png").symlink_to(MANIFEST)
    (tmp_path / "aside").mkdir()
    (tmp_path / "aside" / "ck").symlink_to("../ck")
    return tmp_path


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


KEPT = [
    MANIFEST,
    "ck/shared/line-00000001/rank-00000.h5",
    "ck/shared/line-00000001/mine.h5",
    "ck/shared/mine.h5",
    "ck/shared",
    "ck/shared/line-00000001",
    "ck/memory",
    "ck/node-1/partner/line-00000001/copy-rank-00000.h5",
    "ck/node-1/lock",
    "ck/node-1/mine.npy",
    "ck/node-7",
    "ck/session.json",
    "ck/session.json.part",
    "ck/events.jsonl",
    "ck/lock",
    "ck/run.lock",
    "other/lock",
    "other/local/mine.h5",
    "link/manifest",
    "link/mine.h5",
    "link",
    "link/../line-00000001/mine.h5",
    "aside/ck/shared/mine.h5",
    "picture.png",
]


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("where", KEPT)
def test_what_backstay_keeps_is_never_written_over(ck, where, force):
    before = contents(ck)
    with pytest.raises(Problem, match="is among what backstay keeps in the checkpoint directory"):
        require_outside(Path(where))
    if not (ck / where).is_dir():
        text = sentence_of(backstay("view", "a", "--dir", "ck", "-o", where, *force))
        assert f"{where} is among what backstay keeps" in text and "choose a place outside" in text
    if Path(where).suffix in ("", ".h5", ".npy"):
        for more in ([], ["--virtual"]) if where.endswith(".h5") else ([],):
            words = ["ck", "-r", "a", "-o", ck / where, *force, *more]
            assert "is among what backstay keeps" in sentence_of(backstay("export", *words))
    assert contents(ck) == before


def test_an_export_to_its_usual_name_is_not_made_in_a_line(ck, monkeypatch):
    monkeypatch.chdir(ck / "ck/shared/line-00000001")
    assert "is among what backstay keeps" in sentence_of(backstay("export", "--dir", ck / "ck"))


FREE = [
    "ck/a.png",
    "ck/manifest",
    "ck/out.h5",
    "ck/shared.h5",
    "aside/shared/a.png",
    "aside/lock",
    "ck/node-x",
    "ck/mine/lock",
]


@pytest.mark.parametrize("where", FREE)
def test_other_names_are_free(ck, where):
    (ck / "aside/shared").mkdir()
    (ck / "ck/mine").mkdir()
    require_outside(Path(where))
    assert backstay("view", "a", "ck", "-o", where).status == 0 or Path(where).suffix == ".h5"
    assert backstay("show", "ck").status == 0


def test_without_a_checkpoint_directory_around_it_a_name_means_nothing(tmp_path):
    for name in ("shared", "local", "node-1"):
        (tmp_path / name).mkdir()
        require_outside(tmp_path / name / "mine.png")
    shutil.copytree(tmp_path / "shared", tmp_path / "lock")  # as /var has it, beside /var/local
    require_outside(tmp_path / "local" / "mine.png")


def test_view_replaces_a_file_only_if_told(ck):
    out = ck / "out.png"
    out.write_text("precious")
    for _ in range(2):
        assert backstay("view", "a", "ck").status == 0  # writes no file
    before = contents(ck)
    text = sentence_of(backstay("view", "a", "ck", "-o", out))
    assert text == f"backstay: {out} is there already: choose another name, or --force to replace it."
    assert contents(ck) == before
    assert backstay("view", "a", "ck", "-o", out, "--force").status == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("where", [".", "/", "", "..", "aside/.."])
def test_what_is_no_file_name_is_wrong_usage(ck, where):
    ended = backstay("view", "a", "ck", "-o", where, "--json")
    assert "names no file: give one, such as picture.png" in sentence_of(ended, 2) and not ended.json["ok"]


@pytest.mark.parametrize(
    "where, why",
    [
        ("aside", "aside is a directory: name a file in it, such as aside/picture.png"),
        ("aside/", "aside is a directory"),
        ("nowhere/a.png", "There is no directory nowhere to write a.png to"),
        ("out.txt/a.png", "There is no directory out.txt"),
        ("a.xyz", "a.xyz cannot be written: "),
        ("/proc/a.png", "/proc/a.png cannot be written: "),
        (f"{'long' * 70}.png", "File name too long"),
    ],
)
def test_where_no_picture_can_be_written_there_is_a_sentence(ck, where, why):
    (ck / "out.txt").touch()
    before = contents(ck)
    assert why in sentence_of(backstay("view", "a", "ck", "-o", where, "--force"))
    assert contents(ck) == before


def test_view_in_a_directory_that_may_not_be_written_is_a_sentence(ck):
    (ck / "aside").chmod(0o555)
    if os.access(ck / "aside", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert "cannot be written: Permission denied" in sentence_of(backstay("view", "a", "ck", "-o", "aside/a.png"))


@pytest.mark.parametrize("command", [("ls",), ("verify", "ck"), ("prune", "ck", "--keep", "1"), ("run", "--", "true")])
def test_where_the_current_directory_was_removed_there_is_a_sentence(tmp_path, monkeypatch, command):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    ended = backstay(*command)
    monkeypatch.chdir(tmp_path)
    sentence_of(ended)
