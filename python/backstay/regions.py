"""Whole arrays, put together from the segments of all ranks of a line.

    array = whole_arrays(line)["u"]
    plane = array.read((0, 0, 16), (64, 64, 17))     # only the bytes that are needed are read
    for lower, upper, values in array.tiles():       # everything once, a bounded piece at a time
        ...

Shapes and boxes count elements; a box is [lower, upper) in the indices of the array.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from backstay.lines import Line, Problem, Segment, open_to_read, read_at

TILE = 1 << 24  # bytes of one piece; several of them are alive at once
SHORT_RUN = 1 << 15  # shorter reads than this cost more than the bytes that they spare


@dataclass(frozen=True)
class Part:
    """One segment, and where it lies in the array."""

    segment: Segment
    lower: tuple

    @property
    def upper(self) -> tuple:
        return tuple(low + n for low, n in zip(self.lower, self.segment.shape))


@dataclass
class Array:
    """A region as one array: global for blocks and lists, the first rank's if replicated, one rank's if private."""

    line: Line
    name: str
    kind: str
    dtype: np.dtype
    shape: tuple
    units: str
    parts: list
    ranks: list  # of all that saved the region
    rank: int = -1  # private regions: whose
    problem: str = ""  # why its parts do not fit together; then there is nothing to read
    unchecked: bool = False  # do not compare checksums: for the few bytes of a large array
    _boxes: tuple = field(default=None, repr=False)

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def held(self) -> int:
        """Bytes of what was saved of it; the rest was left out."""
        return sum(part.segment.bytes for part in self.parts)

    @property
    def fill(self) -> object:
        """What stands where no rank saved anything, as HDF5 shows it."""
        return np.nan if self.dtype.kind in "fc" else 0

    @property
    def label(self) -> str:
        return self.name if self.rank < 0 else f"{self.name} (rank {self.rank})"

    def require_readable(self) -> "Array":
        if self.problem:
            raise Problem(
                f"The region '{self.name}' of {self.line.title} cannot be read as one: {self.problem}.", "mismatch"
            )
        return self

    def parts_in(self, lower: tuple, upper: tuple) -> list:
        """The parts with elements in a box."""
        if self._boxes is None:
            shape = (len(self.parts), len(self.shape))
            lows = np.array([part.lower for part in self.parts], dtype=np.int64).reshape(shape)
            self._boxes = lows, np.array([part.upper for part in self.parts], dtype=np.int64).reshape(shape)
        lows, highs = self._boxes
        inside = np.all(np.maximum(lows, lower) < np.minimum(highs, upper), axis=1)
        return [self.parts[i] for i in np.flatnonzero(inside)]

    def read(self, lower: tuple, upper: tuple) -> np.ndarray:
        """The elements of a box; NaN, or zero, where no rank saved any, as HDF5 shows them."""
        self.require_readable()
        shape = tuple(high - low for low, high in zip(lower, upper))
        out = np.full(shape, self.fill, self.dtype) if self.dtype.kind in "fc" else np.zeros(shape, self.dtype)
        for part in self.parts_in(lower, upper):
            low = tuple(map(max, lower, part.lower))
            high = tuple(map(min, upper, part.upper))
            path = self.line.path_of(part.segment, check=not self.unchecked)
            values = read_box(path, part.segment, _minus(low, part.lower), _minus(high, part.lower))
            out[_slices(_minus(low, lower), _minus(high, lower))] = values
        return out

    def all(self) -> np.ndarray:
        return self.read((0,) * len(self.shape), self.shape)

    def tiles(self) -> Iterator[tuple]:
        """(lower, upper, values) of every part, in pieces of about TILE bytes."""
        self.require_readable()
        for part in self.parts:
            segment = part.segment
            path = self.line.path_of(segment) if segment.bytes else None
            for low, high in tiles_of(segment.shape, segment.dtype.itemsize) if path else ():
                yield _plus(low, part.lower), _plus(high, part.lower), read_box(path, segment, low, high)


def _plus(a: tuple, b: tuple) -> tuple:
    return tuple(x + y for x, y in zip(a, b))


def _minus(a: tuple, b: tuple) -> tuple:
    return tuple(x - y for x, y in zip(a, b))


def _slices(lower: tuple, upper: tuple) -> tuple:
    return tuple(slice(low, high) for low, high in zip(lower, upper))


# ---- pieces of one segment --------------------------------------------------------------------------------------


def tiles_of(shape: tuple, itemsize: int, limit: int = TILE) -> Iterator[tuple]:
    """Boxes that cover an array of this shape once; each lies in one piece in C order and has at most `limit` bytes."""
    if not shape:
        yield (), ()
        return
    d = 0
    while d < len(shape) - 1 and math.prod(shape[d + 1 :]) * itemsize > limit:
        d += 1
    row = max(1, math.prod(shape[d + 1 :]) * itemsize)
    rows = max(1, limit // row)
    for outer in np.ndindex(*shape[:d]):
        for start in range(0, shape[d], rows):
            stop = min(shape[d], start + rows)
            yield (*outer, start, *(0 for _ in shape[d + 1 :])), (*(i + 1 for i in outer), stop, *shape[d + 1 :])


def read_box(path, segment: Segment, lower: tuple, upper: tuple) -> np.ndarray:
    """A box (in the indices of the segment) of the array that a segment is."""
    out = np.empty(_minus(upper, lower), segment.dtype)
    if not out.size:
        return out
    try:
        with open_to_read(path) as file:
            _fill(file, segment, lower, upper, out)
    except Problem as problem:
        raise Problem(f"{path}: {problem}.", problem.kind) from problem
    return out


def _fill(file, segment: Segment, lower: tuple, upper: tuple, out: np.ndarray) -> None:
    shape, itemsize = segment.shape, segment.dtype.itemsize
    if not shape:
        out[...] = np.frombuffer(read_at(file, segment.offset, itemsize), segment.dtype)[0]
        return
    d = _run_dimension(shape, itemsize, lower, upper)
    row_items = math.prod(shape[d + 1 :])
    rows = max(1, TILE // (row_items * itemsize))
    trailing = _slices(lower[d + 1 :], upper[d + 1 :])
    for outer in np.ndindex(*out.shape[:d]):
        index = _plus(outer, lower)
        base = 0
        for n, i in zip(shape, index):
            base = base * n + i
        for start in range(lower[d], upper[d], rows):
            n = min(rows, upper[d] - start)
            first = (base * shape[d] + start) * row_items
            raw = read_at(file, segment.offset + first * itemsize, n * row_items * itemsize)
            block = np.frombuffer(raw, segment.dtype).reshape(n, *shape[d + 1 :])
            out[outer][start - lower[d] : start - lower[d] + n] = block[(slice(None), *trailing)]


def _run_dimension(shape: tuple, itemsize: int, lower: tuple, upper: tuple) -> int:
    """The dimension along which rows are read in one go: the deepest whose reads are still long enough."""
    d = 0
    while d + 1 < len(shape):
        wanted = upper[d + 1] - lower[d + 1]
        row = math.prod(shape[d + 1 :]) * itemsize
        run = wanted * math.prod(shape[d + 2 :]) * itemsize
        needed_whole = _minus(upper[d + 1 :], lower[d + 1 :]) == shape[d + 1 :]
        if row <= TILE and (needed_whole or run < SHORT_RUN):
            break
        d += 1
    return d


# ---- structs ----------------------------------------------------------------------------------------------------


def leaves(values: np.ndarray, label: str = "") -> Iterator[tuple]:
    """(".member.inner", values) of every innermost member; with an empty label the array itself, if it is no struct."""
    if values.dtype.names is None:
        yield label, values
        return
    for name in values.dtype.names:
        yield from leaves(values[name], f"{label}.{name}")


# ---- from segments to arrays ------------------------------------------------------------------------------------


def whole_arrays(line: Line) -> dict:
    """Every region of a whole line, by name, in the order of protection; of a private one the first rank's."""
    return {name: arrays[0] for name, arrays in arrays_by_name(line).items()}


def arrays_by_name(line: Line) -> dict:
    """name -> [Array]: one array, or one for each rank where a region is private to several. Static ones come last."""
    if not line.whole:
        raise Problem(f"{line.heading} is not whole: {line.why}.", "missing")
    segments = {}
    for segment in line.segments():
        segments.setdefault(segment.region, []).append(segment)
    arrays = {name: _arrays_of(line, name, group) for name, group in segments.items()}
    return arrays | arrays_by_name(line.statics) if line.statics else arrays


def _arrays_of(line: Line, name: str, segments: list) -> list:
    first = segments[0]
    ranks = sorted({s.rank for s in segments})
    kind, problem = first.placement.kind, _why_apart(segments)

    def make(shape, parts, rank=-1):
        return Array(line, name, kind, parts[0].segment.dtype, shape, first.units, parts, ranks, rank, problem)

    def private(owner, rank):
        mine = [s for s in segments if s.rank == owner]
        shape = mine[0].shape if mine[0].part_of is None else mine[0].part_of
        return make(shape, [Part(s, s.lower) for s in mine], rank)

    if problem:
        return [make(first.shape, [Part(first, (0,) * len(first.shape))])]
    if kind == "replicated" or (kind == "private" and line.manifest.ranks == 1):
        return [private(first.rank, -1)]
    if kind == "private":
        return [private(rank, rank) for rank in ranks]
    if kind == "block":
        return [make(first.placement.global_shape, [Part(s, _plus(s.placement.lower, s.lower)) for s in segments])]
    return [_list_of(segments, make)]


def _list_of(segments: list, make) -> Array:
    parts, length = [], 0
    trailing = segments[0].shape[1:]
    for s in segments:
        parts.append(Part(s, (length, *(0 for _ in trailing))))
        length += s.shape[0]
    return make((length, *trailing), parts)


def _why_apart(segments: list) -> str:
    """Why segments of one name are no one region, or empty."""
    first = segments[0]
    if len({(s.rank, s.at) for s in segments}) != len(segments):
        return "a rank has it twice"
    if len({(s.rank, s.part_of) for s in segments}) != len({s.rank for s in segments}):
        return "a rank has parts of it that do not belong together"
    for s in segments[1:]:
        if s.placement.kind != first.placement.kind or s.placement.global_shape != first.placement.global_shape:
            return f"ranks {first.rank} and {s.rank} placed it differently"
        if s.placement.kind != "private" and s.dtype != first.dtype:
            return f"it has another type on rank {first.rank} than on rank {s.rank}"
    if first.placement.kind == "list" and not all(s.shape and s.shape[1:] == first.shape[1:] for s in segments):
        return "its pieces have different shapes"
    return ""
