"""The samples of version 1, read by Python: by backstay.lines, and as the HDF5 files that they are."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from backstay.lines import newest_whole, open_directory, read_lines

HERE = Path(__file__).parent
SAMPLES = {"one-file": 3, "file-per-rank": 1}
NAN_BITS = 0x7FF4000000C0FFEE


@pytest.fixture(params=SAMPLES)
def line(request, tmp_path):
    """A sample, in a directory that may be written: opening it may leave a lock."""
    directory = tmp_path / "sample"
    shutil.copytree(HERE / "version-1" / request.param, directory)
    found = newest_whole(read_lines(open_directory(directory)))
    assert found is not None and found.manifest.ranks == SAMPLES[request.param]
    return found


def segments_of(line, region):
    return [segment for segment in line.segments() if segment.region == region]


def values_of(line, segment):
    data = line.path_of(segment).read_bytes()[segment.offset : segment.offset + segment.bytes]
    return np.frombuffer(data, segment.dtype).reshape(segment.shape)


def test_all_regions_are_there_with_their_types(line):
    types = {segment.region: segment.type for segment in segments_of_rank(line, 0)}
    assert len(types) == 22
    for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"):
        assert types[f"numbers/{name}"] == name
    assert types["truth"] == "b1"
    assert types["unknown struct"] == "V8"
    assert types["particles"]["members"][1]["shape"] == [3]


def segments_of_rank(line, rank):
    return [segment for segment in line.segments() if segment.rank == rank]


def test_values_are_what_was_written(line):
    for segment in segments_of(line, "numbers/f8"):
        assert values_of(line, segment).view(np.uint64) == NAN_BITS
    for segment in segments_of(line, "numbers/i8"):
        assert values_of(line, segment) == np.iinfo(np.int64).min
    for segment in segments_of(line, "text"):
        assert values_of(line, segment).tobytes().decode() == f"Rank {segment.rank}: größe, 密度"
    for segment in segments_of(line, "field"):
        assert np.array_equal(values_of(line, segment).ravel(), 1000.0 * segment.rank + np.arange(20))
        assert segment.units == "kg m-3"
    assert [s.shape for s in segments_of(line, "particles")] == [(rank + 2,) for rank in range(line.manifest.ranks)]
    large = 33000 if line.manifest.ranks == 1 else 0
    assert np.array_equal(values_of(line, segments_of(line, "large")[0]), np.arange(large, dtype=np.uint16))


def test_the_files_are_hdf5(line):
    path = line.path_of(line.segments()[0])
    with h5py.File(path) as file:
        ranks = line.manifest.ranks
        assert file.attrs["backstay_format"] == 1
        assert file["field"].shape == (4 * ranks, 5)
        assert np.array_equal(file["field"][-1], 1000.0 * (ranks - 1) + np.arange(15, 20))
        assert len(file["particles"]) == sum(rank + 2 for rank in range(ranks))
        assert np.array_equal(file["particles"]["id"][:2], [0, 1])
        assert file["numbers/c16"][()] == 0.1 - 0.2j
