"""Kills ranks and spares of a running job at random moments, and requires that it goes on by itself.

    python tests/crash/repairs.py --runs 200 --seed 1

A run: some ranks and some spares, 1 to 4 kills of random processes (rank 0 and spares among them) at times that are
uniform over the whole run, every third of them a few milliseconds after the one before, so that it falls into its
repair; with some protections whole nodes, whose directories are removed. What is right:

- the run ends with status 0 and the hash of an undisturbed run; or
- it was hit by more than it can bear, and says so: no spare is left, or no line can be put back, or a rank died before
  the first line or outside loop(); or a process crashed inside Open MPI, which happens where a rank dies while a
  communicator is made (docs/limitations.md). It is launched again then, and must end with that hash.

A run that does not end in time, another hash, and an end without such a reason are failures.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import kills
from kills import Ended, Launch

LIMIT = 60  # seconds for one run; it needs a few

PROTECTIONS = {
    "memory rs(2,1)": {"LEVELS": "memory", "MEMORY_REDUNDANCY": "rs(2,1)"},
    "memory rs(2,2)": {"LEVELS": "memory", "MEMORY_REDUNDANCY": "rs(2,2)"},
    "local rs(2,1)": {"LEVELS": "local", "LOCAL_REDUNDANCY": "rs(2,1)"},
    "partner": {"LEVELS": "partner"},
    "shared": {"LEVELS": "shared", "SHARED_LAYOUT": "file-per-rank"},
    "memory, shared": {"LEVELS": "memory,shared", "MEMORY_REDUNDANCY": "rs(2,1)", "SHARED_EVERY": "40"},
}
REASONS = {
    "no spare is left": "no spare",
    "there is no line to roll back to": "no line yet",
    "was not inside loop()": "outside loop",
    "lost after the end of loop()": "after loop",
    "none can be put back": "no line",
    "MPI did not make a communicator of those who are left": "MPI stuck",
    "(ompi_comm_revoke_local": "crash of MPI",  # see docs/limitations.md
}


def crashes_of_mpi(ended: Ended) -> int:
    """Processes that Open MPI itself has lost: 5.0 notices a loss while a communicator is made and uses it unready."""
    return ended.err.count("(ompi_comm_revoke_local")


def seconds_of_repairs(ended: Ended) -> list[float]:
    """From a rank's coming to the repair until its data are back, for each repair that was not followed by another."""
    out, together = [], 0.0
    for line in ended.err.splitlines():
        if found := re.search(r"together again after ([\d.]+) (ms|s|us)", line):
            together = seconds(found)
        elif (found := re.search(r"resumed from line .* in ([\d.]+) (ms|s|us)", line)) and together:
            out.append(together + seconds(found))
            together = 0.0
    return out


def seconds(found: re.Match) -> float:
    return float(found[1]) * {"s": 1, "ms": 1e-3, "us": 1e-6}[found[2]]


@dataclass
class Tally:
    runs: int = 0
    kills: int = 0
    node_kills: int = 0
    went_on: int = 0
    crashes: int = 0
    hung_launchers: int = 0
    repairs: list[float] = field(default_factory=list)  # seconds, detection not counted
    reasons: collections.Counter = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Shape:
    """How a job is put together."""

    ranks: int
    spares: int
    nodes: int
    protection: str

    @property
    def processes(self) -> int:
        return self.ranks + self.spares

    def options(self) -> dict[str, str]:
        return {"EVERY": "2", "SPARES": str(self.spares), "NODES": str(self.nodes), "TIMEOUT": "40",
                **PROTECTIONS[self.protection]}  # fmt: skip

    def on_node(self, node: int) -> set[int]:
        return {number for number in range(self.processes) if number * self.nodes // self.processes == node}


class Run:
    def __init__(
        self, program: Path, steps: int, seconds: float, expected: dict[int, str], chance: random.Random, apart: float
    ):
        self.program, self.steps, self.seconds, self.expected, self.chance = program, steps, seconds, expected, chance
        self.apart = apart
        ranks = chance.randint(3, 6)
        spares = chance.randint(1, 3)
        self.shape = Shape(ranks, spares, ranks + spares, chance.choice(list(PROTECTIONS)))
        self.hit: list[str] = []
        self.nodes_hit = 0

    def times(self) -> list[float]:
        """When to kill, seconds after the first step."""
        times: list[float] = []
        for _ in range(self.chance.randint(1, 4)):
            if self.apart:
                times.append((times[-1] if times else 0) + self.apart + self.chance.uniform(0, self.seconds / 4))
                continue
            close = times and self.chance.random() < 0.34
            times.append(times[-1] + self.chance.uniform(0, 0.08) if close else self.chance.uniform(0, self.seconds))
        return sorted(times)

    def kill(self, launch: Launch, directory: Path) -> None:
        node_dies = self.shape.protection != "shared" and self.chance.random() < 0.3
        number = self.chance.randrange(self.shape.processes)
        numbers = {number}
        if node_dies:
            node = number * self.shape.nodes // self.shape.processes
            numbers = self.shape.on_node(node)
        if not launch.kill(numbers):
            return
        self.hit.append(f"{sorted(numbers)} at {time.monotonic() - self.start:.3f} s")
        if node_dies:
            self.nodes_hit += 1
            shutil.rmtree(directory / f"node-{node}", ignore_errors=True)

    def go(self, directory: Path) -> tuple[Ended, str]:
        """The end of the run, and what is wrong with it."""
        launch = Launch(self.program, self.steps, directory, self.shape.options(), self.shape.processes, LIMIT)
        while launch.running() and launch.in_time() and not launch.said("fresh"):
            time.sleep(0.002)
        self.start = time.monotonic()
        for moment in self.times():
            time.sleep(max(0.0, self.start + moment - time.monotonic()))
            if launch.running():
                self.kill(launch, directory)
        ended = launch.end()
        return ended, self.judge(ended)

    def judge(self, ended: Ended) -> str:
        if ended.status == 124:
            return "did not end in time"
        said = ended.line("hash")
        if said is not None and said != ["hash", self.expected[self.shape.ranks]]:
            return f"ended with another hash: {said}"
        if ended.status in (0, 200) and said is not None:
            return ""
        if said is not None:  # a rank was killed behind the end of its work
            return "after loop"
        if crashes_of_mpi(ended):
            return "crash of MPI"
        reason = next((short for text, short in REASONS.items() if text in ended.err), None)
        if reason is None:
            return f"ended with status {ended.status} and no reason"
        losses = len(self.hit)
        if reason == "no spare" and losses <= self.shape.spares:
            return f"says that no spare is left after {losses} losses"
        if reason == "no line" and losses < 2:
            return "says that no line can be put back after one loss"
        return reason

    def again(self, directory: Path) -> tuple[Ended, str]:
        """A launch without kills after a clean end."""
        ended = Launch(self.program, self.steps, directory, self.shape.options(), self.shape.processes, LIMIT).end()
        if ended.status == 0 and ended.line("hash") == ["hash", self.expected[self.shape.ranks]]:
            return ended, ""
        return ended, f"launched again, ended with status {ended.status} and {ended.line('hash')}"


def campaign(program: Path, runs: int, steps: int, seed: int, apart: float) -> Tally:
    tally = Tally()
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    expected: dict[int, str] = {}
    seconds = 1.0
    for ranks in range(3, 7):
        directory = Path(tempfile.mkdtemp(prefix="backstay-repairs.", dir=place))
        launch = Launch(program, steps, directory, {"LEVELS": "memory", "EVERY": "100000", "NODES": str(ranks)}, ranks)
        while launch.running() and not launch.said("fresh"):
            time.sleep(0.002)
        start = time.monotonic()
        ended = launch.end()
        seconds = max(seconds, time.monotonic() - start)
        expected[ranks] = (ended.line("hash") or ["", "none"])[1]
        shutil.rmtree(directory)
    for number in range(runs):
        run = Run(program, steps, seconds, expected, random.Random(f"{seed} {number}"), apart)
        directory = Path(tempfile.mkdtemp(prefix="backstay-repairs.", dir=place))
        ended, wrong = run.go(directory)
        tally.runs += 1
        tally.kills += len(run.hit)
        tally.node_kills += run.nodes_hit
        tally.crashes += crashes_of_mpi(ended)
        tally.hung_launchers += ended.status == 200
        tally.repairs += seconds_of_repairs(ended)
        if wrong in REASONS.values():
            tally.reasons[wrong] += 1
            ended, wrong = run.again(directory)
        else:
            tally.went_on += 1
        if wrong:
            story = f"run {number}: {run.shape} killed {run.hit}: {wrong}"
            tally.failures.append(f"{story}\n{ended.out}{ended.err[-20000:]}")
            print(tally.failures[-1], file=sys.stderr, flush=True)
        shutil.rmtree(directory, ignore_errors=True)
    return tally


def main(arguments: list[str] | None = None) -> int:
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", kills.ROOT / "build" / "dev"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--apart", type=float, default=0, help="seconds from a kill to the next at least; 0: any")
    parser.add_argument("--program", type=Path, default=build / "tests" / "crash" / "stepper")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    tally = campaign(options.program, options.runs, options.steps, options.seed, options.apart)
    print(
        f"repairs: {tally.runs} runs with {tally.kills} kills ({tally.node_kills} of whole nodes): {tally.went_on} "
        f"went on by themselves and ended bit-identical, {sum(tally.reasons.values())} ended for a reason "
        f"({dict(tally.reasons)}) and came back when launched again, {tally.crashes} processes crashed inside MPI, "
        f"{tally.hung_launchers} launchers had to be ended, "
        f"{len(tally.failures)} failed; seed {options.seed}, {time.monotonic() - start:.0f} s"
    )
    if tally.repairs:
        print(
            f"repairs: from the coming together until the data are back, {len(tally.repairs)} times: "
            f"median {statistics.median(tally.repairs) * 1e3:.0f} ms, worst {max(tally.repairs) * 1e3:.0f} ms"
        )
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
