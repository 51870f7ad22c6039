"""How long a job stands still when a rank is lost: with spares, and launched again.

    python bench/repair.py --runs 20            # 8 ranks and 2 spares, 64 MiB a rank, memory with parity

The time is the longest one between the ends of two steps on rank 0, whoever that is: noticing, coming together,
rebuilding and rolling back, and the step itself. Any rank is lost. Launched again: the same program, data at `shared`
on /dev/shm, by `backstay run`, whose pause of 1 s before a launch is in it and is also named without.
Of a loss that takes longer than the bar for the worst one, all that was said is printed, and how long a sleep of 20 ms
has taken meanwhile: if that is as long, the whole machine stood still, or its clock was set.
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
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-c", "from backstay.cli import main; exit(main())"]
PAUSE = 1.0  # of `backstay run` before it launches again
LONG = 2.0  # seconds: the bar for the worst


def gap_and_step(times: Path) -> tuple[float, float]:
    """Seconds: the longest time between the ends of two steps, and what a step takes."""
    moments = [float(word) for word in times.read_text().split()]
    between = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
    return max(between), statistics.median(between)


def parts(text: str) -> tuple[float, float, float]:
    """Seconds of coming together, of rebuilding what was lost, and of rolling back, as the session says them."""
    seconds = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
    together = re.search(r"together again after ([\d.]+) (\w+)", text)
    rebuilt = re.search(r"level memory: rebuilt, in ([\d.]+) (\w+)", text)
    back = re.findall(r"resumed from line .* in ([\d.]+) (\w+)", text)
    found = [float(number) * seconds[unit] for number, unit in (together.groups(), rebuilt.groups(), back[-1])]
    return found[0], found[1], found[2] - found[1]


class Sleeper:
    """While it is entered, a thread that sleeps 20 ms again and again. `longest`: seconds that one such sleep took."""

    def __enter__(self) -> Sleeper:
        self.longest, self._over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._sleep)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sleep(self) -> None:
        earlier = time.time()  # as the program's clock
        while not self._over.wait(0.02):
            now = time.time()
            self.longest, earlier = max(self.longest, now - earlier), now


def measure(program: Path, options: argparse.Namespace, spares: int, lost: str, extra: list[str]) -> tuple:
    """Seconds of standing still and of a step, and what was said."""
    with tempfile.TemporaryDirectory(prefix="backstay-repair.", dir="/dev/shm") as directory:
        times = Path(directory) / "times"
        flags = ["-n", options.ranks, "--spares", spares, "--nodes", options.ranks + spares, "--kill", lost]
        words = [*COMMAND, "run", *flags, *extra, "--every", 20, "--dir", f"{directory}/ck", "--", program]
        command = [str(word) for word in [*words, options.mib, options.steps, times]]
        with Sleeper() as sleeper:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if ended.returncode != 0:
            raise SystemExit(f"repair.py: {shlex.join(command)} ended with {ended.returncode}\n{ended.stderr}")
        gap, step = gap_and_step(times)
        if spares > 0 and gap > LONG:
            print(
                f"{lost}: {gap:.3f} s; a sleep of 20 ms took {sleeper.longest:.3f} s\n{ended.stderr}",
                file=sys.stderr,
                flush=True,
            )
        return gap, step, ended.stderr


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "release"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--spares", type=int, default=2)
    parser.add_argument("--mib", type=int, default=64, help="a rank")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", type=Path, default=build / "bench" / "repaired")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> dict:
    """A row for `./dev bench`."""
    chance = random.Random(options.seed)
    gaps, steps, together, rebuilt, back, again = [], [], [], [], [], []
    for number in range(options.runs):
        lost = f"{chance.randrange(options.ranks)}@{chance.randrange(60, options.steps - 30)}"
        memory = ["--levels", "memory", "--opt", "memory.redundancy=rs(3,1)", "--opt", "policy=wait"]
        gap, step, text = measure(options.program, options, options.spares, lost, memory)
        gaps.append(gap)
        steps.append(step)
        for name, seconds in zip((together, rebuilt, back), parts(text), strict=True):
            name.append(seconds)
        if number < max(1, options.runs // 5):  # a launch is long, and differs less
            again.append(measure(options.program, options, 0, lost, ["--levels", "shared", "--opt", "policy=wait"])[0])
        if (number + 1) % 20 == 0:
            print(f"{number + 1} of {options.runs} losses", file=sys.stderr, flush=True)
    found = [gap - sum(others) for gap, *others in zip(gaps, steps, together, rebuilt, back, strict=True)]
    launch = statistics.median(again)
    row = {
        "what": "repair", "store": "shm", "ranks": options.ranks, "spares": options.spares, "mib": options.mib,
        "runs": len(gaps), "gaps": gaps, "launches": again, "median": statistics.median(gaps), "worst": max(gaps),
        "together": statistics.median(together), "rebuilt": statistics.median(rebuilt), "back": statistics.median(back),
        "noticing": statistics.median(found), "step": statistics.median(steps),
        "launched_again": launch, "times_faster": launch / statistics.median(gaps),
        "times_faster_without_pause": (launch - PAUSE) / statistics.median(gaps),
    }  # fmt: skip
    return row


def told(row: dict) -> str:
    return (
        f"{row['ranks']} ranks, {row['spares']} spares, {row['mib']} MiB a rank in memory with rs(3,1), {row['runs']} "
        f"losses:\n"
        f"  from the last step before a loss to the next: median {row['median']:.3f} s, worst {row['worst']:.3f} s\n"
        f"  of it: noticing {row['noticing']:.3f} s, coming together {row['together']:.3f} s, rebuilding "
        f"{row['rebuilt']:.3f} s, rolling back {row['back']:.3f} s, a step {row['step']:.3f} s (medians)\n"
        f"  launched again ({len(row['launches'])} times): median {row['launched_again']:.2f} s, "
        f"{row['times_faster']:.1f} times as long; without the pause of `backstay run` "
        f"{row['times_faster_without_pause']:.1f} times"
    )


if __name__ == "__main__":
    print(told(run(parse())))
