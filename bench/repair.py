"""How long a job stands still when a rank is lost: with spares, and launched again.

    python bench/repair.py --runs 20            # 8 ranks and 2 spares, 64 MiB a rank, memory with parity

The time is the longest one between the ends of two steps on rank 0, which is not lost: finding out, coming together,
rebuilding and rolling back, and the step itself. Launched again: the same program, data at `shared` on /dev/shm, by
`backstay run`, whose pause of 1 s before a launch is in it and is also named without.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-c", "from backstay.cli import main; exit(main())"]
PAUSE = 1.0  # of `backstay run` before it launches again


def longest_gap(times: Path) -> float:
    moments = [float(word) for word in times.read_text().split()]
    return max(later - earlier for earlier, later in zip(moments, moments[1:], strict=False))


def parts(text: str) -> tuple[float, float]:
    """Seconds of coming together and of resuming, as the session says them."""
    seconds = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
    together = re.search(r"together again after ([\d.]+) (\w+)", text)
    back = re.findall(r"resumed from line .* in ([\d.]+) (\w+)", text)
    return tuple(float(found[0]) * seconds[found[1]] for found in (together.groups(), back[-1]))


def measure(program: Path, options: argparse.Namespace, spares: int, lost: str, extra: list[str]) -> tuple[float, str]:
    with tempfile.TemporaryDirectory(prefix="backstay-repair.", dir="/dev/shm") as directory:
        times = Path(directory) / "times"
        flags = ["-n", options.ranks, "--spares", spares, "--nodes", options.ranks + spares, "--kill", lost]
        words = [*COMMAND, "run", *flags, *extra, "--every", 20, "--dir", f"{directory}/ck", "--", program]
        command = [str(word) for word in [*words, options.mib, options.steps, times]]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if ended.returncode != 0:
            raise SystemExit(f"repair.py: {shlex.join(command)} ended with {ended.returncode}\n{ended.stderr}")
        return longest_gap(times), ended.stderr


def main() -> None:
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "release"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--spares", type=int, default=2)
    parser.add_argument("--mib", type=int, default=64, help="a rank")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", type=Path, default=build / "bench" / "repaired")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    gaps, together, back, again = [], [], [], []
    for run in range(options.runs):
        lost = f"{chance.randrange(1, options.ranks)}@{chance.randrange(60, options.steps - 30)}"
        memory = ["--levels", "memory", "--opt", "memory.redundancy=rs(3,1)"]
        gap, text = measure(options.program, options, options.spares, lost, memory)
        gaps.append(gap)
        for name, seconds in zip((together, back), parts(text), strict=True):
            name.append(seconds)
        if run < max(1, options.runs // 5):  # a launch is long, and differs less
            again.append(measure(options.program, options, 0, lost, ["--levels", "shared"])[0])
    found = [gap - a - b for gap, a, b in zip(gaps, together, back, strict=True)]
    middle, worst = statistics.median(gaps), max(gaps)
    launch = statistics.median(again)
    shape = f"{options.ranks} ranks, {options.spares} spares, {options.mib} MiB a rank in memory with rs(3,1)"
    print(f"{shape}, {len(gaps)} losses:")
    print(f"  from the last step before a loss to the next: median {middle:.3f} s, worst {worst:.3f} s")
    print(
        f"  of it: coming together {statistics.median(together):.3f} s, data back {statistics.median(back):.3f} s, "
        f"finding out and the step {statistics.median(found):.3f} s (medians)"
    )
    print(
        f"  launched again ({len(again)} times): median {launch:.2f} s, {launch / middle:.1f} times as long; without "
        f"the pause of `backstay run` {(launch - PAUSE) / middle:.1f} times"
    )


if __name__ == "__main__":
    main()
