"""`backstay view`: a slice of a region as a picture, in the terminal and as PNG."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Optional

import numpy as np
import typer

from backstay.cli import common, picture
from backstay.cli.export import no_such_region
from backstay.cli.output import failures_named, require_place
from backstay.lines import Line, Problem
from backstay.regions import TILE, Array, arrays_by_name

MOST_PIXELS = 2000  # a side; of more, every n-th element is drawn
CHECKED = 1 << 28  # bytes of segments up to which checksums are compared before a slice is shown
COMPLEX_PARTS = {"abs": np.abs, "real": np.real, "imag": np.imag, "phase": np.angle}


def view(
    region: Annotated[str, typer.Argument(metavar="REGION", help="Its name, as `backstay show` has it.")],
    target: common.TargetArgument = None,
    dir_option: common.DirOption = None,
    line_option: common.LineOption = None,
    level: common.LevelOption = None,
    slices: Annotated[
        Optional[list[str]],
        typer.Option(
            "--slice",
            "-s",
            metavar="AXIS=INDEX,...",
            help="Axes count from 0; the first ones are halved if left out. May be given again for another axis.",
        ),
    ] = None,
    component: Annotated[
        Optional[str],
        typer.Option(
            "--component", "-c", help="Member of a struct (pos.0 for its first number), or abs, real, imag, phase."
        ),
    ] = None,
    rank: Annotated[
        Optional[int], typer.Option("--rank", min=0, help="Of a region that is private to each rank.")
    ] = None,
    out: Annotated[
        Optional[Path], typer.Option("--out", "-o", metavar="FILE.png", help="Write a picture file, too.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is at FILE.png.")] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Two axes are drawn, rows upwards; the others are cut at an index. Only the bytes that are needed are read; their
    checksums are compared if that is quick (up to 256 MiB), and otherwise a note says that they were not."""
    wanted = common.Target(target, dir_option, line_option, level)
    cuts = parse_slices(slices)
    if out:
        require_place(out, force)
    drawn = wanted.read(lambda line: _cut(line, region, rank, cuts, component))
    if out:
        _write_png(drawn, out)
    if as_json:
        common.print_json(_facts(drawn, out))
        return
    if drawn.unchecked:
        common.warn("The bytes of this slice were not checked, because its segments are large; `backstay verify` does.")
    _print(drawn, out)


@dataclass
class Slice:
    """What is drawn: 0, 1 or 2 axes of an array."""

    line: Line
    array: Array
    component: str
    cuts: dict  # axis -> index
    axes: tuple  # those that are drawn, rows first
    step: tuple  # of those: every n-th element
    values: np.ndarray
    unchecked: bool

    @property
    def title(self) -> str:
        at = ", ".join(f"axis {axis} = {index}" for axis, index in sorted(self.cuts.items()))
        name = common.printable(self.array.label) + (f" ({self.component})" if self.component else "")
        return f"{name}, {self.line.title}{', ' if at else ''}{at}"


def parse_slices(texts: Optional[list[str]]) -> dict:
    """All cuts of all --slice options; an axis that is cut at two places is refused, for only one could be drawn."""
    cuts = {}
    for item in ",".join(texts).split(",") if texts else []:
        axis, equals, index = item.partition("=")
        try:
            number, at = int(axis), int(index)
        except ValueError:
            raise typer.BadParameter(f"'{item}' is not AXIS=INDEX, as in --slice 0=16,2=5.") from None
        if cuts.setdefault(number, at) != at:
            raise typer.BadParameter(f"Axis {number} is cut twice, at {cuts[number]} and at {at}: give one index.")
    return cuts


def _cut(line: Line, name: str, rank: Optional[int], cuts: dict, component: Optional[str]) -> Slice:
    array = _choose(line, name, rank)
    cuts = _complete(array, cuts)
    axes = tuple(axis for axis in range(len(array.shape)) if axis not in cuts)
    if not math.prod(array.shape):
        raise Problem(
            f"The region '{array.label}' of {line.title} has no elements ({common.human_shape(array.shape)})."
        )
    lower, upper = [cuts.get(a, 0) for a in range(len(array.shape))], list(array.shape)
    for axis, index in cuts.items():
        upper[axis] = index + 1
    touched = sum(part.segment.bytes for part in array.parts_in(tuple(lower), tuple(upper)))
    array = replace(array, unchecked=touched > CHECKED)
    step = tuple(-(-array.shape[axis] // MOST_PIXELS) for axis in axes)
    values = _read(array, lower, upper, axes, step, lambda v: _component(v, component, array))
    chosen = component or ("abs" if array.dtype.kind == "c" else "")
    return Slice(line, array, chosen, cuts, axes, step, values, array.unchecked)


def _choose(line: Line, name: str, rank: Optional[int]) -> Array:
    known = arrays_by_name(line)
    if name not in known:
        raise no_such_region(name, known, line)
    arrays = known[name]
    if rank is not None:
        arrays = _of_rank(arrays, rank)
    elif arrays[0].rank >= 0 and len(arrays) > 1:
        raise Problem(f"The region '{name}' is private to each of {len(arrays)} ranks: choose one, as in --rank 0.")
    return arrays[0].require_readable()


def _of_rank(arrays: list, rank: int) -> list:
    first = arrays[0].require_readable()
    if first.kind != "private":
        what = "the same on all ranks" if first.kind == "replicated" else "one array of all ranks"
        raise Problem(f"The region '{first.name}' is {what} ({first.kind}): leave out --rank {rank}.", "mismatch")
    found = [array for array in arrays if rank in ([array.rank] if array.rank >= 0 else array.ranks)]
    if not found:
        raise Problem(f"Rank {rank} has no region '{first.name}' in {first.line.title}.", "missing")
    return found


def _complete(array: Array, cuts: dict) -> dict:
    """Checks the cuts, and halves the first axes until two are left."""
    n, out = len(array.shape), {}
    for axis, index in cuts.items():
        if not 0 <= axis < n:
            raise Problem(f"The region '{array.name}' has {n} {'axis' if n == 1 else 'axes'}; there is no axis {axis}.")
        length = array.shape[axis]
        if not -length <= index < length:
            raise Problem(f"Axis {axis} of '{array.name}' has {length} elements; there is no index {index}.")
        out[axis] = index % length
    for axis in range(n):
        if n - len(out) > 2 and axis not in out:
            out[axis] = array.shape[axis] // 2
    return out


def _read(array: Array, lower: list, upper: list, axes: tuple, step: tuple, pick) -> np.ndarray:
    """The slice, thinned out, with at most about TILE bytes of it in memory at once."""
    shape = tuple(high - low for low, high in zip(lower, upper))
    if not axes:
        return pick(array.read(tuple(lower), tuple(upper)).reshape(()))
    across = axes[0]
    row = max(1, math.prod(shape) // shape[across] * array.dtype.itemsize)
    rows = max(1, TILE // row) if step[0] == 1 else 1  # thinned: only the rows that are drawn
    pieces = []
    for start in range(0, shape[across], rows * step[0]):
        low, high = list(lower), list(upper)
        low[across], high[across] = start, min(shape[across], start + rows)
        piece = array.read(tuple(low), tuple(high))
        piece = piece.reshape([piece.shape[axis] for axis in axes])
        pieces.append(pick(piece[:, :: step[1]] if len(axes) == 2 else piece))
    return np.concatenate(pieces)


def _component(values: np.ndarray, component: Optional[str], array: Array) -> np.ndarray:
    """The numbers to draw, as float64."""
    rest = component.split(".") if component else []
    shape = values.shape
    while values.dtype.names is not None:
        if not rest or rest[0] not in values.dtype.names:
            names = ", ".join(values.dtype.names)
            raise Problem(f"The region '{array.name}' is a struct: choose with --component one of {names}.")
        values = values[rest.pop(0)]
    while values.ndim > len(shape):  # a member that is an array
        index = int(rest.pop(0)) if rest and rest[0].isdigit() else 0
        if index >= values.shape[len(shape)]:
            raise Problem(f"The component {component} of '{array.name}' has no index {index}.")
        values = values.take(index, axis=len(shape))
    if values.dtype.kind == "c":
        part = rest.pop(0) if rest else "abs"
        if part not in COMPLEX_PARTS:
            raise Problem(f"A complex number has the components {', '.join(COMPLEX_PARTS)}, not '{part}'.")
        values = COMPLEX_PARTS[part](values)
    if rest:
        raise Problem(f"The region '{array.name}' has no component '{component}'.")
    if values.dtype.kind not in "biuf":
        raise Problem(f"The region '{array.name}' holds {common.human_type(values.dtype)}, which cannot be drawn.")
    return values.astype(np.float64)


def _facts(s: Slice, out: Optional[Path]) -> dict:
    known = s.values[np.isfinite(s.values)]
    return {
        "line": s.line.number,
        "level": s.line.level,
        "region": s.array.name,
        "component": s.component,
        "shape": list(s.array.shape),
        "slice": {str(axis): index for axis, index in s.cuts.items()},
        "axes": list(s.axes),
        "step": list(s.step),
        "min": known.min() if known.size else None,
        "max": known.max() if known.size else None,
        "mean": known.mean() if known.size else None,
        "units": s.array.units,
        "checked": not s.unchecked,
        "png": str(out) if out else None,
    }


def _print(s: Slice, out: Optional[Path]) -> None:
    console = common.stdout()
    units = f" {common.printable(s.array.units)}" if s.array.units else ""
    if not s.axes:
        common.say(f"{s.title}: {s.values[()]:.10g}{units}")
        return
    common.say(s.title, style="bold")
    console.print(picture.plot(s.values, console) if len(s.axes) == 1 else picture.image(s.values, console))
    console.print(picture.legend(s.values, units, console, bar=len(s.axes) == 2))
    if out:
        common.say(f"Written to {out}.", style="dim")


def _write_png(s: Slice, out: Path) -> None:
    if not s.axes:
        raise Problem(f"The slice of '{s.array.label}' is one number; there is nothing to draw into {out}.")
    part = out.with_name(f".{out.name}.part{out.suffix or '.png'}")
    try:
        with failures_named(out):
            picture.write(s.values, part, s.title, s.array.units, s.axes, s.step)
            os.replace(part, out)
    except ValueError as error:
        raise Problem(f"{out} cannot be written: {error}.") from error
    finally:
        part.unlink(missing_ok=True)
