"""The session of the Python package: what is protected comes back, bit for bit, and what cannot be is refused.

Those of several ranks are in test_session_ranks.py. Needs the compiled module (BACKSTAY_BUILD_PYTHON=ON).
"""

import contextlib
import copy
import gc
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("backstay._core")

import backstay
import h5py
from backstay import Code, Outcome, session

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128", "clongdouble", "S7", "V5"),
]
PARTICLE = np.dtype(
    {
        "names": ["x", "id", "tag", "spin"],
        "formats": [("f8", (3,)), "i4", "S4", np.dtype([("a", "u1"), ("b", "c8")], align=True)],
        "offsets": [8, 0, 40, 48],
        "itemsize": 72,
    }
)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("BACKSTAY_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def start(tmp_path):
    """Opens sessions of one process on one directory; the one before is closed, as when a program starts again."""
    opened = []

    def start(**options):
        for run in opened:
            run.close()
        given = {"dir": tmp_path / "ck", "comm": False, "log": "quiet", "every": 1000000} | options
        opened.append(backstay.Session(**given))
        return opened[-1]

    yield start
    for run in opened:
        run.close()


def random_bytes(shape, dtype, seed=1):
    """Every pattern of bits that the type has, NaNs with payloads and denormals among them."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=int))
    raw = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, "u1")
    if dtype.kind == "b":
        raw &= 1
    if dtype.char in "gG" and np.longdouble(0).itemsize == 16:  # 10 bytes of number in 16: the rest has no bits of it
        raw.reshape(-1, 16)[:, 10:] = 0
    return raw.view(dtype).reshape(shape)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def save(run):
    assert run.checkpoint(now=True) is Outcome.taken
    run.wait()


def refused(code, call, *words):
    with pytest.raises(backstay.Error) as caught:
        call()
    sentence = str(caught.value)
    assert caught.value.code == code and isinstance(caught.value.code, Code), sentence
    assert len(sentence.split()) > 4, sentence
    for word in words:
        assert word in sentence, sentence


# ---- what comes back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (7,), (2, 3, 5), (1, 2, 1, 2, 1, 2, 3)])
def test_array_comes_back_bit_for_bit(start, dtype, shape):
    saved, array = random_bytes(shape, dtype), random_bytes(shape, dtype)
    run = start()
    run.protect("a", array)
    save(run)
    array[...] = np.zeros((), dtype)
    run = start()
    run.protect("a", array)
    assert run.resume()
    assert same_bits(array, saved)


def test_nan_payloads_come_back(start):
    patterns = np.array([0x7FF0000000000001, 0xFFF8DEADBEEF0001, 0x7FF7FFFFFFFFFFFF, 0x8000000000000000], "u8")
    array = patterns.view("f8").copy()
    run = start()
    run.protect("a", array)
    save(run)
    array[:] = 0
    run.resume()
    assert (array.view("u8") == patterns).all()


def test_struct_comes_back_and_is_a_compound_in_the_file(start, tmp_path):
    saved = np.zeros(5, PARTICLE)
    saved["x"] = np.arange(15).reshape(5, 3)
    saved["id"], saved["tag"], saved["spin"]["b"] = range(5), b"ab", 1 - 2j
    array = saved.copy()
    run = start()
    run.protect("particles", array, units="m")
    save(run)
    array[:] = np.zeros((), PARTICLE)
    run.resume()
    assert all((array[name] == saved[name]).all() for name in PARTICLE.names)
    (path,) = (tmp_path / "ck" / "shared").glob("line-*/*.h5")
    with h5py.File(path) as file:
        dataset = file["particles"]
        assert set(dataset.dtype.names) == set(PARTICLE.names)
        assert (dataset["x"] == saved["x"]).all() and (dataset["tag"] == saved["tag"]).all()


def test_halo_is_neither_saved_nor_touched(start):
    whole = np.arange(6.0 * 7 * 8).reshape(6, 7, 8)
    inside = whole[2:-2, 1:-1, 3:-3]
    saved = inside.copy()
    run = start()
    run.protect("u", inside, backstay.block((2, 5, 2), (0, 0, 0), (2, 5, 2)))
    save(run)
    whole[...] = -1
    run.resume()
    assert (inside == saved).all()
    assert (whole == -1).sum() == whole.size - inside.size


@pytest.mark.parametrize(
    "view",
    [lambda a: a[::2, ::3], lambda a: a.T, lambda a: a[:, 1], lambda a: a["x"][:, :, 1], lambda a: a[:1, ::2]],
    ids=["steps", "transposed", "column", "field", "one row"],
)
def test_strided_view_comes_back_in_place(start, view):
    whole = random_bytes((6, 9), [("x", "f8", (3,)), ("id", "i4"), ("tag", "S4")])
    before, part = whole.copy(), view(whole)
    run = start()
    run.protect("v", part)
    save(run)
    part[...] = np.zeros((), part.dtype)
    run.resume()
    assert same_bits(np.ascontiguousarray(part), np.ascontiguousarray(view(before)))


def test_array_is_used_in_place_and_kept_alive(start):
    run = start()
    array = np.arange(1000.0)
    alive = weakref.ref(array)
    run.protect("a", array)
    del array
    gc.collect()
    save(run)
    alive()[:] = 0
    run.resume()
    assert (alive() == np.arange(1000.0)).all()
    run.unprotect("a")
    gc.collect()
    assert alive() is None


# ---- arrays that the program replaces --------------------------------------------------------------------------------


@contextlib.contextmanager
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def numbers():
    return np.arange(12.0)


@pytest.mark.parametrize("make", [numbers, lambda: numbers().reshape(3, 4), lambda: numbers()[2:]])
def test_replaced_array_is_warned_of_once(start, make):
    run = start(every=2, policy="wait")
    u, kept = make(), make()
    run.protect("u", u)
    run.protect("kept", kept)
    run.resume()
    with pytest.warns(backstay.ReplacedWarning, match=r"region 'u': .* u \+= 1.0") as told:
        for _ in range(6):
            run.checkpoint()
            u = u + 1.0
            kept += 1.0
    assert len(told) == 1 and told[0].filename == __file__


def test_replaced_array_is_warned_of_without_a_resume_and_by_a_resume(start):
    run = start()
    u, v = numbers(), numbers()
    run.protect("u", u)
    run.protect("v", v)
    run.checkpoint()
    u = u + 1.0
    with pytest.warns(backstay.ReplacedWarning, match="'u'"):
        run.resume()
    v = v + 1.0
    with no_warning():
        run.checkpoint(now=True)  # of a program that may have dropped it, and comes to its end
    with pytest.warns(backstay.ReplacedWarning, match="'v'"):
        run.checkpoint(now=True)


class Holder:
    def __init__(self, array):
        self.array = array


@pytest.mark.parametrize(
    "keep",
    [
        lambda u: u[1:-1],
        lambda u: u.reshape(4, 3).T,
        memoryview,
        weakref.ref,
        Holder,
        lambda u: {"fields": [u]},
        lambda u: lambda: u.sum(),
        lambda u: u.ctypes.data_as,
        lambda u: u.flat,
    ],
    ids=["view", "view of a view", "memory", "weak", "attribute", "in a list", "closure", "method", "iterator"],
)
@pytest.mark.parametrize("make", [numbers, lambda: numbers().reshape(3, 4)])
def test_array_that_the_program_still_reaches_is_not_warned_of(start, keep, make):
    run = start(every=1, policy="wait")

    def set_up():
        u = make()
        run.protect("u", u)
        run.resume()
        return keep(u)

    kept = set_up()
    with no_warning():
        for _ in range(4):
            run.checkpoint()
    assert kept is not None


def test_view_whose_array_the_program_has_is_not_warned_of(start):
    run = start(every=1, policy="wait")
    whole = numbers()
    run.protect("inner", whole[2:-2])
    inner = whole[1:-1]
    run.protect("other", inner)
    run.resume()
    del inner
    with no_warning():
        for _ in range(3):
            run.checkpoint()


def test_memory_that_is_not_numpys_is_not_warned_of(start, tmp_path):
    run = start(every=1, policy="wait")
    mapped = np.memmap(tmp_path / "mapped", "f8", "w+", shape=(4,))
    lent = np.frombuffer(bytearray(32))
    run.protect("mapped", mapped)
    run.protect("lent", lent)
    run.resume()
    del mapped, lent
    with no_warning():
        for _ in range(3):
            run.checkpoint()


def test_array_that_nobody_else_ever_had_is_not_warned_of(start):
    run = start(every=1, policy="wait")
    run.protect("constant", numbers())
    run.state(step=0)
    with no_warning():
        run.resume()
        for _ in range(3):
            run.checkpoint()


def test_last_checkpoint_after_the_function_that_had_the_array_is_not_warned_of(start):
    run = start(every=1, policy="wait")

    def simulate():
        u = numbers()
        run.protect("u", u)
        run.resume()
        run.checkpoint()

    simulate()
    with no_warning():
        run.checkpoint(now=True)


def test_array_that_is_protected_anew_is_watched_anew(start):
    run = start(every=1, policy="wait")
    u = numbers()
    run.protect("u", u)
    run.resume()
    run.unprotect("u")
    u = u + 1.0
    run.protect("u", u)
    with no_warning():
        run.checkpoint()
        run.checkpoint()


class Pool:
    def __init__(self, count):
        self.x = np.arange(float(count))

    def take(self, x):
        self.x = x


def test_array_that_changes_its_size_comes_back_with_its_size(start):
    pool = Pool(3)
    run = start()
    run.protect("x", get=lambda: pool.x, set=pool.take, placement="list")
    pool.x = np.arange(11.0) ** 2
    save(run)
    pool.x = np.zeros(2)
    run = start()
    run.protect("x", get=lambda: pool.x, set=pool.take, placement="list")
    assert run.resume()
    assert (pool.x == np.arange(11.0) ** 2).all()


def test_set_receives_a_complete_array_and_only_then(start):
    pool, seen = Pool(4), []
    run = start()
    run.protect("x", get=lambda: pool.x * 1, set=lambda x: seen.append(x.copy()))
    run.resume()
    assert seen == []
    save(run)
    run.resume()
    assert len(seen) == 1 and (seen[0] == pool.x).all()


def test_state_comes_back_with_its_types(start):
    run = start()
    state = run.state(step=7, time=0.5, z=1j, done=True, small=np.float32(0.1))
    save(run)
    run = start()
    state = run.state(step=0, time=0.0, z=0j, done=False, small=np.float32(0))
    assert run.resume().saved_ranks == 1
    assert (state.step, state.time, state.z, state.done) == (7, 0.5, 1j, True)
    assert [type(v) for v in (state.step, state.time, state.done)] == [int, float, bool]
    assert type(state.small) is np.float32 and state.small == np.float32(0.1)


def test_state_keeps_the_kind_of_its_numbers(start):
    state = start().state(step=0, time=0.0, count=np.uint64(3))
    state.step += 1
    state.time = 3
    state.count = 2**64 - 1
    assert (state.step, state.time, state.count) == (1, 3.0, 2**64 - 1)
    for name, value in [("step", 1.5), ("time", 1j)]:
        with pytest.raises(TypeError, match="cannot become"):
            setattr(state, name, value)
    with pytest.raises(AttributeError, match="name it in run.state"):
        state.other = 1
    for name, value in [("step", 2**63), ("step", np.uint64(2**63)), ("count", -1)]:
        with pytest.raises(OverflowError, match=f"'{name}' is of type u?int64, from .* to .*, and cannot become"):
            setattr(state, name, value)
    with pytest.raises(OverflowError, match="'time' is of type float64"):
        state.time = 2**2000
    state.time = 2**70
    assert (state.step, state.time, state.count) == (1, 2.0**70, 2**64 - 1)


def test_state_is_assigned_in_place(start):
    run = start()
    state = run.state(x=1.0, n=np.int64(1))
    for _ in range(3):
        state.x = state.x + 1
        state.n += 1
    save(run)
    state.x = state.n = 0
    run.resume()
    assert (state.x, state.n) == (4.0, 4)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_copy_of_a_state_has_numbers_of_its_own(start, make):
    state = start().state(step=7, small=np.float32(0.1))
    copied = make(state)
    state.step = 8
    assert (copied.step, copied.small, type(copied.small)) == (7, state.small, np.float32)
    copied.step = 9
    assert state.step == 8 and not hasattr(copied, "other")


def test_number_of_a_state_cannot_hide_behind_what_the_state_itself_has(start):
    refused(Code.invalid_argument, lambda: start().state(_arrays=1), "begins with '_'")


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_session_is_not_copied(start, make):
    run = start()
    refused(Code.invalid_argument, lambda: make(run), "cannot be copied")


def test_state_that_is_refused_leaves_nothing_behind(start):
    run = start()
    run.protect("taken", np.zeros(1))
    refused(Code.invalid_argument, lambda: run.state(fresh=1, taken=2), "'taken'", "already protected")
    assert run.state(fresh=1).fresh == 1


def test_exception_after_close_is_the_one_that_is_told(start):
    with pytest.raises(ValueError, match="afterwards"), start() as run:
        run.close()
        raise ValueError("afterwards")
    with pytest.raises(ValueError), start() as run:
        raise ValueError
    assert run.closed


def test_state_that_is_too_large_for_any_integer_is_told_what_fits(start):
    refused(Code.invalid_argument, lambda: start().state(step=2**70), "'step'", "must be from -2**63 to 2**64 - 1")


def test_callbacks_save_and_load_any_bytes(start):
    told = []
    run = start()
    run.protect("tree", save=lambda: bytearray(b"\x00\xff tree"), load=told.append)
    run.protect("nothing", save=lambda: b"", load=told.append)
    save(run)
    run.resume()
    assert told == [b"\x00\xff tree", b""]


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.default_rng(5),
        lambda: np.random.Generator(np.random.MT19937(5)),
        lambda: np.random.Philox(5),
        lambda: np.random.RandomState(5),
        lambda: random.Random(5),
    ],
    ids=["PCG64", "MT19937", "Philox", "RandomState", "random.Random"],
)
def test_random_numbers_go_on_as_they_would_have(start, make):
    def draw(rng):
        if isinstance(rng, np.random.BitGenerator):
            return list(rng.random_raw(3))
        return [rng.gauss(0, 1) for _ in range(3)] if isinstance(rng, random.Random) else list(rng.normal(size=3))

    rng = make()
    draw(rng)
    run = start()
    run.protect_rng("rng", rng)
    save(run)
    expected = draw(rng)
    run.resume()
    assert draw(rng) == expected


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="this NumPy cannot put back what spawn() made"
)
@pytest.mark.parametrize("seed", [5, [np.uint32(5), 6], None])
@pytest.mark.parametrize("more", [0, 1, 3])
def test_generators_that_others_make_after_a_resume_are_those_of_then(start, seed, more):
    """In another process, which has made none or fewer, or in the same, which has made more."""
    rng = np.random.default_rng(seed)
    rng.spawn(2)
    run = start()
    run.protect_rng("rng", rng)
    save(run)
    expected = [made.random() for made in (*rng.spawn(2), rng)]
    run.close()
    again = start()
    rng = np.random.default_rng(seed)
    rng.spawn(more) if more else None
    again.protect_rng("rng", rng)
    assert again.resume()
    assert [made.random() for made in (*rng.spawn(2), rng)] == expected


# ---- the session ----------------------------------------------------------------------------------------------------


def test_fresh_start_is_false(start):
    resumed = start().resume()
    assert not resumed and resumed.line == 0


def test_the_end_tells_how_long_checkpoints_kept_the_program(start, tmp_path):
    run = start()
    run.protect("a", np.zeros(1000))
    save(run)
    save(run)
    blocked = run.status().blocked_seconds
    run.close()
    events = [json.loads(line) for file in tmp_path.rglob("events.jsonl") for line in file.read_text().splitlines()]
    end = events[-1]
    assert (end["event"], end["taken"]) == ("end", 2)
    assert 0 < end["blocked_by_first_seconds"] < blocked <= end["blocked_seconds"] < 60


def test_outcomes_follow_the_option_every(start):
    run = start(every=3, policy="wait")
    run.state(step=0)
    outcomes = [run.checkpoint() for _ in range(6)]
    assert [outcome is Outcome.taken for outcome in outcomes] == [False, False, True] * 2
    run.wait()
    status = run.status()
    assert (status.calls, status.taken, status.committed, status.in_flight, status.last_error) == (6, 2, 2, 0, "")
    assert status.newest_line == 2 and status.staging_bytes > 0


def test_verify_counts_and_names_damage(start, tmp_path):
    run = start()
    run.protect("a", np.arange(100000.0))
    save(run)
    assert run.verify().damage == []
    (path,) = (tmp_path / "ck" / "shared").glob("line-*/*.h5")
    with open(path, "r+b") as file:
        file.seek(100000)
        byte = file.read(1)
        file.seek(100000)
        file.write(bytes([byte[0] ^ 1]))
    found = run.verify()
    assert found.lines == 1 and len(found.damage) == 1 and "'a'" in found.damage[0]


def test_prune_leaves_the_newest(start):
    run = start(keep=5)
    run.state(step=0)
    for _ in range(3):
        save(run)
    run.prune(1)
    assert run.verify().lines == 1
    refused(Code.invalid_argument, lambda: run.prune(0), "keep 1 or more")


def test_loop_goes_back_to_the_newest_line_after_a_rollback(start):
    run = start(every=2, policy="wait")
    state, visited = run.state(step=0), []

    def body():
        run.resume()
        while state.step < 6:
            run.checkpoint()
            visited.append(state.step)
            if visited == [0, 1, 2, 3]:
                run.wait()
                run.rollback("the field is not finite")
            state.step += 1
        return "done"

    assert run.loop(body) == "done"
    assert visited[:4] == [0, 1, 2, 3] and visited[4] in (1, 3) and visited[-1] == 5


def test_a_rollback_goes_to_the_loop_of_its_session(start, tmp_path):
    visited = []
    run = start()
    with backstay.Session(dir=tmp_path / "other", comm=False, log="quiet") as other:

        def inner():
            visited.append("inner")
            if visited.count("inner") == 1:
                run.rollback("both")
            if visited.count("inner") == 2:
                other.rollback("the inner one")

        def outer():
            visited.append("outer")
            other.loop(inner)

        run.loop(outer)
    assert visited == ["outer", "inner", "outer", "inner", "inner"]


def test_rollback_outside_loop_is_refused_as_everywhere(start):
    run = start()
    refused(Code.invalid_argument, lambda: run.rollback("the field is not finite"), "outside loop()", "not finite")
    assert run.loop(lambda: "done") == "done"
    refused(Code.invalid_argument, lambda: run.rollback("again"), "outside loop()")
    run.close()
    refused(Code.invalid_argument, lambda: run.rollback("again"), "closed")


def test_exception_of_a_body_passes_through_loop(start):
    def body():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        start().loop(body)


def test_options_have_two_spellings(start, tmp_path):
    run = start(options={"shared.layout": "one-file"}, shared_every=1, keep=3)
    run.state(step=0)
    save(run)
    assert [path.name for path in (tmp_path / "ck" / "shared").glob("line-*/*.h5")] == ["all.h5"]


def test_other_threads_run_while_a_call_waits(start):
    run = start()
    run.protect("a", np.zeros(8 << 20))
    beats, end = [], threading.Event()
    thread = threading.Thread(target=lambda: [beats.append(1) for _ in iter(lambda: end.wait(0.001), True)])
    thread.start()
    for _ in range(3):
        save(run)
    assert run.verify().damage == []
    end.set()
    thread.join()
    assert len(beats) > 3


def test_call_beside_that_of_another_thread_is_refused(start):
    run, told, inside, go_on = start(), [], threading.Event(), threading.Event()

    def saved():
        inside.set()
        assert go_on.wait(30)
        return b"x"

    run.protect("tree", save=saved, load=print)
    thread = threading.Thread(target=lambda: told.append(run.checkpoint(now=True)))
    thread.start()
    assert inside.wait(30)
    calls = (run.checkpoint, run.resume, run.wait, run.verify, run.close, lambda: run.prune(1))
    more = (lambda: run.state(x=1), lambda: run.unprotect("tree"), lambda: run.loop(print), lambda: run.rollback(""))
    try:
        for call in calls + more:
            refused(Code.invalid_argument, call, "another thread", "one thread at a time")
    finally:
        go_on.set()
        thread.join()
    run.wait()
    assert told == [Outcome.taken] and run.status().committed == 1


def test_call_from_within_a_callback_is_refused(start):
    run, told = start(), []

    def saved():
        for call in (run.checkpoint, run.wait, run.verify, run.close, lambda: run.rollback("")):
            with pytest.raises(backstay.Error, match="a callback may not") as caught:
                call()
            told.append(caught.value.code)
        return b"x"

    run.protect("tree", save=saved, load=print)
    save(run)
    assert told == [Code.invalid_argument] * 5 and run.status().committed == 1


def test_no_call_asks_a_callback_that_may_close_the_session(start):
    """As protect() looks at it, and as a line is captured."""
    run, told = start(), []
    array = np.zeros(3)
    calls = iter(range(1000))

    def get():
        if next(calls) == 0:  # of what has not reached the session
            return array
        for call in (run.close, run.checkpoint, run.init_done):
            with pytest.raises(backstay.Error, match="called back into the program|a callback may not") as caught:
                call()
            told.append(caught.value.code)
        return array

    run.protect("x", get=get, set=lambda value: None)
    assert told and set(told) == {Code.invalid_argument} and not run.closed
    save(run)
    assert run.status().committed == 1


def test_the_phase_of_init_may_protect_and_not_close(start):
    run = start()

    def phase():
        run.protect("x", np.arange(3.0))
        run.protect("y", np.arange(2.0))
        run.unprotect("y")
        refused(Code.invalid_argument, run.close, "close()", "called back into the program")
        refused(Code.invalid_argument, run.checkpoint, "inside init()")

    run.init(phase)
    save(run)
    assert run.status().committed == 1
    run.close()


def test_a_session_that_is_closed_in_the_body_of_loop_ends_it(start):
    run = start()

    def body():
        try:
            run.rollback("back")
        finally:
            run.close()

    refused(Code.invalid_argument, lambda: run.loop(body), "closed inside the body of loop()")
    run = start()
    refused(Code.invalid_argument, lambda: run.loop(run.close), "closed inside the body of loop()")


def test_session_closes_twice_and_at_the_end_of_with(start, tmp_path):
    with backstay.Session(dir=tmp_path / "x", comm=False, log="quiet") as run:
        run.state(step=0)
    assert run.closed
    run.close()
    refused(Code.invalid_argument, run.checkpoint, "closed")


def test_checkpoint_of_a_program_that_forgets_to_close_is_whole(tmp_path):
    program = "import backstay, numpy as np\nrun = backstay.Session(dir='ck', comm=False, log='quiet')\n"
    program += "run.protect('a', np.ones(1 << 20))\nrun.checkpoint(now=True)\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "ck" / "shared").glob("line-*/manifest"))) == 1


# ---- what is refused ------------------------------------------------------------------------------------------------


def read_only():
    array = np.zeros(3)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (np.array([{}]), "Python objects"),
        (np.zeros(3, [("a", "O")]), "Python objects"),
        (np.array(["text"]), "bytes"),
        (np.array(["2024-01-01"], "M8[D]"), "int64"),
        (np.arange(4)[::-1], "negative stride"),
        (np.zeros(3, ">f8"), "byte order"),
        (np.zeros(3, [("a", ">i4")]), "byte order"),
        (read_only(), "read-only"),
        (np.ma.zeros(3), "masked"),
        ([1, 2], "NumPy array"),
        (1.5, "run.state"),
        (np.zeros((1,) * 8), "7"),
    ],
)
def test_array_that_cannot_be_saved_is_refused(start, array, word):
    refused(Code.invalid_argument, lambda: start().protect("a", array), "region 'a'", word)


def test_contradicting_arguments_are_refused(start):
    run, a = start(), np.zeros(4)
    for call in (
        lambda: run.protect("a"),
        lambda: run.protect("a", a, get=lambda: a, set=print),
        lambda: run.protect("a", get=lambda: a),
        lambda: run.protect("a", save=lambda: b""),
        lambda: run.protect("a", a, "list", block=((4,), (0,), (4,))),
        lambda: run.protect("a", a, "scattered"),
        lambda: run.protect("a", save=lambda: b"", load=print, placement="list"),
        lambda: run.protect("a", a, block=((4,), (0,), (3,))),
        lambda: run.protect("a", a, block=((4,), (0,), (5,))),
        lambda: run.state(label="text"),
        lambda: run.protect_rng("a", a),
    ):
        refused(Code.invalid_argument, call)


@pytest.mark.parametrize("value", [None, b"u", 3, ["u"], "\udc80"])
def test_name_and_units_that_are_no_text_are_refused(start, value):
    run, a = start(), np.zeros(1)
    refused(Code.invalid_argument, lambda: run.protect(value, a), "the name of a region is", repr(value))
    refused(Code.invalid_argument, lambda: run.unprotect(value), "the name of a region is", repr(value))
    refused(Code.invalid_argument, lambda: run.protect("a", a, units=value), "units of region 'a'", repr(value))


def test_a_directory_whose_name_is_no_text_is_refused_or_named_as_far_as_it_can_be(tmp_path, monkeypatch):
    place = os.fsdecode(os.fsencode(tmp_path / "caf") + b"\xe9")
    refused(Code.invalid_argument, lambda: backstay.Session(comm=False, dir=place), "dir is", "which is not UTF-8")
    Path(place).touch()
    monkeypatch.setenv("BACKSTAY_DIR", place)
    with pytest.raises(backstay.Error) as refusal:
        backstay.Session(comm=False)
    assert "caf\\xe9" in str(refusal.value)
    Path(place).unlink()
    with backstay.Session(comm=False, keep=2) as run:
        run.protect("a", np.zeros(1))
        run.checkpoint(now=True)
        run.wait()
        (data,) = Path(place).glob("shared/line-*/*.h5")
        with open(data, "r+b") as file:
            file.seek(8192)
            file.write(b"x")
        (sentence,) = run.verify().damage
        assert "caf\\xe9" in sentence


def test_block_takes_whole_numbers_for_one_dimension(start):
    run = start()
    run.protect("a", np.zeros(2), backstay.block(4, 0, 2))
    run.protect("b", np.zeros(2), block=(4, 0, 2))
    assert backstay.block(4, np.int64(0), 2) == backstay.block([4], np.array([0]), (2,))


@pytest.mark.parametrize("lower", [None, 0.0, (0.0,), "0", (None,), 2**70, ((0,),)])
def test_block_of_what_is_no_number_is_refused(lower):
    refused(Code.invalid_argument, lambda: backstay.block((4,), lower, (2,)), "lower of block() is", "whole numbers")


@pytest.mark.parametrize("box", [4, (4, 0), ((4,), (0,), (2,), (1,)), "box"])
def test_block_without_its_three_parts_is_refused(start, box):
    refused(Code.invalid_argument, lambda: start().protect("a", np.zeros(2), block=box), "(global_shape, lower, upper)")


def test_number_of_lines_that_is_none_is_refused(start):
    refused(Code.invalid_argument, lambda: start().prune("all"), "'all'", "1 or more")


@pytest.mark.parametrize("value", [False, True, 3, b"/ck", ["ck"], object()])
def test_path_that_is_none_is_refused(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    refused(Code.invalid_argument, lambda: backstay.Session(comm=False, dir=value), "dir is", "a path")
    refused(Code.invalid_argument, lambda: backstay.Session(comm=False, local_dir=value), "local_dir is", "a path")
    refused(Code.invalid_argument, lambda: backstay.Session(comm=False, name=value), "name of a session", "a text")
    refused(Code.invalid_argument, lambda: backstay.Session(value), "dir is", "a path")
    assert list(tmp_path.iterdir()) == []


def test_communicator_in_the_first_place_is_refused_with_the_right_one():
    refused(Code.invalid_argument, lambda: backstay.Session(False), "Session(comm=...)")
    mpi = pytest.importorskip("mpi4py.MPI", exc_type=ImportError)
    refused(Code.invalid_argument, lambda: backstay.Session(mpi.COMM_SELF), "Session(comm=...)")


@pytest.mark.parametrize("value", [b"shared", object(), {"a": 1}, [b"shared"], 1j])
def test_option_of_another_type_is_refused(start, value):
    refused(Code.invalid_argument, lambda: start(levels=value), "the option levels is", "must be a text, a number")


def test_option_with_two_values_or_no_name_is_refused(start):
    same = {"shared.layout": "one-file"}
    refused(Code.invalid_argument, lambda: start(options=same, shared_layout="file-per-rank"), "given twice")
    refused(Code.invalid_argument, lambda: start(options={1: 2}), "the name of an option is 1")
    refused(Code.invalid_argument, lambda: start(options=[("keep", 1)]), "must be a dictionary")
    start(options=same, shared_layout="one-file").close()


def test_option_takes_numbers_of_numpy(start):
    run = start(every=np.int64(2), interval=np.float32(2.5), signals=np.bool_(False), levels=("shared",))
    assert run.checkpoint() is Outcome.not_due


def test_name_used_twice_is_refused(start):
    run = start()
    run.protect("a", np.zeros(1))
    refused(Code.invalid_argument, lambda: run.protect("a", np.zeros(1)), "already protected")
    refused(Code.not_found, lambda: run.unprotect("b"), "not protected")


def test_unknown_option_is_refused_with_the_nearest(start):
    refused(Code.unknown_option, lambda: start(evry=3), "evry", "every")
    refused(Code.unknown_option, lambda: start(options={"shared.layuot": "one-file"}), "shared.layout")
    refused(Code.invalid_argument, lambda: start(every=-1), "every")


def test_unknown_variable_is_refused(start, monkeypatch):
    monkeypatch.setenv("BACKSTAY_EVRY", "3")
    refused(Code.unknown_option, start, "BACKSTAY_EVRY", "BACKSTAY_EVERY")


def test_what_is_no_communicator_is_refused(start):
    refused(Code.invalid_argument, lambda: start(comm=5), "mpi4py" if session._core.have_mpi else "comm=False")


def test_other_type_or_shape_than_was_saved_is_refused(start):
    run = start()
    run.protect("a", np.zeros((2, 3)))
    save(run)
    for other in (np.zeros((2, 3), "f4"), np.zeros((3, 2))):
        run = start()
        run.protect("a", other)
        refused(Code.mismatch, run.resume, "'a'")


def test_failing_callback_is_said_and_the_run_goes_on(start):
    broken = [True]

    def saved():
        if broken[0]:
            raise ValueError("not \udce9")  # as of the name of a file that is no UTF-8
        return b"x"

    run = start()
    run.protect("tree", save=saved, load=lambda data: 1 / 0)
    save(run)
    assert run.status().failed == 1
    assert "ValueError: not \\udce9" in run.status().last_error and "'tree'" in run.status().last_error
    broken[0] = False
    save(run)
    refused(Code.user, run.resume, "ZeroDivisionError", "'tree'")


@pytest.mark.parametrize("error", [KeyboardInterrupt("stop"), SystemExit(3)])
def test_interrupt_in_a_callback_comes_out_of_the_call(start, error):
    broken = [False]

    def work(*_):
        if broken[0]:
            raise error
        return b"x"

    run = start()
    run.protect("tree", save=work, load=work)
    save(run)
    broken[0] = True
    for call in (lambda: run.checkpoint(now=True), run.resume):
        with pytest.raises(type(error)) as caught:
            call()
        assert caught.value is error
    broken[0] = False
    run.wait()
    assert run.status().failed == 1 and type(error).__name__ in run.status().last_error
    save(run)
    assert run.resume()


def test_interrupt_in_the_first_look_at_a_moving_array_comes_out_of_protect(start):
    calls = []

    def get():
        calls.append(1)
        if len(calls) > 1:  # the library asks once more
            raise KeyboardInterrupt
        return np.zeros(3)

    run = start()
    with pytest.raises(KeyboardInterrupt):
        run.protect("x", get=get, set=print)


def test_changed_dtype_of_a_moving_array_gives_up_the_line(start):
    pool = Pool(3)
    run = start()
    run.protect("x", get=lambda: pool.x, set=pool.take)
    pool.x = pool.x.astype("f4")
    save(run)
    assert run.status().failed == 1 and run.verify().lines == 0
    assert "float32" in run.status().last_error and "float64" in run.status().last_error


def test_errors_can_be_pickled():
    error = pickle.loads(pickle.dumps(backstay.Error(Code.io, "a sentence")))
    assert (error.code, str(error)) == (Code.io, "a sentence")


def test_second_session_on_one_directory_is_refused(start, tmp_path):
    start()
    refused(Code.locked, lambda: backstay.Session(dir=tmp_path / "ck", comm=False, log="quiet"), "ck")


def test_names_of_the_package_are_those_of_the_session():
    assert all(getattr(backstay, name) is getattr(session, name) for name in session.__all__)


def anonymous_memory():
    """Of this process, bytes: heap and stacks, without mapped files."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))


@pytest.mark.parametrize("kind", ["contiguous", "strided"])
def test_an_array_is_copied_once_and_that_by_the_capture(start, kind):
    whole = np.ones((64, 1024, 128))  # 64 MiB
    array = whole if kind == "contiguous" else whole[:, :, ::2]
    run = start(levels="shared")
    run.protect("array", array)
    before = anonymous_memory()
    for _ in range(3):
        save(run)
    assert run.status().staging_bytes >= array.nbytes
    assert anonymous_memory() - before < 1.2 * array.nbytes + (8 << 20)
