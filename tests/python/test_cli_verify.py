"""`backstay verify`."""

import shutil

import numpy as np
from commands import backstay
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


def test_damage_is_one_sentence_each_and_status_1(tmp_path):
    line_at_every_level(tmp_path)
    flip(tmp_path / "node-1/partner/line-00000001/copy-rank-00000.h5", 8192)
    flip(tmp_path / "shared/line-00000001/rank-00002.h5", 8192)
    flip(tmp_path / "shared/line-00000001/rank-00003.h5", 5000)
    ended = backstay("verify", tmp_path)
    assert ended.status == 1
    *sentences, summary = ended.out.splitlines()
    assert len(sentences) == 3 and all(s.startswith("Line 1 (") and s.endswith(".") for s in sentences)
    assert "there is no other whole copy of it" in sentences[0] and "HDF5 metadata" in sentences[1]
    assert sentences[2].endswith("node-0/partner/line-00000001/rank-00000.h5 is whole.")
    assert "damage in 2 lines, at 3 places" in summary
    found = backstay("verify", tmp_path, "--json")
    assert found.status == 1 and found.json["damaged"] == 3 and not found.json["ok"]


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


def test_nothing_to_check_is_no_damage(tmp_path):
    (tmp_path / "session.json").write_text("{}")
    ended = backstay("verify", tmp_path)
    assert ended.status == 0 and "There is no line" in ended.out


def test_a_directory_of_something_else_is_not_in_order(tmp_path):
    (tmp_path / "foo").write_text("")
    ended = backstay("verify", tmp_path)
    assert ended.status == 1 and "is this the right directory?" in ended.err
    (tmp_path / "shared").mkdir()  # a job began here, and has made no line yet
    assert backstay("verify", tmp_path).status == 0
