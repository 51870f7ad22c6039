"""What `backstay advise` says of arrays that a program only allocates: the session tells what became of each, and where
its callers are in the program; here they are put together by the place where they were allocated."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .observed import LEFT_OUT, NOT_KNOWN, ORDER, PERHAPS, fate

LEAST = 16384  # bytes: smaller ones have no memory pages of their own
ADVICE = {LEFT_OUT: "leave out", NOT_KNOWN: "protect?"}  # all else: protect
VECTOR = re.compile(r"\b_?[vV]ector(?:_base)?<(.+?)(?:, std::allocator<|>)")
FORTRAN = {".f", ".f90", ".f95", ".f03", ".f08", ".for"}


class Caller(NamedTuple):
    function: str
    line: str  # FILE:LINE, or empty


def environment(least: int, libraries: Iterable[str]) -> dict[str, str]:
    """The variables that make the preloaded library note who allocates."""
    return {"BACKSTAY_ALLOCATIONS": str(least), "BACKSTAY_ALLOCATIONS_OF": ":".join(libraries)}


def what_became_of(event: dict) -> str:
    """In units of 8 bytes, of which a part may have been used: what was overwritten where seen is not known."""
    if event.get("why") and not int(event.get("overwritten", 0)) and not int(event.get("read", 0)):
        return NOT_KNOWN
    seen = fate(event)
    return NOT_KNOWN if seen == PERHAPS else seen


def arrays_of(told: Iterable[dict], late: Iterable[dict], ranks: int, line_of) -> list[dict]:
    """By the place where they were allocated, the largest first. `told`: what of each array became, the last that each
    rank said; `late`: how many were made later; `line_of(program, offset)`: FILE:LINE."""
    told, late = list(told), list(late)
    groups: dict[str, list[dict]] = {}
    for event in told:
        groups.setdefault(str(event.get("callers", "")), []).append(event)
    made_later: dict[str, list[dict]] = {}
    for event in late:
        made_later.setdefault(str(event.get("callers", "")), []).append(event)
    known = _callers_of({frame for text in [*groups, *made_later] for frame in text.split("\n")})
    arrays = [_group(text, events, made_later.pop(text, []), ranks, known, line_of) for text, events in groups.items()]
    arrays += [_group(text, [], events, ranks, known, line_of) for text, events in made_later.items()]
    return sorted(arrays, key=lambda array: -array["bytes"])


def _group(text: str, events: list[dict], late: list[dict], ranks: int, known: dict, line_of) -> dict:
    fates = [what_became_of(event) for event in events]
    why = next((str(event["why"]) for event in events if event.get("why")), "")
    if late:
        fates.append(NOT_KNOWN)
        why = why or "it was made after the first step that was looked at"
    elif len({event.get("rank", 0) for event in events}) < ranks:
        fates.append(NOT_KNOWN)
        why = why or "not all ranks have it"
    what = min(fates, key=ORDER.index)
    first = next((e for e, fate in zip(events, fates) if fate == what and e.get("program")), None)
    total = {
        name: sum(int(event.get(name, 0)) for event in events) for name in ("bytes", "overwritten", "read", "untouched")
    }
    of_late = {name: sum(int(event.get(name, 0)) for event in late) for name in ("arrays", "bytes")}
    frames = text.split("\n")
    return {
        **_place(frames, known),
        "arrays": len(events) + of_late["arrays"],
        "arrays_of_a_rank": _most_of_a_rank(events, late),
        "bytes": total["bytes"] + of_late["bytes"],
        "live_bytes": total["bytes"] + of_late["bytes"] - total["overwritten"],
        "read_bytes": total["read"],
        "untouched_bytes": total["untouched"],
        "what": what,
        "save": what != LEFT_OUT,
        "why": (why or "used as smaller values than 8 bytes, by the system, or too often in a step")
        if what == NOT_KNOWN
        else "",
        "part": _part(events),
        "line": line_of(first["program"], int(first.get("offset", 0))) if first else "",
        "ranks_differ": len(set(fates)) > 1,
    }


def _most_of_a_rank(events: list[dict], late: list[dict]) -> int:
    count = Counter(event.get("rank", 0) for event in events)
    for event in late:
        count[event.get("rank", 0)] += int(event.get("arrays", 0))
    return max(count.values(), default=0)


def _part(events: list[dict]) -> str:
    """Which bytes of the array are live, where that is the same few ranges in all of them."""
    parts = {str(event.get("part", "")) for event in events}
    if len(parts) != 1:
        return ""
    return re.sub(r"\[(\d+):(\d+)\]", lambda m: f"[{8 * int(m[1])}:{8 * int(m[2])}]", parts.pop())


def _place(frames: list[str], known: dict[str, list[Caller]]) -> dict:
    """Where people look for it: the first line that is none of a header of the C++ library."""
    callers = [caller for frame in frames for caller in known.get(frame, [])]
    own = [caller for caller in callers if caller.line and not _is_of_the_language(caller.line)]
    main = next((i for i, caller in enumerate(own) if caller.function in ("main", "MAIN__")), len(own))
    own = own[: main + 1]  # a Fortran program has a main() of its own around it
    where = own[0].line if own else ""
    others = [caller.line for caller in own if caller.line != where]
    if not where:
        function = next((c.function for c in callers if c.function not in ("", "??")), "")
        program = frames[0].rsplit("/", 1)[-1]
        where = f"{function} ({program})" if function else program
    vectors = [m[1] for c in callers if (m := VECTOR.search(c.function)) and c.line != where]
    return {
        "where": where,
        "from": others[0] if others else "",
        "paste": _paste(where, bool(vectors)),
        "comment": "!" if _language_of(where) == "fortran" else "//",
        "element": next(iter(_elements(frames, known)), ""),
    }


def _elements(frames: list[str], known: dict[str, list[Caller]]) -> Iterable[str]:
    """Of vectors whose functions were put into the program's own. A compiler that optimises makes one of functions with
    the same instructions, as those of vectors of double and of long may be: which name that has says nothing. One that
    does not leaves the vector's functions as they are, one calling the other."""
    chains = [chain for frame in frames if (chain := known.get(frame))]
    alone = sum(_is_of_the_language(chain[-1].line) and bool(VECTOR.search(chain[-1].function)) for chain in chains)
    for chain in chains:
        if alone > 2 or not _is_of_the_language(chain[-1].line):
            yield from (m[1] for c in chain if (m := VECTOR.search(c.function)))


def _is_of_the_language(line: str) -> bool:
    return "/include/c++/" in line or line.startswith(("/usr/include/", "/usr/lib/"))


def _language_of(where: str) -> str:
    """`where`: "FILE:LINE"."""
    suffix = Path(where.rsplit(":", 1)[0]).suffix
    if suffix.lower() in FORTRAN:
        return "fortran"
    return "c" if suffix == ".c" else "c++"


def _paste(where: str, is_vector: bool) -> str:
    language = _language_of(where)
    if language == "c":
        fields = '.name = "NAME", .type = BACKSTAY_TYPE_OF(*NAME), .ndim = 1, .shape = &COUNT, .data = NAME'
        return f"backstay_protect(run, &(backstay_region){{{fields}}}, &error);"
    if language == "fortran":
        return 'call run%protect("NAME", backstay_data(NAME))'
    return 'run.protect("NAME", NAME);' if is_vector else 'run.protect("NAME", backstay::array(NAME, {COUNT}));'


def _callers_of(frames: set[str]) -> dict[str, list[Caller]]:
    """Of each "PROGRAM+0xOFFSET" the functions and lines, those that were put into others first."""
    by_program: dict[str, list[str]] = {}
    for frame in frames:
        program, _, offset = frame.rpartition("+")
        if program:
            by_program.setdefault(program, []).append(offset)
    out: dict[str, list[Caller]] = {}
    for program, offsets in by_program.items():
        for offset, callers in _ask(program, offsets).items():
            out[f"{program}+{offset}"] = callers
    return out


def _ask(program: str, offsets: list[str]) -> dict[str, list[Caller]]:
    tool = shutil.which("addr2line")
    if not tool or not Path(program).is_file():
        return {}
    command = [tool, "-a", "-i", "-f", "-C", "-e", program, *offsets]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    out: dict[str, list[Caller]] = {}
    parts = re.split(r"^0x0*([0-9a-f]+)$", answer, flags=re.MULTILINE)
    for offset, text in zip(parts[1::2], parts[2::2]):
        lines = text.strip().split("\n")
        out[f"0x{offset}"] = [Caller(function, _line(line)) for function, line in zip(lines[0::2], lines[1::2])]
    return out


def _line(text: str) -> str:
    line = text.split(" ")[0].strip()
    return "" if not line or line.startswith("?") or line.endswith((":?", ":0")) else line


def others_of(events: Iterable[dict]) -> dict[str, dict[str, int]]:
    """What is not the program's, on all ranks, by who made it. What a rank said last counts."""
    last = {(event.get("rank", 0), str(event.get("maker", ""))): event for event in events}
    out: dict[str, dict[str, int]] = {}
    for (_, maker), event in last.items():
        sums = out.setdefault(maker, {"arrays": 0, "bytes": 0})
        for name in sums:
            sums[name] += int(event.get(name, 0))
    return dict(sorted(out.items(), key=lambda item: -item[1]["bytes"]))
