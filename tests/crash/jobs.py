"""`backstay run` as tests of this folder start it, and the programs that it runs."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import kills
import pytest
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
