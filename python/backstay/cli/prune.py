"""`backstay prune`: removes old lines."""

import contextlib
import errno
import os
import stat
from typing import Annotated

import typer

from backstay.cli import common
from backstay.lines import LEVELS, Directory, Line, Problem, read_lines, static_lines, verify_line
from backstay.locks import is_job_running, locked


def prune(
    keep: Annotated[int, typer.Option("--keep", metavar="N", min=1, help="Whole lines to keep at each level.")],
    directory: common.DirArgument = None,
    dir_option: common.DirOption = None,
    level: common.LevelOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be removed.")] = False,
    trust: Annotated[bool, typer.Option("--trust", help="Do not check the bytes of the lines that are kept.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Go on where the file system cannot lock.")] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Keeps the N newest whole lines of each level and removes what is older: whole, damaged or never finished. Every
    byte of what is kept is checked first, so that the last good line is not removed in favour of a damaged one. What
    is newer than the newest whole line stays. Refuses while a job is running: that one prunes by itself."""
    target = common.Target(directory, dir_option, None, level)
    if target.number is not None:
        raise typer.BadParameter(
            f"Line {target.number} is named, but prune takes a directory, and removes its old lines."
        )
    opened = target.open_ours()
    common.warn_of_what_is_away(opened)
    if dry_run and is_job_running(opened):
        common.warn("A job is running here; without --dry-run this would be refused.")
    with contextlib.nullcontext() if dry_run else locked(opened, force):
        levels = [target.level] if target.level else list(LEVELS)
        kept, removed = _decide(opened, levels, keep, trust)
        freed = sum(_size(line) for line in removed)
        if not dry_run:
            _make_names_durable(kept + [line.statics for line in kept if line.statics])
            _remove(removed)
    if as_json:
        _print_json(kept, removed, freed, dry_run)
    else:
        _print(target, kept, removed, freed, dry_run)


def _decide(opened: Directory, levels: list, keep: int, trust: bool) -> tuple:
    """(kept, removed). A level without a good line loses nothing."""
    kept, removed = [], []
    for level in levels:
        lines = read_lines(opened, level)
        good = _newest_good(lines, keep, trust)
        kept += good
        if good:
            numbers = {line.number for line in good}
            gone = [line for line in lines if line.number < good[0].number and line.number not in numbers]
            left = [line for line in lines if line.number >= good[0].number or line.number in numbers]
            removed += gone + _statics_of_none(opened, level, left)
    return kept, removed


def _statics_of_none(opened: Directory, level: str, left: list) -> list:
    """Lines of static regions that no line names which is left. Nothing where a line is left that nobody can read."""
    if any(line.manifest is None and not line.unfinished for line in left):
        return []
    named = {line.manifest.statics for line in left if line.manifest}
    oldest = min((line.number for line in left if not line.unfinished), default=0)
    return [line for line in static_lines(opened, level) if line.number not in named and line.number < oldest]


def _newest_good(lines: list, keep: int, trust: bool) -> list:
    good = []
    candidates = [line for line in lines if line.whole]
    with common.Progress("checking what is kept", sum(line.stored_bytes for line in candidates[:keep])) as progress:
        for line in candidates:
            if len(good) == keep:
                break
            if trust or _is_readable(line, progress):
                good.append(line)
            else:
                common.warn(f"{line.heading} is damaged and does not count: `backstay verify` says how.")
    return good


def _is_readable(line: Line, progress: common.Progress) -> bool:
    return all(verify_line(part, progress.advance).readable for part in (line, line.statics) if part)


def _size(line: Line) -> int:
    total = 0
    for holding in line.holdings:
        with contextlib.suppress(OSError):
            total += sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(holding.path))
    return total


def _make_names_durable(lines: list) -> None:
    """A job that was killed may have left the names of a line that is kept in the page cache only."""
    for line in lines:
        for holding in line.holdings:
            try:
                _sync(holding.path)
                _sync(holding.path.parent)
            except OSError as error:
                raise Problem(f"{line.heading} cannot be made durable ({error}): nothing was removed.", "io") from error


def _remove(lines: list) -> None:
    """Oldest first. All manifests of a line go before its files, so that a stop in between leaves no torn line."""
    for line in reversed(lines):
        try:
            _remove_line(line)
        except OSError as error:
            hint = ": prune as its owner" if error.errno in (errno.EACCES, errno.EPERM) else ""
            why = f"{error.filename}: {error.strerror}"
            raise Problem(f"{line.heading} cannot be removed ({why}){hint}.", "io") from error


def _remove_line(line: Line) -> None:
    for holding in line.holdings:
        if holding.path.is_symlink():
            raise Problem(f"{holding.path} is a link, which backstay does not make: remove it by hand.", "io")
    for holding in line.holdings:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(holding.path / "manifest")
        _sync(holding.path)
    for holding in line.holdings:
        _remove_directory(holding.path)


def _sync(path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove_directory(path) -> None:
    """Only the plain files of the directory, and then itself: nothing that somebody else put there deeper down."""
    for entry in os.scandir(path):
        if not stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode):
            os.unlink(entry.path)
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise Problem(
            f"{path} holds a directory that backstay did not make; its other files are removed.", "io"
        ) from error


def _brief(line: Line) -> dict:
    return {
        "line": line.number,
        "level": line.level,
        "whole": line.whole,
        "paths": [str(h.path) for h in line.holdings],
    }


def _print_json(kept: list, removed: list, freed: int, dry_run: bool) -> None:
    common.print_json(
        {
            "dry_run": dry_run,
            "kept": [_brief(line) for line in kept],
            "removed": [_brief(line) for line in removed],
            "freed_bytes": freed,
        }
    )


def _print(target: common.Target, kept: list, removed: list, freed: int, dry_run: bool) -> None:
    verb = "would be removed" if dry_run else "removed"
    for line in removed:
        common.say(f"{verb}: {line.title}{_state(line)}")
    if not kept:
        common.say(f"There is no whole line in {target.path}, so nothing is removed.")
    elif not removed:
        common.say(f"Nothing to remove: {common.plural(len(kept), 'whole line')} kept.")
    else:
        done = "would be freed" if dry_run else "freed"
        common.say(f"{common.human_bytes(freed)} {done}; {common.plural(len(kept), 'whole line')} kept.", style="green")


def _state(line: Line) -> str:
    if line.whole:
        return ""
    return (
        " (left behind)"
        if line.left_behind
        else " (retired)"
        if line.retired
        else " (unfinished)"
        if line.unfinished
        else " (not whole)"
    )
