"""The table of options: one in the library, and what shows it agrees. Needs the compiled module."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("backstay._core")

from backstay._core import option_names, option_table
from backstay.job import variable
from commands import backstay, sentence_of

ROOT = Path(__file__).resolve().parents[2]


def test_page_of_options_is_current():
    tool = ROOT / "tools" / "make_options_doc.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_command_lists_every_option_with_its_meaning():
    shown = backstay("options", columns=250)
    assert shown.status == 0
    for name, initial, meaning in option_table():
        (row,) = [line for line in shown.out.splitlines() if line.split()[:1] == [name]]
        assert initial in row and meaning.replace("`", "") in row


def test_command_finds_options_by_a_word():
    assert [row["name"] for row in backstay("options", "shared.l", "--json").json] == ["shared.layout"]
    assert "nonsense" in sentence_of(backstay("options", "nonsense"))


def test_json_has_the_variables():
    rows = backstay("options", "--json").json
    assert [row["name"] for row in rows] == list(option_names())
    assert all(row["variable"] == variable(row["name"]) for row in rows)
