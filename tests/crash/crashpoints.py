"""A checkpoint is stopped at each of its operations on its stores: crashpoints_test, with more ways to lose data."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from campaign import Outcome

SUBSETS = {False: 3, True: 20}  # ways of losing a part of what was not synced, at each operation
LIMIT = {False: 300, True: 6 * 3600}  # seconds


def run_campaign(large: bool, seed: int) -> Outcome:
    root = Path(__file__).resolve().parents[2]
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", root / "build" / "dev"))
    environment = {**os.environ, "CRASHPOINT_SUBSETS": str(SUBSETS[large]), "CRASHPOINT_SEED": str(seed)}
    ended = subprocess.run(
        [build / "tests" / "crash" / "crashpoints_test"],
        env=environment, capture_output=True, text=True, timeout=LIMIT[large], check=False,
    )  # fmt: skip
    numbers = [int(n) for n in re.findall(r"^(?:jobs that|remains that) .*: (\d+)$", ended.stdout, re.M)]
    stopped, looked_at = numbers[-2:] if len(numbers) >= 2 else (0, 0)  # each suite prints the sums so far
    outcome = Outcome(
        f"{stopped} jobs of 4 ranks stopped at every operation of a checkpoint or a rebuild, at each level and layout, "
        f"with {SUBSETS[large]} subsets of what was not synced, torn at 512 bytes; {looked_at} remains resumed from"
    )
    outcome.found = re.findall(r"^\[  FAILED  \] (\S*crash\S+), where.*$", ended.stdout, re.M)
    if (ended.returncode != 0 or not stopped) and not outcome.found:
        outcome.found = [f"crashpoints_test ended with status {ended.returncode}: {ended.stdout[-2000:]}{ended.stderr}"]
    return outcome
