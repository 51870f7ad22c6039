"""The command line: `backstay COMMAND`. But for `options`, it needs neither MPI nor the compiled module.

A command is a module here with a function of its name; its help begins with an example. Two of them are not always
there: `run` and `demo`. Such a module may have SETTINGS, a dict that is given to Typer with the command.
"""

import importlib
import importlib.util
import os
import sys
from typing import Optional

import typer

from backstay.cli.common import fail, forget_stdout
from backstay.lines import Problem

app = typer.Typer(
    name="backstay",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="[green]Example:[/] [bold]backstay ls[/]\n\n"
    "Looks at, checks, cleans up and compares the checkpoints of a simulation. The directory is "
    "./backstay-checkpoints, or what BACKSTAY_DIR or the command names.",
)

# name, example, one line; in the order in which somebody new needs them
COMMANDS = (
    ("demo", "backstay demo", "Run a simulation, kill it in the middle, and see it come back."),
    ("run", "backstay run -n 8 -- ./app", "Launch a program on MPI, and again after a failure."),
    ("advise", "backstay advise -n 2 -- ./app", "Which protected arrays a program need not save."),
    ("options", "backstay options keep", "List the options of the library, with defaults and meanings."),
    ("ls", "backstay ls run1", "List the lines: level, step, age, size, whole or why not."),
    ("show", "backstay show 42", "Show the regions of a line: types, shapes, placement, values."),
    ("verify", "backstay verify run1", "Check every byte of every line at every level."),
    ("prune", "backstay prune --keep 2 --dry-run", "Remove old lines; never the newest whole one."),
    ("view", "backstay view u --slice 0=16 -o u.png", "Draw a slice of a region."),
    ("export", "backstay export --line 42 -o out.h5", "Write a line as one ordinary HDF5 file, or as .npy."),
    ("diff", "backstay diff run1@42 run2@42", "Compare two lines, whatever ranks wrote them."),
    ("report", "backstay report run1 -o run1.html", "What became of a job: time line, losses, cost; as one page."),
)


def _register() -> None:
    for name, example, summary in COMMANDS:
        module_name = f"backstay.cli.{name}"
        if importlib.util.find_spec(module_name) is None:
            continue
        module = importlib.import_module(module_name)
        function = getattr(module, name)
        text = f"[green]Example:[/] [bold]{example}[/]\n\n{summary}"
        details = (function.__doc__ or "").strip()
        if details:
            text += "\n\n" + " ".join(details.split())
        app.command(name, help=text, short_help=summary, **getattr(module, "SETTINGS", {}))(function)


def _version(wanted: bool) -> None:
    if wanted:
        from backstay import __version__

        print(f"backstay {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


_register()


# What wrong usage raises. Typer has no name for it, and newer ones bring their own Click.
_ClickException = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _run_for_json(arguments: Optional[list]) -> None:
    """As app() does it, but wrong usage is told as any other failure is: in one sentence, and as JSON on stdout."""
    try:
        status = app(args=arguments, prog_name="backstay", standalone_mode=False)
    except _ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "backstay"
        why = " ".join(error.format_message().split())
        end = "" if why.endswith((".", "?")) else "."
        fail(f"{why}{end} `{command} --help` shows how it is used.", True)
        status = error.exit_code
    except typer.Abort:
        status = 1
    raise SystemExit(status)


def main(arguments: Optional[list] = None) -> int:
    """Runs a command; gives the exit status: 0, 1 for a failure, 2 for wrong usage."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter is no reason to fail
    words = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        status = _status_of(arguments, as_json)
        sys.stdout.flush()
        return status
    except Problem as problem:
        fail(str(problem), as_json)
    except BrokenPipeError:  # `backstay ls | head`
        forget_stdout()
    except OSError as error:
        what = error.filename or ("The output cannot be written" if _here() else "The current directory is gone")
        fail(f"{what}: {error.strerror or error}.", as_json)
    return 1


def _here() -> str:
    """The current directory; "": it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _open_what_is_closed() -> None:
    """`backstay ls >&-` starts without a stdout: nobody wants to read it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))


def _status_of(arguments: Optional[list], as_json: bool) -> int:
    try:
        if as_json:
            _run_for_json(arguments)
        app(args=arguments, prog_name="backstay")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
