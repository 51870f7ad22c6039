"""`backstay ls`, and what all commands have in common: help, directories, errors."""

import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import backstay, sentence_of
from writer import Checkpoint, flip

READERS = ["ls", "show", "verify", "export"]
COMMANDS = ["ls", "show", "verify", "prune", "view", "export", "diff"]


def two_levels(directory, lines=(1, 2)):
    for line in lines:
        c = Checkpoint(line=line, ranks=4, nodes=2, time=time.time() - 100).replicated("step", np.int64(line * 20))
        c.write(directory, "partner")
        c.write(directory, "shared", "file-per-node")


def test_every_line_at_every_level_is_listed(tmp_path):
    two_levels(tmp_path)
    ended = backstay("ls", tmp_path)
    assert ended.status == 0 and ended.err == ""
    rows = [row.split() for row in ended.out.splitlines()]
    assert rows[0] == ["line", "level", "step", "age", "size", "ranks", "state"]
    assert [row[:3] for row in rows[1:]] == [
        ["2", "shared", "40"],
        ["2", "partner", "40"],
        *(["1", s, "20"] for s in ("shared", "partner")),
    ]
    assert all(row[-1] == "whole" for row in rows[1:])


def test_json_has_stable_keys(tmp_path):
    two_levels(tmp_path)
    found = backstay("ls", tmp_path, "--json").json
    assert sorted(found) == ["dir", "lines", "running"] and found["running"] is False
    first = found["lines"][0]
    keys = (
        "line level whole retired why notes step call time age_seconds bytes stored_bytes static_line static_bytes "
        "ranks files job program paths"
    )
    assert list(first) == keys.split()
    assert (first["line"], first["level"], first["step"], first["whole"], first["why"]) == (2, "shared", 40, True, "")
    assert found["lines"][1]["stored_bytes"] == 2 * found["lines"][1]["bytes"]  # with the partner's copies


def test_why_a_line_is_not_whole_is_said(tmp_path):
    two_levels(tmp_path)
    os.truncate(tmp_path / "shared/line-00000002/node-00001.h5", 5000)
    flip(tmp_path / "node-0/partner/line-00000001/manifest", 30)
    shutil.rmtree(tmp_path / "node-1")
    text = backstay("ls", tmp_path).out
    assert "shared/line-00000002/node-00001.h5: it was cut off: 5000 bytes where" in text
    assert "node-0/partner/line-00000001/manifest cannot be used" in text
    assert "whole, but 4 copies are lost" in text


def test_what_is_being_written_is_shown_on_request(tmp_path):
    two_levels(tmp_path)
    (tmp_path / "shared/line-00000003").mkdir()
    ended = backstay("ls", tmp_path)
    assert "1 directory without a manifest is not shown (--all)" in ended.out and "unfinished" not in ended.out
    assert "unfinished" in backstay("ls", tmp_path, "--all").out


def test_an_empty_directory_has_no_lines(tmp_path):
    (tmp_path / "run.lock").touch()
    ended = backstay("ls", tmp_path)
    assert ended.status == 0 and "There is no line" in ended.out
    assert backstay("ls", tmp_path, "--json").json["lines"] == []


def test_what_was_looked_for_is_named_where_there_is_none(tmp_path):
    two_levels(tmp_path)
    for words in ([f"{tmp_path}@99"], ["99", "--dir", tmp_path], [f"{tmp_path}@99", "--all", "--json"]):
        assert f"There is no line 99 in {tmp_path}: `backstay ls" in sentence_of(backstay("ls", *words))
    for command in ("ls", "verify"):
        assert f"There is no line in {tmp_path} at level local" in backstay(command, tmp_path, "--level", "local").out
    (tmp_path / "shared/line-00000003").mkdir()
    text = backstay("ls", f"{tmp_path}@3").out
    assert text.startswith(f"Line 3 in {tmp_path} has no manifest") and "not shown (--all)" in text
    assert "unfinished" in backstay("ls", f"{tmp_path}@3", "--all").out


def test_a_directory_of_something_else_has_a_sentence(tmp_path):
    (tmp_path / "foo").touch()
    text = sentence_of(backstay("ls", tmp_path))
    assert "does not look like a checkpoint directory" in text and "is this the right directory?" in text


def coupled(directory, local=False):
    """What a program leaves whose sessions have names: local lines are at node-N/NAME."""
    for name in ("ocean", "air"):
        c = Checkpoint(line=3, ranks=2, nodes=2).replicated("u", np.arange(4.0))
        if not local:
            c.write(directory / name)
            continue
        c.write(directory / "scratch", "partner")
        roots = []
        for node in range(2):
            place = directory / f"node-{node}" / name
            place.parent.mkdir(exist_ok=True, parents=True)
            shutil.move(directory / "scratch" / f"node-{node}", place)
            roots.append({"node": node, "path": str(place)})
        (directory / "scratch").rmdir()
        (directory / name).mkdir()
        session = {"dir": str(directory / name), "local_dirs": roots}
        (directory / name / "session.json").write_text(json.dumps(session))
    for name in ("notes", "notes/local", "results"):
        (directory / name).mkdir()
    (directory / "results" / "lock").touch()


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("run_lock", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_of_named_sessions_names_them(tmp_path, command, local, run_lock):
    coupled(tmp_path, local)
    if run_lock:  # `backstay run` was there
        (tmp_path / "run.lock").touch()
    words = {"prune": ["--keep", 1, tmp_path], "view": ["u", tmp_path], "diff": [tmp_path, tmp_path]}
    text = sentence_of(backstay(command, *words.get(command, [tmp_path])), 2 if command == "diff" else 1)
    assert "has no line of its own" in text and "named sessions: air, ocean. Look at one with" in text
    assert text.endswith(f"--dir {tmp_path}/air.")
    assert backstay("ls", "--dir", tmp_path / "air", "--json").json["lines"][0]["whole"]


@pytest.mark.parametrize("levels", [["local"], ["partner", "shared"], ["shared"], ["memory"]])
def test_lines_on_nodes_that_are_not_here_are_not_passed_over_without_a_word(tmp_path, levels):
    places = [{"node": node, "path": f"/nvme/of/{node}/ck"} for node in range(3)]
    session = {"dir": str(tmp_path), "levels": levels, "local_dirs": places}
    (tmp_path / "session.json").write_text(json.dumps(session))
    if "shared" in levels:
        Checkpoint(line=3, ranks=2).replicated("u", np.arange(4.0)).write(tmp_path)
    sentence = (
        "The lines on nodes are not looked at: none of the directories that session.json names is here (/nvme/of/0/ck, "
        "/nvme/of/1/ck, ...). Where the nodes have them, run this there."
    )
    on_nodes = levels[0] in ("local", "partner")
    for command in (["ls", tmp_path], ["verify", tmp_path], ["prune", "--keep", 1, tmp_path]):
        ended = backstay(*command)
        assert ended.status == 0 and (" ".join(ended.err.split()) == sentence) == on_nodes, ended.err
    if "shared" not in levels:
        assert (sentence in sentence_of(backstay("show", tmp_path))) == on_nodes
    shutil.copytree(tmp_path, tmp_path / "copy")
    said = " ".join(backstay("ls", tmp_path / "copy").err.split())
    assert (f"for {tmp_path}, of which this is a copy or another name." in said) == on_nodes
    shutil.rmtree(tmp_path / "copy")
    (tmp_path / "node-1").mkdir()
    assert backstay("ls", tmp_path).err == ""


@pytest.mark.parametrize("name", ["air/day", "air/shared/1", "shared", "local-static"])
def test_names_of_several_parts_and_those_of_levels_are_seen(tmp_path, name):
    Checkpoint(line=3, ranks=2).replicated("u", np.arange(4.0)).write(tmp_path / name)
    (tmp_path / name / "session.json").write_text(json.dumps({"dir": str(tmp_path / name)}))
    text = sentence_of(backstay("ls", tmp_path))
    assert f"named sessions: {name}. Look at one with --dir {tmp_path}/{name}." in text


def test_named_sessions_beside_lines_without_a_name_are_no_failure(tmp_path):
    coupled(tmp_path)
    two_levels(tmp_path)
    assert [line["line"] for line in backstay("ls", tmp_path, "--json").json["lines"]] == [2, 2, 1, 1]
    assert "There is no line 99 in" in sentence_of(backstay("show", f"{tmp_path}@99"))


@pytest.mark.parametrize("command", COMMANDS)
def test_whoever_wants_json_reads_of_failures_there(tmp_path, command):
    words = {"prune": ["--keep", 1, tmp_path], "view": ["u", tmp_path], "diff": [tmp_path, tmp_path]}
    ended = backstay(command, *words.get(command, [tmp_path]), "--json")
    text = sentence_of(ended, 2 if command == "diff" else 1)
    assert ended.json == {"ok": False, "error": text.removeprefix("backstay: ")}


def test_what_is_retired_is_called_so_and_not_counted(tmp_path):
    two_levels(tmp_path)
    (tmp_path / "shared/line-00000001/manifest").unlink()
    ended = backstay("ls", tmp_path)
    assert "without a manifest" not in ended.out and "retired" not in ended.out
    rows = backstay("ls", tmp_path, "--all").out.splitlines()
    assert [row.split()[-1] for row in rows if row.split()[:2] == ["1", "shared"]] == ["retired"]
    assert all("unfinished" not in row for row in rows)
    (tmp_path / "shared/line-00000003").mkdir()
    assert "1 directory without a manifest is not shown" in backstay("ls", tmp_path).out


def test_what_a_run_keeps_in_the_directory_is_no_line(tmp_path):
    two_levels(tmp_path)
    before = backstay("ls", tmp_path, "--json").json["lines"]
    (tmp_path / "run.lock").write_text("process 1 on host x\n")
    found = backstay("ls", tmp_path, "--json").json
    assert [x["line"] for x in found["lines"]] == [x["line"] for x in before] and found["running"] is False
    assert backstay("verify", tmp_path).status == 0 and backstay("prune", "--keep", 1, tmp_path).status == 0


def test_the_directory_is_an_argument_an_option_a_variable_or_the_usual_one(tmp_path, monkeypatch):
    two_levels(tmp_path / "backstay-checkpoints", lines=(7,))
    monkeypatch.chdir(tmp_path)
    for arguments in ([], ["backstay-checkpoints"], ["--dir", tmp_path / "backstay-checkpoints"]):
        assert backstay("ls", "--json", *arguments).json["lines"][0]["line"] == 7
    command = [sys.executable, "-m", "backstay", "ls", "--json"]
    environment = {**os.environ, "BACKSTAY_DIR": str(tmp_path / "backstay-checkpoints")}
    found = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)["lines"][0]["line"] == 7


@pytest.mark.parametrize("command", READERS)
def test_a_missing_directory_is_one_sentence(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "does not exist: name another one, or set BACKSTAY_DIR" in sentence_of(backstay(command))


@pytest.mark.parametrize("command", ["show", "export"])
def test_no_line_yet_is_one_sentence(tmp_path, command):
    assert "There is no checkpoint in" in sentence_of(backstay(command, tmp_path))


@pytest.mark.parametrize("command", ["show", "export", "verify"])
def test_a_line_that_is_not_there_is_one_sentence(tmp_path, command):
    two_levels(tmp_path)
    text = sentence_of(backstay(command, "99", "--dir", tmp_path))
    assert "There is no line 99" in text and "backstay ls" in text


def test_the_newest_whole_line_is_taken_by_default(tmp_path):
    two_levels(tmp_path, lines=(1, 2, 3))
    os.unlink(tmp_path / "shared/line-00000003/node-00000.h5")
    shutil.rmtree(tmp_path / "node-0/partner/line-00000003")
    shutil.rmtree(tmp_path / "node-1/partner/line-00000003")
    assert backstay("show", tmp_path, "--json").json["line"] == 2
    assert "is not whole" in sentence_of(backstay("show", f"{tmp_path}@3"))
    assert backstay("show", f"{tmp_path}@1", "--level", "partner", "--json").json["level"] == "partner"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_begins_with_an_example(command):
    ended = backstay(command, "--help", columns=80)
    lines = [line.strip() for line in ended.out.splitlines() if line.strip()]
    assert ended.status == 0
    assert lines[0].startswith("Usage:") and lines[1].startswith(f"Example: backstay {command}")
    assert "--json" in ended.out and "--dir" in ended.out


def test_an_unknown_command_names_the_nearest():
    ended = backstay("shwo")
    assert ended.status == 2 and "show" in ended.err


def test_wrong_usage_has_status_2(tmp_path):
    wrong = "ls --level tape, prune, prune --keep 0, view, show 1 --line 2, diff 1, ls --every"
    for arguments in map(str.split, wrong.split(",")):
        assert backstay(*arguments).status == 2, arguments


def test_whoever_wants_json_reads_of_wrong_usage_there():
    for arguments, why in [
        ("ls --level tape --json", "'tape' is not one of"),
        ("prune --json", "Missing option '--keep'. `backstay prune --help` shows"),
        ("show --json 1 --line 2", "Two lines are named: 1 and 2. `backstay show --help`"),
        ("view --json", "Missing argument 'REGION'."),
        ("run --json", "Missing argument"),
        ("ls --every --json", "No such option: --every"),
        ("shwo --json", "'show'? `backstay --help` shows"),
    ]:
        ended = backstay(*arguments.split())
        text = sentence_of(ended, 2)
        assert why in text and ended.json == {"ok": False, "error": text.removeprefix("backstay: ")}, ended
    assert backstay("ls", "--json", "--help").status == 0


def test_the_version_is_told():
    assert backstay("--version").out.startswith("backstay 0.")


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    two_levels(tmp_path)
    command = f"{sys.executable} -m backstay ls {tmp_path} --json | head -c 5"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("json", [[], ["--json"]])
@pytest.mark.parametrize(
    "words",
    ["ls", "show", "verify", "prune --keep 1", "view step", "export -o o.h5", "diff ck ck", "run true"],
)
def test_no_room_for_the_output_is_one_sentence(tmp_path, words, json):
    two_levels(tmp_path / "ck")
    name, *rest = words.split()
    if name == "run" and not json:
        return  # the output is the program's
    command = [sys.executable, "-m", "backstay", name, *json, *rest]
    environment = {**os.environ, "BACKSTAY_DIR": str(tmp_path / "ck")}
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    *before, last = ended.stderr.splitlines()
    assert ended.returncode == 1 and last == "backstay: The output cannot be written: No space left on device."
    assert len(before) == (2 if name == "run" else 0)  # its launch, its end


@pytest.mark.parametrize(
    "words, status", [("show nowhere", 1), ("ls --level x", 2), ("diff a b", 2), ("run -n 0 true", 2)]
)
def test_a_failure_is_one_sentence_where_there_is_no_room_for_its_json(tmp_path, words, status):
    name, *rest = words.split()
    command = [sys.executable, "-m", "backstay", name, "--json", *rest]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == status and ended.stderr.startswith("backstay: ") and ended.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "--json >&-"])
def test_nobody_who_reads_is_no_error(tmp_path, closed):
    two_levels(tmp_path)
    done = subprocess.run(f"{sys.executable} -m backstay ls {tmp_path} {closed}", shell=True, stderr=subprocess.PIPE)
    assert done.returncode == 0 and done.stderr == b""


def test_nothing_of_mpi_is_loaded():
    heavy = {"backstay._core", "backstay.session", "mpi4py", "h5py", "matplotlib"}
    code = f"import sys, backstay.cli; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_in_a_narrow_terminal_the_state_stays(tmp_path):
    two_levels(tmp_path)
    (tmp_path / "shared/line-00000002/node-00000.h5").unlink()
    ended = backstay("ls", tmp_path, columns=40)
    assert "line 2 (shared): not whole" in " ".join(ended.out.lower().split())
    assert "line 1 (shared): whole" in ended.out.lower()
