"""`backstay diff`: which regions of two lines differ, and by how much."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Optional

import numpy as np
import typer
from rich.text import Text

from backstay.cli import common
from backstay.cli.show import number
from backstay.lines import Line, Problem
from backstay.regions import Array, arrays_by_name, leaves, tiles_of

SIGNIFICANT = {"f16": [*range(10)], "c32": [*range(10), *range(16, 26)]}  # the rest of an x87 number is padding


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="DIR, DIR@LINE, or LINE of the directory in --dir.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    dir_option: common.DirOption = None,
    level: common.LevelOption = None,
    tolerance: Annotated[
        Optional[float],
        typer.Option("--tolerance", "-t", metavar="X", min=0, help="Relative: |a-b| <= X max(|a|,|b|) is the same."),
    ] = None,
    absolute: Annotated[
        Optional[float], typer.Option("--absolute", metavar="X", min=0, help="|a-b| <= X is the same, too.")
    ] = None,
    region: Annotated[
        Optional[list[str]], typer.Option("--region", "-r", help="Only this one; may be repeated.")
    ] = None,
    as_json: common.JsonOption = False,
) -> None:
    """Without a tolerance elements are the same if their bits are. Blocks and lists are compared as global arrays, so
    the numbers of ranks may differ. The exit status is 0 if all is the same, 1 if something is not or cannot be
    compared, 2 if a line cannot be read."""
    allowed = Tolerance(tolerance, absolute)
    try:
        left, right = common.Target(a, dir_option, None, level), common.Target(b, dir_option, None, level)
        lines, results = left.read(lambda x: right.read(lambda y: ((x, y), _compare_lines(x, y, region, allowed))))
    except Problem as problem:
        common.fail(str(problem), as_json)
        raise typer.Exit(2) from problem
    same = all(r.status == "same" for r in results)
    if as_json:
        common.print_json(_facts(left, right, lines, same, results))
    else:
        _print(left, right, lines, same, results)
    raise typer.Exit(0 if same else 1)


@dataclass
class Tolerance:
    relative: Optional[float]
    absolute: Optional[float]

    @property
    def exact(self) -> bool:
        return self.relative is None and self.absolute is None


@dataclass
class Result:
    name: str
    rank: int = -1  # of a region that is private to each rank
    status: str = "same"  # same, differs, only in A, only in B, type, shape, ranks, unreadable
    why: str = ""
    elements: int = 0
    differing: int = 0
    max_abs: Optional[float] = None
    max_rel: Optional[float] = None
    first: Optional[tuple] = None


def _compare_lines(x: Line, y: Line, names: Optional[list], allowed: Tolerance) -> list:
    left, right = arrays_by_name(x), arrays_by_name(y)
    for name in names or []:
        if name not in left and name not in right:
            raise Problem(f"Neither {x.title} nor the other {y.title} has a region '{name}'.", "missing")
    wanted = names or list(dict.fromkeys([*left, *right]))
    total = sum(a.bytes for name in wanted for a in left.get(name, []))
    with common.Progress("comparing", total) as progress:
        return [
            r for name in wanted for r in _compare_regions(name, left.get(name), right.get(name), allowed, progress)
        ]


def _compare_regions(name: str, left, right, allowed: Tolerance, progress) -> Iterator[Result]:
    if left is None or right is None:
        yield Result(name, status="only in B" if left is None else "only in A")
    elif [a.rank for a in left] != [b.rank for b in right]:
        ranks = common.plural(len(right[0].ranks), "rank")
        why = f"private to each rank, and saved by {len(left[0].ranks)} and {ranks}"
        yield Result(name, status="ranks", why=why)
    else:
        for a, b in zip(left, right):
            yield _compare(a, b, allowed, progress)


def _compare(a: Array, b: Array, allowed: Tolerance, progress) -> Result:
    result = Result(a.name, a.rank, elements=math.prod(a.shape))
    problem = a.problem or b.problem
    if problem:
        result.status, result.why = "unreadable", problem
    elif a.dtype != b.dtype:
        result.status, result.why = "type", f"{common.human_type(a.dtype)} and {common.human_type(b.dtype)}"
        result.why = "structs with other members" if a.dtype.names and b.dtype.names else result.why
    elif a.shape != b.shape:
        result.status, result.why = "shape", f"{common.human_shape(a.shape)} and {common.human_shape(b.shape)}"
    else:
        for lower, values in _pieces(a):
            upper = tuple(low + n for low, n in zip(lower, values.shape))
            _compare_piece(result, lower, values, b.read(lower, upper), allowed)
            progress.advance(values.nbytes)
        result.status = "differs" if result.differing else "same"
    return result


def _pieces(array: Array) -> Iterator[tuple]:
    """All elements once. Where no rank saved some of them, what stands in their place is compared as well."""
    if array.held == array.bytes:
        yield from ((lower, values) for lower, _, values in array.tiles())
    else:
        for lower, upper in tiles_of(array.shape, array.dtype.itemsize):
            yield lower, array.read(lower, upper)


def _compare_piece(result: Result, lower: tuple, a: np.ndarray, b: np.ndarray, allowed: Tolerance) -> None:
    differs = np.zeros(a.shape, bool)
    for (_, x), (_, y) in zip(leaves(a), leaves(b)):
        bits = _bits_differ(x, y)
        if not bits.any():
            continue
        if x.dtype.kind in "biufc":
            bits = _measure(result, x, y, bits, allowed)
        differs |= bits.reshape(*a.shape, -1).any(axis=-1) if bits.shape != a.shape else bits
    count = int(np.count_nonzero(differs))
    if count:
        result.differing += count
        index = np.unravel_index(int(np.argmax(differs)), differs.shape) if differs.shape else ()
        first = tuple(int(i) + low for i, low in zip(index, lower))
        result.first = first if result.first is None else min(result.first, first)


def _bits_differ(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "iub":
        return x.view(_unsigned(x)) != y.view(_unsigned(y))
    kind, size = x.dtype.kind, x.dtype.itemsize
    x, y = (np.ascontiguousarray(v).reshape(*v.shape, 1).view(np.uint8) for v in (x, y))
    if size not in (4, 8):
        return _any_byte(x, y, SIGNIFICANT.get(f"{kind}{size}"))
    return (x.view(f"u{size}") != y.view(f"u{size}"))[..., 0]


def _any_byte(x, y, columns) -> np.ndarray:
    return (x[..., columns] != y[..., columns]).any(axis=-1) if columns else (x != y).any(axis=-1)


def _unsigned(x: np.ndarray) -> str:
    return f"u{x.dtype.itemsize}"


def _measure(result: Result, x: np.ndarray, y: np.ndarray, bits: np.ndarray, allowed: Tolerance) -> np.ndarray:
    """Which elements differ more than is allowed; the greatest differences go into the result."""
    with np.errstate(all="ignore"):
        distance, size = _distance(x, y), np.maximum(_magnitude(x), _magnitude(y))
        relative = np.where(size == 0, 0.0, distance / size)  # NaN beside a number is near nothing
    if not allowed.exact:
        near = (np.isnan(x) & np.isnan(y)) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)
        near |= distance <= (allowed.absolute or 0.0)
        near |= relative <= (allowed.relative or 0.0)
        bits = bits & ~near
    result.max_abs = _greater(result.max_abs, distance[bits])
    result.max_rel = _greater(result.max_rel, relative[bits])
    return bits


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "iub":  # modulo 2^n the difference is exact, which it is not in the type itself
        x, y = (v.view("i1") if v.dtype.kind == "b" else v for v in (x, y))
        u = _unsigned(x)
        return np.where(x > y, x.view(u) - y.view(u), y.view(u) - x.view(u)).astype(np.float64)
    wide = np.longdouble if x.dtype.itemsize > 8 and x.dtype.kind == "f" else np.float64
    x, y = (v if v.dtype.kind == "c" else v.astype(wide) for v in (x, y))
    return np.where(x == y, wide(0), np.abs(x - y))  # infinity less itself is no number


def _magnitude(x: np.ndarray) -> np.ndarray:
    return np.abs(x.astype(np.float64) if x.dtype.kind in "iub" or x.dtype.itemsize < 8 else x)


def _greater(known: Optional[float], values: np.ndarray) -> Optional[float]:
    values = values[~np.isnan(values)]
    if not values.size:
        return known
    return max(float(values.max()), known if known is not None else 0.0)


# ---- output -----------------------------------------------------------------------------------------------------


def _facts(left, right, lines: tuple, same: bool, results: list) -> dict:
    sides = [{"dir": str(t.path), "line": x.number, "level": x.level} for t, x in zip((left, right), lines)]
    regions = [
        {
            "region": r.name,
            "rank": r.rank if r.rank >= 0 else None,
            "status": r.status,
            "why": r.why,
            "elements": r.elements,
            "differing": r.differing,
            "max_abs": r.max_abs,
            "max_rel": r.max_rel,
            "first": list(r.first) if r.first is not None else None,
        }
        for r in results
    ]
    return {"a": sides[0], "b": sides[1], "same": same, "regions": regions}


def _print(left, right, lines: tuple, same: bool, results: list) -> None:
    for letter, target, line in zip("AB", (left, right), lines):
        common.say(
            f"{letter}: {line.title} in {target.path}, {common.plural(line.manifest.ranks, 'rank')}", style="dim"
        )
    names = {r.name for r in results}
    if same:
        text = f"All {len(names)} regions are the same." if len(names) != 1 else "The region is the same."
        common.say(text, style="green")
        return
    common.say()
    numbers = ("differing", "of", "max abs", "max rel")
    made = common.table("region", "", *numbers, "first at", right=numbers)
    for r in _merged(results):
        made.add_row(*_row(r))
    common.stdout().print(made)


def _merged(results: list) -> list:
    """One row for a private region that is the same on all ranks; otherwise one for each rank where it differs."""
    out = []
    for name in dict.fromkeys(r.name for r in results):
        group = [r for r in results if r.name == name]
        differing = [r for r in group if r.status != "same"]
        out += differing or [Result(name, elements=sum(r.elements for r in group))]
    return out


def _row(r: Result) -> list:
    name = common.printable(r.name) + (f" (rank {r.rank})" if r.rank >= 0 else "")
    if r.status == "same":
        return [name, Text("same", style="green"), "", f"{r.elements:,}", "", "", ""]
    if r.status == "differs":
        at = f"[{', '.join(map(str, r.first))}]" if r.first else ""
        counts = (f"{r.differing:,}", f"{r.elements:,}")
        return [name, Text("differs", style="red"), *counts, number(r.max_abs), number(r.max_rel), at]
    words = {"type": "other types", "shape": "other shapes", "ranks": "cannot be compared"}.get(r.status, r.status)
    return [name, Text(f"{words}{': ' if r.why else ''}{common.printable(r.why)}", style="red"), "", "", "", "", ""]
