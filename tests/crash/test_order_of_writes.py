"""What is asked of the system, and in which order: the steps of docs/format.md, seen below the library."""

import os
import subprocess
import sys
from pathlib import Path

import faults

SAVES = """
import numpy
import backstay
u = numpy.zeros(5000)
with backstay.Session() as run:
    run.protect("u", u)
    run.resume()
    for step in range(4):
        u += 1
        run.checkpoint(now=True)
"""


def calls_of_a_job(directory: Path) -> list[tuple[str, str]]:
    """What changes something below the directory, and is done: the call and the path from there."""
    program, log = directory / "program.py", directory / "log"
    program.write_text(SAVES)
    variables = {
        "LD_PRELOAD": str(faults.built() / "tests" / "crash" / "libfaulty_system.so"), "PMI_RANK": "0",
        "FAULTY_UNDER": str(directory / "ck"), "FAULTY_KIND": "none", "FAULTY_LOG": str(log),
        "BACKSTAY_DIR": str(directory / "ck"), "BACKSTAY_LEVELS": "shared", "BACKSTAY_SHARED_KEEP": "2",
        "BACKSTAY_POLICY": "wait",
    }  # fmt: skip
    subprocess.run([sys.executable, program], env=os.environ | variables, check=True, timeout=60)
    words = [line.split(" ", 1) for line in log.read_text().splitlines()]
    return [(call, os.path.relpath(path, directory / "ck")) for call, path in words]


def test_a_line_is_on_the_disk_before_its_name_is_and_that_before_an_older_one_goes(tmp_path):
    calls = calls_of_a_job(tmp_path)
    line = "shared/line-00000003"  # of which the directory is new, and line 1 goes for it

    def last(call, path, before=None):
        return max(i for i, done in enumerate(calls[:before]) if done == (call, path))

    first = calls.index(("rename", "shared/line-00000001/manifest"))
    assert calls.index(("make", "shared")) < calls.index(("sync", ".")) < first
    made, named = last("make", line), last("rename", f"{line}/manifest")
    assert made < calls.index(("sync", "shared"), made) < named
    files = {path for call, path in calls[made:named] if call == "write" and path.startswith(line)}
    assert f"{line}/manifest.part" in files and len(files) == 2, files
    for path in files:
        changed = max(last(call, path) for call in ("write", "resize") if (call, path) in calls)
        assert changed < last("sync", path) < last("sync", line, named), "what is written, and then its name"
    durable = calls.index(("sync", line), named)
    removed = last("remove", "shared/line-00000001/manifest")
    assert named < durable < removed < calls.index(("sync", "shared/line-00000001"), removed)
