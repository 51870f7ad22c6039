"""`backstay options`: the table of the library's options."""

import os
from typing import Annotated, Optional

import typer

from backstay.cli import common
from backstay.job import variable
from backstay.lines import Problem


def options(
    name: Annotated[Optional[str], typer.Argument(metavar="WORD", help="Only those with this word in them.")] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Each can be given to the constructor by its name, to `backstay run` as --opt NAME=VALUE (dir, nodes, spares and
    kill as --dir and so on), or as the variable shown here. The constructor wins over the variable. Asks the compiled
    library, so that the answer is that of this version.
    """
    rows = [row for row in _table() if not name or name in row[0] or name in row[2]]
    if as_json:
        common.print_json([_as_json(*row) for row in rows])
        return
    if not rows:
        raise Problem(f"No option has the word '{name}' in it: `backstay options` shows all.")
    table = common.table("option", "default", "meaning", "set here", fixed=("option",))
    for option, initial, meaning in rows:
        table.add_row(option, initial, meaning.replace("`", ""), os.environ.get(variable(option), ""))
    common.stdout().print(table)


def _table() -> list:
    try:
        from backstay._core import option_table
    except ImportError as error:
        raise Problem(
            f"The options are in the compiled part of backstay, which cannot be loaded here ({error}); "
            "docs/options.md has them, too."
        ) from None
    return option_table()


def _as_json(name: str, initial: str, meaning: str) -> dict:
    return {"name": name, "variable": variable(name), "default": initial, "meaning": meaning}
