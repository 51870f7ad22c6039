"""What `backstay run --check` costs the three applications that declare their loops, and that it finds nothing there:
right declarations, so that whatever is told is a false alarm.

    python bench/checked.py

Each computation is looked at once, whatever that takes, and then as long as time allows: the shorter a run, the more of
it are the first looks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import saved

RANKS = 2  # as many as cores
PROGRAMS = {
    "tea2d": ["--n", "256", "--steps", "24", "--solver", "cg"],
    "clover3d": ["--n", "32", "--steps", "800"],
    "tgv": ["--n", "24", "--steps", "400", "--stored"],
}


def job(build: Path, name: str, *flags: str) -> tuple[float, list[dict]]:
    """Seconds of a whole job, and what its ranks say of their checks."""
    with tempfile.TemporaryDirectory(prefix="backstay-checked.", dir="/dev/shm") as directory:
        run = ["run", *flags, "-n", RANKS, "--levels", "shared", "--every", 10**9, "--dir", f"{directory}/ck"]
        start = time.monotonic()
        saved.told_by([*saved.COMMAND, *run, "--", build / "apps" / name / name, *PROGRAMS[name], "--quiet"])
        seconds = time.monotonic() - start
        events = [json.loads(line) for line in Path(directory, "ck", "events.jsonl").read_text().splitlines()]
    return seconds, [event for event in events if event["event"] == "check_access"]


def run(options: argparse.Namespace) -> list[dict]:
    """Rows for `./dev bench`."""
    rows = []
    for name in PROGRAMS:
        plain, _ = job(options.build, name)
        checked, ranks = job(options.build, name, "--check")
        if len(ranks) != RANKS or any(event["looked_at"] == 0 for event in ranks):
            raise SystemExit(f"checked.py: not all ranks of {name} looked at its computations: {ranks}")
        row = {"what": "checked", "program": name, "store": "shm", "ranks": RANKS, "plain_s": plain}
        row |= {"checked_s": checked, "checked_per_plain": checked / plain}
        row |= {key: sum(int(event[key]) for event in ranks) for key in ("looked_at", "passed_over", "found")}
        rows.append(row)
    return rows


def told(row: dict) -> str:
    return (
        f"{row['program']} {' '.join(PROGRAMS[row['program']])} on {row['ranks']} ranks with --check: "
        f"{row['checked_s']:.1f} s, {row['checked_per_plain']:.1f} x as long as without ({row['plain_s']:.1f} s); "
        f"{row['looked_at']} computations looked at, {row['passed_over']} passed over, {row['found']} false alarms"
    )


if __name__ == "__main__":
    for each in run(saved.parse()):
        print(told(each))
