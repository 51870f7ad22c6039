"""Replay in Python: control flow, results and local variables come back without computing."""

import numpy as np
import pytest
from commands import backstay as command

pytest.importorskip("backstay._core")

import backstay


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


class Stopped(Exception):
    pass


def relax(run, told, steps=8, stop=None):
    """A relaxation whose number of iterations follows from its residual. Gives the field, and how much was computed."""
    u, ran = np.zeros(20), []
    run.protect("u", u)
    begin = run.declare("begin", writes="u")
    sweep = run.declare("sweep", updates="u")
    run.replay()
    run.compute(begin, lambda: ran.append(0) or u.fill(1.0))

    def once(target):
        ran.append(target)
        u[:] += (target - u) / 2
        return {"residual": float(abs(target - u).max())}

    for step in range(steps):
        if step == stop:
            raise Stopped
        run.checkpoint()
        while run.compute(sweep, once, step + 1)["residual"] > 0.1:
            pass
        told.append(run.result(np.random.random()))
    return u, len(ran)


def test_results_and_loops_come_back_without_computing(start, tmp_path):
    first, second, third = [], [], []
    run = start()
    with pytest.raises(Stopped):
        relax(run, first, stop=7)
    run.wait()
    u, ran = relax(start(), second)
    assert second[:6] == first[:6] and second[6:] != first[6:]  # from the last line on they are new
    right, all_of_it = relax(start(dir=tmp_path / "other"), third)
    assert (u == right).all()
    assert ran < all_of_it / 2


def test_the_data_come_back_at_the_place_also_to_arrays_that_are_replaced(start):
    held = {}

    def grow():
        held["list"] = np.arange(7.0)

    for launch in range(2):
        run = start()
        held["list"] = np.arange(3.0)
        run.protect("list", get=lambda: held["list"], set=lambda a: held.update(list=a))
        growth = run.declare("growth", updates="list")
        assert bool(run.replay()) == (launch == 1)
        assert run.replaying == (launch == 1)
        run.compute(growth, grow)
        assert len(held["list"]) == (7 if launch == 0 else 3)
        run.checkpoint(now=True)
        assert not run.replaying
        assert (held["list"] == np.arange(7.0)).all()
        run.wait()


def test_what_the_beginning_makes_is_in_no_line(start, tmp_path):
    for launch in range(2):
        run = start()
        mesh, table, u = np.full(100, 3.0), np.zeros(100), np.zeros(100)
        for name, array in {"mesh": mesh, "table": table, "u": u}.items():
            run.protect(name, array)
        fill = run.declare("fill", reads="mesh", writes="table")
        step = run.declare("step", reads=["mesh", "table"], updates="u")
        run.replay()
        run.compute(fill, np.add, mesh, 1.0, out=table)
        run.init_done()
        for _ in range(3 + launch):
            run.compute(step, u.__iadd__, table)
            run.checkpoint()
        run.wait()
        assert run.status().left_out_bytes == mesh.nbytes + table.nbytes
        assert (u == 4.0 * (3 + launch)).all()
    run.close()
    assert "mesh  left out: made by the beginning of the program" in command("show", tmp_path / "ck").out


def test_what_cannot_be_replayed_is_refused(start):
    run = start()
    u = np.zeros(3)
    run.protect("u", u)
    step = run.declare("step", updates="u")
    run.replay()
    with pytest.raises(backstay.Error, match="cannot be pickled"):
        run.compute(step, lambda: lambda: 1)
    run = start()
    run.protect("u", u)
    step = run.declare("step", updates="u")
    run.replay()
    run.compute(step, lambda: None)
    run.checkpoint(now=True)
    run.wait()
    run = start()
    run.protect("u", u)
    run.declare("step", reads="u")
    run.replay()
    with pytest.raises(backstay.Error, match="was the computation 'step' that updates u") as refused:
        run.compute(step, lambda: None)
    assert refused.value.code is backstay.Code.mismatch
