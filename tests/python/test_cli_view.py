"""`backstay view`: the right elements are drawn, in the terminal and as PNG."""

import numpy as np
import pytest
from commands import backstay, sentence_of
from writer import Checkpoint, flip, split_box


def field(directory, shape=(8, 10, 12), ranks=8, **options):
    whole = np.random.default_rng(3).normal(size=shape)
    Checkpoint(ranks=ranks, **options).block("u", whole, split_box(shape, ranks), "m s-1").write(directory)
    return whole


@pytest.mark.parametrize("columns", [80, 120])
def test_a_slice_is_drawn_in_the_terminal(tmp_path, columns):
    field(tmp_path)
    ended = backstay("view", "u", tmp_path, "--slice", "0=3", columns=columns)
    rows = ended.out.splitlines()
    assert ended.status == 0 and rows[0] == "u, line 1 (shared), axis 0 = 3" and rows[-1].endswith("m s-1")
    assert all(len(row) <= columns for row in rows) and 5 < len(rows) < 60


@pytest.mark.parametrize(
    "cut, box",
    [
        ("0=3", np.s_[3]),
        ("2=-1", np.s_[:, :, 11]),
        ("1=4", np.s_[:, 4]),
        ("0=7,1=0", np.s_[7, 0]),
        ("0=1,1=2,2=3", np.s_[1, 2, 3]),
        (None, np.s_[4]),
    ],
)
def test_the_slice_is_the_one_that_was_asked_for(tmp_path, cut, box):
    whole = field(tmp_path)
    found = backstay("view", "u", tmp_path, "--json", *(["--slice", cut] if cut else [])).json
    part = whole[box]
    assert (found["min"], found["max"]) == (part.min(), part.max()) and np.isclose(found["mean"], part.mean())
    assert len(found["axes"]) == part.ndim and found["units"] == "m s-1" and found["checked"]


def test_a_png_is_written(tmp_path):
    field(tmp_path)
    ended = backstay("view", "u", tmp_path, "-o", tmp_path / "u.png")
    assert ended.status == 0 and (tmp_path / "u.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir() if "part" in p.name] == []
    assert backstay("view", "u", tmp_path, "-s", "0=1,1=1", "-o", tmp_path / "curve.png").status == 0
    assert "cannot be written" in sentence_of(backstay("view", "u", tmp_path, "-o", tmp_path / "u.nonsense"))
    assert "There is no directory" in sentence_of(backstay("view", "u", tmp_path, "-o", tmp_path / "no/u.png"))


def test_a_large_slice_is_thinned_out(tmp_path):
    whole = np.arange(5000.0 * 30).reshape(5000, 30)
    Checkpoint(ranks=3).block("u", whole, split_box(whole.shape, 3)).write(tmp_path)
    found = backstay("view", "u", tmp_path, "--json").json
    assert found["step"] == [3, 1] and found["min"] == 0 and found["max"] == whole[4998, 29]


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -3.0, 1e308])
def test_odd_values_are_drawn(tmp_path, value):
    whole = np.full((6, 6), value)
    Checkpoint().block("u", whole, [((0, 0), (6, 6))]).replicated("v", np.array([value, 1.0, -1e308])).write(tmp_path)
    for name in ("u", "v"):
        ended = backstay("view", name, tmp_path, "-o", tmp_path / f"{name}.png")
        assert ended.status == 0 and "Warning" not in ended.err, ended


def test_members_parts_and_ranks_are_chosen(tmp_path):
    struct = np.zeros(5, [("pos", "f8", (3,)), ("in", [("q", "c16")]), ("tag", "S3")])
    struct["pos"] = np.arange(15).reshape(5, 3)
    struct["in"]["q"] = 3 - 4j
    c = Checkpoint(ranks=2).list("p", [struct[:2], struct[2:]]).private("n", [np.arange(3), np.arange(9)])
    c.replicated("on", np.array([True, False])).write(tmp_path)

    def greatest(*arguments):
        return backstay("view", *arguments, tmp_path, "--json").json["max"]

    assert greatest("p", "-c", "pos") == 12 and greatest("p", "-c", "pos.2") == 14
    assert greatest("p", "-c", "in.q") == 5 and greatest("p", "-c", "in.q.imag") == -4
    assert greatest("n", "--rank", 1) == 8 and greatest("on") == 1
    for arguments, text in [
        (["p"], "choose with --component one of pos, in, tag"),
        (["p", "-c", "tag"], "cannot be drawn"),
        (["p", "-c", "pos.3"], "no index 3"),
        (["p", "-c", "in.q.size"], "abs, real, imag, phase"),
        (["on", "-c", "x"], "has no component 'x'"),
        (["n"], "private to each of 2 ranks: choose one"),
        (["n", "--rank", 5], "Rank 5 has no region 'n'"),
        (["q"], "has no region 'q'"),
        (["on", "-s", "1=0"], "there is no axis 1"),
        (["on", "-s", "0=2"], "there is no index 2"),
    ]:
        assert text in sentence_of(backstay("view", *arguments, tmp_path)), arguments
    assert backstay("view", "on", tmp_path, "-s", "x").status == 2


def test_a_rank_is_refused_where_it_would_be_ignored(tmp_path):
    c = Checkpoint(ranks=2).block("b", np.arange(6.0), [((0,), (3,)), ((3,), (6,))])
    c.list("l", [np.arange(2), np.arange(3)]).replicated("r", np.arange(4)).private("p", [np.arange(2)] * 2)
    c.write(tmp_path / "two")
    for name, what in (("b", "one array of all ranks (block)"), ("l", "(list)"), ("r", "the same on all ranks")):
        for rank in (0, 5):
            text = sentence_of(backstay("view", name, tmp_path / "two", "--rank", rank))
            assert what in text and text.endswith(f"leave out --rank {rank}.")
    Checkpoint().private("p", [np.arange(5)]).write(tmp_path / "one")
    assert backstay("view", "p", tmp_path / "one", "--rank", 0).status == 0
    assert "Rank 5 has no region 'p'" in sentence_of(backstay("view", "p", tmp_path / "one", "--rank", 5))


def test_several_slices_all_count(tmp_path):
    whole = np.random.default_rng(5).normal(size=(3, 4, 5, 6))
    Checkpoint().block("u", whole, [((0,) * 4, whole.shape)]).write(tmp_path)
    for words in (["-s", "0=1", "--slice", "1=2"], ["-s", "0=1", "-s", "1=2,0=1"]):
        found = backstay("view", "u", tmp_path, "--json", *words).json
        assert found["slice"] == {"0": 1, "1": 2} and found["axes"] == [2, 3] and found["max"] == whole[1, 2].max()
    ended = backstay("view", "u", tmp_path, "-s", "0=1", "-s", "0=2")
    assert ended.status == 2 and "Axis 0 is cut twice, at 1 and at 2" in ended.err


def test_a_region_without_elements_is_a_sentence(tmp_path):
    Checkpoint().replicated("e", np.zeros((0, 4))).write(tmp_path)
    assert "has no elements" in sentence_of(backstay("view", "e", tmp_path))


def test_damage_is_not_drawn(tmp_path, monkeypatch):
    field(tmp_path)
    flip(tmp_path / "shared/line-00000001/rank-00000.h5", 8192)
    assert "not those that were written" in sentence_of(backstay("view", "u", tmp_path, "-s", "0=0"))
    from backstay.cli import view as module

    monkeypatch.setitem(module.view.__globals__, "CHECKED", 10)
    ended = backstay("view", "u", tmp_path, "-s", "0=0")
    assert ended.status == 0 and "were not checked" in ended.err  # too large to check for one slice: said so
