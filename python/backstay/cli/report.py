"""`backstay report`: what became of a job, as one page."""

import os
from pathlib import Path
from typing import Annotated, Optional

import typer

from backstay.cli import common, report_page
from backstay.cli.output import failures_named, require_place
from backstay.history import History, human_bytes, human_seconds, named_sessions, read_history
from backstay.lines import Problem


def report(
    directory: common.DirArgument = None,
    dir_option: common.DirOption = None,
    out: Annotated[
        Optional[Path], typer.Option("--out", "-o", metavar="PAGE.html", help="Write the page here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is at PAGE.html.")] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Of the newest run in the directory: steps over time, checkpoints of each level, failures and repairs, bytes and
    bandwidth, time stood still and work computed again. In the terminal, as a self-contained HTML page, or as JSON.
    Works while the job runs."""
    target = common.Target(directory, dir_option, None, None)
    if target.number is not None:
        raise typer.BadParameter(f"Line {target.number} is named, but report is about a whole directory.")
    if out:
        require_place(out, force)
    history = read_history(target.path)
    if history is None:
        sessions = [str(session) for session in named_sessions(target.path)]
        if len(sessions) > 1:
            choice = " or ".join(sessions)
            raise Problem(f"{target.path} has several sessions: name the directory of one, {choice}.", "missing")
        target.open_ours()  # says what is wrong with the directory, if something is
        raise Problem(f"{target.path} has no events yet: they are written by a job that runs there.", "missing")
    if out:
        _write(out, report_page.page(history))
    if as_json:
        common.print_json(history.as_dict() | ({"out": str(out)} if out else {}))
    else:
        _print(history, out)


def _write(out: Path, text: str) -> None:
    part = out.with_name(f".{out.name}.part")
    try:
        with failures_named(out):
            part.write_text(text, encoding="utf-8", errors="replace")  # names of files can be any bytes
            os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)


def _print(history: History, out: Optional[Path]) -> None:
    seconds, size = human_seconds, human_bytes
    launches = common.plural(history.launches, "launch") if history.launches == 1 else f"{history.launches} launches"
    common.say(
        f"{history.program or 'A job'} on {history.ranks} ranks: {history.state} after {seconds(history.seconds)}, "
        f"{launches}.",
        style="bold",
    )
    for level in history.levels:
        given_up = f", {level.given_up} given up" if level.given_up else ""
        common.say(
            f"  {level.level:8} {common.plural(level.lines, 'line')}{given_up}, {size(level.bytes)}, whole in "
            f"{seconds(level.seconds)} each, {size(level.bytes_per_second)}/s (medians)"
        )
    for loss in history.losses:
        still = f"; stood still {seconds(loss.stood_still)}" if loss.stood_still else ""
        again = f", {seconds(loss.lost_work)} computed again" if loss.lost_work else ""
        common.say(f"  at {seconds(loss.time)}: {loss.what}: {loss.how}{still}{again}", style="yellow")
    if out:
        common.say(f"Written to {out}.", style="dim")
    else:
        common.say("A page of it: --out report.html", style="dim")
