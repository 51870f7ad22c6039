"""A program in Python that uses an installed backstay, on the regions of the program in C."""

import sys

import backstay
import numpy as np

ROWS, COLUMNS = 24, 3
what, directory = sys.argv[1:]

with backstay.Session(dir=directory, log="quiet", every=1000000) as run:
    first, last = (ROWS * rank // run.size for rank in (run.rank, run.rank + 1))
    u = np.zeros((last - first + 2, COLUMNS + 2))
    rows = np.arange(first, last)
    inside, values = u[1:-1, 1:-1], 0.1 * (rows[:, None] * COLUMNS + np.arange(COLUMNS)).astype(float)
    mine = {"particles": np.zeros(0)}
    state = run.state(step=0)
    run.protect("u", inside, backstay.block((ROWS, COLUMNS), (first, 0), (last, COLUMNS)), units="m s-1")
    run.protect("particles", get=lambda: mine["particles"], set=lambda x: mine.update(particles=x), placement="list")
    if what == "write":
        inside[:], mine["particles"], state.step = values, rows.astype(float), 41
        assert run.checkpoint(now=True) is backstay.Outcome.taken
        run.wait()
        assert run.verify().damage == []
    else:
        assert run.resume()
        assert (inside == values).all() and (mine["particles"] == rows).all() and state.step == 41
