"""Gives the readers of tests/fuzz what libFuzzer makes up, under AddressSanitizer and UBSan.

    ./dev campaign fuzz --small                  # builds, a few seconds for each target
    ./dev campaign fuzz --large                  # two hours of a core, shared among the targets; all cores are used
    python tests/crash/fuzz.py --seconds 300     # as the campaign, for so long (after a first ./dev campaign)
    python tests/crash/fuzz.py --keep            # makes tests/fuzz/corpus anew, of what was found worth keeping

A target breaks a promise (tests/fuzz/*.cpp), a sanitizer reports, an input takes ten seconds of a core, or 256 MiB at
once, or a GiB in all: a failure. Its input lies in build/fuzz/findings then; mended, it belongs into
tests/fuzz/corpus/TARGET, which the tests fuzz.* of every preset read. That the fuzzer can find anything behind the
checksums is shown first, with a target that has a bug of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from campaign import Outcome

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build" / "fuzz"
KEPT = SOURCES / "corpus"
TARGETS = ("manifest", "table", "json_types", "headers", "data_file", "wire", "catalog", "options")

SMALL, LARGE = 40, 7200  # seconds of a core's time, for all targets together; what others take of it is not counted
SEEDED_BUG_LIMIT = 60  # seconds of a core; it takes a few
SLOW_INPUT = 10  # seconds of a core
LONGEST_INPUT = 4096  # bytes: all of the formats' words fit many times
LARGEST_KEPT = 36000  # bytes of one target's corpus

LIMITS = [
    "-rss_limit_mb=1024",
    "-malloc_limit_mb=256",
    f"-timeout={SLOW_INPUT}",
    f"-max_len={LONGEST_INPUT}",
    "-len_control=0",
]


@dataclass
class Run:
    target: str
    status: int
    log: str
    core_seconds: float = 0

    @property
    def executions(self) -> int:
        return int(self._last(r"number_of_executed_units: (\d+)") or self._last(r"#(\d+)\t") or 0)

    @property
    def covered(self) -> int:
        """Edges of the code that some input took."""
        return int(self._last(r"cov: (\d+)") or 0)

    @property
    def complaint(self) -> str:
        """What was wrong, in the sanitizer's or the target's words."""
        for pattern in (r"broken promise: .*", r"runtime error: .*", r"ERROR: .*"):
            if found := re.search(pattern, self.log):
                return found.group(0)
        return f"it ended with status {self.status}"

    def _last(self, pattern: str) -> str | None:
        found = re.findall(pattern, self.log)
        return found[-1] if found else None


def program(target: str) -> Path:
    return BUILD / "tests" / "fuzz" / f"fuzz_{target}"


def build() -> None:
    for command in (["cmake", "--preset", "fuzz"], ["cmake", "--build", "--preset", "fuzz"]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}{done.stderr}\n{' '.join(command)} failed; its output is above")


def fuzzed(target: str, folders: list[Path], options: list[str], limit: float) -> Run:
    """Runs a target. libFuzzer keeps its own time; one that does not is ended."""
    environment = os.environ | {
        "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:external_symbolizer_path="
        + (shutil.which("addr2line") or ""),
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    command = [str(program(target)), *map(str, folders), *LIMITS, *options]
    before = _core_seconds()
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
    except subprocess.TimeoutExpired as late:
        return Run(target, -1, (late.stdout or b"").decode(errors="replace"))
    return Run(target, done.returncode, done.stdout.decode(errors="replace"), _core_seconds() - before)


def _core_seconds() -> float:
    """What all children of this process that ended took: targets side by side are each in a process of its own."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(target: str, seconds: float, seed: int, found: Path, corpus: Path) -> Run:
    """Fuzzes a target from the kept corpus; what is new goes to `corpus`, a failing input to `found`."""
    for folder in (found, corpus, KEPT / target):
        folder.mkdir(parents=True, exist_ok=True)
    options = [
        f"-seed={seed}",
        f"-max_total_time={max(1, round(seconds))}",
        f"-dict={SOURCES / 'words.dict'}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
    ]
    return fuzzed(target, [corpus, KEPT / target], options, seconds + 120)


def find_seeded_bug(seed: int) -> str | None:
    """Nothing if it was found; else the sentence."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        shutil.copytree(KEPT / "manifest", place / "start")
        left, tries = float(SEEDED_BUG_LIMIT), 0
        while left >= 1:  # what it has found so far is in `start`
            options = [f"-seed={seed + tries}", f"-max_total_time={round(left)}", f"-artifact_prefix={place}/"]
            run = fuzzed("seeded_bug", [place / "start"], options, left + 60)
            if "broken promise: the seeded bug" in run.log:
                return None
            if run.status != 0:
                return f"the target with a bug of its own ended by another one: {run.complaint}"
            left, tries = left - run.core_seconds, tries + 1
    return f"a bug that was put into a target was not found in {SEEDED_BUG_LIMIT} s of a core: the fuzzer is blind"


def try_target(target: str, seconds: float, seed: int) -> tuple[list[Run], list[str], float]:
    """Runs until so many seconds of a core were had, a sentence for each failure, with the input that made it, and
    the seconds by the clock."""
    start = time.monotonic()
    found = BUILD / "findings" / target
    before = set(found.glob("*"))
    runs: list[Run] = []
    while not runs or (left := seconds - sum(run.core_seconds for run in runs)) >= 1:
        run = fuzz(target, left if runs else seconds, seed + len(runs), found, BUILD / "corpus" / target)
        runs.append(run)
        if run.status != 0:
            (BUILD / f"{target}.log").write_text(run.log)
            inputs = sorted(set(found.glob("*")) - before)
            if "libFuzzer: timeout" in run.log and inputs and not is_slow(target, inputs[0]):
                inputs[0].unlink()
                continue
            where = f"input: {inputs[0]}" if inputs else "no input was kept"
            return runs, [f"{target}: {run.complaint}; {where}; log: {BUILD / target}.log"], time.monotonic() - start
    return runs, [], time.monotonic() - start


def is_slow(target: str, file: Path) -> bool:
    """libFuzzer takes the time by the clock, in which others may have had the core."""
    limit = (SLOW_INPUT, SLOW_INPUT)
    done = subprocess.run(
        [program(target), file], capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit)
    )
    return done.returncode != 0


def run_campaign(large: bool, seed: int, seconds: float | None = None, targets: tuple[str, ...] = TARGETS) -> Outcome:
    build()
    blind = find_seeded_bug(seed)
    found = [blind] if blind else []
    seconds = seconds or (LARGE if large else SMALL)
    executed, used = 0, 0.0
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as beside:
        tries = beside.map(partial(try_target, seconds=seconds / len(targets), seed=seed), targets)
        for target, (runs, failures, elapsed) in zip(targets, tries, strict=True):
            inputs, core = sum(run.executions for run in runs), sum(run.core_seconds for run in runs)
            executed, used = executed + inputs, used + core
            found += failures
            print(
                f"{target:12} {inputs:>11} inputs in {core:5.0f} s of a core ({elapsed:.0f} s), "
                f"{runs[-1].covered:>5} edges{'' if not failures else ', FAILED'}",
                flush=True,
            )
    return Outcome(f"{executed} inputs for {len(targets)} targets in {used:.0f} s of a core", found)


def write_seeds(target: str, place: Path) -> None:
    """Those of the target's own encoders, and what there is in tests/golden of it."""
    replay = (
        Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "dev")) / "tests" / "fuzz" / f"replay_{target}"
    )
    subprocess.run([replay, "--seeds", place], check=True)
    for path in (ROOT / "tests" / "golden").rglob("line-*/*"):
        data = path.read_bytes()
        if data.startswith(b"backstay manifest"):
            part = data if target == "manifest" else b"0/shared/line-00000001/manifest\n" + data
            parts = {"manifest": part, "catalog": part}
        else:
            words = data[: data.index(b"\n")].split()
            table = data[int(words[4]) : int(words[4]) + int(words[5])]
            header = b"backstay data 1 table = = = hdf5 = = = size = crc =\n"
            parts = {"table": table, "headers": data[: data.index(b"\n") + 1], "data_file": header + table}
        if target in parts:
            (place / f"golden-{path.parent.parent.parent.name}-{path.name}").write_bytes(parts[target])


def keep(target: str) -> None:
    """The fewest inputs that take every edge that is known (not: so many times), within LARGEST_KEPT."""
    with tempfile.TemporaryDirectory() as scratch:
        merged, seeds = Path(scratch) / "merged", Path(scratch) / "seeds"
        merged.mkdir()
        write_seeds(target, seeds)
        folders = [merged, *filter(Path.is_dir, [KEPT / target, seeds, BUILD / "corpus" / target])]
        run = fuzzed(target, folders, ["-set_cover_merge=1", "-use_counters=0"], 600)
        if run.status != 0:
            sys.exit(f"{run.log}\n{target}: its corpus could not be merged; the log is above")
        regressions = {path.name for path in (KEPT / target).glob("regression-*")}
        chosen, size = [], 0
        for path in sorted(merged.iterdir(), key=lambda path: path.stat().st_size):
            size += path.stat().st_size
            if size <= LARGEST_KEPT:
                chosen.append(path)
        for old in (KEPT / target).glob("*"):
            if old.name not in regressions:
                old.unlink()
        (KEPT / target).mkdir(parents=True, exist_ok=True)
        for path in chosen:
            shutil.copy(path, KEPT / target / f"{path.name[:12]}.input")
    print(f"{target}: {len(chosen)} inputs, and {len(regressions)} of mended bugs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SMALL, help="for all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS)
    parser.add_argument("--keep", action="store_true", help="make the kept corpus anew instead")
    options = parser.parse_args()
    if options.keep:
        build()
        for target in options.targets:
            keep(target)
        return 0
    outcome = run_campaign(False, options.seed, options.seconds, tuple(options.targets))
    for failure in outcome.found:
        print(f"failure: {failure}", file=sys.stderr)
    print(outcome.tried)
    return 0 if outcome.clean else 1


if __name__ == "__main__":
    sys.exit(main())
