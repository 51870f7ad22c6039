"""What declarations save and cost: bytes of a line against the least found by hand, a declared computation, a replay,
how long a checkpoint keeps the applications waiting, in their time steps, and how long they take to come back.

    python bench/saved.py --ranks 1 4 8

The least by hand of clover3d are five fields at the beginning of a step (density, energy, velocity), of tea2d one.
Static regions are not counted on either side, but in the whole state.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-c", "from backstay.cli import main; exit(main())"]
# The least by hand, in numbers of 8 bytes for n cells in each direction: energy; density and energy of each cell, three
# velocities of each corner; density, three momenta and energy of each cell.
LEAST = {
    "tea2d": lambda n: n**2,
    "clover3d": lambda n: 2 * n**3 + 3 * (n + 1) ** 3,
    "tgv": lambda n: 5 * n**3,
}
PROGRAMS = {
    "tea2d": ["--n", "256", "--steps", "4", "--solver", "ppcg"],
    "clover3d": ["--n", "48", "--steps", "4"],
}
# Each long enough for a few checkpoints.
STEPPING = [
    ("tea2d", 512, 12, ["--solver", "cg"]),
    ("clover3d", 64, 96, []),
    ("clover3d", 96, 48, []),
    ("tgv", 64, 64, []),
]
LEVELS = ["memory", "partner", "local", "shared"]
# As many ranks as cores here, and twice as many: of those one may lose its core, in a checkpoint as at any moment.
STEPPING_RANKS, STEPPING_EVERY = (2, 4), 4
RESTORED_RANKS = 4
# Of few steps, and large enough for a line to take a while; and a small one, where agreements are most of it.
RESTORED = [
    ("tea2d", 1024, ["--solver", "cg", "--dt", "1e-6"]),
    ("tea2d", 3072, ["--solver", "cg", "--dt", "1e-6"]),
    ("clover3d", 128, []),
    ("tgv", 128, []),
]
RESTORES = 5
DECLARED = ["--n", "48", "--steps", "60"]  # of clover3d, in pairs with and without
PAIRS = 5


def told_by(words: list, options: dict | None = None) -> str:
    """What it says; `options` of the library."""
    env = os.environ | {f"BACKSTAY_{name.upper()}": str(value) for name, value in (options or {}).items()}
    ended = subprocess.run([*map(str, words)], env=env, capture_output=True, text=True, timeout=900, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"saved.py: {' '.join(map(str, words))} ended with {ended.returncode}\n{ended.stderr[-2000:]}")
    return ended.stdout


def regions_of(directory: Path) -> dict[str, int]:
    """Bytes of each region in the newest line there, all ranks together, without those that are static."""
    shown = json.loads(told_by([*COMMAND, "show", directory, "--json"]))
    return {region["name"]: region["bytes"] for region in shown["regions"] if not region["static"]}


def least_of(name: str, words: list[str]) -> int:
    """Bytes, counted from the size of the problem alone."""
    return 8 * LEAST[name](int(words[words.index("--n") + 1]))


def bytes_of(build: Path, name: str, ranks: int) -> dict:
    """Of the newest line of a run that declares its loops."""
    program = [build / "apps" / name / name, *PROGRAMS[name]]
    with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
        flags = ["run", "-n", ranks, "--every", 1, "--levels", "shared", "--opt", "policy=wait"]
        said = told_by([*COMMAND, *flags, "--dir", f"{directory}/ck", "--", *program])
        saved = regions_of(Path(directory, "ck"))
    arrays = re.search(r"of the (\d+) bytes of this rank's arrays", said)
    least = least_of(name, PROGRAMS[name])
    row = {"what": name, "store": "shm", "ranks": ranks, "bytes": sum(saved.values()), "least": least}
    row |= {"regions": sorted(saved), "bytes_per_least": row["bytes"] / least}
    # On one rank these are all arrays of the program; more ranks have the same, and their own copies of coordinates.
    return row | ({"bytes_per_state": row["bytes"] / int(arrays[1])} if ranks == 1 and arrays else {})


def end_of(program: list, ranks: int, every: int, level: str) -> tuple[float, dict]:
    """Seconds from the session's start to its end, and what the end says of checkpoints on rank 0."""
    with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
        flags = ["run", "-n", ranks, "--every", every, "--levels", level]
        told_by([*COMMAND, *flags, "--dir", f"{directory}/ck", "--", *program])
        events = [json.loads(line) for line in Path(directory, "ck", "events.jsonl").read_text().splitlines()]
    start, end = (next(e for e in events if e["event"] == word) for word in ("start", "end"))
    lines = [e["bytes"] for e in events if e["event"] == "commit"]
    return end["time"] - start["time"], end | {"bytes": int(lines[-1]) if lines else 0}


def mpirun(ranks: int, words: list, options: dict | None = None) -> str:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return told_by(["mpirun", *root, "--oversubscribe", "-n", ranks, *words], options)


def copy_of(build: Path, ranks: int, size: int, step: float) -> dict:
    """Seconds that rank 0 waits for a plain copy of so many bytes where as many ranks compute as long a step."""
    work = step * min(1, (os.cpu_count() or 1) / ranks)  # of a rank's processor, in a step
    return json.loads(mpirun(ranks, [build / "bench" / "copies", size, 1e3 * work, 24]))


def blocked_of(build: Path, ranks: int, name: str, n: int, steps: int, words: list) -> list[dict]:
    """For each level: what a checkpoint keeps rank 0, against a step of a run without checkpoints just before, and
    against a copy of its bytes just after it. The first one of a run is told apart: it touches memory that the others
    use again, and saves what is static."""
    rows = []
    program = [build / "apps" / name / name, "--n", n, "--steps", steps, *words, "--quiet"]
    for level in LEVELS:
        seconds, _ = end_of(program, ranks, 10**9, level)
        _, end = end_of(program, ranks, STEPPING_EVERY, level)
        if end["taken"] < 2:
            raise SystemExit(f"saved.py: {name} took {end['taken']} checkpoints at {level}")
        row = {"what": "blocked", "program": name, "size": n, "level": level, "store": "shm", "ranks": ranks}
        later = end["blocked_seconds"] - end["blocked_by_first_seconds"]
        row |= {"step_s": seconds / steps, "blocked_s": later / (end["taken"] - 1), "taken": end["taken"]}
        row |= {"first_s": end["blocked_by_first_seconds"]}
        row |= {"bytes": end["bytes"] // ranks}
        row |= {f"copy_{key}": value for key, value in copy_of(build, ranks, row["bytes"], row["step_s"]).items()}
        row |= {"copy_per_step": row["copy_mean_s"] / row["step_s"]}
        rows.append(row | {"blocked_per_step": row["blocked_s"] / row["step_s"]})
    return rows


def seconds_to_read(directory: Path) -> float:
    """Of all bytes of the newest line there, into memory that was touched before."""
    line = max((path for path in directory.glob("**/line-*") if path.is_dir()), key=lambda path: path.name)
    files = [path for path in line.iterdir() if path.is_file()]
    room = bytearray(max(path.stat().st_size for path in files))
    start = time.monotonic()
    for path in files:
        with path.open("rb", buffering=0) as file:
            file.readinto(room)
    return time.monotonic() - start


def restored_of(build: Path, name: str, n: int, words: list) -> dict:
    """How long a run that goes on takes until all ranks have their data at the step where the line was taken, against
    a plain read of the line's bytes by one process, and what replay that run needs; the two take turns."""
    program = [build / "apps" / name / name, "--n", n, "--steps", 2, *words, "--quiet"]
    with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
        place = Path(directory, "ck")
        flags = ["run", "-n", RESTORED_RANKS, "--every", 1, "--levels", "shared", "--opt", "policy=wait"]
        command = [*COMMAND, *flags, "--dir", place, "--", *program]
        told_by(command)
        size = sum(regions_of(place).values())
        turns = []
        for _ in range(RESTORES):
            read = seconds_to_read(place)
            told_by(command)  # goes on at its last step
            events = [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()]
            restored = [event for event in events if event["event"] == "resume"][-1]
            turns.append({"read_s": read, "restored_s": restored["seconds"]})
    row = {"what": "restored", "program": name, "size": n, "store": "shm", "ranks": RESTORED_RANKS}
    row |= {"bytes": size, "turns": turns}
    row |= {key: statistics.median(turn[key] for turn in turns) for key in ("read_s", "restored_s")}
    return row | {"restored_per_read": row["restored_s"] / row["read_s"]}


def declarations_of(build: Path, computation: dict, replay: dict) -> dict:
    """What declarations cost clover3d on one rank, no checkpoint due, as a part of its time: what a computation of many
    accesses costs, times those of a step. The direct pairs say the same, as far as the machine lets them."""
    program = [build / "apps" / "clover3d" / "clover3d", *DECLARED, "--quiet"]
    steps = int(DECLARED[DECLARED.index("--steps") + 1])
    pairs, fastest = [], float("inf")
    for turn in range(PAIRS):
        both = {}
        for plain in (True, False) if turn % 2 == 0 else (False, True):
            with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
                start = time.monotonic()
                if plain:
                    mpirun(1, [*program, "--plain"])
                else:
                    mpirun(1, program, {"every": 10**9, "dir": f"{directory}/ck"})
                both[plain] = time.monotonic() - start
                if not plain:
                    log = Path(directory, "ck", "events.jsonl").read_text().splitlines()
                    times = {e["event"]: e["time"] for e in map(json.loads, log)}
                    fastest = min(fastest, (times["end"] - times["start"]) / steps)
        pairs.append((both[True], both[False]))
    row = {"what": "declarations", "program": "clover3d", "store": "shm", "ranks": 1, "pairs": pairs}
    row |= {"computations": replay["computations"], "ns": computation["ns"], "step_s": fastest}
    row |= {"longer": statistics.median(declared / plain for plain, declared in pairs)}
    return row | {"percent": 100 * row["computations"] * row["ns"] * 1e-9 / fastest}


def run(options: argparse.Namespace) -> list[dict]:
    """Rows for `./dev bench`."""
    with tempfile.TemporaryDirectory(prefix="backstay-saved.", dir="/dev/shm") as directory:
        said = told_by([options.build / "bench" / "declared", directory])
    rows = [json.loads(line) | {"store": "shm", "ranks": 1} for line in said.splitlines()]
    rows += [bytes_of(options.build, name, ranks) for name in PROGRAMS for ranks in options.ranks]
    rows.append(declarations_of(options.build, rows[0], next(row for row in rows if row.get("program") == "clover3d")))
    rows += [restored_of(options.build, *sizes) for sizes in RESTORED]
    every = [(ranks, *sizes) for sizes in STEPPING for ranks in STEPPING_RANKS]
    return rows + [row for each in every for row in blocked_of(options.build, *each)]


def told(row: dict) -> str:
    if row["what"] == "computation":
        how = "with replay()" if row["replays"] else "with resume()"
        cost = f"{row['loop_ns']:.1f} ns, and {row['access_ns']:.2f} ns an access"
        return f"a declared computation, {how}, no checkpoint under way: {cost}"
    if row["what"] == "replay":
        return (
            f"a replay of {row['steps']} steps of {row['computations']} computations and a result ({row['program']}): "
            f"{row['ms_per_1000']:.2f} ms for 1,000 steps"
        )
    if row["what"] == "declarations":
        ratios = [declared / plain for plain, declared in row["pairs"]]
        return (
            f"declarations of {row['program']}, no checkpoint due: {row['computations']} computations a step of "
            f"{row['ns']:.0f} ns are {row['percent']:.4f} % of a step of {1e3 * row['step_s']:.1f} ms; pairs of whole "
            f"runs, start of MPI and all, with a session and without: {row['longer']:.3f} x (median of "
            f"{len(ratios)}, {min(ratios):.3f} to {max(ratios):.3f})"
        )
    if row["what"] == "restored":
        return (
            f"{row['program']} {row['size']} on {row['ranks']} ranks: {row['bytes']} bytes are back after "
            f"{1e3 * row['restored_s']:.1f} ms, {row['restored_per_read']:.2f} x a plain read of the line by one "
            f"process ({1e3 * row['read_s']:.1f} ms)"
        )
    if row["what"] == "blocked":
        return (
            f"{row['program']} {row['size']} on {row['ranks']} ranks, level {row['level']}: a checkpoint keeps rank 0 "
            f"for {1e3 * row['blocked_s']:.2f} ms (the first one {1e3 * row['first_s']:.1f} ms), "
            f"{row['blocked_per_step']:.3f} of a step of {1e3 * row['step_s']:.1f} ms; a plain copy of its "
            f"{row['bytes']} bytes there "
            f"{1e3 * row['copy_mean_s']:.2f} ms, "
            f"{row['copy_per_step']:.3f} of a step (median {1e3 * row['copy_median_s']:.2f} ms)"
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
