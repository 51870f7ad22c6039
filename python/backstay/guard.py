"""Nothing a launch started outlives it: finding its processes, and ending them.

Every process of a launch inherits the variable _BACKSTAY_RUN_ID; by it they are found again in /proc, also when
their parent has died and however they have grouped themselves. Linux only.

Run as a program, this file is the guard of `backstay run`: it waits until the pipe on its standard input closes, which
happens however `run` ends, SIGKILL included, and then ends what is left and removes the launchers' scratch directory.
It uses nothing but the standard library, so that it starts in an instant.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

MARK = "_BACKSTAY_RUN_ID"  # not BACKSTAY_...: the library refuses what looks like an option and is none
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


def job_processes(run_id: str) -> dict[int, dict[str, str]]:
    """The environment of every living process of this run, by process id; the caller is never among them."""
    mark = f"{MARK}={run_id}".encode()
    found = {}
    for pid in _process_ids():
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # it has ended, or belongs to someone else
            continue
        entries = raw.split(b"\0")
        if mark in entries and pid != os.getpid():
            found[pid] = dict(e.decode(errors="replace").split("=", 1) for e in entries if b"=" in e)
    return found


def rank_processes(run_id: str) -> dict[int, int]:
    """Process id by rank, for the ranks on this machine. What a rank itself has started is not a rank."""
    processes = job_processes(run_id)
    ranks = {pid: rank for pid, env in processes.items() if (rank := _rank_of(env)) is not None}
    return {rank: pid for pid, rank in ranks.items() if ranks.get(_parent(pid)) != rank}


def who_catch(number: int, tops: Iterable[int], run_id: str) -> list[int]:
    """Of each of these processes and of what it has started, the topmost that catches the signal; itself if none does.
    The shell of a script that starts the application does not, and would die of it."""
    below: dict[int, list[int]] = {}
    for pid in job_processes(run_id):
        below.setdefault(_parent(pid), []).append(pid)

    def those_of(pid: int) -> list[int]:
        return [pid] if _catches(pid, number) else [found for child in below.get(pid, []) for found in those_of(child)]

    return [found for top in tops for found in those_of(top) or [top]]


def end_all(run_id: str, seconds: float = 10.0) -> int:
    """SIGKILL to every process of the run until none is left; gives how many there were."""
    ended: set[int] = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        left = job_processes(run_id)
        if not left:
            break
        ended.update(left)
        send(list(left), signal.SIGKILL)
        time.sleep(0.02)  # the killed need a moment to go, and may have started another just before
    return len(ended)


def send(pids: list[int], number: int) -> None:
    """The signal to each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _rank_of(environment: dict[str, str]) -> int | None:
    for name in RANK_VARIABLES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return None


def _catches(pid: int, number: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")  # a name may be cut inside of a character
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])  # the name before it may hold spaces and brackets


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # meant for `run`, whose end is what counts here
    while sys.stdin.buffer.read(1):
        pass
    end_all(sys.argv[1])
    shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
