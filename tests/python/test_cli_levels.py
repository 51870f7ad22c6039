"""A line that is damaged at one level and whole at another: what the commands do that read a line."""

import os
import shutil

import numpy as np
import pytest
from commands import backstay, sentence_of
from writer import Checkpoint, flip

COMMANDS = {
    "show": "show run",
    "export": "export run -o out.h5",
    "export-npy": "export run -o out --line 40",
    "view": "view x run --rank 0",
    "diff": "diff run run@40",
}


@pytest.fixture(params=["flipped", "cut"])
def damaged(request, tmp_path, monkeypatch):
    """Line 40 at two levels of ./run, damaged at the one that is preferred: the file that is."""
    c = Checkpoint(line=40, ranks=2, nodes=2).private("x", [np.arange(3.0)] * 2)
    (first, *_), _ = c.write(tmp_path / "run", "shared"), c.write(tmp_path / "run", "partner")
    flip(first, 8192) if request.param == "flipped" else os.truncate(first, 100)
    monkeypatch.chdir(tmp_path)
    return first.relative_to(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_another_level_stands_in_with_a_notice(damaged, command):
    ended = backstay(*COMMANDS[command].split())
    assert ended.status == 0, ended
    notices = ended.err.splitlines()
    assert len(set(notices)) == 1 and len(notices) == (2 if command == "diff" else 1)
    assert notices[0].startswith("Line 40 (shared) ") and notices[0].endswith(". Level partner is used instead.")
    assert f"{damaged}: " in notices[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_chosen_level_names_another(damaged, command):
    text = sentence_of(backstay(*COMMANDS[command].split(), "--level", "shared"), 2 if command == "diff" else 1)
    assert text.endswith(". Level partner has line 40, too: try --level partner.")
    assert os.listdir() == ["run"]


def test_another_checkpoint_of_the_same_number_does_not_stand_in(damaged):
    for node in (0, 1):
        shutil.rmtree(f"run/node-{node}")
    other = Checkpoint(line=40, ranks=2, nodes=2, job="f" * 16).private("x", [np.arange(3.0)] * 2)
    other.write("run", "partner")
    ended = backstay("show", "run", "--level", "shared")
    assert "partner" not in sentence_of(ended) and str(damaged) in ended.err


def test_where_every_level_is_damaged_each_is_named(damaged):
    for node in (0, 1):
        (path,) = [p for p in os.scandir(f"run/node-{node}/partner/line-00000040") if p.name.endswith("rank-00001.h5")]
        flip(path, 8192)
    text = sentence_of(backstay("show", "run"))
    assert "Line 40 (shared) " in text and "Line 40 (partner) cannot be read: " in text
