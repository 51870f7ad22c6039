"""What declarations save and cost: bytes of a line against the least found by hand, a declared computation, a replay.

    python bench/saved.py --ranks 1 4 8

The least by hand of clover3d are five fields at the beginning of a step (density, energy, velocity), of tea2d one.
Static regions are not counted on either side, but in the whole state.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-c", "from backstay.cli import main; exit(main())"]
LEAST = {"tea2d": ["energy"], "clover3d": ["density0", "energy0", "xvel0", "yvel0", "zvel0"]}
PROGRAMS = {
    "tea2d": ["--n", "256", "--steps", "4", "--solver", "ppcg"],
    "clover3d": ["--n", "48", "--steps", "4"],
}


def told_by(words: list) -> str:
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=900, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"saved.py: {' '.join(map(str, words))} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    return ended.stdout


def regions_of(directory: Path) -> dict[str, int]:
    """Bytes of each region in the newest line there, all ranks together, without those that are static."""
    shown = json.loads(told_by([*COMMAND, "show", directory, "--json"]))
    return {region["name"]: region["bytes"] for region in shown["regions"] if not region["static"]}


def bytes_of(build: Path, name: str, ranks: int) -> dict:
    """Of the newest line of a run that declares its loops."""
    program = [build / "apps" / name / name, *PROGRAMS[name]]
    with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
        flags = ["run", "-n", ranks, "--every", 1, "--levels", "shared", "--opt", "policy=wait"]
        said = told_by([*COMMAND, *flags, "--dir", f"{directory}/ck", "--", *program])
        saved = regions_of(Path(directory, "ck"))
    arrays = re.search(r"of the (\d+) bytes of this rank's arrays", said)
    least = sum(saved[field] for field in LEAST[name])
    row = {"what": name, "store": "shm", "ranks": ranks, "bytes": sum(saved.values()), "least": least}
    row |= {"regions": sorted(saved), "bytes_per_least": row["bytes"] / least}
    # On one rank these are all arrays of the program; more ranks have the same, and their own copies of coordinates.
    return row | ({"bytes_per_state": row["bytes"] / int(arrays[1])} if ranks == 1 and arrays else {})


def run(options: argparse.Namespace) -> list[dict]:
    """Rows for `./dev bench`."""
    with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
        said = told_by([options.build / "bench" / "declared", directory])
    rows = [json.loads(line) | {"store": "shm", "ranks": 1} for line in said.splitlines()]
    return rows + [bytes_of(options.build, name, ranks) for name in PROGRAMS for ranks in options.ranks]


def told(row: dict) -> str:
    if row["what"] == "computation":
        how = "with replay()" if row["replays"] else "with resume()"
        cost = f"{row['loop_ns']:.1f} ns, and {row['access_ns']:.2f} ns an access"
        return f"a declared computation, {how}, no checkpoint under way: {cost}"
    if row["what"] == "replay":
        return (
            f"a replay of {row['steps']} steps of {row['computations']} computations and a result: "
            f"{row['ms_per_1000']:.2f} ms for 1,000 steps"
        )
    state = f", {100 * row['bytes_per_state']:.1f} % of all its arrays" if "bytes_per_state" in row else ""
    return (
        f"{row['what']} on {row['ranks']} ranks: {row['bytes']} bytes in a line, {row['bytes_per_least']:.4f} x the "
        f"least by hand{state}"
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 4, 8])
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "release"))
    parser.add_argument("--build", type=Path, default=build)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    for each in run(parse()):
        print(told(each))
