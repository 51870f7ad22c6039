"""Processes that die in the middle of what backstay does: a checkpoint, its copies, parity and commit, or a rebuild.

    python tests/crash/middles.py --runs 20 --seed 1

A run: stepper on three ranks with three spares, and a level that bears the loss of one. Either a rank is killed at one
of its calls on files of the checkpoint directory, or of those that start a message or a collective of MPI, whichever
comes at a random number; or rank 1 is killed at a step, and the spare that takes its place at one of its first calls:
it opens the session, reads, rebuilds, writes the line after. Another spare takes the place then. What is right: the job
ends by itself with the result of an undisturbed run, within 60 s, and nothing but what was killed is lost. Or it ends
with the sentence that a spare was outside loop(), where that died as it opened its session; or with that result, status
1 and the sentence that a rank did not come to the end, where it died behind the last step: it may have had more to do.
Such runs are counted apart.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import kills
from kills import Ended, Launch
from repairs import built, ended_by_mpi, lost_by_itself

RANKS, SPARES, STEPS = 3, 3, 200
IN_MEMORY = {"memory rs(2,1)": {"LEVELS": "memory", "MEMORY_REDUNDANCY": "rs(2,1)"}}
WAYS = {
    "local rs(2,1)": {"LEVELS": "local", "LOCAL_REDUNDANCY": "rs(2,1)"},
    "partner": {"LEVELS": "partner"},
    "shared": {"LEVELS": "shared", "SHARED_LAYOUT": "file-per-rank"},
    "one file": {"LEVELS": "shared", "SHARED_LAYOUT": "one-file"},
}
# On files, and of MPI. The first of a rank open the session: openings.py has those.
CALLS_OF_A_RANK, CALLS_OF_A_SPARE = (
    {"files": (30, 600), "messages": (60, 1500)},
    {"files": (0, 60), "messages": (20, 140)},
)
# A spare's first calls on files are the check that it can write on its node, as the session is opened: openings.py.
CHECKED, CALLS_OF_THE_CHECK = ("local rs(2,1)", "partner"), 3
OUTSIDE = "was not inside loop()"  # a spare that dies as it opens its session, before it is in loop()
BEHIND = ("was lost before it came to the end of MPI", "was lost after the end of loop()")


@dataclass
class Tally:
    runs: int = 0
    messages: int = 0  # of them: at a call of MPI
    spares: int = 0  # of them: the spare died that took the place of a lost rank
    outside: int = 0  # of these: before it was in loop(), which ends the job with a sentence
    behind: int = 0  # died behind the last step
    unhurt: int = 0  # others, which had ended before that call
    by_mpi: int = 0  # processes that MPI ended: losses more
    failures: list[str] = field(default_factory=list)


class Run:
    def __init__(self, chance: random.Random):
        self.of = chance.choice(["files", "messages"])
        self.ways = WAYS if self.of == "files" else WAYS | IN_MEMORY
        self.way = chance.choice(list(self.ways))
        self.of_a_spare = chance.random() < 0.5
        self.number = RANKS if self.of_a_spare else chance.randrange(RANKS)
        self.call = chance.randrange(*(CALLS_OF_A_SPARE if self.of_a_spare else CALLS_OF_A_RANK)[self.of])
        if self.of_a_spare and self.of == "files" and self.way in CHECKED:
            self.call += CALLS_OF_THE_CHECK
        self.after = chance.random() < 0.5
        self.policy = chance.choice(["wait", "skip"])
        self.lost = 0
        self.was_outside = self.was_behind = False

    def __str__(self) -> str:
        return f"{self.way}, {self.policy}: process {self.number} died at call {self.call} of {self.of}"

    def go(self, directory: Path, expected: str) -> tuple[Ended, str]:
        options = {**self.ways[self.way], "POLICY": self.policy, "EVERY": "3", "SPARES": str(SPARES)}
        options["NODES"] = str(RANKS + SPARES)
        if self.of_a_spare:
            options["KILL"] = "1@100"
        program = built() / "tests" / "crash" / "stepper"
        ended = Launch(program, [str(STEPS)], directory, options, RANKS + SPARES, variables=self.dies(directory)).end()
        return ended, self.judge(ended, directory, expected)

    def dies(self, directory: Path) -> dict[str, str]:
        library = "libfaulty_system.so" if self.of == "files" else "libdying_mpi.so"
        preload = {"LD_PRELOAD": str(built() / "tests" / "crash" / library)}
        if self.of == "files":
            under = {"FAULTY_UNDER": str(directory), "FAULTY_RANK": str(self.number), "FAULTY_KIND": "dies"}
            return preload | under | {"FAULTY_FROM": str(self.call), "FAULTY_COUNT": "1"}
        after = {"DYING_AFTER": "1"} if self.after else {}
        return preload | after | {"DYING_PROCESS": str(self.number), "DYING_CALL": str(self.call)}

    def judge(self, ended: Ended, directory: Path, expected: str) -> str:
        if ended.status == 124:
            return "did not end in time"
        events = kills.events_of(directory)
        self.lost = sum(event.get("lost", 0) for event in events if event.get("event") == "repair")
        self.was_outside = self.of_a_spare and ended.status != 0 and OUTSIDE in ended.err
        if self.was_outside:
            return ""
        is_right = ended.line("hash") == ["hash", expected]
        self.was_behind = is_right and ended.status == 1 and any(sentence in ended.err for sentence in BEHIND)
        if not is_right or (ended.status not in (0, 200) and not self.was_behind):
            return f"ended with status {ended.status} and {ended.line('hash')}"
        return lost_by_itself(ended, events, 2 if self.of_a_spare else 1)


def undisturbed() -> str:
    with tempfile.TemporaryDirectory() as directory:
        options = {"LEVELS": "memory", "EVERY": "100000", "NODES": str(RANKS)}
        ended = Launch(built() / "tests" / "crash" / "stepper", [str(STEPS)], Path(directory), options, RANKS).end()
    if ended.status != 0:
        raise SystemExit(f"middles.py: stepper ended with status {ended.status}\n{ended.out}{ended.err}")
    return ended.line("hash")[1]


def campaign(runs: int, seed: int, only: int | None = None) -> Tally:
    """So many runs in which a process died as planned."""
    tally, expected = Tally(), undisturbed()
    places = [None, *(["/dev/shm"] if os.access("/dev/shm", os.W_OK) else [])]  # files in memory are written otherwise
    number = 0 if only is None else only
    while tally.runs < runs:
        chance = random.Random(f"{seed} middle {number}")
        run = Run(chance)
        directory = Path(tempfile.mkdtemp(prefix="backstay-middles.", dir=chance.choice(places)))
        ended, wrong = run.go(directory, expected)
        died = run.was_outside or run.was_behind or run.lost == (2 if run.of_a_spare else 1)
        tally.runs += died or bool(wrong)
        tally.by_mpi += ended_by_mpi(ended)
        tally.messages += died and run.of == "messages"
        tally.spares += died and run.of_a_spare
        tally.outside += run.was_outside
        tally.behind += run.was_behind
        tally.unhurt += not died and not wrong
        if tally.unhurt > 20 + runs:
            wrong = "most runs end before the call at which they were to die"
        if wrong:
            report = f"middle {number}: {run}: {wrong}\n{ended.out}{ended.err[-20000:]}\nkept: {directory}"
            tally.failures.append(report)
            print(report, file=sys.stderr, flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        if tally.unhurt > 20 + runs or only is not None:
            break
        number += 1
    return tally


def told(tally: Tally) -> str:
    return (
        f"{tally.runs} runs with a process that died in the middle of a call on files, or of MPI ({tally.messages} of "
        f"them of MPI; {tally.spares} were the spare that rebuilt a rank; {tally.unhurt} others had ended before): "
        f"{tally.runs - tally.outside - tally.behind} went on by themselves, {tally.outside} ended with the sentence "
        f"that a spare was outside loop(), {tally.behind} with the one that a rank did not come to the end, behind the "
        f"last step; {tally.by_mpi} processes were ended by MPI itself, or crashed inside it"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=int, help="only the one of this number")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    tally = campaign(options.runs, options.seed, options.run)
    seconds = time.monotonic() - start
    print(f"middles: {told(tally)}, {len(tally.failures)} failed; seed {options.seed}, {seconds:.0f} s")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
