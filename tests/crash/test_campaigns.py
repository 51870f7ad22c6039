"""The small size of each campaign of `./dev campaign`, but for those that have tests of their own."""

import importlib
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import repairs

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


@pytest.mark.parametrize(
    ("protection", "lost", "back", "said"),
    [
        ("partner", 1, {"event": "resume", "line": 7}, ""),
        (
            "partner",
            1,
            {"event": "resume", "line": 6},
            "came back from line 6 after 1 losses, and line 7 was committed",
        ),
        ("partner", 1, {"event": "fresh"}, "came back from line 0 after 1 losses, and line 7 was committed"),
        ("partner", 2, {"event": "resume", "line": 6}, ""),
        (
            "memory rs(2,2)",
            2,
            {"event": "resume", "line": 6},
            "came back from line 6 after 2 losses, and line 7 was committed",
        ),
    ],
)
def test_a_repair_that_goes_back_further_than_it_has_to_is_found(tmp_path, protection, lost, back, said):
    committed = [
        {"event": "commit", "line": 7, "level": "partner"},
        {"event": "commit", "line": 8, "level": "partner-static"},
    ]
    events = [*committed, {"event": "repair", "lost": lost}, back]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    run = SimpleNamespace(shape=SimpleNamespace(protection=protection))
    assert repairs.Run.older_line(run, tmp_path) == said
