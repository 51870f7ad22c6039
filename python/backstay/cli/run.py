"""`backstay run`: launches a job and launches it again after a failure."""

import contextlib
import dataclasses
import json
import os
from typing import Annotated, Optional

import typer

from .. import checked_access
from ..job import Job, absolute, find_app, parse_kill, parse_options
from ..launch import run_job, say
from ..lines import Problem
from ..mpirun import LaunchError, find
from .common import DEFAULT_DIR, forget_stdout, output_may_fail

# So that the options of APP are its own also without the `--` before it.
SETTINGS = {"context_settings": {"allow_interspersed_args": False}}
# The library obeys the variables: they have to count here, too.
Spares = Annotated[
    int, typer.Option(envvar="BACKSTAY_SPARES", help="Processes beside the ranks that take the places of lost ones.")
]
Nodes = Annotated[
    Optional[int], typer.Option(envvar="BACKSTAY_NODES", help="Put the ranks on so many simulated nodes.")
]


def run(
    command: Annotated[list[str], typer.Argument(metavar="APP ARGS...", help="The program and its own arguments.")],
    ranks: Annotated[int, typer.Option("-n", help="Ranks.")] = 1,
    spares: Spares = 0,
    nodes: Nodes = None,
    relaunch: Annotated[int, typer.Option(help="How often to launch again after a failure.")] = 3,
    kill: Annotated[
        Optional[list[str]],
        typer.Option(
            help="RANK@CALL or nodeNODE@CALL: kill it at that call of checkpoint(); @repair: while another rank is "
            "replaced; @opening: when the session opens after that. The first for launch 1, ..."
        ),
    ] = None,
    directory: Annotated[
        Optional[str],
        typer.Option("--dir", "-d", help="Where checkpoints go. [default: $BACKSTAY_DIR or backstay-checkpoints]"),
    ] = None,
    levels: Annotated[Optional[str], typer.Option(help="Such as partner,shared.")] = None,
    interval: Annotated[Optional[float], typer.Option(help="Seconds between checkpoints.")] = None,
    every: Annotated[Optional[int], typer.Option(help="Calls of checkpoint() from one taken to the next.")] = None,
    opt: Annotated[Optional[list[str]], typer.Option(help="NAME=VALUE: any other option of the library.")] = None,
    hang: Annotated[
        Optional[float], typer.Option(help="Without output or event for so many seconds: a failure.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare what declared computations do with what they declare; slow.")
    ] = False,
    mpirun: Annotated[Optional[str], typer.Option(help="The launcher. [default: mpirun or mpiexec on PATH]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Sum up as JSON in the last line of the output.")] = False,
) -> None:
    """Launches APP through mpirun, and again when it fails: it resumes from its newest whole checkpoint by itself.
    The exit status is the application's, or 128 + the signal that ended it. To see that work, kill a node of four:
    backstay run -n 8 --nodes 4 --levels partner --kill node1@30 -- ./app
    """
    try:
        _refuse_empty(directory, levels)
        options = parse_options(opt or []) | _own_options(levels, interval, every)
        options |= {"check_access": "on"} if check else {}
        job = Job(
            app=find_app(command[0]),
            arguments=tuple(command[1:]),
            launcher=find(mpirun, ranks + max(0, spares)),
            directory=absolute(directory or os.environ.get("BACKSTAY_DIR") or DEFAULT_DIR),
            ranks=ranks,
            spares=spares,
            nodes=nodes,
            relaunch=relaunch,
            kills=tuple(parse_kill(text, ranks, nodes) for text in _kills(kill)),
            options=options,
            hang=hang,
            preload=checked_access.library() if check else None,
        )
        with checked_access.summed_up(job) if check else contextlib.nullcontext():
            report = run_job(job)
    except (LaunchError, Problem) as problem:
        say(str(problem))
        with output_may_fail():
            if as_json:
                print(json.dumps({"ok": False, "error": str(problem)}), flush=True)
        raise typer.Exit(2) from None
    try:
        if as_json:
            print(json.dumps(dataclasses.asdict(report)), flush=True)
    except BrokenPipeError:  # the job's end counts, not whether anybody reads of it
        forget_stdout()
    raise typer.Exit(report.status)


def _kills(given: Optional[list[str]]) -> list[str]:
    """The --kill options; without any, BACKSTAY_KILL is meant for the first launch."""
    environment = os.environ.get("BACKSTAY_KILL")
    return given or ([environment] if environment else [])


def _refuse_empty(directory: Optional[str], levels: Optional[str]) -> None:
    """A variable of a script that is not set, most likely: not what the user has asked for."""
    for flag, given in (("--dir", directory), ("--levels", levels)):
        if given is not None and not given.strip():
            raise LaunchError(f"{flag} is empty: give it a value, or leave it out.")


def _own_options(levels: Optional[str], interval: Optional[float], every: Optional[int]) -> dict[str, str]:
    """The library options that have a flag of their own."""
    if interval is not None and not interval > 0:
        raise LaunchError(f"--interval {interval:g}: give the seconds between two checkpoints, more than 0.")
    if every is not None and every < 1:
        raise LaunchError(f"--every {every}: give a number of calls, 1 or more.")
    given = {"levels": levels, "interval": interval, "every": every}
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in given.items()
        if value is not None
    }
