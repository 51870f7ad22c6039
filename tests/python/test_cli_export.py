"""`backstay export`: what others read is what was saved."""

import h5py
import numpy as np
import pytest
from commands import backstay, sentence_of
from writer import Checkpoint, flip, split_box

STRUCT = np.dtype([("pos", "f8", (3,)), ("id", "i4"), ("tag", "S4"), ("z", "c8")], align=True)


def mixed(directory, level="shared", layout="file-per-rank"):
    rng = np.random.default_rng(5)
    struct = np.zeros(20, STRUCT)
    struct["pos"], struct["id"] = rng.random((20, 3)), np.arange(20)
    r = {
        "fluid/u": rng.normal(size=(9, 7, 5)),
        "p": struct,
        "mask": rng.random((6, 6)) > 0.5,
        "step": np.int64(840),
        "größe [m]": np.array([1 + 2j, np.nan]),
        "title": np.array("Tür".encode()),
        "blob": rng.integers(0, 255, 12, np.uint8).view("V4"),
        "half": np.arange(5, dtype="f2"),
        "wide": np.arange(4, dtype="longdouble") / 3,
        "none": np.zeros((0, 3)),
    }
    c = Checkpoint(line=42, ranks=8, nodes=3)
    c.block("fluid/u", r["fluid/u"], split_box((9, 7, 5), 8), "m s-1").block("mask", r["mask"], split_box((6, 6), 8))
    c.list("p", [r["p"][:0], *(r["p"][i * 2 : i * 2 + 2] for i in range(6)), r["p"][12:]])
    for name in ("step", "größe [m]", "title", "blob", "half", "wide", "none"):
        c.replicated(name, r[name])
    c.private("own", [np.arange(k) for k in range(8)])
    c.write(directory, level, layout)
    return r


@pytest.mark.parametrize("level, layout", [("shared", "one-file"), ("shared", "file-per-node"), ("partner", "")])
def test_hdf5_holds_every_region_as_a_whole(tmp_path, level, layout):
    regions = mixed(tmp_path, level, layout)
    out = tmp_path / "out.h5"
    assert backstay("export", tmp_path, "-o", out).status == 0
    with h5py.File(out) as file:
        for name, values in regions.items():
            dataset = file[name]
            assert dataset.shape == values.shape and dataset[()].tobytes() == values.tobytes(), name
        assert file["fluid/u"].attrs["units"] == "m s-1" and file["fluid/u"].attrs["placement"] == "block"
        assert [file[f"by_rank/{k:05d}/own"].shape for k in range(8)] == [(k,) for k in range(8)]
        assert file["mask"].dtype == bool and h5py.check_string_dtype(file["title"].dtype).encoding == "utf-8"
        assert (file.attrs["line"], file.attrs["ranks"], file.attrs["level"]) == (42, 8, level)
    assert not out.with_name("out.h5.part").exists()


def test_npy_files_hold_the_same(tmp_path):
    regions = mixed(tmp_path)
    out = tmp_path / "arrays"
    found = backstay("export", tmp_path, "-o", out, "--json").json
    assert found["line"] == 42 and len(found["written"]) == len(regions) + 8
    for name, values in regions.items():
        read = np.load(out / f"{name.replace('/', '%2F')}.npy")
        assert read.shape == values.shape and np.ascontiguousarray(read).tobytes() == values.tobytes(), name
    assert np.load(out / "own.rank-00003.npy").tolist() == [0, 1, 2]
    assert backstay("export", tmp_path, "-r", "fluid/u", "-o", tmp_path / "u.npy").status == 0
    assert np.array_equal(np.load(tmp_path / "u.npy"), regions["fluid/u"])


@pytest.mark.parametrize("name", ["../../evil", "..", "/etc/x", "a\nb", "%2F"])
def test_names_do_not_leave_the_directory(tmp_path, name):
    Checkpoint().replicated(name, np.arange(3)).write(tmp_path / "run")
    out = tmp_path / "out"
    assert backstay("export", tmp_path / "run", "-o", out).status == 0
    assert len(list(out.iterdir())) == 1 and sorted(p.name for p in tmp_path.iterdir()) == ["out", "run"]


def test_a_virtual_file_refers_to_the_data_files(tmp_path):
    regions = mixed(tmp_path, "shared", "file-per-node")
    out = tmp_path / "virtual.h5"
    assert backstay("export", tmp_path, "-o", out, "--virtual").status == 0
    with h5py.File(out) as file:
        assert file["step"][()] == 840 and file["fluid/u"].is_virtual and file["fluid/u"].shape == (9, 7, 5)
        sources = {(s.file_name, s.dset_name) for s in file["fluid/u"].virtual_sources()}
        assert len(sources) == 8
    # The fixtures' HDF5 metadata are dummies: ordinary HDF5 files with the same datasets take their place.
    for path in sorted((tmp_path / "shared/line-00000042").glob("*.h5")):
        path.unlink()
    boxes = split_box((9, 7, 5), 8)
    for name, dataset in sources:
        low, high = boxes[int(dataset.split("/")[2])]
        with h5py.File(name, "a") as file:
            file[dataset] = regions["fluid/u"][tuple(map(slice, low, high))]
    with h5py.File(out) as file:
        assert np.array_equal(file["fluid/u"][()], regions["fluid/u"])


def test_what_is_there_is_not_replaced_unasked(tmp_path):
    mixed(tmp_path / "run")
    out = tmp_path / "out.h5"
    out.write_text("precious")
    assert "is there already" in sentence_of(backstay("export", tmp_path / "run", "-o", out))
    assert out.read_text() == "precious"
    assert backstay("export", tmp_path / "run", "-o", out, "--force").status == 0


def test_damage_leaves_no_file_behind(tmp_path):
    mixed(tmp_path / "run")
    flip(tmp_path / "run/shared/line-00000042/rank-00004.h5", 8192)
    assert "not those that were written" in sentence_of(backstay("export", tmp_path / "run", "-o", tmp_path / "out.h5"))
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_wrong_wishes_are_sentences(tmp_path):
    mixed(tmp_path / "run")
    run = tmp_path / "run"
    for arguments, text in [
        (["-r", "stp"], "has no region 'stp': did you mean 'step'?"),
        (["-o", tmp_path / "x.npy"], "can hold one array, not"),
        (["-o", tmp_path / "x", "--virtual"], "ends in .h5"),
        (["-o", tmp_path / "nowhere/x.h5"], f"There is no directory {tmp_path}/nowhere to write x.h5 to: make it, or"),
        (["-o", tmp_path / "nowhere/x"], "There is no directory"),
        (["-o", "/proc/x.h5"], "/proc/x.h5 cannot be written: "),
        (["-o", "/proc/x"], "/proc/x cannot be written: "),
        (["-r", "step", "-o", "/proc/x.npy"], "/proc/x.npy cannot be written: "),
    ]:
        sentence = sentence_of(backstay("export", run, *arguments))
        assert text in sentence and "errno" not in sentence, arguments
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_name_that_hdf5_cannot_hold_is_a_sentence(tmp_path):
    Checkpoint().replicated("a", np.int8(1)).replicated("a/b", np.int8(1)).write(tmp_path)
    text = sentence_of(backstay("export", tmp_path, "-o", tmp_path / "o.h5"))
    assert text.endswith("The region 'a/b' cannot be written as HDF5: Incompatible object (Dataset) already exists.")


def test_long_names_are_shortened_and_stay_apart(tmp_path):
    names = ["ü" * 150 + end for end in "ab"]
    c = Checkpoint(ranks=2)
    for k, name in enumerate(names):
        c.private(name, [np.arange(k + 2)] * 2)
    c.write(tmp_path / "run")
    found = backstay("export", tmp_path / "run", "-o", tmp_path / "out", "--json").json
    assert [len(np.load(path)) for path in found["written"]] == [2, 2, 3, 3]
    assert len(list((tmp_path / "out").iterdir())) == 4


@pytest.mark.parametrize("there", [False, True])
def test_damage_leaves_no_half_export(tmp_path, there):
    mixed(tmp_path / "run")
    flip(tmp_path / "run/shared/line-00000042/rank-00007.h5", 8192)
    out = tmp_path / "out"
    if there:
        out.mkdir()
        (out / "step.npy").write_text("old")
    sentence_of(backstay("export", tmp_path / "run", "-o", out, "--force"))
    assert sorted(p.name for p in tmp_path.iterdir()) == (["out", "run"] if there else ["run"])
    assert not there or [p.read_text() for p in out.iterdir()] == ["old"]


@pytest.mark.parametrize("name", ["out.h5", "out"])
def test_a_line_that_a_running_job_retires_meanwhile_is_read_again(tmp_path, monkeypatch, name):
    """And what was written of it is not in the way."""
    mixed(tmp_path / "ck")
    there = iter([False])
    monkeypatch.setattr("backstay.lines.Line.still_there", lambda line: next(there, True))
    out = tmp_path / name
    ended = backstay("export", tmp_path / "ck", "-o", out)
    assert ended.status == 0, ended.err
    assert next(there, "asked") == "asked" and out.exists() and not list(tmp_path.glob("*.part*"))
