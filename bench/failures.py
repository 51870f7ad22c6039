"""What each kind of failure costs a job: how long it stands still, and how much it computes again.

    python bench/failures.py --turns 5      # the vortex, 40^3 on 8 ranks, 120 steps, a checkpoint every 10

As `backstay report` tells it: from the moment when the loss was noticed until all ranks have their data back, and the
time from the capture of what came back to the loss. On /dev/shm; a launch of `backstay run` has a pause of 1 s in it.

The report has no loss of a spare, for which nobody stands still. There it is how much longer the longest time between
the ends of two steps is around the loss than before it, in bench/repaired.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-c", "from backstay.cli import main; exit(main())"]
RANKS, STEPS, EVERY = 8, 120, 10
SPARE_STEPS, SPARE_AROUND = 400, 1.0  # steps of bench/repaired in which a spare is lost; seconds behind its loss


A_SPARE = "a spare"  # --kill knows calls of checkpoint(), and a spare makes none


@dataclass
class Kind:
    """A failure, and the protection that bears it."""

    what: str
    level: str
    flags: list[str]
    lost: str  # as --kill names it; A_SPARE; empty: a file is damaged between two launches
    again: bool  # by a launch


ALL = ",".join(f"{rank}@65" for rank in range(RANKS))


def of_racks(nodes: int) -> list[str]:
    """The flags of a level whose groups have their members in different racks, of two nodes each."""
    racks = "/".join(f"{node}-{node + 1}" for node in range(0, nodes, 2))
    return ["--levels", "local", "--opt", "local.redundancy=rs(2,1)", "--opt", f"local.unit=nodes:{racks}"]


KINDS = [
    Kind("a process", "memory rs(3,1)", ["--levels", "memory", "--opt", "memory.redundancy=rs(3,1)"], "3@65", False),
    Kind("rank 0", "memory rs(3,1)", ["--levels", "memory", "--opt", "memory.redundancy=rs(3,1)"], "0@65", False),
    Kind("a node", "partner", ["--levels", "partner"], "node3@65", False),
    Kind("a node", "local rs(3,1)", ["--levels", "local", "--opt", "local.redundancy=rs(3,1)"], "node3@65", False),
    Kind(
        "another process, of another group, during a repair",
        "memory rs(3,1)",
        ["--levels", "memory", "--opt", "memory.redundancy=rs(3,1)"],
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
    Kind("a spare", "memory rs(3,1)", ["--levels", "memory", "--opt", "memory.redundancy=rs(3,1)"], A_SPARE, False),
    Kind("a process", "local", ["--levels", "local"], "3@65", True),
    Kind("a node", "partner", ["--levels", "partner"], "node3@65", True),
    Kind("a node", "local rs(3,1)", ["--levels", "local", "--opt", "local.redundancy=rs(3,1)"], "node3@65", True),
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
    Kind("a damaged file", "local rs(3,1)", ["--levels", "local", "--opt", "local.redundancy=rs(3,1)"], "", True),
]


def told_by(words: list) -> str:
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode != 0:
        command = shlex.join(map(str, words))
        raise SystemExit(f"failures.py: {command} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    return ended.stdout


def job(program: Path, kind: Kind, directory: Path, steps: int, lost: str = "") -> None:
    spares = 0 if kind.again else max(1, kind.lost.count("@"))
    flags = ["-n", RANKS, "--nodes", RANKS + spares, "--spares", spares, "--every", EVERY, *kind.flags]
    kill = ["--kill", lost] if lost else []
    words = ["run", *flags, "--opt", "policy=wait", *kill, "--dir", directory, "--"]
    told_by([*COMMAND, *words, program, "--n", 40, "--steps", steps, "--quiet"])


def of_loss(program: Path, kind: Kind, directory: Path) -> tuple[float, float | None]:
    """Seconds. Stood still, and computed again: None where nobody was left to note when the line was taken."""
    job(program, kind, directory, STEPS, kind.lost)
    failures = json.loads(told_by([*COMMAND, "report", directory, "--json"]))["failures"]
    if not failures or any(failure["stood_still"] is None for failure in failures):
        raise SystemExit(f"failures.py: {kind.what} at {kind.level}: it did not come back: {failures}")
    events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    lost = sum(event.get("lost", 0) for event in events if event["event"] == "repair")
    if not kind.again and lost != kind.lost.count("@"):
        raise SystemExit(f"failures.py: {kind.what} at {kind.level}: {lost} ranks were lost, not all that were killed")
    return sum(f["stood_still"] for f in failures), failures[0]["lost_work"]


def process_of(rank: int, program: Path) -> int | None:
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if place.joinpath("exe").readlink() == program.resolve():
                if f"\0OMPI_COMM_WORLD_RANK={rank}\0".encode() in place.joinpath("environ").read_bytes():
                    return int(place.name)
        except OSError:
            continue  # it has ended meanwhile
    return None


def moments(times: Path) -> list[float]:
    return [float(line) for line in times.read_text().split("\n")[:-1]] if times.exists() else []


def of_spare(program: Path, kind: Kind, directory: Path) -> tuple[float, float]:
    repaired, times = program.parents[2] / "bench" / "repaired", directory.parent / "times"
    flags = ["-n", RANKS, "--nodes", RANKS + 1, "--spares", 1, "--every", EVERY, *kind.flags, "--opt", "policy=wait"]
    words = [*COMMAND, "run", *flags, "--dir", directory, "--", repaired, 1, SPARE_STEPS, times]
    with subprocess.Popen([*map(str, words)], stderr=subprocess.PIPE, text=True) as running:
        while len(moments(times)) < SPARE_STEPS // 2 and running.poll() is None:
            time.sleep(0.01)
        spare = process_of(RANKS, repaired)
        if spare is None:
            running.kill()
            raise SystemExit("failures.py: there is no spare to kill")
        lost = time.time()
        os.kill(spare, signal.SIGKILL)
        said = running.communicate(timeout=600)[1]
    steps = moments(times)
    if running.returncode != 0 or len(steps) != SPARE_STEPS:
        raise SystemExit(f"failures.py: {kind.what}: {len(steps)} steps, status {running.returncode}\n{said}")
    return longest(steps, lost, lost + SPARE_AROUND) - longest(steps, lost - SPARE_AROUND, lost), 0.0


def longest(steps: list[float], first: float, last: float) -> float:
    """Seconds between the ends of two steps of which the later one lies between the two moments."""
    return max(later - earlier for earlier, later in zip(steps, steps[1:], strict=False) if first < later <= last)


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
    kinds = [kind for kind in KINDS if re.search(options.only, f"{kind.what}, {kind.level}")]
    figures = [[] for _ in kinds]
    for _ in range(options.turns):
        for kind, of_kind in zip(kinds, figures, strict=True):
            with tempfile.TemporaryDirectory(prefix="backstay-failures.", dir="/dev/shm") as place:
                measure = measure_of(kind)
                of_kind.append(measure(options.program, kind, Path(place) / "ck"))
    return [
        {
            "what": "failure", "store": "shm", "ranks": RANKS, "lost": kind.what, "level": kind.level,
            "again": kind.again, "turns": of_kind, "stood_still": statistics.median(still for still, _ in of_kind),
            "lost_work": statistics.median([lost for _, lost in of_kind if lost is not None] or [0.0]),
        }
        for kind, of_kind in zip(kinds, figures, strict=True)
    ]  # fmt: skip


def measure_of(kind: Kind):
    return {"": of_damage, A_SPARE: of_spare}.get(kind.lost, of_loss)


def told(row: dict) -> str:
    how = "a launch" if row["again"] else "a spare"
    stills = [still for still, _ in row["turns"]]
    return (
        f"| {row['lost']} | {row['level']} | {how} | {row['stood_still']:.3f} s ({min(stills):.3f} to "
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
