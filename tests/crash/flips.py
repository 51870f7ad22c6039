"""Files of lines are damaged, and jobs resume from what is left: flips_test, with more trials."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from campaign import Outcome

LEVELS = 10  # that flips_test goes through
TRIALS = {False: 3_000, True: 100_000}
LIMIT = {False: 300, True: 6 * 3600}  # seconds


def run_campaign(large: bool, seed: int) -> Outcome:
    root = Path(__file__).resolve().parents[2]
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", root / "build" / "dev"))
    each = -(-TRIALS[large] // LEVELS)
    ended = subprocess.run(
        [build / "tests" / "crash" / "flips_test"],
        env={**os.environ, "FLIPS": str(each), "FLIPS_SEED": str(seed)},
        capture_output=True, text=True, timeout=LIMIT[large], check=False,
    )  # fmt: skip
    ends: dict[str, int] = {}
    for line in re.findall(r"^files damaged: .*$", ended.stdout, re.M):
        for what, count in re.findall(r"([a-z ]+): (\d+)", line):
            ends[what.strip()] = ends.get(what.strip(), 0) + int(count)
    told = ", ".join(f"{what}: {count}" for what, count in ends.items())
    outcome = Outcome(
        f"{each * LEVELS} damages to files of {LEVELS} levels and layouts, each met by a job of 4 ranks; "
        f"of those that count: {told}"
    )
    # Each is named where it fails, and once more at the end.
    outcome.found = list(
        dict.fromkeys(re.findall(r"^\[  FAILED  \] (flips\S*|/flips\S*), where.*$", ended.stdout, re.M))
    )
    if outcome.found:
        outcome.found[-1] += "\n" + ended.stdout[-4000:]
    if (ended.returncode != 0 or not ends) and not outcome.found:
        outcome.found = [f"flips_test ended with status {ended.returncode}: {ended.stdout[-2000:]}{ended.stderr}"]
    return outcome
