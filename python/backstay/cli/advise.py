"""`backstay advise`: which protected arrays need not be saved, in a program that declares nothing."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Optional

import typer

from .. import checked_access
from ..job import Job, find_app
from ..launch import run_job
from ..lines import Problem
from ..mpirun import LaunchError, find
from . import common

SETTINGS = {"context_settings": {"allow_interspersed_args": False}}

LEFT_OUT, PERHAPS = "overwritten first", "overwritten where seen"
# What ranks saw, the worst first: what one of them needs has to be saved.
ORDER = ("read first", "never written", "overwritten in part", "not known", "not touched", PERHAPS, LEFT_OUT)


def advise(
    command: Annotated[list[str], typer.Argument(metavar="APP ARGS...", help="The program and its own arguments.")],
    ranks: Annotated[int, typer.Option("-n", help="Ranks.")] = 1,
    steps: Annotated[int, typer.Option(help="Steps to look at: from one call of checkpoint() to the next.")] = 4,
    mpirun: Annotated[Optional[str], typer.Option(help="The launcher. [default: mpirun or mpiexec on PATH]")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Launches APP once, with checkpoints in a directory of its own that is removed in the end. Looks at what it does
    with its protected arrays after checkpoint(): what is read first has to be saved, what is overwritten first has not.
    Only what happens in the steps that are looked at is seen, so take enough of them, and a small input: it is slow.
    The exit status is 0 if there is advice.
    """
    try:
        if steps < 2:
            raise Problem(f"--steps {steps}: give 2 or more, as the first is looked at by memory pages only.")
        with tempfile.TemporaryDirectory(prefix="backstay-advise-") as directory:
            job = Job(
                app=find_app(command[0]),
                arguments=tuple(command[1:]),
                launcher=find(mpirun, ranks),
                directory=Path(directory).absolute(),
                ranks=ranks,
                relaunch=0,
                options={"observe": str(steps), "local_dir": f"{directory}/node-%n"},
                preload=checked_access.library("advise"),
                output=Path("/dev/stderr") if as_json else None,
            )
            report = run_job(job)
            events = [event for path in Path(directory).rglob("events.jsonl") for event in _events(path)]
        advice = advice_of(events, job.app.name, report.status, ranks)
    except LaunchError as problem:
        raise Problem(str(problem)) from None
    if as_json:
        common.print_json({"ok": True, **advice})
    else:
        _print(advice, steps)


def _events(path: Path) -> list[dict]:
    out = []
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            out.append(event)
    return out


def advice_of(events: list[dict], program: str, status: int, ranks: int) -> dict:
    """What all ranks saw together. Problem: too little."""
    seen = [event for event in events if event.get("event") == "observed"]
    if not seen:
        how = f"ended with status {status} before" if status else "ended, and"
        raise Problem(
            f"{program} {how} no session of backstay told what it saw: advise looks at programs that open one, "
            "protect arrays and call checkpoint() in each step."
        )
    if any(event.get("sees") != "all" for event in seen):
        raise Problem(f"{program} ran without the library that closes memory pages: is it linked statically?")
    if len(seen) < ranks:
        raise Problem(f"{len(seen)} of {ranks} ranks of {program} told what they saw: see the messages above.")
    fewest = min(int(event.get("steps", 0)) for event in seen)
    if fewest < 2:
        raise Problem(
            f"{program} has {fewest} whole step{'' if fewest == 1 else 's'} between two calls of checkpoint(), and "
            "advice needs 2: let it run for more of them, and call checkpoint() in each."
        )
    told: dict[str, list[dict]] = {}
    for event in events:
        if event.get("event") == "observed_region":
            told.setdefault(str(event["region"]), []).append(event)
    if not told:
        raise Problem(f"{program} has protected no array: protect() all that may have to be saved, and ask again.")
    return {
        "program": program,
        "status": status,
        "steps": fewest,
        "ranks": ranks,
        "arrays": [_merged(name, of_ranks, ranks) for name, of_ranks in told.items()],
    }


def _merged(name: str, events: list[dict], ranks: int) -> dict:
    whats = [event["what"] for event in events]
    # Where a rank has not got it, or told something that this command does not know, it is kept.
    known = [what if what in ORDER else "not known" for what in whats]
    if len(events) < ranks:
        known.append("not known")
    what = min(known, key=ORDER.index)
    first = next((event for event in events if event["what"] == what and event.get("program")), None)
    return {
        "name": name,
        "type": events[0].get("type", ""),
        "bytes": sum(int(event.get("bytes", 0)) for event in events),
        "what": what,
        "save": what != LEFT_OUT,
        "steps": min(int(event.get("steps", 0)) for event in events),
        "pages": sum(int(event.get("pages", 0)) for event in events),
        "pages_overwritten": sum(int(event.get("overwritten", 0)) for event in events),
        "line": checked_access.source_line(first["program"], int(first.get("offset", 0))) if first else "",
        "ranks_differ": len(set(known)) > 1,
    }


def _advice_on(array: dict) -> str:
    return {
        "read first": "save",
        "never written": "save, or protect_static",
        "overwritten in part": "save",
        "not known": "save",
        "not touched": "save",
        PERHAPS: "leave out?",
        LEFT_OUT: "leave out",
    }[array["what"]]


def _print(advice: dict, wanted: int) -> None:
    arrays, steps = advice["arrays"], advice["steps"]
    table = common.table("array", "bytes", "after checkpoint()", "where", "advice", right=("bytes",), fixed=("array",))
    for array in arrays:
        differs = ", not on all ranks" if array["ranks_differ"] else ""
        what = array["what"]
        if what == PERHAPS:
            what = f"overwritten in {array['pages_overwritten']} of {array['pages']} pages"
        table.add_row(
            common.printable(array["name"]),
            common.human_bytes(array["bytes"]),
            what + differs,
            common.printable(os.path.basename(array["line"])),
            _advice_on(array),
        )
    common.stdout().print(table)
    kept = [array for array in arrays if array["save"]]
    all_bytes, kept_bytes = (sum(array["bytes"] for array in some) for some in (arrays, kept))
    common.say()
    common.say(f"To be saved: {common.human_bytes(kept_bytes)} of {common.human_bytes(all_bytes)}, on all ranks.")
    for array in kept:
        look = "  // needed? see below" if array["what"] == PERHAPS else ""
        common.say(f'  run.protect("{array["name"]}", {array["name"]});{look}')
    common.say()
    if any(array["what"] == PERHAPS for array in arrays):
        common.say(
            "leave out?: pages that an array shares with other memory, as its first and last, cannot be looked at. "
            "It need not be saved if what it has there (the first and last rows, say) is overwritten in each step, too."
        )
    if any(array["what"] == "not known" for array in arrays):
        common.say("not known: below 16 KiB, in values of 1 or 2 bytes, or beside other data in memory.")
    fewer = f" ({wanted} were asked for)" if steps < wanted else ""
    common.say(
        f"Seen were {steps} steps{fewer} of this run, with this input, and nothing else: what is read in another step "
        "only, as by output every hundredth or after an error, is not in it."
    )
    if advice["status"]:
        print(f"backstay: {advice['program']} ended with status {advice['status']}.", file=sys.stderr, flush=True)
