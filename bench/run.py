"""Measures what a checkpoint costs, as ratios to limits taken in the same run, and says which bars are met.

./dev bench            the whole matrix, a table, a plot and the raw output in bench/results/
./dev bench --bars     64 MiB a rank on 4 and 8 ranks, and tgv; one line a bar: name value bar ok|short
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEVELS = ["memory", "local", "partner", "shared-file-per-rank", "shared-file-per-node", "shared-one-file"]
# (bar, figure, levels, most). A bar speaks of the median over repeats, in the store that is named.
BARS = [
    ("blocked", "blocked_per_copy", LEVELS, 1.3),
    ("durable", "durable_per_w", ["local"], 0.8),
    ("durable", "durable_per_w", ["partner"], 1.8),
    ("durable", "durable_per_ws", [x for x in LEVELS if x.startswith("shared")], 1.25),
    ("resume", "resume_per_read", LEVELS[1:], 1.25),
]


def mpirun(ranks: int, *command: str, env: dict[str, str] | None = None, bound: float = 900) -> str:
    """The standard output of a job, or an exception with what it said; never longer than `bound` seconds."""
    flags = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    done = subprocess.run(
        ["mpirun", *flags, "--oversubscribe", "-n", str(ranks), *command],
        capture_output=True,
        text=True,
        timeout=bound,
        env={**os.environ, **(env or {})},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def measure(build: Path, store: Path, ranks: int, mib: int, arrays: int, repeats: int) -> list[dict]:
    """One run of `cost`: a row for each level."""
    directory = Path(tempfile.mkdtemp(prefix="backstay-bench-", dir=store))
    try:
        lines = mpirun(ranks, str(build / "bench/cost"), str(directory), str(mib), str(arrays), str(repeats))
        rows = [json.loads(line) for line in lines.splitlines()]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for row in rows:
        row["store"] = str(store)
    return rows


def measure_tgv(build: Path, store: Path, ranks: int, n: int, steps: int, repeats: int) -> dict:
    """How much longer tgv takes with a checkpoint every 20 steps than without; plain and protected take turns."""
    directory = Path(tempfile.mkdtemp(prefix="backstay-bench-", dir=store))
    env = {"BACKSTAY_DIR": str(directory / "checkpoints"), "BACKSTAY_EVERY": "20", "BACKSTAY_LOG": "quiet"}
    program = [
        str(build / "apps/tgv/tgv"),
        "--n",
        str(n),
        "--steps",
        str(steps),
        "--quiet",
        "--csv",
        str(directory / "x.csv"),
    ]
    pairs = []
    try:
        for _ in range(repeats):
            start = time.monotonic()
            mpirun(ranks, *program, "--plain", bound=3000)
            middle = time.monotonic()
            mpirun(ranks, *program, env=env, bound=3000)
            pairs.append((middle - start, time.monotonic() - middle))
            shutil.rmtree(directory / "checkpoints")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    ratio = statistics.median(b / a for a, b in pairs)
    return {"what": "tgv", "store": str(store), "ranks": ranks, "n": n, "steps": steps, "pairs": pairs, "longer": ratio}


def bars_of(rows: list[dict]) -> list[tuple[str, float, float]]:
    """(name, value, most) for each bar that the rows can speak of."""
    out = []
    for row in rows:
        if row["what"] == "tgv":
            out.append((f"tgv-{row['n']}^3-{row['ranks']}-ranks", row["longer"], 1.02))
            continue
        for name, figure, levels, most in BARS:
            if row["what"] in levels:
                where = "shm" if row["store"].startswith("/dev/shm") else "disk"
                label = f"{name}-{row['what']}-{where}-{row['mib']}MiBx{row['arrays']}-{row['ranks']}-ranks"
                out.append((label, row[figure], most))
    return out


def table_of(rows: list[dict]) -> str:
    ratios = "blocked / copy | durable / W | durable / (W + fsync) | resume / read"
    head = f"| store | ranks | MiB a rank | arrays | level | {ratios} | CPU s |"
    lines = [head, "|---" * 10 + "|"]
    for r in rows:
        if r["what"] == "tgv":
            continue
        lines.append(
            f"| {r['store']} | {r['ranks']} | {r['mib']} | {r['arrays']} | {r['what']} | {r['blocked_per_copy']:.2f} "
            f"| {r['durable_per_w']:.2f} | {r['durable_per_ws']:.2f} | {r['resume_per_read']:.2f} | {r['cpu']:.2f} |"
        )
    lines += [
        f"\ntgv {r['n']}^3, {r['ranks']} ranks, {r['steps']} steps, a checkpoint every 20: {r['longer']:.3f} x"
        for r in rows
        if r["what"] == "tgv"
    ]
    return "\n".join(lines) + "\n"


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [r for r in rows if r["what"] != "tgv"]
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=False)
    for axis, (key, title) in zip(
        axes,
        [
            ("blocked_per_copy", "blocked / copy"),
            ("durable_per_w", "durable / W"),
            ("resume_per_read", "resume / read"),
        ],
    ):
        for offset, level in enumerate(LEVELS):
            values = [r[key] for r in rows if r["what"] == level]
            axis.scatter([offset] * len(values), values, alpha=0.7)
        axis.axhline(1, color="grey", linewidth=0.8)
        axis.set_xticks(range(len(LEVELS)), LEVELS, rotation=30, ha="right", fontsize=8)
        axis.set_ylim(bottom=0)
        axis.set_title(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bars", action="store_true", help="one line a bar; exit 0 only if all are ok")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--disk", type=Path, default=ROOT / "build", help="a directory on a disk")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results")
    parser.add_argument("--tgv", type=int, default=128, metavar="N", help="size of the tgv run; 0 leaves it out")
    options = parser.parse_args()
    sizes = [(64, 1)] if options.bars else [(16, 1), (16, 64), (64, 1), (64, 64), (256, 1), (256, 64)]
    rows: list[dict] = []
    for store in (Path("/dev/shm"), options.disk):
        for ranks in (4, 8):
            for mib, arrays in sizes:
                print(f"measuring {mib} MiB in {arrays} on {ranks} ranks, {store}", file=sys.stderr)
                rows += measure(options.build, store, ranks, mib, arrays, options.repeats)
    if options.tgv:
        for ranks in (2, 1):  # 1: with a core to spare for the background
            print(f"measuring tgv on {ranks} ranks", file=sys.stderr)
            rows.append(measure_tgv(options.build, Path("/dev/shm"), ranks, options.tgv, 40, 3))
    stamp = time.strftime("%Y-%m-%d")
    options.results.mkdir(parents=True, exist_ok=True)
    name = f"cost-bars-{stamp}" if options.bars else f"cost-{stamp}"
    about = {
        "machine": f"{os.cpu_count()} cores, shared and noisy; ranks oversubscribed",
        "command": " ".join(sys.argv),
        "rows": rows,
    }
    (options.results / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")
    (options.results / f"{name}.md").write_text(table_of(rows))
    draw(rows, options.results / f"{name}.png")
    if not options.bars:
        print(table_of(rows))
        return 0
    good = True
    for label, value, most in bars_of(rows):
        good = good and value <= most
        print(f"{label} {value:.3f} {most} {'ok' if value <= most else 'short'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
