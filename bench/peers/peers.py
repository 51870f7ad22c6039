"""Peers that write a file a rank: h5py, and ADIOS2 (PyPI's wheel is built without MPI). One JSON object each on stdout.

mpirun -n 4 python peers.py DIR MIB_PER_RANK ARRAYS REPEATS

Each time runs from the first rank's start to the last one's end, to new files, with fsync, beside W+fsync (copy +
write(2) + fsync of the same bytes to a new file a rank) in the same turn.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import adios2
import h5py
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD


def timed(work: Callable[[], None]) -> float:
    world.Barrier()
    start = time.monotonic()  # this machine's clock, the same for all ranks on it
    work()
    return world.allreduce(time.monotonic(), MPI.MAX) - world.allreduce(start, MPI.MIN)


def sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def write_plain(path: Path, arrays: list[np.ndarray], staging: np.ndarray) -> None:
    np.concatenate(arrays, out=staging)
    with path.open("wb", buffering=0) as file:
        view = memoryview(staging).cast("B")
        while view:
            view = view[file.write(view) :]
        os.fsync(file.fileno())


def write_h5py(path: Path, arrays: list[np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for i, array in enumerate(arrays):
            file[f"a{i}"] = array
    sync(path)


def write_adios2(path: Path, arrays: list[np.ndarray]) -> None:
    with adios2.Stream(str(path), "w") as stream:
        for i, array in enumerate(arrays):
            stream.write(f"a{i}", array, list(array.shape), [0], list(array.shape))
    for part in path.iterdir():
        sync(part)


def main() -> None:
    directory, mib, count, repeats = Path(sys.argv[1]), *(int(x) for x in sys.argv[2:5])
    arrays = [np.full((mib << 20) // count // 8, 1.5 + world.rank) for _ in range(count)]
    staging = np.ones((mib << 20) // 8)
    plain = directory / f"plain-{world.rank}"
    ways = {"h5py": (write_h5py, f"h5py-{world.rank}.h5"), "adios2": (write_adios2, f"adios2-{world.rank}.bp")}
    for name, (write, file) in ways.items():
        path, ws, new = directory / file, [], []
        for turn in range(repeats + 1):
            w = timed(lambda: write_plain(plain, arrays, staging))
            plain.unlink()
            n = timed(lambda write=write, path=path: write(path, arrays))
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            if turn > 0:  # the first of everything
                ws.append(w)
                new.append(n)
        row = {"what": name, "mib": mib, "arrays": count, "ranks": world.size, "repeats": repeats}
        row |= {"ws": statistics.median(ws), "new": statistics.median(new)}
        row["new_per_ws"] = statistics.median(n / w for n, w in zip(new, ws, strict=True))
        if world.rank == 0:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
