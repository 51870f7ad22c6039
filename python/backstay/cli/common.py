"""What the commands share: which directory and line is meant, sentences, tables, JSON, progress."""

import contextlib
import json
import math
import os
import re
import shlex
import sys
import time
from enum import Enum
from pathlib import Path
from typing import Annotated, Callable, Optional

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backstay.lines import Directory, Line, Problem, Unreadable, newest_whole, open_directory, read_lines

DEFAULT_DIR = "backstay-checkpoints"
ATTEMPTS = 5  # a running job may retire a line while it is read; five in a row would mean that it never pauses
MOST_NAMES = 10  # of sessions in a sentence
PATIENCE = 2.0  # seconds before a progress bar appears


class Level(str, Enum):
    shared = "shared"
    partner = "partner"
    local = "local"
    local2 = "local2"


# The arguments and options that several commands have.
TargetArgument = Annotated[
    Optional[str],
    typer.Argument(metavar="LINE|DIR|DIR@LINE", help="What to read; the newest whole line if no line is named."),
]
DirArgument = Annotated[Optional[str], typer.Argument(metavar="DIR", help="The checkpoint directory.")]
DirOption = Annotated[
    Optional[str],
    typer.Option("--dir", "-d", metavar="DIR", envvar="BACKSTAY_DIR", help=f"Default: ./{DEFAULT_DIR}"),
]
LineOption = Annotated[Optional[int], typer.Option("--line", metavar="N", min=0, help="The line to read.")]
LevelOption = Annotated[Optional[Level], typer.Option("--level", help="Lines of this level only.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]


def stdout() -> Console:
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def stderr() -> Console:
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(sentence: str = "", style: Optional[str] = None) -> None:
    """A sentence on stdout. Wrapped by the terminal, not by us: a path stays in one piece."""
    stdout().print(printable(sentence), style=style, soft_wrap=True)


def warn(sentence: str) -> None:
    stderr().print(printable(sentence), style="yellow", soft_wrap=True)


def fail(sentence: str, as_json: bool) -> None:
    """What a command says that cannot do its work; whoever asked for JSON reads it there, too, if stdout is not what
    failed."""
    complain(sentence)
    with output_may_fail():
        if as_json:
            print_json({"ok": False, "error": sentence})
        sys.stdout.flush()


@contextlib.contextmanager
def output_may_fail():
    """Around what is written to stdout after a failure: that there is no room for it is no news any more."""
    try:
        yield
    except OSError:
        forget_stdout()


def forget_stdout() -> None:
    """What could not be written is still in Python's buffer, and would fail once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(sentence: str) -> None:
    """An error on stderr, with the words 'backstay: ' before it, so that a job's log says who speaks."""
    stderr().print(Text.assemble(("backstay: ", "bold red"), printable(sentence)), soft_wrap=True)


# ---- which directory, which line --------------------------------------------------------------------------------


class Target:
    """A directory, and perhaps a line in it, as the user named them."""

    def __init__(self, text: Optional[str], directory: Optional[str], line: Optional[int], level: Optional[Level]):
        path, number = split_target(text)
        named = directory and os.environ.get("BACKSTAY_DIR") != directory
        if number is not None and "@" not in text and not named and os.path.isdir(text):
            raise typer.BadParameter(f"{text} is a directory here: write ./{text} for it, or @{text} for that line.")
        if path and named:
            raise typer.BadParameter(f"Two directories are named: {path} and {directory}.")
        if number is not None and line is not None and number != line:
            raise typer.BadParameter(f"Two lines are named: {number} and {line}.")
        self.path = Path(path or directory or DEFAULT_DIR)
        self.number = line if number is None else number
        self.level = level.value if level else None

    def open(self) -> Directory:
        return open_directory(self.path)

    def open_ours(self) -> Directory:
        """The directory, or a Problem if no job has worked in it, or if only sessions below it hold anything."""
        directory = self.open()
        if not directory.has_lines():
            _refuse_named_sessions(directory)
        if not directory.is_ours():
            raise Problem(
                f"{self.path} does not look like a checkpoint directory, because it holds nothing of backstay, such as "
                "session.json or a level: is this the right directory?",
                "missing",
            )
        return directory

    def lines(self) -> list:
        """The committed lines that are meant, newest first; a Problem where a named line is not there."""
        directory = self.open()
        lines = [x for x in read_lines(directory, self.level, self.number) if not x.unfinished]
        if not lines and not directory.has_lines():
            _refuse_named_sessions(directory)
        if not lines and self.number is not None:
            raise self.no_such_line()
        return lines

    def no_such_line(self) -> Problem:
        return Problem(f"There is no line {self.number}{self.at()}: `backstay ls {self.path}` shows those there are.")

    def copies(self) -> list:
        """The line that is meant, the newest whole one if no number was given: once for each level that has it, also
        where it is not whole."""
        lines = self.lines()
        whole = newest_whole(lines)
        if whole:
            return [x for x in lines if x.number == whole.number and x.may_be_of_checkpoint_of(whole)]
        if not lines:
            away = self.open().what_is_away()
            raise Problem(f"There is no checkpoint{self.at()} yet.{' ' * bool(away)}{away}", "missing")
        why = f"{lines[0].heading} is not whole: {lines[0].why}"
        if self.number is None and len(lines) > 1:
            why = f"None of the {len(lines)} lines{self.at()} is whole; of the newest: {lines[0].why}"
        raise Problem(f"{why}.{self._other_level(lines[0])}", "missing")

    def at(self) -> str:
        """Where lines were looked for, to go on with after "There is no line"."""
        return f" in {self.path}" + (f" at level {self.level}" if self.level else "")

    def read(self, work: Callable, looks_itself: bool = False):
        """work(line), at another level where the line cannot be read, and again where a running job retires it. It may
        look itself, by require_there() between its last reading and what cannot be done twice."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(Retired):
                return self._read_once(work, looks_itself)
        raise Problem(f"The running job retires the lines of {self.path} faster than they can be read.", "vanished")

    def _read_once(self, work: Callable, looks_itself: bool):
        failures, copies = [], self.copies()
        for line in copies:
            if not line.whole:
                failures.append(f"{line.heading} is not whole: {line.why}.")
                continue
            try:
                result = work(line)
            except Problem as problem:
                require_there(line)
                if not (isinstance(problem, Unreadable) and problem.line in (line, line.statics)):
                    raise
                failures.append(str(problem))
            else:
                if not looks_itself:
                    require_there(line)
                for failure in failures:
                    warn(f"{failure} Level {line.level} is used instead.")
                return result
        raise Problem(" ".join(failures) + self._other_level(copies[0]))

    def _other_level(self, line: Line) -> str:
        """What to try where a level was chosen, and the line cannot be read there."""
        with contextlib.suppress(Problem):  # of a level that was not asked for
            lines = read_lines(self.open(), None, line.number) if self.level else []
            for other in lines:
                if other.whole and other.level != self.level and line.may_be_of_checkpoint_of(other):
                    return f" Level {other.level} has line {line.number}, too: try --level {other.level}."
        return ""


def warn_of_what_is_away(directory: Directory) -> None:
    if away := directory.what_is_away():
        warn(away)


def _refuse_named_sessions(directory: Directory) -> None:
    """For a directory without lines of its own: a Problem that names the sessions below it, if there are any."""
    names = directory.named_sessions()
    if not names:
        return
    more = ", ..." if len(names) > MOST_NAMES else ""
    raise Problem(
        f"{directory.path} has no line of its own, but below it there are those of a program's named sessions: "
        f"{', '.join(names[:MOST_NAMES])}{more}. Look at one with --dir {shlex.quote(str(directory.path / names[0]))}.",
        "missing",
    )


class Retired(Exception):
    """A running job took the line while it was read."""


def require_there(line: Line) -> None:
    if not line.still_there():
        raise Retired


def split_target(text: Optional[str]) -> tuple:
    """'run1@42' -> ('run1', 42); '42' and '@42' -> (None, 42); 'run1' -> ('run1', None)."""
    if not text:
        return None, None
    if re.fullmatch(r"\d{1,18}", text):
        return None, int(text)
    path, at, number = text.rpartition("@")
    if at and re.fullmatch(r"\d{1,18}", number) and not os.path.exists(text):
        return path or None, int(number)
    return text, None


# ---- how things are written -------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """A name from a file without what would move the cursor or colour the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in str(text))


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def human_bytes(n: int) -> str:
    size, unit = float(n), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1000 or unit == "PiB":
            break
        size /= 1024
    return f"{n} B" if unit == "B" else f"{size:.3g} {unit}"


def human_age(seconds: float) -> str:
    if seconds < 0:
        return "in the future"
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h"), (math.inf, 86400, "d")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name} ago"
    return ""


def human_shape(shape: tuple) -> str:
    return "×".join(map(str, shape)) if shape else "scalar"


def human_type(dtype) -> str:
    if dtype.names is not None:
        return "struct"
    if dtype.kind == "S":
        return f"text({dtype.itemsize})"
    if dtype.kind == "V":
        return f"bytes({dtype.itemsize})"
    return dtype.name


def table(*columns: str, right: tuple = (), fixed: tuple = ()) -> Table:
    """A table without lines. `fixed` columns are never broken; `right` ones hold numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(
            name, justify="right" if name in right else "left", no_wrap=name in fixed + right, overflow="fold"
        )
    return made


def plain(value):
    """A value for JSON, which knows neither NaN nor infinity: null, and the words."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item() if getattr(value, "size", 1) == 1 else value.tolist()
        return plain(value) if isinstance(value, list) else plain(float(value)) if _is_long(value) else plain(value)
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def _is_long(value) -> bool:
    return type(value).__name__ in ("longdouble", "float128")


def print_json(value) -> None:
    """Flushed, so that a full disk is heard of while there is still somebody to say so."""
    sys.stdout.write(json.dumps(plain(value), indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


# ---- progress ---------------------------------------------------------------------------------------------------


class Progress:
    """A bar on stderr that appears when the work has taken longer than PATIENCE, and only on a terminal."""

    def __init__(self, what: str, total: int):
        self.what, self.total, self.done = what, total, 0
        self.started = time.monotonic()
        self.bar = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_) -> None:
        if self.bar:
            self.bar.stop()

    def advance(self, n: int) -> None:
        self.done += n
        if self.bar:
            self.bar.update(self.task, completed=self.done)
        elif time.monotonic() - self.started > PATIENCE:
            self._show()

    def _show(self) -> None:
        from rich import progress as rich_progress

        columns = ("{task.description}", rich_progress.BarColumn(), rich_progress.DownloadColumn(binary_units=True))
        self.bar = rich_progress.Progress(
            *columns,
            rich_progress.TimeRemainingColumn(),
            console=stderr(),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self.task = self.bar.add_task(self.what, total=self.total, completed=self.done)
        self.bar.start()
