"""`backstay show`: the regions of a line, and what values they hold."""

import time
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backstay.cli import common
from backstay.lines import Line
from backstay.regions import Array, arrays_by_name, leaves

TABLE_WIDTH = 110  # columns of a terminal from which on the regions are a table
LONGEST_TABLE = 1000  # rows; laying out a longer one takes seconds in which nothing is seen
LONGEST_TEXT = 40  # characters of a text that are shown


def show(
    target: common.TargetArgument = None,
    dir_option: common.DirOption = None,
    line_option: common.LineOption = None,
    level: common.LevelOption = None,
    no_values: Annotated[
        bool, typer.Option("--no-values", help="Do not read the data: quick on a large line.")
    ] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Minimum, maximum and mean are over all ranks, NaN left out; a complex number counts by its magnitude. The bytes
    are checked as they are read."""
    wanted = common.Target(target, dir_option, line_option, level)
    line, regions = wanted.read(lambda line: (line, _regions(line, not no_values)))
    if as_json:
        static = {segment.region for segment in line.statics.segments()} if line.statics else set()
        facts = [{**_region_facts(r), "static": r.name in static} for r in regions]
        common.print_json({**_line_facts(line), "left_out": line.left_out(), "regions": facts})
        return
    _print(line, regions)


@dataclass
class Summary:
    """Of one region, or of one member of a struct."""

    label: str
    type: str
    count: int = 0
    nan: int = 0
    low: object = None
    high: object = None
    total: object = 0
    text: str = ""

    def add(self, values: np.ndarray) -> None:
        if values.dtype.kind not in "biufc" or not values.size:
            return
        values = np.abs(values) if values.dtype.kind == "c" else values
        if values.dtype.kind == "f":
            known = values[~np.isnan(values)]
            self.nan += values.size - known.size
            values = known
        self.count += values.size
        if values.size:
            low, high = values.min(), values.max()
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)
            with np.errstate(all="ignore"):
                self.total += values.sum(dtype=np.longdouble)

    @property
    def mean(self):
        return self.total / self.count if self.count else None


@dataclass
class Region:
    """One row of the table, with a summary for each member where it is a struct."""

    name: str
    arrays: list
    summaries: list = field(default_factory=list)

    @property
    def first(self) -> Array:
        return self.arrays[0]

    @property
    def problem(self) -> str:
        return next((a.problem for a in self.arrays if a.problem), "")

    @property
    def is_struct(self) -> bool:
        return self.first.dtype.names is not None


def _regions(line: Line, with_values: bool) -> list:
    regions = [Region(name, arrays) for name, arrays in arrays_by_name(line).items()]
    with common.Progress("reading", sum(a.bytes for r in regions for a in r.arrays)) as progress:
        for region in regions:
            region.summaries = _blank(region.first)
            if with_values and not region.problem:
                _summarise(region, progress)
    return regions


def _blank(array: Array) -> list:
    empty = np.empty(0, array.dtype)
    return [Summary(label, common.human_type(values.dtype)) for label, values in leaves(empty)]


def _summarise(region: Region, progress: common.Progress) -> None:
    for array in region.arrays:
        if array.dtype != region.first.dtype:
            continue  # private to each rank, and different there: only the first kind is summed up
        for _, _, values in array.tiles():
            for summary, (_, leaf) in zip(region.summaries, leaves(values)):
                summary.add(leaf)
            progress.advance(values.nbytes)
    if len(region.arrays) == 1 and region.first.dtype.kind == "S" and 0 < region.first.bytes < 1 << 16:
        value = bytes(region.first.all().reshape(-1)[0]).decode("utf-8", "replace")
        region.summaries[0].text = value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"


def _line_facts(line: Line) -> dict:
    m = line.manifest
    return {
        "line": m.line,
        "level": m.level,
        "call": m.call,
        "time": m.time,
        "ranks": m.ranks,
        "job": m.job,
        "program": m.program,
        "bytes": line.bytes,
        "static_line": m.statics or None,
        "files": [str(line.usable[f.name][0].path) for f in m.files if f.name in line.usable],
        "notes": line.notes,
    }


def _region_facts(region: Region) -> dict:
    a = region.first
    return {
        "name": region.name,
        "type": a.parts[0].segment.type,
        "dtype": common.human_type(a.dtype),
        "shapes": [list(p.segment.shape) for x in region.arrays for p in x.parts],
        "global_shape": list(a.shape) if a.kind != "private" else None,
        "placement": a.kind,
        "ranks": a.ranks,
        "units": a.units,
        "bytes": sum(x.held for x in region.arrays),
        "left_out_bytes": max(0, sum(x.bytes - x.held for x in region.arrays)),
        "problem": region.problem,
        "values": [
            {"member": s.label.lstrip("."), "type": s.type, "min": s.low, "max": s.high, "mean": s.mean, "nan": s.nan}
            for s in region.summaries
        ],
    }


def _print(line: Line, regions: list) -> None:
    m = line.manifest
    age = common.human_age(time.time() - m.time)
    common.say(
        f"Line {m.line} at level {m.level}: call {m.call} of {m.program or 'a program'}, {age}, "
        f"{common.plural(m.ranks, 'rank')}, {common.human_bytes(line.bytes)} in {common.plural(len(m.files), 'file')}.",
        style="bold",
    )
    if line.notes:
        more = f" (and {len(line.notes) - 1} more: see `backstay verify`)" if len(line.notes) > 1 else ""
        common.warn(f"{line.notes[0]}{more}.")
    common.say()
    console = common.stdout()
    if not regions:
        common.say("It has no regions.")
    elif console.width >= TABLE_WIDTH and len(regions) <= LONGEST_TABLE:
        console.print(_table(regions, m.ranks))
    else:
        for region in regions:
            _put(console, _paragraph(region, m.ranks))
    for region in regions:
        held, whole = sum(x.held for x in region.arrays), sum(x.bytes for x in region.arrays)
        if held < whole and not region.problem:
            common.say(
                f"{region.name}  {common.human_bytes(held)} of {common.human_bytes(whole)}: the rest was left out"
            )
    for name, ranks in line.left_out().items():
        by = "" if m.ranks == 1 else f" by {common.plural(ranks, 'rank')}"
        common.say(f"{name}  left out{by}: {line.why_left_out(name)}")


def _put(console: Console, text: Text) -> None:
    """Rich takes longer over the styles and the wrapping of a text than all else that is done for a region, so it is
    left out where there is neither."""
    if console.color_system is None and not console.is_terminal:
        lines = text.plain.split("\n")
        if max(map(cell_len, lines)) <= console.width:
            console.file.write("\n".join([*map(str.rstrip, lines), ""]))
            return
    console.print(text)


def _table(regions: list, ranks: int) -> Table:
    numbers = ("min", "max", "mean")
    made = common.table("region", "type", "shape", "placement", "units", *numbers, right=numbers)
    for region in regions:
        head = _head(region, ranks)
        if region.is_struct:
            made.add_row(*head, "", "", "")
            for s in region.summaries:
                made.add_row(Text("  " + common.printable(s.label)), s.type, "", "", "", *_numbers(s))
        else:
            made.add_row(*head, *(_numbers(region.summaries[0]) if not region.problem else (region.problem, "", "")))
    return made


def _paragraph(region: Region, ranks: int) -> Text:
    """The same for a narrow terminal, or for many regions."""
    name, *facts = _head(region, ranks)
    out = Text.assemble((name, "bold"), "  ", "  ".join(fact for fact in facts if fact))
    if region.problem:
        out.append(f"\n    {region.problem}", style="yellow")
        return out
    for s in region.summaries:
        values = _numbers(s)
        words = (
            [f"{word} {v}" for word, v in zip(("min", "max", "mean"), values) if str(v)]
            if str(values[1])
            else values[:1]
        )
        member = f"{common.printable(s.label)}  {s.type}  " if region.is_struct else ""
        if member or any(map(str, words)):
            out.append(f"\n    {member}{'  '.join(map(str, words))}", style="cyan")
    return out


def _head(region: Region, ranks: int) -> list:
    a = region.first
    name, units = common.printable(region.name), common.printable(a.units)
    return [name, common.human_type(a.dtype), _shape(region), _placement(region, ranks), units]


def _shape(region: Region) -> str:
    shapes = {a.shape for a in region.arrays}
    if len(shapes) == 1:
        return common.human_shape(region.first.shape)
    return " or ".join(sorted(map(common.human_shape, shapes))) if len(shapes) < 3 else "differs by rank"


def _placement(region: Region, ranks: int) -> str:
    a = region.first
    words = {"block": f"{len(a.ranks)} blocks", "list": f"list of {len(a.parts)} pieces"}
    word = words.get(a.kind, a.kind) if len(a.parts) > 1 and len(a.ranks) > 1 else a.kind
    return word if len(a.ranks) == ranks else f"{word} ({len(a.ranks)} of {common.plural(ranks, 'rank')})"


def _numbers(summary: Summary) -> list:
    """min, max and mean as text; one value, if there is one only."""
    if summary.text:
        return [repr(common.printable(summary.text)), "", ""]
    nan = f"{summary.nan:,} NaN" if summary.nan else ""
    if summary.count == 0:
        return [nan, "", ""]
    if summary.count == 1 and not nan:
        return [number(summary.low), "", ""]
    mean = number(summary.mean) + (f" ({nan})" if nan else "")
    return [number(summary.low), number(summary.high), mean]


def number(value) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (int, np.integer)):
        return str(value)
    return f"{value:.6g}"
