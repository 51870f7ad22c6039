"""Sessions of several ranks in Python: 4 ranks write, others read. Needs the compiled module, mpi4py and mpirun."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from backstay.mpirun import find

core = pytest.importorskip("backstay._core")
pytestmark = pytest.mark.skipif(not core.have_mpi, reason="this build has no MPI")

ROOT = Path(__file__).resolve().parents[2]
PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
MPIRUN = shutil.which("mpirun", path=PLACES)
MPICH = MPIRUN is not None and find(MPIRUN, 2).kind == "mpich"
LIMIT = 60  # seconds for one job

START = """
import numpy as np
import backstay

def part(rank, size, n=37):
    return n * rank // size, n * (rank + 1) // size

run = backstay.Session(dir="ck", log="quiet", every=1000000)
mine, (lower, upper) = run.rank, part(run.rank, run.size)
u = np.full((upper - lower + 4, 6), -1.0)  # two rows and a column of halo
inner = u[2:-2, 1:-1]
run.protect("u", inner, backstay.block((37, 4), (lower, 0), (upper, 4)))
particles = np.zeros(0)
def take(x):
    global particles
    particles = x
run.protect("particles", get=lambda: particles, set=take, placement="list")
state = run.state(step=0)
"""

WRITE = """
inner[:] = np.arange(lower * 4, upper * 4).reshape(-1, 4)
particles = 100.0 * mine + np.arange(mine + 2)
state.step = 9
assert run.checkpoint(now=True) is backstay.Outcome.taken
run.close()
"""

READ = """
assert run.resume().saved_ranks == 4
assert (inner == np.arange(lower * 4, upper * 4).reshape(-1, 4)).all() and state.step == 9
assert (u == -1).sum() == u.size - inner.size
pieces = run.comm.gather(particles)
if mine == 0:
    saved = np.concatenate([100.0 * rank + np.arange(rank + 2) for rank in range(4)])
    assert (np.concatenate(pieces) == saved).all()
    print("all is back")
"""


@pytest.fixture
def mpi(tmp_path):
    """Runs a program on so many ranks; gives what it wrote, or fails."""
    if MPIRUN is None:
        pytest.skip("there is no mpirun here")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    environment |= {"PATH": PLACES, "OMP_NUM_THREADS": "1"}

    def mpi(ranks, program, status=0):
        (tmp_path / "program.py").write_text(program)
        command = [ROOT / "cmake" / "mpirun.sh", MPIRUN, str(ranks), str(LIMIT), sys.executable, "program.py"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True)
        # MPICH's launcher gives one status for all, and those that it kills have 9.
        assert done.returncode in ({status, 9, status | 9} if MPICH and status else {status}), done.stdout + done.stderr
        return done.stdout + done.stderr

    return mpi


@pytest.mark.parametrize("ranks", [1, 3, 4, 6])
def test_blocks_and_lists_of_four_ranks_come_back_on(mpi, ranks):
    mpi(4, START + WRITE)
    assert "all is back" in mpi(ranks, "from mpi4py import MPI\n" + START + READ)


@pytest.mark.parametrize(
    ("options", "name", "rows", "held"),
    [
        ("shared_layout='file-per-rank'", "rank-00000.h5", 9, 9),
        ("shared_files=2", "node-00000.h5", 37, 18),
        ("shared_layout='one-file'", "all.h5", 37, 37),
    ],
)
def test_file_says_how_much_of_a_block_it_holds_and_has_nan_for_the_rest(mpi, tmp_path, options, name, rows, held):
    mpi(4, START.replace("log=", f"{options}, log=") + WRITE)
    with h5py.File(tmp_path / "ck/shared/line-00000001" / name) as file:
        u = file["u"]
        assert u.shape == (rows, 4) and u.attrs["covered"] == held / 37
        assert (u[:held] == np.arange(held * 4).reshape(-1, 4)).all() and np.isnan(u[held:]).all()


def test_private_data_on_other_ranks_is_refused_on_every_rank(mpi):
    private = START + "run.protect('own', np.zeros(3))\n"
    mpi(4, private + WRITE)
    told = mpi(
        3,
        private
        + """
try:
    run.resume()
except backstay.Error as error:
    assert error.code == backstay.Code.mismatch and "'own'" in str(error)
    print("refused")
""",
    )
    assert told.count("refused") == 3


def test_redistribute_receives_the_bytes_of_all_old_ranks(mpi):
    protect = """
got = []
run.protect("own", save=lambda: bytes([mine]) * mine, load=got.append,
            redistribute=lambda pieces, rank, size: got.append((pieces, rank, size)))
"""
    mpi(4, START + protect + WRITE)
    told = mpi(
        2, START + protect + "run.resume()\nassert got == [([b'', b'\\1', b'\\2\\2', b'\\3' * 3], mine, 2)], got\n"
    )
    assert "Error" not in told


def test_session_works_on_a_part_of_the_ranks(mpi):
    told = mpi(
        4,
        """
from mpi4py import MPI
import backstay
half = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)
with backstay.Session(dir="ck", name=f"part{MPI.COMM_WORLD.rank % 2}", comm=half, log="quiet") as run:
    assert (run.size, run.rank, run.comm) == (2, half.rank, half)
    run.state(step=1)
    run.checkpoint(now=True)
    run.wait()
    assert run.verify().lines == 1
print("fine")
""",
    )
    assert told.count("fine") == 4


def test_ranks_are_alone_where_they_ask_for_it(mpi):
    told = mpi(
        2,
        """
import os, backstay
run = backstay.Session(dir=f"ck-{os.getpid()}", comm=False, log="quiet")
print("alone" if run.size == 1 and run.comm is None else "together")
""",
    )
    assert told.count("alone") == 2


def test_mpi_works_without_mpi4py(mpi):
    told = mpi(
        2,
        """
import sys
sys.modules["mpi4py"] = None  # as if it were not installed
import backstay
run = backstay.Session(dir="ck", log="quiet")
run.state(step=run.size)
run.checkpoint(now=True)
print("ranks:", run.size)
""",
    )
    assert told.count("ranks: 2") == 2


def test_option_that_is_wrong_is_refused_on_every_rank(mpi):
    told = mpi(
        3,
        """
import backstay
try:
    backstay.Session(dir="ck", evry=3)
except backstay.Error as error:
    assert error.code == backstay.Code.unknown_option and "every" in str(error)
    print("refused")
""",
    )
    assert told.count("refused") == 3


RAISES = """
import sys, time
import backstay
with backstay.Session(dir="ck", log="quiet") as run:
    state = run.state(step=0)
    run.resume()
    while state.step < 100000:
        run.checkpoint()
        if run.rank == 1 and state.step == 5:
            print("before the end", end="")
            raise ERROR("the pump broke")
        time.sleep(0.01)
        state.step += 1
    run.checkpoint(now=True)
"""


@pytest.mark.parametrize(("error", "status"), [("ValueError", 1), ("KeyboardInterrupt", 130)])
@pytest.mark.parametrize("without", ["", "sys.modules['mpi4py'] = None\n"])
def test_exception_on_one_rank_ends_the_job(mpi, error, status, without):
    started = time.monotonic()
    told = mpi(3, RAISES.replace("import backstay", f"{without}import backstay").replace("ERROR", error), status)
    assert time.monotonic() - started < LIMIT / 2
    assert told.count("Traceback") == 1 and f"{error}: the pump broke" in told and "before the end" in told


EXITS = """
import sys, time
import backstay

with backstay.Session(dir="ck", log="quiet") as run:
    state = run.state(step=0)
    run.resume()
    while state.step < 100000:
        run.checkpoint(now=state.step == 5)
        if state.step == 5 and (run.rank == 1 or ALL):
            WAY
        time.sleep(0.01)
        state.step += 1
print("closed", flush=True)
"""


@pytest.mark.parametrize(
    ("way", "status", "without"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit(3)", 3, "sys.modules['mpi4py'] = None\n"),
        ("sys.exit('bad input')", 1, ""),
        ("raise SystemExit(True)", 1, "sys.modules['mpi4py'] = None\n"),
        ("run.loop(lambda: sys.exit(4))", 4, ""),
    ],
)
@pytest.mark.parametrize("all_ranks", [False, True], ids=["one rank", "all ranks"])
def test_exit_with_a_status_ends_the_job_with_it(mpi, way, status, without, all_ranks):
    started = time.monotonic()
    program = EXITS.replace("WAY", way).replace("ALL", str(all_ranks))
    told = mpi(3, program.replace("import backstay", f"{without}import backstay"), status)
    assert time.monotonic() - started < LIMIT / 2
    assert ("bad input" in told) == ("bad" in way) and "Traceback" not in told


@pytest.mark.parametrize("way", ["sys.exit(0)", "sys.exit()", "sys.exit(256)"])
def test_exit_without_a_failure_closes_the_session_with_the_others(mpi, way):
    told = mpi(3, EXITS.replace("WAY", way).replace("ALL", "True"))
    assert "ABORT" not in told and "Traceback" not in told


def test_exception_that_is_caught_or_asks_for_the_end_ends_no_other_rank(mpi):
    told = mpi(
        3,
        """
import sys
import backstay
from mpi4py import MPI
try:
    with backstay.Session(dir="ck", log="quiet") as run:
        raise ValueError
except ValueError:
    assert run.closed
MPI.COMM_WORLD.barrier()
print("fine", flush=True)
sys.exit(0)
""",
    )
    assert told.count("fine") == 3 and "ABORT" not in told


def test_hook_of_the_program_is_kept(mpi):
    told = mpi(
        2,
        """
import sys
import backstay
sys.excepthook = mine = lambda *_: None
run = backstay.Session(dir="ck", log="quiet")
assert sys.excepthook is mine
sys.excepthook = sys.__excepthook__
alone = backstay.Session(dir=f"ck-{run.rank}", comm=False, log="quiet")
assert sys.excepthook is sys.__excepthook__
print("kept", flush=True)
""",
    )
    assert told.count("kept") == 2


def test_random_numbers_of_every_rank_are_its_own(mpi):
    program = """
import sys, numpy as np, backstay
run = backstay.Session(dir="ck", log="quiet", every=1000000)
rng = np.random.default_rng(run.rank)
run.protect_rng("rng", rng)
if not run.resume():
    run.checkpoint(now=True)
sys.stdout.write(f"drawn {run.rank} {rng.integers(1 << 40)}\\n")  # at once: a launcher may mix what comes in parts
"""
    first, second = mpi(4, program), mpi(4, program)
    drawn = [sorted(line for line in told.splitlines() if line.startswith("drawn")) for told in (first, second)]
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 4


@pytest.mark.parametrize("leaves", ["raise ValueError", "sys.exit(0)", "run.rollback('alone')", "run.verify()"])
def test_a_rank_that_leaves_or_makes_another_call_keeps_nobody_waiting(mpi, leaves):
    """In a program whose ranks do not wait for each other otherwise."""
    said = mpi(
        3,
        f"""
import sys, time
import backstay
from mpi4py import MPI

def body():
    state = run.state(step=0)
    run.resume()
    while state.step < 60:
        run.checkpoint()
        if state.step == 20 and run.rank == 1 and not left:
            left.append(1)
            {leaves}
        time.sleep(0.005)
        state.step += 1

left = []
try:
    with backstay.Session(dir="ck", every=5, timeout=3) as run:
        run.loop(body)
except (ValueError, SystemExit, backstay.Error) as error:
    print("left:", error)
""",
    )
    assert "nothing more is saved; all ranks must make the same calls" in said, said


REFUSED = """
import sys
import numpy as np
import backstay

with backstay.Session(dir="ck", every=1, policy="wait", timeout=3) as run:
    u, f = np.zeros(100), np.zeros(100)
    run.protect("u", u)
    run.protect("f", f)
    fluxes = run.declare("fluxes", reads="u", writes="f")
    look = run.declare("look", reads="f")
    found = run.resume()
    if not found:
        run.checkpoint()
        run.compute(fluxes, f.fill, 2)
    elif run.rank == 1:
        try:
            run.compute(look, f.sum)
        except backstay.Error as error:
            print(error, file=sys.stderr)
            sys.exit(run.close())
    run.comm.Barrier()
"""


def test_a_rank_that_alone_is_refused_a_computation_ends_the_job_in_time(mpi):
    """The other one waits for it in MPI, where no error reaches it."""
    mpi(2, REFUSED)
    start = time.monotonic()
    said = mpi(2, REFUSED, status=137)  # by SIGKILL, which the others notice
    assert "this rank was refused a computation, and not all others came to close the session" in said, said
    assert time.monotonic() - start < 40
