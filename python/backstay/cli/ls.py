"""`backstay ls`: which lines there are."""

import time
from typing import Annotated, Optional

import typer
from rich.text import Text

from backstay.cli import common
from backstay.lines import Directory, Line, Problem, read_lines
from backstay.locks import is_job_running
from backstay.regions import arrays_by_name

LONG_TABLE = 200  # files; beyond, finding the step would read too much for a list


NARROW = 64  # columns; below, whether a line is whole matters more than its size


def ls(
    directory: common.DirArgument = None,
    dir_option: common.DirOption = None,
    level: common.LevelOption = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also directories without a manifest: being written, or retired.")
    ] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Works while the job runs. A line is called whole after a look at every file's size and header; `backstay verify`
    checks every byte."""
    target = common.Target(directory, dir_option, None, level)
    opened = target.open_ours()
    common.warn_of_what_is_away(opened)
    lines = read_lines(opened, target.level, target.number)
    if not lines and target.number is not None:
        raise target.no_such_line()
    shown = [line for line in lines if everything or not line.unfinished]
    rows = [_describe(line) for line in shown]
    running = is_job_running(opened)
    if as_json:
        common.print_json({"dir": str(target.path), "running": running, "lines": rows})
        return
    _print(opened, shown, rows)
    _print_statics(shown)
    if not shown:
        common.say(_nothing(target))
    _print_footer(running, [] if everything else [line for line in lines if line.unfinished])


def _describe(line: Line) -> dict:
    m = line.manifest
    return {
        "line": line.number,
        "level": line.level,
        "whole": line.whole,
        "retired": line.retired,
        "why": line.why,
        "notes": line.notes,
        "step": step_of(line),
        "call": m.call if m else None,
        "time": m.time if m else None,
        "age_seconds": max(0.0, time.time() - m.time) if m else None,
        "bytes": line.bytes if m else None,
        "stored_bytes": line.stored_bytes if m else None,
        "static_line": m.statics or None if m else None,
        "static_bytes": line.statics.bytes if line.statics else None,
        "ranks": m.ranks if m else None,
        "files": len(m.files) if m else None,
        "job": m.job if m else None,
        "program": m.program if m else None,
        "paths": [str(h.path) for h in line.holdings],
    }


def step_of(line: Line) -> Optional[int]:
    """The value of the region `step`, which most programs protect, or None."""
    if not line.whole or len(line.manifest.files) > LONG_TABLE:
        return None
    try:
        step = arrays_by_name(line).get("step", [None])[0]
        if step is None or step.problem or step.dtype.kind not in "iu" or step.bytes != step.dtype.itemsize:
            return None
        return int(step.all().reshape(-1)[0])
    except Problem:  # retired meanwhile, or damaged: verify says so
        return None


def _print(opened: Directory, lines: list, rows: list) -> None:
    if lines and common.stdout().width < NARROW:
        for line in lines:
            common.stdout().print(Text.assemble(f"{line.title}: ", _state(opened, line)))
    elif lines:
        fixed = ("level", "age", "size")
        made = common.table(
            "line", "level", "step", "age", "size", "ranks", "state", right=("line", "step", "ranks"), fixed=fixed
        )
        for line, row in zip(lines, rows):
            made.add_row(*_cells(opened, line, row))
        common.stdout().print(made)


def _print_statics(lines: list) -> None:
    """What lines share is not part of their sizes."""
    for statics in {id(line.statics): line.statics for line in lines if line.statics}.values():
        users = sum(line.statics is statics for line in lines)
        size = common.human_bytes(statics.bytes)
        common.say(f"Static regions of {common.plural(users, 'line')}: {size} in {statics.title}.", style="dim")


def _nothing(target: common.Target) -> str:
    if target.number is not None:
        return f"Line {target.number}{target.at()} has no manifest: it is being written, was given up, or is retired."
    return f"There is no line{target.at()} yet."


def _print_footer(running: Optional[bool], hidden: list) -> None:
    footer = ["A job is running here."] if running else []
    unfinished = sum(not line.retired for line in hidden)  # those that are retired are there as long as the job
    if unfinished:
        what = "directory without a manifest is" if unfinished == 1 else "directories without a manifest are"
        footer.append(f"{unfinished} {what} not shown (--all).")
    if footer:
        common.say(" ".join(footer), style="dim")


def _cells(opened: Directory, line: Line, row: dict) -> list:
    dash = Text("-", style="dim")
    if line.manifest is None:
        return [str(line.number), line.level, dash, dash, dash, dash, _state(opened, line)]
    step = str(row["step"]) if row["step"] is not None else Text(f"call {row['call']}", style="dim")
    age, size = common.human_age(time.time() - row["time"]), common.human_bytes(row["bytes"])
    return [str(line.number), line.level, step, age, size, str(row["ranks"]), _state(opened, line)]


def _state(opened: Directory, line: Line) -> Text:
    if line.unfinished:
        return Text("retired" if line.retired else "unfinished", style="dim")
    if line.left_behind:
        return Text(
            f"left behind by {common.plural(len(line.committed_holdings), 'node')}, and retired by the others",
            style="dim",
        )
    if not line.whole:
        return Text(f"not whole: {_short(opened, line.why)}", style="red")
    if line.notes:
        lost = "a copy is" if len(line.notes) == 1 else f"{len(line.notes)} copies are"
        if line.from_parity:
            lost = "a file is" if len(line.notes) == 1 else f"{len(line.notes)} files are"
        return Text.assemble(("whole", "green"), (f", but {lost} lost", "yellow"))
    return Text("whole", style="green")


def _short(opened: Directory, sentence: str) -> str:
    """Paths from the checkpoint directory on: its own name is known."""
    return common.printable(sentence.replace(f"{opened.path}/", ""))
