"""How jobs with spares end, and what `backstay run` makes of it: done, refused, failed or to be launched again."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import kills
import pytest
from backstay import guard
from backstay.mpirun import find
from jobs import (
    BUILD,
    COMMAND,
    LIMIT,
    LOOPER,
    MPIRUN,
    PYTHON,
    SETTINGS_OF_MPI,
    STEPPER,
    STEPS,
    THROWER,
    events,
    events_so_far,
    needs_ulfm,
    of_python,
    result,
    run,
)

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


CLOSES = """
import os
import signal
import time
import backstay

with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        run.resume()
        comm = run.comm
        while state.step < 20:
            run.checkpoint()
            if state.step == 10 and comm.rank == 1:
                raise ValueError("for the test")
            if state.step == 10 and comm.rank == 2:
                time.sleep(1)
                os.kill(os.getpid(), signal.SIGKILL)
            comm.Barrier()
            state.step += 1
    try:
        run.loop(body)
    except ValueError:
        pass
"""


@needs_ulfm
def test_a_loss_while_a_rank_closes_alone_ends_the_job_at_once(tmp_path):
    """The others would wait for that one to save what memory holds."""
    program = of_python(tmp_path, CLOSES, levels="memory,shared", every=2)
    start = time.monotonic()
    ended = run(tmp_path, "-n", 4, "--spares", 2, "--nodes", 6, "--relaunch", 0, **program, timeout=30,
                memory__redundancy="rs(2,1)", shared__every=1000000)  # fmt: skip
    assert ended.returncode != 0 and "rank 2 was lost" in ended.stderr, ended.stderr
    assert "within the option timeout" not in ended.stderr, ended.stderr
    assert time.monotonic() - start < 25, ended.stderr


UNPROTECTS = """
import os
import signal
import time
from pathlib import Path
import numpy as np
import backstay

died = Path(backstay.__name__ + "-died")
with backstay.Session() as run:
    state = run.state(step=0)
    u = np.zeros(4)
    run.protect("u", u)
    def body():
        global u
        run.resume()
        comm = run.comm
        while state.step < 20:
            run.checkpoint()
            run.unprotect("u")
            if state.step == 10 and comm.rank == 2 and not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            u = u + comm.allreduce(1)
            run.protect("u", u)
            state.step += 1
    run.loop(body)
    if run.comm.rank == 0:
        print("sum", int(u.sum()), flush=True)
"""


@needs_ulfm
def test_a_loss_while_the_body_has_unprotected_what_was_protected_before_it_launches_the_job_again(
    tmp_path, monkeypatch
):
    """Who takes the place would protect more than the others."""
    monkeypatch.chdir(tmp_path)
    program = of_python(tmp_path, UNPROTECTS, levels="memory,shared", every=2)
    ended = run(tmp_path, "-n", 4, "--spares", 2, "--nodes", 6, **program, timeout=30, memory__redundancy="rs(2,1)")
    assert result(ended, "sum") == "320", ended.stderr
    assert "region 'u' was protected before loop(), and its body has unprotected it" in ended.stderr, ended.stderr
    assert "launch 2" in ended.stderr and "regions=lenient" not in ended.stderr, ended.stderr


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


ONE_RANK = """
import backstay
from mpi4py import MPI

with backstay.Session() as run:
    state = run.state(step=0)
    def body():
        run.resume()
        while state.step < 60:
            run.checkpoint()
            state.step += 1
            if state.step == 30 and MPI.COMM_WORLD.rank == 0:
                raise ValueError("boom")
    run.loop(body)
    print("steps", state.step)
"""


@needs_ulfm
def test_the_only_rank_of_a_job_that_raises_is_replaced(tmp_path):
    ended = run(tmp_path, "-n", 1, "--spares", 1, **of_python(tmp_path, ONE_RANK, every=5, levels="shared"))
    assert ended.returncode == 0 and "steps 60" in ended.stdout, ended.stdout + ended.stderr
    assert "boom" in ended.stderr and "rank 0 was lost; spare 1" in ended.stderr, ended.stderr
    assert "launch 2" not in ended.stderr, ended.stderr


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
