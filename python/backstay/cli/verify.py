"""`backstay verify`: every byte of every copy."""

import time
from typing import Annotated, Optional

import typer

from backstay.cli import common
from backstay.lines import COMPANIONS, Damage, Directory, Line, read_line, verify_line
from backstay.locks import is_job_running

SECONDS_OF_A_CHANGE = 1.0  # between what a job renames or removes on one node and on the next
MOST_CHANGES = 3

TargetArgument = Annotated[
    Optional[str], typer.Argument(metavar="LINE|DIR|DIR@LINE", help="What to check; every line if none is named.")
]


def verify(
    target: TargetArgument = None,
    dir_option: common.DirOption = None,
    level: common.LevelOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Headers, tables, HDF5 metadata, every region's checksum and the zeros between, of the original and of the
    partner's copy. Prints one sentence for each damage; the exit status is 1 if there is any."""
    wanted = common.Target(target, dir_option, None, level)
    directory = wanted.open_ours()
    common.warn_of_what_is_away(directory)
    lines = wanted.lines()
    lines += {id(line.statics): line.statics for line in lines if line.statics}.values()  # each of them once
    started = time.monotonic()
    with common.Progress("checking", sum(line.stored_bytes for line in lines)) as progress:
        results = [_verify(line, directory, progress) for line in lines]
    seconds = time.monotonic() - started
    damage = [d for result in results for d in result["damage"]]
    if as_json:
        _print_json(wanted, results, progress.done, seconds)
    else:
        _print(wanted, results, damage, progress.done, seconds)
    if damage:
        raise typer.Exit(1)


def _verify(line: Line, directory: Directory, progress: common.Progress) -> dict:
    """A running job commits and retires a line node by node: what is missing between is no damage."""
    result = _verify_as_it_is(line, progress)
    for _ in range(MOST_CHANGES):
        if not result["damage"] or (line := _as_changed(line, directory)) is None:
            break
        if line.unfinished:
            return {"line": line, "retired": True, "whole": False, "readable": False, "damage": []}
        result = _verify_as_it_is(line, progress)
    return result


def _as_changed(line: Line, directory: Directory) -> Optional[Line]:
    """The line as it is now; None: nothing changes it."""
    deadline = time.monotonic() + SECONDS_OF_A_CHANGE
    while is_job_running(directory) is not False and time.monotonic() < deadline:
        if (now := read_line(directory, line)).state() != line.state():
            return now
        time.sleep(0.05)
    return None


def _verify_as_it_is(line: Line, progress: common.Progress) -> dict:
    found = verify_line(line, progress.advance)
    damage = found.damage
    if not damage and not line.whole:
        damage = [Damage(line.number, line.level, "", f"{line.heading}: {line.why}.")]
    # What a running job retired meanwhile was overwritten under our eyes: that is no damage.
    gone = line.manifest is not None and not line.still_there()
    retired, whole = line.left_behind or gone, line.whole and not gone
    result = {"line": line, "retired": retired, "whole": whole, "readable": found.readable and whole}
    return {**result, "damage": [] if retired else damage}


def _print_json(wanted: common.Target, results: list, done: int, seconds: float) -> None:
    lines = [
        {
            "line": r["line"].number,
            "level": r["line"].level,
            "whole": r["whole"],
            "retired": r["retired"],
            "readable": r["readable"],
            "damage": [{"path": d.path, "sentence": d.sentence} for d in r["damage"]],
        }
        for r in results
    ]
    count = sum(len(r["damage"]) for r in results)
    common.print_json(
        {"dir": str(wanted.path), "ok": count == 0, "damaged": count, "bytes": done, "seconds": seconds, "lines": lines}
    )


def _print(wanted: common.Target, results: list, damage: list, done: int, seconds: float) -> None:
    for d in damage:
        common.say(d.sentence, style="red")
    for r in results:
        if r["line"].left_behind:
            where = " and ".join(str(holding.path) for holding in r["line"].committed_holdings)
            common.say(
                f"{r['line'].heading} was retired by nodes that the job went on with; {where} is left of it, which is "
                "no damage: `backstay prune` removes it.",
                style="dim",
            )
        elif r["retired"]:
            common.say(f"The running job retired {r['line'].title} while it was checked.", style="dim")
    if not results:
        common.say(f"There is no line{wanted.at()} to check yet.")
        return
    checked = f"{common.plural(len(results), 'line')}, {common.human_bytes(done)} checked in {seconds:.1f} s"
    if not damage:
        common.say(f"{checked}: no damage.", style="green")
        return
    for sentence in _what_is_left(results):
        common.say(sentence)
    bad = sum(1 for r in results if r["damage"])
    common.say(f"{checked}: damage in {common.plural(bad, 'line')}, at {common.plural(len(damage), 'place')}.")


def _what_is_left(results: list) -> list:
    """For each line that a level has lost: which other level still has it."""
    out = []
    for lost in [r["line"] for r in results if not r["readable"] and not r["retired"]]:
        of_statics = lost.level in COMPANIONS  # which have numbers among those of lines
        others = [r["line"] for r in results if r["readable"] and r["line"].number == lost.number]
        others = [line for line in others if (line.level in COMPANIONS) == of_statics]
        level = next((line.level for line in others if lost.may_be_of_checkpoint_of(line)), None)
        if level:
            out.append(f"{lost.heading} cannot be read, but level {level} has this line, too, and can be read.")
    return out
