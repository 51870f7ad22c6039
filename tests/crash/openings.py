"""Kills processes of a job that is opening: before, while and just after its session opens, under `backstay run`.

    python tests/crash/openings.py --runs 40 --seed 1

A run: one of the programs of repairs.py, ranks and spares, and one or two processes that are killed together: within a
second from when all are there, which is before the session is open or while it opens; or within 0.1 s from when it is
open, which is before loop(), in the set-up of init(), or in the first steps. What is right (docs/limitations.md,
"Failures"): the job ends with status 0 and the result of an undisturbed run, within 60 s and two launches.

- Killed before the session is open, nobody can be replaced: `backstay run` ends the launch, or the others end it by an
  error, and the next launch has all of them. It may also go on, if only spares were lost, or the session came to open.
- Killed afterwards, ranks are replaced; or the launch ends for a reason that it says (REASONS of repairs.py: fewer
  spares than losses, a rank outside loop(), no line to go back to). Where only spares were killed, it must go on.

`backstay run` has to have seen all processes, or nobody knows that one is missing: so the kills begin a moment after.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import kills
from kills import Ended, guard
from protections import PROTECTIONS, Kill, Shape, has_a_line, shape_for
from repairs import OF_MPI, REASONS, Application, Undisturbed, applications, built, ended_by_mpi, lost_by_itself

LIMIT = 60  # seconds for one run: a launch that is ended takes 10 more than one that is not
SEEN = 0.3  # seconds after which `backstay run`, which looks every 0.05 s, has seen all processes
EARLY, LATE = 1.0, 0.1  # seconds in which the kills are, from when all are there and from when the session is open


@dataclass
class Tally:
    runs: int = 0
    before: int = 0  # were hit before their session was open
    went_on: int = 0
    by_mpi: int = 0  # processes that MPI ended: losses more
    failures: list[str] = field(default_factory=list)


class Job:
    """`backstay run` with a job under it."""

    def __init__(self, application: Application, shape: Shape, directory: Path):
        self.directory, self.shape = directory, shape
        self.pids: dict[int, int] = {}  # by number, since all were there
        options = {name: value for name, value in shape.options().items() if name not in {"SPARES", "NODES"}}
        options["TIMEOUT"] = "10"  # the longest wait for what does not come is twice that
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
        environment |= {f"BACKSTAY_{name}": value for name, value in options.items()}
        flags = ["-n", shape.ranks, "--spares", shape.spares, "--nodes", shape.nodes, "--dir", directory]
        words = [application.program, *application.given(directory)]
        command = [sys.executable, "-m", "backstay", "run", *flags, "--", *words]
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(list(map(str, command)), env=environment, stdout=self.out, stderr=self.err)
        self.deadline = time.monotonic() + LIMIT

    def ranks(self) -> dict[int, int]:
        run_id = self.run_id()
        return guard.rank_processes(run_id) if run_id else {}

    def run_id(self) -> str | None:
        """The mark that `backstay run` has given to its processes, as soon as there are any."""
        ours, mark = f"BACKSTAY_DIR={self.directory}".encode(), f"{guard.MARK}=".encode()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                entries = environ.read_bytes().split(b"\0")
            except OSError:  # it has ended, or belongs to someone else
                continue
            if ours in entries and (marks := [entry for entry in entries if entry.startswith(mark)]):
                return marks[0][len(mark) :].decode()
        return None

    def come(self) -> bool:
        """Waits until all processes are there."""
        while self.process.poll() is None and time.monotonic() < self.deadline:
            self.pids = self.ranks()
            if len(self.pids) == self.shape.processes:
                return True
            time.sleep(0.02)
        return False

    def is_open(self) -> bool:
        return any(event.get("event") == "start" for event in kills.events_of(self.directory))

    def wait_until_open(self) -> None:
        while self.process.poll() is None and time.monotonic() < self.deadline and not self.is_open():
            time.sleep(0.002)

    def end(self) -> Ended:
        stuck = ""
        try:
            status = self.process.wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            run_id = self.run_id()
            status, stuck = 124, kills.stacks_of(run_id) if run_id else ""
            self.process.kill()  # its guard ends the others
            self.process.wait()
        texts = []
        for stream in (self.out, self.err):
            stream.seek(0)
            texts.append(stream.read())
            stream.close()
        return Ended(status, texts[0], texts[1] + stuck)


def of_the_first_launch(events: list[dict]) -> list[dict]:
    """Each repair writes a start, too."""
    starts = [at for at, event in enumerate(events) if event.get("event") == "start" and not event.get("repairs")]
    return events[: starts[1]] if len(starts) > 1 else events


class Run:
    def __init__(self, programs: list[Application], expected: Undisturbed, chance: random.Random):
        self.application = chance.choice(programs)
        ranks, spares = chance.randint(3, 5), chance.randint(1, 2)
        self.shape = shape_for(chance.choice(list(PROTECTIONS)), ranks, spares)
        self.expected = expected.of(self.application, self.shape.ranks)[0]
        self.hit = set(chance.sample(range(self.shape.processes), chance.choice([1, 1, 2])))
        self.late = chance.random() < 0.5
        self.moment = chance.uniform(0, LATE if self.late else EARLY)
        self.was_open = False
        self.directory = Path()
        self.kill: Kill | None = None

    def __str__(self) -> str:
        when = f"{self.moment:.3f} s, {'behind' if self.was_open else 'before'} the opening"
        return f"{self.application.name}, {self.shape} killed {sorted(self.hit)} at {when}"

    def go(self, directory: Path) -> tuple[Ended, str]:
        """The end of the run, and what is wrong with it."""
        job = Job(self.application, self.shape, directory)
        if not job.come():
            return job.end(), "its processes did not come"
        time.sleep(SEEN)
        if self.late:
            job.wait_until_open()
        time.sleep(self.moment)
        self.was_open, began = job.is_open(), time.time()
        guard.send([job.pids[number] for number in self.hit], 9)
        self.kill = Kill(began, time.time(), frozenset(self.hit), frozenset())
        ended = job.end()
        self.directory = directory
        return ended, self.judge(ended, self.application.result(ended, directory))

    def judge(self, ended: Ended, said: str | None) -> str:
        if ended.status == 124:
            return "did not end in time"
        if said != self.expected or ended.status != 0:
            return f"ended with status {ended.status} and the result {said}"
        if crash := lost_by_itself(ended, kills.events_of(self.directory), len(self.hit)):
            return crash
        if "launch 3:" in ended.err:
            return "was launched three times"
        if not self.was_open or "launch 2:" not in ended.err:
            return ""
        if min(self.hit) >= self.shape.ranks:
            return "was launched again, and had lost nothing but spares"
        reason = next((short for text, short in REASONS.items() if text in ended.err), None)
        if reason is None:
            return "was launched again for no reason"
        if reason == "no spare" and len(self.hit) <= self.shape.spares:
            return f"says that no spare is left after {len(self.hit)} losses"
        if reason == "no log" and len(self.hit) < 2:
            return "says that logs of init() are lost after one loss"
        if reason == "all ranks" and not self.shape.shrink:
            return f"says that all ranks were lost after {len(self.hit)} losses"
        events = of_the_first_launch(kills.events_of(self.directory))
        if reason == "no line" and has_a_line(events, [self.kill], self.shape):
            return f"says that no line can be put back after {len(self.hit)} losses"
        if reason == "no line yet" and any(event.get("event") == "commit" for event in events):
            return "says that there is no line yet, and one was committed"
        return f"was launched again by a fault of MPI: {reason}" if reason in OF_MPI else ""


def campaign(programs: list[Application], runs: int, seed: int, only: int | None = None) -> Tally:
    tally = Tally()
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    expected = Undisturbed(place)
    for number in range(runs) if only is None else [only]:
        run = Run(programs, expected, random.Random(f"{seed} opening {number}"))
        directory = Path(tempfile.mkdtemp(prefix="backstay-openings.", dir=place))
        ended, wrong = run.go(directory)
        tally.runs += 1
        tally.by_mpi += ended_by_mpi(ended)
        tally.before += not run.was_open
        tally.went_on += "launch 2:" not in ended.err
        if wrong:
            report = (
                f"opening {number}: {run}: {wrong}\n{ended.out}{ended.err[-20000:]}\nits directory is kept: {directory}"
            )
            tally.failures.append(report)
            print(report, file=sys.stderr, flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return tally


def told(tally: Tally) -> str:
    return (
        f"{tally.runs} runs that lost processes as they opened ({tally.before} before the session was open), "
        f"{tally.went_on} of which went on by themselves, the others launched again; {tally.by_mpi} processes were "
        "ended by MPI itself, or crashed inside it"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=int, help="only the one of this number")
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args(arguments)
    start = time.monotonic()
    tally = campaign(applications(built(), options.steps), options.runs, options.seed, options.run)
    seconds = time.monotonic() - start
    print(f"openings: {told(tally)}, {len(tally.failures)} failed; seed {options.seed}, {seconds:.0f} s")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
