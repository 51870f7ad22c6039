"""Writes docs/options.md from the table in the library (src/api/options.cpp), which is the only place to change it.

PYTHONPATH=build/dev/python python tools/make_options_doc.py           # writes the file
PYTHONPATH=build/dev/python python tools/make_options_doc.py --check   # exit status 1 if it is not current
"""

import sys
from pathlib import Path

from backstay._core import option_table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"

HEAD = """\
# Options

None has to be set. There are three ways to set one, the first wins (but in a trial run of
`backstay advise`, which has a `dir` and `local_dir` of its own):

1. in the program: `backstay::Session run(argc, argv, {{"keep", "3"}, {"shared.layout", "one-file"}})` in C++,
   `backstay.Session(keep=3, shared_layout="one-file")` in Python, a list of `"keep=3"` in C;
2. as a flag of `backstay run`: `--levels`, `--every`, `--interval`, `--dir`, `--nodes`, `--spares`, `--kill`, and for
   every other `--opt NAME=VALUE`;
3. as a variable: `BACKSTAY_` and the name in capitals, dots as underscores: `BACKSTAY_SHARED_LAYOUT=one-file`.

`backstay run` gives its flags on as variables. An option or a `BACKSTAY_` variable that does not exist is refused, and
the sentence names the nearest one. `backstay options` prints this table in a terminal.

| option | default | meaning |
|---|---|---|
"""

FOOT = """
(This page is made by `tools/make_options_doc.py` from the library; a test checks that it is current.)
"""


def page() -> str:
    rows = [f"| `{name}` | {_code(initial)} | {meaning} |\n" for name, initial, meaning in option_table()]
    return HEAD + "".join(rows) + FOOT


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def main(arguments: list) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not arguments:
        PAGE.write_text(page())
        return 0
    if PAGE.exists() and PAGE.read_text() == page():
        return 0
    print(f"{PAGE} is not what the library says: run python tools/make_options_doc.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
