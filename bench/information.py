"""Bytes of a line at each level of information that a program gives, against the least by hand and its whole state.

    python bench/information.py --ranks 1 4 8

The least by hand are the fields that a step begins with: five of tgv and of clover3d, one of tea2d. What else a line
has counts: the payload, or the log of the way, which has the computations as they are declared on each rank (3 to 5 KB)
and grows by what they return. The whole state are all arrays of the program, those that are static too.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import saved

LEVELS = ["none", "initphase", "fast-forward", "list", "list+fast-forward", "triggered"]
PROGRAMS = {
    "tea2d": ["--n", "1024", "--steps", "2", "--solver", "ppcg", "--eps", "1e-4", "--stored"],
    "clover3d": ["--n", "64", "--steps", "3", "--output-every", "2"],
    "tgv": ["--n", "64", "--steps", "3", "--output-every", "2", "--stored"],
}


def bytes_of(build: Path, name: str, level: str, ranks: int) -> dict:
    """Of the newest line of a run."""
    program = [build / "apps" / name / name, *PROGRAMS[name], "--information", level, "--trigger-every", 1]
    with tempfile.TemporaryDirectory(prefix="backstay-information.", dir="/dev/shm") as directory:
        flags = ["run", "-n", ranks, "--every", 1, "--levels", "shared", "--opt", "policy=wait"]
        said = saved.told_by([*saved.COMMAND, *flags, "--dir", f"{directory}/ck", "--", *program])
        regions = saved.regions_of(Path(directory, "ck"))
    least = saved.least_of(name, PROGRAMS[name])
    row = {"what": "information", "program": name, "level": level, "store": "shm", "ranks": ranks}
    row |= {"bytes": sum(regions.values()), "least": least, "regions": sorted(regions)}
    row[f"{'none' if level == 'none' else 'told'}_per_least"] = row["bytes"] / least
    if ranks == 1:  # more ranks have the same, and their own copies of coordinates
        arrays = re.search(r"of the (\d+) bytes of this rank's arrays", said)
        row[f"{name}_per_state"] = row["bytes"] / int(arrays[1])
    return row


def run(options: argparse.Namespace) -> list[dict]:
    """Rows for `./dev bench`."""
    return [bytes_of(options.build, *of) for of in ((p, i, n) for p in PROGRAMS for i in LEVELS for n in options.ranks)]


def told(row: dict) -> str:
    ratio = row["bytes"] / row["least"]
    state = row.get(f"{row['program']}_per_state")
    return (
        f"{row['program']} on {row['ranks']} ranks, told {row['level']}: {row['bytes']} bytes in a line, "
        f"{ratio:.4f} x the least by hand" + (f", {100 * state:.2f} % of all its arrays" if state else "")
    )


if __name__ == "__main__":
    for each in run(saved.parse()):
        print(told(each))
