"""Checks that cannot be left to a compiler: layers, function lengths, unfinished work, paths of one machine.

    python tools/check_layers.py [ROOT]

Prints one line for each finding, FILE:LINE: sentence, and exits 1 if there is any. The layers are those of
docs/architecture.md: a module may use modules of lower layers only, in its includes and in its CMake USES; modules of
one layer do not know each other.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LAYERS = (
    ("base",),
    ("region", "codec", "format", "store", "comm"),
    ("select", "redundancy", "catalog", "plan"),
    ("engine", "check"),
    ("api",),
)
LAYER_OF = {module: number for number, modules in enumerate(LAYERS) for module in modules}
LONGEST_FUNCTION = 70
SKIPPED_FOLDERS = {
    "build",
    ".git",
    "__pycache__",
    ".venv",
    ".pytest_cache",
    ".ruff_cache",
    "results",
}
CPP = {".h", ".hpp", ".cpp", ".c"}
TEXT = CPP | {
    ".py",
    ".txt",
    ".cmake",
    ".md",
    ".toml",
    ".json",
    ".sh",
    ".f90",
    ".in",
    "",
}
# In pieces, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:home|root|work|Users)/\w")


@dataclass(frozen=True, order=True)
class Finding:
    """Something to repair."""

    file: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.sentence}"


def allowed(module: str, used: str) -> bool:
    """Whether `module` may use `used`."""
    return used == module or LAYER_OF[used] < LAYER_OF[module]


def why_not(module: str, used: str) -> str:
    return (
        f"{module} (layer {LAYER_OF[module]}) may not use {used} (layer {LAYER_OF[used]}): only lower layers; "
        "move what both need further down"
    )


def check_includes(module: str, text: str, file: str) -> Iterator[Finding]:
    """Includes of other modules in one file of `module`. Unit tests, *_test.cpp, obey the same rule."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*["<](\w+)/', line)
        used = match.group(1) if match else None
        if used in LAYER_OF and not allowed(module, used):
            yield Finding(file, number, why_not(module, used))


def check_uses(text: str, file: str) -> Iterator[Finding]:
    """The USES of backstay_module() calls."""
    for call in re.finditer(r"backstay_module\(\s*(\w+)([^)]*)\)", text):
        module, rest = call.groups()
        if module not in LAYER_OF:
            continue
        uses = re.search(r"\b(?<!_)USES\s+((?:[a-z_0-9]+\s*)*)", rest)
        for used in uses.group(1).split() if uses else []:
            line = text.count("\n", 0, call.start()) + 1
            if used not in LAYER_OF:
                yield Finding(
                    file,
                    line,
                    f"{module} uses {used}, which is not a module of any layer",
                )
            elif not allowed(module, used):
                yield Finding(file, line, why_not(module, used))


def blank_cpp(text: str) -> str:
    """The text with comments, literals and preprocessor lines blanked; lines stay where they are."""
    pattern = re.compile(
        r'R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
        r"|^[ \t]*#(?:\\\n|[^\n])*",
        re.DOTALL | re.MULTILINE,
    )
    # A digit separator (65'536) is no literal.
    text = re.sub(r"(?<=\d)'(?=\d)", "_", text)
    # An access specifier ends what came before it, like a semicolon.
    text = re.sub(r"^(\s*)(?:public|private|protected)\s*:(?!:)", r"\1;", text, flags=re.MULTILINE)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def opens_scope(head: str) -> bool:
    """Whether a brace after `head` opens a namespace, class or similar rather than a function."""
    head = re.sub(r"^template\s*<.*?>\s*(?=class|struct|union)", "", head.strip(), flags=re.DOTALL)
    return re.match(r"(inline\s+)?(namespace|class|struct|union|enum|extern)\b", head) is not None and (
        not re.search(r"\)\s*(const|noexcept|override|final|->.*)*\s*$", head, re.DOTALL)
    )


def cpp_functions(text: str) -> Iterator[tuple[int, int]]:
    """First line and number of lines of each function; a lambda counts to the function around it."""
    text = blank_cpp(text)
    kinds: list[str] = []
    head_start = first_line = 0
    for place, character in enumerate(text):
        if character == "{":
            head = text[head_start:place]
            in_function = "function" in kinds
            kind = "block" if in_function or "(" not in head else "function"
            if not in_function and opens_scope(head):
                kind = "scope"
            if kind == "function":
                first_line = text.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
            kinds.append(kind)
        elif character == "}" and kinds and kinds.pop() == "function":
            yield first_line, text.count("\n", 0, place) + 2 - first_line
        if character in "{};":
            head_start = place + 1


def python_functions(text: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def check_lengths(functions: Iterable[tuple[int, int]], file: str) -> Iterator[Finding]:
    for line, length in functions:
        if length > LONGEST_FUNCTION:
            yield Finding(
                file,
                line,
                f"this function has {length} lines, more than {LONGEST_FUNCTION}: split it where it pauses",
            )


def check_words(text: str, file: str) -> Iterator[Finding]:
    """Words that mean unfinished work, and paths that exist on one machine only."""
    for number, line in enumerate(text.splitlines(), 1):
        if unfinished := UNFINISHED.search(line):
            yield Finding(
                file,
                number,
                f"{unfinished.group()}: finish it, or file an issue and remove the note",
            )
        if path := MACHINE_PATH.search(line):
            yield Finding(
                file,
                number,
                f"a path of one machine, {path.group()}...: take it from an option or variable",
            )


def check_file(path: Path, root: Path) -> Iterator[Finding]:
    relative = path.relative_to(root)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # not text: a picture, a golden checkpoint
    file = relative.as_posix()
    yield from check_words(text, file)
    if relative.parts[0] == "src" and len(relative.parts) > 2 and relative.parts[1] in LAYER_OF:
        yield from check_includes(relative.parts[1], text, file)
    if path.name == "CMakeLists.txt":
        yield from check_uses(text, file)
    if path.suffix in CPP:
        yield from check_lengths(cpp_functions(text), file)
    elif path.suffix == ".py":
        yield from check_lengths(python_functions(text), file)


def files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        skipped = SKIPPED_FOLDERS.intersection(path.relative_to(root).parts)
        if not skipped and path.is_file() and path.suffix in TEXT:
            yield path


def check(root: Path) -> list[Finding]:
    """All findings in the tree at `root`."""
    return sorted(finding for path in files(root) for finding in check_file(path, root))


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    findings = check(root)
    for finding in findings:
        print(finding)
    print(f"check_layers: {len(findings)} findings" if findings else "check_layers: nothing to repair")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
