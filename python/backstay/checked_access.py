"""What `backstay run --check` needs: the library that is loaded before the program, the variables that keep the kernel
from copying messages past it, and the sum of what was found."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .history import session_directories
from .lines import Problem, open_to_read
from .mpirun import LaunchError

if TYPE_CHECKING:
    from .job import Job

LIBRARY = "libbackstay_check.so"
VARIABLES = {
    # One process would read the memory of another through the kernel, which fails where pages are closed.
    "OMPI_MCA_smsc": "^cma,knem,xpmem",
    # Network cards would do the same.
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm,tcp",
    "UCX_TLS": "tcp,sysv,posix,self",
    "MPIR_CVAR_CH4_CMA_ENABLE": "0",
    "MPIR_CVAR_CH4_XPMEM_ENABLE": "0",
    # Arrays have pages of their own, so that all of their elements can be looked at.
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_MMAP_MAX_": "20000",
    # Where the C library copies by one instruction, as it does on some processors, it copies the first bytes last,
    # while their page is open to that instruction: that they are overwritten would not be seen.
    "GLIBC_TUNABLES": f"glibc.cpu.x86_rep_movsb_threshold={1 << 40}",
}


def library(asked_for: str = "--check") -> Path:
    """The library that is preloaded. LaunchError: it is not here."""
    here = Path(__file__).absolute().parent
    places = [here, *(Path(part) / "backstay" for part in sys.path), here.parents[2]]
    for place in places:
        if (place / LIBRARY).is_file():
            return (place / LIBRARY).resolve()
    raise LaunchError(
        f"{asked_for}: {LIBRARY} is not beside this package: it is built on x86-64 with Linux, without sanitizers."
    )


def environment(env: dict[str, str], preload: Path) -> dict[str, str]:
    """The variables of a launch; what the user set stays."""
    before = [part for part in env.get("LD_PRELOAD", "").split(":") if part]
    return VARIABLES | env | {"LD_PRELOAD": ":".join([str(preload), *before])}


@contextlib.contextmanager
def summed_up(job: Job) -> Iterator[None]:
    """Says what was found by a job that runs inside of this."""
    path = job.directory / "events.jsonl"
    begin = path.stat().st_size if path.exists() else 0
    try:
        yield
    finally:
        for line in _sentences(_events_of_the_run(job, begin)):
            print(f"backstay: {line}", file=sys.stderr, flush=True)


def _events_of_the_run(job: Job, begin: int) -> list[dict]:
    """Of its launches and of its sessions, which may be elsewhere, and each of which says there what run it is of.
    Clocks of nodes may differ."""
    own = _events(job.directory / "events.jsonl", begin)
    runs = {event.get("run") for event in own if event.get("event") == "launch"}
    elsewhere = {place.resolve() for place in (job.session_directory(), *session_directories(job.directory))}
    for place in sorted(elsewhere - {job.directory.resolve()}):
        events = _events(place / "events.jsonl")
        starts = [i for i, event in enumerate(events) if event.get("event") == "start" and event.get("run") in runs]
        own += events[starts[0] :] if starts else []
    return own


def _events(path: Path, begin: int = 0) -> list[dict]:
    try:
        with open_to_read(path) as file:
            file.seek(begin)
            return [_event(line) for line in file.read().splitlines()]
    except (OSError, Problem):
        return []


def _sentences(events: list[dict]) -> list[str]:
    found, looked_at, told = {}, 0, False
    for event in events:
        if event.get("event") == "check_access":
            looked_at, told = looked_at + int(event.get("looked_at", 0)), True
        elif event.get("event") == "false_declaration":
            key = (event.get("computation"), event.get("region"), event.get("fault"))
            found.setdefault(key, []).append(event)
    out = []
    for (computation, region, fault), events in found.items():
        ranks = sorted({event.get("rank", 0) for event in events})
        where = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
        line = source_line(events[0].get("program", ""), int(events[0].get("offset", 0)))
        out.append(f"--check: '{computation}' {fault} region '{region}', on {where}{f', at {line}' if line else ''}")
    count = f"{len(found)} false declaration{'' if len(found) == 1 else 's'}"
    nobody = "" if told or found else " (no session told that it has ended)"
    out.append(f"--check: {count} in {looked_at} computations that were looked at{nobody}")
    return out


def _event(line: bytes) -> dict:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def source_line(program: str, offset: int) -> str:
    """FILE:LINE of an instruction, if the program was built with -g and addr2line is here; else empty."""
    tool = shutil.which("addr2line")
    if not tool or not os.path.isfile(program):
        return ""
    command = [tool, "-e", program, hex(offset)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    line = answer.split(" ")[0].strip()
    return "" if not line or line.startswith("?") or line.endswith((":?", ":0")) else line
