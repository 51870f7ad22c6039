"""Kills ranks and spares of a running job at random moments, and requires that it goes on by itself.

    ./dev campaign kills --large --seed 1
    python tests/crash/repairs.py --runs 200 --seed 1 --close 0.34
    python tests/crash/repairs.py --runs 50 --protection "local, local2" --only tea2d
    python tests/crash/repairs.py --runs 50 --shrink

A run: one of nine programs, three of them with 2 to 8 MiB a rank, some ranks and some spares, 1 to 4 kills of random
processes (rank 0 and spares among them) at times that are uniform over the whole run; with some protections whole nodes
and one or two racks, whose directories are removed. With --close a part of the kills comes within 80 ms of the one
before, so that it falls into its repair. What is right:

- the run ends with status 0 and the result of an undisturbed run, bit for bit, and every repair of no more than a level
  bears brought back its newest line that was committed before, or a newer one; or
- it was hit by more than it can bear, and says so: no spare is left, or no line can be put back, or a rank died before
  the first line or outside loop(). It is launched again then, and must end with that result; or, where more nodes were
  lost with their directories than the protection bears, say that no line is left; or
- every process was killed, so that nobody was there to say anything: the same.

With --late they come about the end of the run: before it, behind it, and while the session and MPI are closed.

With shrink=on (programs that place their data only: the result is that of any number of ranks) no run may end for want
of spares: who is left goes on. What the levels bear is the same with fewer ranks: as many losses as there are parities,
or all but one rank, which is less only where nobody would be left.

What a protection bears, and how that is counted for several levels and for racks: protections.py.

A run that does not end in time, another result, and an end without such a reason are failures. Open MPI 5.0 itself may
crash, or not end a call, where a rank dies while the others make a communicator (docs/limitations.md): such a run is
counted apart, comes back when it is launched again, and is a failure in `./dev campaign kills`.

Kills while a job opens, which `backstay run` answers: openings.py. Kills at a call on files or of MPI: middles.py.
Kills of jobs without spares: kills.py.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import itertools
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
from protections import PROTECTIONS, Kill, Shape, files_bear, has_a_line, older_line, shape_for

LIMIT = 60  # seconds for one run; it needs a few

REASONS = {  # the first that is said counts: ranks that end for want of a line are missed by spares, too
    "none can be put back": "no line",
    "more ranks were lost than the logs": "no log",
    "took their places find no line on their nodes": "all ranks",
    "no spare is left": "no spare",
    "left to take the places": "no spare",
    "there is no line to roll back to": "no line yet",
    "was not inside loop()": "outside loop",
    "lost after the end of loop()": "after loop",
    "MPI did not make a communicator of those who are left": "MPI stuck",
    "(ompi_comm_revoke_local": "crash of MPI",  # see docs/limitations.md
}


OF_MPI = {"MPI stuck", "crash of MPI"}
ALL_KILLED = "all killed"
GIVEN_UP = "as MPI gave up by itself"  # a loss that no kill made (docs/decisions/0011)


@dataclass(frozen=True)
class Application:
    """A program that is killed: what it is given, and where its result is."""

    name: str
    program: Path
    words: list[str]
    answer: str  # the line of stdout that begins with this word, or a file in the directory of the run
    placed: bool = False  # all that it protects: it runs on any number of ranks, to the same result

    def result(self, ended: Ended, directory: Path) -> str | None:
        if not self.answer.endswith(".csv"):
            line = ended.line(self.answer)
            return line[1] if line else None
        file = directory / self.answer
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None

    def done_at(self, ended: Ended, directory: Path) -> float:
        """The time.time() of its result."""
        return (directory / self.answer).stat().st_mtime if self.answer.endswith(".csv") else ended.printed

    def given(self, directory: Path) -> list[str]:
        return [word.replace("DIR", str(directory)) for word in self.words]


def applications(build: Path, steps: int) -> list[Application]:
    """In C++ with communicators of its own, the same with a replay, in C, the Taylor-Green vortex, one that sets itself
    up in init(), and one that declares its computations: each with less than 1 MiB a rank. Then with 2 to 8 MiB a rank:
    the first, the vortex, and one with messages of up to 1 MiB between all ranks."""
    tgv, crash = build / "apps" / "tgv" / "tgv", build / "tests" / "crash"
    return [
        Application("stepper", crash / "stepper", [str(steps)], "hash"),
        Application("replayer", crash / "stepper", [str(steps), "replay"], "hash"),
        Application("looper", crash / "looper", [str(10 * steps)], "sum"),
        Application(
            "tgv", tgv, ["--n", "24", "--steps", str(max(20, steps // 6)), "--quiet", "--csv", "DIR/curve.csv"],
            "curve.csv", placed=True,
        ),
        Application(
            "heat", build / "apps" / "heat" / "heat",
            ["--cells", "16", "--steps", str(max(20, steps // 8)), "--quiet", "--csv", "DIR/curve.csv"], "curve.csv",
        ),
        Application(
            "tea2d", build / "apps" / "tea2d" / "tea2d",
            ["--n", "64", "--steps", str(max(20, steps // 4)), "--quiet", "--csv", "DIR/curve.csv"], "curve.csv",
            placed=True,
        ),
        Application("large stepper", crash / "stepper", [str(max(20, steps // 3)), "resume", "250000"], "hash"),
        Application(
            "large tgv", tgv, ["--n", "80", "--steps", str(max(10, steps // 30)), "--quiet", "--csv", "DIR/curve.csv"],
            "curve.csv", placed=True,
        ),
        Application("halos", crash / "halos", [str(max(20, steps // 2)), "2"], "hash"),
    ]  # fmt: skip


def crashes_of_mpi(ended: Ended) -> int:
    """Processes that Open MPI itself has lost: 5.0 notices a loss while a communicator is made and uses it unready."""
    return ended.err.count("(ompi_comm_revoke_local")


def given_up_by_mpi(ended: Ended) -> int:
    """Healthy processes that Open MPI itself has ended."""
    return ended.err.count(GIVEN_UP)


def ended_by_mpi(ended: Ended) -> int:
    """Losses that no kill made, and that are accepted: who accepts them counts them, and tells."""
    return given_up_by_mpi(ended) + crashes_of_mpi(ended)


def lost_by_itself(ended: Ended, events: list[dict], killed: int) -> str:
    """Whether a process was lost that nobody killed, and that Open MPI did not end."""
    if ended.err.count(kills.CRASH) > crashes_of_mpi(ended):
        return "a process that nobody killed has crashed"
    lost = sum(event.get("lost", 0) for event in events if event.get("event") == "repair")
    is_more = lost > killed + ended_by_mpi(ended)
    return f"{lost} processes were replaced, and {killed} were killed" if is_more else ""


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
    unhurt: int = 0  # others, which had ended before anything was killed
    kills: int = 0
    node_kills: int = 0
    shrinking: int = 0  # runs with shrink=on
    went_on: int = 0
    crashes: int = 0
    given_up: int = 0  # processes, by MPI
    hung_launchers: int = 0
    lost_with_nodes: int = 0  # of those that ended for a reason: also the next launch says that no line is left
    repairs: list[float] = field(default_factory=list)  # seconds, detection not counted
    reasons: collections.Counter = field(default_factory=collections.Counter)
    of_mpi: list[str] = field(default_factory=list)  # runs that a fault of MPI itself ended
    failures: list[str] = field(default_factory=list)


class Undisturbed:
    """Of runs that nothing happens to, each made when it is first asked for: the result, and the seconds from the
    session's opening to the end."""

    def __init__(self, place: str | None):
        self.place = place
        self.known: dict[tuple[str, int], tuple[str, float]] = {}

    def of(self, application: Application, ranks: int) -> tuple[str, float]:
        key = application.name, ranks
        if key not in self.known:
            with tempfile.TemporaryDirectory(prefix="backstay-repairs.", dir=self.place) as directory:
                self.known[key] = undisturbed(application, ranks, Path(directory))
        results = {result for (name, _), (result, _) in self.known.items() if name == application.name}
        if application.placed and len(results) > 1:
            raise SystemExit(f"repairs.py: {application.name} has another result on other ranks")
        return self.known[key]


@dataclass(frozen=True)
class Choice:
    """What runs are drawn from."""

    programs: list[Application]
    apart: float = 0  # seconds from a kill to the next at least; 0: any
    close: float = 0  # the part of kills within 80 ms of the one before
    late: bool = False  # kills about the end of the run only
    protections: tuple[str, ...] = tuple(PROTECTIONS)
    shrink: bool | None = None  # with shrink=on; None: some


class Run:
    """One job that is killed."""

    def __init__(self, choice: Choice, expected: Undisturbed, chance: random.Random):
        self.chance, self.apart, self.close, self.late = chance, choice.apart, choice.close, choice.late
        self.application = chance.choice(choice.programs)
        self.shape = self.draw_shape(choice)
        self.expected, self.seconds = expected.of(self.application, self.shape.ranks)
        self.kills: list[Kill] = []
        self.hit: list[str] = []

    def draw_shape(self, choice: Choice) -> Shape:
        ranks, spares = self.chance.randint(3, 6), self.chance.randint(1, 3)
        protection = self.chance.choice(choice.protections)
        # Ranks that are left may all be in one rack, which bears nothing: "has no parity from here on".
        may_shrink = self.application.placed and not PROTECTIONS[protection].racks
        shrinks = self.chance.random() < 0.5 if choice.shrink is None else choice.shrink
        if may_shrink and shrinks:
            return Shape(ranks, 1, protection, shrink=True)
        return shape_for(protection, ranks, spares)

    def times(self) -> list[float]:
        """When to kill, seconds after the first step."""
        if self.late:
            return sorted(self.seconds * self.chance.uniform(0.9, 1.1) for _ in range(self.chance.randint(1, 2)))
        times: list[float] = []
        for _ in range(self.chance.randint(2 if self.shape.shrink else 1, 4)):
            if self.apart:
                times.append((times[-1] if times else 0) + self.apart + self.chance.uniform(0, self.seconds / 4))
                continue
            close = times and self.chance.random() < self.close
            times.append(times[-1] + self.chance.uniform(0, 0.08) if close else self.chance.uniform(0, self.seconds))
        return sorted(times)

    def kill(self, launch: Launch, directory: Path) -> None:
        shape, number = self.shape, self.chance.randrange(self.shape.processes)
        kinds = ["process"] * 3 + ["node"] + ["rack", "two racks"][: shape.levels.racks]
        kind = self.chance.choice(kinds) if shape.levels.loses_with_nodes else "process"
        nodes = self.nodes_to_lose(kind, number)
        numbers = shape.on_nodes(nodes) or {number}
        began = time.time()
        if not launch.kill(numbers):
            return
        self.kills.append(Kill(began, time.time(), frozenset(numbers), frozenset(nodes)))
        self.hit.append(f"{kind} {sorted(numbers)} at {time.monotonic() - self.start:.3f} s")
        for node in nodes:
            shutil.rmtree(directory / f"node-{node}", ignore_errors=True)

    def nodes_to_lose(self, kind: str, number: int) -> set[int]:
        node, rack = self.shape.node_of(number), self.shape.rack_of(number)
        if kind == "two racks":
            others = [other for other in range(self.shape.processes) if self.shape.node_of(other) not in rack]
            return rack | self.shape.rack_of(self.chance.choice(others))
        return {"process": set(), "node": {node}, "rack": rack}[kind]

    @property
    def lost_processes(self) -> set[int]:
        return {number for kill in self.kills for number in kill.numbers}

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
        events = kills.events_of(directory)
        if older := older_line(events, self.kills, self.shape):
            return older
        if crash := lost_by_itself(ended, events, len(self.lost_processes)):
            return crash
        if ended.status in (0, 200) and said is not None:
            return ""
        reason = next((short for text, short in REASONS.items() if text in ended.err), None)
        if said is not None:  # a rank was killed behind the end of its work, or the program has said why it ends
            early = self.application.done_at(ended, directory) - max((kill.ended for kill in self.kills), default=0)
            silent = f"ended with status {ended.status}, {early:.3f} s after its last loss, and no reason"
            return "after loop" if early < 0 or reason or crashes_of_mpi(ended) else silent
        if crashes_of_mpi(ended):
            return "crash of MPI"
        losses = len(self.lost_processes) + given_up_by_mpi(ended)
        if reason is None and losses == self.shape.processes:
            return ALL_KILLED
        if reason is None:
            return f"ended with status {ended.status} and no reason"
        if reason == "no spare" and (self.shape.shrink or losses <= self.shape.spares):
            return f"says that no spare is left after {losses} losses"
        if reason == "no log" and losses < 2:
            return f"says that logs of init() are lost after {losses} losses"
        if reason == "no line" and has_a_line(events, self.kills, self.shape):
            return f"says that no line can be put back after {losses} losses"
        if reason == "all ranks" and losses < self.shape.ranks and not self.shape.shrink:
            return f"says that all ranks were lost after {losses} losses"
        if reason == "no line yet" and any(event.get("event") == "commit" for event in events):
            return "says that there is no line yet, and one was committed"
        if reason == "outside loop" and not self.may_be_outside(events):
            return "says that a rank was outside loop(), long after all were in it"
        return reason

    def may_be_outside(self, events: list[dict]) -> bool:
        """Processes were killed before the first line, or so soon after others that those who replace them may still
        have been on their way into loop()."""
        first = min((event["time"] for event in events if event.get("event") == "commit"), default=float("inf"))
        times = sorted(kill.began for kill in self.kills)
        return any(time < first for time in times) or any(b - a < 2 for a, b in itertools.pairwise(times))

    def again(self, directory: Path) -> tuple[Ended, str]:
        """A launch without kills after a clean end. It may say that lines are there, but are lost with their nodes."""
        bears = files_bear(kills.events_of(directory), self.kills, self.shape)
        ended = self.launch(directory).end()
        said = self.application.result(ended, directory)
        if ended.status == 0 and said == self.expected:
            return ended, ""
        if not bears and "none can be put back" in ended.err:
            return ended, "lost with its nodes"
        return ended, f"launched again, ended with status {ended.status} and the result {said}"


def undisturbed(application: Application, ranks: int, directory: Path) -> tuple[str, float]:
    """The result, and the seconds from the session's opening to the end. Nothing is found in its time, so it may be
    long where the machine is busy."""
    options = {"LEVELS": "memory", "EVERY": "100000", "NODES": str(ranks)}
    launch = Launch(application.program, application.given(directory), directory, options, ranks, 5 * kills.LIMIT)
    kills.started(launch, directory, 0)
    start = time.monotonic()
    ended = launch.end()
    result = application.result(ended, directory)
    if ended.status != 0 or result is None:
        raise SystemExit(f"repairs.py: {application.name} ended with status {ended.status}\n{ended.out}{ended.err}")
    return result, max(1.0, time.monotonic() - start)


def campaign(choice: Choice, runs: int, seed: int, only: int | None = None) -> Tally:
    """So many runs in which something was killed. `only`: the run of that number, none else."""
    tally = Tally()
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    expected = Undisturbed(place)
    for number in itertools.count() if only is None else [only]:
        if tally.runs == runs:
            break
        if tally.unhurt > 20 + runs:
            tally.failures.append(f"{tally.unhurt} runs had ended before anything was killed: they are killed too late")
            break
        run = Run(choice, expected, random.Random(f"{seed} {number}"))
        directory = Path(tempfile.mkdtemp(prefix="backstay-repairs.", dir=place))
        ended, wrong = run.go(directory)
        if run.kills:
            tally.runs += 1
        else:
            tally.unhurt += 1
        tally.kills += len(run.kills)
        tally.node_kills += sum(bool(kill.removed) for kill in run.kills)
        tally.shrinking += run.shape.shrink and bool(run.kills)
        tally.crashes += crashes_of_mpi(ended)
        tally.given_up += given_up_by_mpi(ended)
        tally.hung_launchers += ended.status == 200
        tally.repairs += seconds_of_repairs(ended)
        story = f"run {number}: {run.application.name}, {run.shape} killed {run.hit}: {wrong}"
        if wrong in {*REASONS.values(), ALL_KILLED}:
            tally.reasons[wrong] += 1
            if wrong in OF_MPI:
                tally.of_mpi.append(f"{story}\n{ended.err[-20000:]}")
            ended, wrong = run.again(directory)
            if wrong == "lost with its nodes":
                tally.lost_with_nodes, wrong = tally.lost_with_nodes + 1, ""
        elif run.kills:
            tally.went_on += 1
        if wrong:
            report = f"{story}; {wrong}\n{ended.out}{ended.err[-20000:]}\nits directory is kept: {directory}"
            tally.failures.append(report)
            print(report, file=sys.stderr, flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        if run.kills and tally.runs % 40 == 0:
            print(f"repairs: {tally.runs} of {runs} runs, {len(tally.failures)} failed", file=sys.stderr, flush=True)
    return tally


def told(tally: Tally) -> str:
    out = (
        f"{tally.runs} runs ({tally.shrinking} with shrink) with {tally.kills} kills ({tally.node_kills} of whole nodes"
        f" or racks; {tally.unhurt} others had ended before theirs): {tally.went_on} went on by themselves and ended "
        "bit-identical, "
        f"{sum(tally.reasons.values())} ended for a reason ({dict(tally.reasons)}) and came back when launched again "
        f"({tally.lost_with_nodes} said that all their lines "
        f"were lost with the nodes), {tally.crashes} processes crashed inside MPI, "
        f"{tally.given_up} were ended by MPI itself, "
        f"{tally.hung_launchers} launchers had to be ended"
    )
    if tally.repairs:
        out += (
            f"; from the coming together until the data are back, {len(tally.repairs)} times: "
            f"median {statistics.median(tally.repairs) * 1e3:.0f} ms, worst {max(tally.repairs) * 1e3:.0f} ms"
        )
    return out


def built() -> Path:
    return Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", kills.ROOT / "build" / "dev"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=int, help="only the one of this number, with the same chances as among all")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--apart", type=float, default=0, help="seconds from a kill to the next at least; 0: any")
    parser.add_argument("--close", type=float, default=0, help="the part of kills within 80 ms of the one before")
    parser.add_argument("--only", choices=[a.name for a in applications(built(), 1)], help="this program")
    parser.add_argument("--protection", action="append", choices=list(PROTECTIONS), help="this one (again: or this)")
    parser.add_argument("--shrink", action="store_true", help="with shrink=on only")
    parser.add_argument("--late", action="store_true", help="kills about the end of the run only")
    parser.add_argument("--build", type=Path, default=built(), help="the build tree with the programs")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    programs = [a for a in applications(options.build, options.steps) if options.only in (None, a.name)]
    protections = tuple(options.protection or PROTECTIONS)
    if options.shrink:
        protections = tuple(name for name in protections if not PROTECTIONS[name].racks)
        programs = [a for a in programs if a.placed]
    choice = Choice(programs, options.apart, options.close, options.late, protections, options.shrink or None)
    tally = campaign(choice, options.runs, options.seed, options.run)
    print(
        f"repairs: {told(tally)}, {len(tally.failures)} failed; seed {options.seed}, {time.monotonic() - start:.0f} s"
    )
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
