"""Kills ranks and spares of a running job at random moments, and requires that it goes on by itself.

    ./dev campaign kills --large --seed 1
    python tests/crash/repairs.py --runs 200 --seed 1 --close 0.34

A run: one of three programs, some ranks and some spares, 1 to 4 kills of random processes (rank 0 and spares among
them) at times that are uniform over the whole run; with some protections whole nodes, whose directories are removed.
With --close a part of the kills comes within 80 ms of the one before, so that it falls into its repair. What is right:

- the run ends with status 0 and the result of an undisturbed run, bit for bit, and every repair of no more than the
  protection bears brought back the newest line that was committed before it; or
- it was hit by more than it can bear, and says so: no spare is left, or no line can be put back, or a rank died before
  the first line or outside loop(). It is launched again then, and must end with that result; or, where more nodes were
  lost with their directories than the protection bears, say that no line is left.

A run that does not end in time, another result, and an end without such a reason are failures. Open MPI 5.0 itself may
crash, or not end a call, where a rank dies while the others make a communicator (docs/limitations.md): such a run is
counted apart, comes back when it is launched again, and is a failure in `./dev campaign kills`.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
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
from campaign import Outcome
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
SURVIVED = {"memory rs(2,2)": 2, "shared": 1000}  # losses at once that no line is lost by; the others: 1
REASONS = {  # the first that is said counts: ranks that end for want of a line are missed by spares, too
    "none can be put back": "no line",
    "no spare is left": "no spare",
    "there is no line to roll back to": "no line yet",
    "was not inside loop()": "outside loop",
    "lost after the end of loop()": "after loop",
    "MPI did not make a communicator of those who are left": "MPI stuck",
    "(ompi_comm_revoke_local": "crash of MPI",  # see docs/limitations.md
}


OF_MPI = {"MPI stuck", "crash of MPI"}


@dataclass(frozen=True)
class Application:
    """A program that is killed: what it is given, and where its result is."""

    name: str
    program: Path
    words: list[str]
    answer: str  # the line of stdout that begins with this word, or a file in the directory of the run

    def result(self, ended: Ended, directory: Path) -> str | None:
        if not self.answer.endswith(".csv"):
            line = ended.line(self.answer)
            return line[1] if line else None
        file = directory / self.answer
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None

    def given(self, directory: Path) -> list[str]:
        return [word.replace("DIR", str(directory)) for word in self.words]


def applications(build: Path, steps: int) -> list[Application]:
    """In C++ with communicators of its own, in C, the Taylor-Green vortex, and one that sets itself up in init()."""
    return [
        Application("stepper", build / "tests" / "crash" / "stepper", [str(steps)], "hash"),
        Application("looper", build / "tests" / "crash" / "looper", [str(10 * steps)], "sum"),
        Application(
            "tgv", build / "apps" / "tgv" / "tgv",
            ["--n", "24", "--steps", str(max(20, steps // 6)), "--quiet", "--csv", "DIR/curve.csv"], "curve.csv",
        ),
        Application(
            "heat", build / "apps" / "heat" / "heat",
            ["--cells", "16", "--steps", str(max(20, steps // 8)), "--quiet", "--csv", "DIR/curve.csv"], "curve.csv",
        ),
    ]  # fmt: skip


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
    lost_with_nodes: int = 0  # of those that ended for a reason: also the next launch says that no line is left
    repairs: list[float] = field(default_factory=list)  # seconds, detection not counted
    reasons: collections.Counter = field(default_factory=collections.Counter)
    of_mpi: list[str] = field(default_factory=list)  # runs that a fault of MPI itself ended
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
    """One job that is killed. `expected`: of undisturbed ones, by program and ranks: the result and the seconds."""

    def __init__(
        self, programs: list[Application], expected: dict[tuple[str, int], tuple[str, float]], chance: random.Random,
        apart: float, close: float,
    ):  # fmt: skip
        self.chance, self.apart, self.close = chance, apart, close
        ranks = chance.randint(3, 6)
        self.application = chance.choice(programs)
        self.expected, self.seconds = expected[self.application.name, ranks]
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
            close = times and self.chance.random() < self.close
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
        launch = self.launch(directory)
        kills.started(launch, directory, 0)
        self.start = time.monotonic()
        for moment in self.times():
            time.sleep(max(0.0, self.start + moment - time.monotonic()))
            if launch.running():
                self.kill(launch, directory)
        ended = launch.end()
        return ended, self.judge(ended, directory)

    def launch(self, directory: Path) -> Launch:
        words = self.application.given(directory)
        return Launch(self.application.program, words, directory, self.shape.options(), self.shape.processes, LIMIT)

    def judge(self, ended: Ended, directory: Path) -> str:
        if ended.status == 124:
            return "did not end in time"
        said = self.application.result(ended, directory)
        if said is not None and said != self.expected:
            return f"ended with another result: {said}"
        if older := self.older_line(directory):
            return older
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
        if reason == "no line" and losses <= SURVIVED.get(self.shape.protection, 1):
            return f"says that no line can be put back after {losses} losses"
        return reason

    def older_line(self, directory: Path) -> str:
        """The first repair that went back further than it had to; nothing if none did."""
        newest = lost = 0
        for event in kills.events_of(directory):
            kind, line = event.get("event"), int(event.get("line") or 0)
            if kind == "commit" and not event["level"].endswith("-static"):
                newest = max(newest, line)
            elif kind == "repair":
                lost += int(event["lost"])
            elif kind in {"resume", "fresh"}:
                if 0 < lost <= SURVIVED.get(self.shape.protection, 1) and line < newest:
                    return f"came back from line {line} after {lost} losses, and line {newest} was committed"
                lost = 0
        return ""

    def again(self, directory: Path) -> tuple[Ended, str]:
        """A launch without kills after a clean end. It may say that lines are there, but are lost with their nodes."""
        ended = self.launch(directory).end()
        said = self.application.result(ended, directory)
        if ended.status == 0 and said == self.expected:
            return ended, ""
        if self.nodes_hit > SURVIVED.get(self.shape.protection, 1) and "none can be put back" in ended.err:
            return ended, "lost with its nodes"
        return ended, f"launched again, ended with status {ended.status} and the result {said}"


def undisturbed(application: Application, ranks: int, directory: Path) -> tuple[str, float]:
    """The result, and the seconds from the session's opening to the end."""
    options = {"LEVELS": "memory", "EVERY": "100000", "NODES": str(ranks)}
    launch = Launch(application.program, application.given(directory), directory, options, ranks)
    kills.started(launch, directory, 0)
    start = time.monotonic()
    ended = launch.end()
    result = application.result(ended, directory)
    if ended.status != 0 or result is None:
        raise SystemExit(f"repairs.py: {application.name} ended with status {ended.status}\n{ended.out}{ended.err}")
    return result, max(1.0, time.monotonic() - start)


def campaign(programs: list[Application], runs: int, seed: int, apart: float = 0, close: float = 0) -> Tally:
    tally = Tally()
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    expected = {}
    for application in programs:
        for ranks in range(3, 7):
            with tempfile.TemporaryDirectory(prefix="backstay-repairs.", dir=place) as directory:
                expected[application.name, ranks] = undisturbed(application, ranks, Path(directory))
    for number in range(runs):
        run = Run(programs, expected, random.Random(f"{seed} {number}"), apart, close)
        directory = Path(tempfile.mkdtemp(prefix="backstay-repairs.", dir=place))
        ended, wrong = run.go(directory)
        tally.runs += 1
        tally.kills += len(run.hit)
        tally.node_kills += run.nodes_hit
        tally.crashes += crashes_of_mpi(ended)
        tally.hung_launchers += ended.status == 200
        tally.repairs += seconds_of_repairs(ended)
        story = f"run {number}: {run.application.name}, {run.shape} killed {run.hit}: {wrong}"
        if wrong in REASONS.values():
            tally.reasons[wrong] += 1
            if wrong in OF_MPI:
                tally.of_mpi.append(story)
            ended, wrong = run.again(directory)
            if wrong == "lost with its nodes":
                tally.lost_with_nodes, wrong = tally.lost_with_nodes + 1, ""
        else:
            tally.went_on += 1
        if wrong:
            tally.failures.append(f"{story}; {wrong}\n{ended.out}{ended.err[-20000:]}")
            print(tally.failures[-1], file=sys.stderr, flush=True)
        shutil.rmtree(directory, ignore_errors=True)
    return tally


def told(tally: Tally) -> str:
    out = (
        f"{tally.runs} runs with {tally.kills} kills ({tally.node_kills} of whole nodes): {tally.went_on} "
        f"went on by themselves and ended bit-identical, {sum(tally.reasons.values())} ended for a reason "
        f"({dict(tally.reasons)}) and came back when launched again ({tally.lost_with_nodes} said that all their lines "
        f"were lost with the nodes), {tally.crashes} processes crashed inside MPI, "
        f"{tally.hung_launchers} launchers had to be ended"
    )
    if tally.repairs:
        out += (
            f"; from the coming together until the data are back, {len(tally.repairs)} times: "
            f"median {statistics.median(tally.repairs) * 1e3:.0f} ms, worst {max(tally.repairs) * 1e3:.0f} ms"
        )
    return out


def run_campaign(large: bool, seed: int) -> Outcome:
    """Jobs that go on by themselves, and jobs that are launched again: 1,000 in all, or a few."""
    online, each_mix = (800, 25) if large else (10, 1)
    tally = campaign(applications(built(), 1200), online, seed)
    found = tally.failures + tally.of_mpi
    again = kills.Tally()
    with tempfile.TemporaryDirectory(prefix="backstay-kills.") as directory:
        stepper = applications(built(), 2500)[0].program
        expected = kills.undisturbed_hash(stepper, 2500, Path(directory))
    for mix in kills.MIXES:
        one = kills.campaign(stepper, mix, each_mix, 2500, seed, 5, expected)
        found += one.failures
        again.kills, again.node_kills, again.ends = (
            again.kills + one.kills, again.node_kills + one.node_kills, again.ends + one.ends,
        )  # fmt: skip
    return Outcome(
        f"{told(tally)}; without spares, {again.kills} kills ({again.node_kills} of whole nodes) in {len(kills.MIXES)} "
        f"mixes of levels, {again.ends} jobs launched again to their bit-identical end",
        found,
    )


def built() -> Path:
    return Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", kills.ROOT / "build" / "dev"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--apart", type=float, default=0, help="seconds from a kill to the next at least; 0: any")
    parser.add_argument("--close", type=float, default=0, help="the part of kills within 80 ms of the one before")
    parser.add_argument("--only", choices=["stepper", "looper", "tgv", "heat"], help="this program only")
    parser.add_argument("--build", type=Path, default=built(), help="the build tree with the programs")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    programs = [a for a in applications(options.build, options.steps) if options.only in (None, a.name)]
    tally = campaign(programs, options.runs, options.seed, options.apart, options.close)
    print(
        f"repairs: {told(tally)}, {len(tally.failures)} failed; seed {options.seed}, {time.monotonic() - start:.0f} s"
    )
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
