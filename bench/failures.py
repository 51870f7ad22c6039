"""What each kind of failure costs a job: how long it stands still, and how much it computes again.

    python bench/failures.py --turns 5      # the vortex, 40^3 on 8 ranks, 120 steps, a checkpoint every 10

As `backstay report` tells it: from the moment when the loss was noticed until all ranks have their data back, and the
time from the capture of what came back to the loss. On /dev/shm; a launch of `backstay run` has a pause of 1 s in it.

The report has no loss of a spare, and nothing of disks, memory, clocks and hanging ranks, for which nobody is lost.
There it is how much longer the longest time between the ends of two steps is behind it than before it, in
bench/repaired: one rank hangs, or has no memory, another clock, or a disk that fails.

A disk becomes read-only by a mount, and much else happens by a library that the dev build makes for tests; without the
one or the other these kinds are left out, with a sentence.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "crash"))
import faults  # noqa: E402 - found only with the line above

COMMAND = [sys.executable, "-c", "from backstay.cli import main; exit(main())"]
RANKS, STEPS, EVERY = 8, 120, 10
BESIDE_STEPS, AROUND = 400, 1.0  # steps of bench/repaired in which nobody stands still; seconds around what happens
HUNG = 2  # seconds, the option timeout is half of it
HIT = 3  # the rank of which something hangs or fails, and its node


@dataclass
class Kind:
    """A failure, and the protection that bears it."""

    what: str
    level: str
    flags: list[str]
    lost: str  # as --kill names it; empty: nothing is killed
    again: bool  # by a launch
    full: bool = False  # the disk of the first spare, so that it leaves the place to another one


@dataclass
class Beside:
    """A failure for which no rank is killed, and what the job says of it."""

    what: str
    level: str
    flags: list[str]
    says: str  # RE
    happens: Callable[[Path, Path, contextlib.ExitStack], None] | None = None  # given bench/repaired, and the directory
    fault: dict[str, object] = field(default_factory=dict)  # FAULTY_*, of HIT
    again: bool = False  # by a launch
    spares: int = 0
    status: int = 0


ALL = ",".join(f"{rank}@65" for rank in range(RANKS))


def of_racks(nodes: int) -> list[str]:
    """The flags of a level whose groups have their members in different racks, of two nodes each."""
    racks = "/".join(f"{node}-{node + 1}" for node in range(0, nodes, 2))
    return ["--levels", "local", "--opt", "local.redundancy=rs(2,1)", "--opt", f"local.unit=nodes:{racks}"]


MEMORY = ["--levels", "memory", "--opt", "memory.redundancy=rs(3,1)"]
RS = ["--levels", "local", "--opt", "local.redundancy=rs(3,1)"]
KINDS = [
    Kind("a process", "memory rs(3,1)", MEMORY, "3@65", False),
    Kind("rank 0", "memory rs(3,1)", MEMORY, "0@65", False),
    Kind("a node", "partner", ["--levels", "partner"], "node3@65", False),
    Kind("a node", "local rs(3,1)", RS, "node3@65", False),
    Kind(
        "another process, of another group, during a repair",
        "memory rs(3,1)",
        MEMORY,
        "3@65,6@repair",
        False,
    ),
    Kind(
        "another process, of the same group, during a repair",
        "memory rs(2,2)",
        ["--levels", "memory", "--opt", "memory.redundancy=rs(2,2)"],
        "3@65,2@repair",
        False,
    ),
    Kind(
        "a node, and the disk of a spare is full",
        "local rs(7,1)",  # one group, of all: what is lost is rebuilt on the node of the spare
        ["--levels", "local", "--opt", "local.redundancy=rs(7,1)"],
        "node3@65",
        False,
        full=True,
    ),
    Kind("a process", "local", ["--levels", "local"], "3@65", True),
    Kind("a node", "partner", ["--levels", "partner"], "node3@65", True),
    Kind("a node", "local rs(3,1)", RS, "node3@65", True),
    Kind(
        "two nodes",
        "local rs(2,2)",
        ["--levels", "local", "--opt", "local.redundancy=rs(2,2)"],
        "node2@65,node5@65",
        True,
    ),
    Kind(
        "two nodes",
        "local rs(2,2)",
        ["--levels", "local", "--opt", "local.redundancy=rs(2,2)"],
        "node2@65,node5@65",
        False,
    ),
    Kind("a rack of two nodes", "local rs(2,1) over racks", of_racks(RANKS + 2), "node2@65,node3@65", False),
    Kind("a rack of two nodes", "local rs(2,1) over racks", of_racks(RANKS), "node2@65,node3@65", True),
    Kind("all ranks at once", "shared", ["--levels", "shared"], ALL, False),
    Kind("all ranks at once", "shared", ["--levels", "shared"], ALL, True),
    Kind("a node", "shared", ["--levels", "shared"], "node3@65", True),
    Kind("a damaged file", "partner", ["--levels", "partner"], "", True),
    Kind("a damaged file", "local rs(3,1)", RS, "", True),
]


def process_of(rank: int, program: Path) -> int:
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if place.joinpath("exe").readlink() == program.resolve():
                if f"\0OMPI_COMM_WORLD_RANK={rank}\0".encode() in place.joinpath("environ").read_bytes():
                    return int(place.name)
        except OSError:
            continue  # it has ended meanwhile
    raise SystemExit(f"failures.py: there is no process {rank} of {program}")


def kill_spare(program: Path, *_: object) -> None:
    os.kill(process_of(RANKS, program), signal.SIGKILL)


def hang(program: Path, *_: object) -> None:
    process = process_of(HIT, program)
    os.kill(process, signal.SIGSTOP)
    time.sleep(HUNG)
    os.kill(process, signal.SIGCONT)


def hang_for_good(program: Path, *_: object) -> None:
    os.kill(process_of(HIT, program), signal.SIGSTOP)


def make_read_only(_: Path, directory: Path, behind: contextlib.ExitStack) -> None:
    place = directory / f"node-{HIT}"
    if not faults.make_read_only(place):
        raise SystemExit(f"failures.py: {place} could not be made read-only")
    behind.callback(faults.unmount, place)


def remove_directory(_: Path, directory: Path, __: object) -> None:
    shutil.rmtree(directory / f"node-{HIT}", ignore_errors=True)  # the job may just make a file there


SOON = ["--opt", f"timeout={HUNG / 2}"]
EVER = 1 << 30  # calls, or seconds
LATER = {"FROM": 300}  # which call on files: about the middle of the job
BESIDE = [
    Beside("a spare", "memory rs(3,1)", MEMORY, "", kill_spare, spares=1),
    Beside("a disk becomes read-only", "local rs(3,1)", RS, "Read-only", make_read_only),
    Beside("a disk is full", "local rs(3,1)", RS, "No space", fault=LATER | {"KIND": "enospc", "COUNT": EVER}),
    Beside("a disk gives errors", "local rs(3,1)", RS, "Input/output", fault=LATER | {"KIND": "eio", "COUNT": EVER}),
    Beside("the directory of a node is removed", "local rs(3,1)", RS, "does not exist", remove_directory),
    Beside(
        f"a disk hangs for {HUNG} s", "local rs(3,1)", [*RS, *SOON], "stuck",
        fault=LATER | {"KIND": "stuck", "COUNT": 1, "SECONDS": HUNG},
    ),
    Beside(
        "a disk hangs for good", "local rs(3,1)", [*RS, *SOON, "--relaunch", 0], "stuck",
        fault=LATER | {"KIND": "stuck", "COUNT": 1, "SECONDS": EVER}, status=1,
    ),
    Beside(
        "no memory for a checkpoint", "memory rs(3,1)", MEMORY, "no more memory",
        fault={"KIND": "enomem", "FROM": 30, "COUNT": 3},
    ),
    Beside("a clock jumps", "local rs(3,1)", RS, "", fault={"KIND": "clock"}),
    Beside(f"a rank hangs for {HUNG} s", "local rs(3,1)", RS, "", hang),
    Beside(
        f"a rank hangs for good, with --hang {HUNG}", "local rs(3,1)", [*RS, "--hang", HUNG], "launch hangs",
        hang_for_good, again=True,
    ),
]  # fmt: skip


def spares_of(kind: Kind) -> int:
    return 0 if kind.again else max(1, kind.lost.count("@")) + kind.full


def library_of(program: Path) -> Path:
    return program.absolute().parents[2] / "tests" / "crash" / "libfaulty_system.so"


def why_not(kind: Kind | Beside, program: Path) -> str:
    """It can be measured here; empty: it can."""
    if isinstance(kind, Beside) and kind.happens is make_read_only and not faults.can_make_read_only():
        return "this process may not mount"
    needs_library = kind.fault if isinstance(kind, Beside) else kind.full
    return f"there is no {library_of(program)}" if needs_library and not library_of(program).exists() else ""


def faulty(program: Path, **variables: object) -> dict[str, str]:
    of_library = {f"FAULTY_{name}": str(value) for name, value in variables.items()}
    return {"LD_PRELOAD": str(library_of(program))} | of_library


def told_by(words: list, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    environment = os.environ | (variables or {})
    ended = subprocess.run(
        [*map(str, words)], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if ended.returncode != 0:
        command = shlex.join(map(str, words))
        raise SystemExit(f"failures.py: {command} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    return ended


def full_disk(program: Path, directory: Path) -> dict[str, str]:
    """Variables: the first spare cannot write what it was to have at level local."""
    return faulty(program, UNDER=directory / f"node-{RANKS}" / "local", RANK=RANKS, KIND="enospc", COUNT=EVER)


def job(program: Path, kind: Kind, directory: Path, steps: int, lost: str = "") -> None:
    spares = spares_of(kind)
    flags = ["-n", RANKS, "--nodes", RANKS + spares, "--spares", spares, "--every", EVERY, *kind.flags]
    kill = ["--kill", lost] if lost else []
    words = ["run", *flags, "--opt", "policy=wait", *kill, "--dir", directory, "--"]
    variables = full_disk(program, directory) if kind.full else {}
    said = told_by([*COMMAND, *words, program, "--n", 40, "--steps", steps, "--quiet"], variables).stderr
    if kind.full and f"a spare on node {RANKS} ends where it was to take a place" not in said:
        raise SystemExit(f"failures.py: no spare has left its place to another one\n{said}")


def reported(directory: Path) -> list[dict]:
    return json.loads(told_by([*COMMAND, "report", directory, "--json"]).stdout)["failures"]


def of_loss(program: Path, kind: Kind, directory: Path) -> tuple[float, float | None]:
    """Seconds. Stood still, and computed again: None where nobody was left to note when the line was taken."""
    job(program, kind, directory, STEPS, kind.lost)
    failures = reported(directory)
    if not failures or any(failure["stood_still"] is None for failure in failures):
        raise SystemExit(f"failures.py: {kind.what} at {kind.level}: it did not come back: {failures}")
    events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    lost = sum(event.get("lost", 0) for event in events if event["event"] == "repair")
    if not kind.again and lost != kind.lost.count("@") + kind.full:
        raise SystemExit(f"failures.py: {kind.what} at {kind.level}: {lost} ranks were lost, not all that were killed")
    return sum(f["stood_still"] for f in failures), failures[0]["lost_work"]


def moments(times: Path) -> list[float]:
    return [float(line) for line in times.read_text().split("\n")[:-1]] if times.exists() else []


def beside(program: Path, kind: Beside, directory: Path) -> tuple[float, float]:
    """Seconds that the longest step takes longer behind what happens than before it."""
    repaired = program.parents[2] / "bench" / "repaired"
    times, seen = directory.with_name("times"), directory.with_name("seen")
    flags = ["-n", RANKS, "--nodes", RANKS + kind.spares, "--spares", kind.spares, "--every", EVERY, *kind.flags]
    words = [*COMMAND, "run", *flags, "--dir", directory, "--", repaired, 1, BESIDE_STEPS, times]
    variables = faulty(program, UNDER=directory, RANK=HIT, SEEN=seen, **kind.fault) if kind.fault else {}
    with contextlib.ExitStack() as behind:
        running = behind.enter_context(
            subprocess.Popen([*map(str, words)], env=os.environ | variables, stderr=subprocess.PIPE, text=True)
        )
        behind.callback(running.kill)
        while len(moments(times)) < BESIDE_STEPS // 2 and running.poll() is None:
            time.sleep(0.01)
        moment = time.time()
        if kind.happens is not None:
            kind.happens(repaired, directory, behind)
        said = running.communicate(timeout=600)[1]
    if kind.fault:
        moment = seen.stat().st_mtime
    steps = moments(times)
    as_it_should = running.returncode == kind.status and (len(steps) == BESIDE_STEPS or kind.again)
    if not as_it_should or not re.search(kind.says, said) or not steps[0] < moment < steps[-1]:
        raise SystemExit(f"failures.py: {kind.what}: {len(steps)} steps, status {running.returncode}\n{said}")
    return longer(steps, moment), sum(failure["lost_work"] for failure in reported(directory) if kind.again)


def longer(steps: list[float], moment: float) -> float:
    """Seconds that the longest step around this moment takes longer if it ends behind it."""
    pairs = [*zip(steps, steps[1:], strict=False)]
    before = [end - begin for begin, end in pairs if moment - AROUND < end <= moment]
    return max(end - begin for begin, end in pairs if end > moment and begin < moment + AROUND) - max(before)


def of_damage(program: Path, kind: Kind, directory: Path) -> tuple[float, float]:
    """What the resume takes longer, by a byte in the newest file of rank 3, than with all files whole."""
    seconds = []
    for damaged in (False, True):
        job(program, kind, directory, STEPS // 2)
        newest = max(directory.glob("node-*/*/line-*/rank-00003.h5"))
        if damaged:
            data = bytearray(newest.read_bytes())
            data[len(data) // 2] ^= 1
            newest.write_bytes(data)
        job(program, kind, directory, STEPS // 2 + 1)
        events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
        seconds.append([event for event in events if event["event"] == "resume"][-1]["seconds"])
        told_by(["rm", "-r", directory])
    return seconds[1] - seconds[0], 0.0


def run(options: argparse.Namespace) -> list[dict]:
    """Rows for `./dev bench`; the kinds take turns."""
    kinds = [kind for kind in [*KINDS, *BESIDE] if re.search(options.only, f"{kind.what}, {kind.level}")]
    for kind in kinds:
        if missing := why_not(kind, options.program):
            print(f"failures.py: not measured: {kind.what}, at level {kind.level}: {missing}", file=sys.stderr)
    kinds = [kind for kind in kinds if not why_not(kind, options.program)]
    figures = [[] for _ in kinds]
    for _ in range(options.turns):
        for kind, of_kind in zip(kinds, figures, strict=True):
            with tempfile.TemporaryDirectory(prefix="backstay-failures.", dir="/dev/shm") as place:
                measure = measure_of(kind)
                of_kind.append(measure(options.program, kind, Path(place) / "ck"))
    return [
        {
            "what": "failure", "store": "shm", "ranks": RANKS, "lost": kind.what, "level": kind.level,
            "by": comes_back_by(kind), "turns": of_kind,
            "stood_still": statistics.median(still for still, _ in of_kind),
            "lost_work": statistics.median([lost for _, lost in of_kind if lost is not None] or [0.0]),
        }
        for kind, of_kind in zip(kinds, figures, strict=True)
    ]  # fmt: skip


def measure_of(kind: Kind | Beside) -> Callable:
    if isinstance(kind, Beside):
        return beside
    return of_loss if kind.lost else of_damage


def comes_back_by(kind: Kind | Beside) -> str:
    if kind.again:
        return "a launch"
    return "nobody is lost" if isinstance(kind, Beside) and not kind.spares else "a spare"


def told(row: dict) -> str:
    stills = [still for still, _ in row["turns"]]
    return (
        f"| {row['lost']} | {row['level']} | {row['by']} | {row['stood_still']:.3f} s ({min(stills):.3f} to "
        f"{max(stills):.3f}) | {row['lost_work']:.2f} s |"
    )


HEAD = "| lost | level | comes back by | stood still | computed again |\n|---|---|---|---|---|"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "release"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="", metavar="RE", help="kinds of loss and level with this in them")
    parser.add_argument("--program", type=Path, default=build / "apps" / "tgv" / "tgv")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(HEAD, *map(told, run(parse())), sep="\n")
