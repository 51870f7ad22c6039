"""Measures what a checkpoint costs, as ratios to limits taken in the same run, and says which bars are met.

./dev bench            every size, 4 and 8 ranks, /dev/shm and disk, the peers, and tgv (an hour and more)
./dev bench --bars     the same, and one line a bar: name value bar ok|short; exit status 0 only if all are ok
./dev bench --only P   a part: cost, tgv, repair (parity, rebuilding, 200 online repairs), init (message logs), or
                       select (what declarations save and cost), or failures (what each kind costs)
./dev bench --quick    64 MiB a rank on 4 ranks only, without tgv (about two minutes)

The raw output, a table and a plot made from it go to bench/results/.
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
from dataclasses import dataclass
from pathlib import Path

import checked
import failures
import information
import init
import repair
import saved

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "build/peers"
SHARED = ["shared-file-per-rank", "shared-file-per-node", "shared-one-file"]
IN_MEMORY = ["memory", "memory-p1", "memory-p2"]
LEVELS = [*IN_MEMORY, "local", "local-p1", "local-p2", "partner", *SHARED]
SIZES = [(16, 1), (16, 64), (64, 1), (64, 64), (256, 1), (256, 64)]  # MiB a rank, arrays
SHM = Path("/dev/shm")
# Seconds until SCR has one and two lost ranks of a group of 4 back, 64 MiB each: figures to be met, not measured here.
SCR_REBUILDS = {1: 0.6, 2: 2.3}


@dataclass
class Bar:
    """What must hold of a figure of some rows. `most` is the bar; the row that is worst decides."""

    name: str
    figure: str
    levels: list[str]
    bar: float
    at_least: bool = False  # the figure has to reach the bar, not to stay under it
    stores: tuple[str, ...] = ("shm", "disk")
    part: str = "cost"  # of the measurements: --only

    def ok(self, value: float) -> bool:
        return value >= self.bar if self.at_least else value <= self.bar


# Durable on a disk includes fsync, so there the limit does, too: W alone ends in the page cache.
BARS = [
    Bar("blocked", "blocked_per_copy", LEVELS, 1.3),
    Bar("durable-local", "durable_per_limit", ["local"], 0.8),
    Bar("durable-local-one-parity", "durable_per_limit", ["local-p1"], 1.6),
    Bar("durable-local-two-parities", "durable_per_limit", ["local-p2"], 2.5),
    Bar("durable-partner", "durable_per_limit", ["partner"], 1.8),
    *(Bar(f"durable-{level}", "durable_per_ws", [level], 1.25) for level in SHARED),
    Bar("phdf5-collective-per-one-file", "phdf5_per_durable", ["shared-one-file"], 2.0, at_least=True),
    Bar("resume", "resume_per_read", LEVELS[len(IN_MEMORY) :], 1.25),
    Bar("tgv-longer", "longer", ["tgv"], 1.02, stores=("shm",), part="tgv"),
    Bar("arithmetic-per-isal", "speed", ["arithmetic"], 0.9, at_least=True, stores=("shm",), part="repair"),
    Bar("rebuild", "rebuild_per_limit", ["rebuild"], 2.0, stores=("shm",), part="repair"),
    Bar("rebuild-per-scr", "resume_per_scr", ["rebuild"], 1.0, stores=("shm",), part="repair"),
    Bar("repair-median-seconds", "median", ["repair"], 0.5, stores=("shm",), part="repair"),
    Bar("repair-worst-seconds", "worst", ["repair"], repair.LONG, stores=("shm",), part="repair"),
    Bar(
        "repair-times-faster-than-relaunch",
        "times_faster_without_pause",
        ["repair"],
        5,
        True,
        stores=("shm",),
        part="repair",
    ),
    Bar("init-alone-per-set-up", "alone_per_plain", ["init"], 1.2, stores=("shm",), part="init"),
    Bar("init-alone-processor-time", "alone_per_recorded_cpu", ["init"], 1.2, stores=("shm",), part="init"),
    Bar("init-log-per-static-data", "log_per_static", ["init"], 0.1, stores=("shm",), part="init"),
    Bar("saved-per-least", "bytes_per_least", ["tea2d", "clover3d"], 1.05, stores=("shm",), part="select"),
    Bar("clover3d-saved-per-state", "bytes_per_state", ["clover3d"], 0.185, stores=("shm",), part="select"),
    Bar("tea2d-saved-per-state", "bytes_per_state", ["tea2d"], 0.052, stores=("shm",), part="select"),
    Bar("saved-none-per-least", "none_per_least", ["information"], 1.05, stores=("shm",), part="select"),
    Bar("saved-told-per-least", "told_per_least", ["information"], 1.01, stores=("shm",), part="select"),
    Bar("information-tgv-per-state", "tgv_per_state", ["information"], 0.08, stores=("shm",), part="select"),
    Bar("information-clover3d-per-state", "clover3d_per_state", ["information"], 0.185, stores=("shm",), part="select"),
    Bar("information-tea2d-per-state", "tea2d_per_state", ["information"], 0.052, stores=("shm",), part="select"),
    Bar("blocked-per-step", "blocked_per_step", ["blocked"], 0.05, stores=("shm",), part="select"),
    Bar("restored-per-read", "restored_per_read", ["restored"], 1.25, stores=("shm",), part="select"),
    Bar("check-times-slower", "checked_per_plain", ["checked"], 20, stores=("shm",), part="select"),
    Bar("check-false-alarms", "found", ["checked"], 0, stores=("shm",), part="select"),
    Bar("declarations-percent", "percent", ["declarations"], 0.2, stores=("shm",), part="select"),
    Bar("declared-loop-ns", "loop_ns", ["computation"], 100, stores=("shm",), part="select"),
    Bar("declared-access-ns", "access_ns", ["computation"], 10, stores=("shm",), part="select"),
    Bar("replay-ms-per-1000-steps", "ms_per_1000", ["replay"], 1, stores=("shm",), part="select"),
    Bar("weight-without-failures", "longer", ["weight"], 1.005, stores=("shm",), part="repair"),
]


def mpirun(
    ranks: int, *command: str, env: dict[str, str] | None = None, bound: float = 1800, flags: tuple[str, ...] = ()
) -> str:
    """The standard output of a job, or an exception with what it said; never longer than `bound` seconds."""
    done = subprocess.run(
        launch_of(ranks, command, flags),
        capture_output=True,
        text=True,
        timeout=bound,
        env={**os.environ, **(env or {})},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def launch_of(ranks: int, command: tuple[str, ...], flags: tuple[str, ...]) -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, *flags, "--oversubscribe", "-n", str(ranks), *command]


def time_rows(ranks: int, *command: str, env: dict[str, str], bound: float, flags: tuple[str, ...] = ()) -> dict:
    """Seconds of a whole job, and from the first row of its table (a line that begins with a number) to the last."""
    words = ["timeout", "-k", "5", str(bound), *launch_of(ranks, command, flags)]
    start, rows = time.monotonic(), []
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **env}
    ) as job:
        rows = [time.monotonic() for line in job.stdout if line.split()[:1] and line.split()[0].isdigit()]
    if job.returncode != 0 or len(rows) < 2:
        raise RuntimeError(f"{' '.join(command)} ended with {job.returncode} and {len(rows)} rows")
    return {"job": time.monotonic() - start, "steps": rows[-1] - rows[0]}


def where(store: Path) -> str:
    return "shm" if store == SHM else "disk"


def measure(build: Path, store: Path, ranks: int, mib: int, arrays: int, repeats: int) -> list[dict]:
    """Rows for each level and each peer, one after the other in the same directory."""
    arguments = [str(mib), str(arrays), str(repeats)]
    directory = Path(tempfile.mkdtemp(prefix="backstay-bench-", dir=store))
    try:
        lines = mpirun(ranks, str(build / "bench/cost"), str(directory), *arguments)
        if (PEERS / "phdf5").exists():
            lines += mpirun(ranks, str(PEERS / "phdf5"), str(directory), *arguments)
            python = {"PYTHONPATH": f"{PEERS / 'python'}:{os.environ.get('PYTHONPATH', '')}"}
            peers = str(ROOT / "bench/peers/peers.py")
            lines += mpirun(ranks, sys.executable, peers, str(directory), *arguments, env=python)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    rows = [json.loads(line) | {"store": where(store)} for line in lines.splitlines()]
    for row in rows:
        row.pop("dir", None)  # of this machine, and gone
    phdf5 = next((row for row in rows if row["what"] == "phdf5-collective"), None)
    for row in rows:
        if row["what"] in LEVELS:
            row["durable_per_limit"] = row["durable_per_w" if store == SHM else "durable_per_ws"]
        if row["what"] == "shared-one-file" and phdf5:
            # Each against W + fsync of its own turns; parallel HDF5 has the better of a new file and its old one.
            best = min(phdf5["new_per_ws"], phdf5["again_per_ws"])
            row["phdf5_per_durable"] = best / row["durable_per_ws"]
    return rows


def measure_tgv(build: Path, ranks: int, n: int, steps: int, repeats: int) -> dict:
    """How much longer tgv takes with a checkpoint every 20 steps than without; the two take turns."""
    directory = Path(tempfile.mkdtemp(prefix="backstay-bench-", dir=SHM))
    env = {"BACKSTAY_DIR": str(directory / "checkpoints"), "BACKSTAY_EVERY": "20", "BACKSTAY_LOG": "quiet"}
    numbers = ["--n", str(n), "--steps", str(steps), "--csv", str(directory / "x.csv")]
    program = [str(build / "apps/tgv/tgv"), *numbers, "--quiet"]
    pairs = []
    try:
        for _ in range(repeats):
            start = time.monotonic()
            mpirun(ranks, *program, "--plain")
            middle = time.monotonic()
            mpirun(ranks, *program, env=env)
            pairs.append((middle - start, time.monotonic() - middle))
            shutil.rmtree(directory / "checkpoints")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    longer = statistics.median(b / a for a, b in pairs)
    return {"what": "tgv", "store": "shm", "ranks": ranks, "n": n, "steps": steps, "pairs": pairs, "longer": longer}


def measure_parity(build: Path, repeats: int) -> list[dict]:
    """The arithmetic against ISA-L's own, and the rebuilding of one and two lost ranks of eight."""
    done = subprocess.run([str(build / "bench/arithmetic")], capture_output=True, text=True, timeout=600, check=True)
    lines = done.stdout
    for lost in (1, 2):
        directory = Path(tempfile.mkdtemp(prefix="backstay-bench-", dir=SHM))
        try:
            lines += mpirun(8, str(build / "bench/rebuild"), str(directory), "64", str(lost), str(repeats))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    rows = [json.loads(line) | {"store": "shm"} for line in lines.splitlines()]
    for row in rows:
        if row["what"] == "rebuild":
            row["resume_per_scr"] = row["resume"] / SCR_REBUILDS[row["lost"]]
    return rows


# Ranks, points each way, steps, pairs of runs: a rank for each core, then 64 MiB a rank, oversubscribed.
WEIGHED = ((os.cpu_count() or 1, 64, 40, 25), (4, 188, 20, 15), (8, 237, 10, 11))


def measure_weight(build: Path, ranks: int, n: int, steps: int, pairs: int) -> dict:
    """tgv in a session with spares, in loop(), with no checkpoint due, against tgv without any of it. `longer`: its
    steps; `job_longer`: with the start of one process more, and its end, which a run of days has once, too."""
    directory = Path(tempfile.mkdtemp(prefix="backstay-bench-", dir=SHM))
    usual = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    spared = {"BACKSTAY_DIR": str(directory / "checkpoints"), "BACKSTAY_EVERY": "1000000", "BACKSTAY_LOG": "quiet"}
    spared |= {"BACKSTAY_SPARES": "1", "BACKSTAY_LEVELS": "memory"}
    numbers = ["--n", str(n), "--steps", str(steps), "--output-every", str(steps), "--csv", str(directory / "x.csv")]
    program = [str(build / "apps/tgv/tgv"), *numbers]
    turns = []
    try:
        for turn in range(pairs):
            both = {}
            for protected in (False, True) if turn % 2 == 0 else (True, False):
                if protected:
                    ulfm = ("--with-ft", "ulfm")
                    both[True] = time_rows(ranks + 1, *program, env=usual | spared, bound=600, flags=ulfm)
                else:
                    both[False] = time_rows(ranks, *program, "--plain", env=usual, bound=600)
            turns.append(both)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    row = {"what": "weight", "store": "shm", "ranks": ranks, "n": n, "steps": steps}
    row["pairs"] = [(both[False]["steps"], both[True]["steps"]) for both in turns]
    row["longer"] = statistics.median(b / a for a, b in row["pairs"])
    return row | {"job_longer": statistics.median(both[True]["job"] / both[False]["job"] for both in turns)}


def size_of(row: dict) -> str:
    if row["what"] == "arithmetic":
        return f"k={row['k']}, p={row['p']}, {row['block_kib']} KiB"
    if "mib" not in row and "n" not in row:
        return f"{row['what']}, {row['ranks']} ranks"
    size = f"{row['n']}^3" if "n" in row else f"{row['what']}, {row['mib']} MiB"
    size += f" in {row['arrays']}" if "arrays" in row else f", {row['lost']} lost" if "lost" in row else ""
    return f"{size}, {row['ranks']} ranks"


def bar_lines(rows: list[dict], part: str = "") -> tuple[list[str], bool]:
    """One line for each bar and store, decided by the worst row, with the median of all beside it; and whether all
    bars are met. A bar that nothing was measured for is not met."""
    lines, good = [], True
    for bar in BARS:
        for store in bar.stores if part in ("", bar.part) else ():
            found = [r for r in rows if r["what"] in bar.levels and r["store"] == store and bar.figure in r]
            name = f"{bar.name}-{store}"
            if not found:
                lines.append(f"{name} - {bar.bar} short (not measured)")
                good = False
                continue
            worst = (min if bar.at_least else max)(found, key=lambda r: r[bar.figure])
            value, ok = worst[bar.figure], bar.ok(worst[bar.figure])
            met = sum(bar.ok(r[bar.figure]) for r in found)
            median = statistics.median(r[bar.figure] for r in found)
            verdict = "ok" if ok else "short"
            lines.append(
                f"{name} {value:.3f} {bar.bar} {verdict}"
                f" ({met} of {len(found)} met, median {median:.3f}; worst: {size_of(worst)})"
            )
            good = good and ok
    return lines, good


def table_of(rows: list[dict]) -> str:
    ratios = "blocked / copy | durable / W | durable / (W + fsync) | resume / read"
    lines = [f"| store | ranks | MiB a rank | arrays | level | {ratios} | durable s | CPU s |", "|---" * 11 + "|"]
    for r in rows:
        if r["what"] in LEVELS:
            lines.append(
                f"| {r['store']} | {r['ranks']} | {r['mib']} | {r['arrays']} | {r['what']} | "
                f"{r['blocked_per_copy']:.2f} | {r['durable_per_w']:.2f} | {r['durable_per_ws']:.2f} | "
                f"{r['resume_per_read']:.2f} | {r['durable']:.3f} | {r['cpu']:.2f} |"
            )
    lines += ["", "| store | ranks | MiB a rank | arrays | peer | new file / (W + fsync) | again / (W + fsync) |"]
    lines.append("|---" * 7 + "|")
    for r in rows:
        if "new_per_ws" in r:
            again = f"{r['again_per_ws']:.2f}" if "again_per_ws" in r else ""
            lines.append(
                f"| {r['store']} | {r['ranks']} | {r['mib']} | {r['arrays']} | {r['what']} "
                f"| {r['new_per_ws']:.2f} | {again} |"
            )
    for r in rows:
        if r["what"] in ("tgv", "weight"):
            ratios = [b / a for a, b in r["pairs"]]
            how = "a checkpoint every 20" if r["what"] == "tgv" else "loop(), a spare and no checkpoint"
            lines.append(
                f"\ntgv {r['n']}^3, {r['ranks']} ranks, {r['steps']} steps, {how}: {r['longer']:.3f} x as long as "
                f"without (median of {len(ratios)} pairs, {min(ratios):.3f} to {max(ratios):.3f})"
                + (f"; the whole job {r['job_longer']:.3f} x" if "job_longer" in r else "")
            )
        if r["what"] in ("computation", "replay", "declarations", "restored", "blocked", *saved.PROGRAMS):
            lines += ["", saved.told(r)]
        if r["what"] == "information":
            lines += ["", information.told(r)]
        if r["what"] == "checked":
            lines += ["", checked.told(r)]
        if r["what"] in ("repair", "init"):
            lines += ["", (repair if r["what"] == "repair" else init).told(r)]
        if r["what"] == "rebuild":
            lines.append(
                f"\n{r['lost']} lost of {r['ranks']} ranks, {r['mib']} MiB each: data back after {r['resume']:.3f} s, "
                f"{r['resume_per_limit']:.2f} x reading and decoding; rebuilding alone {r['rebuild_per_limit']:.2f} x"
            )
        if r["what"] == "failure":
            lines += ["", failures.HEAD] if r["lost"] == failures.KINDS[0].what and failures.HEAD not in lines else []
            lines.append(failures.told(r))
        if r["what"] == "arithmetic":
            lines.append(f"\narithmetic {size_of(r)}: {r['speed']:.3f} x ISA-L, {r['gb_per_s']:.1f} GB/s")
    return "\n".join(lines) + "\n"


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = [
        ("blocked_per_copy", "blocked / copy", LEVELS),
        ("durable_per_ws", "durable / (W + fsync)", [*LEVELS, "phdf5-collective", "h5py", "adios2"]),
        ("resume_per_read", "resume / read", LEVELS),
    ]
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), width_ratios=[6, 9, 6])
    for axis, (key, title, names) in zip(axes, panels, strict=True):
        for store, colour, side in (("shm", "tab:blue", -0.12), ("disk", "tab:orange", 0.12)):
            points = [
                (names.index(r["what"]) + side, r.get(key, r.get("new_per_ws")))
                for r in rows
                if r["store"] == store and r["what"] in names
            ]
            if points:
                axis.scatter(*zip(*points, strict=True), s=14, alpha=0.7, color=colour, label=store)
        axis.axhline(1, color="grey", linewidth=0.8)
        axis.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=8)
        axis.set_ylim(bottom=0)
        axis.set_title(title)
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def too_large(store: Path, ranks: int, mib: int, most_on_disk: int) -> str:
    """Why this size is left out; empty: it is not. Program, limit, staging and the slots of both copies of a line, with
    the line that is kept and the one that is recycled, are about ten times the data."""
    if store != SHM and mib > most_on_disk:
        return f"--most-on-disk is {most_on_disk}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return f"it needs {10 * ranks * mib} MiB of memory, and there are {memory}" if 10 * ranks * mib > memory else ""


def commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def measure_all(options: argparse.Namespace) -> list[dict]:
    rows: list[dict] = []
    sizes = [(64, 1), (64, 64)] if options.quick else SIZES
    for store in (SHM, options.disk) if options.only in ("", "cost") else ():
        for ranks in options.ranks or ((4,) if options.quick else (4, 8)):
            for mib, arrays in sizes:
                if why := too_large(store, ranks, mib, options.most_on_disk):
                    print(f"left out: {mib} MiB in {arrays} on {ranks} ranks, {store}: {why}", file=sys.stderr)
                    continue
                print(f"measuring {mib} MiB in {arrays} on {ranks} ranks, {store}", file=sys.stderr, flush=True)
                rows += measure(options.build, store, ranks, mib, arrays, options.repeats)
    if options.tgv and not options.quick and options.only in ("", "tgv"):
        cores = os.cpu_count() or 1
        for ranks in (cores, max(1, cores - 1)):  # the second with a core to spare for the background
            print(f"measuring tgv on {ranks} ranks", file=sys.stderr, flush=True)
            rows.append(measure_tgv(options.build, ranks, options.tgv, 40, 3))
    if not options.quick and options.only in ("", "repair"):
        print("measuring parity, repair and their weight", file=sys.stderr, flush=True)
        rows += measure_parity(options.build, options.repeats)
        program = str(options.build / "bench/repaired")
        rows.append(repair.run(repair.parse(["--runs", str(options.losses), "--program", program])))
        print(repair.told(rows[-1]), file=sys.stderr, flush=True)
        rows += [measure_weight(options.build, *sizes) for sizes in WEIGHED]
    if not options.quick and options.only in ("", "init"):
        print("measuring set-ups from message logs", file=sys.stderr, flush=True)
        words = ["--program", str(options.build / "apps/heat/heat"), "--repeats", str(options.repeats)]
        rows += init.run(init.parse(words))
    if not options.quick and options.only in ("", "select"):
        print("measuring what declarations save and cost", file=sys.stderr, flush=True)
        rows += saved.run(saved.parse(["--build", str(options.build)]))
        rows += information.run(saved.parse(["--build", str(options.build)]))
        rows += checked.run(saved.parse(["--build", str(options.build)]))
    if not options.quick and options.only in ("", "failures"):
        print("measuring what failures cost", file=sys.stderr, flush=True)
        rows += failures.run(failures.parse(["--program", str(options.build / "apps/tgv/tgv")]))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bars", action="store_true", help="print one line a bar; exit 0 only if all are ok")
    parser.add_argument("--quick", action="store_true", help="64 MiB on 4 ranks only, without tgv")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--disk", type=Path, default=ROOT / "build", help="a directory on a disk")
    parser.add_argument("--most-on-disk", type=int, default=256, metavar="MIB", help="largest size a rank on the disk")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results")
    parser.add_argument("--tgv", type=int, default=128, metavar="N", help="size of the tgv run; 0 leaves it out")
    parser.add_argument(
        "--only", choices=["", "cost", "tgv", "repair", "init", "select", "failures"], default="", help="a part of all"
    )
    parser.add_argument("--ranks", type=int, nargs="+", metavar="N", help="of cost: 4 and 8, with --quick 4")
    parser.add_argument("--losses", type=int, default=200, metavar="N", help="repairs that are measured")
    options = parser.parse_args()
    rows = measure_all(options)
    lines, good = bar_lines(rows, options.only)
    name = "-".join([options.only or "cost", *(["quick"] if options.quick else []), time.strftime("%Y-%m-%d")])
    machine = f"{os.cpu_count()} cores, shared and noisy; ranks are oversubscribed"
    command = " ".join(["./dev bench", *sys.argv[1:]])
    options.results.mkdir(parents=True, exist_ok=True)
    raw = {"machine": machine, "date": time.strftime("%Y-%m-%d %H:%M"), "commit": commit(), "command": command}
    raw["rows"] = rows
    (options.results / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    turns = "taking turns with and without" if options.only == "tgv" else f"medians of {options.repeats} turns"
    what = f"{turns} on {machine}; commit {raw['commit']}"
    head = f"`{command}`: {what}. What the limits are: bench/cost.cpp.\n\n"
    bars = "\n\n```\n" + "\n".join(lines) + "\n```\n"
    (options.results / f"{name}.md").write_text(head + table_of(rows) + bars)
    if options.only in ("", "cost"):
        draw(rows, options.results / f"{name}.png")
    print("\n".join(lines) if options.bars else table_of(rows))
    return 0 if good or not options.bars else 1


if __name__ == "__main__":
    sys.exit(main())
