"""The proofs by many failures, each by its name: `./dev campaign NAME --small|--large [--seed N]`.

The last line says what was tried and found. The status is 0 only if nothing was found. The seed repeats a failure.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from dataclasses import dataclass, field

# By name: the module, whose run_campaign(large, seed) gives an Outcome, and what it does.
CAMPAIGNS = {
    "kills": ("losses", "random ranks, spares, nodes and racks are killed at random times; jobs go on or come back"),
    "crashpoints": ("crashpoints", "a checkpoint is stopped at each of its operations, and unsynced data are lost"),
    "flips": ("flips", "files are damaged in any way, and jobs resume from what is left"),
    "faults": ("faults", "storage, clock and memory fail, ranks stand still; jobs go on or stop with a sentence"),
    "fuzz": ("fuzz", "readers of files are given what a fuzzer makes up, under AddressSanitizer and UBSan"),
    "programs": ("programs", "random programs with declared computations are stopped, rolled back and replayed"),
    "model": ("model", "the protocols of commit and repair in a model checker, with crashes anywhere"),
}


@dataclass
class Outcome:
    tried: str  # what was done, with its numbers
    found: list[str] = field(default_factory=list)  # a sentence for each failure; none: clean

    @property
    def clean(self) -> bool:
        return not self.found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev campaign",
        description="example: ./dev campaign kills --small --seed 3",
        epilog="\n".join(f"{name:12} {what}" for name, (_, what) in CAMPAIGNS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=list(CAMPAIGNS), help="which, see below")
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--small", action="store_true", help="under two minutes, as CI runs it")
    size.add_argument("--large", action="store_true", help="hours")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (default: 1)")
    parser.add_argument("--look", action="store_true", help=argparse.SUPPRESS)  # ./dev, before it builds anything
    options = parser.parse_args(arguments)
    if options.look:
        return 0
    start = time.monotonic()
    outcome = importlib.import_module(CAMPAIGNS[options.name][0]).run_campaign(options.large, options.seed)
    for number, failure in enumerate(outcome.found, 1):
        print(f"failure {number}: {failure}", file=sys.stderr)
    command = f"./dev campaign {options.name} --{'large' if options.large else 'small'} --seed {options.seed}"
    verdict = "clean" if outcome.clean else f"{len(outcome.found)} FAILURES (repeat with: {command})"
    print(f"{command}: {outcome.tried}: {verdict}, {time.monotonic() - start:.0f} s")
    return 0 if outcome.clean else 1


if __name__ == "__main__":
    sys.exit(main())
