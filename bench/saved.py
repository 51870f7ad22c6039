"""What declarations save and cost: bytes of a line against the least found by hand, a declared computation, a replay,
and how long a checkpoint keeps the applications waiting, in their time steps.

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
# Each long enough for a few checkpoints.
STEPPING = {
    "tea2d": ["--n", "512", "--steps", "8", "--solver", "cg"],
    "clover3d": ["--n", "64", "--steps", "24"],
    "tgv": ["--n", "64", "--steps", "24"],
}
LEVELS = ["memory", "partner", "local", "shared"]
STEPPING_RANKS, STEPPING_EVERY = 4, 4


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


def end_of(build: Path, name: str, every: int, level: str) -> tuple[float, dict]:
    """Seconds from the session's start to its end, and what the end says of checkpoints on rank 0."""
    program = [build / "apps" / name / name, *STEPPING[name], "--quiet"]
    with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
        flags = ["run", "-n", STEPPING_RANKS, "--every", every, "--levels", level]
        told_by([*COMMAND, *flags, "--dir", f"{directory}/ck", "--", *program])
        events = [json.loads(line) for line in Path(directory, "ck", "events.jsonl").read_text().splitlines()]
    start, end = (next(e for e in events if e["event"] == word) for word in ("start", "end"))
    return end["time"] - start["time"], end


def blocked_of(build: Path, name: str) -> list[dict]:
    """For each level: what a checkpoint keeps rank 0, against a step of a run without checkpoints just before."""
    rows = []
    steps = int(STEPPING[name][STEPPING[name].index("--steps") + 1])
    for level in LEVELS:
        seconds, _ = end_of(build, name, 10**9, level)
        _, end = end_of(build, name, STEPPING_EVERY, level)
        if end["taken"] < 2:
            raise SystemExit(f"saved.py: {name} took {end['taken']} checkpoints at {level}")
        row = {"what": "blocked", "program": name, "level": level, "store": "shm", "ranks": STEPPING_RANKS}
        row |= {"step_s": seconds / steps, "blocked_s": end["blocked_seconds"] / end["taken"]}
        rows.append(row | {"blocked_per_step": row["blocked_s"] / row["step_s"]})
    return rows


def run(options: argparse.Namespace) -> list[dict]:
    """Rows for `./dev bench`."""
    with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
        said = told_by([options.build / "bench" / "declared", directory])
    rows = [json.loads(line) | {"store": "shm", "ranks": 1} for line in said.splitlines()]
    rows += [bytes_of(options.build, name, ranks) for name in PROGRAMS for ranks in options.ranks]
    return rows + [row for name in STEPPING for row in blocked_of(options.build, name)]


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
    if row["what"] == "blocked":
        return (
            f"{row['program']} on {row['ranks']} ranks, level {row['level']}: a checkpoint keeps rank 0 for "
            f"{1e3 * row['blocked_s']:.2f} ms, {row['blocked_per_step']:.3f} of a step of {1e3 * row['step_s']:.1f} ms"
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
