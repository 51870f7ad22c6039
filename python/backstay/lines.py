"""Reads the checkpoints of a directory, without MPI and without HDF5 (docs/format.md is the specification).

    directory = open_directory("backstay-checkpoints")
    line = newest_whole(read_lines(directory))
    for segment in line.segments():
        print(segment.rank, segment.region, segment.shape)

Nothing that a file says is trusted before it is checked: what is torn, cut off, altered, foreign or newer gives a
Problem, whose text is a sentence. Whole global arrays are put together in backstay.regions.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c
import numpy as np

FORMAT_VERSION = 1
PAGE = 4096
FIRST_AREA = 2 * PAGE
MOST_MEMBERS = 255  # of a parity group
REBUILT = "it is rebuilt from parity when the run resumes"
OVERWRITTEN = "overwritten before it is read"  # why a region was left out
UNLISTED = "not on the program's list (save_only)"
MADE = "made by the beginning of the program, and not changed since"
LEVELS = ("shared", "partner", "local2", "local")  # in the order in which a reader prefers them
COMPANIONS = tuple(f"{level}-static" for level in LEVELS)  # where the static regions of their lines are
MAX_DIMENSIONS = 7
CHUNK = 1 << 22  # bytes read at once: large enough for a disk, small enough to stay in the cache
LARGEST_MANIFEST = 1 << 30
LARGEST_NUMBER = 1 << 62
RUN_LOCK = "run.lock"  # held by `backstay run`
MOST_PARTS = 3  # of the names of sessions that are looked for
TRACES = ("session.json", "events.jsonl", "lock", RUN_LOCK, *LEVELS, *COMPANIONS)  # what a job leaves in its directory


class Problem(Exception):
    """What could not be read or done; the text is a sentence. `kind` says what a caller might do about it."""

    def __init__(self, sentence: str, kind: str = "corrupt"):
        super().__init__(sentence)
        self.kind = kind  # missing, corrupt, version, mismatch, io, locked, vanished


class Unreadable(Problem):
    """`line` cannot be read; the same checkpoint at another level might."""

    def __init__(self, line: Line, sentence: str):
        super().__init__(sentence)
        self.line = line


# ---- bytes ------------------------------------------------------------------------------------------------------


def crc32c(data: bytes, before: int = 0) -> int:
    return google_crc32c.extend(before, data)


def read_at(file, offset: int, length: int) -> bytes:
    """Exactly `length` bytes at `offset` of an open file."""
    try:
        data = os.pread(file.fileno(), length, offset)
        while len(data) < length:
            more = os.pread(file.fileno(), length - len(data), offset + len(data))
            if not more:
                raise Problem(f"it ends at byte {offset + len(data)}, before byte {offset + length}")
            data += more
    except OSError as error:
        raise Problem(f"it cannot be read: {error.strerror}", "io") from error
    return data


def chunks_at(file, offset: int, length: int) -> Iterator[bytes]:
    """The same bytes, a piece at a time."""
    for start in range(offset, offset + length, CHUNK):
        yield read_at(file, start, min(CHUNK, offset + length - start))


def open_to_read(path: Path):
    """An open regular file, unbuffered. A pipe or device with that name is refused, not waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        kind = "missing" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else "io"
        raise Problem("it is missing" if kind == "missing" else f"it cannot be read: {error.strerror}", kind) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Problem("it is not an ordinary file")
    return os.fdopen(fd, "rb", buffering=0)


def is_zero(data: bytes) -> bool:
    return data.count(0) == len(data)


# ---- what JSON may hold -----------------------------------------------------------------------------------------


def _object_from(data: bytes, what: str) -> dict:
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Problem(f"{what} has the right checksum, but is not JSON") from error
    if not isinstance(value, dict):
        raise Problem(f"{what} is not a JSON object")
    return value


class _Fields:
    """The members of a JSON object, each checked when it is asked for."""

    def __init__(self, value, what: str):
        if not isinstance(value, dict):
            raise Problem(f"{what} is not a JSON object")
        self.value, self.what = value, what

    def _wrong(self, key: str, wanted: str) -> Problem:
        return Problem(f"{self.what} has no {wanted} '{key}'")

    def number(self, key: str, low: int = 0, high: int = LARGEST_NUMBER) -> int:
        n = self.value.get(key)
        if type(n) is not int or not low <= n <= high:
            raise self._wrong(key, "valid number")
        return n

    def text(self, key: str) -> str:
        s = self.value.get(key)
        if not isinstance(s, str):
            raise self._wrong(key, "text")
        return s

    def seconds(self, key: str) -> float:
        x = self.value.get(key)
        if type(x) not in (int, float) or not math.isfinite(x):
            raise self._wrong(key, "valid time")
        return float(x)

    def crc(self, key: str) -> int:
        s = self.text(key)
        if not re.fullmatch(r"[0-9a-f]{8}", s):
            raise self._wrong(key, "checksum")
        return int(s, 16)

    def list(self, key: str) -> list:
        items = self.value.get(key)
        if not isinstance(items, list):
            raise self._wrong(key, "list")
        return items

    def extents(self, key: str) -> tuple:
        lengths = self.list(key)
        if len(lengths) > MAX_DIMENSIONS or not all(type(n) is int and 0 <= n <= LARGEST_NUMBER for n in lengths):
            raise self._wrong(key, "list of lengths")
        return tuple(lengths)


# ---- the manifest -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DataFile:
    name: str
    ranks: tuple
    node: int
    copy_node: int
    size: int
    table_crc: int

    @property
    def copy_name(self) -> str:
        return "copy-" + self.name


@dataclass(frozen=True)
class ParityGroup:
    """Ranks that share parity: of the first `owners` of them the files are covered; every one has a parity file."""

    number: int
    members: tuple
    owners: int
    parities: int
    chunk: int
    headers: tuple  # for each member the CRC of the first page of its parity file

    def parity_name(self, rank: int) -> str:
        return f"parity-{self.number:05d}-of-rank-{rank:05d}"

    @property
    def parity_size(self) -> int:
        return PAGE + self.parities * self.chunk


@dataclass(frozen=True)
class Manifest:
    job: str
    line: int
    level: str
    ranks: int
    call: int
    time: float
    program: str
    files: tuple
    groups: tuple = ()
    statics: int = 0  # the line of the level's companion that has the static regions; 0: there are none
    statics_time: float | None = None  # when that was saved

    def group_of(self, rank: int) -> ParityGroup | None:
        return next((group for group in self.groups if rank in group.members[: group.owners]), None)


_MANIFEST_LINE = re.compile(rb"backstay manifest (0|[1-9][0-9]{0,18}) (0|[1-9][0-9]{0,18}) ([0-9a-f]{8})\n")


def _newer(version: int) -> Problem:
    return Problem(
        f"it is of format version {version}, and this backstay reads version {FORMAT_VERSION}: use a newer backstay",
        "version",
    )


def decode_manifest(raw: bytes) -> Manifest:
    start = _MANIFEST_LINE.match(raw)
    if not start:
        raise Problem("it does not begin as a manifest does")
    version, length = int(start.group(1)), int(start.group(2))
    if version > FORMAT_VERSION:
        raise _newer(version)
    body = raw[start.end() :]
    if version != FORMAT_VERSION or len(body) != length:
        raise Problem(f"it has {len(body)} bytes where {length} were written")
    if crc32c(body) != int(start.group(3), 16):
        raise Problem("its checksum differs")
    return _manifest_from(_Fields(_object_from(body, "it"), "it"))


def _manifest_from(f: _Fields) -> Manifest:
    ranks = f.number("ranks")
    files = tuple(_data_file_from(_Fields(item, "a file in it"), ranks) for item in f.list("files"))
    seen = [rank for file in files for rank in file.ranks]
    if len(seen) != ranks or len(set(seen)) != ranks:
        raise Problem("it does not name every rank once")
    if len({file.name for file in files}) != len(files):
        raise Problem("it names a file twice")
    given = f.list("groups") if "groups" in f.value else []
    groups = tuple(_group_from(_Fields(item, "a parity group in it"), i, ranks) for i, item in enumerate(given))
    if groups:
        _check_groups(files, groups)
    return Manifest(
        job=f.text("job"),
        line=f.number("line"),
        level=f.text("level"),
        ranks=ranks,
        call=f.number("call"),
        time=f.seconds("time"),
        program=f.text("program"),
        files=files,
        groups=groups,
        statics=f.number("statics", 1, f.number("line")) if "statics" in f.value else 0,
        statics_time=f.seconds("statics_time") if "statics_time" in f.value else None,
    )


def _group_from(f: _Fields, number: int, ranks: int) -> ParityGroup:
    members, headers = tuple(f.list("members")), tuple(f.list("headers"))
    group = ParityGroup(number, members, f.number("owners"), f.number("parities"), f.number("chunk"), headers)
    good = (
        all(type(rank) is int and 0 <= rank < ranks for rank in members)
        and len(set(members)) == len(members) == len(headers) <= MOST_MEMBERS
        and group.owners <= len(members)
        and 0 < group.parities < len(members)
        and all(isinstance(crc, str) and re.fullmatch("[0-9a-f]{8}", crc) for crc in headers)
    )
    if not good:
        raise Problem(f"its parity group {number} is not valid")
    return group


def _check_groups(files: tuple, groups: tuple) -> None:
    """Every rank's file is covered by one group, whole."""
    sizes = {file.ranks[0]: file.size for file in files if len(file.ranks) == 1}
    owned = [(group, rank) for group in groups for rank in group.members[: group.owners]]
    fits = all(sizes.get(rank, -1) <= group.chunk * (len(group.members) - group.parities) for group, rank in owned)
    if not fits or sorted(rank for _, rank in owned) != sorted(sizes) or len(sizes) != len(files):
        raise Problem("its parity groups do not cover every file once")


def _data_file_from(f: _Fields, ranks: int) -> DataFile:
    name = f.text("name")
    # A name that leaves the line's directory would have something else read, or removed.
    if not name or name.startswith(".") or "/" in name or "\0" in name or len(name.encode(errors="replace")) > 250:
        raise Problem("it has a file name that is not plain")
    members = tuple(f.list("ranks"))
    if not members or not all(type(rank) is int and 0 <= rank < ranks for rank in members):
        raise Problem(f"its file {name} has no valid list of ranks")
    return DataFile(
        name=name,
        ranks=members,
        node=f.number("node", -1),
        copy_node=f.number("copy_node", -1),
        size=f.number("size"),
        table_crc=f.crc("table"),
    )


# ---- types and segments -----------------------------------------------------------------------------------------

_PLAIN_TYPES = {
    name: np.dtype(name)
    for name in "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 b1".split()  # spelled as NumPy spells them
}
_LONG_TYPES = {"f16": "longdouble", "c32": "clongdouble"}


def decode_type(value, depth: int = 0) -> np.dtype:
    if isinstance(value, str):
        return _simple_type(value)
    f = _Fields(value, "a type")
    if depth > MAX_DIMENSIONS:
        raise Problem("a struct is nested too deeply")
    size = f.number("size", 1, 1 << 31)
    names, formats, offsets = [], [], []
    for item in f.list("members"):
        m = _Fields(item, "a member of a struct")
        element, shape = decode_type(m.value.get("type"), depth + 1), m.extents("shape")
        names.append(m.text("name"))
        offsets.append(m.number("offset", 0, size))
        if offsets[-1] + element.itemsize * math.prod(shape) > size:
            raise Problem("a struct has a member beyond its end")
        formats.append((element, shape) if shape else element)
    try:
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    except (ValueError, TypeError) as error:
        raise Problem(f"a struct cannot be described to NumPy: {error}") from error


def _simple_type(text: str) -> np.dtype:
    if text in _PLAIN_TYPES:
        return _PLAIN_TYPES[text]
    if text in _LONG_TYPES:
        long = np.dtype(_LONG_TYPES[text])
        # Elsewhere than on x86 a long double is something else: the bytes are kept as they are.
        return long if long.itemsize == int(text[1:]) and np.finfo(long).nmant == 63 else np.dtype("V" + text[1:])
    match = re.fullmatch(r"([SV])([1-9][0-9]{0,9})", text)
    if not match or int(match.group(2)) >= 1 << 31:
        raise Problem(f"it has a type '{text[:40]}' that version {FORMAT_VERSION} does not know")
    return np.dtype(text)


@dataclass(frozen=True)
class Placement:
    kind: str  # private, replicated, list, block
    global_shape: tuple = ()
    lower: tuple = ()
    upper: tuple = ()


def _placement_from(f: _Fields, shape: tuple) -> Placement:
    kind = f.text("kind")
    if kind in ("private", "replicated", "list"):
        return Placement(kind)
    if kind != "block":
        raise Problem(f"it has a placement '{kind[:40]}' that version {FORMAT_VERSION} does not know")
    p = Placement(kind, f.extents("global"), f.extents("lower"), f.extents("upper"))
    if not len(p.global_shape) == len(p.lower) == len(p.upper) == len(shape):
        raise Problem("a block has unequal dimensions")
    for low, high, whole, length in zip(p.lower, p.upper, p.global_shape, shape):
        if not low <= high <= whole or high - low != length:
            raise Problem("a block does not fit into its global array")
    return p


@dataclass(frozen=True)
class Segment:
    file: str
    rank: int
    region: str
    dataset: str
    type: object  # as in the table
    dtype: np.dtype
    shape: tuple
    units: str
    placement: Placement
    offset: int
    bytes: int
    crc: int
    part_of: tuple | None = None  # shape of the region on its rank, of which this is a box; None: it is all of it
    at: tuple = ()  # where that box begins

    @property
    def lower(self) -> tuple:
        """Where it begins in the region of its rank."""
        return self.at if self.part_of is not None else (0,) * len(self.shape)


@dataclass(frozen=True)
class Table:
    job: str
    line: int
    file: str
    segments: tuple
    left_out: tuple = ()  # of (rank, region, why): not saved


def _why_left_out(entry: dict) -> str:
    return MADE if "made" in entry else UNLISTED if entry.get("unlisted") is True else OVERWRITTEN


def decode_table(raw: bytes, end_of_areas: int) -> Table:
    f = _Fields(_object_from(raw, "its table"), "its table")
    file = f.text("file")
    segments = [_segment_from(_Fields(item, "a segment"), file, end_of_areas) for item in f.list("segments")]
    _require_parts_apart(segments)
    entries = [_Fields(item, "what was left out") for item in f.list("left_out")] if "left_out" in f.value else []
    left_out = tuple(
        (entry.number("by", 0, (1 << 31) - 1), entry.text("name"), _why_left_out(entry.value)) for entry in entries
    )
    return Table(job=f.text("job"), line=f.number("line"), file=file, segments=tuple(segments), left_out=left_out)


def _require_parts_apart(segments: list) -> None:
    parts: dict = {}
    for segment in segments:
        if segment.part_of is None or not segment.bytes:
            continue
        others = parts.setdefault((segment.rank, segment.region), [])
        for other in others:
            both = zip(segment.at, segment.shape, other.at, other.shape)
            if all(a < b + m and b < a + n for a, n, b, m in both):
                raise Problem(f"parts of the region '{segment.region}' of rank {segment.rank} overlap")
        others.append(segment)


def _part_from(f: _Fields, shape: tuple, placement: str) -> tuple:
    of, at = f.extents("of"), f.extents("at")
    fits = len(of) == len(at) == len(shape) and all(low + n <= whole for low, n, whole in zip(at, shape, of))
    if not fits:
        raise Problem("a part of a region lies outside of it")
    if placement not in ("private", "block"):
        raise Problem("a region that is neither private nor a block was saved in parts")
    return of, at


def _segment_from(f: _Fields, file: str, end_of_areas: int) -> Segment:
    dtype, shape = decode_type(f.value.get("type")), f.extents("shape")
    placement = _Fields(f.value.get("placement"), "a placement")
    part_of, at = None, ()
    if "part" in f.value:
        part_of, at = _part_from(_Fields(f.value["part"], "a part"), shape, placement.text("kind"))
    offset, length = f.number("offset"), f.number("bytes")
    if length != math.prod(shape) * dtype.itemsize:
        raise Problem("a segment has another size than its shape and type")
    if length and not (FIRST_AREA <= offset and offset + length <= end_of_areas):
        raise Problem("a segment lies outside the areas of its file")
    return Segment(
        file=file,
        rank=f.number("rank", 0, (1 << 31) - 1),
        region=f.text("region"),
        dataset=f.text("dataset"),
        type=f.value.get("type"),
        dtype=dtype,
        shape=shape,
        units=f.text("units"),
        placement=_placement_from(placement, shape if part_of is None else part_of),
        offset=offset,
        bytes=length,
        crc=f.crc("crc32c"),
        part_of=part_of,
        at=at,
    )


# ---- the data file ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Header:
    table_offset: int
    table_length: int
    table_crc: int
    hdf5_offset: int
    hdf5_length: int
    hdf5_crc: int
    size: int


_NUMBER, _CRC = rb"(0|[1-9][0-9]{0,18})", rb"([0-9a-f]{8})"
_DATA_LINE = re.compile(
    rb"backstay data 1 table %b %b %b hdf5 %b %b %b size %b crc %b\n"
    % (_NUMBER, _NUMBER, _CRC, _NUMBER, _NUMBER, _CRC, _NUMBER, _CRC)
)
_DATA_VERSION = re.compile(rb"backstay data ([1-9][0-9]{0,8}) ")


def round_up(n: int, to: int) -> int:
    return -(-n // to) * to


def decode_header(page: bytes) -> Header:
    version = _DATA_VERSION.match(page)
    if not version:
        raise Problem("it does not begin as a data file of backstay does")
    if int(version.group(1)) > FORMAT_VERSION:
        raise _newer(int(version.group(1)))
    line = _DATA_LINE.match(page)
    if not line:
        raise Problem("its header is damaged")
    *numbers, line_crc = line.groups()
    if crc32c(page[: line.end() - 9]) != int(line_crc, 16):
        raise Problem("the checksum of its header differs")
    if not is_zero(page[line.end() :]):
        raise Problem("its header is followed by bytes that are not zero")
    t, t_length, t_crc, h, h_length, h_crc, size = numbers
    header = Header(int(t), int(t_length), int(t_crc, 16), int(h), int(h_length), int(h_crc, 16), int(size))
    if (
        header.table_offset < FIRST_AREA
        or header.table_offset % PAGE
        or header.hdf5_offset != header.table_offset + round_up(header.table_length, PAGE)
        or header.size != header.hdf5_offset + header.hdf5_length
    ):
        raise Problem("its header does not fit together")
    return header


def read_header(file, expected: DataFile) -> Header:
    """The header of an open data file, if the file is the one that the manifest means."""
    size = os.fstat(file.fileno()).st_size
    header = decode_header(read_at(file, 0, PAGE)) if size >= PAGE else None
    if size != expected.size:
        if header and header.size == size:
            raise Problem(_foreign(file, header))
        what = "was cut off" if size < expected.size else "is too long"
        raise Problem(f"it {what}: {size} bytes where {expected.size} were written")
    if header is None or header.size != size:
        raise Problem("its header speaks of another size")
    if header.table_crc != expected.table_crc:
        raise Problem(_foreign(file, header))
    return header


def _foreign(file, header: Header) -> str:
    try:
        table = read_table(file, header)
    except Problem:
        return "it is not the file that the manifest means"
    return f"it is another file: {table.file} of line {table.line} of job {table.job}"


def read_table(file, header: Header) -> Table:
    raw = read_at(file, header.table_offset, header.table_length)
    if crc32c(raw) != header.table_crc:
        raise Problem("the checksum of its table differs")
    return decode_table(raw, header.table_offset)


def check_identity(table: Table, manifest: Manifest, expected: DataFile) -> None:
    """Raises a Problem unless the table belongs to this line."""
    if (table.job, table.line, table.file) != (manifest.job, manifest.line, expected.name):
        raise Problem(f"it is another file: {table.file} of line {table.line} of job {table.job}")
    if not {segment.rank for segment in table.segments} <= set(expected.ranks):
        raise Problem("its table has a rank that the manifest does not expect there")


# ---- directories and lines --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Root:
    """Where the lines of some levels are: the checkpoint directory itself, or the directory of one node."""

    path: Path
    node: int  # -1: the checkpoint directory


@dataclass
class Directory:
    path: Path
    roots: list
    session: dict  # session.json, or {} if it is missing or unreadable
    away: tuple = ()  # of directories of nodes that hold lines and are all not here

    def what_is_away(self) -> str:
        """A sentence, if there is something to say."""
        if not self.away:
            return ""
        named = ", ".join(self.away[:2]) + (", ..." if len(self.away) > 2 else "")
        if _was_moved(self.path, self.session):
            return (
                f"The lines on nodes are not looked at: session.json names their directories ({named}) for "
                f"{self.session.get('dir')}, of which this is a copy or another name."
            )
        return (
            f"The lines on nodes are not looked at: none of the directories that session.json names is here ({named}). "
            "Where the nodes have them, run this there."
        )

    def nodes(self) -> list:
        return [root for root in self.roots if root.node >= 0]

    def locks(self) -> list:
        run = self.path / RUN_LOCK
        return [run] * run.exists() + [root.path / "lock" for root in self.roots]

    def has_lines(self) -> bool:
        """At any level, unfinished ones too."""
        return any(_any_line(root.path / level) for root in self.roots for level in LEVELS)

    def named_sessions(self) -> list:
        """The names of the sessions below: those of a program that gives each of its sessions a `name`, of up to three
        parts. Their local lines are at node-N/NAME, and NAME/session.json says so."""
        return list(_sessions_below(self.path, Path()))

    def is_ours(self) -> bool:
        """A job has worked here."""
        return len(self.roots) > 1 or any((self.path / name).exists() for name in TRACES)


def open_directory(path) -> Directory:
    path = Path(path)
    if not path.is_dir():
        hint = "name another one, or set BACKSTAY_DIR"
        what = "is not a directory" if path.exists() else "does not exist"
        raise Problem(f"The checkpoint directory {path} {what}: {hint}.", "missing")
    if not os.access(path, os.R_OK | os.X_OK):
        raise Problem(f"The checkpoint directory {path} may not be read by you.", "io")
    session = _read_session(path / "session.json")
    nodes = _node_roots(path, session)
    return Directory(path, [Root(path, -1), *nodes], session, () if nodes else _named_for_nodes(session))


def is_checkpoint_directory(path: Path) -> bool:
    """A job has surely worked here, or this is the directory of one of its nodes."""
    if any((path / name).is_file() for name in ("events.jsonl", RUN_LOCK)):
        return True
    return _is_session(path) or ((path / "lock").is_file() and any((path / level).is_dir() for level in LEVELS))


def _any_line(level: Path) -> bool:
    try:
        return level.is_dir() and next(_line_dirs(level), None) is not None
    except (OSError, Problem):  # whoever reads the lines is told why that cannot be done
        return True


def _sessions_below(path: Path, name: Path) -> Iterator[str]:
    try:
        found = sorted(entry.name for entry in os.scandir(path / name) if _may_be_directory(entry))
    except OSError:
        return
    for part in found:
        if re.fullmatch(r"(node|line)-\d{1,19}", part):
            continue
        below = name / part
        # Further below what looks like lines may be those of a node, whose directory can have any name.
        if _read_session(path / below / "session.json") or (name == Path() and _is_session(path / below)):
            yield str(below)
        if len(below.parts) < MOST_PARTS and not (path / below).is_symlink():
            yield from _sessions_below(path, below)


def _is_session(path: Path) -> bool:
    """Lines or a session.json. A `lock` or a directory `local` alone may be anybody's."""
    try:
        return bool(_read_session(path / "session.json")) or open_directory(path).has_lines()
    except Problem:  # not ours to read
        return False


def _read_session(path: Path) -> dict:
    try:
        with open_to_read(path) as file:
            return _object_from(file.read(), "it")
    except (Problem, OSError):
        return {}  # it only says where else to look


def _was_moved(path: Path, session: dict) -> bool:
    """This is a copy of the directory in which the job ran, or that directory under another name."""
    try:
        return not isinstance(session.get("dir"), str) or Path(session["dir"]).resolve() != path.resolve()
    except (OSError, ValueError, RuntimeError):
        return True


def _named_for_nodes(session: dict) -> tuple:
    """Where a job that keeps lines on nodes has them."""
    levels, places = session.get("levels"), session.get("local_dirs")
    if not any(str(level).startswith(("local", "partner")) for level in (levels if isinstance(levels, list) else [])):
        return ()
    return tuple(str(x.get("path")) for x in (places if isinstance(places, list) else []) if isinstance(x, dict))


def _node_roots(path: Path, session: dict) -> list:
    named = session.get("local_dirs")
    candidates = []
    moved = _was_moved(path, session)
    for item in named if isinstance(named, list) else []:
        if not (isinstance(item, dict) and type(item.get("node")) is int and isinstance(item.get("path"), str)):
            continue
        if not (moved and Path(item["path"]).is_absolute()):  # those belong to the directory that this is a copy of
            candidates.append((item["node"], path / item["path"]))
    for child in path.glob("node-*"):  # also when session.json names others: the directory may have been copied
        if re.fullmatch(r"node-\d{1,9}", child.name):
            candidates.append((int(child.name[5:]), child))
    roots, seen = [], set()
    for node, place in sorted(candidates, key=lambda c: c[0]):
        try:
            real = place.resolve()
            known = real in seen or not place.is_dir()
        except (OSError, ValueError, RuntimeError):  # a path with a NUL, a loop of links
            continue
        if not known and node >= 0:
            seen.add(real)
            roots.append(Root(place, node))
    return roots


@dataclass
class Holding:
    """A line's directory in one root."""

    root: Root
    path: Path
    manifest: Manifest | None = None
    why: str = ""  # a manifest is there, but cannot be read
    signature: tuple = ()

    @property
    def committed(self) -> bool:
        return bool(self.manifest or self.why)


def _signature(path: Path) -> tuple:
    try:
        s = os.stat(path)
    except OSError:
        return ()
    return (s.st_ino, s.st_size, s.st_mtime_ns)


def _read_holding(root: Root, path: Path, level: str, number: int) -> Holding:
    holding = Holding(root, path, signature=_signature(path / "manifest"))
    try:
        with open_to_read(path / "manifest") as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGEST_MANIFEST:
                raise Problem("it is too large")
            manifest = decode_manifest(read_at(file, 0, size))
        if (manifest.line, manifest.level) != (number, level):
            raise Problem(f"it is the manifest of line {manifest.line} at level {manifest.level[:20]}")
        holding.manifest = manifest
    except Problem as problem:
        if problem.kind != "missing":
            holding.why = f"the manifest {path / 'manifest'} cannot be used: {problem}"
        elif os.path.islink(path) and not os.path.exists(path):
            holding.why = f"{path} is a link that leads nowhere"
    return holding


@dataclass(frozen=True)
class Instance:
    """One stored copy of a data file: the original, or the one a partner keeps."""

    path: Path
    is_copy: bool
    why: str = ""  # it cannot be used, whatever its bytes are


@dataclass(eq=False)  # two readings of one line are two
class Line:
    """One checkpoint at one level, as its directories are now. Cheap checks only: see verify_line() for the rest."""

    number: int
    level: str
    holdings: list
    manifest: Manifest | None = None
    why: str = ""  # empty: whole
    retired: bool = False  # no manifest, and a newer line of its level has one: its files will be used again
    left_behind: bool = False  # retired, but for what a node has that had left the job by then
    notes: list = field(default_factory=list)  # what is amiss, although the line can be read
    usable: dict = field(default_factory=dict)  # file name -> [Instance]
    from_parity: set = field(default_factory=set)  # names of files that are lost, and can be rebuilt
    statics: Line | None = None  # the line of the level's companion that has the static regions
    _files: dict = field(default_factory=dict)
    _checked: dict = field(default_factory=dict)
    _tables: dict = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return self.manifest is not None and not self.why

    @property
    def unfinished(self) -> bool:
        """No manifest anywhere: being written, given up, or retired."""
        return not self.committed_holdings

    @property
    def committed_holdings(self) -> list:
        return [holding for holding in self.holdings if holding.committed]

    @property
    def title(self) -> str:
        return f"line {self.number} ({self.level})"

    @property
    def heading(self) -> str:
        return self.title.capitalize()

    @property
    def valid_holdings(self) -> list:
        return [h for h in self.holdings if h.manifest is not None and h.manifest == self.manifest]

    @property
    def searched_holdings(self) -> list:
        """Those whose files may be of this line: their own checksums tell. One whose manifest is lost is among them."""
        return [h for h in self.holdings if h.manifest is None or h.manifest == self.manifest]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.manifest.files) if self.manifest else 0

    @property
    def stored_bytes(self) -> int:
        """With the copies that are there."""
        if not self.manifest:
            return 0
        return sum(file.size * len(self.usable.get(file.name, ())) for file in self.manifest.files)

    def may_be_of_checkpoint_of(self, other: Line) -> bool:
        """Both lines are of one checkpoint of one job, at the same or at different levels, as far as is known."""
        a, b = self.manifest, other.manifest
        return a is None or b is None or (a.job, a.line, a.call) == (b.job, b.line, b.call)

    def state(self) -> list:
        """What tells whether its directories have changed since it was read."""
        holdings = [*self.holdings, *(self.statics.holdings if self.statics else [])]
        return [(str(h.path), h.signature, h.why) for h in holdings]

    def still_there(self) -> bool:
        """False once a running job has retired the line: what was read since may be of a newer line."""
        used = self.valid_holdings
        return bool(used) and all(_signature(h.path / "manifest") == h.signature for h in used)

    def table(self, file: DataFile) -> Table:
        """The table of a data file, from the first instance whose table is whole."""
        if file.name not in self._tables:
            self._tables[file.name] = self._first_good(file, lambda f, header: self._checked_table(f, header, file))
        return self._tables[file.name]

    def _checked_table(self, opened, header: Header, file: DataFile) -> Table:
        table = read_table(opened, header)
        check_identity(table, self.manifest, file)
        return table

    def segments(self) -> list:
        """All segments, in order of rank and then as they were protected."""
        files = self.manifest.files if self.manifest else ()
        found = [segment for file in files for segment in self.table(file).segments]
        return sorted(found, key=lambda s: s.rank)  # stable: keeps the order within a rank

    def left_out(self) -> dict:
        """region -> how many ranks did not save it."""
        files = self.manifest.files if self.manifest else ()
        return dict(Counter(region for file in files for _, region, _ in self.table(file).left_out))

    def why_left_out(self, region: str) -> str:
        """MADE or OVERWRITTEN, of a region that some rank left out."""
        files = self.manifest.files if self.manifest else ()
        return next(why for file in files for _, name, why in self.table(file).left_out if name == region)

    def path_of(self, segment: Segment, check: bool = True) -> Path:
        """The file to read a segment from: one whose bytes of it have the right checksum, or, unchecked, the first."""
        if not self._files:
            self._files = {file.name: file for file in self.manifest.files}
        file = self._files[segment.file]
        if not check:
            return self.usable[file.name][0].path
        key = (segment.file, segment.rank, segment.region, segment.at)
        if key not in self._checked:
            self._checked[key] = self._first_good(file, lambda f, _: _check_segment(f, segment))
        return self._checked[key]

    def _first_good(self, file: DataFile, work: Callable):
        """What `work` gives for the first instance that it does not find a Problem in."""
        failures = []
        for instance in self.usable.get(file.name, []):
            try:
                with open_to_read(instance.path) as opened:
                    return work(opened, read_header(opened, file)) or instance.path
            except Problem as problem:
                failures.append(f"{instance.path}: {problem}")
        why = "; ".join(failures) or f"{file.name} is missing"
        if file.name in self.from_parity:
            why += f"; {REBUILT}"
        raise Unreadable(self, f"{self.heading} cannot be read: {why}.")


def _check_segment(file, segment: Segment) -> None:
    crc = 0
    for chunk in chunks_at(file, segment.offset, segment.bytes):
        crc = crc32c(chunk, crc)
    if crc != segment.crc:
        raise Problem(
            f"the bytes of region '{segment.region}' of rank {segment.rank} are not those that were written "
            f"(checksum {segment.crc:08x} stored, {crc:08x} read)"
        )


def read_lines(directory: Directory, level: str | None = None, number: int | None = None) -> list:
    """Every line of the directory at every level, newest first, the unfinished ones too."""
    lines = _lines_at(directory, LEVELS if level is None else (level,))
    levels = {line.level for line in lines if line.manifest and line.manifest.statics}
    statics = {(lv, found.number): found for lv in levels for found in static_lines(directory, lv)}
    for line in lines:
        if line.manifest and line.manifest.statics:
            _join(line, statics.get((line.level, line.manifest.statics)))
    _find_left_behind(lines)
    return [line for line in lines if number in (None, line.number)]


def read_line(directory: Directory, line: Line) -> Line:
    """That line once more, as it is now; without holdings where nothing is left of it."""
    if line.level in COMPANIONS:
        found = static_lines(directory, line.level.removesuffix("-static"))
    else:
        found = read_lines(directory, line.level)
    again = next((other for other in found if other.number == line.number), None)
    return again or _assess(Line(line.number, line.level, []))


def static_lines(directory: Directory, level: str) -> list:
    """Every line of the level's companion, newest first."""
    lines = _lines_at(directory, (f"{level}-static",))
    _find_left_behind(lines)
    return lines


def _join(line: Line, statics: Line | None) -> None:
    """A line is what it names, too."""
    line.statics = statics
    why = "it is not there" if statics is None else statics.why
    if not why and statics.manifest.job != line.manifest.job:
        why = "it is of another job"
    if not why and line.manifest.statics_time not in (0, None, statics.manifest.time):
        why = "it is another one of that number, saved at another time"
    if why and not line.why:
        line.why = f"line {line.manifest.statics} ({line.level}-static), which has its static regions: {why}"
    if statics is not None:
        line.notes += statics.notes


def _lines_at(directory: Directory, levels: tuple) -> list:
    found = {}
    for root in directory.roots:
        for lv in levels:
            if lv.startswith("shared") != (root.node < 0):
                continue
            for n, path in _line_dirs(root.path / lv):
                found.setdefault((n, lv), []).append(_read_holding(root, path, lv, n))
    lines = [_assess(Line(n, lv, holdings)) for (n, lv), holdings in found.items()]
    _find_retired(lines)
    return sorted(lines, key=lambda line: (-line.number, levels.index(line.level)))


def _find_retired(lines: list) -> None:
    newest = {}
    for line in lines:
        if not line.unfinished:
            newest[line.level] = max(line.number, newest.get(line.level, 0))
    for line in lines:
        if line.unfinished and line.number < newest.get(line.level, 0):
            line.retired, line.why = True, "it was retired: a later line will use its files again"


def _find_left_behind(lines: list) -> None:
    """Once it is known which are whole, with what they name."""
    for line in lines:
        line.left_behind = _is_left_behind(line, lines)


def _is_left_behind(line: Line, lines: list) -> bool:
    """What it lacks are files of nodes that have nothing of it, and something of a newer line, which is whole. Or those
    nodes have its files and no manifest any more, as the files are to be used again, and only others have one."""
    retired = {holding.root.node for holding in line.holdings if not holding.committed}
    if line.manifest is None or (line.whole and not retired):
        return False
    newer = [other for other in lines if other.level == line.level and other.number > line.number]
    if not any(other.whole for other in newer):
        return False
    have_newer = {holding.root.node for other in newer for holding in other.holdings}
    if retired & have_newer and have_newer.isdisjoint(h.root.node for h in line.committed_holdings):
        return True
    lost = [f for f in line.manifest.files if f.name not in line.usable and f.name not in line.from_parity]
    have_it = {holding.root.node for holding in line.holdings}
    return not line.whole and all(file.node not in have_it and file.node in have_newer for file in lost)


def _line_dirs(path: Path) -> Iterator[tuple]:
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Problem(
            f"The level {path} cannot be read ({error.strerror}), so which lines it has is not known: make it "
            "readable, or choose another with --level.",
            "io",
        ) from error
    for entry in entries:
        if re.fullmatch(r"line-\d{8,19}", entry.name) and _may_be_directory(entry):
            yield int(entry.name[5:]), path / entry.name


def _may_be_directory(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir() or entry.is_symlink()
    except OSError:  # reading its manifest will say why
        return True


def _assess(line: Line) -> Line:
    """Decides whether the line is whole. With manifests that differ, the one that more directories agree on counts."""
    votes = {}
    for holding in line.holdings:
        if holding.manifest is not None:
            votes.setdefault(holding.manifest, []).append(holding)
    line.notes = [h.why for h in line.holdings if h.why]
    if not votes:
        line.why = line.notes.pop(0) if line.notes else "it has no manifest: it is being written, or was given up"
        return line
    line.manifest = max(votes, key=lambda m: len(votes[m]))
    for manifest, holdings in votes.items():
        if manifest != line.manifest:
            line.notes += [f"the manifest {h.path / 'manifest'} is that of another checkpoint" for h in holdings]
    _find_instances(line)
    return line


def expected_instances(line: Line, file: DataFile) -> Iterator[Instance]:
    """Where the original and the copy of a file are, or should be. A rescue that was killed may have left copies."""
    for is_copy, node in ((False, file.node), (True, file.copy_node)):
        name = file.copy_name if is_copy else file.name
        places = sorted(line.searched_holdings, key=lambda h: h.root.node != node)
        there = [h.path / name for h in places if _is_there(h.path / name)]
        if not there and not (is_copy and node < 0):
            yield _missing(line, node, name, is_copy)
        yield from (Instance(path, is_copy) for path in there)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # its directory may not be looked into: _missing() says so
        return False


def _missing(line: Line, node: int, name: str, is_copy: bool) -> Instance:
    at_node = [h for h in line.holdings if h.root.node == node]
    if not at_node:
        why = f"it is missing: the directory of node {node} is not there, or has nothing of this line"
        return Instance(Path(f"node-{node}") / name, is_copy, why)
    path = at_node[0].path / name
    why = "the manifest beside it is another one" if at_node[0].manifest not in (None, line.manifest) else ""
    return Instance(path, is_copy, why or _why_not_open(path) or "it is missing")


def _why_not_open(path: Path) -> str:
    try:
        open_to_read(path).close()
    except Problem as problem:
        return str(problem)
    return ""


def _quick_problem(instance: Instance, file: DataFile) -> str:
    why = instance.why
    try:
        if not why:
            with open_to_read(instance.path) as opened:
                read_header(opened, file)
    except Problem as problem:
        why = str(problem)
    return f"{instance.path}: {why}" if why else ""


def _find_instances(line: Line) -> None:
    lost = []
    for file in line.manifest.files:
        problems = []
        for instance in expected_instances(line, file):
            problem = _quick_problem(instance, file)
            if problem:
                problems.append(problem)
            else:
                line.usable.setdefault(file.name, []).append(instance)
        if file.name not in line.usable:
            lost.append((file, " and ".join(problems)))
        elif problems:
            line.notes += [f"{problem}; the other copy stands in" for problem in problems]
    ranks = {file.ranks[0] for file, _ in lost}
    beyond = _beyond_parity(line, ranks, lambda group, rank: _parity_path(line, group, rank) is None)
    for file, problem in lost:
        if beyond.isdisjoint(file.ranks):
            line.from_parity.add(file.name)
            line.notes.append(f"{problem}; {REBUILT}")
    gone = [problem for file, problem in lost if file.name not in line.from_parity]
    if gone:
        more = f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""
        line.why = gone[0] + more


def _parity_path(line: Line, group: ParityGroup, rank: int) -> Path | None:
    """Where a member's parity is; None: nowhere, or not as long as it was."""
    for holding in line.searched_holdings:
        path = holding.path / group.parity_name(rank)
        with contextlib.suppress(OSError):
            if path.stat().st_size == group.parity_size:
                return path
    return None


def _beyond_parity(line: Line, lost: set, parity_lost: Callable) -> set:
    """Of these lost ranks those whose files parity does not give back. `parity_lost(group, rank)`: of a member."""
    out = set()
    for rank in lost:
        group = line.manifest.group_of(rank)
        if group is None:
            out.add(rank)
            continue
        gone = [member for member in group.members if member in lost or parity_lost(group, member)]
        if len(gone) > group.parities:
            out.add(rank)
    return out


def newest_whole(lines: list) -> Line | None:
    return next((line for line in lines if line.whole), None)  # read_lines() sorts the newest first


# ---- every byte -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Damage:
    line: int
    level: str
    path: str
    sentence: str


@dataclass
class Verified:
    damage: list
    readable: bool  # every data file has a copy without damage


def verify_line(line: Line, advance: Callable = lambda n: None) -> Verified:
    """Reads every byte of every copy of a line; says what is wrong. `advance` hears how many bytes were read."""
    out = Verified([], line.manifest is not None)

    def found(path, sentence):
        out.damage.append(Damage(line.number, line.level, str(path), f"{line.heading}: {sentence}."))

    for path, why in _manifest_problems(line):
        found(path, why)
    parity = _parity_problems(line, advance)
    checked = []
    for file in line.manifest.files if line.manifest else ():
        instances = list(expected_instances(line, file))
        results = [[i.why] if i.why else verify_file(i.path, file, line.manifest, advance) for i in instances]
        checked.append((file, instances, results))
    lost = {file.ranks[0] for file, _, results in checked if all(results)}
    beyond = _beyond_parity(line, lost, lambda group, rank: (group.number, rank) in parity)
    for file, instances, results in checked:
        good = [instance for instance, problems in zip(instances, results) if not problems]
        rest = f"; {good[0].path} is whole" if good else f"; level {line.level} has no other whole copy of it"
        if not good and beyond.isdisjoint(file.ranks):
            rest = f"; {REBUILT}"
        out.readable = out.readable and bool(good)
        for instance, problems in zip(instances, results):
            for problem in problems:
                found(instance.path, f"{instance.path}: {problem}{rest}")
    for path, why in parity.values():
        found(path, f"{path}: {why}")
    return out


def _manifest_problems(line: Line) -> Iterator[tuple]:
    """(path, sentence) of each manifest that is missing, damaged, or another one."""
    for holding in line.holdings:
        path = holding.path / "manifest"
        if holding.why:
            yield path, holding.why
        elif holding.manifest is None and line.manifest:
            yield path, f"{path}: it is missing; the files beside it count by the manifest of another directory"
        elif holding.manifest is not None and holding.manifest != line.manifest:
            yield path, f"the manifest {path} is that of another checkpoint"


def _parity_problems(line: Line, advance: Callable) -> dict:
    """(group, rank) -> (path, why), for each parity file that is of no use."""
    out = {}
    for group in line.manifest.groups if line.manifest else ():
        for rank, crc in zip(group.members, group.headers):
            path = _parity_path(line, group, rank)
            why = _parity_problem(path, group, crc, advance) if path else "it is missing, or not as long as it was"
            if why:
                out[group.number, rank] = (path or group.parity_name(rank), why)
    return out


def _parity_problem(path: Path, group: ParityGroup, crc: str, advance: Callable) -> str:
    """What is wrong with a parity file, or nothing."""
    try:
        with open_to_read(path) as file:
            page = read_at(file, 0, PAGE)
            advance(PAGE)
            if crc32c(page) != int(crc, 16):
                return "the checksum of its header differs"
            sums = page.split(b"\n")[0].split(b" ")[-group.parities :]  # of its parity: the last of all
            for i, expected in enumerate(sums):
                found = 0
                for chunk in chunks_at(file, PAGE + i * group.chunk, group.chunk):
                    found = crc32c(chunk, found)
                    advance(len(chunk))
                if found != int(expected, 16):
                    return f"its parity {i} is not what was written"
    except Problem as problem:
        return str(problem)
    return ""


def verify_file(path: Path, expected: DataFile, manifest: Manifest, advance: Callable = lambda n: None) -> list:
    """What is wrong with one data file, or []: every byte of it has a checksum, or must be zero."""
    problems = []
    try:
        with open_to_read(path) as file:
            header = read_header(file, expected)
            advance(PAGE)
            _collect(problems, _check_hdf5, file, header, advance)
            table = read_table(file, header)
            check_identity(table, manifest, expected)
            _collect(problems, _check_table_padding, file, header, advance)
            _check_areas(file, header, table, problems, advance)
    except Problem as problem:
        problems.append(str(problem))
    return problems


def _collect(problems: list, check: Callable, *arguments) -> None:
    """Runs one check; what it finds does not keep the next from being run."""
    try:
        check(*arguments)
    except Problem as problem:
        problems.append(str(problem))


def _check_hdf5(file, header: Header, advance: Callable) -> None:
    crc = crc32c(read_at(file, PAGE, PAGE))
    for chunk in chunks_at(file, header.hdf5_offset, header.hdf5_length):
        crc = crc32c(chunk, crc)
    advance(PAGE + header.hdf5_length)
    if crc != header.hdf5_crc:
        raise Problem("its HDF5 metadata are not those that were written")


def _check_table_padding(file, header: Header, advance: Callable) -> None:
    start = header.table_offset + header.table_length
    advance(header.hdf5_offset - header.table_offset)
    _check_zero(file, start, header.hdf5_offset, "after its table")


def _check_zero(file, start: int, end: int, where: str) -> None:
    if not all(is_zero(chunk) for chunk in chunks_at(file, start, end - start)):
        raise Problem(f"the padding {where} is not zero")


def _check_areas(file, header: Header, table: Table, problems: list, advance: Callable) -> None:
    at = FIRST_AREA
    for segment in sorted((s for s in table.segments if s.bytes), key=lambda s: s.offset):
        if segment.offset < at:
            raise Problem(f"the region '{segment.region}' of rank {segment.rank} overlaps another one")
        where = f"before region '{segment.region}' of rank {segment.rank}"
        _collect(problems, _check_zero, file, at, segment.offset, where)
        _collect(problems, _check_segment, file, segment)
        advance(segment.offset + segment.bytes - at)
        at = segment.offset + segment.bytes
    _collect(problems, _check_zero, file, at, header.table_offset, "after the last region")
    advance(header.table_offset - at)
    for segment in table.segments:
        if not segment.bytes and segment.crc != 0:
            problems.append(f"the empty region '{segment.region}' of rank {segment.rank} has a checksum")
