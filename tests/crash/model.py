"""The protocols of commit and of repair in the model checker Spin: tests/crash/model/*.pml, decision 0012.

Every search is exhaustive: all interleavings, all places of the crashes, all that a power cut may leave. Seeded bugs,
of which each leaves out or exchanges a step of a protocol, must be found, or the models would show nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from campaign import Outcome

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(__file__).resolve().parent / "model"
DEPTH = 100_000  # steps; the longest way is checked not to come to it
MEMORY = {False: 4_000, True: 16_000}  # MiB, of small and large


@dataclass
class Search:
    model: str
    what: str
    switches: str  # of the preprocessor, without -D

    @property
    def defines(self) -> list[str]:
        return [f"-D{switch}" for switch in self.switches.split()]


# Kept whole at once: one line. Line 2 takes back line 1, line 3 gets its directory.
SMALL = [
    Search("commit", "2 crashes, 2 levels, 2 lines", "LINES=2 KEEP=1 CRASHES=2 TIMEOUTS=0"),
    Search("commit", "1 crash, a wait in vain, level local", "LINES=2 KEEP=1 CRASHES=1 TIMEOUTS=1 LEVELS=1"),
    Search("commit", "as format.md says, strictly", "LINES=3 KEEP=1 CRASHES=2 TIMEOUTS=0 LEVELS=2 STRICT"),
    Search("repair", "3 ranks and a spare, 1 death", "CRASHES=1"),
]
LARGE = [
    Search("commit", "2 crashes, 2 levels, 3 lines", "LINES=3 KEEP=1 CRASHES=2 TIMEOUTS=0"),
    Search("commit", "2 crashes, a wait in vain, level local", "LINES=2 KEEP=1 CRASHES=2 TIMEOUTS=1 LEVELS=1"),
    Search("commit", "1 crash, storage that fails once", "LINES=2 KEEP=1 CRASHES=1 TIMEOUTS=0 ERRORS=1"),
    Search("commit", "1 crash, which may take a node", "LINES=3 KEEP=1 CRASHES=1 TIMEOUTS=0 LOSSES=1"),
    Search("commit", "as format.md says, strictly", "LINES=3 KEEP=1 CRASHES=2 TIMEOUTS=0 LEVELS=1 STRICT"),
    Search("commit", "a job that prunes", "LINES=2 KEEP=2 CRASHES=2 TIMEOUTS=0 LEVELS=2 PRUNE"),
    Search("repair", "3 ranks and a spare, 2 deaths", "CRASHES=2"),
    Search("repair", "2 ranks and 2 spares, 2 deaths", "CRASHES=2 WORKERS=2 SPARES=2"),
    Search("repair", "3 ranks, no spare, shrinking, 2 deaths", "CRASHES=2 SPARES=0 SHRINKS=1"),
]
ONE_CRASH = "LINES=3 KEEP=1 CRASHES=1 TIMEOUTS=0 LEVELS=1"
BUGS = [
    Search("commit", "data are not synced", f"{ONE_CRASH} BUG_NO_DATA_SYNC"),
    Search("commit", "names of data files are not synced", f"{ONE_CRASH} BUG_NO_NAMES_SYNC"),
    Search("commit", "the manifest is not synced", f"{ONE_CRASH} BUG_NO_MANIFEST_SYNC"),
    Search("commit", "the rename of the manifest is not synced", f"{ONE_CRASH} BUG_NO_COMMIT_SYNC"),
    Search("commit", "the new name of a directory is not synced", f"{ONE_CRASH} BUG_NO_LEVEL_SYNC"),
    Search("commit", "the end of an old line is not synced", f"{ONE_CRASH} STRICT BUG_NO_RETIRE_SYNC"),
    # These two were the code, until the model found them.
    Search("commit", "a job does not sync what it finds, and takes a directory",
           "LINES=3 KEEP=1 CRASHES=2 TIMEOUTS=0 LEVELS=2 STRICT BUG_NO_OPEN_SYNC"),
    Search("commit", "a job does not sync what it finds, and prunes",
           "LINES=2 KEEP=2 CRASHES=2 TIMEOUTS=0 LEVELS=2 PRUNE BUG_NO_OPEN_SYNC"),
    Search("commit", "no agreement before manifest.part", f"{ONE_CRASH} BUG_STAGE_EARLY"),
    Search("commit", "no agreement before the rename", f"{ONE_CRASH} BUG_COMMIT_EARLY"),
    Search("commit", "old lines go before the agreement", f"{ONE_CRASH} BUG_RETIRE_EARLY"),
    Search("commit", "a line whole by another node's manifest is reused",
           "LINES=2 KEEP=1 CRASHES=2 TIMEOUTS=0 LEVELS=1 BUG_RECYCLE_HALF_RETIRED"),
    Search("commit", "a line that may be whole is taken back",
           "LINES=2 KEEP=1 CRASHES=1 TIMEOUTS=1 LEVELS=1 BUG_TAKE_BACK"),
    Search("repair", "ranks change before the agreement", "CRASHES=2 WORKERS=2 BUG_ADOPT_EARLY"),
    Search("repair", "who fails in a round does not revoke", "CRASHES=2 BUG_NO_REVOKE"),
    Search("repair", "who fails in a round goes on without the agreement", "CRASHES=2 WORKERS=2 BUG_ALONE"),
    Search("repair", "who hears of a loss does not tell the others", "CRASHES=1 BUG_NO_ALARM"),
    Search("repair", "spares do not come to the end", "CRASHES=1 WORKERS=2 BUG_PARTS_ALONE"),
]  # fmt: skip


@dataclass
class Found:
    states: int
    seconds: float
    violation: str = ""  # what Spin says of the first
    trouble: str = ""  # why the search was not exhaustive


def spin() -> str:
    unpacked = ROOT / "build/model/usr/bin/spin"
    found = str(unpacked) if unpacked.exists() else shutil.which("spin")
    if found is None:
        raise FileNotFoundError("there is no model checker Spin: tools/setup.sh --model fetches it")
    return found


def run_search(search: Search, place: Path, memory: int, optimised: bool) -> Found:
    """`optimised`: compiling takes longer, searching less. The trail of a violation is left in `place`."""
    start = time.monotonic()
    model = str(MODELS / f"{search.model}.pml")
    made = subprocess.run([spin(), *search.defines, "-a", model], cwd=place, capture_output=True, text=True)
    if made.returncode != 0:
        return Found(0, 0, trouble=made.stdout + made.stderr)
    options = ["-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=4096", f"-DMEMLIM={memory}"]
    level = "-O2" if optimised else "-O0"
    subprocess.run(["gcc", level, "-w", *options, "-o", "pan", "pan.c"], cwd=place, check=True)
    said = subprocess.run(["./pan", f"-m{DEPTH}", "-w24"], cwd=place, capture_output=True, text=True).stdout
    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    found = Found(int(states.group(1)) if states else 0, time.monotonic() - start)
    violation = re.search(r"^pan:1: (.*)", said, re.M)
    if violation:
        found.violation = violation.group(1)
    elif not errors or errors.group(1) != "0":
        found.trouble = said[-2000:]
    for sign in ("search depth too small", "Search not completed", "out of memory", "reached -DMEMLIM", "Bitstate"):
        if sign in said and not violation:
            found.trouble = f"not exhaustive: {sign}"
    return found


def run_searches(searches: list[Search], place: Path, memory: int, at_once: int, optimised: bool) -> Iterator[Found]:
    """In their order. Each has a directory of its own in `place`, by its number."""

    def run_one(number: int) -> Found:
        own = place / str(number)
        own.mkdir(parents=True)
        return run_search(searches[number], own, memory, optimised)

    with ThreadPoolExecutor(at_once) as beside:
        yield from beside.map(run_one, range(len(searches)))


def run_campaign(large: bool, seed: int) -> Outcome:
    """Nothing is random here: `seed` changes nothing."""
    del seed
    found, states, seconds = [], 0, []
    searches = LARGE if large else SMALL
    place = Path(tempfile.mkdtemp(prefix="backstay-model-"))
    cores = min(4, len(os.sched_getaffinity(0)))
    at_once = 1 if large else cores  # two of the large ones would not fit into the memory of a usual machine
    results = run_searches(searches, place / "searches", MEMORY[large], at_once, optimised=True)
    for search, result in zip(searches, results, strict=True):
        states += result.states
        seconds.append(f"{search.model} ({search.what}): {result.states} states, {result.seconds:.0f} s")
        print(seconds[-1], flush=True)
        repeat = f"spin -a {' '.join(search.defines)} tests/crash/model/{search.model}.pml"
        if result.trouble or result.violation:
            found.append(
                f"{search.model} ({search.what}): {result.violation or result.trouble} (repeat with: {repeat})"
            )
            if result.violation:
                found[-1] += f"; its trail is in {place}/searches/{len(seconds) - 1}"
                return Outcome(f"{len(seconds)} searches, {states} states", found)
    results = run_searches(BUGS, place / "bugs", MEMORY[large], cores, optimised=False)
    for bug, result in zip(BUGS, results, strict=True):
        print(f"{bug.model}, seeded: {bug.what}: {result.violation or 'NOT FOUND'}, {result.seconds:.0f} s", flush=True)
        if not result.violation:
            found.append(f"{bug.model}: the seeded bug was not found: {bug.what} {result.trouble}")
    shutil.rmtree(place)
    tried = f"{len(searches)} exhaustive searches with {states} states, {len(BUGS)} seeded bugs of which "
    missed = sum("seeded" in sentence for sentence in found)
    return Outcome(tried + ("all were found" if missed == 0 else f"{missed} were missed"), found)
