"""The small size of each campaign of `./dev campaign`. ctest runs nothing beside these, as each has its two minutes."""

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from backstay.mpirun import find

ROOT = Path(__file__).resolve().parents[2]
MPIRUN = shutil.which("mpirun")
sys.path.insert(0, str(ROOT / "tests" / "crash"))
import fuzz  # noqa: E402 - found only with the line above
from campaign import CAMPAIGNS  # noqa: E402

needs_ulfm = pytest.mark.skipif(
    MPIRUN is None or find(MPIRUN, 2).kind != "openmpi", reason="this MPI cannot go on after the loss of a rank"
)


class Others:
    """The part of this machine that others take, in the lifetime: what is neither idle nor of our children."""

    def __init__(self):
        self.start, self.busy, self.ours = time.monotonic(), self._busy(), self._ours()

    def part(self):
        seconds = (time.monotonic() - self.start) * os.cpu_count()
        return max(0.0, self._busy() - self.busy - (self._ours() - self.ours)) / seconds

    def _busy(self):
        user, nice, system, _idle, _iowait, *more = map(int, Path("/proc/stat").read_text().split()[1:9])
        return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")

    def _ours(self):
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


OF_SOME = {"kills": [needs_ulfm]}
FETCHED = ("fuzz", "model")  # what these need is not among what every test needs


@pytest.mark.parametrize("name", [pytest.param(name, marks=OF_SOME.get(name, [])) for name in CAMPAIGNS])
def test_a_small_campaign_is_clean_in_under_two_minutes_and_says_what_it_tried(name):
    """By its own words, and where it has the machine for itself; what Clang takes to build the targets is not in it."""
    if name in FETCHED:
        fetched = subprocess.run([ROOT / "tools/setup.sh", f"--{name}"], capture_output=True, text=True, check=False)
        if fetched.returncode != 0:
            pytest.skip(fetched.stderr.strip() or fetched.stdout.strip())
    if name == "fuzz":
        fuzz.build()
    others = Others()
    command = [sys.executable, ROOT / "tests" / "crash" / "campaign.py", name, "--small"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    said = re.fullmatch(rf"\./dev campaign {name} --small --seed 1: .*\d.*: clean, (\d+) s", last)
    assert said, done.stdout
    seconds, part = int(said[1]), others.part()
    assert seconds * (1 - part) < 120, f"{seconds} s, while others took {part:.0%} of the machine"
