"""`pip install .`, as the README has it: package, compiled module and command work from where pip put them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import backstay, numpy as np
with backstay.Session(dir="ck", log="quiet") as run:
    u = np.zeros(3)
    run.protect("u", u)
    resumed = bool(run.resume())
    u += 1
    run.checkpoint(now=True)
print(backstay.__file__, resumed, u[0])
"""


def run(*command, **settings):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    environment = {**keep, **settings.pop("env", {})}
    done = subprocess.run([str(word) for word in command], env=environment, text=True, capture_output=True, **settings)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Without the network: what the build and the package need is in this Python already. Not optimised: that takes
    half of the time and is what ./dev demo does."""
    place = tmp_path_factory.mktemp("pip")
    fast = "--config-settings=cmake.args=-DCMAKE_CXX_FLAGS_RELEASE=-O0"
    offline = ["--no-build-isolation", "--no-deps", "--no-index", f"--config-settings=build-dir={place / 'build'}"]
    run(sys.executable, "-m", "pip", "install", "-q", fast, *offline, "--target", place / "site", ROOT, timeout=1200)
    return place / "site"


def test_installed_package_saves_and_resumes(installed, tmp_path):
    said = [run(sys.executable, "-c", PROGRAM, cwd=tmp_path, env={"PYTHONPATH": str(installed)}) for _ in range(2)]
    assert [text.split()[1:] for text in said] == [["False", "1.0"], ["True", "2.0"]]
    assert said[0].startswith(str(installed))


def test_installed_command_reads_what_was_saved(installed, tmp_path):
    run(sys.executable, "-c", PROGRAM, cwd=tmp_path, env={"PYTHONPATH": str(installed)})
    said = run(installed / "bin" / "backstay", "ls", "ck", cwd=tmp_path, env={"PYTHONPATH": str(installed)})
    assert "shared" in said and "whole" in said
