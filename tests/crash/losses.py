"""The campaign `kills` of `./dev campaign`: ranks, spares, nodes and racks are killed at random times.

Jobs that go on by themselves (repairs.py, some of them killed about their end), jobs that lose a process while they
open (openings.py) or in the middle of a call on files (middles.py), and jobs without spares that are launched again and
again (kills.py, 40 jobs of 5 kills): 1,000 jobs in all, or a few.
"""

from __future__ import annotations

import random
import sys

import kills
import middles
import openings
import repairs
from campaign import Outcome


def run_campaign(large: bool, seed: int) -> Outcome:
    online, late, opening, middle, each_mix = (720, 60, 80, 100, 25) if large else (5, 1, 1, 1, 1)
    programs = repairs.applications(repairs.built(), 1200)
    tally = repairs.campaign(repairs.Choice(programs), online, seed)
    at_the_end = repairs.campaign(repairs.Choice(programs, late=True), late, seed)
    opened = openings.campaign(programs, opening, seed)
    halved = middles.campaign(middle, seed)
    again, mixes, failures = without_spares(each_mix, seed, large)
    return Outcome(
        f"{repairs.told(tally)}; about the end, {repairs.told(at_the_end)}; {openings.told(opened)}; "
        f"{middles.told(halved)}; "
        f"without spares, {again.kills} kills ({again.node_kills} of whole nodes) in {mixes} mixes of "
        f"levels, {again.ends} jobs launched again to their bit-identical end",
        tally.failures
        + tally.of_mpi
        + at_the_end.failures
        + at_the_end.of_mpi
        + opened.failures
        + halved.failures
        + failures,
    )


def without_spares(each_mix: int, seed: int, large: bool) -> tuple[kills.Tally, int, list[str]]:
    """How it went, with how many mixes of levels, and failures."""
    stepper, steps = repairs.applications(repairs.built(), 1)[0].program, 2500
    out, failures = kills.Tally(), []
    expected = kills.undisturbed(stepper, steps)
    # test_kills.py kills with each of them.
    mixes = list(kills.MIXES) if large else random.Random(seed).sample(list(kills.MIXES), 3)
    for mix in mixes:
        one = kills.campaign(stepper, mix, each_mix, steps, seed, 5, expected)
        failures += one.failures
        if large:
            print(f"without spares: {mix}, {len(failures)} failed", file=sys.stderr, flush=True)
        out.kills, out.node_kills, out.ends = (
            out.kills + one.kills,
            out.node_kills + one.node_kills,
            out.ends + one.ends,
        )
    return out, len(mixes), failures
