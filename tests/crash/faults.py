"""A job goes on, or stops with a sentence, whatever its storage, clock and memory do; and earlier lines stay whole.

    ./dev campaign faults --large --seed 1
    python tests/crash/faults.py --runs 40 --seed 1

A run: four ranks save at one of the mixes of levels of kills.py, or in memory with redundancy beside files, in a fifth
of the runs 6 MiB each, and one fault happens at a random moment. The kinds take turns, in an order of the seed:

- eio, enospc, erofs: some calls on files of one rank, or of all, fail;
- enomem: so do some of the calls with which libbackstay maps memory, or enlarges what it has mapped: for staging copies
  and for files in memory. What the program and MPI allocate is left alone;
- remount: a directory of a level becomes read-only, by a read-only mount of itself over it: whatever is opened, made,
  renamed or removed there from then on is refused, while files that are open already stay writable. (A file system
  that somebody writes to cannot be remounted read-only, it is busy.) Where this process may not mount there is none;
- eintr, short: calls on files are interrupted, or move less than they were asked to, all the time;
- slow: up to 1000 calls take up to 20 ms; stuck: one takes longer than the option timeout;
- clock: the time of day jumps by days; sigstop: a rank stands still for as long as the option timeout and longer; in
  a third of these runs for 10 s, and in a third for 10 s in a job with a spare, which is not to take its place;
- suspended: all ranks stand still together, for three times the option timeout;
- gone: a directory of a level is removed.

What is counted is a run in which a living rank met the fault: a call of it failed or was slow, stuck, interrupted or
cut short, it read a time of day that is not so, it was refused by what had become read-only; or it stood still, or was
there still as the directory went. A run that was over before, which must have given up no line, is drawn again, with
another moment, rank and mix, until one is hit; one that is hit by nothing in 20 draws is a failure.

What is right: the job ends with status 0 and the result of an undisturbed one, or with another status, a sentence, and
in time. After eintr, short, slow, clock, sigstop and suspended only the former, and no line is given up, but where
ranks wait for storage under the policy `wait`: that wait ends after the time-out, also if the storage is that of a rank
that stands still (docs/decisions/0010). Then it is launched again, for some more steps and without a fault: it must
come back from no older line than the newest that was committed, and end with the result of an undisturbed one; or,
where the only copy of what a line needs went after the last line, say so. Where no line was committed, and one that was
given up could not be removed from a disk, it may say that instead of beginning afresh: it cannot tell it from a line of
which the other disks were lost.
"""

from __future__ import annotations

import argparse
import collections
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import kills
from backstay import guard, lines
from campaign import Outcome
from kills import Ended, Launch

STEPS, MORE = 400, 40
BEARABLE = {"eintr", "short", "slow", "clock", "sigstop", "suspended"}  # nothing is given up
KINDS = [*sorted(BEARABLE), "eio", "enospc", "erofs", "stuck", "enomem", "gone", "remount"]
STOPPED = {"sigstop", "suspended"}
FROM_OUTSIDE = {*STOPPED, "gone", "remount"}
SEEN_FROM_OUTSIDE = {*STOPPED, "gone"}  # of the others the library tells that a rank met them
MIXES = kills.MIXES | {
    "memory_rs": {
        "LEVELS": "memory,local,shared", "MEMORY_EVERY": "1", "MEMORY_REDUNDANCY": "rs(3,1)", "NODES": "4",
        "LOCAL_EVERY": "2", "SHARED_EVERY": "7",
    },
}  # fmt: skip
DRAWS = 20  # most of one run, until it is hit
KEPT = 2  # whole lines at each level, the default of the option keep
TIMEOUT = 1.0  # seconds, the option
LIMIT = 60  # seconds for a launch
LONG_STOP = 10  # seconds
MISSING = re.compile(": it is missing[:;]")
NONE_LEFT = "there are lines, but none can be put back"
OF_ANY_RUN = ("backstay: no checkpoint in ", "backstay: resumed from ")  # says nothing of an end


@dataclass
class Tally:
    runs: int = 0
    hit: collections.Counter = field(default_factory=collections.Counter)  # of them, by kind
    drawn_again: int = 0  # others, which were over before they were hit
    given_up: int = 0  # lines
    stopped: int = 0
    left_over: int = 0  # jobs that found nothing but a line that was given up
    failures: list[str] = field(default_factory=list)


IN_FILES = {"local", "partner", "shared"}  # levels


def mount(*words: object) -> bool:
    if shutil.which("mount") is None:
        return False
    return subprocess.run(["mount", *map(str, words)], capture_output=True, check=False).returncode == 0


def unmount(place: Path | str) -> None:
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def make_read_only(place: Path) -> bool:
    """At one stroke, whoever has files open there. False where this process may not."""
    with tempfile.TemporaryDirectory(prefix="backstay-faults.") as aside:
        if not mount("-o", "bind,ro", place, aside):
            return False
        over = mount("--bind", aside, place)
        unmount(aside)
    return over


def is_read_only(place: Path) -> bool:
    try:
        (place / "made").touch()
        (place / "made").unlink()
    except OSError as failure:
        return failure.errno == errno.EROFS
    return False


def can_make_read_only() -> bool:
    with tempfile.TemporaryDirectory(prefix="backstay-faults.") as name, open(Path(name, "open"), "w"):
        if not make_read_only(Path(name)):
            return False
        try:
            return is_read_only(Path(name))
        finally:
            unmount(name)


def damage_in(directory: Path) -> list[str]:
    """Of the lines that were committed and are not retired, every byte. One that a rank could not retire, as its disk
    fails or is stuck, stays there: it is no damage where as many newer ones are whole as are kept. So it is none there
    that others have removed their manifest, or their files where copies make the line whole."""
    commits = {(e["level"], e["line"]) for e in kills.events_of(directory) if e.get("event") == "commit"}
    found: list[str] = []
    there = lines.read_lines(lines.open_directory(directory))
    for line in there:
        if (line.level, line.number) not in commits or line.unfinished:
            continue
        newer = [other for other in there if other.level == line.level and other.number > line.number and other.whole]
        is_retired = len(newer) >= KEPT
        if line.left_behind and is_retired:
            continue
        sentences = [damage.sentence for damage in lines.verify_line(line).damage]
        found += [sentence for sentence in sentences if not (is_retired and line.whole and MISSING.search(sentence))]
        found += [] if line.whole else [f"{line.heading}: {line.why}"]
    return found


def is_only_given_up(directory: Path) -> bool:
    """Lines are there, and each of them was given up."""
    found = lines.read_lines(lines.open_directory(directory))
    there = {(line.level, line.number) for line in found if not line.unfinished}
    failed = {(e["level"], e["line"]) for e in kills.events_of(directory) if e.get("event") == "failed"}
    return bool(there) and there <= failed


def seen_of(directory: Path) -> Path:
    return directory.with_name(f"seen-{directory.name}")


class Run:
    def __init__(self, build: Path, expected: kills.Hashes, chance: random.Random, kind: str):
        self.chance, self.expected = chance, expected
        self.program = build / "tests" / "crash" / "stepper"
        self.library = build / "tests" / "crash" / "libfaulty_system.so"
        self.kind, self.mix = kind, chance.choice(list(MIXES))
        self.rank = -1 if kind == "remount" else chance.choice([-1, *range(kills.RANKS)])
        self.size = chance.randrange(len(kills.sizes(STEPS)))
        self.stop, self.spares = chance.choice([(chance.uniform(0.5, 3) * TIMEOUT, 0), (LONG_STOP, 0), (LONG_STOP, 1)])
        self.spares = self.spares if self.kind in STOPPED else 0
        self.stop = LONG_STOP if self.kind == "suspended" else self.stop
        self.place: Path | None = None  # becomes read-only
        self.mounted = False
        self.was_hit = False
        # So many calls do some ranks and mixes make, in the shorter or the longer of jobs; some others make more.
        most = chance.choice([30, 150, 600])
        if self.kind == "enomem":
            most = 20 if "memory" in MIXES[self.mix]["LEVELS"] else 5
        self.first = chance.randrange(most)
        self.count = chance.choice([1, 3, 30, 100000])
        if self.kind == "slow":
            # 10 s of sleep in all, as ranks wait for each other; with each call of a job it is a minute and a half.
            self.count = min(self.count, 1000 // (1 if self.rank >= 0 else kills.RANKS))
        self.policy = ""
        self.given_up = 0  # lines
        self.stopped = False
        self.left_over = False  # a line that was given up, and nothing else
        self.newest_of_what_went: int | None = None  # line, where the only copy of something went
        self.story = f"{self.mix}, {self.kind} on rank {self.rank} from call {self.first} on, {self.count} times"
        if self.kind in STOPPED:
            self.story += f", for {self.stop:.1f} s, {self.spares} spares"

    def words(self, steps: int) -> list[str]:
        return kills.sizes(steps)[self.size]

    def result(self, steps: int) -> list[str]:
        return ["hash", self.expected[tuple(self.words(steps))]]

    def launch(self, directory: Path, steps: int, faulty: bool) -> Launch:
        self.policy = self.chance.choice(["skip", "wait", "degrade"])
        options = {**MIXES[self.mix], "POLICY": self.policy}
        if faulty:
            # With spares a rank that stands still at the end of loop() for as long as that ends the job.
            is_short = self.kind in {"stuck", "sigstop"} and not self.spares
            options["TIMEOUT"] = str(TIMEOUT if is_short else LONG_STOP / 3 if self.kind == "suspended" else 20)
        if self.spares:
            options["SPARES"] = str(self.spares)
        fault = {
            "LD_PRELOAD": str(self.library), "FAULTY_UNDER": str(directory), "FAULTY_RANK": str(self.rank),
            "FAULTY_KIND": self.kind, "FAULTY_FROM": str(self.first), "FAULTY_COUNT": str(self.count),
            "FAULTY_SEED": str(self.chance.randrange(1 << 30)), "FAULTY_SEEN": str(seen_of(directory)),
        }  # fmt: skip
        variables = fault if faulty and self.kind not in SEEN_FROM_OUTSIDE else {}
        processes = kills.RANKS + self.spares
        return Launch(self.program, self.words(steps), directory, options, processes, LIMIT, variables)

    def choose_place(self, directory: Path) -> None:
        """What a level has there, and what is to become read-only."""
        levels = MIXES[self.mix]["LEVELS"].split(",")
        nodes = [f"node-{node}" for node in range(int(MIXES[self.mix].get("NODES", kills.NODES)))]
        places = (nodes if {"local", "partner"} & set(levels) else []) + (["shared"] if "shared" in levels else [])
        self.place = directory / self.chance.choice(places)
        self.place.mkdir()
        self.story += f", of {self.place.name}"

    def unmount(self) -> None:
        if self.mounted:
            unmount(self.place)
        self.mounted = False

    def interfere(self, launch: Launch, directory: Path) -> None:
        """What is done to the job from outside."""
        if self.kind not in FROM_OUTSIDE:
            return
        kills.started(launch, directory, 0)
        time.sleep(self.chance.uniform(0, 0.5))
        if self.kind == "remount":
            self.mounted = make_read_only(self.place)
        elif self.kind == "gone":
            self.remove_one(launch, directory)
        else:
            self.let_stand_still(launch)

    def remove_one(self, launch: Launch, directory: Path) -> None:
        there = [path for path in directory.glob("*/") if path.is_dir()]
        there += [path for path in directory.glob("*/*/") if path.is_dir()]
        if not there:
            self.story += ", before there was one"
            return
        gone = self.chance.choice(there)
        shutil.rmtree(gone, ignore_errors=True)
        self.was_hit = bool(guard.rank_processes(launch.run_id))
        self.story += f", of {gone.relative_to(directory)}"
        of_a_node = gone.relative_to(directory).parts[0].startswith("node-")
        if not (of_a_node and self.mix in kills.OUTLIVES_A_NODE):
            self.newest_of_what_went = kills.newest_committed(directory, IN_FILES)

    def let_stand_still(self, launch: Launch) -> None:
        ranks = guard.rank_processes(launch.run_id)
        stopped = [pid for number, pid in ranks.items() if self.rank in (-1, number)][:2]
        stopped = [*ranks.values()] if self.kind == "suspended" else stopped
        if len(stopped) < (kills.RANKS if self.kind == "suspended" else 1):
            return
        guard.send(stopped, signal.SIGSTOP)
        time.sleep(self.stop)
        self.was_hit = all("stopped" in kills.state_of(pid) for pid in stopped)
        guard.send(stopped, signal.SIGCONT)

    def go(self, directory: Path) -> str:
        """What is wrong; nothing if all is right, or if the job was over before it was hit."""
        if self.kind == "remount":
            self.choose_place(directory)
        launch = self.launch(directory, STEPS, True)
        self.interfere(launch, directory)
        ended = launch.end()
        failed = [e for e in kills.events_of(directory) if e.get("event") == "failed"]
        self.given_up = len(failed)
        self.stopped = ended.status != 0
        if self.kind not in SEEN_FROM_OUTSIDE:
            if not seen_of(directory).exists():
                return f"was not disturbed: the library for it was not in rank {self.rank}"
            self.was_hit = bool(seen_of(directory).read_text())
        self.unmount()
        if wrong := self.judge(ended, failed):
            return f"{wrong}\n{ended.out}{ended.err[-6000:]}"
        if not self.was_hit:
            return ""
        committed = kills.newest_committed(directory, IN_FILES)
        if self.kind != "gone" and (damage := damage_in(directory)):
            return f"lines that were committed are not whole: {damage}\n{ended.err[-6000:]}"
        again = self.launch(directory, STEPS + MORE, False).end()
        if self.newest_of_what_went is not None and again.status == 3:
            commits = [e for e in kills.events_of(directory) if e.get("event") == "commit" and e["level"] in IN_FILES]
            later = {e["line"] for e in commits if e["line"] > self.newest_of_what_went}
            if len(later) > 1:  # one was about to be committed
                return f"lines {sorted(later)} were committed into what was no longer there\n{ended.err}"
            return "" if NONE_LEFT in again.err else f"no sentence\n{again.err}"
        if again.status == 3 and NONE_LEFT in again.err and not committed and is_only_given_up(directory):
            self.left_over = True
            return ""
        if again.status != 0 or again.line("hash") != self.result(STEPS + MORE):
            return f"launched again, it did not end well ({again.status})\n{again.out}{again.err[-6000:]}{ended.err}"
        resumed = again.line("resumed")
        if self.kind != "gone" and committed and (not resumed or int(resumed[2]) < committed):
            return f"came back as {resumed}, and line {committed} was committed\n{again.err[-6000:]}{ended.err}"
        return ""

    def judge(self, ended: Ended, failed: list[dict]) -> str:
        if ended.status == 124:
            return "did not end in time"
        if ended.status > 128 or kills.CRASH in ended.err:
            return f"crashed, with status {ended.status}"
        if ended.status == 0 and ended.line("hash") != self.result(STEPS):
            return "ended with another result"
        if self.spares and "lost" in ended.err:
            return "lost a rank that stood still"
        may_give_up = self.kind == "sigstop" and self.policy == "wait"
        # A write may take the short time-out by itself; what went may have gone in part before the job's end.
        calm = self.kind in BEARABLE or not (self.was_hit or self.kind in {"stuck", "gone"})
        if calm and (ended.status != 0 or (failed and not may_give_up)):
            return f"ended with status {ended.status}, and gave up {len(failed)} lines"
        said = [line for line in ended.err.splitlines() if line.startswith(("stepper: ", "backstay: "))]
        if ended.status != 0 and all(line.startswith(OF_ANY_RUN) for line in said):
            return f"ended with status {ended.status} and without a sentence"
        return ""


def drawn(run: Run) -> str:
    """What is wrong in this run, which leaves nothing behind."""
    places = [None, *(["/dev/shm"] if os.access("/dev/shm", os.W_OK) else [])]
    # Files in memory are written in another way.
    directory = Path(tempfile.mkdtemp(prefix="backstay-faults.", dir=run.chance.choice(places)))
    try:
        return run.go(directory)
    finally:
        run.unmount()
        shutil.rmtree(directory, ignore_errors=True)
        seen_of(directory).unlink(missing_ok=True)


def kinds_of(seed: int) -> list[str]:
    """In the order in which they take turns."""
    kinds = random.Random(f"{seed} kinds").sample(KINDS, len(KINDS))
    return kinds if can_make_read_only() else [kind for kind in kinds if kind != "remount"]


def campaign(build: Path, runs: int, seed: int, at_once: int = 1, only: int | None = None) -> Tally:
    """So many runs that were hit."""
    kinds = kinds_of(seed)
    tally = Tally(hit=collections.Counter(dict.fromkeys(kinds, 0)))
    stepper = build / "tests" / "crash" / "stepper"
    expected = kills.undisturbed(stepper, STEPS) | kills.undisturbed(stepper, STEPS + MORE)

    def one(number: int) -> tuple[int, int, Run, str]:
        for draw in range(DRAWS):
            chance = random.Random(f"{seed} {number} {draw}")
            run = Run(build, expected, chance, kinds[number % len(kinds)])
            wrong = drawn(run)
            if run.was_hit or wrong:
                return number, draw, run, wrong
        return number, draw, run, f"no draw of {DRAWS} was hit"

    with ThreadPoolExecutor(at_once) as pool:
        for number, draw, run, wrong in pool.map(one, range(runs) if only is None else [only]):
            tally.runs += 1
            tally.hit[run.kind] += run.was_hit
            tally.drawn_again += draw
            tally.given_up += run.given_up
            tally.stopped += run.stopped
            tally.left_over += run.left_over
            if wrong:
                tally.failures.append(f"run {number}, draw {draw}: {run.story}: {wrong}")
                print(tally.failures[-1], file=sys.stderr, flush=True)
            if tally.runs % 100 == 0:
                print(f"faults: {tally.runs} of {runs} runs, {len(tally.failures)} failed", file=sys.stderr, flush=True)
    return tally


def told(tally: Tally) -> str:
    kinds = ", ".join(f"{kind}: {tally.hit.get(kind, 'not possible here')}" for kind in sorted(KINDS))
    hit = tally.hit.total()
    return (
        f"{hit} jobs of {kills.RANKS} ranks that a fault hit ({kinds}), and {tally.runs - hit} that none did; "
        f"{tally.drawn_again} others were over before and were drawn again; {tally.runs - tally.stopped} went on to "
        f"their end, {tally.stopped} stopped; {tally.given_up} lines were given up; "
        f"{tally.left_over} found only a line that was given up, and said so; "
        f"{tally.runs - len(tally.failures) - tally.left_over} came back from their last committed line"
    )


def built() -> Path:
    return Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", kills.ROOT / "build" / "dev"))


def run_campaign(large: bool, seed: int) -> Outcome:
    tally = campaign(built(), 2000 if large else 24, seed, at_once=3 if large else 2)
    return Outcome(told(tally), tally.failures)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30, help="runs that are hit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=int, help="only the one of this number")
    parser.add_argument("--at-once", type=int, default=1, help="jobs at the same time; they wait more than they work")
    parser.add_argument("--build", type=Path, default=built(), help="the build tree with the programs")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    tally = campaign(options.build, options.runs, options.seed, options.at_once, options.run)
    print(f"faults: {told(tally)}, {len(tally.failures)} failed; seed {options.seed}, {time.monotonic() - start:.0f} s")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
