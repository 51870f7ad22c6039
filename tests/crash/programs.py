"""Random programs that declare what they do are stopped at random moments and gone on with, rolled back and replayed.

They are the tests of src/api that make such programs, with as many seeds as are asked for: after every stop the state
in the end is that of an undisturbed run, bit for bit, or a sentence refused to go on.
"""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from campaign import Outcome

ROOT = Path(__file__).resolve().parents[2]
TESTS = {
    "ComputeTest.random_programs_that_are_stopped_end_as_if_they_were_not": "stopped",
    "ComputeTest.random_programs_that_roll_back_end_as_if_they_did_not": "rolled back in one session",
    "ComputeTest.random_lists_lead_to_the_same_end_or_are_refused": "with a list that somebody guessed",
    "ReplayTest.random_programs_that_are_stopped_at_random_moments_end_as_if_they_were_not": "stopped and replayed",
}
SMALL, LARGE = 100, 10_000  # programs of each kind
AT_ONCE = 100  # of one process
LIMIT = 600  # seconds for these


def tried(program: Path, test: str, first: int, count: int) -> str | None:
    """Nothing, or the sentence of a failure."""
    environment = os.environ | {"RANDOM_SEED": str(first), "RANDOM_PROGRAMS": str(count)}
    if os.access("/dev/shm", os.W_OK):  # nothing is lost with a machine here, and a disk takes a hundred times as long
        environment["TMPDIR"] = "/dev/shm"
    command = [program, f"--gtest_filter={test}"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"RANDOM_SEED={first} RANDOM_PROGRAMS={count} {program.name} --gtest_filter={test}: no end in {LIMIT} s"
    if done.returncode == 0 and "[  PASSED  ] 1 test" in done.stdout:
        return None
    why = re.search(r"Failure\n(.*?)\n\n", done.stdout, re.DOTALL)
    said = " ".join(why[1].split()) if why else f"status {done.returncode}"
    return f"RANDOM_SEED={first} RANDOM_PROGRAMS={count} {program.name} --gtest_filter={test}: {said}"


def run_campaign(large: bool, seed: int) -> Outcome:
    """Seeds of programs from `seed` times a million on, so that no two campaigns make the same."""
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "dev"))
    program, count = build / "src" / "api" / "api_test", LARGE if large else SMALL
    found = []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as beside:
        for test, what in TESTS.items():
            starts = range(seed * 1_000_000, seed * 1_000_000 + count, AT_ONCE)
            failures = beside.map(lambda first, test=test: tried(program, test, first, AT_ONCE), starts)
            found += (new := [failure for failure in failures if failure])
            print(f"{count:>6} programs {what}{f': {len(new)} FAILED' if new else ''}", flush=True)
    return Outcome(f"{len(TESTS) * count} random programs of {len(TESTS)} kinds", found)
