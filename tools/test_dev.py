"""Facts about ./dev that need neither network nor compiler."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "dev", *arguments], capture_output=True, text=True, timeout=30)


def test_help_names_every_command():
    commands = re.search(r"^commands=\((.*)\)$", (ROOT / "dev").read_text(), re.MULTILINE).group(1).split()
    shown = dev("help").stdout
    assert all(re.search(rf"^  {command}\b", shown, re.MULTILINE) for command in commands)


def test_no_command_is_help():
    assert dev().stdout == dev("help").stdout


def test_unknown_command_names_the_nearest():
    result = dev("bulid")
    assert result.returncode == 2
    assert "there is no command 'bulid'; did you mean 'build'?" in result.stderr


def test_clean_refuses_what_it_does_not_know():
    result = dev("clean", "everything")
    assert result.returncode == 1
    assert "clean knows only --all" in result.stderr


def test_second_setup_has_nothing_to_do():
    stamps = [ROOT / "build" / place / ".stamp" for place in ("venv", "deps")]
    if not all(stamp.exists() for stamp in stamps):
        pytest.skip("this tree was built without ./dev setup")
    before = [stamp.stat().st_mtime_ns for stamp in stamps]
    again = dev("setup")  # bounded by the 30 seconds of dev()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert [stamp.stat().st_mtime_ns for stamp in stamps] == before
