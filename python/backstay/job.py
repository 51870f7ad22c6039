"""A job as the user describes it: reading that, and refusing what can never work before anything is started."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import checked_access, guard
from .mpirun import TERMINAL, Launcher, LaunchError

MOST = {"-n": 10_000_000, "--spares": 1_000_000, "--relaunch": 1_000_000}


@dataclass(frozen=True)
class Kill:
    """A rank, or all ranks of a simulated node, that end themselves at a call of checkpoint(), or, without a call,
    after the loss of another rank: in its repair, or when the session opens again."""

    what: str  # "rank" or "node"
    number: int
    call: int | None
    moment: str = "repair"  # or "opening"

    def text(self) -> str:
        return f"{'node' if self.what == 'node' else ''}{self.number}@{self.call or self.moment}"

    def when(self) -> str:
        moments = {"repair": "while another rank is being replaced", "opening": "after another rank was replaced"}
        return f"at its call {self.call} of checkpoint()" if self.call else moments[self.moment]


@dataclass(frozen=True)
class Job:
    """What to launch and how. `kills[i]` is for launch i + 1 only."""

    app: Path
    arguments: tuple[str, ...]
    launcher: Launcher
    directory: Path
    ranks: int = 1
    spares: int = 0
    nodes: int | None = None
    relaunch: int = 3
    kills: tuple[tuple[Kill, ...], ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    hang: float | None = None
    pause: float = 1.0
    preload: Path | None = None  # what comes before the program's libraries, where its accesses are checked
    variables: dict[str, str] = field(default_factory=dict)  # others of the environment
    output: Path | None = None  # where the application's output goes instead of this process's own; it is added to

    def processes(self) -> int:
        """Ranks and spares."""
        return self.ranks + self.spares

    def kills_of(self, attempt: int) -> tuple[Kill, ...]:
        return self.kills[attempt - 1] if attempt <= len(self.kills) else ()

    def session_directory(self) -> Path:
        """Where the job's lines and its lock are: the directory, or the one below it that the option `name` names. A
        name that the program gives itself is not known here."""
        return self.directory / (self.options.get("name") or os.environ.get("BACKSTAY_NAME") or "")

    def given_local_directory(self) -> str | None:
        """The option local_dir as the user wrote it."""
        return self.options.get("local_dir") or os.environ.get("BACKSTAY_LOCAL_DIR")

    def local_directory(self) -> str | None:
        """The pattern of the node directories, if this job has simulated nodes or names one."""
        given = self.given_local_directory()
        if given:
            return str(absolute(given))
        return f"{self.directory}/node-%n" if self.nodes else None

    def node_directory(self, node: int) -> Path | None:
        """That of one node. The last %n is the pattern: one before may belong to the name of the directory."""
        before, pattern, after = (self.local_directory() or "").rpartition("%n")
        return Path(f"{before}{node}{after}") if pattern else None

    def environment(self, attempt: int, run_id: str, terminal: bool = False) -> dict[str, str]:
        """The variables of one launch, those of this process included. `terminal`: the ranks' stderr comes to one."""
        # A job started inside another is not one of its ranks.
        # Here spares and nodes are what the options of `backstay run` say, which take these variables for their own.
        drop = {"BACKSTAY_KILL", "BACKSTAY_SPARES", "BACKSTAY_NODES", TERMINAL, *guard.RANK_VARIABLES}
        env = {name: value for name, value in os.environ.items() if name not in drop}
        env |= {variable(name): value for name, value in self.options.items()} | self.variables
        env |= {"BACKSTAY_DIR": str(self.directory), guard.MARK: run_id}
        if self.local_directory():
            env["BACKSTAY_LOCAL_DIR"] = str(self.local_directory())
        if self.nodes:
            env["BACKSTAY_NODES"] = str(self.nodes)
        if self.spares:
            env["BACKSTAY_SPARES"] = str(self.spares)
        if terminal:
            env[TERMINAL] = "1"
        if self.preload:
            env = checked_access.environment(env, self.preload)
        if self.kills_of(attempt):
            env["BACKSTAY_KILL"] = ",".join(kill.text() for kill in self.kills_of(attempt))
        return env


def absolute(path: str | Path) -> Path:
    """The path from the root on. A `..` stays: behind a link it leads elsewhere than to what stands before it."""
    return Path(path).absolute()


def variable(option: str) -> str:
    """The environment variable of an option: BACKSTAY_ and its name."""
    return "BACKSTAY_" + option.upper().replace(".", "_")


def parse_kill(text: str, ranks: int, nodes: int | None) -> tuple[Kill, ...]:
    """Reads "5@30" or "node1@30", several separated by commas."""
    return tuple(_parse_one_kill(part.strip(), ranks, nodes) for part in text.split(","))


def _parse_one_kill(text: str, ranks: int, nodes: int | None) -> Kill:
    match = re.fullmatch(r"(node)?(\d+)@(?:(\d+)|repair|opening)", text)
    if not match or (match[3] and int(match[3]) == 0):
        raise LaunchError(
            f'--kill "{text}" is not understood: write RANK@CALL as 5@30, nodeNODE@CALL as node1@30, 5@repair '
            "or 5@opening."
        )
    number = int(match[2])
    kill = (
        Kill(match[1] or "rank", number, int(match[3]))
        if match[3]
        else Kill(match[1] or "rank", number, None, text.split("@")[1])
    )
    if kill.what == "node" and nodes is None:
        raise LaunchError(f"--kill {text} names a node, but there are no simulated nodes: add --nodes.")
    count = nodes if kill.what == "node" else ranks
    if count is not None and kill.number >= count:
        raise LaunchError(f"--kill {text}: the last {kill.what} is {kill.what} {count - 1}, they count from 0.")
    return kill


def find_app(name: str) -> Path:
    """The application: a path, a name on PATH, or a name in the current directory."""
    path = Path(name) if "/" in name else Path(shutil.which(name) or name)
    if not path.exists():
        raise LaunchError(f"The application {name} is not there: give its path, or build it first.")
    if path.is_dir():
        raise LaunchError(f"The application {name} is a directory: name the program inside it.")
    if not os.access(path, os.X_OK):
        raise LaunchError(f"The application {name} is not executable: chmod +x {name}, or start it by its interpreter.")
    if trouble := _trouble_of_a_script(path):
        raise LaunchError(f"The application {name} {trouble}, so the system cannot start it: mend its first line.")
    return path.absolute()


def _trouble_of_a_script(path: Path) -> str:
    """Why a text cannot be started; a shell is kinder to one than a launcher. Programs have bytes of 0 near their
    beginning."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError:  # it may be executed, and not read
        return ""
    if not start.startswith(b"#!"):
        return "" if b"\0" in start else "is a text without a first line such as #!/bin/sh"
    words = os.fsdecode(start[2:].partition(b"\n")[0]).split(" ")
    interpreter = next((word for word in words if word), "")
    if os.path.exists(interpreter):
        return ""
    if os.path.exists(interpreter.strip()):
        return "has line ends of Windows"
    return f"names the interpreter '{interpreter}', which is not there"


def check(job: Job) -> None:
    """Refuses what can never work, before anything is started."""
    if job.ranks < 1:
        raise LaunchError(f"-n {job.ranks}: a job has at least one rank.")
    if job.spares < 0:
        raise LaunchError(f"--spares {job.spares}: give the number of processes that wait beside the ranks, 0 or more.")
    for flag, given in (("-n", job.ranks), ("--spares", job.spares), ("--relaunch", job.relaunch)):
        if given > MOST[flag]:
            raise LaunchError(f"{flag} {given}: that is more than the {MOST[flag]} that there may be.")
    if job.nodes is not None and not 1 <= job.nodes <= job.processes():
        beside = f" and --spares {job.spares}" if job.spares else ""
        raise LaunchError(f"--nodes {job.nodes} does not fit -n {job.ranks}{beside}: every node has at least one rank.")
    if job.relaunch < 0:
        raise LaunchError(f"--relaunch {job.relaunch}: give 0 or the number of launches after the first.")
    if job.hang is not None and not job.hang > 0:
        raise LaunchError(f"--hang {job.hang:g}: give the seconds of silence that are a failure, more than 0.")
    given = job.given_local_directory()
    if job.nodes and given and "%n" not in given:  # one in the name of the current directory does not count
        raise LaunchError(f"local_dir {given} lacks %n: simulated nodes need a directory each.")
    try:
        job.directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise LaunchError(f"The directory {job.directory} cannot be made: {problem.strerror}.") from None
    if not os.access(job.directory, os.W_OK | os.X_OK):
        raise LaunchError(f"The directory {job.directory} may not be written: choose another with --dir.")


def parse_options(texts: Iterable[str]) -> dict[str, str]:
    """Reads NAME=VALUE pairs; a name that the library does not have is refused here if the library is there."""
    options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_.]*", name):
            raise LaunchError(f'--opt "{text}" is not understood: write NAME=VALUE, as keep=3.')
        if name in ("kill", "nodes", "spares", "dir"):
            raise LaunchError(f"--opt {name}: use --{name}, because `backstay run` must know it too.")
        options[name] = value
    _check_names(options)
    return options


def _check_names(options: dict[str, str]) -> None:
    try:
        from ._core import option_names
    except ImportError:  # the library itself will refuse it
        return
    known = list(option_names())
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise LaunchError(f"There is no option {name}: did you mean {near[0]}?")
