"""`backstay advise`: which arrays need not be saved, and which are to be protected, if a program declares nothing."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Optional

import typer

from .. import allocated, checked_access
from ..job import Job, find_app
from ..launch import run_job
from ..lines import Problem
from ..mpirun import LaunchError, find
from ..observed import LEFT_OUT, NOT_KNOWN, ORDER, PERHAPS, fate
from . import common

SETTINGS = {"context_settings": {"allow_interspersed_args": False}}

ADVICE = {"never written": "save, or protect_static", PERHAPS: "leave out?", LEFT_OUT: "leave out"}  # all else: save
REPLAY = "backstay.replay"  # the region of the session itself, where it records for a replay
SMALL = "below 16 KiB, or beside other data in memory"


def advise(
    command: Annotated[list[str], typer.Argument(metavar="APP ARGS...", help="The program and its own arguments.")],
    ranks: Annotated[int, typer.Option("-n", help="Ranks.")] = 1,
    steps: Annotated[int, typer.Option(help="Steps to look at: from one call of checkpoint() to the next.")] = 4,
    arrays_from: Annotated[
        int, typer.Option(help="Bytes from which on arrays that are only allocated are looked at, too.")
    ] = allocated.LEAST,
    library: Annotated[
        Optional[list[str]], typer.Option(help="File name of a library that is a part of APP: libhydro.so. Repeatable.")
    ] = None,
    mpirun: Annotated[Optional[str], typer.Option(help="The launcher. [default: mpirun or mpiexec on PATH]")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Launches APP once, with checkpoints in a directory of its own that is removed in the end. Looks at what it does
    with its protected arrays after checkpoint(): what is read first has to be saved, what is overwritten first has not.
    Arrays that it only allocates are listed with the place where they are allocated.
    Only what happens in the steps that are looked at is seen, so take enough of them, and a small input: it is slow.
    The exit status is 0 if there is advice.
    """
    try:
        if steps < 2:
            raise Problem(f"--steps {steps}: give 2 or more, as nothing is proven in the first.")
        if arrays_from < allocated.LEAST:
            raise Problem(
                f"--arrays-from {arrays_from}: give {allocated.LEAST} or more, as smaller arrays share their pages of "
                "memory with others."
            )
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
                variables=allocated.environment(arrays_from, library or ()),
                output=Path("/dev/stderr") if as_json else None,
            )
            report = run_job(job, is_last=False)
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
        if status:
            raise Problem(
                f"{program} ended with status {status} before a session of backstay told what it saw: see its messages "
                "above."
            )
        raise Problem(
            f"{program} ended, and no session of backstay told what it saw: advise looks at programs that open one and "
            "call checkpoint() in each step. Add `backstay::Session run(MPI_COMM_WORLD);` behind MPI_Init(), and "
            "`run.checkpoint();` where a step begins; nothing has to be protected for that."
        )
    sessions = sum(event.get("event") == "start" for event in events)
    if sessions > 1:
        raise Problem(
            f"{program} opened {sessions} sessions, and what each of them saw is not told apart: let it open one, "
            "or ask with a program that opens each alone."
        )
    if any(event.get("sees") != "all" for event in seen):
        raise Problem(f"{program} ran without the library that closes memory pages: is it linked statically?")
    if len(seen) < ranks:
        raise Problem(f"{len(seen)} of {ranks} ranks of {program} told what they saw: see the messages above.")
    places = [_at_place(key, events, ranks) for key in _places(events)]
    judged = [place for place in places if place["steps"] >= 2]
    if not judged:
        fewest = min((place["steps"] for place in places), default=0)
        raise Problem(
            f"{program} has {fewest} whole step{'' if fewest == 1 else 's'} between two calls of checkpoint(), and "
            "advice needs 2: let it run for more of them, and call checkpoint() in each."
        )
    if not any(place["arrays"] or place["allocated"] for place in judged):
        raise Problem(
            f"{program} has protected no array, and had allocated none of the size that is looked at when its first "
            "step began: protect() all that may have to be saved, and ask again."
        )
    best = min(judged, key=lambda place: place["bytes_to_save"] + place["allocated_live_bytes"])
    others = allocated.others_of(event for event in events if event.get("event") == "observed_others")
    return {"program": program, "status": status, "ranks": ranks, **best, "others": others, "places": places}


def _places(events: list[dict]) -> list[tuple]:
    """Where checkpoint() is called, in the order of the first rank that told it."""
    told = [event for event in events if event.get("event") == "observed_place"]
    return list(dict.fromkeys(_key(event) for event in told))


def _key(event: dict) -> tuple:
    return str(event.get("program", "")), int(event.get("offset", 0))


def _at_place(key: tuple, events: list[dict], ranks: int) -> dict:
    """What all ranks saw after the calls at one place. What a rank told later counts."""
    steps: dict[int, int] = {}
    numbers: dict[int, int] = {}
    told: dict[str, dict[int, dict]] = {}
    found: dict[tuple, dict] = {}
    late: dict[tuple, dict] = {}
    for event in events:
        rank = int(event.get("rank", 0))
        if event.get("event") == "observed_place" and _key(event) == key:
            numbers[rank] = int(event.get("place", 0))
            steps[rank] = int(event.get("steps", 0))
        elif event.get("event") == "observed_region" and numbers.get(rank) == int(event.get("place", 0)):
            if str(event["region"]) != REPLAY:
                told.setdefault(str(event["region"]), {})[rank] = event
        elif event.get("event") == "observed_array" and numbers.get(rank) == int(event.get("place", 0)):
            found[rank, int(event.get("number", 0))] = event
        elif event.get("event") == "observed_late":
            late[rank, str(event.get("callers", ""))] = event
    only_allocated = allocated.arrays_of(found.values(), late.values(), ranks, checked_access.source_line)
    arrays = [_merged(name, list(of_ranks.values()), ranks) for name, of_ranks in told.items()]
    program, offset = key
    return {
        "line": checked_access.source_line(program, offset) or program if offset else program,
        "steps": min(steps.values()) if len(steps) == ranks else 0,
        "bytes_to_save": sum(array["bytes"] for array in arrays if array["save"]),
        "arrays": arrays,
        "allocated": only_allocated,
        "allocated_live_bytes": sum(array["bytes"] for array in only_allocated if array["save"]),
    }


def _merged(name: str, events: list[dict], ranks: int) -> dict:
    known = [fate(event) for event in events]
    if len(events) < ranks:
        known.append(NOT_KNOWN)  # a rank has not got it
    what = min(known, key=ORDER.index)
    first = next((event for event in events if fate(event) == what and event.get("program")), None)

    def total(field: str) -> int:
        return sum(int(event.get(field, 0)) for event in events)

    return {
        "name": name,
        "type": events[0].get("type", ""),
        "bytes": total("bytes"),
        "live_bytes": total("bytes") - total("overwritten"),
        "read_bytes": total("read"),
        "untouched_bytes": total("untouched"),
        "what": what,
        "save": what != LEFT_OUT,
        "why": next((event["why"] for event in events if event.get("why")), SMALL) if what == NOT_KNOWN else "",
        "part": _part(events),
        "line": checked_access.source_line(first["program"], int(first.get("offset", 0))) if first else "",
        "ranks_differ": len(set(known)) > 1,
    }


def _part(events: list[dict]) -> str:
    """Where the live elements lie in the array of a rank, if that is told in a few boxes."""
    parts = {str(event.get("part", "")) for event in events}
    if parts == {""}:
        return ""
    if len(parts) == 1:
        return parts.pop()
    return "; ".join(f"rank {event.get('rank', 0)}: {event.get('part') or 'all or none'}" for event in events[:4])


def _print(advice: dict, wanted: int) -> None:
    places = advice["places"]
    for place in places:
        if len(places) > 1:
            common.say(f"checkpoint() at {os.path.basename(place['line'])}, {common.plural(place['steps'], 'step')}:")
        if place["arrays"]:
            common.stdout().print(_table(place["arrays"]))
            common.say()
        if place["allocated"]:
            common.stdout().print(_table_of_allocated(place["allocated"]))
            common.say()
    if len(places) > 1:
        common.say(f"The fewest bytes are to be saved at {os.path.basename(advice['line'])}.")
    arrays = advice["arrays"]
    kept = [array for array in arrays if array["save"]]
    if arrays:
        all_bytes, kept_bytes = (sum(array["bytes"] for array in some) for some in (arrays, kept))
        common.say(f"To be saved: {common.human_bytes(kept_bytes)} of {common.human_bytes(all_bytes)}, on all ranks.")
        common.say(f"keep the calls that protect: {', '.join(map(_kept, kept)) or 'nothing'}")
        if len(kept) < len(arrays):
            left_out = (array["name"] for array in arrays if not array["save"])
            common.say(f"take out those that protect: {', '.join(left_out)}")
        common.say()
    _say_what_to_protect(advice)
    _say_how_sure(advice, wanted)
    if advice["status"]:
        print(f"backstay: {advice['program']} ended with status {advice['status']}.", file=sys.stderr, flush=True)


def _table_of_allocated(arrays: list[dict]):
    columns = ("allocated at", "bytes", "live", "after checkpoint()", "advice")
    table = common.table(*columns, right=("bytes", "live"), fixed=("after checkpoint()", "advice"))
    for array in arrays:
        several = f" ({array['arrays_of_a_rank']} arrays)" if array["arrays_of_a_rank"] > 1 else ""
        table.add_row(
            common.printable(_where(array)) + several,
            common.human_bytes(array["bytes"]),
            common.human_bytes(array["live_bytes"]),
            array["what"] + (", not all" if array["ranks_differ"] else ""),
            allocated.ADVICE.get(array["what"], "protect"),
        )
    return table


def _where(array: dict) -> str:
    where = os.path.basename(array["where"])
    return f"{where}, from {os.path.basename(array['from'])}" if array["from"] else where


def _say_what_to_protect(advice: dict) -> None:
    arrays, others = advice["allocated"], advice["others"]
    live = [array for array in arrays if array["save"]]
    if arrays:
        all_bytes, live_bytes = (sum(array["bytes"] for array in some) for some in (arrays, live))
        common.say(
            f"Allocated and not protected: {common.human_bytes(all_bytes)} on all ranks, of which "
            f"{common.human_bytes(live_bytes)} are live, or may be. NAME is the variable that holds it:"
        )
    for array in live:
        of = f" of {array['element']}" if array["element"] else ""
        several = f"{array['arrays_of_a_rank']} arrays" if array["arrays_of_a_rank"] > 1 else "an array"
        used = f"; {array['what']} at {os.path.basename(array['line'])}" if array["line"] else ""
        common.say(
            f"  {array['paste']}  {array['comment']} {several}{of}, {_where(array)}{_remark_on_part(array)}{used}"
        )
    for why in dict.fromkeys(array["why"] for array in arrays if array["why"]):
        common.say(f"not known: {'; '.join(_where(array) for array in arrays if array['why'] == why)}: {why}.")
    if others:
        count, size = (sum(other[name] for other in others.values()) for name in ("arrays", "bytes"))
        names = ", ".join(f"{name} ({common.human_bytes(other['bytes'])})" for name, other in others.items())
        common.say(
            f"Left out: {common.plural(count, 'array')}, {common.human_bytes(size)} on all ranks, that the program did "
            f"not allocate itself: {names}."
        )
    if arrays:
        common.say(
            "What was only allocated was judged in units of 8 bytes, by the instructions that used them; what is "
            "called overwritten first was seen to be, in each of the steps."
        )
    if arrays or others:
        common.say()


def _remark_on_part(array: dict) -> str:
    if array["live_bytes"] == array["bytes"]:
        return ""
    part = f": bytes {array['part']}" if array["part"] else ""
    return f", live {common.human_bytes(array['live_bytes'])} of {common.human_bytes(array['bytes'])}{part}"


def _table(arrays: list[dict]):
    table = common.table(
        "array", "bytes", "live", "after checkpoint()", "where", "advice", right=("bytes", "live"), fixed=("array",)
    )
    for array in arrays:
        table.add_row(
            common.printable(array["name"]),
            common.human_bytes(array["bytes"]),
            common.human_bytes(array["live_bytes"]),
            array["what"] + (", not on all ranks" if array["ranks_differ"] else ""),
            common.printable(os.path.basename(array["line"])),
            ADVICE.get(array["what"], "save"),
        )
    return table


def _kept(array: dict) -> str:
    if array["live_bytes"] == array["bytes"]:
        return array["name"]
    part = f": {array['part']}" if array["part"] else ""
    how = "perhaps" if array["what"] == PERHAPS else "live"
    size = f"{common.human_bytes(array['live_bytes'])} of {common.human_bytes(array['bytes'])}"
    return f"{array['name']} ({how} {size}{part})"


def _say_how_sure(advice: dict, wanted: int) -> None:
    arrays = advice["arrays"]
    if any(array["what"] == PERHAPS for array in arrays):
        common.say(
            "leave out?: all but the part that is named was seen to be overwritten first. It need not be saved if that "
            "part is overwritten in each step, too."
        )
    for why in dict.fromkeys(array["why"] for array in arrays if array["why"]):
        common.say(f"not known: {', '.join(array['name'] for array in arrays if array['why'] == why)}: {why}.")
    seldom = [place for place in advice["places"] if place["steps"] < 2]
    if seldom:
        common.say("Places with less than 2 whole steps: nothing is known of them.")
    steps = advice["steps"]
    fewer = f" ({wanted} were asked for)" if steps < wanted else ""
    proven = "; what is called overwritten first was proven to be" if arrays else ""
    common.say(f"Live is what was read before it was overwritten, or not touched, by elements{proven}.")
    common.say(
        f"Seen were {steps} steps{fewer} of this run, with this input, and nothing else: what is read in another step "
        "only, as by output every hundredth or after an error, is not in it. Nor are single variables (the step, the "
        "time), and arrays that are static, saved between calls, or on the stack: those are protected by hand."
    )
