"""What a message log saves: a lost rank's replacement sets itself up alone, the others keep what they have.

    python bench/init.py --cells 64 --ranks 2 4 8      # heat, rank 0 lost, as in D2.4, figures 25 and 26

Compared with the set-up of the same program without backstay on as many ranks, in wall time, and in processor time with
the set-up in which the log was recorded: where ranks are oversubscribed, one that runs alone has a core to itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-c", "from backstay.cli import main; exit(main())"]
STEPS, EVERY, LOST_AT = 12, 2, 7
MB = 1e6


def job(words: list, what: str) -> str:
    ended = subprocess.run(
        [*map(str, COMMAND), *map(str, words)], capture_output=True, text=True, timeout=600, check=False
    )
    if ended.returncode != 0:
        raise SystemExit(
            f"init.py: {what}: {shlex.join(map(str, words))} ended with {ended.returncode}\n{ended.stderr}"
        )
    return ended.stdout


def figures(text: str) -> dict:
    """What heat --figures prints: seconds of the slowest rank, bytes of all ranks."""
    found = {
        name: float(value) for name, value in re.findall(r"^(set-up|static data|dynamic data) +([\d.]+)", text, re.M)
    }
    return {"setup": found["set-up"], "static": found["static data"] * MB, "dynamic": found["dynamic data"] * MB}


def once(program: Path, ranks: int, cells: int) -> dict:
    heat = [program, "--cells", cells, "--steps", STEPS, "--quiet", "--figures"]
    with tempfile.TemporaryDirectory(prefix="backstay-init.", dir="/dev/shm") as directory:
        plain = figures(job(["run", "-n", ranks, "--dir", f"{directory}/plain", "--", *heat, "--plain"], "plain"))
        memory = ["--levels", "memory", "--opt", f"memory.redundancy=rs({min(3, ranks)},1)", "--opt", "policy=wait"]
        flags = ["-n", ranks, "--spares", 1, "--nodes", ranks + 1, "--every", EVERY, "--kill", f"0@{LOST_AT}"]
        job(["run", *flags, *memory, "--dir", f"{directory}/ck", "--", *heat], "with a loss")
        events = [json.loads(line) for line in Path(directory, "ck", "events.jsonl").read_text().splitlines()]
    recorded, alone = (next(e for e in events if e["event"] == "init" and e["alone"] == own) for own in (0, 1))
    repair = next(e for e in events if e["event"] == "repair")
    resumed = [e for e in events if e["event"] == "resume"][-1]
    return {
        **plain, "recorded": recorded["seconds"], "alone": alone["seconds"], "log": alone["bytes"],
        "recorded_cpu": recorded["cpu_seconds"], "alone_cpu": alone["cpu_seconds"],
        "together": repair["seconds"], "back": resumed["seconds"],
    }  # fmt: skip


def run(options: argparse.Namespace) -> list[dict]:
    """Rows for `./dev bench`: medians of all that was measured, one for each number of ranks."""
    rows = []
    for ranks in options.ranks:
        all_of_them = [once(options.program, ranks, options.cells) for _ in range(options.repeats)]
        row = {name: statistics.median(one[name] for one in all_of_them) for name in all_of_them[0]}
        row |= {"what": "init", "store": "shm", "ranks": ranks, "n": options.cells, "repeats": options.repeats}
        row["alone_per_plain"] = row["alone"] / row["setup"]
        row["alone_per_recorded_cpu"] = row["alone_cpu"] / row["recorded_cpu"]
        row["log_per_static"] = row["log"] / (row["static"] / ranks)
        rows.append(row)
    return rows


def told(row: dict) -> str:
    static, dynamic = row["static"] / row["ranks"], row["dynamic"] / row["ranks"]
    return (
        f"heat {row['n']}^3 on {row['ranks']} ranks: set up in {row['setup']:.2f} s, recorded in "
        f"{row['recorded']:.2f} s, alone from the log in {row['alone']:.2f} s: {row['alone_per_plain']:.2f} times as "
        f"long, and {row['alone_per_recorded_cpu']:.2f} times the processor time; together again after "
        f"{row['together'] * 1e3:.0f} ms, the state back in {row['back'] * 1e3:.0f} ms\n"
        f"  a rank has {static / MB:.2f} MB that are static, {dynamic / MB:.3f} MB that are not, and a log of "
        f"{row['log'] / MB:.3f} MB: {100 * row['log_per_static']:.2f} % of the static data"
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "release"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=64, metavar="N", help="of each side of the cube")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--program", type=Path, default=build / "apps" / "heat" / "heat")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    for each in run(parse()):
        print(told(each))
