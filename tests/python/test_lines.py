"""backstay.lines and backstay.regions: everything that the format can hold comes back; nothing bad goes unnoticed."""

import json
import os
import shutil
import time

import google_crc32c
import numpy as np
import pytest
from backstay.lines import (
    DataFile,
    Problem,
    decode_manifest,
    decode_table,
    newest_whole,
    open_directory,
    read_lines,
    verify_file,
    verify_line,
)
from backstay.regions import arrays_by_name, read_box, tiles_of, whole_arrays
from writer import Checkpoint, flip, rewrite, split_box, split_even, type_of

LAYOUTS = ["file-per-rank", "file-per-node", "one-file"]
STRUCT = np.dtype(
    {
        "names": ["pos", "id", "tag", "inner"],
        "formats": [("f8", (3,)), "i4", "S5", np.dtype([("a", "u1"), ("b", "c16")], align=True)],
        "offsets": [0, 24, 28, 40],
        "itemsize": 72,
    }
)


def lines_in(directory, **options):
    return read_lines(open_directory(directory), **options)


def newest(directory, **options):
    return newest_whole(lines_in(directory, **options))


def random_bytes(dtype, shape, seed=0):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape)) * dtype.itemsize
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8).view(dtype).reshape(shape)


def same_bits(a, b):
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def small_partner_line(directory):
    """Two ranks on two nodes; 16 KiB a file."""
    c = Checkpoint(line=3, ranks=2, nodes=2)
    c.replicated("step", np.int64(60)).private("u", [np.arange(10.0), np.arange(7.0)])
    c.add(1, "empty", np.zeros((0, 3)), {"kind": "private"})
    return c, c.write(directory, "partner")


# ---- what comes back --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("level", ["shared", "local", "partner"])
def test_blocks_of_uneven_ranks_are_one_array(tmp_path, layout, level):
    whole = random_bytes("f8", (13, 9, 11))
    boxes = split_box(whole.shape, 8)
    assert len({tuple(np.subtract(b, a)) for a, b in boxes}) > 3  # uneven indeed
    c = Checkpoint(line=7, ranks=8, nodes=3).block("u", whole, boxes, "m s-1")
    c.write(tmp_path, level, layout)
    array = whole_arrays(newest(tmp_path))["u"]
    assert (array.shape, array.units, array.kind) == (whole.shape, "m s-1", "block")
    assert same_bits(array.all(), whole)
    rng = np.random.default_rng(1)
    for _ in range(50):
        low = [int(rng.integers(0, n + 1)) for n in whole.shape]
        high = [int(rng.integers(a, n + 1)) for a, n in zip(low, whole.shape)]
        assert same_bits(array.read(tuple(low), tuple(high)), whole[tuple(map(slice, low, high))])
    out = np.zeros_like(whole)
    for low, high, values in array.tiles():
        out[tuple(map(slice, low, high))] = values
    assert same_bits(out, whole)


def test_lists_are_put_end_to_end_whatever_their_lengths(tmp_path):
    whole = random_bytes("i4", (100, 3))
    pieces = [whole[:0], whole[:1], whole[1:70], whole[70:70], whole[70:]]
    Checkpoint(ranks=5).list("p", pieces).write(tmp_path)
    assert same_bits(whole_arrays(newest(tmp_path))["p"].all(), whole)


@pytest.mark.parametrize("name", "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 f16 c8 c16 c32 b1 S1 S7 V1 V33".split())
def test_every_type_comes_back_bit_for_bit(tmp_path, name):
    dtype = np.dtype({"f16": "longdouble", "c32": "clongdouble"}.get(name, name))
    whole = random_bytes(dtype, (6, 5))  # NaN payloads, odd booleans and broken text among them
    Checkpoint(ranks=1).add(0, "x", whole, {"kind": "private"}, kind=name).write(tmp_path)
    array = whole_arrays(newest(tmp_path))["x"]
    assert array.dtype == dtype and same_bits(array.all(), whole)


def test_structs_keep_their_members(tmp_path):
    whole = np.zeros(10, STRUCT)
    whole["pos"], whole["id"], whole["inner"]["b"] = np.arange(30.0).reshape(10, 3), np.arange(10), 2 + 3j
    Checkpoint(ranks=2).list("p", [whole[:3], whole[3:]]).write(tmp_path)
    array = whole_arrays(newest(tmp_path))["p"]
    assert array.dtype == STRUCT and np.array_equal(array.all(), whole)
    assert type_of(array.dtype)["members"][0] == {"name": "pos", "offset": 0, "type": "f8", "shape": [3]}


def test_nan_payloads_are_kept(tmp_path):
    bits = np.array([0x7FF8000000000001, 0xFFF80000DEADBEEF, 0x7FF0000000000001], np.uint64)
    Checkpoint(ranks=1).replicated("nan", bits.view("f8")).write(tmp_path)
    assert np.array_equal(whole_arrays(newest(tmp_path))["nan"].all().view(np.uint64), bits)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (3, 0, 2)])
def test_arrays_without_elements_are_kept(tmp_path, shape):
    empty = np.zeros(shape)
    Checkpoint(ranks=2).replicated("e", empty).private("n", [np.arange(3), np.arange(0)]).write(tmp_path)
    line = newest(tmp_path)
    assert whole_arrays(line)["e"].all().shape == shape
    assert [a.all().size for a in arrays_by_name(line)["n"]] == [3, 0]
    assert not verify_line(line).damage


@pytest.mark.parametrize("name", ["a b", "fluid/velocity/u", "Größe µ 速度", "50%", "x" * 300, "..", "\x1b[31m\n"])
def test_names_are_any_text(tmp_path, name):
    Checkpoint(ranks=2).replicated(name, np.arange(3)).write(tmp_path, layout="one-file")
    assert list(whole_arrays(newest(tmp_path))) == [name]


def test_scalars_and_seven_dimensions(tmp_path):
    deep = random_bytes("i2", (2, 1, 3, 1, 2, 2, 3))
    c = Checkpoint(ranks=3).replicated("step", np.int64(7)).block("deep", deep, split_box(deep.shape, 3))
    c.write(tmp_path)
    arrays = whole_arrays(newest(tmp_path))
    assert arrays["step"].all() == 7 and arrays["step"].shape == ()
    assert same_bits(arrays["deep"].all(), deep)


@pytest.mark.parametrize(("kind", "gap"), [("f8", np.nan), ("c8", np.nan), ("i4", 0)])
def test_what_no_rank_had_reads_as_hdf5_shows_it(tmp_path, kind, gap):
    whole = np.ones((4, 4), kind)
    boxes = [((0, 0), (2, 4)), ((2, 0), (4, 2))]
    Checkpoint(ranks=2).block("u", whole, boxes).write(tmp_path)
    whole[2:, 2:] = gap
    np.testing.assert_array_equal(whole_arrays(newest(tmp_path))["u"].all(), whole)


def test_ranks_that_disagree_on_a_region_are_named(tmp_path):
    c = Checkpoint(ranks=2).replicated("good", np.int32(1))
    c.add(0, "u", np.zeros(3), {"kind": "replicated"}).add(1, "u", np.zeros(3, "f4"), {"kind": "replicated"})
    c.write(tmp_path)
    arrays = whole_arrays(newest(tmp_path))
    assert arrays["good"].all() == 1
    with pytest.raises(Problem, match="another type on rank 0 than on rank 1"):
        arrays["u"].all()


@pytest.mark.parametrize("shape", [(1,), (1000,), (7, 5), (3, 1, 400), (2, 3, 4, 5)])
@pytest.mark.parametrize("limit", [1, 64, 1000, 10**9])
def test_tiles_cover_an_array_once_and_lie_in_one_piece(shape, limit):
    seen = np.zeros(shape, int)
    flat = np.arange(seen.size).reshape(shape)
    for low, high in tiles_of(shape, 8, limit):
        box = tuple(map(slice, low, high))
        seen[box] += 1
        assert flat[box].size == 1 or flat[box].nbytes <= limit
        assert np.array_equal(np.diff(flat[box].reshape(-1)), np.ones(flat[box].size - 1))
    assert (seen == 1).all()


def test_a_plane_of_a_large_array_is_read_without_the_rest(tmp_path, monkeypatch):
    whole = random_bytes("u1", (40, 300, 300))
    Checkpoint(ranks=1).block("u", whole, [((0, 0, 0), whole.shape)]).write(tmp_path)
    array = whole_arrays(newest(tmp_path))["u"]
    part = array.parts[0]
    path = array.line.path_of(part.segment)
    counted = []

    def counting(file, offset, length):
        counted.append(length)
        return file.seek(offset) * 0 or file.read(length)

    monkeypatch.setattr("backstay.regions.read_at", counting)
    for low, high, most in [((16, 0, 0), (17, 300, 300), 90000), ((0, 9, 0), (2, 200, 300), 2 * 191 * 300)]:
        counted.clear()
        values = read_box(path, part.segment, low, high)
        assert same_bits(values, whole[tuple(map(slice, low, high))]) and sum(counted) <= most


# ---- directories ------------------------------------------------------------------------------------------------


def test_lines_of_all_levels_come_newest_first(tmp_path):
    for line, level in ((3, "shared"), (4, "partner"), (4, "shared"), (5, "local")):
        Checkpoint(line=line, ranks=2, nodes=2).replicated("x", np.int8(line)).write(tmp_path, level)
    found = [(x.number, x.level, x.whole) for x in lines_in(tmp_path)]
    assert found == [(5, "local", True), (4, "shared", True), (4, "partner", True), (3, "shared", True)]
    assert newest(tmp_path, level="shared").number == 4
    assert [x.level for x in lines_in(tmp_path, number=3)] == ["shared"]


def test_session_json_says_where_the_nodes_are(tmp_path):
    directory, elsewhere = tmp_path / "run", tmp_path / "scratch"
    Checkpoint(ranks=2, nodes=2).replicated("x", np.int8(1)).write(elsewhere, "local")
    directory.mkdir()
    assert lines_in(directory) == []
    dirs = [{"node": n, "path": str(elsewhere / f"node-{n}")} for n in range(2)]
    (directory / "session.json").write_text(json.dumps({"dir": str(directory), "local_dirs": dirs}))
    assert newest(directory).whole


def test_a_copied_directory_does_not_lead_to_the_original(tmp_path):
    directory, copy = tmp_path / "run", tmp_path / "copy"
    Checkpoint(ranks=2, nodes=2).replicated("x", np.int8(1)).write(directory, "local")
    dirs = [{"node": n, "path": str(directory / f"node-{n}")} for n in range(2)]
    (directory / "session.json").write_text(json.dumps({"dir": str(directory), "local_dirs": dirs}))
    shutil.copytree(directory, copy)
    shutil.rmtree(copy / "node-1")
    assert newest(directory).whole and newest(copy) is None
    assert all(copy in root.path.parents for root in open_directory(copy).nodes())


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"local_dirs": 3}', '{"local_dirs": [1, {"node": "a"}, {"node": 1, "path": "a\\u0000"}]}'],
)
def test_a_broken_session_json_is_no_hindrance(tmp_path, text):
    Checkpoint(ranks=2, nodes=2).replicated("x", np.int8(1)).write(tmp_path, "local")
    (tmp_path / "session.json").write_text(text)
    assert newest(tmp_path).whole


def test_a_missing_directory_is_a_sentence(tmp_path):
    with pytest.raises(Problem, match="does not exist: name another one, or set BACKSTAY_DIR"):
        open_directory(tmp_path / "no")
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="is not a directory"):
        open_directory(tmp_path / "file")


def test_lines_without_a_manifest_are_never_read(tmp_path):
    files = Checkpoint(line=2).replicated("x", np.int8(1)).write(tmp_path)
    files[-1].rename(files[-1].with_name("manifest.part"))
    (tmp_path / "shared" / "not-a-line").mkdir()
    (tmp_path / "shared" / "line-00000009").write_text("a file, not a directory")
    (line,) = lines_in(tmp_path)
    assert line.unfinished and not line.whole and newest(tmp_path) is None
    with pytest.raises(Problem, match="not whole"):
        arrays_by_name(line)


def test_a_retired_line_is_noticed(tmp_path):
    files = Checkpoint().replicated("x", np.int8(1)).write(tmp_path)
    line = newest(tmp_path)
    assert line.still_there()
    files[-1].unlink()
    assert not line.still_there()


# ---- copies -----------------------------------------------------------------------------------------------------


def test_partner_copies_stand_in_for_a_lost_node(tmp_path):
    whole = random_bytes("f8", (20, 20))
    Checkpoint(ranks=8, nodes=4).block("u", whole, split_box(whole.shape, 8)).write(tmp_path, "partner")
    shutil.rmtree(tmp_path / "node-2")
    line = newest(tmp_path)
    assert line.whole and len(line.notes) == 4  # two originals, two copies
    assert same_bits(whole_arrays(line)["u"].all(), whole)
    result = verify_line(line)
    assert len(result.damage) == 4 and result.readable
    assert all("the directory of node 2 is not there" in d.sentence for d in result.damage)


def test_two_neighbours_lost_is_one_too_many(tmp_path):
    Checkpoint(ranks=4, nodes=4).replicated("x", np.int8(1)).write(tmp_path, "partner")
    shutil.rmtree(tmp_path / "node-1")
    shutil.rmtree(tmp_path / "node-2")
    (line,) = lines_in(tmp_path)
    assert not line.whole and "rank-00001.h5" in line.why
    assert not verify_line(line).readable


def test_a_local_line_with_a_lost_node_is_not_whole(tmp_path):
    Checkpoint(ranks=4, nodes=2).replicated("x", np.int8(1)).write(tmp_path, "local")
    shutil.rmtree(tmp_path / "node-0")
    (line,) = lines_in(tmp_path)
    assert not line.whole and "node 0 is not there" in line.why


def test_a_copy_that_a_rescue_left_at_level_shared_stands_in_for_its_file(tmp_path):
    whole = random_bytes("f8", (20, 20))
    Checkpoint(ranks=2).block("u", whole, split_box(whole.shape, 2)).write(tmp_path, "shared")
    assert verify_line(newest(tmp_path)).damage == []
    path = tmp_path / "shared/line-00000001/rank-00001.h5"
    shutil.copy(path, path.with_name("copy-rank-00001.h5"))
    flip(path, 8192 + 100)
    assert same_bits(whole_arrays(newest(tmp_path))["u"].all(), whole)
    path.unlink()
    line = newest(tmp_path)
    assert line.whole and verify_line(line).readable
    assert same_bits(whole_arrays(line)["u"].all(), whole)


def test_a_damaged_segment_is_read_from_the_copy(tmp_path):
    whole = random_bytes("f8", (20, 20))
    Checkpoint(ranks=2, nodes=2).block("u", whole, split_box(whole.shape, 2)).write(tmp_path, "partner")
    flip(tmp_path / "node-0/partner/line-00000001/rank-00000.h5", 8192 + 100)
    assert same_bits(whole_arrays(newest(tmp_path))["u"].all(), whole)
    flip(tmp_path / "node-1/partner/line-00000001/copy-rank-00000.h5", 8192 + 8)
    with pytest.raises(Problem, match="region 'u' of rank 0 are not those that were written.*copy-rank-00000.h5"):
        whole_arrays(newest(tmp_path))["u"].all()


def test_a_node_without_the_manifest_counts_by_its_files(tmp_path):
    """The job died between the renames: as docs/format.md says, one manifest anywhere is enough, as for resume()."""
    Checkpoint(ranks=2, nodes=2).replicated("x", np.int8(1)).write(tmp_path, "local")
    (tmp_path / "node-1/local/line-00000001/manifest").unlink()
    (line,) = lines_in(tmp_path)
    assert line.whole
    (damage,) = verify_line(line).damage
    assert "node-1/local/line-00000001/manifest: it is missing" in damage.sentence
    # What lies beside no manifest may be of another line.
    Checkpoint(line=2, ranks=2, nodes=2).replicated("x", np.int8(1)).write(tmp_path / "other", "local")
    other = tmp_path / "other/node-1/local/line-00000002/rank-00001.h5"
    shutil.copy(other, tmp_path / "node-1/local/line-00000001/rank-00001.h5")
    (line,) = lines_in(tmp_path)
    assert not line.whole and "rank-00001.h5" in line.why


def test_manifests_that_differ_are_outvoted(tmp_path):
    Checkpoint(ranks=3, nodes=3).replicated("x", np.int8(1)).write(tmp_path / "a", "partner")
    Checkpoint(ranks=3, nodes=3, job="f" * 16).replicated("x", np.int8(2)).write(tmp_path / "b", "partner")
    shutil.rmtree(tmp_path / "a/node-1")
    shutil.copytree(tmp_path / "b/node-1", tmp_path / "a/node-1")
    line = newest(tmp_path / "a")
    assert line.whole and whole_arrays(line)["x"].all() == 1
    assert any("that of another checkpoint" in d.sentence for d in verify_line(line).damage)


# ---- damage -----------------------------------------------------------------------------------------------------


def read_everything(directory):
    """What a reader does; only a Problem may come out of it."""
    try:
        for line in lines_in(directory):
            if line.whole:
                for arrays in arrays_by_name(line).values():
                    for array in arrays:
                        array.all()
            verify_line(line)
    except Problem as problem:
        assert str(problem)


def test_every_flipped_byte_is_found(tmp_path):
    _, files = small_partner_line(tmp_path)
    (line,) = lines_in(tmp_path)
    entry = line.manifest.files[1]
    path = next(f for f in files if f.name == entry.name)
    good = path.read_bytes()
    assert verify_file(path, entry, line.manifest) == []
    missed = []
    for offset in range(len(good)):
        bad = bytearray(good)
        bad[offset] ^= 1 << offset % 8
        rewrite(path, bad)
        if not verify_file(path, entry, line.manifest):
            missed.append(offset)
    assert missed == [] and len(good) > 16000


def test_every_flipped_byte_of_every_kind_of_file_is_found_by_verify_line(tmp_path):
    _, files = small_partner_line(tmp_path)
    assert not verify_line(lines_in(tmp_path)[0]).damage
    assert {f.name for f in files} >= {"manifest", "rank-00000.h5", "copy-rank-00000.h5"}
    for path in files:
        good = path.read_bytes()
        step = 13 if path.name == "manifest" else 211
        for offset in range(0, len(good), step):
            flip(path, offset, 0x20 if offset % 2 else 0x01)  # 0x20: another case of the same letter
            assert verify_line(lines_in(tmp_path)[0]).damage, f"{path.name} byte {offset}"
            read_everything(tmp_path)
            rewrite(path, good)


def test_every_flipped_bit_of_a_manifest_is_found(tmp_path):
    _, files = small_partner_line(tmp_path)
    good = next(f for f in files if f.name == "manifest").read_bytes()
    decode_manifest(good)
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Problem):
            decode_manifest(bytes(bad))


def test_every_truncation_is_found(tmp_path):
    _, files = small_partner_line(tmp_path)
    for path in files:
        good = path.read_bytes()
        for size in {*range(0, len(good), 512 if path.suffix else 16), 1, len(good) - 1}:
            rewrite(path, good[:size])
            line = lines_in(tmp_path)[0]
            assert verify_line(line).damage, f"{path.name} cut to {size}"
            assert line.whole  # the other copy, or the other node's manifest
            read_everything(tmp_path)
        rewrite(path, good + b"\0")
        assert verify_line(lines_in(tmp_path)[0]).damage
        rewrite(path, good)


def test_a_truncated_file_makes_a_shared_line_not_whole(tmp_path):
    files = Checkpoint(ranks=2).replicated("x", np.int8(1)).write(tmp_path)
    good = files[0].read_bytes()
    for size in range(0, len(good), 512):
        rewrite(files[0], good[:size])
        (line,) = lines_in(tmp_path)
        assert not line.whole and "it was cut off" in line.why


def test_a_newer_version_is_named_as_such(tmp_path):
    files = Checkpoint().replicated("x", np.int8(1)).write(tmp_path)
    data, manifest = files
    text = manifest.read_bytes()
    manifest.write_bytes(text.replace(b"manifest 1 ", b"manifest 2 ", 1))
    assert "format version 2, and this backstay reads version 1" in lines_in(tmp_path)[0].why
    manifest.write_bytes(text)
    data.write_bytes(data.read_bytes().replace(b"backstay data 1", b"backstay data 2", 1))
    assert "format version 2, and this backstay reads version 1" in lines_in(tmp_path)[0].why


def test_a_file_of_another_job_is_named(tmp_path):
    for job, name in (("a" * 16, "a"), ("b" * 16, "b")):
        Checkpoint(job=job).replicated("x", np.int8(1)).write(tmp_path / name)
    shutil.copy(tmp_path / "b/shared/line-00000001/rank-00000.h5", tmp_path / "a/shared/line-00000001/rank-00000.h5")
    (line,) = lines_in(tmp_path / "a")
    assert not line.whole and "another file: rank-00000.h5 of line 1 of job " + "b" * 16 in line.why


def test_two_files_of_a_line_swapped_are_found(tmp_path):
    a, b, _ = Checkpoint(ranks=2).replicated("x", np.int8(1)).write(tmp_path)
    first = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(first)
    (line,) = lines_in(tmp_path)
    assert not line.whole and "another file: rank-00001.h5" in line.why


def test_a_manifest_in_another_lines_directory_is_refused(tmp_path):
    Checkpoint(line=1).replicated("x", np.int8(1)).write(tmp_path)
    (tmp_path / "shared/line-00000001").rename(tmp_path / "shared/line-00000008")
    (line,) = lines_in(tmp_path)
    assert not line.whole and "it is the manifest of line 1" in line.why


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    files = Checkpoint().replicated("x", np.int8(1)).write(tmp_path)
    for path in files:
        good = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        started = time.monotonic()
        (line,) = lines_in(tmp_path)
        assert not line.whole and "not an ordinary file" in line.why and time.monotonic() - started < 5
        path.unlink()
        path.write_bytes(good)


GOOD_FILE = {"name": "rank-00000.h5", "ranks": [0], "node": -1, "copy_node": -1, "size": 9, "table": "00000000"}
GOOD_MANIFEST = {"job": "j", "line": 1, "level": "shared", "ranks": 1, "call": 1, "time": 1.5, "program": "p"}
HUGE = 10**30


def manifest_with(**changes):
    body = json.dumps({**GOOD_MANIFEST, "files": [GOOD_FILE], **changes}).encode()
    return wrapped(body)


def wrapped(body):
    return f"backstay manifest 1 {len(body)} {google_crc32c.value(body):08x}\n".encode() + body


def test_the_manifest_of_these_tests_is_good():
    assert decode_manifest(manifest_with()).files[0] == DataFile("rank-00000.h5", (0,), -1, -1, 9, 0)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"backstay manifest",
        wrapped(b""),
        wrapped(b"[]"),
        wrapped(b"{"),
        wrapped(b"\xff\xfe"),
        wrapped(b"[" * 100000),
        *(manifest_with(**{key: None}) for key in (*GOOD_MANIFEST, "files")),
        manifest_with(ranks=True),
        manifest_with(ranks=HUGE),
        manifest_with(ranks=2),
        manifest_with(line=-1),
        manifest_with(time=float("nan")),
        manifest_with(time=1e999),
        manifest_with(files={}),
        manifest_with(files=[GOOD_FILE, GOOD_FILE]),
        *(
            manifest_with(files=[{**GOOD_FILE, **change}])
            for change in (
                {"name": "../../../etc/passwd"},
                {"name": ".."},
                {"name": ""},
                {"name": "a\0b"},
                {"name": "x" * 5000},
                {"name": 3},
                {"ranks": []},
                {"ranks": [-1]},
                {"ranks": ["0"]},
                {"ranks": [[0]]},
                {"size": -1},
                {"size": HUGE},
                {"size": 1.5},
                {"node": -2},
                {"table": "0000000G"},
                {"table": None},
            )
        ),
    ],
)
def test_nonsense_with_a_right_checksum_is_a_problem(raw):
    with pytest.raises(Problem):
        decode_manifest(raw)


GOOD_SEGMENT = {
    "rank": 0,
    "region": "u",
    "dataset": "/u",
    "type": "f8",
    "shape": [2],
    "units": "",
    "placement": {"kind": "private"},
    "offset": 8192,
    "bytes": 16,
    "crc32c": "00000000",
}


def table_with(**changes):
    segment = {**GOOD_SEGMENT, **changes}
    return json.dumps({"job": "j", "line": 1, "file": "f", "segments": [segment]}).encode()


def struct_of(**changes):
    member = {"name": "a", "offset": 0, "type": "f8", "shape": [], **changes}
    return {"size": 16, "members": [member]}


def nested(depth):
    return (
        "f8"
        if depth == 0
        else {"size": 16, "members": [{"name": "a", "offset": 0, "type": nested(depth - 1), "shape": []}]}
    )


def test_the_table_of_these_tests_is_good():
    assert decode_table(table_with(), 12288).segments[0].shape == (2,)
    assert decode_table(table_with(type=struct_of(), shape=[1]), 12288).segments[0].dtype.names == ("a",)


@pytest.mark.parametrize(
    "changes",
    [
        *({key: None} for key in GOOD_SEGMENT),
        *({"type": t} for t in ("", "f3", "f08", "S0", "V", "V99999999999", "O8", "i8,i8", "<f8", 8, [], {}, "é")),
        *({"shape": s} for s in ([3], [-2], [HUGE], [2.0], [True, 2], "2", [1] * 8, [[2]])),
        *({"offset": n} for n in (0, 8191, 12288, HUGE, -1, "8192")),
        {"bytes": 8},
        {"rank": -1},
        {"rank": 1 << 40},
        *({"placement": p} for p in ({}, [], "block", {"kind": "other"}, {"kind": "block"})),
        *(
            {"placement": {"kind": "block", "global": g, "lower": low, "upper": high}}
            for g, low, high in (
                ([2], [1], [3]),
                ([4], [0], [3]),
                ([4], [3], [1]),
                ([2, 1], [0, 0], [2, 1]),
                ([2], [0], []),
            )
        ),
        *(
            {"type": struct_of(**m)}
            for m in ({"offset": 9}, {"shape": [3]}, {"shape": [HUGE]}, {"type": "x"}, {"name": 1})
        ),
        {"type": {"size": 16, "members": [{"name": "a", "offset": 0, "type": "f8", "shape": []}] * 2}, "shape": [1]},
        {"type": {"size": 0, "members": []}},
        {"type": {"size": HUGE, "members": []}},
        {"type": nested(50), "shape": [1]},
    ],
)
def test_a_table_that_makes_no_sense_is_a_problem(changes):
    with pytest.raises(Problem):
        decode_table(table_with(**changes), 12288)


def test_segments_that_overlap_are_found(tmp_path):
    c = Checkpoint().replicated("x", np.arange(64)).replicated("y", np.arange(64))
    original = c._areas

    def overlapping(ranks):
        areas, table = original(ranks)
        table[1]["offset"] = table[0]["offset"]
        return areas, table

    c._areas = overlapping
    c.write(tmp_path)
    assert any("overlaps" in d.sentence for d in verify_line(newest(tmp_path)).damage)


def test_even_pieces_are_even():
    assert [s.stop - s.start for s in split_even(10, 4)] == [2, 3, 2, 3]
