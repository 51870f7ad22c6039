"""Ranks that are lost while a job runs, and the spares that take their places: `backstay run --spares`.

The whole of the campaign is `./dev campaign kills --large`.
"""

import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import kills
import pytest
import repairs
from backstay import guard
from backstay.history import read_history
from jobs import (
    BEGINNINGS,
    BUILD,
    COMMAND,
    LIMIT,
    LOOPER,
    PLACER,
    PYTHON,
    SETTINGS_OF_MPI,
    STEPPER,
    THROWER,
    by_mpirun,
    by_racks,
    events,
    events_so_far,
    needs_ulfm,
    of_python,
    result,
    run,
)


@needs_ulfm
@pytest.mark.parametrize(
    "options",
    [
        {"levels": "memory", "memory__redundancy": "rs(2,1)"},
        {"levels": "memory,shared", "memory__redundancy": "rs(2,2)", "shared__every": 50},
        {"levels": "local", "local__redundancy": "rs(2,1)"},
        {"levels": "partner"},
        {"levels": "shared", "shared__layout": "one-file"},
        {"levels": "shared", "progress": "calls"},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
def test_two_lost_ranks_are_replaced_one_after_the_other(tmp_path, undisturbed, options):
    """Rank 0 among them. One launch, and the end of a run that nothing happened to."""
    ended = run(tmp_path, "-n", 4, "--spares", 2, "--nodes", 6, "--kill", "2@100,0@300", every=5, **options)
    assert result(ended) == undisturbed, ended.stderr
    assert "launch 2" not in ended.stderr
    assert "rank 2 was lost; spare 4 (node 4) is rank 2 now" in ended.stderr
    assert "rank 0 was lost; spare 5 (node 5) is rank 0 now" in ended.stderr
    assert "backstay: 2 failures: the job stood still for" in ended.stderr


@needs_ulfm
def test_what_one_level_with_parity_cannot_bear_a_second_one_does(tmp_path):
    """Ranks 1 and 3 of 6 are in one group of three, of which one may be lost; the second in the repair of the first."""
    plain = result(run(tmp_path / "a", "-n", 6, levels="memory", every=1000000, words=("100",)))
    ended = run(
        tmp_path / "b", *("-n", 6, "--spares", 2, "--nodes", 8, "--kill", "1@31,3@repair"), words=("100",),
        levels="memory,memory2", memory__redundancy="rs(2,1)", memory__every=4, memory2__redundancy="rs(4,2)",
        memory2__every=12,
    )  # fmt: skip
    assert result(ended) == plain, ended.stderr
    assert "at level memory cannot be put back" in ended.stderr and "launch 2" not in ended.stderr
    assert "at level memory2: rebuilding rank 1, rank 3 from parity" in ended.stderr
    seconds = r"[\d.]+ (s|ms|us)$"  # what each event has cost, on its line
    assert re.search(f"^backstay: .* lost; .*; together again after {seconds}", ended.stderr, re.M), ended.stderr
    assert re.search(rf"^backstay: line \d+ at level memory2: rebuilt, in {seconds}", ended.stderr, re.M), ended.stderr
    assert re.search(rf"^backstay: resumed from line \d+ at .*, in {seconds}", ended.stderr, re.M), ended.stderr


@needs_ulfm
@pytest.mark.parametrize("level", ["memory", "local"])
def test_a_group_that_was_repaired_bears_the_next_loss_before_there_is_another_line(tmp_path, monkeypatch, level):
    """One group of three, of which one may be lost; the second is, as soon as the first one's data are back."""
    words = ("200",)
    plain = result(run(tmp_path / "a", "-n", 3, program=LOOPER, words=words, levels="memory"), "sum")
    monkeypatch.setenv("LOOPER_RESUMES", "1,2")
    options = {"levels": level, f"{level}__redundancy": "rs(2,1)", "every": 100}
    flags = ("-n", 3, "--spares", 2, "--nodes", 5, "--kill", "node0@110")
    ended = run(tmp_path / "b", *flags, program=LOOPER, words=words, **options)
    assert result(ended, "sum") == plain and "launch 2" not in ended.stderr, ended.stderr
    assert "rank 0 was lost" in ended.stderr and "rank 1 was lost" in ended.stderr, ended.stderr
    first, second = re.findall(rf"resumed from line (\d+) at level {level}", ended.stderr)
    assert first == second, ended.stderr


FEWER = {  # ranks, processes, nodes, level, its options, who is lost
    "a process, and its spare is where others are": (
        *(3, 6, 6, "memory", {"redundancy": "rs(1,2)", "unit": "nodes:0/1/2,3,4,5"}, "0@100"),
        "level memory has one parity from here on: it is spread over 2 failure units now",
    ),
    "one of two units": (
        *(3, 6, 3, "memory", {"redundancy": "rs(2,1)", "unit": "nodes:0/1,2"}, "node0@100"),
        "level memory has no parity from here on: it is spread over 1 failure unit now",
    ),
    "on disks": (
        *(3, 6, 6, "local", {"redundancy": "rs(1,2)", "unit": "nodes:0/1/2,3,4,5"}, "0@100"),
        "level local has one parity from here on: it is spread over 2 failure units now",
    ),
}


@needs_ulfm
@pytest.mark.parametrize("how", FEWER)
def test_a_job_whose_ranks_are_in_fewer_units_after_a_loss_goes_on_with_what_these_carry(tmp_path, how):
    ranks, processes, nodes, level, given, lost, said = FEWER[how]
    plain = result(run(tmp_path / "a", "-n", ranks, levels="memory", every=1000000, words=("200",)))
    options = {"levels": level, "every": 5, **{f"{level}__{name}": value for name, value in given.items()}}
    flags = ("-n", ranks, "--spares", processes - ranks, "--nodes", nodes, "--kill", lost)
    ended = run(tmp_path / "b", *flags, words=("200",), **options)
    assert result(ended) == plain, ended.stderr
    assert "lost; spare" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr
    assert said in ended.stderr, ended.stderr
    assert re.search(rf"resumed from line \d+ at level {level}", ended.stderr), ended.stderr


@needs_ulfm
def test_a_spare_needs_a_unit_as_ranks_do(tmp_path, monkeypatch):
    flags = ("-n", 3, "--spares", 1, "--nodes", 4)
    options = {"levels": "memory", "memory__redundancy": "rs(2,1)"}
    ended = run(tmp_path / "a", *flags, memory__unit="nodes:0/1/2", **options)
    assert ended.returncode != 0 and "launch 2" not in ended.stderr
    assert "the option memory.unit has node 3 in no set, or in several" in ended.stderr, ended.stderr
    monkeypatch.setenv("RACK", "one")
    script = tmp_path / "without"
    script.write_text(
        f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" -lt 3 ] || unset RACK\nexec {shlex.quote(str(STEPPER))} "$@"\n'
    )
    script.chmod(0o755)
    ended = run(tmp_path / "b", *flags, program=script, memory__unit="env:RACK", **options)
    assert ended.returncode != 0 and "launch 2" not in ended.stderr
    assert "the variable RACK that the option memory.unit names is not set" in ended.stderr, ended.stderr


@needs_ulfm
def test_parity_over_racks_beside_parity_over_nodes_bears_the_loss_of_a_rack(tmp_path):
    plain = result(run(tmp_path / "a", "-n", 6, levels="memory", every=1000000, words=("100",)))
    ended = run(
        tmp_path / "b", *("-n", 6, "--spares", 2, "--nodes", 8, "--kill", "node0@31,node2@repair"), words=("100",),
        levels="local,local2", local__redundancy="rs(2,1)", local__every=4, local2__redundancy="rs(2,1)",
        local2__unit="nodes:0,2/1,3/4,5/6/7", local2__every=12,
    )  # fmt: skip
    assert result(ended) == plain, ended.stderr
    assert "at level local cannot be put back" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr
    assert "at level local2: rebuilding rank 0, rank 2 from parity" in ended.stderr


@needs_ulfm
def test_a_level_that_lost_parity_in_a_repair_from_a_cheaper_one_has_a_line_before_the_next_loss(tmp_path):
    """A rack has two members of a group of level local, and one of that of the rank that was lost before at local2."""
    plain = result(run(tmp_path / "a", "-n", 6, levels="memory", every=1000000, words=("100",)))
    ended = run(
        tmp_path / "b", *("-n", 6, "--spares", 3, "--nodes", 9, "--kill", "node0@45,node1@70,node3@70"), words=("100",),
        levels="local,local2", local__redundancy="rs(2,1)", local__every=4, local2__redundancy="rs(2,1)",
        local2__unit="nodes:0,2/1,3/4,5/6/7/8", local2__every=40,
    )  # fmt: skip
    assert result(ended) == plain and "launch 2" not in ended.stderr, ended.stderr
    assert re.search(r"resumed from line \d+ at level local,", ended.stderr), ended.stderr
    assert "at level local cannot be put back" in ended.stderr, ended.stderr
    assert "at level local2: rebuilding rank 1, rank 3 from parity" in ended.stderr, ended.stderr


@needs_ulfm
def test_two_parities_over_racks_beside_one_over_nodes_bear_the_loss_of_two_racks_at_once(tmp_path):
    """Over nodes, ranks 0, 2 and 4 are one group of three."""
    plain = result(run(tmp_path / "a", "-n", 6, levels="memory", every=1000000, words=("100",)))
    racks = ",".join(f"node{node}@31" for node in (0, 2, 1, 4))
    ended = run(
        tmp_path / "b", *("-n", 6, "--spares", 4, "--nodes", 10, "--kill", racks), words=("100",),
        levels="local,local2", local__redundancy="rs(2,1)", local__every=4, local2__redundancy="rs(2,2)",
        local2__unit="nodes:0,2/1,4/3/5/6/7/8/9", local2__every=12,
    )  # fmt: skip
    assert result(ended) == plain, ended.stderr
    assert sum(event["lost"] for event in events(tmp_path / "b", "repair")) == 4, ended.stderr
    assert "at level local cannot be put back" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr
    assert "at level local2: rebuilding rank 0, rank 1, rank 2, rank 4 from parity" in ended.stderr, ended.stderr


@needs_ulfm
@pytest.mark.parametrize("level", ["memory", "local"])
@pytest.mark.parametrize(
    ("size", "redundancy", "lost"),
    [(6, "rs(2,1)", (2, 3)), (5, "rs(2,3)", (0, 2, 3))],  # of 6 ranks 0, 2 and 4 are one group, and the others one
    ids=["two_groups", "three_of_one_group"],
)
def test_members_that_are_lost_at_once_are_rebuilt_together(tmp_path, level, size, redundancy, lost):
    plain = result(run(tmp_path / "a", "-n", size, levels="memory", every=1000000, words=("100",)))
    kills = ",".join(f"node{node}@31" for node in lost)
    ended = run(
        tmp_path / "b", *("-n", size, "--spares", len(lost), "--nodes", size + len(lost), "--kill", kills),
        words=("100",), levels=level, every=4, **{f"{level}__redundancy": redundancy},
    )  # fmt: skip
    assert result(ended) == plain and "launch 2" not in ended.stderr, ended.stderr
    assert sum(event["lost"] for event in events(tmp_path / "b", "repair")) == len(lost), ended.stderr
    ranks = ", ".join(f"rank {rank}" for rank in lost)
    assert f"at level {level}: rebuilding {ranks} from parity" in ended.stderr, ended.stderr


RACKS = {"levels": "local", "local__redundancy": "rs(2,1)", "every": 5}


@needs_ulfm
def test_a_spare_that_dies_together_with_a_rank_is_taken_last(tmp_path):
    flags = ("-n", 3, "--spares", 2, "--nodes", 5, "--kill", "0@100")
    ended = run(tmp_path, *flags, local__unit="nodes:0-1/2-3/4", **RACKS)
    assert result(ended) and "spare 4 (node 4) is rank 0 now" in ended.stderr, ended.stderr
    ended = run(tmp_path / "env", *flags, program=by_racks(tmp_path), local__unit="env:RACK", **RACKS)
    assert result(ended) and "spare 4 (node 4) is rank 0 now" in ended.stderr, ended.stderr


@needs_ulfm
def test_static_regions_are_protected_anew_where_a_repair_put_a_group_into_one_rack(tmp_path):
    """Ranks 0 and 2 are a group. The spare dies together with rank 2, so the loss of that rack would take both."""
    plain = result(run(tmp_path / "a", "-n", 3, levels="memory", every=1000000))
    flags, racks = ("-n", 3, "--nodes", 4), {"local__unit": "nodes:0-1/2-3", **RACKS}
    repaired = run(tmp_path, *flags, "--spares", 1, "--kill", "node0@100", **racks)
    assert result(repaired) == plain and "rank 0 was lost" in repaired.stderr, repaired.stderr
    for node in (2, 3):
        shutil.rmtree(tmp_path / "ck" / f"node-{node}")
    again = run(tmp_path, *flags, "--spares", 1, **racks)
    assert result(again) == plain and "at level local-static: rebuilding rank" in again.stderr, again.stderr


STATIC = """
import sys
import numpy as np
import backstay

with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        mesh = np.full(5000, float(run.rank) if sys.argv[2] == "fresh" else -1.0)
        run.protect_static("mesh", mesh)
        run.resume()
        while state.step < int(sys.argv[1]):
            run.checkpoint()
            run.wait()
            state.step += 1
            run.comm.Barrier()
        return run.comm.allreduce(int((mesh != run.rank).sum()))
    wrong = run.loop(body)
    if run.rank == 0:
        print("wrong", wrong)
"""


@needs_ulfm
def test_static_regions_that_a_resume_found_damaged_are_not_named_behind_a_repair(tmp_path):
    """A new launch passes over the damaged ones, and goes back to a line on nodes; a rank is lost behind the next one
    there, and before the next one at level shared; and at last the nodes are gone."""
    program = of_python(tmp_path, STATIC, levels="local,shared", local__redundancy="rs(2,1)")
    file, flags = program.pop("words")[0], ("-n", 3, "--nodes", 4, "--spares", 1)
    program |= {"local__every": 7}
    assert result(run(tmp_path, *flags, **program, shared__every=10, words=(file, 31, "fresh")), "wrong") == "0"
    program |= {"shared__every": 40}
    (damaged,) = (tmp_path / "ck" / "shared-static").glob("line-*/manifest")
    for path in damaged.parent.glob("*.h5"):
        text = bytearray(path.read_bytes())
        text[len(text) // 2] ^= 1
        path.write_bytes(text)
    repaired = run(tmp_path, *flags, "--kill", "1@38", **program, words=(file, 45, "again"))
    assert result(repaired, "wrong") == "0" and "spare 3 (node 3) is rank 1 now" in repaired.stderr, repaired.stderr
    assert "launch 2" not in repaired.stderr and "resumed from line" in repaired.stderr, repaired.stderr
    for node in range(4):
        shutil.rmtree(tmp_path / "ck" / f"node-{node}")
    last = run(tmp_path, *flags, **program, words=(file, 50, "again"))
    assert result(last, "wrong") == "0" and "at level shared" in last.stderr, last.stderr


@needs_ulfm
def test_what_a_node_keeps_that_left_the_job_is_no_damage(tmp_path):
    """Of lines and of static regions, which the job has saved anew, as the spare is in the rack of another member."""
    flags, racks = ("-n", 3, "--nodes", 4, "--spares", 1), {"local__unit": "nodes:0-1/2-3", **RACKS}
    ended = run(tmp_path, *flags, "--kill", "0@200", **{**racks, "every": 10})
    assert result(ended) and "rank 0 was lost" in ended.stderr, ended.stderr
    assert list((tmp_path / "ck" / "node-0" / "local-static").glob("line-*/manifest"))
    found = subprocess.run([*COMMAND, "verify", tmp_path / "ck"], capture_output=True, text=True, check=False)
    assert found.returncode == 0 and "(local) was retired by nodes" in found.stdout, found.stdout
    assert "(local-static) was retired by nodes" in found.stdout, found.stdout


@needs_ulfm
def test_a_lost_node_is_replaced_and_its_directory_is_gone(tmp_path, undisturbed):
    ended = run(
        tmp_path, *("-n", 4, "--spares", 2, "--nodes", 3, "--kill", "node1@200"), levels="partner,shared", every=5
    )
    assert result(ended) == undisturbed, ended.stderr
    assert "ranks 2, 3 were lost" in ended.stderr and "launch 2" not in ended.stderr
    assert [event["lost"] for event in events(tmp_path, "repair")] == [2]
    assert len(events(tmp_path, "end")) == 1
    assert not (tmp_path / "ck" / "node-1").exists()


@needs_ulfm
def test_lost_nodes_that_the_spares_do_not_suffice_for_lose_their_directories(tmp_path, undisturbed):
    """There is no repair to tell it from."""
    flags = ("-n", 4, "--spares", 1, "--nodes", 5, "--kill", "node0@100,node1@repair")
    ended = run(tmp_path, *flags, levels="local,shared", local__every=5, shared__every=20)
    assert result(ended) == undisturbed and "launch 2" in ended.stderr, ended.stderr
    assert not events(tmp_path, "repair")
    assert sorted(event["node"] for event in events(tmp_path, "node_removed")) == [0, 1], ended.stderr
    assert "resumed shared" in ended.stdout and "resumed local" not in ended.stdout, ended.stdout


@needs_ulfm
def test_without_a_spare_left_the_job_ends_and_the_next_launch_resumes(tmp_path, undisturbed):
    ended = run(
        tmp_path, *("-n", 4, "--spares", 1, "--nodes", 5, "--kill", "1@100,3@200"), levels="memory,shared", every=5,
        memory__redundancy="rs(2,1)",
    )  # fmt: skip
    assert result(ended) == undisturbed, ended.stderr
    assert "rank 3 was lost, and no spare is left to take the place: start the job again" in ended.stderr
    assert "launch 2" in ended.stderr and "resumed shared" in ended.stdout
    first, second = read_history(tmp_path / "ck").losses
    assert first.what == "rank 1 lost" and first.online and first.ranks == [1]
    assert second.what.startswith("rank 3 lost, and not replaced; launch 1 ended with ") and second.ranks == [3]
    assert second.how.startswith("launched again, resumed from line ")


@needs_ulfm
def test_losses_that_no_spare_is_left_for_are_not_taken_for_ends_of_the_programs_own(tmp_path, undisturbed):
    """Who is left ends with a status. Two launches alike that saved nothing are enough of the program's own ends."""
    flags = ("-n", 4, "--spares", 1, "--kill", "1@20,3@40", "--kill", "2@30,0@50")
    ended = run(tmp_path, *flags, levels="memory2", memory2__redundancy="rs(3,1)", memory2__unit="rank", every=5)
    assert result(ended) == undisturbed, ended.stderr
    assert [launch["attempt"] for launch in events(tmp_path, "launch")] == [1, 2, 3], ended.stderr


@needs_ulfm
def test_a_region_that_was_protected_once_more_is_where_a_replacement_has_it(tmp_path, monkeypatch, undisturbed):
    """Which never protects it a second time: lines are of the same regions in the same order on all ranks."""
    monkeypatch.setenv("STEPPER_PROTECTS_AGAIN", "50")
    flags = ("-n", 4, "--spares", 2, "--nodes", 6, "--kill", "1@100,2@200")
    options = {"levels": "memory", "memory__redundancy": "rs(2,1)", "every": 5}
    ended = run(tmp_path, *flags, **options)
    assert result(ended) == undisturbed and "given up" not in ended.stderr, ended.stderr
    assert ended.stderr.count("together again") == 2
    # The newest line that was whole when the rank was killed: behind step 50, and behind the first repair.
    first, second = events(tmp_path, "resume")
    for back in (first, second):
        whole = [line["line"] for line in events(tmp_path, "commit") if line["time"] < back["time"]]
        assert back["line"] >= max(whole)
    assert 50 < first["call"] <= 100 < second["call"] <= 200


@needs_ulfm
def test_two_launches_that_the_program_ended_by_itself_are_enough_also_with_spares(tmp_path, monkeypatch):
    """What memory held is of no use to the next one."""
    monkeypatch.setenv("LOOPER_EXITS", "-1,150")
    options = {"levels": "memory2", "memory2__redundancy": "rs(2,1)", "memory2__unit": "rank", "every": 5}
    ended = run(tmp_path, "-n", 3, "--spares", 1, program=LOOPER, words=("400",), **options)
    assert ended.returncode == 4 and "ended alike and saved no new line to go on from" in ended.stderr, ended.stderr
    assert len(events(tmp_path, "launch")) == 2


@needs_ulfm
@pytest.mark.parametrize("kills", ["1@30,3@60", "1@30,0@60,2@60"])
def test_without_a_spare_left_what_memory_holds_is_saved_before_the_end(tmp_path, undisturbed, kills):
    """No line is ever due at level shared; lost members are rebuilt from parity."""
    ended = run(
        tmp_path, *("-n", 4, "--spares", 1, "--nodes", 5, "--kill", kills), levels="memory,shared", memory__every=5,
        memory__redundancy="rs(2,2)", shared__every=1000000,
    )  # fmt: skip
    assert result(ended) == undisturbed, ended.stderr
    assert "was in memory only, and was saved at level shared before the end" in ended.stderr
    assert "launch 2" in ended.stderr and "resumed shared" in ended.stdout
    saved = [event for event in events(tmp_path, "commit") if event["level"] == "shared"][0]
    assert saved["line"] == events(tmp_path, "resume")[-1]["line"] and saved["bytes"] > 0, saved
    found = subprocess.run([*COMMAND, "verify", tmp_path / "ck"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@needs_ulfm
@pytest.mark.parametrize(("rank", "call"), [(2, 0), (2, 4), (0, 20), (0, 32)])
def test_a_loss_while_what_memory_holds_is_saved_leaves_the_lines_that_are_there(
    tmp_path, monkeypatch, undisturbed, rank, call
):
    """`call`: of who dies, on a file below the directory of level shared. Rank 2 has none there before the line's."""
    faulty = {"UNDER": tmp_path / "ck" / "shared", "RANK": rank, "KIND": "dies", "FROM": call, "COUNT": 1}
    with monkeypatch.context() as faults:
        faults.setenv("LD_PRELOAD", str(BUILD / "libfaulty_system.so"))
        for name, value in faulty.items():
            faults.setenv(f"FAULTY_{name}", str(value))
        ended = run(
            tmp_path, *("-n", 4, "--spares", 1, "--nodes", 5, "--kill", "1@30,3@60"), levels="memory,shared",
            memory__every=5, memory__redundancy="rs(2,2)", shared__every=1000000,
        )  # fmt: skip
    assert result(ended) == undisturbed, ended.stderr
    assert "launch 2" in ended.stderr and "was saved at level shared before the end" not in ended.stderr, ended.stderr
    assert "no spare is left to take the place" in ended.stderr
    found = subprocess.run([*COMMAND, "verify", tmp_path / "ck"], capture_output=True, text=True, check=False)
    assert "damaged" not in found.stdout + found.stderr, found.stdout + found.stderr


@needs_ulfm
def test_where_those_who_are_left_cannot_take_what_is_not_placed_it_is_saved_for_another_launch(tmp_path):
    program = {"program": LOOPER, "words": ("200",)}
    alone = result(run(tmp_path / "a", "-n", 4, **program, levels="memory"), "sum")
    ended = run(
        tmp_path / "b", *("-n", 4, "--spares", 1, "--nodes", 5, "--kill", "1@30,3@60"), **program, shrink="on",
        levels="memory,shared", memory__every=5, memory__redundancy="rs(2,1)", shared__every=1000000,
    )  # fmt: skip
    assert result(ended, "sum") == alone, ended.stderr
    assert "is private to a rank and was saved by 4 ranks, and this job has 3" in ended.stderr, ended.stderr
    assert "was saved at level shared as fewer ranks cannot take what is not placed" in ended.stderr, ended.stderr
    (resumed,) = [e for e in events(tmp_path / "b", "resume") if e["level"] == "shared"]
    assert 30 < resumed["call"] <= 60, ended.stderr
    found = subprocess.run([*COMMAND, "verify", tmp_path / "b" / "ck"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@needs_ulfm
def test_a_rank_that_is_lost_before_the_first_line_brings_all_back_to_where_loop_began(tmp_path, undisturbed):
    ended = run(tmp_path, "-n", 4, "--spares", 1, "--kill", "1@1", levels="shared", every=1000000)
    assert result(ended) == undisturbed, ended.stderr
    assert "launch 2" not in ended.stderr
    assert "1 failure: the job stood still for" in ended.stderr


@needs_ulfm
def test_a_job_that_fewer_ranks_would_begin_anew_is_launched_again_where_not_all_is_placed(tmp_path):
    """Its lines would be for three ranks, and no launch of four could read them."""
    program = {"program": LOOPER, "words": ("200",), "levels": "shared"}
    alone = result(run(tmp_path / "a", "-n", 4, **program), "sum")
    flags = ("-n", 4, "--spares", 1, "--kill", "1@1,3@1")
    ended = run(tmp_path / "b", *flags, **program, shrink="on", every=1000000)
    assert result(ended, "sum") == alone, ended.stderr
    assert "fewer are left, and not all that is protected is placed" in ended.stderr, ended.stderr
    assert "launch 2" in ended.stderr and "launch 3" not in ended.stderr, ended.stderr


@needs_ulfm
def test_fewer_ranks_begin_anew_where_all_is_placed(tmp_path):
    program = {"program": PLACER, "words": ("200",), "levels": "shared"}
    alone = result(run(tmp_path / "a", "-n", 4, **program), "sum")
    flags = ("-n", 4, "--spares", 1, "--kill", "1@1,3@1")
    ended = run(tmp_path / "b", *flags, **program, shrink="on", every=1000000)
    assert result(ended, "sum") == alone and result(ended, "ranks") == "3", ended.stderr
    assert "launch 2" not in ended.stderr, ended.stderr


@needs_ulfm
def test_the_first_line_is_one_that_outlives_a_rank(tmp_path, undisturbed):
    """No line is due at level shared; those of memory, which has no redundancy, die with any rank."""
    ended = run(
        tmp_path, "-n", 4, "--spares", 1, "--kill", "1@200", levels="memory,shared", memory__every=5,
        shared__every=1000000,
    )  # fmt: skip
    assert result(ended) == undisturbed, ended.stderr
    assert "launch 2" not in ended.stderr and "resumed from line 1 at level shared" in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("how", ["inside", "static", "replay"])
@pytest.mark.parametrize("kills", ["1@1", "1@1,2@opening,3@repair"], ids=["one", "three"])
def test_before_the_first_line_all_begin_with_what_they_began_with(tmp_path, how, kills):
    """The steps before the first checkpoint(), at which ranks are lost, have changed all that is protected."""
    given = {"program": BEGINNINGS, "words": (how,), "levels": "shared"}
    alone = result(run(tmp_path / "alone", "-n", 4, **given), "sum")
    ended = run(tmp_path, "-n", 4, "--spares", 3, "--kill", kills, **given)
    assert result(ended, "sum") == alone, ended.stderr
    assert "no line was whole yet: back to where loop() began" in ended.stderr, ended.stderr
    assert "launch 2" not in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("how", ["twice", "fallback"])
@pytest.mark.parametrize("kill", ["1@1", "1@3", "1@4"], ids=["first", "second", "second_late"])
def test_a_loss_in_a_second_loop_ends_the_launch_at_once(tmp_path, how, kill):
    """Ranks are replaced in the first one, however it ends: a spare would come to that."""
    given = {"program": BEGINNINGS, "words": (how,), "levels": "shared", "every": 1}
    alone = result(run(tmp_path / "alone", "-n", 3, **given), "sum")
    start = time.monotonic()
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--kill", kill, **given)
    assert result(ended, "sum") == alone, ended.stderr
    assert time.monotonic() - start < 20, "it took as long as the option timeout"
    assert "loop() is called for the second time in this session, where a spare cannot follow" in ended.stderr
    in_the_second = "rank 1 was lost in a loop() that is not the first one of the session: start the job again"
    assert (in_the_second in ended.stderr) == ("launch 2" in ended.stderr) == (kill != "1@1"), ended.stderr


NO_WAY_BACK = {  # and why
    "late": "region 'table' was protected behind resume()",
    "first": "the body has protected region 'table' the first time only",
    "callbacks": "the callbacks of region 'tree' cannot be asked before resume()",
}


@needs_ulfm
@pytest.mark.parametrize("how", NO_WAY_BACK)
def test_what_cannot_be_put_back_before_the_first_line_ends_the_launch(tmp_path, how):
    """Without a loss nobody asks."""
    given = {"program": BEGINNINGS, "words": (how,), "levels": "shared", "timeout": 20}
    if how == "callbacks":
        assert "sum" in run(tmp_path / "alone", "-n", 3, "--spares", 1, **given).stdout
    start = time.monotonic()
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, "--kill", "1@1", **given)
    sentence = "a rank was lost before a line was whole, and there is no way back to what loop() began with: "
    assert ended.returncode == 3 and ended.stderr.count(sentence + NO_WAY_BACK[how]) == 3, ended.stderr
    assert time.monotonic() - start < 15, "it took as long as the option timeout"


@needs_ulfm
def test_all_end_alike_where_one_cannot_put_back_what_it_had(tmp_path):
    given = {"program": BEGINNINGS, "words": ("size",), "levels": "shared", "timeout": 20}
    start = time.monotonic()
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, "--kill", "1@1", **given)
    assert ended.returncode == 3 and ended.stderr.count("beginnings: rank 2: region 'fixed' was saved") == 3, (
        ended.stderr
    )
    assert time.monotonic() - start < 15, "it took as long as the option timeout"


@needs_ulfm
def test_init_behind_loop_is_refused_beside_spares(tmp_path):
    ended = run(tmp_path, "-n", 2, "--spares", 1, "--relaunch", 0, program=BEGINNINGS, words=("init",), levels="shared")
    assert ended.returncode == 3 and ended.stderr.count("beginnings: init() was called behind loop()") == 2, (
        ended.stderr
    )


@needs_ulfm
def test_a_second_session_is_refused_where_the_spares_of_the_first_have_ended(tmp_path):
    ended = run(tmp_path, "-n", 2, "--spares", 1, "--relaunch", 0, program=BEGINNINGS, words=("sessions",))
    assert ended.returncode == 3, ended.stderr
    sentence = "beginnings: MPI_COMM_WORLD has the spares of an earlier session in it, and these take part in"
    assert ended.stderr.count(sentence) == 2, ended.stderr


@needs_ulfm
def test_a_program_in_c_goes_on(tmp_path):
    words = ("400",)
    alone = result(run(tmp_path / "a", "-n", 3, program=LOOPER, words=words, levels="memory"), "sum")
    ended = run(tmp_path / "b", "-n", 3, "--spares", 2, "--kill", "0@100,2@200", program=LOOPER, words=words, every=5)
    assert result(ended, "sum") == alone, ended.stderr
    assert "launch 2" not in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("way", ["EXITS", "READS", "QUITS", "ABORTS", "ERRS", "MPI_GIVES_UP"])
def test_a_rank_that_leaves_with_an_error_is_lost_to_the_others_and_replaced(tmp_path, monkeypatch, way):
    """The launcher tells nobody of a process that ends with a status: the others would wait for it for ever."""
    words = ("400",)
    alone = result(run(tmp_path / "a", "-n", 3, program=LOOPER, words=words, levels="memory"), "sum")
    monkeypatch.setenv(f"LOOPER_{way}", "1,150")
    if way == "READS":  # a thread of it has the lock of a file, for which exit() does not wait
        monkeypatch.setenv("LOOPER_EXITS", "1,150")
    ended = run(tmp_path / "b", "-n", 3, "--spares", 1, program=LOOPER, words=words, every=5)
    assert result(ended, "sum") == alone, ended.stderr
    how = {
        "EXITS": "with status 4",
        "READS": "with status 4",
        "QUITS": "by quick_exit",
        "ABORTS": "by MPI_Abort with code 5",
        "ERRS": "by MPI_Abort with code",
        "MPI_GIVES_UP": "as MPI gave up by itself, with code -1",
    }[way]
    assert f"this process ends {how}" in ended.stderr
    assert len(events(tmp_path / "b", "left")) == 1 and "Process received signal" not in ended.stderr
    assert "rank 1 was lost; spare 3" in ended.stderr and "launch 2" not in ended.stderr


@needs_ulfm
def test_ranks_that_wait_for_the_spares_on_mpi_comm_world_are_told_of_and_end_with_the_launch(tmp_path):
    (tmp_path / "app.py").write_text("""
import numpy as np
from mpi4py import MPI
import backstay
run = backstay.Session()
step = np.zeros(1, np.int64)
run.protect("step", step)
def body():
    run.resume()
    while step[0] < 20:
        run.checkpoint()
        if step[0] == 10 and run.comm.rank > 0: MPI.COMM_WORLD.Barrier()
        step[0] += 1
run.loop(body)
""")
    flags = ["-n", 3, "--spares", 1, "--relaunch", 0, "--hang", 8]
    ended = run(tmp_path, *flags, program=sys.executable, words=(tmp_path / "app.py",), levels="shared", timeout=2)
    assert ended.returncode != 0, ended.stderr
    assert "a rank has not come for" in ended.stderr, ended.stderr
    assert "on MPI_COMM_WORLD waits for the spares there, which do not come: use the communicator of" in ended.stderr


def test_ranks_that_compute_different_things_with_place_best_are_told_so(tmp_path):
    pytest.importorskip("mpi4py")
    (tmp_path / "app.py").write_text("""
import numpy as np
import backstay
run = backstay.Session()
u, f = np.ones(10000), np.ones(10000)
run.protect("u", u)
run.protect("f", f)
flux = run.declare("flux", reads="u", writes="f")
more = run.declare("more", reads="f", updates="u")
run.replay()
for step in range(100000):
    if run.rank == 1 and step > 20: continue
    run.compute(flux, lambda: f.fill(1))
    run.compute(more, lambda: None)
run.comm.Barrier()
""")
    flags = ["-n", 2, "--relaunch", 0, "--hang", 8, "--opt", "place=best"]
    ended = run(tmp_path, *flags, program=sys.executable, words=(tmp_path / "app.py",), levels="shared", timeout=2)
    assert ended.returncode != 0 and "a rank has not come for" in ended.stderr, ended.stderr
    assert "with place=best that is a declared computation, too: all ranks must compute the same" in ended.stderr


@needs_ulfm
def test_losses_before_the_first_was_told_of_are_both_told(tmp_path, undisturbed):
    """The spare that is rank 0 after the second one has seen no other."""
    kills = ("--kill", "2@100,0@opening")
    ended = run(tmp_path, "-n", 4, "--spares", 2, "--nodes", 6, *kills, every=5, memory__redundancy="rs(2,2)")
    assert result(ended) == undisturbed, ended.stderr
    assert [event["lost"] for event in events(tmp_path, "repair")] == [1, 1]
    assert "rank 2 was lost; spare 4" in ended.stderr and "rank 0 was lost; spare 5" in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("how", ["spares", "shrink"])
def test_a_program_in_python_goes_on_with_a_spare_or_with_fewer_ranks(tmp_path, how):
    program = of_python(tmp_path, PYTHON, every=5)
    alone = run(tmp_path / "a", "-n", 3, **program, levels="memory")
    more = {"shrink": "on"} if how == "shrink" else {}
    # A spare that stands by until the second loss finds none left in its turn.
    lost = "1@50,0@120" if how == "shrink" else "1@50"
    ended = run(tmp_path / "b", "-n", 3, "--spares", 1, "--kill", lost, **program, **more)
    assert result(ended, "sum") == result(alone, "sum"), ended.stderr
    assert result(ended, "ranks") == ("2" if how == "shrink" else "3")
    assert "launch 2" not in ended.stderr


ROLLS_BACK = """
import os, signal, sys
from pathlib import Path
import numpy as np
import backstay
from mpi4py import MPI

dies, mark = int(sys.argv[1]), Path(sys.argv[2])
with backstay.Session() as run:
    u = np.arange(1000.0) + run.rank
    state = run.state(step=0)
    run.protect("u", u)
    def body():
        run.resume()
        while state.step < 60:
            run.checkpoint()
            u[:] = 3 * u % 1009 + run.comm.allreduce(float(u[0]))
            state.step += 1
            if state.step == 30 and not mark.exists():
                run.comm.Barrier()
                if run.rank == dies:
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                run.rollback("to see what it does")
    run.loop(body)
    total = run.comm.allreduce(float(u.sum()))
    if run.rank == 0:
        print("sum", total)
"""


@needs_ulfm
@pytest.mark.parametrize("dies", [0, 2])
def test_a_rank_that_is_lost_while_the_others_roll_back_is_replaced(tmp_path, dies):
    program = of_python(tmp_path, ROLLS_BACK, every=4, levels="shared")
    (script,) = program.pop("words")
    (tmp_path / "never").touch()
    alone = run(tmp_path / "a", "-n", 3, **program, words=(script, 9, tmp_path / "never"))
    ended = run(tmp_path / "b", "-n", 3, "--spares", 1, **program, words=(script, dies, tmp_path / "mark"))
    assert result(ended, "sum") == result(alone, "sum"), ended.stderr
    assert dies == 0 or "rolled back: to see what it does" in ended.stderr, ended.stderr  # which rank 0 says
    assert f"rank {dies} was lost; spare 3" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr


THREADS = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import backstay

here = Path(sys.argv[1])
run = backstay.Session()
state = run.state(step=0)

def until(path):
    for _ in range(2000):
        if path.exists():
            return
        time.sleep(0.01)
    raise TimeoutError(path)

def ask():
    until(here / "left")
    time.sleep(0.5)  # rank 0 is in loop() by then, and waits for rank 1
    print("of", run.size, run.comm.size, flush=True)
    try:
        run.wait()
    except backstay.Error as error:
        print("refused", error, flush=True)
    print("failed", run.status().failed, flush=True)
    (here / "served").touch()

threads = [threading.Thread(target=ask)] if run.rank == 0 else []
for thread in threads:
    thread.start()
# What a callback of loop() waits for may ask the session, too.
pool = ThreadPoolExecutor(1)
run.protect("pooled", save=lambda: pool.submit(lambda: bytes([run.rank])).result(), load=lambda _: None)

def body():
    run.resume()
    while state.step < 50:
        run.checkpoint()
        state.step += 1
    if run.rank == 0:
        (here / "left").touch()
    else:
        until(here / "served")

run.loop(body)
for thread in threads:
    thread.join()
if run.rank == 0:
    print("done")
run.close()
"""


@needs_ulfm
def test_threads_of_a_program_in_python_run_while_its_loop_waits_for_others(tmp_path):
    pytest.importorskip("mpi4py")
    (tmp_path / "app.py").write_text(THREADS)
    program = {"program": sys.executable, "words": (tmp_path / "app.py", tmp_path), "levels": "shared"}
    ended = run(tmp_path, "-n", 2, "--spares", 1, "--relaunch", 0, "--kill", "1@20", every=5, **program)
    assert ended.returncode == 0 and "done" in ended.stdout, ended.stderr
    assert "refused wait() was called while another thread is in a call of this session" in ended.stdout
    assert "of 2 2" in ended.stdout and "failed 0" in ended.stdout, ended.stdout


DIES_IN_A_CAPTURE = """
import os, signal, sys
from pathlib import Path
import numpy as np
import backstay

rank, mark = int(sys.argv[1]), Path(sys.argv[2])
run = backstay.Session()
state = run.state(step=0)
before, after = np.zeros(100_000), np.zeros(100_000)
run.protect("before", before)

def save():
    if run.rank == rank and state.step >= 22 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes([run.rank, state.step])

def load(saved):
    assert saved == bytes([run.rank, state.step]), (saved, run.rank, state.step)

run.protect("between", save=save, load=load)
run.protect("after", after)

def body():
    found = run.resume()
    if run.rank == 0:
        print("line", found.line, "step", state.step, flush=True)
    while state.step < 40:
        run.checkpoint()
        assert (before == state.step).all() and (after == state.step).all()
        run.comm.Barrier()
        state.step += 1
        before[:] = after[:] = state.step

run.loop(body)
if run.rank == 0:
    print("done", state.step)
run.close()
"""


@needs_ulfm
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("level", [{"levels": "memory", "memory__redundancy": "rs(2,1)"}, {"levels": "shared"}])
def test_a_rank_that_dies_while_its_regions_are_captured_is_replaced(tmp_path, level, rank):
    """Some of the line is copied then, by it and by the others, which count on it: the one before is put back."""
    pytest.importorskip("mpi4py")
    (tmp_path / "app.py").write_text(DIES_IN_A_CAPTURE)
    program = {"program": sys.executable, "words": (tmp_path / "app.py", rank, tmp_path / "mark"), **level}
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--nodes", 4, "--relaunch", 0, every=2, **program)
    assert ended.returncode == 0 and "done 40" in ended.stdout, ended.stdout + ended.stderr
    lines = [line.split() for line in ended.stdout.splitlines() if line.startswith("line")]
    assert [line[3] for line in lines] == ["0", "21"], ended.stdout
    assert [event["lost"] for event in events(tmp_path, "repair")] == [1]


LEAVES_BEHIND = """
import os, signal, sys, threading, time
from pathlib import Path
import numpy as np
import backstay

mark = Path(sys.argv[1])
run = backstay.Session()
state = run.state(step=0)
run.protect("asks", save=lambda: b"x", load=lambda _: print("loads on", run.rank, flush=True))
bodies = 0

class Field:
    def __init__(self):
        self.values = np.zeros(10)
        run.protect("field", self.values)
    def __del__(self):  # as the exception goes that a loss left the body with
        run.unprotect("field")
        print("unprotected", flush=True)

def body():
    global bodies
    bodies += 1
    field = Field() if bodies > 1 or mark.exists() else None
    run.resume()
    if field is None:
        if run.rank == 0:
            threading.Thread(target=run.wait).start()
            time.sleep(1)
            return  # while that waits
        time.sleep(2)
        run.wait()
        time.sleep(0.5)
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    while state.step < 20:
        run.checkpoint()
        state.step += 1
        if state.step == 10 and bodies < 4:
            run.comm.Barrier()
            if run.rank == 1 and not mark.with_name("again").exists():
                mark.with_name("again").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            run.comm.Barrier()

run.loop(body)
print("done", flush=True)
run.close()
"""


@needs_ulfm
def test_what_a_body_in_python_leaves_behind_may_be_in_a_call_or_end_later(tmp_path):
    program = of_python(tmp_path, LEAVES_BEHIND, every=5, levels="shared")
    (script,) = program.pop("words")
    flags = ("-n", 2, "--spares", 2, "--relaunch", 0)
    ended = run(tmp_path, *flags, **program, words=(script, tmp_path / "mark"))
    assert ended.returncode == 0 and ended.stdout.count("done") == 2, ended.stderr
    assert "loads on 0" in ended.stdout and "unprotected" in ended.stdout, ended.stdout
    assert "Exception ignored" not in ended.stderr, ended.stderr


@needs_ulfm
def test_a_program_in_c_goes_on_with_a_spare_and_then_with_fewer_ranks(tmp_path):
    program = {"program": PLACER, "words": ("400",), "every": 5}
    alone = run(tmp_path / "a", "-n", 3, **program, levels="memory")
    ended = run(tmp_path / "b", "-n", 3, "--spares", 1, "--kill", "1@50,0@120,1@200", **program, shrink="on")
    assert result(ended, "sum") == result(alone, "sum"), ended.stderr
    assert result(alone, "ranks") == "3" and result(ended, "ranks") == "1"
    assert "launch 2" not in ended.stderr


@needs_ulfm
def test_copies_are_kept_on_the_next_node_where_the_distance_would_lead_back(tmp_path):
    program = {"program": PLACER, "words": ("400",), "every": 5}
    alone = run(tmp_path / "a", "-n", 3, **program, levels="memory")
    flags = ("-n", 3, "--spares", 1, "--nodes", 4, "--kill", "1@50,0@120,1@200")
    ended = run(tmp_path / "b", *flags, **program, shrink="on", levels="partner", partner__distance=2)
    assert result(ended, "sum") == result(alone, "sum"), ended.stderr
    assert result(ended, "ranks") == "1" and "launch 2" not in ended.stderr, ended.stderr
    said = "level partner keeps each copy on the next node from here on: the ranks are on 2 nodes now"
    assert ended.stderr.count(said) == 1, ended.stderr


LOOPS = """
import numpy as np
import backstay
from mpi4py import MPI

bodies = under_way = 0
with backstay.Session() as run:
    u = np.zeros(500000)
    run.protect("u", u)
    def body():
        global bodies
        bodies += 1
        run.resume()
        for _ in range(2):
            run.checkpoint(now=True)
    for _ in range(50):
        run.loop(body)
        under_way += run.status().in_flight
    most = [run.comm.allreduce(count, op=MPI.MAX) for count in (bodies, under_way)]
    if run.comm.rank == 0:
        print("bodies", most[0])
        print("still", most[1])
"""


@needs_ulfm
def test_no_line_is_under_way_while_all_agree_that_loop_has_ended(tmp_path):
    """Open MPI spoils agreements of a process that is inside MPI with another thread (docs/decisions/0011)."""
    program = of_python(tmp_path, LOOPS, levels="partner")
    ended = run(tmp_path / "a", "-n", 5, "--spares", 1, "--nodes", 6, **program)
    assert result(ended, "still") == "0", ended.stderr
    assert result(ended, "bodies") == "50" and " was lost" not in ended.stderr, ended.stderr
    assert not events(tmp_path / "a", "repair")


@needs_ulfm
def test_a_job_shrinks_to_one_rank_and_keeps_its_newest_line(tmp_path):
    """Two failure units carry one parity of two, and one carries none."""
    program = of_python(tmp_path, PYTHON, every=5, levels="memory")
    alone = run(tmp_path / "a", "-n", 4, **program)
    flags = ["-n", 4, "--spares", 1, "--nodes", 5, "--kill", "1@40,3@80,0@120,1@160"]
    ended = run(tmp_path / "b", *flags, **program, shrink="on", memory__redundancy="rs(2,2)")
    assert result(ended, "sum") == result(alone, "sum"), ended.stderr
    assert result(ended, "ranks") == "1" and "launch 2" not in ended.stderr
    assert "level memory has one parity from here on: it is spread over 2 failure units now" in ended.stderr
    assert "level memory has no parity from here on: it is spread over 1 failure unit now" in ended.stderr
    assert "1 rank is left, numbered anew" in ended.stderr
    told = subprocess.run([*COMMAND, "report", tmp_path / "b" / "ck", "--json"], capture_output=True, timeout=LIMIT)
    losses = [loss["how"].partition(", resumed")[0] for loss in json.loads(told.stdout)["failures"]]
    assert losses == ["replaced by spares", *3 * ["the ranks that were left went on"]]


def test_options_of_levels_that_are_not_chosen_are_said_to_do_nothing(tmp_path):
    given = {"levels": "shared", "local__redundancy": "rs(1,1)"}
    ended = run(tmp_path, "-n", 2, program=LOOPER, words=("20",), **given)
    sentence = "backstay: the option local.redundancy is given, and the option levels does not name that level"
    assert ended.returncode == 0 and ended.stderr.count(sentence) == 1, ended.stderr


@needs_ulfm
@pytest.mark.parametrize("kill", ["0@90,1@90", "0@90,1@opening"])
def test_who_gets_the_number_of_a_rank_that_was_killed_is_not_killed_in_its_place(tmp_path, kill):
    """Behind the loss of 0 and 1, with one spare, rank 2 is 1 and comes to that call once more."""
    program = {"program": PLACER, "words": ("300",), "levels": "shared", "every": 20, "shrink": "on"}
    ended = run(tmp_path, "-n", 4, "--spares", 1, "--kill", kill, **program)
    assert result(ended, "ranks") == "3" and "launch 2" not in ended.stderr, ended.stderr


@needs_ulfm
def test_shrinking_without_spares_is_said_to_do_nothing(tmp_path):
    ended = run(tmp_path, "-n", 2, program=LOOPER, words=("20",), shrink="on")
    assert ended.returncode == 0 and "the option shrink is on and spares is 0" in ended.stderr


def processor_seconds(process):
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shares_of_a_core(processes, seconds):
    """Of these, by the same keys, in the time that comes."""
    before, start = {key: processor_seconds(process) for key, process in processes.items()}, time.monotonic()
    time.sleep(seconds)
    used = {key: processor_seconds(process) - before[key] for key, process in processes.items()}
    return {key: each / (time.monotonic() - start) for key, each in used.items()}


@needs_ulfm
@pytest.mark.parametrize("levels", ["shared", "memory,local,shared"])
def test_a_spare_sleeps_while_others_work(tmp_path, levels):
    options = {"SPARES": "2", "LEVELS": levels, "EVERY": "20", "POLICY": "skip"}
    launch = kills.Launch(STEPPER, ["1000000"], tmp_path, options, processes=6)
    try:
        while b"fresh" not in os.pread(launch.out.fileno(), 10000, 0):
            assert launch.running() and launch.in_time()
            time.sleep(0.05)
        time.sleep(0.5)  # until the spares have come to where they wait
        processes = guard.rank_processes(launch.run_id)
        used = shares_of_a_core({rank: processes[rank] for rank in (0, 4, 5)}, seconds=4)
    finally:
        guard.end_all(launch.run_id)
        launch.end()
    assert used[0] > 0, "no rank works: there is nothing to compare with"
    assert max(used[4], used[5]) < 0.02, used


COMES_LATE = """
import sys, time
import backstay
from mpi4py import MPI

with backstay.Session() as run:
    state = run.state(step=0)
    if MPI.COMM_WORLD.rank == 3:  # it takes the place of a lost rank
        open(sys.argv[1], "w").close()
        time.sleep(float(sys.argv[2]))
    def body():
        run.resume()
        while state.step < 200:
            run.checkpoint()
            run.comm.Barrier()
            time.sleep(0.005)
            state.step += 1
        if run.rank == 0:
            print("steps", state.step, flush=True)
    run.loop(body)
"""


@needs_ulfm
@pytest.mark.parametrize("who", ["a spare that stands still", "a replacement on its way to loop()"])
def test_survivors_sleep_while_they_wait_in_a_repair(tmp_path, who):
    """Where they meet, and where the session opens again. Between the two they are in MPI, which polls."""
    pytest.importorskip("mpi4py")
    (tmp_path / "app.py").write_text(COMES_LATE)
    stands_still, waits = who == "a spare that stands still", 4
    words = [str(tmp_path / "app.py"), str(tmp_path / "came"), "0" if stands_still else str(waits + 2)]
    options = {"SPARES": "1", "LEVELS": "shared", "EVERY": "5", "TIMEOUT": "40"}
    launch = kills.Launch(Path(sys.executable), words, tmp_path, options, 4, LIMIT)
    while launch.running() and launch.in_time() and not kills.newest_committed(tmp_path, {"shared"}):
        time.sleep(0.01)
    processes = guard.rank_processes(launch.run_id)
    if stands_still:
        guard.send([processes[3]], signal.SIGSTOP)
    guard.send([processes[1]], signal.SIGKILL)
    while not stands_still and launch.running() and launch.in_time() and not (tmp_path / "came").exists():
        time.sleep(0.01)
    time.sleep(0.5)  # until both have come to where they wait
    used = shares_of_a_core({rank: processes[rank] for rank in (0, 2)}, waits)
    assert not any(event["event"] == "resume" for event in kills.events_of(tmp_path)), "the repair was over"
    guard.send([processes[3]], signal.SIGCONT)
    ended = launch.end()
    assert (ended.status, ended.line("steps")) == (0, ["steps", "200"]) and " was lost; spare 3" in ended.err, ended.err
    assert max(used.values()) < 0.1, used


SLOW = """
import time
import backstay

with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        run.resume()
        while state.step < 180:
            run.checkpoint()
            run.comm.Barrier()
            time.sleep(0.05)
            state.step += 1
        if run.rank == 0:
            print("steps", state.step, flush=True)
    run.loop(body)
"""


@needs_ulfm
def test_the_loss_of_a_spare_alone_ends_nothing(tmp_path):
    """Nobody comes to a repair for it, and the other spare, which knows of the loss, waits for longer than it would
    wait for ranks after the loss of one: twice the option timeout."""
    pytest.importorskip("mpi4py")
    (tmp_path / "app.py").write_text(SLOW)
    options = {"SPARES": "2", "TIMEOUT": "3", "LEVELS": "memory", "EVERY": "20"}
    launch = kills.Launch(sys.executable, [str(tmp_path / "app.py")], tmp_path, options, 4, LIMIT)
    assert kills.started(launch, tmp_path, 0)
    start = time.monotonic()
    assert launch.kill({2})
    ended = launch.end()
    assert ended.line("steps") == ["steps", "180"] and ended.status in (0, 200), ended.err
    assert time.monotonic() - start > 2 * 3 + 2, "too short to tell"
    assert not {event["event"] for event in kills.events_of(tmp_path)} & {"stuck", "repair"}


@needs_ulfm
def test_lines_that_have_vanished_from_level_shared_are_missed_behind_a_loss(tmp_path, undisturbed):
    """As where a file system was mounted anew. The job goes on from memory."""
    flags = ["-n", 4, "--spares", 1, "--levels", "memory,shared", "--opt", "memory.redundancy=rs(3,1)", "--opt",
             "memory.unit=rank", "--every", 5, "--opt", "shared.every=250", "--dir", tmp_path / "ck"]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    command = [str(word) for word in [*COMMAND, "run", *flags, "--", STEPPER, "600"]]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        ranks = {}  # looked for before there is no time to lose
        while not [event for event in events_so_far(tmp_path, "commit") if event["level"] == "shared"]:
            assert running.poll() is None
            if events_so_far(tmp_path, "commit") and not ranks:
                ranks = guard.rank_processes(events(tmp_path, "launch")[0]["run"])
            time.sleep(0.01)
        (tmp_path / "ck" / "shared").rename(tmp_path / "elsewhere")
        (tmp_path / "ck" / "shared").mkdir()
        guard.send([ranks[1]], signal.SIGKILL)
        try:
            out, err = running.communicate(timeout=LIMIT)
        finally:
            running.kill()
    assert f"hash {undisturbed}" in out and running.returncode == 0, out + err
    assert err.count("was whole at level shared and is not there any more") == 1 and "launch 2" not in err, err


ON_ITS_OWN = """
import os, sys, time
import numpy as np
import backstay
u = np.zeros(3)
with backstay.Session(comm=False, every=1, **dict([sys.argv[1].split("=")])) as session:
    session.protect("u", u)
    session.resume()
    begin = u[0]
    while u[0] < 24:
        u += 1
        session.checkpoint()
        time.sleep(0.2)
        if u[0] == begin + 10:
            session.wait()
            os._exit(7)
print("u", u[0], flush=True)
"""


@pytest.mark.parametrize("option", ["name=a", "name=a/b/c", "dir=elsewhere"])
def test_sessions_that_have_their_directory_from_the_program_are_looked_at(tmp_path, option, monkeypatch):
    """Their lines are progress and no hang; what became of them is in the report, and who else has them is told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(ON_ITS_OWN)
    job = {"program": sys.executable, "words": ("program.py", option)}
    ended = run(tmp_path, "-n", 1, "--hang", 1.5, **job)
    assert result(ended, "u") == "24.0"
    assert len(events(tmp_path, "launch")) == 3 and not events(tmp_path, "hang"), ended.stderr
    assert "2 failures: the job stood still" in ended.stderr, ended.stderr
    place = tmp_path / "elsewhere" if option.startswith("dir") else tmp_path / "ck" / option.removeprefix("name=")
    with open(place / "lock", "r+") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        ended = run(tmp_path, "-n", 1, **job)
    assert f"backstay: {place} is in use by another job" in ended.stderr, ended.stderr


@needs_ulfm
def test_a_lock_that_outlives_who_was_lost_is_waited_for(tmp_path, monkeypatch):
    """As the server of a file system keeps it for a while where a node is gone."""
    program = {"program": LOOPER, "words": ("200",), "levels": "shared", "every": 5}
    alone = result(run(tmp_path / "a", "-n", 4, **program), "sum")
    monkeypatch.setenv("LOOPER_LOCKS", "0,3")
    ended = run(tmp_path / "b", "-n", 4, "--spares", 1, "--kill", "0@100", "--relaunch", 0, **program)
    assert "is still that of who was lost" in ended.stderr, ended.stderr
    assert result(ended, "sum") == alone and "rank 0 was lost; spare 4" in ended.stderr, ended.stderr


@needs_ulfm
def test_what_the_body_makes_before_it_resumes_stays_where_no_line_is_whole_yet(tmp_path, monkeypatch):
    program = {"program": LOOPER, "words": ("12",), "levels": "shared", "every": 5}
    without = result(run(tmp_path / "0", "-n", 4, **program), "sum")
    monkeypatch.setenv("LOOPER_STARTS", "1")
    alone = result(run(tmp_path / "a", "-n", 4, **program), "sum")
    ended = run(tmp_path / "b", "-n", 4, "--spares", 1, "--kill", "1@1", **program)
    assert "back to where loop() began" in ended.stderr and "launch 2" not in ended.stderr
    assert result(ended, "sum") == alone != without, ended.stderr


@needs_ulfm
@pytest.mark.parametrize("how", ['raise ValueError("boom")', "sys.exit(3)"])
def test_a_rank_of_a_program_in_python_that_raises_is_replaced(tmp_path, how):
    me = f'if os.environ["OMPI_COMM_WORLD_RANK"] == "1" and state.step == 80: {how}'
    text = "import os" + PYTHON.replace("run.checkpoint()\n", f"run.checkpoint()\n            {me}\n")
    program = of_python(tmp_path, text, every=5)
    ended = run(tmp_path, "-n", 3, "--spares", 1, **program)
    assert "rank 1 was lost; spare 3" in ended.stderr and "launch 2" not in ended.stderr
    assert result(ended, "ranks") == "3"


@needs_ulfm
def test_a_node_that_was_not_killed_keeps_its_directory_where_another_loss_was_repaired(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPER_EXITS", "0,50")
    given = {"program": LOOPER, "words": ("100",), "levels": "local", "local__redundancy": "rs(2,1)", "every": 5}
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--nodes", 4, "--kill", "node1@1000000", **given)
    assert "sum" in ended.stdout and "together again" in ended.stderr, ended.stderr
    assert "was removed" not in ended.stderr and (tmp_path / "ck" / "node-1" / "local").exists()


@needs_ulfm
@pytest.mark.parametrize("call", [0, 3, 6, 12], ids=["duplicate", "agree", "muster", "workers"])
def test_the_others_say_what_a_loss_means_while_the_session_opens(tmp_path, call):
    """At call 12 the crew is there, which repairs it; before, each that meets it ends by a sentence, not by MPI."""
    died = {"DYING_PROCESS": "1", "DYING_CALL": str(call), "DYING_ONCE": str(tmp_path / "died")}
    script = tmp_path / "dying"
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in died.items())
    library = shlex.quote(str(BUILD / "libdying_mpi.so"))
    script.write_text(f'#!/bin/sh\n{given} LD_PRELOAD={library} exec {shlex.quote(str(STEPPER))} "$@"\n')
    script.chmod(0o755)
    ended = run(
        tmp_path, *("-n", 3, "--spares", 1, "--nodes", 4), program=script, words=("60",), levels="memory",
        memory__redundancy="rs(2,1)",
    )  # fmt: skip
    assert (tmp_path / "died").exists()
    assert result(ended), ended.stderr
    assert "MPI_ERRORS_ARE_FATAL" not in ended.stderr, ended.stderr
    said = "a process was lost while the session was opened, before losses can be repaired: start the job again"
    if call < 12:
        assert said in ended.stderr and "launch 2" in ended.stderr, ended.stderr
    else:
        assert "spare 3 (node 3) is rank 1 now" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr


@needs_ulfm
@pytest.mark.parametrize("kill", ["0@30", "0@30,0@repair", "0@30,0@opening"])
def test_lines_of_ranks_that_are_all_lost_are_found_by_the_next_launch(tmp_path, kill):
    """Spares on other nodes do not see them, and would begin anew beside them."""
    more = {"words": ("60",), "levels": "local", "every": 10}
    plain = result(run(tmp_path / "a", "-n", 1, **more))
    ended = run(tmp_path / "b", *("-n", 1, "--spares", 2, "--nodes", 3, "--kill", kill), **more)
    assert result(ended) == plain
    assert "all ranks were lost, and those that took their places find no line on their nodes" in ended.stderr
    assert len(events(tmp_path / "b", "fresh")) == 1 and "resumed from line" in ended.stderr, ended.stderr


@needs_ulfm
def test_what_memory_held_of_ranks_that_are_all_lost_is_begun_anew(tmp_path):
    more = {"words": ("60",), "levels": "memory", "every": 10}
    plain = result(run(tmp_path / "a", "-n", 1, **more))
    ended = run(tmp_path / "b", *("-n", 1, "--spares", 1, "--nodes", 2, "--kill", "0@30"), **more)
    assert result(ended) == plain and "launch 2" not in ended.stderr
    assert "all ranks were lost, and with them what level memory held" in ended.stderr
    more |= {"levels": "shared"}  # which has no line yet
    ended = run(tmp_path / "c", *("-n", 1, "--spares", 1, "--nodes", 2, "--kill", "0@5"), **more)
    assert result(ended) == plain and "launch 2" not in ended.stderr and "level memory" not in ended.stderr


@needs_ulfm
def test_a_spare_that_could_not_write_on_its_node_is_told_at_the_start(tmp_path):
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck" / "node-3").touch()
    ended = run(tmp_path, *("-n", 2, "--spares", 2, "--nodes", 4, "--relaunch", 0), levels="partner")
    assert ended.returncode != 0 and "no checkpoint" not in ended.stderr
    assert "rank 3: " in ended.stderr and "node-3 is not a directory; choose another name" in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("spares", [2, 1])
def test_another_spare_takes_the_place_of_one_whose_disk_is_full(tmp_path, monkeypatch, spares):
    """Which is seen when what its rank had is rebuilt there. The last spare stays, and says what to do."""
    more = {"words": ("300",), "levels": "local", "local__redundancy": "rs(2,1)", "every": 10}
    plain = result(run(tmp_path / "a", "-n", 3, "--nodes", 3, **more))
    full = tmp_path / "b" / "ck" / "node-3" / "local"
    faulty = {"UNDER": full, "RANK": 3, "KIND": "enospc", "FROM": 0, "COUNT": 1 << 30}
    with monkeypatch.context() as faults:
        faults.setenv("LD_PRELOAD", str(BUILD / "libfaulty_system.so"))
        for name, value in faulty.items():
            faults.setenv(f"FAULTY_{name}", str(value))
        flags = ["-n", 3, "--spares", spares, "--nodes", 3 + spares, "--kill", "1@200", "--relaunch", 0]
        ended = run(tmp_path / "b", *flags, **more)
    sentence = "a spare on node 3 ends where it was to take a place, so that another one does: "
    if spares == 2:
        assert result(ended) == plain, ended.stderr
        assert sentence in ended.stderr and "rank 1 was lost; spare 4" in ended.stderr, ended.stderr
        return
    assert ended.returncode != 0 and sentence not in ended.stderr, ended.stderr
    assert "make room where it could not be written, and start the job again: it goes on from there" in ended.stderr
    again = run(tmp_path / "b", "-n", 3, "--nodes", 3, **more)
    assert result(again) == plain and "resumed from line" in again.stderr, again.stderr


@needs_ulfm
def test_a_full_disk_of_a_spare_is_seen_also_where_others_could_keep_what_is_rebuilt(tmp_path, monkeypatch):
    """Ranks of another parity group, whose nodes have none of its members either."""
    more = {"words": ("300",), "levels": "local", "local__redundancy": "rs(2,1)", "every": 10}
    full = tmp_path / "ck" / "node-6" / "local"
    monkeypatch.setenv("LD_PRELOAD", str(BUILD / "libfaulty_system.so"))
    for name, value in {"UNDER": full, "RANK": 6, "KIND": "enospc", "FROM": 0, "COUNT": 1 << 30}.items():
        monkeypatch.setenv(f"FAULTY_{name}", str(value))
    ended = run(tmp_path, *("-n", 6, "--spares", 2, "--nodes", 8, "--kill", "1@200", "--relaunch", 0), **more)
    assert ended.returncode == 0 and "a spare on node 6 ends where it was to take a place" in ended.stderr, ended.stderr
    assert "rank 1 was lost; spare 7" in ended.stderr and not events(tmp_path, "failed"), ended.stderr


@needs_ulfm
def test_another_spare_takes_the_place_of_one_that_cannot_write_any_more(tmp_path):
    more = {"words": ("3000",), "levels": "local", "local__redundancy": "rs(2,1)", "every": 100}
    plain = result(run(tmp_path / "a", "-n", 3, "--nodes", 3, **more))
    node = tmp_path / "b" / "ck" / "node-3"

    def spoil():
        while not (tmp_path / "b" / "ck" / "events.jsonl").exists() or not events(tmp_path / "b", "fresh"):
            time.sleep(0.01)
        shutil.rmtree(node)
        node.touch()

    spoiler = threading.Thread(target=spoil, daemon=True)
    spoiler.start()
    ended = run(tmp_path / "b", *("-n", 3, "--spares", 2, "--nodes", 5, "--kill", "1@2000"), **more)
    spoiler.join(10)
    assert result(ended) == plain and "launch 2" not in ended.stderr, ended.stderr
    assert "a spare on node 3 ends where it was to take a place, so that another one does: " in ended.stderr
    assert "spare 4 (node 4) is rank 1 now" in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("disk", ["that is read-only", "that is gone"])
def test_a_node_that_lives_with_a_disk_that_does_not_keeps_no_other_loss_from_being_repaired(
    tmp_path, monkeypatch, disk
):
    """What can be read there still counts: without level shared it has the only lines."""
    more = {"words": ("3000",), "every": 100, "levels": "local", "local__redundancy": "rs(2,1)"}
    if disk == "that is gone":
        more |= {"levels": "local,shared", "shared__every": 500}
    plain = result(run(tmp_path / "a", "-n", 3, "--nodes", 3, **more))
    node = tmp_path / "b" / "ck" / "node-0"
    faulty = {"UNDER": node, "RANK": 0, "KIND": "erofs", "FROM": 300, "COUNT": 1 << 30}

    def spoil():
        while not any(event["level"] == "shared" for event in events_so_far(tmp_path / "b", "commit")):
            time.sleep(0.01)
        shutil.rmtree(node)
        node.touch()

    spoiler = threading.Thread(target=spoil, daemon=True)
    with monkeypatch.context() as faults:
        if disk == "that is gone":
            spoiler.start()
        else:
            faults.setenv("LD_PRELOAD", str(BUILD / "libfaulty_system.so"))
            for name, value in faulty.items():
                faults.setenv(f"FAULTY_{name}", str(value))
        ended = run(tmp_path / "b", *("-n", 3, "--spares", 1, "--nodes", 4, "--kill", "1@2500"), **more)
    assert result(ended) == plain and "launch 2" not in ended.stderr, ended.stderr
    assert "spare 3 (node 3) is rank 1 now" in ended.stderr, ended.stderr
    assert "level local: rank 0: " in ended.stderr, ended.stderr
    assert "; the job goes on without what cannot be read or written there" in ended.stderr, ended.stderr
    level = "shared" if disk == "that is gone" else "local"
    assert re.search(rf"resumed from line \d+ at level {level}", ended.stderr), ended.stderr


@needs_ulfm
def test_a_body_without_resume_is_told_so(tmp_path):
    more = of_python(tmp_path, PYTHON.replace("        run.resume()\n", ""))
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, "--kill", "1@50", **more)
    assert ended.returncode != 0
    assert "a rank was replaced, and checkpoint() was called before resume()" in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("spares", [0, 1])
def test_partitioned_communication_is_refused_beside_spares_for_which_it_would_wait(tmp_path, spares):
    words = {"program": THROWER, "words": ("-1", "partitioned"), "levels": "shared"}
    ended = run(tmp_path, "-n", 2, "--spares", spares, "--relaunch", 0, **words)
    refused = "partitioned communication cannot be used in a job with spares" in ended.stderr
    assert (ended.returncode == 0, refused) == (spares == 0, spares > 0), ended.stderr


@needs_ulfm
@pytest.mark.parametrize("levels", ["memory", "memory,shared"])
def test_spares_beside_levels_that_keep_nothing_of_a_lost_rank_are_told_so(tmp_path, levels):
    ended = run(tmp_path, "-n", 2, "--spares", 1, program=LOOPER, words=("20",), levels=levels)
    assert ended.returncode == 0
    assert ("after a loss all begin anew" in ended.stderr) == (levels == "memory")


def test_more_spares_than_processes_are_refused(tmp_path):
    ended = by_mpirun(2, STEPPER, 10, spares=2, dir=tmp_path / "ck")
    assert ended.returncode != 0
    assert "the option spares is 2 and the job has 2 processes: at least one must work" in ended.stderr


def test_an_mpi_that_survives_no_loss_does_all_else_and_it_is_said_once(tmp_path, undisturbed):
    """Any that is no Open MPI 5, and that without --with-ft ulfm."""
    given = {"dir": tmp_path / "ck", "levels": "shared", "every": 50, "policy": "wait"}
    for spares in (0, 1, 1):
        ended = by_mpirun(4 + spares, STEPPER, 600, spares=spares, **given)
        assert result(ended) == undisturbed
        assert ended.stderr.count("this MPI cannot go on after the loss of a rank") == spares, ended.stderr
    assert "resumed from line" in ended.stderr


def test_where_no_loss_is_survived_an_error_gets_out_of_loop_and_ends_the_job(tmp_path):
    ended = by_mpirun(3, THROWER, 5, dir=tmp_path / "ck", levels="memory", every=2, spares=1, timeout=20)
    assert ended.returncode != 0
    assert ended.stderr.count("thrower: the sums are wrong") == 2, ended.stderr
    assert "option timeout" not in ended.stderr and "was lost" not in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("who", ["session", "mpi"], ids=["a_session_starts", "the_program_starts"])
@pytest.mark.parametrize("wish", ["", "1"], ids=["unless_told_otherwise", "as_wished"])
def test_agreements_go_along_a_star(tmp_path, monkeypatch, who, wish):
    """In a tree they may not end where two processes die one close behind the other (decision 11)."""
    variable, star, tree = "coll_ftagree_era_topology", "3", "1"
    monkeypatch.delenv(f"OMPI_MCA_{variable}", raising=False)
    if wish:
        monkeypatch.setenv(f"OMPI_MCA_{variable}", wish)
    ended = run(tmp_path, "-n", 2, "--spares", 1, program=SETTINGS_OF_MPI, words=(who, variable), levels="memory")
    assert result(ended, variable) == (wish or star)
    ended = by_mpirun(3, SETTINGS_OF_MPI, who, variable, dir=tmp_path / "by_mpirun", levels="memory", spares=1)
    assert result(ended, variable) == (wish or (star if who == "session" else tree))


@needs_ulfm
def test_random_kills_apart_end_bit_identical_or_for_a_stated_reason(capsys):
    status = repairs.main(["--runs", "8", "--steps", "1000", "--seed", "11", "--apart", "1"])
    assert status == 0, capsys.readouterr().err


@needs_ulfm
def test_random_kills_in_repairs_end_bit_identical_or_for_a_stated_reason(capsys):
    status = repairs.main(["--runs", "10", "--steps", "600", "--seed", "11", "--close", "0.34"])
    assert status == 0, capsys.readouterr().err
