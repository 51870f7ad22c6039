"""A checkpoint is stopped at each of its operations on its stores: crashpoints_test, with more ways to lose data."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from campaign import Outcome

SUBSETS = {False: 1, True: 20}  # ways of losing a part of what was not synced, at each operation
SHARE = {False: 6, True: 1}  # one in so many ways is gone, by the seed: CI goes all of them besides
LIMIT = {False: 1200, True: 6 * 3600}  # seconds, which a machine that does much else may need


def run_part(part: int, parts: int, large: bool, seed: int) -> tuple[int, int, list[str]]:
    """What one of so many processes has stopped, resumed from and found."""
    root = Path(__file__).resolve().parents[2]
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", root / "build" / "dev"))
    environment = {**os.environ, "CRASHPOINT_SUBSETS": str(SUBSETS[large]), "CRASHPOINT_SEED": str(seed)}
    environment |= {"GTEST_TOTAL_SHARDS": str(parts), "GTEST_SHARD_INDEX": str(part)}
    try:
        ended = subprocess.run(
            [build / "tests" / "crash" / "crashpoints_test"],
            env=environment, capture_output=True, text=True, timeout=LIMIT[large], check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 0, 0, [f"crashpoints_test, part {part} of {parts}, did not end in {LIMIT[large]} s"]
    numbers = [int(n) for n in re.findall(r"^(?:jobs that|remains that) .*: (\d+)$", ended.stdout, re.M)]
    stopped, looked_at = numbers[-2:] if len(numbers) >= 2 else (0, 0)  # each suite prints the sums so far
    found = re.findall(r"^\[  FAILED  \] (\S*crash\S+), where.*$", ended.stdout, re.M)
    if (ended.returncode != 0 or not stopped) and not found:
        found = [f"crashpoints_test ended with status {ended.returncode}: {ended.stdout[-2000:]}{ended.stderr}"]
    return stopped, looked_at, found


def run_campaign(large: bool, seed: int) -> Outcome:
    cores = min(8, len(os.sched_getaffinity(0)))
    parts = range(SHARE[large] * cores)[seed % SHARE[large] :: SHARE[large]]  # each has tests of several kinds
    with ThreadPoolExecutor(cores) as beside:
        done = list(beside.map(lambda part: run_part(part, SHARE[large] * cores, large, seed), parts))
    stopped, looked_at = sum(part[0] for part in done), sum(part[1] for part in done)
    return Outcome(
        f"{stopped} jobs of 4 ranks stopped at every operation of a checkpoint or a rebuild, at each level and layout"
        f"{f', one in {SHARE[large]} of them' if SHARE[large] > 1 else ''}, "
        f"with {SUBSETS[large]} subsets of what was not synced, torn at 512 bytes; {looked_at} remains resumed from",
        [failure for part in done for failure in part[2]],
    )
