"""Losses of ranks, as MPI tells of them to those who wait in it: in any communicator, call and language."""

import re
import shlex
import sys
import time

import pytest
import repairs
from backstay import guard
from jobs import LATE_MESSAGES, LOOPER, MAKINGS, THROWER, needs_ulfm, of_python, result, run


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
        run.include(comm.Split(0 if rank == 0 else MPI.UNDEFINED))  # the others have none
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


FREED = """
import backstay

with backstay.Session() as run:
    state = run.state(step=0, total=0)
    def body():
        run.resume()
        comm = run.comm
        while state.step < 200:
            run.checkpoint()
            half = comm.Split(comm.rank % 2, comm.rank)
            run.include(half)
            state.total += half.allreduce(state.step + comm.rank)
            half.Free()
            state.step += 1
        return comm.reduce(state.total)
    total = run.loop(body)
    if run.comm.rank == 0:
        print("sum", total)
"""


@needs_ulfm
@pytest.mark.parametrize(("text", "call"), [(SPLIT, 60), (FREED, 120)], ids=["kept", "freed"])
def test_a_loss_is_survived_by_who_reduces_python_objects_in_communicators_of_mpi4py(tmp_path, text, call):
    """It reduces in a duplicate that nobody sees, and frees where nobody sees it: a freed one is left alone."""
    program = of_python(tmp_path, text, every=5, levels="memory")
    alone = run(tmp_path / "a", "-n", 4, **program)
    for seed in range(3):
        flags = ["-n", 4, "--spares", 1, "--nodes", 5, "--kill", f"1@{call + seed}"]
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
