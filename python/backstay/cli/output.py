"""What a command writes for its user, as a picture or an export: where it may go, and failures as sentences."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from backstay.lines import COMPANIONS, LEVELS, Problem, is_checkpoint_directory

# What backstay keeps in a checkpoint directory or in that of a node, and with it all that is below (docs/format.md).
_KEPT = re.compile(
    rf"(session\.json|events\.jsonl|lock|run\.lock|node-\d{{1,9}}|memory2?|{'|'.join(LEVELS + COMPANIONS)})(\.part)?"
)


def require_outside(path: Path) -> None:
    """A Problem if `path` is what backstay keeps in any checkpoint directory, or below that: to write there would
    destroy it. Another name directly in such a directory is fine."""
    # Replacing a link replaces the link itself; writing into a directory that is one goes to where it leads.
    for real in (Path(os.path.realpath(path.parent)) / path.name, Path(os.path.realpath(path))):
        for inner, outer in _steps(real):
            if _KEPT.fullmatch(inner.name) and is_checkpoint_directory(outer):
                raise Problem(
                    f"{path} is among what backstay keeps in the checkpoint directory {outer}, and is not written: "
                    "choose a place outside of it.",
                    "mismatch",
                )


def _steps(path: Path) -> Iterator[tuple]:
    """(path, the directory that it is in), and the same for each directory above."""
    here = path
    while here != here.parent:
        yield here, here.parent
        here = here.parent


def require_file_name(path: Path) -> None:
    """Wrong usage unless `path` ends in a name, and a Problem if that is a directory's."""
    if path.name in ("", ".."):
        raise typer.BadParameter(f"'{path}' names no file: give one, such as picture.png.")
    if path.is_dir():
        raise Problem(f"{path} is a directory: name a file in it, such as {path / 'picture.png'}.", "mismatch")


def require_parent(path: Path) -> None:
    """A Problem unless the directory is there in which `path` is to be made: it may be mistyped."""
    if not path.parent.is_dir():
        raise Problem(f"There is no directory {path.parent} to write {path.name} to: make it, or name another with -o.")


def require_place(path: Path, force: bool) -> None:
    """Before anything is read: a file may be written there."""
    require_file_name(path)
    require_outside(path)
    require_parent(path)
    require_free(path, force)


def require_free(path: Path, force: bool) -> None:
    """A Problem if something is at `path` and may not be replaced. An empty directory is nothing."""
    taken = os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir()))
    if taken and not force:
        raise Problem(f"{path} is there already: choose another name, or --force to replace it.")


@contextlib.contextmanager
def failures_named(path: Path):
    """What the system or HDF5 says of a failure to write becomes a sentence about `path`."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else innermost(error)
        raise Problem(f"{path} cannot be written: {why}.", "io") from error


def innermost(error: Exception) -> str:
    """Of HDF5's nested "unable to do this (unable to do that (the cause))" the cause."""
    cause = re.search(r"\(([^()]+)\)+$", str(error))
    return cause[1] if cause else str(error)
