"""The small size of each campaign of `./dev campaign`, but for those that have tests of their own."""

import importlib
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def clean(name):
    outcome = importlib.import_module(name).run_campaign(large=False, seed=1)
    assert outcome.clean, "\n".join(outcome.found)


def test_jobs_bear_what_storage_clock_and_memory_do_to_them():
    clean("faults")


def test_the_models_hold_and_every_seeded_bug_in_them_is_found():
    fetched = subprocess.run([ROOT / "tools/setup.sh", "--model"], capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        pytest.skip(fetched.stderr.strip() or fetched.stdout.strip())
    clean("model")


@pytest.mark.skipif(
    not (ROOT / "build" / "fuzz-tools" / ".stamp").exists(),
    reason="Clang is fetched by ./dev campaign fuzz only; the tests fuzz.* read the kept corpus without it",
)
def test_a_fuzzer_finds_nothing_in_the_readers():
    clean("fuzz")
