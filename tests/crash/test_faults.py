"""The faults of faults.py are met by living ranks, and a run that none met is not counted."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import faults
import kills
import pytest
from backstay import guard

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun here")

STEPPER = faults.built() / "tests" / "crash" / "stepper"
FEW, MANY = "400", "2000"  # steps


def variables_of(directory, **more):
    library = faults.built() / "tests" / "crash" / "libfaulty_system.so"
    more = {"UNDER": directory, "SEEN": faults.seen_of(directory), **more}
    return {"LD_PRELOAD": str(library)} | {f"FAULTY_{name}": str(value) for name, value in more.items()}


def launch_of(directory, steps, **faulty):
    options = kills.MIXES["local"] | {"POLICY": "skip"}
    directory.mkdir()
    return kills.Launch(STEPPER, [steps], directory, options, variables=variables_of(directory, **faulty))


def expected_of(steps, directory):
    directory.mkdir()
    return ["hash", kills.undisturbed_hash(STEPPER, [steps], directory)]


def test_no_memory_to_stage_dynamic_data_costs_a_line_and_not_the_job(tmp_path):
    """After the first part of what changes, and of what is static: it is to grow, and then to be mapped anew."""
    ended = launch_of(tmp_path / "ck", FEW, RANK=2, KIND="enomem", FROM=2, COUNT=2).end()
    assert ended.status == 0 and ended.line("hash") == expected_of(FEW, tmp_path / "plain"), ended.out + ended.err
    assert faults.seen_of(tmp_path / "ck").read_text() == "2 enomem\n"
    events = kills.events_of(tmp_path / "ck")
    failed = [event for event in events if event["event"] == "failed"]
    why = "line 1 at level local was given up: rank 2: no memory for a staging copy of "
    assert [event["level"] for event in failed] == ["local"] and failed[0]["why"].startswith(why), failed
    assert kills.newest_committed(tmp_path / "ck", {"local"}) > 1


@pytest.mark.skipif(not faults.can_make_read_only(), reason="this process may not mount")
def test_a_directory_becomes_read_only_while_ranks_have_files_open_there(tmp_path):
    place = tmp_path / "ck" / "node-1"
    launch = launch_of(tmp_path / "ck", MANY, KIND="remount")
    while launch.running() and launch.in_time() and not kills.newest_committed(tmp_path / "ck", {"local"}):
        time.sleep(0.005)
    ranks = guard.rank_processes(launch.run_id).values()
    guard.send(ranks, signal.SIGSTOP)  # none ends meanwhile
    opened = {os.path.realpath(file) for pid in ranks for file in Path(f"/proc/{pid}/fd").iterdir()}
    assert faults.make_read_only(place)
    try:
        assert faults.is_read_only(place) and str(place / "lock") in opened
        guard.send(ranks, signal.SIGCONT)
        ended = launch.end()
    finally:
        faults.unmount(place)
    assert ended.status == 0 and ended.line("hash") == expected_of(MANY, tmp_path / "plain"), ended.out + ended.err
    assert {"2 remount", "3 remount"} & set(faults.seen_of(tmp_path / "ck").read_text().splitlines())
    assert "Read-only file system" in ended.err and not faults.is_read_only(place)


@pytest.mark.parametrize(("first", "is_hit"), [(0, True), (10**9, False)])
def test_a_run_is_hit_only_if_a_rank_met_the_fault(tmp_path, monkeypatch, first, is_hit):
    monkeypatch.setattr(faults.Run, "judge", lambda *_: "this is enough")
    (tmp_path / "ck").mkdir()
    run = faults.Run(faults.built(), {}, random.Random(1), "slow")
    run.rank, run.first = -1, first
    assert "this is enough" in run.go(tmp_path / "ck") and run.was_hit == is_hit


@pytest.fixture
def one_in_three(monkeypatch):
    """Runs that take no time, of which the third draw is hit."""
    drawn = []

    def go(run, _):
        drawn.append(run.kind)
        run.was_hit = len(drawn) % 3 == 0
        return ""

    monkeypatch.setattr(faults.Run, "go", go)
    monkeypatch.setattr(kills, "undisturbed", lambda *_: {})
    return drawn


def test_a_run_that_no_fault_hit_is_drawn_again_and_not_counted(one_in_three):
    runs = len(faults.KINDS)
    tally = faults.campaign(faults.built(), runs, seed=1)
    assert len(one_in_three) == 3 * tally.runs == 3 * tally.hit.total() and tally.runs == runs
    assert tally.drawn_again == 2 * runs and tally.failures == []
    assert f"{runs} jobs of 4 ranks that a fault hit (clock: " in faults.told(tally)
    assert f"and 0 that none did; {2 * runs} others were over before" in faults.told(tally)
    assert one_in_three[::3] == one_in_three[2::3], "a kind that hits seldom gives way to no other"
    assert set(one_in_three) == set(faults.kinds_of(1)), "all take turns"


def test_a_run_that_no_draw_hits_is_a_failure(one_in_three, monkeypatch):
    monkeypatch.setattr(faults, "DRAWS", 2)
    tally = faults.campaign(faults.built(), 1, seed=1)
    assert tally.hit.total() == 0 and "no draw of 2 was hit" in tally.failures[0]
    assert "and 1 that none did" in faults.told(tally)


def test_without_the_right_to_mount_no_run_claims_to(one_in_three, monkeypatch):
    monkeypatch.setattr(faults, "mount", lambda *_: False)
    tally = faults.campaign(faults.built(), 2 * len(faults.KINDS), seed=1)
    assert "remount: not possible here" in faults.told(tally)
    assert set(faults.KINDS) - set(one_in_three) == {"remount"}


def test_a_mix_of_levels_has_redundancy_in_memory():
    mix = faults.MIXES["memory_rs"]
    assert "memory" in mix["LEVELS"].split(",") and mix["MEMORY_REDUNDANCY"].startswith("rs(")


def test_lines_that_were_given_up_and_nothing_else(tmp_path):
    directory = tmp_path / "ck"
    assert launch_of(directory, "40").end().status == 0 and kills.newest_committed(directory, {"local"})
    assert not faults.is_only_given_up(directory)
    events = directory / "events.jsonl"
    committed = events.read_text()
    events.write_text(committed.replace('"event":"commit"', '"event":"failed"'))
    assert faults.is_only_given_up(directory)
    for manifest in directory.glob("node-*/local/line-*/manifest"):
        manifest.unlink()
    assert not faults.is_only_given_up(directory), "there is no line"
