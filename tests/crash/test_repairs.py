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
from backstay.mpirun import find

BUILD = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", kills.ROOT / "build" / "dev")) / "tests" / "crash"
STEPPER, LOOPER, THROWER = BUILD / "stepper", BUILD / "looper", BUILD / "thrower"
BEGINNINGS, MAKINGS = BUILD / "beginnings", BUILD / "makings"
PLACER, SETTINGS_OF_MPI = BUILD / "placer", BUILD / "settings_of_mpi"
LATE_MESSAGES = BUILD / "late_messages"
COMMAND = shlex.split(
    os.environ.get("COMMAND_OF_BACKSTAY", f'{sys.executable} -c "from backstay.cli import main; exit(main())"')
)
MPIRUN = shutil.which("mpirun")
LIMIT = 60  # seconds for one job; it needs a few

needs_ulfm = pytest.mark.skipif(
    MPIRUN is None or find(MPIRUN, 2).kind != "openmpi", reason="this MPI cannot go on after the loss of a rank"
)


def run(directory, *arguments, program=STEPPER, words=("600",), **options):
    """`backstay run`, and its end. Options of the library are keywords: memory__every for memory.every."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    given = {"policy": "wait", "timeout": "30", **options}
    opts = [word for name, value in given.items() for word in ("--opt", f"{name.replace('__', '.')}={value}")]
    command = [*COMMAND, "run", "--dir", directory / "ck", *opts, *arguments, "--", program, *words]
    return subprocess.run(
        [str(word) for word in command], env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )


def by_racks(directory):
    """stepper, started with the racks of 5 nodes in the variable RACK."""
    script = directory / "by_racks"
    rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
    script.write_text(f'#!/bin/sh\nRACK=rack-$(({rank} / 2)) exec {shlex.quote(str(STEPPER))} "$@"\n')
    script.chmod(0o755)
    return script


def result(ended, word="hash"):
    lines = [line.split() for line in ended.stdout.splitlines()]
    found = [line[1] for line in lines if line[:1] == [word]]
    assert ended.returncode == 0 and len(found) == 1, ended.stdout + ended.stderr
    return found[0]


def events(directory, kind):
    lines = (directory / "ck" / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def events_so_far(directory, kind):
    return events(directory, kind) if (directory / "ck" / "events.jsonl").exists() else []


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The hash of four ranks that nothing happens to."""
    return result(run(tmp_path_factory.mktemp("undisturbed"), "-n", 4, levels="memory", every=1000000))


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
@pytest.mark.parametrize("how", ["idup", "split", "group"])
def test_a_loss_wakes_who_waits_in_a_communicator_whose_making_nobody_saw(tmp_path, how):
    """Ranks 2 and 3 talk to each other alone, and have lost nobody."""
    program = {"program": THROWER, "words": ("-1", how), "levels": "memory"}
    alone = result(run(tmp_path / "a", "-n", 4, **program), "sum")
    start = time.monotonic()
    ended = run(tmp_path / "b", "-n", 4, "--spares", 2, "--nodes", 6, "--kill", "1@5,2@9", **program, every=2,
                memory__redundancy="rs(2,1)")  # fmt: skip
    assert result(ended, "sum") == alone, ended.stderr
    assert ended.stderr.count("together again") == 2 and "launch 2" not in ended.stderr, ended.stderr
    assert time.monotonic() - start < 20, "it took as long as the option timeout"


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
@pytest.mark.parametrize("how", ["destructor", "noexcept"])
def test_a_loss_met_where_no_exception_gets_out_is_repaired(tmp_path, how):
    program = {"program": THROWER, "words": ("-1", how), "levels": "memory"}
    alone = result(run(tmp_path / "a", "-n", 4, **program), "sum")
    for seed in range(3):
        flags = ("-n", 4, "--spares", 1, "--nodes", 5, "--kill", f"1@{5 + seed}")
        ended = run(tmp_path / f"b{seed}", *flags, **program, every=2, memory__redundancy="rs(2,1)")
        assert result(ended, "sum") == alone, ended.stderr
        assert "rank 1 was lost; spare 4" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr


@needs_ulfm
def test_a_program_that_wants_error_codes_of_mpi_is_repaired_too(tmp_path, monkeypatch):
    """It replaces the error handler of the communicator that it is given."""
    monkeypatch.setenv("LOOPER_ERRORS", "1")
    program = {"program": LOOPER, "words": ("400",)}
    alone = result(run(tmp_path / "a", "-n", 4, **program, levels="memory"), "sum")
    for seed in range(3):
        flags = ("-n", 4, "--spares", 1, "--kill", f"1@{60 + seed}")
        ended = run(tmp_path / f"b{seed}", *flags, **program, levels="shared", every=5)
        assert result(ended, "sum") == alone, ended.stderr
        assert "rank 1 was lost; spare 4" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr


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


STEPS = """
with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        run.resume()
        while state.step < 50:
            run.checkpoint()
            state.step += 1
            run.comm.Barrier()
    run.loop(body)
"""
AFTER_LOOP = f"""
import sys, time
import backstay
from mpi4py import MPI
{STEPS}    if run.rank == 1:
        {{leaves}}
    time.sleep(0.5)
"""


@needs_ulfm
def test_a_process_that_is_lost_before_its_session_is_open_ends_the_launch(tmp_path):
    """The others wait for it in MPI_Init, which nothing ends; the third launch has it."""
    (tmp_path / "app.py").write_text(f"""
import os, signal, time
for died in ({str(tmp_path / "once")!r}, {str(tmp_path / "twice")!r}):
    if os.environ["OMPI_COMM_WORLD_RANK"] != "1" or os.path.exists(died):
        continue
    open(died, "w").close()
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
import backstay
with backstay.Session() as run:
    run.checkpoint(now=True)
""")
    ended = run(tmp_path, "-n", 3, "--spares", 1, program=sys.executable, words=(tmp_path / "app.py",), timeout=5)
    assert ended.returncode == 0 and "launch 3" in ended.stderr, ended.stderr
    assert ended.stderr.count("a process was lost before the session was open") == 2, ended.stderr
    assert "the launcher says" not in ended.stderr


@needs_ulfm
def test_a_process_that_is_lost_before_it_was_seen_ends_the_launch_on_simulated_nodes(tmp_path):
    """Where the nodes are simulated it cannot be on another machine."""
    died = tmp_path / "died"
    app = tmp_path / "app.sh"
    app.write_text(f"""#!/bin/sh
if [ "$OMPI_COMM_WORLD_RANK" = 1 ] && [ ! -e {died} ]; then : > {died}; kill -9 $$; fi
exec {sys.executable} -c 'import backstay
with backstay.Session() as run: run.checkpoint(now=True)'
""")
    app.chmod(0o755)
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--nodes", 4, program=app, words=(), timeout=5)
    assert ended.returncode == 0 and "launch 2" in ended.stderr, ended.stderr
    assert "a process was lost before the session was open" in ended.stderr


@needs_ulfm
@pytest.mark.parametrize(
    ("leaves", "status"), [("raise ValueError", 1), ("sys.exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 1)]
)
def test_a_rank_that_is_lost_after_loop_ends_the_job(tmp_path, leaves, status):
    """The others would wait in MPI_Finalize, which is mpi4py's here, for the spare, which leaves without it."""
    (tmp_path / "app.py").write_text(AFTER_LOOP.format(leaves=leaves))
    words = (sys.executable, tmp_path / "app.py")
    ended = run(
        tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, program=words[0], words=words[1:], every=5, timeout=5
    )
    assert ended.returncode == status, ended.stderr
    assert "rank 1 was lost after the end of loop()" in ended.stderr


@needs_ulfm
@pytest.mark.parametrize("ends", ["in main", "in its exit"])
def test_a_rank_that_is_lost_when_the_others_have_waited_for_it_in_vain_has_not_ended_its_session(
    tmp_path, monkeypatch, ends
):
    """They are at the end of MPI by then."""
    monkeypatch.setenv("LOOPER_TARRIES", "1,8")
    if ends == "in its exit":
        monkeypatch.setenv("LOOPER_CLOSES_AT_EXIT", "1")
    flags = ("-n", 3, "--spares", 1, "--kill", "0@20", "--relaunch", 0)
    ended = run(tmp_path, *flags, program=LOOPER, words=("50",), levels="shared", every=5, timeout=2)
    assert "rank 1 was lost before it came to the end of MPI: what it still had to do is not done" in ended.stderr
    assert ended.returncode == 1 and "the job is done" not in ended.stderr, ended.stderr


@needs_ulfm
@pytest.mark.parametrize("spares", [0, 1])
def test_a_session_that_is_closed_in_the_exit_of_the_program_ends_as_another(tmp_path, monkeypatch, spares):
    """What each thread has of its own is gone by then."""
    monkeypatch.setenv("LOOPER_CLOSES_AT_EXIT", "1")
    flags = ("-n", 2, "--spares", spares, "--relaunch", 0)
    ended = run(tmp_path, *flags, program=LOOPER, words=("50",), levels="shared", every=5, timeout=20)
    assert ended.returncode == 0 and "signal" not in ended.stderr.lower(), ended.stderr
    assert ended.stdout.count("closed") == 2 and "the job is done" in ended.stderr, ended


@needs_ulfm
@pytest.mark.parametrize("spares", [0, 1])
def test_a_signal_behind_the_last_checkpoint_ends_the_job_with_it(tmp_path, monkeypatch, spares):
    """Each process ends by it behind its session: what the program still had to do is not done."""
    monkeypatch.setenv("LOOPER_RAISES", "1")
    monkeypatch.setenv("LOOPER_LAST_WORDS", "1")
    flags = ("-n", 2, "--spares", spares, "--relaunch", 0)
    ended = run(tmp_path, *flags, program=LOOPER, words=("50",), levels="shared", every=1000, timeout=20)
    assert ended.returncode == 143 and "the job is done" not in ended.stderr, ended.stderr
    assert ended.stdout.count("last words") == spares, "those of ranks come behind their sessions"


@needs_ulfm
@pytest.mark.parametrize(("way", "code"), [("ABORTS", 0), ("ABORTS", 256), ("ABORTS", 3), ("EXITS", 0), ("EXITS", 256)])
def test_a_job_that_is_given_up_is_not_done_whatever_its_code(tmp_path, monkeypatch, way, code):
    """A status has eight bits."""
    monkeypatch.setenv(f"LOOPER_{way}", "1,60")
    monkeypatch.setenv("LOOPER_CODE", str(code))
    flags = ("-n", 2, "--spares", 1, "--kill", "0@20", "--relaunch", 0)
    ended = run(tmp_path, *flags, program=LOOPER, words=("100",), levels="shared", every=5, timeout=20)
    expected = {3} if code == 3 else {1, 3}  # the one that is left says that nobody takes the place
    assert ended.returncode in expected and "the job is done" not in ended.stderr, ended.stderr


BEHIND = f"""
import atexit, os, sys, time
import mpi4py
if sys.argv[1] == "finalizes in its exit":
    mpi4py.rc.finalize = False
from mpi4py import MPI
if sys.argv[1] == "finalizes in its exit":
    atexit.register(MPI.Finalize)
import backstay
{STEPS}
if sys.argv[1] == "finalizes":
    MPI.Finalize()
    time.sleep(5)
    print("worked on", flush=True)
if sys.argv[1] == "raises":
    atexit.register(print, "worked on", flush=True)
    MPI.Finalize()
    raise ValueError
if sys.argv[1] == "dies":
    time.sleep(1)
    os.kill(os.getpid(), 9)
"""


@needs_ulfm
@pytest.mark.parametrize("how", ["finalizes", "finalizes in its exit", "raises", "dies"])
def test_behind_the_session_a_program_in_python_may_end_mpi_itself_and_must_not_die(tmp_path, how):
    """All die there, so that nobody is left to say so."""
    (tmp_path / "app.py").write_text(BEHIND)
    words = (sys.executable, tmp_path / "app.py", how)
    flags = ("-n", 2, "--spares", 1, "--relaunch", 0)
    ended = run(tmp_path, *flags, program=words[0], words=words[1:], levels="shared", every=5, timeout=2)
    is_well = how not in {"dies", "raises"}
    assert (ended.returncode, "the job is done" in ended.stderr) == ((0, True) if is_well else (1, False)), ended
    assert ended.stdout.count("worked on") == (2 if how in {"finalizes", "raises"} else 0)
    assert "before MPI_Finalize" not in ended.stderr


@needs_ulfm
def test_a_signal_behind_the_last_checkpoint_ends_no_program_that_an_exception_leaves_its_session_by(
    tmp_path, monkeypatch
):
    """It catches that, and ends as it likes."""
    monkeypatch.setenv("THROWER_RAISES", "1")
    flags = ("-n", 2, "--spares", 1, "--relaunch", 0)
    ended = run(tmp_path, *flags, program=THROWER, words=("15",), levels="memory", every=100, timeout=20)
    assert ended.returncode == 3 and "status 143" not in ended.stderr, ended.stderr


PUBLISHES = f"""
import atexit, sys, time
from pathlib import Path

def publish():  # behind all that those register who are imported later
    time.sleep(6)
    Path(sys.argv[1], f"published-{{rank}}").touch()

atexit.register(publish)
import backstay
{STEPS}    rank = run.rank
"""


@needs_ulfm
def test_the_exit_of_python_may_take_longer_than_the_timeout(tmp_path):
    """It is not the end of MPI, which all have to come to together."""
    (tmp_path / "app.py").write_text(PUBLISHES)
    words = (sys.executable, tmp_path / "app.py", tmp_path)
    flags = ("-n", 2, "--spares", 1, "--relaunch", 0)
    ended = run(tmp_path, *flags, program=words[0], words=words[1:], levels="shared", every=5, timeout=2)
    assert ended.returncode == 0 and "the job is done" in ended.stderr, ended.stderr
    assert len(list(tmp_path.glob("published-*"))) == 2, ended.stderr


@needs_ulfm
def test_a_rank_that_is_lost_after_loop_is_no_end_of_the_job_where_no_spare_is_left(tmp_path, monkeypatch):
    """The others end their sessions and the program, whose own status is 0."""
    monkeypatch.setenv("LOOPER_LEAVES", str(tmp_path / "died"))
    flags = ("-n", 3, "--spares", 1, "--kill", "0@20")
    ended = run(tmp_path, *flags, program=LOOPER, words=("50",), levels="shared", every=5, timeout=5)
    assert ended.returncode == 0 and (tmp_path / "died").exists(), ended.stderr
    assert "rank 1 was lost after the end of loop(): what was still to be done there is not done" in ended.stderr
    assert [launch["status"] == 0 for launch in events(tmp_path, "exit")] == [False, True], ended.stderr
    assert len(events(tmp_path, "end")) == 1


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
def test_the_status_of_processes_that_leave_is_that_of_the_job(tmp_path, monkeypatch):
    """To the launcher they were ended by a signal."""
    monkeypatch.setenv("LOOPER_EXITS", "-1,150")
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, program=LOOPER, words=("400",), every=5)
    assert ended.returncode == 4, ended.stderr


@needs_ulfm
@pytest.mark.parametrize("every", [1, 5], ids=["others_are_at_a_checkpoint", "others_are_in_mpi"])
def test_a_rank_whose_body_returns_an_error_and_that_closes_its_session_is_replaced(tmp_path, monkeypatch, every):
    """The others wait for it in a checkpoint or in MPI, it would wait for them in close()."""
    words = ("400",)
    alone = result(run(tmp_path / "a", "-n", 3, program=LOOPER, words=words, levels="memory"), "sum")
    monkeypatch.setenv("LOOPER_RETURNS", "1,150")
    ended = run(tmp_path / "b", "-n", 3, "--spares", 1, program=LOOPER, words=words, every=every, timeout=3)
    assert result(ended, "sum") == alone, ended.stderr
    assert "looper: loop: the body of backstay_loop returned 9" in ended.stderr
    assert "this rank left loop() by an error, and not all others came" in ended.stderr
    assert "rank 1 was lost; spare 3" in ended.stderr and "launch 2" not in ended.stderr


@needs_ulfm
def test_an_error_of_all_ranks_ends_the_job_with_its_status(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPER_RETURNS", "-1,150")
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, program=LOOPER, words=("400",), every=5)
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.count("looper: loop: the body of backstay_loop returned 9") == 3
    assert "lost" not in ended.stderr


@pytest.mark.parametrize("kills", [(), ("--kill", "1@6"), ("--kill", "1@6,0@9")], ids=["0", "1", "2"])
def test_an_error_that_all_ranks_throw_out_of_a_session_ends_the_job_with_its_status(tmp_path, kills):
    """While it is thrown a rank cannot know that the others come to the end: it meets them, and the spares, there."""
    if kills and find(MPIRUN, 2).kind != "openmpi":
        pytest.skip("this MPI cannot go on after the loss of a rank")
    options = {"program": THROWER, "words": ("15",), "every": 2, "levels": "memory", "timeout": "20"}
    options["memory__redundancy"] = "rs(1,1)"
    ended = run(tmp_path, "-n", 2, "--spares", 2, "--nodes", 4, "--relaunch", 0, *kills, **options)
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.count("now; together again after") == (kills[1].count("@") if kills else 0)
    assert "option timeout" not in ended.stderr


@needs_ulfm
def test_losses_before_the_first_was_told_of_are_both_told(tmp_path, undisturbed):
    """The spare that is rank 0 after the second one has seen no other."""
    kills = ("--kill", "2@100,0@opening")
    ended = run(tmp_path, "-n", 4, "--spares", 2, "--nodes", 6, *kills, every=5, memory__redundancy="rs(2,2)")
    assert result(ended) == undisturbed, ended.stderr
    assert [event["lost"] for event in events(tmp_path, "repair")] == [1, 1]
    assert "rank 2 was lost; spare 4" in ended.stderr and "rank 0 was lost; spare 5" in ended.stderr


@needs_ulfm
def test_a_spare_with_a_place_and_no_session_yet_says_why_the_job_ends(tmp_path):
    """It is the only one left."""
    kills = ("--kill", "0@100,1@opening")
    ended = run(tmp_path, "-n", 2, "--spares", 1, "--nodes", 3, "--relaunch", 0, *kills, every=5, levels="memory")
    assert ended.returncode == 3, ended.stderr
    assert "backstay: rank 1 was lost, and no spare is left to take the place" in ended.stderr
    assert "Segmentation" not in ended.stderr


@needs_ulfm
def test_calls_behind_a_loss_that_nobody_could_repair_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPER_GOES_ON", "1")
    options = {"program": LOOPER, "words": ("300",), "levels": "memory,shared", "memory__redundancy": "rs(2,1)"}
    flags = ("-n", 4, "--spares", 1, "--nodes", 5, "--kill", "1@100,3@200", "--relaunch", 0)
    ended = run(tmp_path, *flags, every=5, **options)
    assert ended.returncode == 3 and "signal" not in ended.stderr, ended.stderr
    codes = "looper: codes" + 18 * " 16" + "; status 0, "
    said = [line for line in ended.stderr.splitlines() if codes in line]
    assert len(said) == 3, ended.stderr
    for line in said:
        assert " 0 taken" not in line and ", 0 in flight; wait() was called behind the end of the session: " in line
        assert "rank 3 was lost, and no spare is left to take the place: start the job again" in line


@needs_ulfm
@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("milliseconds", [0, 5, 15, 25, 40, 80])
def test_a_process_that_dies_in_the_end_of_mpi_keeps_nobody_waiting(tmp_path, monkeypatch, milliseconds, status):
    monkeypatch.setenv("LOOPER_DIES", f"1,{1000 * milliseconds}")
    monkeypatch.setenv("LOOPER_STATUS", str(status))
    start = time.monotonic()
    ended = run(tmp_path, "-n", 4, "--spares", 1, "--relaunch", 0, program=LOOPER, words=("50",), levels="memory")
    assert time.monotonic() - start < 25, "it took as long as the option timeout"
    assert "sum" in ended.stdout


def of_python(directory, text, **options):
    """What run() is given for a program in Python."""
    pytest.importorskip("mpi4py")
    file = directory / "program.py"
    file.write_text(text)
    return {"program": sys.executable, "words": (file,), **options}


PYTHON = """
import sys
import numpy as np
from mpi4py import MPI
import backstay

with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        comm = run.comm
        lower, upper = (60 * k // comm.size for k in (comm.rank, comm.rank + 1))
        u = np.arange(lower, upper, dtype=float)
        run.protect("u", u, backstay.block(60, lower, upper))  # again at each repair, as large as it is then
        mine = comm.Dup()
        run.include(mine)
        run.resume()
        while state.step < 200:
            run.checkpoint()
            u += mine.allreduce(float(u.sum())) % 7
            state.step += 1
        return comm.allreduce(float(u.sum())), comm.size
    total, ranks = run.loop(body)
    if run.comm.rank == 0:
        print("sum", total)
        print("ranks", ranks)
"""


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


SPLIT = """
import sys
import numpy as np
from mpi4py import MPI
import backstay

with backstay.Session() as run:
    state = run.state(step=0, total=0)
    def body():
        run.resume()
        comm = run.comm
        rank = comm.rank
        half = comm.Split(rank % 2, rank)
        run.include(half)
        while state.step < 200:
            run.checkpoint()
            if rank == 1:  # rank 2 alone hears of its loss, while rank 0 waits for rank 2
                comm.send(7, 2)
            elif rank == 2:
                comm.recv(source=1)
            state.total += half.allreduce(state.step + rank)
            state.step += 1
        return comm.reduce(state.total)
    total = run.loop(body)
    if run.comm.rank == 0:
        print("sum", total)
"""


@needs_ulfm
def test_a_loss_wakes_who_reduces_python_objects_with_others_that_live(tmp_path):
    """mpi4py does it in a duplicate of the communicator that nobody sees."""
    program = of_python(tmp_path, SPLIT, every=5, levels="memory")
    alone = run(tmp_path / "a", "-n", 4, **program)
    for seed in range(3):
        flags = ["-n", 4, "--spares", 1, "--nodes", 5, "--kill", f"1@{60 + seed}"]
        ended = run(tmp_path / f"b{seed}", *flags, **program, memory__redundancy="rs(2,1)", timeout=20)
        assert result(ended, "sum") == result(alone, "sum"), ended.stderr
        assert "rank 1 was lost; spare 4" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr


NOTICED = """
import os
import signal
import sys
import time
import numpy as np
from mpi4py import MPI
import backstay

def note(what, rank):
    with open(os.path.join(sys.argv[1], f"{what}-{rank}"), "w") as file:
        file.write(f"{time.monotonic()}")

bodies = 0
with backstay.Session() as run:
    state = run.state(step=0)
    u = np.zeros(100000)
    run.protect("u", u)
    def body():
        global bodies
        bodies += 1
        if bodies == 2:  # at a survivor
            note("heard", rank)
        run.resume()
        return steps(run.comm)
    def steps(comm):
        global rank
        rank = comm.rank
        mine = comm.Dup()
        run.include(mine)
        while state.step < 40:
            run.checkpoint()
            if state.step == 20 and MPI.COMM_WORLD.rank == 1:
                time.sleep(0.3)  # the others wait by then
                note("died", rank)
                os.kill(os.getpid(), signal.SIGKILL)
            if rank == 1:
                mine.send(0, 2)
            elif rank == 2:
                mine.send(mine.recv(source=1), 3)
            elif rank == 3:
                mine.recv(source=2)
            comm.Barrier()
            u[:] += state.step
            state.step += 1
    run.loop(body)
"""


@needs_ulfm
def test_every_survivor_hears_of_a_loss_long_before_the_time_out(tmp_path):
    """Rank 2 waits for it, rank 3 for rank 2 alone, rank 0 in a barrier. (The machine may stand still.)"""
    program = of_python(tmp_path, NOTICED, levels="memory", every=5)
    program["words"] += (tmp_path,)
    ended = run(tmp_path, "-n", 4, "--spares", 1, "--nodes", 5, **program, memory__redundancy="rs(2,1)", timeout=50)
    assert ended.returncode == 0 and "rank 1 was lost" in ended.stderr, ended.stderr
    died = float((tmp_path / "died-1").read_text())
    late = {path.name: float(path.read_text()) - died for path in tmp_path.glob("heard-*")}
    assert late.keys() == {"heard-0", "heard-2", "heard-3"}
    assert max(late.values()) < 10, late


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


ALL_DIE = """
import os
import backstay

with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        run.resume()
        while state.step < 50:
            run.checkpoint()
            run.comm.Barrier()
            if state.step == 20 and int(os.environ["OMPI_COMM_WORLD_RANK"]) < 3:
                os.kill(os.getpid(), 9)
            state.step += 1
    run.loop(body)
"""


@needs_ulfm
def test_a_spare_that_is_left_alone_says_so(tmp_path):
    pytest.importorskip("mpi4py")
    (tmp_path / "app.py").write_text(ALL_DIE)
    words = (tmp_path / "app.py",)
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, program=sys.executable, words=words, every=5)
    assert (
        ended.returncode != 0 and "ranks 0, 1, 2 were lost, and only 1 spare is left to take the places" in ended.stderr
    )
    assert [event["numbers"] for event in events(tmp_path, "lost")] == ["0, 1, 2"]


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


@pytest.mark.parametrize("levels", ["memory", "memory,shared"])
def test_a_job_that_was_asked_to_end_says_whether_anything_outlives_it(tmp_path, levels):
    flags = ["-n", 2, "--nodes", 2, "--levels", levels, "--every", 5, "--opt", "policy=wait", "--dir", tmp_path / "ck"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    program = [BUILD.parents[1] / "apps" / "tgv" / "tgv", "--n", "16", "--steps", "100000", "--quiet"]
    command = [str(word) for word in [*COMMAND, "run", *flags, "--", *program]]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        until = time.monotonic() + LIMIT
        while not events_so_far(tmp_path, "commit"):
            assert time.monotonic() < until and running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=LIMIT)
    assert running.returncode == 0, err
    begins_anew = levels == "memory"
    assert ("checkpoints are in memory and end with the job: another one begins anew" in err) == begins_anew, err
    assert ("the same command launches it again" in err) == begins_anew, err
    assert ("the last checkpoint is written" in err) != begins_anew, err
    assert ("the same command goes on from there" in err) != begins_anew, err


@needs_ulfm
def test_a_spare_that_stands_still_ends_the_launch_in_which_a_rank_is_lost(tmp_path, undisturbed):
    """The others cannot meet without it, and end; alone it would be for ever."""
    flags = ["-n", 4, "--spares", 2, "--levels", "memory,shared", "--opt", "memory.redundancy=rs(3,1)", "--opt",
             "memory.unit=rank", "--every", 5, "--opt", "timeout=3", "--dir", tmp_path / "ck"]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    command = [str(word) for word in [*COMMAND, "run", *flags, "--", STEPPER, "600"]]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        while not (tmp_path / "ck" / "events.jsonl").exists() or not events(tmp_path, "commit"):
            assert running.poll() is None
            time.sleep(0.01)
        ranks = guard.rank_processes(events(tmp_path, "launch")[0]["run"])
        guard.send([ranks[5]], signal.SIGSTOP)
        time.sleep(0.3)
        guard.send([ranks[1]], signal.SIGKILL)
        try:
            out, err = running.communicate(timeout=LIMIT)
        finally:
            running.kill()  # and its ranks with it, if it waits for them
    assert "the ranks that are left do not come to a repair: the launch is ended" in err, err
    assert f"hash {undisturbed}" in out and running.returncode == 0, out + err


CATCHES = """
import time
import backstay
run = backstay.Session()
state = run.state(step=0)
def body():
    run.resume()
    while state.step < 200:
        run.checkpoint()
        run.comm.Barrier()
        time.sleep(0.01)
        state.step += 1
    return run.rank
try:
    if run.loop(body) == 0:
        print("sum", state.step)
except backstay.Error as error:
    print("looper: loop:", error)
"""


@needs_ulfm
@pytest.mark.parametrize("program", ["c", "python"])
def test_a_rank_that_stands_still_ends_the_launch_in_which_another_is_lost_and_the_error_caught(tmp_path, program):
    """No spare is left to say so. Who catches the error, and closes its session, would wait in the end of MPI."""
    words = [LOOPER, "20000"]
    if program == "python":
        words = [of_python(tmp_path, CATCHES)["program"], tmp_path / "program.py"]
    flags = ["-n", 3, "--spares", 1, "--relaunch", 1, "--levels", "shared", "--every", 5, "--opt", "timeout=3",
             "--dir", tmp_path / "ck"]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    command = [str(word) for word in [*COMMAND, "run", *flags, "--", *words]]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:

        def wait_for(kind, count):
            until = time.monotonic() + LIMIT
            while len(events_so_far(tmp_path, kind)) < count:
                assert running.poll() is None and time.monotonic() < until
                time.sleep(0.01)

        try:
            wait_for("commit", 1)
            ranks = guard.rank_processes(events(tmp_path, "launch")[0]["run"])
            guard.send([ranks[0]], signal.SIGKILL)
            wait_for("repair", 1)
            wait_for("commit", len(events(tmp_path, "commit")) + 1)
            guard.send([ranks[1]], signal.SIGSTOP)
            guard.send([ranks[2]], signal.SIGKILL)
            out, err = running.communicate(timeout=LIMIT)
        finally:
            running.kill()  # and its ranks with it, if it waits for them
    assert "looper: loop: a rank or a spare did not come" in out + err, out + err
    assert "the ranks that are left do not come to a repair: the launch is ended" in err, err
    assert "sum" in out and running.returncode == 0, out + err


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


LEAVES_FILES_OPEN = """
import atexit
import ctypes
import os
import sys
import time
import numpy
me = os.path.join(os.path.dirname(__file__), os.environ["OMPI_COMM_WORLD_RANK"])
atexit.register(lambda: open(me + ".at_exit", "w").write("result"))
import backstay
u = numpy.zeros(100)
with backstay.Session() as run:
    run.protect("u", u)
    run.resume()
    while u[0] < 100:
        u[0] += 1
        run.checkpoint()
        time.sleep(0.01)
print("hash of python")
held = open(me + ".held", "w")
held.write("result")
c = ctypes.CDLL(None)
c.fopen.restype, c.fputs.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_void_p)
c.fputs(b"result", c.fopen((me + ".held_by_c").encode(), b"w"))
sys.excepthook = lambda *_: None  # as some programs have it
if "fails" in sys.argv:
    raise OSError
"""


@needs_ulfm
@pytest.mark.parametrize("program", ["c++", "c", "python", "python that fails"])
def test_a_spare_that_stands_still_keeps_no_job_from_its_end(tmp_path, program):
    """That in C goes on behind MPI for longer than the spare is waited for, and is not ended with it. What Python ends
    with is not known at that moment, but for an exception."""
    words = [STEPPER, "600"] if program == "c++" else [LOOPER, "20000"]
    if program.startswith("python"):
        (tmp_path / "app.py").write_text(LEAVES_FILES_OPEN)
        words = [sys.executable, tmp_path / "app.py", *program.split()]
    flags = [*"-n 2 --spares 2 --relaunch 0 --levels shared --every 5 --opt timeout=3 --dir".split(), tmp_path / "ck"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    environment |= {"LOOPER_RESTS": "0,9"}
    command = [str(word) for word in [*COMMAND, "run", *flags, "--", *words]]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        while not events_so_far(tmp_path, "commit"):
            assert running.poll() is None
            time.sleep(0.01)
        guard.send([guard.rank_processes(events(tmp_path, "launch")[0]["run"])[2]], signal.SIGSTOP)
        try:
            out, err = running.communicate(timeout=LIMIT)
        finally:
            running.kill()  # and its ranks with it, if it waits for them
    assert running.returncode == int("fails" in program), out + err
    assert ("rested" if program == "c" else "hash ") in out, out + err
    assert "launch 2" not in err, err
    assert "a spare did not come to the end of MPI, where all ranks are" in err, err
    assert {event["numbers"] for event in events(tmp_path, "stuck")} == {"2,3"}
    if program == "python":  # the exit of Python is as ever
        left = {file.name: file.read_text() for rank in (0, 1) for file in tmp_path.glob(f"{rank}.*")}
        assert left == {f"{rank}.{how}": "result" for rank in (0, 1) for how in ("at_exit", "held", "held_by_c")}
    is_ended = "the job has come to its end, and a spare has not: it is ended" in err
    assert is_ended or "fails" in program, err  # a launcher ends all itself where one ends with a status


@needs_ulfm
@pytest.mark.parametrize("status", [0, 3])
def test_a_job_that_has_ended_is_done_also_where_its_launcher_has_to_be_ended(tmp_path, monkeypatch, status):
    """It tells no status of a rank then."""
    monkeypatch.setenv("LOOPER_STATUS", str(status))
    launcher = tmp_path / "mpirun"
    launcher.write_text(f'#!/bin/sh\n"{MPIRUN}" "$@"\ncase "$*" in *{LOOPER.name}*) sleep 1000; esac\n')
    launcher.chmod(0o755)
    program = {"program": LOOPER, "words": ("50",), "levels": "memory"}
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, "--mpirun", launcher, **program)
    assert "sum" in ended.stdout and ended.returncode == status, ended.stderr
    assert "all ranks have ended and their launcher has not: it is ended" in ended.stderr, ended.stderr
    assert ("the job is done, after 1 launch" in ended.stderr) == (status == 0), ended.stderr


@needs_ulfm
def test_a_launch_that_hangs_behind_its_session_and_is_killed_is_not_done(tmp_path):
    program = of_python(tmp_path, PYTHON + "import time\ntime.sleep(1000)\n", levels="shared", every=50)
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, "--hang", 8, **program)
    assert "the launch hangs and is killed" in ended.stderr, ended.stderr
    assert ended.returncode == 1 and len(events(tmp_path, "end")) == 1, ended.stderr


@needs_ulfm
@pytest.mark.parametrize("how", ["idup", "window"])
def test_a_loss_that_mpi_tells_of_by_another_error_or_later_is_repaired(tmp_path, how):
    words = (how, tmp_path / "died")
    ended = run(tmp_path, "-n", 5, "--spares", 1, program=MAKINGS, words=words, levels="memory", every=4,
                memory__redundancy="rs(3,1)", memory__unit="rank")  # fmt: skip
    assert result(ended, "sum") == str(sum(range(24))) and (tmp_path / "died").exists(), ended.stderr
    assert "spare 5" in ended.stderr and "launch 2" not in ended.stderr, ended.stderr


@needs_ulfm
def test_ranks_that_no_loss_wakes_end_the_launch(tmp_path, monkeypatch):
    """Open MPI tries to merge an intercommunicator again and again, whoever is lost."""
    words = ("200",)
    alone = result(run(tmp_path / "a", "-n", 4, program=LOOPER, words=words, levels="memory"), "sum")
    monkeypatch.setenv("LOOPER_MERGES", str(tmp_path / "died"))
    ended = run(
        tmp_path / "b", "-n", 4, "--spares", 1, program=LOOPER, words=words, levels="shared", every=5, timeout=3
    )
    assert (tmp_path / "died").exists()
    assert result(ended, "sum") == alone, ended.stderr


@needs_ulfm
def test_ranks_that_no_loss_wakes_end_the_launch_also_where_some_are_on_other_machines(tmp_path, monkeypatch):
    """Of which `backstay run` sees nothing: the spare and a rank lack its mark."""
    monkeypatch.setenv("LOOPER_MERGES", str(tmp_path / "died"))
    program = tmp_path / "elsewhere"
    program.write_text(
        f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" -lt 3 ] || unset {guard.MARK}\nexec {shlex.quote(str(LOOPER))} "$@"\n'
    )
    program.chmod(0o755)
    flags = ("-n", 4, "--spares", 1)
    ended = run(tmp_path, *flags, program=program, words=("200",), levels="shared", every=5, timeout=3)
    assert "the ranks that are left do not come to a repair: the launch is ended" in ended.stderr, ended.stderr
    assert result(ended, "sum") and "launch 2" in ended.stderr


@needs_ulfm
def test_a_loss_in_the_making_of_an_older_communicator_is_repaired(tmp_path, monkeypatch):
    """Open MPI would wait for the turn of that communicator in MPIX_Comm_shrink, for ever."""
    words = ("200",)
    alone = result(run(tmp_path / "a", "-n", 4, program=LOOPER, words=words, levels="memory"), "sum")
    monkeypatch.setenv("LOOPER_COPIES", str(tmp_path / "died"))
    ended = run(
        tmp_path / "b", "-n", 4, "--spares", 1, program=LOOPER, words=words, levels="shared", every=5, timeout=10
    )
    assert (tmp_path / "died").exists() and "launch 2" not in ended.stderr, ended.stderr
    assert result(ended, "sum") == alone, ended.stderr


@needs_ulfm
def test_who_keeps_a_communicator_over_a_repair_hears_what_the_replacement_waits_for(tmp_path, monkeypatch):
    """It waits in MPI for the others, who wait for it in backstay: they end at last, and the next launch goes on."""
    words = ("200",)
    alone = result(run(tmp_path / "a", "-n", 4, program=LOOPER, words=words, levels="memory"), "sum")
    monkeypatch.setenv("LOOPER_KEEPS", "1")
    flags = ("-n", 4, "--spares", 1, "--kill", "1@100")
    ended = run(tmp_path / "b", *flags, program=LOOPER, words=words, levels="shared", every=5, timeout=3)
    assert "this rank has kept communicators that it made before a repair, and made none since" in ended.stderr
    assert "has waited for others in the making of a communicator" in ended.stderr
    assert result(ended, "sum") == alone, ended.stderr
    assert "launch 2" in ended.stderr


@needs_ulfm
def test_who_uses_a_communicator_of_before_a_repair_hears_so(tmp_path, monkeypatch):
    """Those two live, and what they made is revoked: MPI tells them of a loss again and again, and there is none."""
    words = ("200",)
    alone = result(run(tmp_path / "a", "-n", 4, program=LOOPER, words=words, levels="memory"), "sum")
    monkeypatch.setenv("LOOPER_PAIR", "1")
    flags = ("-n", 4, "--spares", 1, "--kill", "2@100")
    ended = run(tmp_path / "b", *flags, program=LOOPER, words=words, levels="shared", every=5)
    assert "MPI reported lost ranks three times, and none was lost" in ended.stderr, ended.stderr
    assert result(ended, "sum") == alone, ended.stderr
    assert "launch 2" in ended.stderr


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
def test_what_is_sent_into_a_freed_communicator_reaches_no_other_one(tmp_path, monkeypatch):
    """Rank 0 leaves it at a loss that the last rank does not know of yet. Where the library lets MPI free it, about
    every third such job loses a rank more: Open MPI gives its number to the next one, where the message then comes."""
    program = {"program": LOOPER, "words": ("200",), "levels": "shared", "every": 5}
    alone = result(run(tmp_path, "-n", 4, **program), "sum")
    for job in map(str, range(4)):
        monkeypatch.setenv("LOOPER_LATE", str(tmp_path / f"died-{job}"))
        ended = run(tmp_path / job, "-n", 4, "--spares", 1, "--relaunch", 0, **program)
        assert "rank 1 was lost; spare 4" in ended.stderr and "gave up" not in ended.stderr, ended.stderr
        assert result(ended, "sum") == alone, ended.stderr


def survives_a_late_message(tmp_path, program, *words, timeout=20, within=10):
    options = {"levels": "shared", "every": 1, "timeout": timeout, "program": program}
    ended = run(tmp_path, "-n", 4, "--spares", 1, "--relaunch", 0, words=(*words, tmp_path / "mark"), **options)
    assert ended.returncode == 0 and "done" in ended.stdout, ended.stderr
    assert ended.stderr.count(" lost; spare") == 1 and "Process received signal" not in ended.stderr
    (together,) = re.finditer(r"together again after ([\d.]+) (ms|s|us)", ended.stderr)
    assert repairs.seconds(together) < within  # a rank waits much longer for what does not end


HOW_LATE = [
    "answer", "persistent", "together", "revoked", "receiving", "exchange", "living", "pieces",
    "collective", "neighbours", "started",
]  # fmt: skip


@needs_ulfm
@pytest.mark.parametrize("how", HOW_LATE)
@pytest.mark.parametrize("copies", ["at once", "in pieces"])
def test_mpi_does_not_touch_a_buffer_that_is_freed_on_the_way_back_to_loop(tmp_path, monkeypatch, how, copies):
    """Where the processes of a node may not read each other's memory, Open MPI copies long messages in pieces."""
    if copies == "in pieces":
        monkeypatch.setenv("OMPI_MCA_smsc", "^cma,xpmem,knem")
    survives_a_late_message(tmp_path, LATE_MESSAGES, how)


@needs_ulfm
def test_a_message_is_waited_for_nearly_as_long_as_others_wait_at_the_repair(tmp_path):
    survives_a_late_message(tmp_path, LATE_MESSAGES, "computing", timeout=8, within=7)


LATE_MESSAGE = """
import os, signal, sys, time
import numpy as np
from mpi4py import MPI
import backstay

def lose_rank_1(comm):
    words = np.ones(1 << 20)
    if comm.rank == 0:
        request = comm.Isend(words, 2)
        comm.Recv(np.zeros(1), 1)
    if comm.rank == 2:
        time.sleep(0.6)  # until rank 0 has heard of the loss
        request, end = comm.Irecv(words, 0), time.monotonic() + 1
        while time.monotonic() < end:
            request.Test()
    if comm.rank == 1:
        time.sleep(0.3)
        os.kill(os.getpid(), 9)
    comm.Barrier()

with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        run.resume()
        was_there = os.path.exists(sys.argv[1])
        run.comm.Barrier()
        while state.step < 20:
            run.checkpoint()
            if state.step == 10 and not was_there:
                open(sys.argv[1], "w").close()
                lose_rank_1(run.comm)
            run.comm.Barrier()
            state.step += 1
    run.loop(body)
    if run.rank == 0:
        print("done")
"""


@needs_ulfm
def test_the_arrays_of_a_program_in_python_live_until_all_others_have_left_the_body(tmp_path):
    pytest.importorskip("mpi4py")
    (tmp_path / "app.py").write_text(LATE_MESSAGE)
    survives_a_late_message(tmp_path, sys.executable, tmp_path / "app.py")


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
@pytest.mark.parametrize("who", ["True", 'os.environ["OMPI_COMM_WORLD_RANK"] == "1"'])
def test_a_program_in_python_that_raises_behind_its_session_has_failed(tmp_path, who):
    """Nobody can take a place any more; the job ends, and with the status of those who raised."""
    text = "import os" + PYTHON + f'if {who}: raise ValueError("boom")\n'
    program = of_python(tmp_path, text, every=5, timeout="10")
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, **program)
    assert ended.returncode == 1, ended.stderr
    assert "sum" in ended.stdout and "boom" in ended.stderr


@needs_ulfm
def test_a_program_in_python_that_ends_with_a_status_behind_its_session_is_not_told_as_lost(tmp_path):
    """By the launcher itself: `backstay run` hears of statuses in another way. MPI_Finalize is mpi4py's."""
    words = of_python(tmp_path, PYTHON + "sys.exit(3)\n")["words"]
    options = {"LEVELS": "shared", "EVERY": "5", "SPARES": "1"}
    ended = kills.Launch(Path(sys.executable), list(map(str, words)), tmp_path, options, 4, 60).end()
    assert ended.status == 3 and "sum" in ended.out, ended.out + ended.err
    assert "this process ends" not in ended.err, ended.err


@needs_ulfm
def test_a_node_that_was_not_killed_keeps_its_directory_where_another_loss_was_repaired(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPER_EXITS", "0,50")
    given = {"program": LOOPER, "words": ("100",), "levels": "local", "local__redundancy": "rs(2,1)", "every": 5}
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--nodes", 4, "--kill", "node1@1000000", **given)
    assert "sum" in ended.stdout and "together again" in ended.stderr, ended.stderr
    assert "was removed" not in ended.stderr and (tmp_path / "ck" / "node-1" / "local").exists()


WITHOUT_ITS_DIRECTORY = """
import os
import backstay

with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        run.resume()
        while state.step < 60:
            if state.step == 30 and run.rank == 0:
                os.rename(os.environ["BACKSTAY_DIR"], os.environ["BACKSTAY_DIR"] + ".gone")
            run.checkpoint()
            state.step += 1
    run.loop(body)
    if run.rank == 0:
        print("steps", state.step)
"""


@needs_ulfm
@pytest.mark.parametrize("end", ["done", "failed"])
def test_how_a_job_ends_is_known_without_its_directory(tmp_path, end):
    """What tells that a session has ended, or what with, cannot be written there."""
    if end == "failed":
        text = WITHOUT_ITS_DIRECTORY + 'raise ValueError("boom")\n'
        ended = run(
            tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, **of_python(tmp_path, text, every=5, levels="shared")
        )
        assert ended.returncode == 1 and "the job failed with status 1" in ended.stderr, ended.stderr
        return
    ended = run(
        tmp_path, "-n", 3, "--spares", 1, **of_python(tmp_path, WITHOUT_ITS_DIRECTORY, every=5, levels="shared")
    )
    assert result(ended, "steps") == "60" and "the job is done, after 1 launch" in ended.stderr, ended.stderr


@needs_ulfm
def test_a_job_of_which_every_process_is_killed_is_not_done(tmp_path):
    """Open MPI's launcher ends with status 0 then."""
    program = shutil.copy(LOOPER, tmp_path / "killed-together")

    def kill():
        while not (tmp_path / "ck" / "events.jsonl").exists() or not events(tmp_path, "fresh"):
            time.sleep(0.1)
        subprocess.run(["pkill", "-9", "-x", "killed-together"], check=True)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 0, program=program, words=("100000000",), every=500)
    killer.join(10)
    assert ended.returncode == 1, ended.stderr
    assert "not all ranks came to the end of MPI: they were lost" in ended.stderr


ALONE_AND_TOGETHER = """
import os
import backstay

place = os.environ["BACKSTAY_DIR"]
with open(place + "/pids", "a") as pids:
    pids.write(f"{os.getpid()}\\n")
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    with backstay.Session(comm=False, name="small", spares=0) as small:
        small.checkpoint(now=True)
with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        run.resume()
        while state.step < 20:
            run.checkpoint(now=True)
            run.comm.Barrier()
            if state.step == 7 and run.rank == 0 and not os.path.exists(place + "/died"):
                open(place + "/died", "w").close()
                with open(place + "/pids") as pids:
                    others = [pid for pid in map(int, pids) if pid != os.getpid()]
                for pid in (*others, os.getpid()):
                    os.kill(pid, 9)
            state.step += 1
    run.loop(body)
    if run.rank == 0:
        print("steps", state.step)
"""


@needs_ulfm
def test_a_session_of_one_process_that_has_ended_is_no_end_of_the_job(tmp_path):
    """All are killed in that of all processes, which the launcher takes for an end as it should be."""
    ended = run(tmp_path, "-n", 3, "--spares", 1, **of_python(tmp_path, ALONE_AND_TOGETHER, levels="shared"))
    assert "not all ranks came to the end of MPI: they were lost" in ended.stderr, ended.stderr
    assert result(ended, "steps") == "20" and "launch 2" in ended.stderr, ended.stderr


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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"levels": "memory", "memory__redundancy": "rs(3,5)"}, "needs ranks (spares do not count) in at least 6"),
        ({"levels": "ram"}, "the option levels is 'ram'"),
    ],
    ids=["while-it-opens", "option"],
)
def test_what_would_be_refused_again_is_not_launched_again(tmp_path, options, sentence):
    ended = run(tmp_path, "-n", 3, "--relaunch", 5, program=LOOPER, words=("20",), **options)
    assert ended.returncode != 0 and sentence in ended.stderr, ended.stderr
    assert "the job is not launched again, which would be refused as well" in ended.stderr
    assert len(events(tmp_path, "launch")) == 1


@needs_ulfm
def test_a_refused_session_whose_exception_nobody_catches_is_no_job_that_is_done(tmp_path):
    """All ranks abort behind the end of MPI, of which Open MPI's launcher says that all is well."""
    program = {"program": SETTINGS_OF_MPI, "words": ("session", "coll_ftagree_era_topology")}
    options = {"levels": "memory", "memory__redundancy": "rs(3,5)"}
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--relaunch", 5, **program, **options)
    assert ended.returncode != 0 and "the job is done" not in ended.stderr, ended.stderr
    assert "the job is not launched again, which would be refused as well" in ended.stderr, ended.stderr
    assert "the launcher says" not in ended.stderr and len(events(tmp_path, "launch")) == 1, ended.stderr


def test_lines_of_which_none_can_be_put_back_are_not_launched_again(tmp_path):
    first = run(tmp_path, "-n", 3, program=LOOPER, words=("20",), levels="shared", every=5, shared__layout="one-file")
    assert first.returncode == 0, first.stderr
    for path in (tmp_path / "ck" / "shared").glob("line-*/*.h5"):
        path.write_bytes(b"")
    ended = run(tmp_path, "-n", 3, "--relaunch", 5, program=LOOPER, words=("20",), levels="shared")
    assert ended.returncode != 0 and "none can be put back" in ended.stderr
    assert ended.stderr.count("not launched again") == 1 and len(events(tmp_path, "launch")) == 2


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


def by_mpirun(count, program, *words, **options):
    """Without `backstay run`, which tells Open MPI that losses are to be survived."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    environment |= {f"BACKSTAY_{name.upper()}": str(value) for name, value in options.items()}
    command = [MPIRUN, *("--oversubscribe", "--allow-run-as-root")[: 2 if os.geteuid() == 0 else 1]]
    command = command if find(MPIRUN, 2).kind == "openmpi" else [MPIRUN]
    command += ["-n", count, program, *words]
    return subprocess.run(
        [str(word) for word in command], env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )


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
