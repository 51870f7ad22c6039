"""Declared computations in Python: what a line leaves out, and what is refused."""

import json

import numpy as np
import pytest
from commands import backstay as command

pytest.importorskip("backstay._core")

import backstay
from backstay import lines


@pytest.fixture
def start(tmp_path):
    """Opens sessions of one process on one directory, with a line at each call; the one before is closed."""
    opened = []

    def start(**options):
        for run in opened:
            run.close()
        given = {"dir": tmp_path / "ck", "comm": False, "log": "quiet", "every": 1, "policy": "wait"} | options
        opened.append(backstay.Session(**given))
        return opened[-1]

    yield start
    for run in opened:
        run.close()


def fields(run, value):
    u, f = np.full(100, value), np.full(100, value)
    run.protect("u", u)
    run.protect("f", f)
    return u, f


def test_what_is_overwritten_before_it_is_read_is_left_out(start):
    run = start()
    u, f = fields(run, 1.0)
    fluxes = run.declare("fluxes", reads=backstay.Access("u", around=[(-1, 1)]), writes="f")
    update = run.declare("update", reads=["f"], updates=["u"])
    run.resume()
    run.checkpoint()
    assert run.compute(fluxes, lambda x, by: f.fill(by * x) or "done", 2, by=4) == "done"
    assert run.status().left_out_bytes == f.nbytes
    run.compute(update, u.__iadd__, f)
    run = start()
    u, f = fields(run, -1.0)
    assert run.resume()
    assert (u == 1).all() and (f == -1).all()


def test_what_stays_in_part_is_saved(start):
    run = start()
    _, f = fields(run, 1.0)
    inside = run.declare("inside", writes=backstay.Access("f", where=[(1, 99)]))
    look = run.declare("look", reads="f")
    run.resume()
    run.checkpoint()
    run.compute(inside, f[1:99].fill, 7)
    run.compute(look, f.sum)
    assert run.status().left_out_bytes == 98 * 8
    run = start()
    _, f = fields(run, -1.0)
    assert run.resume()
    assert (f == [1.0, *[-1.0] * 98, 1.0]).all()


def line_in_parts(start, tmp_path, field):
    """Of `f`, the first and the last row are in the line. Where its file is."""
    run = start()
    run.protect("f", field)
    inside = run.declare("inside", writes=backstay.Access("f", where=[(1, len(field) - 1), (0, field.shape[1])]))
    look = run.declare("look", reads="f")
    run.resume()
    run.checkpoint()
    run.compute(inside, field[1:-1].fill, 0)
    run.compute(look, lambda: None)
    run.wait()
    run.close()
    return next((tmp_path / "ck/shared/line-00000001").glob("*.h5"))


def test_tools_see_a_region_that_was_saved_in_parts_as_a_whole_with_gaps(start, tmp_path):
    h5py = pytest.importorskip("h5py")
    field = np.arange(20.0).reshape(5, 4)
    expected = np.full((5, 4), np.nan)
    expected[[0, 4]] = field[[0, 4]]
    with h5py.File(line_in_parts(start, tmp_path, field)) as file:
        np.testing.assert_array_equal(file["f"][...], expected)
        assert file["f"].attrs["covered"] == 0.4
        assert [d.attrs["at"].tolist() for d in (file["by_part/00000/0/f"], file["by_part/00000/1/f"])] == [
            [0, 0],
            [4, 0],
        ]
    assert command("verify", tmp_path / "ck").status == 0
    shown = command("show", tmp_path / "ck")
    assert "f  64 B of 160 B: the rest was left out" in shown.out
    facts = command("show", tmp_path / "ck", "--json").json["regions"][0]
    assert (facts["bytes"], facts["left_out_bytes"], facts["values"][0]["max"]) == (64, 96, 19)
    for name, read in (("f.npy", np.load), ("f.h5", lambda path: h5py.File(path)["f"][...])):
        for flags in ([], ["--virtual"]) if name == "f.h5" else ([],):
            out = tmp_path / f"out{len(flags)}-{name}"
            assert command("export", tmp_path / "ck", "-r", "f", "-o", out, *flags).status == 0
            np.testing.assert_array_equal(read(out), expected)
    assert command("view", "f", tmp_path / "ck").status == 0
    same = command("diff", tmp_path / "ck", tmp_path / "ck")
    assert same.status == 0, same.out


def test_a_damaged_part_is_found(start, tmp_path):
    path = line_in_parts(start, tmp_path, np.arange(20.0).reshape(5, 4))
    data = bytearray(path.read_bytes())
    at = data.find(np.float64(19.0).tobytes())
    data[at] ^= 1
    path.write_bytes(data)
    found = command("verify", tmp_path / "ck")
    assert found.status == 1 and "region 'f' of rank 0" in found.out + found.err
    field = np.zeros((5, 4))
    run = start()
    run.protect("f", field)
    run.declare("inside", writes=backstay.Access("f", where=[(1, 4), (0, 4)]))
    run.declare("look", reads="f")
    with pytest.raises(backstay.Error, match="region 'f' of rank 0"):
        run.resume()


def test_memory_that_moves_is_looked_at_when_it_is_read_first(start):
    state = {"f": np.full(10, 1.0)}

    def protect(run):
        run.protect("f", get=lambda: state["f"], set=lambda array: state.update(f=array))
        return run.declare("look", reads="f"), run.declare("set", writes="f")

    run = start()
    look, _ = protect(run)
    run.resume()
    run.checkpoint()
    run.compute(look, lambda: None)
    state["f"] = np.zeros(20)
    run = start()
    protect(run)
    assert run.resume()
    assert (state["f"] == np.full(10, 1.0)).all()


@pytest.mark.parametrize(
    ("accesses", "sentence"),
    [
        ({"reads": "v"}, "computation 'x' uses a region 'v' that is not protected"),
        ({}, "computation 'x' has no accesses"),
        ({"reads": [3]}, "computation 'x' has 3 for a region: give a name, or an Access"),
        (
            {"writes": backstay.Access("u", where=[(0, 101)])},
            "computation 'x', region 'u': the range 0 to 101 of dimension 0 is not inside 0 to 100",
        ),
        (
            {"reads": backstay.Access("u", around=[1, 1])},
            "computation 'x' has [1, 1] for ranges: give two whole numbers for each dimension",
        ),
        (
            {"writes": backstay.Access("u", around=[(-1, 1)])},
            "a stencil says what is read, and this access only writes",
        ),
    ],
)
def test_declarations_that_cannot_be_are_refused(start, accesses, sentence):
    run = start()
    fields(run, 1.0)
    with pytest.raises(backstay.Error) as refused:
        run.declare("x", **accesses)
    assert sentence in str(refused.value)


def test_what_was_not_declared_cannot_be_computed(start):
    run = start()
    fields(run, 1.0)
    with pytest.raises(backstay.Error, match="give what declare"):
        run.compute("fluxes", print)
    with pytest.raises(backstay.Error, match="this session has not declared"):
        run.compute(backstay.Computation("fluxes", 0), print)


def test_a_list_is_all_that_a_line_holds(start, tmp_path):
    run = start()
    u, f = fields(run, 1.0)
    fluxes = run.declare("fluxes", reads="u", writes="f")
    run.resume()
    run.save_only(["u"])
    run.checkpoint()
    assert run.status().left_out_bytes == f.nbytes
    run.compute(fluxes, f.fill, 2)
    run.wait()
    for wrong, why in (("u", "give a list"), ([3], "give a list"), (["x"], "names region 'x', which is not")):
        with pytest.raises(backstay.Error, match=why):
            run.save_only(wrong)
    run.close()
    assert "f  left out: not on the program's list (save_only)" in command("show", tmp_path / "ck").out


def test_commands_tell_what_was_left_out(start, tmp_path):
    run = start()
    _, f = fields(run, 1.0)
    fluxes = run.declare("fluxes", reads="u", writes="f")
    run.resume()
    run.checkpoint()
    run.compute(fluxes, f.fill, 2)
    run.wait()
    run.close()
    shown = command("show", tmp_path / "ck")
    assert shown.status == 0 and "f  left out: overwritten before it is read" in shown.out
    assert command("show", tmp_path / "ck", "--json").json["left_out"] == {"f": 1}
    for words in (["view", "f", tmp_path / "ck"], ["export", tmp_path / "ck", "-r", "f", "-o", tmp_path / "f.npy"]):
        refused = command(*words)
        assert refused.status != 0 and "region 'f', which was left out: overwritten before it" in refused.err, words
    assert command("verify", tmp_path / "ck").status == 0


@pytest.mark.parametrize("entries", [3, [3], [{}], [{"by": -1, "name": "f"}], [{"by": 0, "name": 7}]])
def test_a_table_whose_entries_cannot_be_is_refused(entries):
    table = {"job": "0" * 16, "line": 1, "file": "f", "left_out": entries, "segments": []}
    with pytest.raises(lines.Problem):
        lines.decode_table(json.dumps(table).encode(), 0)


def part_of_u(at):
    return {
        "rank": 0, "region": "u", "dataset": "/u", "type": "f8", "shape": [2], "units": "",
        "placement": {"kind": "private"}, "part": {"of": [4], "at": [at]},
        "offset": lines.FIRST_AREA, "bytes": 16, "crc32c": "00000000",
    }  # fmt: skip


def test_a_table_whose_parts_overlap_is_refused():
    """Together they may be as many elements as the region has."""

    def decode(second):
        table = {"job": "0" * 16, "line": 1, "file": "f", "segments": [part_of_u(0), part_of_u(second)]}
        return lines.decode_table(json.dumps(table).encode(), lines.FIRST_AREA + 4096)

    assert len(decode(2).segments) == 2
    with pytest.raises(lines.Problem, match="parts of the region 'u' of rank 0 overlap"):
        decode(1)


def of_a_box(run, box, **options):
    """A region whose array the program replaces."""
    run.protect("box", get=lambda: box[0], set=lambda array: box.__setitem__(0, array), **options)


def test_what_a_line_left_out_of_a_region_with_get_and_set_stays_as_it_is(start, tmp_path):
    def program(run):
        box, u = [np.arange(2000.0)], np.zeros(10)
        of_a_box(run, box)
        run.protect("u", u)
        half = run.declare("half", writes=backstay.Access("box", where=[(0, 1000)]))
        add = run.declare("add", reads="box", updates="u")
        return box, u, half, add

    for is_made_again in (True, False):
        run = start(dir=tmp_path / str(is_made_again))
        box, u, half, add = program(run)
        if is_made_again:
            run.init_done()
        run.resume()
        run.checkpoint()
        if not is_made_again:
            run.compute(half, box[0].__setitem__, slice(0, 1000), 7)
        run.compute(add, u.__iadd__, box[0].sum())
        run.wait()
        run = start(dir=tmp_path / str(is_made_again))
        box, u, half, add = program(run)
        if is_made_again:
            run.init_done()
        box[0][:1000] += 0 if is_made_again else 3
        assert run.resume()
        assert (box[0][1000:] == np.arange(1000.0, 2000)).all()
        assert (box[0][:1000] == np.arange(1000.0) + (0 if is_made_again else 3)).all()


@pytest.mark.parametrize("place", ["calls", "now", "best"])
def test_a_replay_hands_over_a_region_with_get_and_set_before_it_is_used(start, tmp_path, place):
    def program(run, steps):
        box = [np.zeros(3)]

        def grow():
            box[0] = np.append(box[0], box[0].sum() + 1)

        of_a_box(run, box)
        step = run.declare("grow", updates="box")
        look = run.declare("look", reads="box")
        run.replay()
        for _ in range(steps):
            if place != "best":
                run.checkpoint(now=place == "now")
            run.compute(look, lambda: None)
            run.compute(step, grow)
            run.wait()
        return box[0]

    options = {"calls": {}, "now": {"every": 1000}, "best": {"place": "best"}}[place]
    program(start(**options), 20)
    for steps in (20, 21, 23):
        assert (
            program(start(**options), steps) == program(start(dir=tmp_path / f"calm{steps}", **options), steps)
        ).all()


def test_a_computation_of_another_session_is_refused(start, tmp_path):
    run = start()
    fields(run, 1.0)
    with backstay.Session(dir=tmp_path / "other", comm=False, log="quiet") as other:
        fields(other, 1.0)
        other.declare("first", reads="u")
        theirs = other.declare("second", reads="u")
    run.declare("mine", updates="u")
    run.declare("my other one", updates="u")
    with pytest.raises(backstay.Error, match="'second', which this session has not declared"):
        run.compute(theirs, lambda: None)


def test_a_static_region_with_get_and_set_is_handed_over_by_a_replay(start):
    def program(run, made):
        box, u = [made], np.zeros(3)
        run.protect("u", u)
        run.protect_static("mesh", get=lambda: box[0], set=lambda array: box.__setitem__(0, array))
        step = run.declare("step", updates="u")
        found = run.replay()
        for _ in range(4):
            run.checkpoint()
            run.compute(step, u.__iadd__, 1)
            run.wait()
        return found, box[0]

    program(start(), np.arange(10.0))
    found, mesh = program(start(), np.zeros(10))
    assert found and (mesh == np.arange(10.0)).all()


def damage_newest(directory, bytes_of_it):
    newest = sorted(directory.rglob("line-*"))[-1]
    (file,) = newest.glob("*.h5")
    whole = bytearray(file.read_bytes())
    whole[whole.rindex(bytes_of_it)] ^= 1
    file.write_bytes(whole)


@pytest.mark.parametrize("is_replaced", [True, False])
@pytest.mark.parametrize("damaged", ["u", "box"])
def test_what_was_read_of_a_line_that_is_given_up_is_not_handed_over(start, tmp_path, is_replaced, damaged):
    def program(run):
        box, u, taken = [np.arange(2000.0)], np.zeros(3), []

        def take(array):
            taken.append(array.copy())
            box[0] = array

        if is_replaced:
            run.protect("box", get=lambda: box[0], set=take)
        else:
            run.protect("box", box[0])
        run.protect("u", u)
        step = run.declare("step", updates="u")
        change = run.declare("change", updates="box")
        run.init_done()
        return box, u, step, change, taken

    run = start(keep=5)
    box, u, step, change, _ = program(run)
    run.resume()
    run.compute(step, u.__iadd__, 1)
    run.checkpoint(now=True)  # without the box, which is as the beginning makes it
    run.compute(change, box[0].fill, -5)
    run.compute(step, u.__iadd__, 1)
    run.checkpoint(now=True)
    run.close()
    damage_newest(tmp_path / "ck", np.full(3, 2.0 if damaged == "u" else -5.0).tobytes())
    box, u, _, _, taken = program(run := start(keep=5))
    assert run.resume().line == 1
    assert (u == 1).all() and (box[0] == np.arange(2000.0)).all() and not taken


def test_an_array_is_not_handed_over_before_it_is_right(start, tmp_path):
    taken, x = [], [np.zeros(4)]
    for launch in range(2):
        run = start(keep=5)
        run.protect("x", get=lambda: x[0], set=lambda array: taken.append(array.copy()))
        if launch == 0:
            for value in (1.0, 2.0):
                x[0][:] = value
                run.checkpoint(now=True)
            run.close()
            damage_newest(tmp_path / "ck", np.full(4, 2.0).tobytes())
    assert run.resume().line == 1
    assert len(taken) == 1 and (taken[0] == 1).all()


def test_a_region_is_handed_over_when_all_of_a_line_is_there(start, tmp_path):
    taken, u = [], np.zeros(3)
    for launch in range(2):
        run = start(keep=5)
        run.protect("x", get=lambda: np.zeros(4), set=lambda array: taken.append(array))
        run.protect("u", u)
        if launch == 0:
            for value in (1.0, 2.0):
                u[:] = value
                run.checkpoint(now=True)
            run.close()
            damage_newest(tmp_path / "ck", np.full(3, 2.0).tobytes())  # of u, behind x
    assert run.resume().line == 1
    assert len(taken) == 1


def test_what_is_missing_of_an_array_that_comes_back_with_another_length_is_known(start, tmp_path):
    def program(run, length):
        box, u = [np.ones(length)], np.zeros(10)
        of_a_box(run, box)
        run.protect("u", u)
        half = run.declare("half", writes=backstay.Access("box", where=[(0, 1000)]))
        add = run.declare("add", reads="box", updates="u")
        return box, u, half, add

    run = start()
    box, u, half, add = program(run, 2000)
    run.resume()
    run.checkpoint()
    run.compute(half, box[0].__setitem__, slice(0, 1000), 7)
    run.compute(add, u.__iadd__, box[0].sum())
    run.wait()
    run = start()
    box, u, half, add = program(run, 1500)
    assert run.resume() and len(box[0]) == 2000
    with pytest.raises(backstay.Error, match="'box'"):
        run.compute(add, u.__iadd__, box[0].sum())


def test_a_set_that_fails_is_named(start):
    def refuse(array):
        raise ValueError("no room in the pool")

    for launch in range(2):
        run = start()
        run.protect("x", get=lambda: np.ones(3), set=refuse)
        if launch == 0:
            run.checkpoint(now=True)
            run.close()
    with pytest.raises(backstay.Error, match="region 'x': what was put back could not be handed over: .*no room in"):
        run.resume()


def test_a_replay_gives_back_a_protected_array_itself(start):
    def program(run, steps):
        u, seen = np.ones(4), []

        def advance(array):
            array *= 2
            return array

        run.protect("u", u)
        step = run.declare("step", updates="u")
        run.replay()
        given = u
        for _ in range(steps):
            run.checkpoint()
            given = run.compute(step, advance, given)
            seen.append(float(given[0]))
        run.wait()
        return given is u, seen

    assert program(start(), 3) == (True, [2, 4, 8])
    assert program(start(), 5) == (True, [2, 4, 8, 16, 32])
