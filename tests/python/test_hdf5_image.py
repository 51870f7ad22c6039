"""The HDF5 files that src/format/hdf5_image.cpp describes, read by h5py, h5ls, h5dump and xarray."""

import os
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

BUILD = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", Path(__file__).parents[2] / "build" / "dev"))
SAMPLE = BUILD / "src" / "format" / "hdf5_image_sample"


def write_sample(path, content, base):
    if not SAMPLE.exists():
        pytest.fail(f"{SAMPLE} is missing: build the target hdf5_image_sample, or set BUILD_DIR_OF_BACKSTAY")
    subprocess.run([SAMPLE, path, content, str(base)], check=True, timeout=60)
    return path


@pytest.fixture(scope="module", params=[0, 4096], ids=["no_user_block", "user_block_of_4096"])
def types_path(request, tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("hdf5") / "types.h5", "types", request.param)


@pytest.fixture
def types(types_path):
    with h5py.File(types_path, "r") as file:
        yield file


def tool(name, *arguments):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    run = subprocess.run(
        [name, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0 and not run.stderr, run.stderr
    assert "ERROR" not in run.stdout.upper()
    return run.stdout


NUMBERS = {
    "i1": [-1, 0, 1],
    "i2": [-300, -299, -298],
    "i4": [-70000, -69999, -69998],
    "i8": [-5000000000, -4999999999, -4999999998],
    "u1": [250, 251, 252],
    "u2": [60000, 60001, 60002],
    "u4": [4000000000, 4000000001, 4000000002],
    "u8": [18000000000000000000, 18000000000000000001, 18000000000000000002],
    "f2": [1, -2, 65504],
    "f4": [0.1, -1e30, 1e-40],
    "f16": [1, -1.5],
    "c8": [1 - 2j, 0.5 + 3j],
    "c16": [1 - 2j, 0.5 + 3j],
    "c32": [1 - 1.5j],
    "b1": [True, False, True],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_keep_type_and_value(types, name):
    read = types["numbers"][name]
    assert read.dtype == np.dtype("bool" if name == "b1" else name)
    np.testing.assert_array_equal(read[:], np.array(NUMBERS[name], dtype=read.dtype))


def test_nan_payload_is_kept(types):
    read = types["numbers/f8"][:]
    assert read.dtype == np.float64
    assert read.view(np.uint64)[2] == 0x7FF4000000ABCDEF
    assert list(read[:2]) == [0.1, -1e300]


def test_text_is_utf8_without_terminator(types):
    text = types["others/text"]
    assert h5py.check_string_dtype(text.dtype).encoding == "utf-8"
    assert list(text.asstr()[:]) == ["grüß", "abcdef"]


def test_opaque_bytes_are_void(types):
    assert types["others/opaque"].dtype == np.dtype("V5")
    assert types["others/opaque"][:].tobytes() == b"0123456789"


def test_struct_keeps_members_offsets_and_padding(types):
    read = types["others/particles"]
    assert read.dtype.itemsize == 56
    assert {name: offset for name, (_, offset, *_) in read.dtype.fields.items()} == {
        "x": 0,
        "id": 8,
        "inner": 12,
        "phase": 40,
    }
    assert read.dtype["inner"]["weight"] == np.dtype(("f4", (2, 3)))
    assert read.dtype["inner"]["is alive"] == np.dtype(bool)
    assert read.dtype["phase"] == np.dtype("c16")
    values = read[:]
    assert list(values["x"]) == [0.5, 1.5] and list(values["id"]) == [7, 8]
    assert list(values["phase"]) == [2j, 1 + 2j]
    assert list(values["inner"]["is alive"]) == [False, True]
    np.testing.assert_array_equal(values["inner"]["weight"][1], [[10, 11, 12], [13, 14, 15]])


def test_large_struct_has_wide_offsets(types):
    read = types["others/big"][0]
    assert read["last"] == 2.5 and list(read["first"]) == [0, 0, 0, 9]


def test_shapes(types):
    shapes = types["shapes"]
    assert shapes["scalar"].shape == () and shapes["scalar"][()] == 42.5
    assert shapes["seven"].shape == (2, 3, 1, 2, 3, 2, 2)
    np.testing.assert_array_equal(shapes["seven"][:].ravel(), np.arange(144))
    assert shapes["empty"].shape == (0,) and shapes["empty"][:].size == 0
    assert shapes["flat"].shape == (4, 0, 3) and shapes["flat"].dtype == np.int32


def test_names_may_be_long_and_not_ascii(types):
    assert types["shapes/Größe in m"][0] == 1
    assert types["shapes/" + "n" * 300][0] == 2


def test_linked_names_are_one_dataset(types):
    assert types["seven"] == types["shapes/seven"] == types["linked/again"]
    assert h5py.h5o.get_info(types["seven"].id).rc == 3
    assert h5py.h5o.get_info(types["numbers/i1"].id).rc == 1


def test_attributes(types):
    read = dict(types["attributes"].attrs)
    assert (read["units"], read["empty"], read["greek"], read["long"]) == (
        "m s-1",
        "",
        "αβ",
        "x" * 100000,
    )
    assert read["step"] == -7 and read["step"].dtype == np.int64
    assert read["time"] == 0.25 and read["time"].dtype == np.float64
    assert list(read["global shape"]) == [5, -6, 1 << 40]
    assert read["nothing"].shape == (0,)
    assert all(read[f"a{i}"] == f"value {i}" for i in range(300))
    assert len(read) == 308
    assert dict(types.attrs) == {"job": "0123456789abcdef", "line": 42, "time": 1.5}


def test_parts_make_one_array(types):
    expected = np.full((4, 6), np.nan)  # what no part fills is no number, not a zero that means something
    for i, (row, column) in enumerate([(0, 0), (0, 3), (2, 0)]):
        expected[row : row + 2, column : column + 3] = np.arange(6).reshape(2, 3) + 100 * i + 1
    assert types["u"].is_virtual and types["u"].attrs["units"] == "K"
    np.testing.assert_array_equal(types["u"][:], expected)
    np.testing.assert_array_equal(types["u"][1:3, 2:4], expected[1:3, 2:4])


def test_list_of_parts_skips_the_empty_one(types):
    assert list(types["100%b list"][:]) == [0, 1, 20, 21, 22]


def test_virtual_dataset_without_parts_is_no_number(types):
    np.testing.assert_array_equal(types["nowhere"][:], np.full((2, 2), np.nan))
    assert types["no elements"].shape == (0, 2)


def test_h5ls_lists_everything(types_path):
    listed = tool("h5ls", "-r", "-v", types_path)
    assert "/numbers/i8 " in listed and "native double" in listed and "/by_rank/00001/u " in listed


def test_h5dump_prints_everything(types_path):
    dumped = tool("h5dump", types_path)
    assert 'DATASET "particles"' in dumped and "18000000000000000002" in dumped


def test_xarray_opens_every_group(types_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")

    def load(group):
        with xarray.open_dataset(types_path, engine="h5netcdf", phony_dims="sort", group=group) as data:
            return data.load()

    root = load(None)
    assert root["u"].attrs["units"] == "K" and float(root["u"][0, 5]) == 103
    assert root.attrs["line"] == 42
    numbers = load("numbers")
    assert len(numbers) == 16 and numbers["c16"].dtype == np.complex128 and numbers["b1"].dtype == bool
    assert float(load("shapes")["scalar"]) == 42.5
    assert len(load("others")) == 4


def test_ten_thousand_datasets(tmp_path):
    path = write_sample(tmp_path / "many.h5", "many", 4096)
    with h5py.File(path, "r") as file:
        assert len(file["many"]) == len(file["groups"]) == 10000
        for i in range(0, 10000, 97):
            assert list(file[f"groups/{i}/u"][:]) == [i, -i]
            assert file[f"many/{i}"].attrs["rank"] == i
        np.testing.assert_array_equal(file["all"][:].reshape(-1, 2)[:, 0], np.arange(10000))
    assert len(tool("h5ls", f"{path}/many").splitlines()) == 10000


def test_offsets_beyond_4_gib(tmp_path):
    path = write_sample(tmp_path / "far.h5", "far", 0)  # sparse: a few KiB on disk
    with h5py.File(path, "r") as file:
        assert [list(file[name][:]) for name in ("near", "far", "farther")] == [
            [1, 2],
            [3, 4],
            [5, 6],
        ]
        assert file["far"].id.get_offset() > 1 << 32 and file["farther"].id.get_offset() > 10_000_000_000
        assert file["large"].shape == (700_000_000,) and file["large"][-1] == 0
        np.testing.assert_array_equal(file["both"][-3:, 0], [np.nan, 7, 8])
    path.unlink()
