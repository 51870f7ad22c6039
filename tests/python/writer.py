"""Writes checkpoints as docs/format.md says, independently of the library: fixtures for the tests of the reader.

    c = Checkpoint(line=42, ranks=8)
    c.block("u", array, cuts=[(0, 3), (3, 4), ...])
    c.write(directory, "shared", layout="file-per-node")

The HDF5 metadata are dummy bytes with the right checksum: readers of the format do not look into them.
"""

import json
from pathlib import Path

import google_crc32c
import numpy as np

PAGE = 4096
LARGE = 65536
JOB = "0123456789abcdef"


def crc(data: bytes) -> str:
    return f"{google_crc32c.value(bytes(data)):08x}"


def padded(data: bytes, to: int) -> bytes:
    return data + bytes(-len(data) % to)


def type_of(dtype: np.dtype):
    """The type of docs/format.md for a NumPy type."""
    if dtype.names is not None:
        members = []
        for name in dtype.names:
            element, offset = dtype.fields[name][:2]
            members.append(
                {"name": name, "offset": offset, "type": type_of(element.base), "shape": list(element.shape)}
            )
        return {"size": dtype.itemsize, "members": members}
    return f"{dtype.kind}{dtype.itemsize}" if dtype.kind != "b" else "b1"


class Checkpoint:
    """Regions of some ranks, to be written as one line at any levels."""

    def __init__(self, line=1, ranks=1, nodes=1, job=JOB, call=None, time=1.7e9, program="tgv"):
        self.line, self.ranks, self.nodes, self.job = line, ranks, nodes, job
        self.call = line * 10 if call is None else call
        self.time, self.program = time, program
        self.segments = {rank: [] for rank in range(ranks)}

    def add(self, rank, name, values, placement, units="", kind=None):
        values = np.ascontiguousarray(values).reshape(np.shape(values))
        self.segments[rank].append((name, values, placement, units, kind or type_of(values.dtype)))
        return self

    def replicated(self, name, value, units=""):
        for rank in range(self.ranks):
            self.add(rank, name, value, {"kind": "replicated"}, units)
        return self

    def private(self, name, values, units=""):
        """`values`: one array a rank."""
        for rank, value in enumerate(values):
            self.add(rank, name, value, {"kind": "private"}, units)
        return self

    def list(self, name, pieces, units=""):
        for rank, piece in enumerate(pieces):
            self.add(rank, name, piece, {"kind": "list"}, units)
        return self

    def block(self, name, whole, boxes, units=""):
        """`boxes`: a (lower, upper) for each rank."""
        for rank, (lower, upper) in enumerate(boxes):
            part = whole[tuple(slice(a, b) for a, b in zip(lower, upper))]
            where = {"kind": "block", "global": list(whole.shape), "lower": list(lower), "upper": list(upper)}
            self.add(rank, name, part, where, units)
        return self

    # ---- files --------------------------------------------------------------------------------------------------

    def node_of(self, rank):
        return rank * self.nodes // self.ranks

    def write(self, directory, level="shared", layout="file-per-rank", distance=1):
        """Makes the line at a level; the nodes' directories are directory/node-N. Gives the paths of its files."""
        groups = self._groups(level, layout)
        files, contents = [], {}
        for name, ranks in groups.items():
            data = self.data_file(name, ranks)
            contents[name] = data
            node = -1 if level == "shared" else self.node_of(ranks[0])
            copy = (node + distance) % self.nodes if level == "partner" else -1
            entry = {"name": name, "ranks": ranks, "node": node, "copy_node": copy, "size": len(data)}
            files.append({**entry, "table": self.table_crc(data)})
        manifest = self.manifest(level, files)
        written = []
        for where, node in self._places(Path(directory), level):
            where.mkdir(parents=True, exist_ok=True)
            for entry in files:
                if entry["node"] == node:
                    written.append(where / entry["name"])
                    written[-1].write_bytes(contents[entry["name"]])
                if entry["copy_node"] == node and node >= 0:
                    written.append(where / f"copy-{entry['name']}")
                    written[-1].write_bytes(contents[entry["name"]])
            (where / "manifest").write_bytes(manifest)
            written.append(where / "manifest")
        return written

    def _groups(self, level, layout):
        everyone = list(range(self.ranks))
        if level != "shared" or layout == "file-per-rank":
            return {f"rank-{rank:05d}.h5": [rank] for rank in everyone}
        if layout == "one-file":
            return {"all.h5": everyone}
        nodes = {}
        for rank in everyone:
            nodes.setdefault(self.node_of(rank), []).append(rank)
        return {f"node-{node:05d}.h5": ranks for node, ranks in nodes.items()}

    def _places(self, directory, level):
        name = f"line-{self.line:08d}"
        if level == "shared":
            return [(directory / "shared" / name, -1)]
        return [(directory / f"node-{node}" / level / name, node) for node in range(self.nodes)]

    def manifest(self, level, files, version=1):
        facts = {"job": self.job, "line": self.line, "level": level, "ranks": self.ranks, "call": self.call}
        facts |= {"time": self.time, "program": self.program, "files": files}
        body = json.dumps(facts, ensure_ascii=False).encode() + b"\n"
        return f"backstay manifest {version} {len(body)} {crc(body)}\n".encode() + body

    @staticmethod
    def table_crc(data):
        return data.split(b" ", 8)[6].decode()

    def data_file(self, name, ranks):
        areas, table = self._areas(ranks)
        table_at = 2 * PAGE + len(areas)
        body = json.dumps(
            {"job": self.job, "line": self.line, "file": name, "segments": table}, ensure_ascii=False
        ).encode()
        superblock, metadata = padded(bytes(range(256)) * 4, PAGE), b"dummy HDF5 metadata " * 7
        hdf5_at = table_at + len(padded(body, PAGE))
        line = f"backstay data 1 table {table_at} {len(body)} {crc(body)} "
        line += f"hdf5 {hdf5_at} {len(metadata)} {crc(superblock + metadata)} size {hdf5_at + len(metadata)} crc "
        header = padded(f"{line}{crc(line.encode())}\n".encode(), PAGE)
        return header + superblock + areas + padded(body, PAGE) + metadata

    def _areas(self, ranks):
        areas, table = b"", []
        for rank in ranks:
            for name, values, placement, units, kind in self.segments[rank]:
                data = values.tobytes()
                areas = padded(areas, PAGE if len(data) >= LARGE else 64)
                dataset = f"/{name}" if len(ranks) == 1 else f"/by_rank/{rank:05d}/{name}"
                segment = {"rank": rank, "region": name, "dataset": dataset, "type": kind}
                segment |= {"shape": list(values.shape), "units": units, "placement": placement}
                segment |= {"offset": 2 * PAGE + len(areas), "bytes": len(data), "crc32c": crc(data)}
                table.append(segment)
                areas += data
            areas = padded(areas, PAGE)
        return areas, table


def split_box(shape, parts):
    """Boxes that cover `shape`, one for each of `parts` pieces, of uneven sizes where it does not divide."""
    boxes = [((0,) * len(shape), tuple(shape))]
    while len(boxes) < parts:
        lower, upper = boxes.pop(0)
        d = max(range(len(shape)), key=lambda k: upper[k] - lower[k])
        middle = lower[d] + (upper[d] - lower[d]) * 2 // 5
        boxes.append((lower, (*upper[:d], middle, *upper[d + 1 :])))
        boxes.append(((*lower[:d], middle, *lower[d + 1 :]), upper))
    return boxes


def split_even(count, parts):
    edges = [i * count // parts for i in range(parts + 1)]
    return [slice(a, b) for a, b in zip(edges, edges[1:])]


def rewrite(path, data):
    """New contents in place: emptying the file first would make some file systems flush it, thousands of times."""
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate(len(data))


def flip(path, offset, mask=0xFF):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ mask]))
