"""The small sizes of the campaigns (`./dev campaign NAME --small`) that have no test of their own."""

import importlib
from pathlib import Path

import pytest

CAMPAIGNS = [
    "fuzz",
]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_small_campaign_finds_nothing(name):
    if name == "fuzz" and not (ROOT / "build" / "fuzz-tools" / ".stamp").exists():
        pytest.skip("Clang is fetched by ./dev campaign fuzz only; the tests fuzz.* read the kept corpus without it")
    outcome = importlib.import_module(name).run_campaign(large=False, seed=1)
    assert outcome.clean, "\n".join(outcome.found)
