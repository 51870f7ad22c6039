"""`backstay diff`."""

import numpy as np
import pytest
from commands import backstay, sentence_of
from writer import Checkpoint, flip, split_box, split_even

STRUCT = np.dtype([("pos", "f8", (3,)), ("id", "i8")])


def run(directory, u, ranks=4, line=1, layout="file-per-rank", **more):
    c = Checkpoint(line=line, ranks=ranks).block("u", u, split_box(u.shape, ranks))
    for name, values in more.items():
        c.replicated(name, values)
    c.write(directory, layout=layout)
    return directory


def field(seed=0, shape=(9, 8, 7)):
    return np.random.default_rng(seed).normal(size=shape)


def regions(a, b, *options):
    ended = backstay("diff", a, b, "--json", *options)
    return ended.status, {
        (r["region"], r["rank"]) if r["rank"] is not None else r["region"]: r for r in ended.json["regions"]
    }


@pytest.mark.parametrize("ranks, layout", [(1, "one-file"), (3, "file-per-node"), (8, "file-per-rank")])
def test_the_same_field_on_other_ranks_is_the_same(tmp_path, ranks, layout):
    u, p = field(), np.zeros(30, STRUCT)
    p["id"] = np.arange(30)
    for name, n in (("a", 4), ("b", ranks)):
        c = Checkpoint(ranks=n).block("u", u, split_box(u.shape, n)).list("p", [p[s] for s in split_even(30, n)])
        c.write(tmp_path / name, layout=layout)
    ended = backstay("diff", tmp_path / "a", tmp_path / "b")
    assert ended.status == 0 and "All 2 regions are the same." in ended.out


def test_how_much_and_where_is_told(tmp_path):
    u = field()
    v = u.copy()
    v[2, 3, 4] += 0.5
    v[1, 7, 0] -= 0.25
    status, found = regions(run(tmp_path / "a", u), run(tmp_path / "b", v, ranks=7))
    r = found["u"]
    assert status == 1 and (r["status"], r["differing"], r["first"]) == ("differs", 2, [1, 7, 0])
    assert np.isclose(r["max_abs"], 0.5) and r["elements"] == u.size
    relative = (np.abs(u - v) / np.maximum(np.abs(u), np.abs(v))).max()
    assert np.isclose(r["max_rel"], relative)
    text = backstay("diff", tmp_path / "a", tmp_path / "b").out
    assert "differs" in text and "[1, 7, 0]" in text


def test_tolerances_are_relative_and_absolute(tmp_path):
    u = np.linspace(1, 2, 50)
    a, b = run(tmp_path / "a", u), run(tmp_path / "b", u * (1 + 1e-9))
    assert backstay("diff", a, b).status == 1
    assert backstay("diff", a, b, "-t", "1e-8").status == 0
    assert backstay("diff", a, b, "-t", "1e-10").status == 1
    assert backstay("diff", a, b, "--absolute", "1e-8").status == 0


@pytest.mark.parametrize("kind", ["f4", "f8", "c16"])
def test_what_is_no_number_is_near_nothing_but_its_like(tmp_path, kind):
    u = np.array([1, 0, np.inf, np.nan, 5], kind)
    v = np.array([np.nan, np.nan, np.nan, np.nan, 5], kind)
    a, b = run(tmp_path / "a", u), run(tmp_path / "b", v)
    for one, other in ((a, b), (b, a)):
        for allowed in ("-t", "--absolute"):
            status, found = regions(one, other, allowed, "1e-3")
            assert status == 1 and found["u"]["differing"] == 3


def test_bits_count_without_a_tolerance(tmp_path):
    nans = np.array([0x7FF8000000000001, 0x7FF8000000000002, 0], np.uint64).view("f8")
    other = np.array([0x7FF8000000000001, 0x7FF8000000000003, 1 << 63], np.uint64).view("f8")
    a, b = run(tmp_path / "a", nans), run(tmp_path / "b", other)
    assert backstay("diff", a, a).status == 0
    status, found = regions(a, b)
    assert status == 1 and found["u"]["differing"] == 2 and found["u"]["max_abs"] == 0
    assert backstay("diff", a, b, "-t", 0).status == 0  # as numbers they are the same


@pytest.mark.parametrize("name", "i1 i8 u1 u8 f2 f4 f8 c8 c16 b1 S6 S16 V5 V16 V32 longdouble clongdouble".split())
def test_one_changed_element_of_every_type_is_found(tmp_path, name):
    dtype = np.dtype(name)
    x = np.ones(10, dtype) if dtype.kind not in "SV" else np.arange(10 * dtype.itemsize, dtype="u1").view(dtype)
    c = {"f2": "f2", "longdouble": "f16", "clongdouble": "c32"}.get(name, name)
    Checkpoint().add(0, "x", x, {"kind": "private"}, kind=c).write(tmp_path / "a")
    padding = {"longdouble": range(10, 16), "clongdouble": [*range(10, 16), *range(26, 32)]}.get(name, [])
    for byte in sorted(set(range(dtype.itemsize)) - set(padding)):
        y = x.copy()
        y.view(np.uint8).reshape(10, -1)[6, byte] ^= 1
        other = tmp_path / f"b{byte}"
        Checkpoint().add(0, "x", y, {"kind": "private"}, kind=c).write(other)
        status, found = regions(tmp_path / "a", other)
        assert status == 1 and found["x"]["differing"] == 1 and found["x"]["first"] == [6], byte


def test_large_integers_differ_exactly(tmp_path):
    a = run(tmp_path / "a", field(), n=np.array([2**63 - 1, -5]), m=np.array([2**64 - 1], "u8"))
    b = run(tmp_path / "b", field(), n=np.array([2**63 - 2, 5]), m=np.array([0], "u8"))
    _, found = regions(a, b)
    assert found["n"]["differing"] == 2 and found["n"]["max_abs"] == 10
    assert found["m"]["max_abs"] == 2.0**64


def test_structs_are_compared_by_member_and_padding_does_not_count(tmp_path):
    padded = np.dtype({"names": ["a", "b"], "formats": ["u1", "f8"], "offsets": [0, 8], "itemsize": 16})
    x = np.zeros(4, padded)
    y = x.copy()
    y.view(np.uint8).reshape(4, 16)[:, 1:8] = 77
    assert backstay("diff", run(tmp_path / "a", field(), s=x), run(tmp_path / "b", field(), s=y)).status == 0
    y["b"][2] = 3
    _, found = regions(tmp_path / "a", run(tmp_path / "c", field(), s=y))
    assert (found["s"]["differing"], found["s"]["first"], found["s"]["max_abs"]) == (1, [2], 3)


def test_what_cannot_be_compared_differs(tmp_path):
    u = field()
    a = run(tmp_path / "a", u, t=np.zeros(3), s=np.zeros(3), only=np.int8(1))
    b = run(tmp_path / "b", u, t=np.zeros(3, "f4"), s=np.zeros(4), other=np.int8(1))
    status, found = regions(a, b)
    assert status == 1 and {k: r["status"] for k, r in found.items()} == {
        "u": "same",
        "t": "type",
        "s": "shape",
        "only": "only in A",
        "other": "only in B",
    }
    assert backstay("diff", a, b, "-r", "u").status == 0


def test_private_regions_are_compared_by_rank(tmp_path):
    for name, n, extra in (("a", 3, 0), ("b", 3, 1), ("c", 2, 0)):
        values = [np.arange(5) + (extra if rank == 1 else 0) for rank in range(n)]
        Checkpoint(ranks=n).private("own", values).write(tmp_path / name)
    status, found = regions(tmp_path / "a", tmp_path / "b")
    assert status == 1 and [found["own", k]["status"] for k in range(3)] == ["same", "differs", "same"]
    status, found = regions(tmp_path / "a", tmp_path / "c")
    assert status == 1 and found["own"]["status"] == "ranks"


def test_lines_of_one_directory_are_named_by_number(tmp_path):
    run(tmp_path, field(1), line=1)
    run(tmp_path, field(2), line=2)
    assert backstay("diff", 1, 1, "--dir", tmp_path).status == 0
    assert backstay("diff", f"{tmp_path}@1", f"{tmp_path}@2").status == 1
    found = backstay("diff", tmp_path, f"{tmp_path}@1", "--json").json
    assert found["a"]["line"] == 2 and found["b"]["line"] == 1 and found["same"] is False


def test_gaps_count_as_zeros(tmp_path):
    u = np.ones((4, 4))
    Checkpoint(ranks=1).block("u", u, [((0, 0), (2, 4))]).write(tmp_path / "a")
    Checkpoint(ranks=1).block("u", u, [((0, 0), (4, 4))]).write(tmp_path / "b")
    for a, b in (("a", "b"), ("b", "a")):
        status, found = regions(tmp_path / a, tmp_path / b)
        assert status == 1 and found["u"]["differing"] == 8 and found["u"]["first"] == [2, 0]


def test_trouble_has_status_2(tmp_path):
    a = run(tmp_path / "a", field())
    b = run(tmp_path / "b", field())
    flip(b / "shared/line-00000001/rank-00001.h5", 8192)
    assert "not those that were written" in sentence_of(backstay("diff", a, b), status=2)
    assert "does not exist" in sentence_of(backstay("diff", a, tmp_path / "c"), status=2)
    assert "has a region 'v'" in sentence_of(backstay("diff", a, a, "-r", "v"), status=2)


def test_one_rank_is_not_called_ranks(tmp_path):
    for name, n in (("a", 2), ("b", 1)):
        Checkpoint(ranks=n).private("x", [np.arange(3)] * n).write(tmp_path / name)
    assert "saved by 2 and 1 rank" in (text := backstay("diff", tmp_path / "a", tmp_path / "b").out), text
    assert "1 ranks" not in text
