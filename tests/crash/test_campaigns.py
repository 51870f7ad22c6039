"""The small size of each campaign of `./dev campaign`, but for those that have tests of their own."""

import importlib
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGNS = ["model"]
SETUP = {"model": "--model"}  # what a campaign needs beside what the tests need


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_small_campaign_finds_nothing(name):
    if name in SETUP:
        fetched = subprocess.run([ROOT / "tools/setup.sh", SETUP[name]], capture_output=True, text=True)
        if fetched.returncode != 0:
            pytest.skip(f"{name}: {fetched.stderr.strip() or fetched.stdout.strip()}")
    outcome = importlib.import_module(name).run_campaign(False, 1)
    assert outcome.clean, outcome.found
