"""A session: protect, checkpoint, resume, loop, verify, prune. The same verbs as in C++.

with backstay.Session(dir="checkpoints", every=10) as run:
    state = run.state(step=0)
    run.protect("u", u, backstay.block((nx, ny), lower, upper))
    run.resume()
    while state.step < steps:
        run.checkpoint()  # at the top: `step` and `u` belong together here
        advance(u)
        state.step += 1
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import numbers
import operator
import os
import pickle
import signal
import sys
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional

import numpy as np

from . import _core
from ._core import Code, Outcome, Placement, distributed_list, rank_private, replicated
from .guard import RANK_VARIABLES

__all__ = [
    "Access",
    "Code",
    "Computation",
    "Error",
    "Outcome",
    "Placement",
    "RankLost",
    "ReplacedWarning",
    "Resumed",
    "Session",
    "State",
    "Status",
    "Verified",
    "block",
    "distributed_list",
    "rank_private",
    "replicated",
]


class Error(RuntimeError):
    """Raised by every call that fails: a sentence with what, where and what to do, and a `code` for programs."""

    def __init__(self, code: Code, sentence: str):
        super().__init__(sentence)
        self.code = Code(code)

    def __reduce__(self):
        return type(self), (self.code, str(self))


class ReplacedWarning(UserWarning):
    """Nothing but the session has a protected array any more: the program goes on with another, which is not saved."""


@dataclass(frozen=True)
class Resumed:
    """What resume() found; false for a fresh start. The same on every rank."""

    resumed: bool
    line: int  # the number of the line that was put back
    level: str  # where it was
    seconds: float  # from the call to the last byte, the slowest rank
    saved_ranks: int

    def __bool__(self) -> bool:
        return self.resumed


@dataclass(frozen=True)
class Verified:
    """What verify() found: a sentence in `damage` for each damaged file or segment. The same on every rank."""

    lines: int
    segments: int
    damage: list


@dataclass(frozen=True)
class Status:
    """Counters since the session was opened, and the last error of the background, if any. This rank's own."""

    calls: int  # of checkpoint()
    taken: int
    skipped: int
    committed: int  # lines, each level counted
    failed: int  # lines given up, each level counted
    in_flight: int  # captured and not yet committed or given up
    newest_line: int  # number of the newest committed line; 0: none
    blocked_seconds: float  # inside checkpoint(), and in compute() for a line that waits
    staging_bytes: int
    last_error: str  # empty: none
    left_out_bytes: int  # of regions that the newest checkpoint did not save, see compute()


@dataclass(frozen=True)
class Access:
    """What a computation does to a region, see Session.declare(): the name alone where it is all of the region.

    `where`: (begin, end) for each dimension, of this rank's indices, the end not included. `around`: (first, last) for
    each dimension, what is read around each element, both included: [(-1, 1), (0, 0)]."""

    region: str
    where: tuple = ()
    around: tuple = ()


@dataclass(frozen=True)
class Computation:
    """A declared computation, see Session.declare()."""

    name: str
    number: int


class RankLost(BaseException):
    """Raised inside loop() by calls of the session when a rank was lost; loop() catches it, repairs the job and runs
    the body again. No Exception, so that a body that catches those lets it through. MPI calls of mpi4py raise
    MPI.Exception then, and the next call of the session raises this."""


def _pairs(computation: str, pairs) -> list:
    try:
        return [(operator.index(first), operator.index(second)) for first, second in pairs]
    except (TypeError, ValueError):
        raise _refusal(
            f"computation '{computation}' has {pairs!r} for ranges: give two whole numbers for each dimension"
        ) from None


class _RolledBack(BaseException):
    """Raised by rollback(), caught by loop(). No Exception, so that a body that catches those lets it through."""


def block(global_shape, lower, upper) -> Placement:
    """The box [lower, upper) of a global array; comes back on any number of ranks. Whole numbers are short for tuples
    of one: block(100, 0, 25)."""
    given = {"global_shape": global_shape, "lower": lower, "upper": upper}
    return _core.block(*(_extents(f"{name} of block()", value) for name, value in given.items()))


@dataclass(frozen=True)
class _ArrayOf:
    """In the log, in place of a protected array that a computation returns: a replay gives that array, with what it
    held then, and not a copy."""

    region: str
    value: np.ndarray

    def put_back(self, held: Mapping[str, Any]) -> np.ndarray:
        array = held.get(self.region)
        if not isinstance(array, np.ndarray) or array.shape != self.value.shape or array.dtype != self.value.dtype:
            return self.value
        array[...] = self.value
        return array


class Session:
    """One run of one program, or of one of its coupled codes, under protection.

    `comm` is a communicator of mpi4py; False: this process alone; None: MPI_COMM_WORLD if mpi4py.MPI is in use or
    the program was started by mpirun, otherwise this process alone. Options are keywords (`shared_layout="one-file"`)
    or a mapping of their true names (`options={"shared.layout": "one-file"}`); docs/options.md lists them.

    Opening, resume(), checkpoint(), wait(), verify(), prune() and close() are collective: every rank calls them, in the
    same order. One thread at a time may call; other threads of Python run meanwhile. What these ask of the session
    (comm, rank, status()) while loop() waits behind its body is as it was when that ended. With spares they must not be
    inside MPI then (docs/limitations.md).
    """

    def __init__(self, dir=None, comm=None, options: Optional[Mapping[str, Any]] = None, **more):
        if not isinstance(options, (Mapping, type(None))):
            raise _refusal(f"options is {options!r}, and must be a dictionary of names and values")
        given = _read_options({**(options or {}), **more, **({} if dir is None else {"dir": dir})})
        self._core, self._comm = _open(comm, given)
        self._several = self.size > 1 or _core.ends_by_a_signal()  # or has spares; also known when it is closed
        self._held: dict[str, Any] = {}  # what must outlive a region: its array, or its _Moving
        self._watched: dict[str, Optional[int]] = {}  # arrays that may be replaced; see _look_for_replaced()
        self._rolled_back = type("_RolledBack", (_RolledBack,), {})  # another session's loop() lets it through
        self._computations: dict[int, str] = {}  # names of what was declared
        self._keeps_way = False  # replay() was called
        self._look = False  # an array has come that was not looked at
        self._tells_place = "BACKSTAY_OBSERVE" in os.environ  # `backstay advise` wants to know it
        _sessions.add(self)
        if self._several and sys.excepthook is sys.__excepthook__:  # a program that has its own knows what it does
            sys.excepthook = _end_with_all_ranks

    def __enter__(self) -> Session:
        if self.closed:
            raise _refusal("this session is closed: open another one")
        return self

    def __reduce__(self):
        raise _refusal("a session cannot be copied or pickled")

    def __exit__(self, kind, error, _) -> None:
        self._end_all_at_exit(error)
        # Without mpi4py, closing ends MPI too, and that would wait for ranks which know nothing of the exception; with
        # spares, closing itself would. If it is caught, the session is closed at exit.
        waits = self._comm is None or _core.ends_by_a_signal()
        if kind is None or self.closed or not self._several:
            self.close()
        elif not waits:
            self._core.leave()
            self.close()

    def close(self) -> None:
        """Waits, bounded by the option `timeout`, for what is in flight. It may be closed twice.

        Where the last checkpoint was not written in time a sentence says so, and Python ends with status 1 where it
        would with 0.
        """
        self._core.close()
        self._held.clear()
        self._watched.clear()

    def _end_all_at_exit(self, error) -> None:
        """One rank alone that goes with sys.exit(status) would be waited for by the others in MPI for ever."""
        if not self._several or not isinstance(error, SystemExit) or not (status := _status_of(error)):
            return
        if not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        _abort(status)

    @property
    def comm(self):
        """The communicator to use in the program, of mpi4py: as many ranks as work on the problem, and another one
        after each repair, so that it is taken anew inside loop(). None: without MPI or mpi4py."""
        mpi = sys.modules.get("mpi4py.MPI")
        if self._comm is None or self.closed or mpi is None:
            return self._comm
        handle = _core.comm_of(self._core)
        # One that is a number has a sign, which is not told alike.
        if (handle ^ mpi._handleof(self._comm)) % (1 << 8 * mpi._sizeof(mpi.Comm)):
            self._comm = _communicator(mpi, handle)
        return self._comm

    @property
    def closed(self) -> bool:
        return self._core.closed

    @property
    def rank(self) -> int:
        return self._core.rank

    @property
    def size(self) -> int:
        return self._core.size

    # ---- what is protected ------------------------------------------------------------------------------------------

    def protect(
        self,
        name: str,
        array: Optional[np.ndarray] = None,
        placement=None,
        *,
        block=None,
        units: str = "",
        get: Optional[Callable[[], np.ndarray]] = None,
        set: Optional[Callable[[np.ndarray], Any]] = None,
        save: Optional[Callable[[], bytes]] = None,
        load: Optional[Callable[[bytes], Any]] = None,
        redistribute: Optional[Callable[[list, int, int], Any]] = None,
    ) -> None:
        """Adds a region, in one of three ways:

            run.protect("u", u, backstay.block(shape, lower, upper))     # a NumPy array, used in place
            run.protect("x", get=lambda: p.x, set=p.take, placement="list")   # an array that changes its size
            run.protect("tree", save=tree.to_bytes, load=tree.from_bytes)     # anything else, as bytes

        `array` may be a view (the inside of an array with halos); it is copied only at a checkpoint, and resume() fills
        it. `get` gives the array as it is now; `set` receives a new one, complete, at the end of resume().
        `redistribute(pieces, rank, size)` is called instead of `load` on another number of ranks, with the bytes of all
        old ranks. `placement` is what block(), distributed_list(), replicated() or rank_private() give, or "list",
        "replicated", "private"; `block=(global_shape, lower, upper)` is short for the first.
        """
        _require_text("the name of a region", name)
        _require_text(f"units of region '{name}'", units)
        ways = [array is not None, get is not None or set is not None, save is not None or load is not None]
        if ways.count(True) != 1:
            raise _refusal(f"region '{name}' needs one of an array, a pair of get and set, or a pair of save and load")
        if ways[2]:
            self._protect_bytes(name, save, load, redistribute, placement or block)
        elif ways[1]:
            self._protect_moving(name, get, set, _placement(name, placement, block), units)
        else:
            self._protect_array(name, array, _placement(name, placement, block), units)
            if _has_one_owner(array):
                self._watched[name], self._look = None, True

    def protect_static(self, name: str, *args, **kwargs) -> None:
        """The same, with the arguments of protect(), for data that do not change from the first checkpoint() on, as
        meshes and operators: they are written once at each level, and never again. What has changed in spite of that
        is put back as it was."""
        self._core.protects_statics = True
        try:
            self.protect(name, *args, **kwargs)
        finally:
            self._core.protects_statics = False

    def _protect_array(self, name, array, placement, units) -> None:
        _check_array(name, array)
        if not array.flags.writeable:
            raise _refusal(f"region '{name}' is a read-only array, which resume() could not fill: give a writable one")
        place = placement or (replicated() if array.ndim == 0 else rank_private())
        self._core.protect_memory(name, _type_of(name, array.dtype), units, place, _memory(array))
        self._held[name] = array

    def _protect_moving(self, name, get, set, placement, units) -> None:
        if not callable(get) or not callable(set):
            raise _refusal(f"region '{name}' needs both get and set")
        moving = _Moving(name, get, set)
        kind = _type_of(name, moving.dtype)
        place = placement or rank_private()
        self._core.protect_moving(name, kind, units, place, moving.look, moving.resize, moving.deliver)
        moving.release()
        self._held[name] = moving

    def _protect_bytes(self, name, save, load, redistribute, placement) -> None:
        if not callable(save) or not callable(load):
            raise _refusal(f"region '{name}' needs both save and load")
        if placement is not None:
            raise _refusal(f"region '{name}': what callbacks save has no placement; give redistribute instead")
        self._core.protect_callbacks(name, functools.partial(_saved, save), load, redistribute)

    def protect_rng(self, name: str, rng) -> None:
        """The state of a random number generator: NumPy's Generator, BitGenerator or RandomState, or random.Random."""
        from . import rng_state

        save, load = rng_state.callbacks(name, rng)
        self.protect(name, save=save, load=load)

    def state(self, **values) -> State:
        """Python numbers under protection, the same on every rank: `state = run.state(step=0, time=0.0)`."""
        for name in values:
            if name.startswith("_"):
                raise _refusal(f"run.state({name}=...): a name that begins with '_' belongs to the state itself")
        arrays = {name: _number(name, value) for name, value in values.items()}
        with contextlib.ExitStack() as undo:  # all or none
            for name, array in arrays.items():
                self._protect_array(name, array, replicated(), "")
                undo.callback(self.unprotect, name)
            undo.pop_all()
        return State(arrays, {name for name, value in values.items() if isinstance(value, np.generic)})

    def unprotect(self, name: str) -> None:
        self._core.unprotect(_require_text("the name of a region", name))
        self._held.pop(name, None)
        self._watched.pop(name, None)

    # ---- checkpoint and resume --------------------------------------------------------------------------------------

    def declare(self, name: str, *, reads=(), writes=(), updates=(), writes_some=()) -> Computation:
        """Says what a computation reads and overwrites of protected regions, each by name or as an Access: a loop, a
        routine, or all between. `writes`: all of it, whatever it held; `updates`: all of it, after reading it;
        `writes_some`: nobody says which elements. From the first declaration on that names a region, every use of it
        between a checkpoint and the next belongs into a compute() whose computation declares it. Every rank declares
        the same computations in the same order; ranges may differ."""
        accesses = []
        for mode, regions in enumerate((reads, writes, updates, writes_some)):
            if not isinstance(regions, (str, Access, list, tuple)):
                raise _refusal(f"computation '{name}' has {regions!r} for its regions: give a name, or a list of them")
            for access in [regions] if isinstance(regions, (str, Access)) else regions:
                access = Access(access) if isinstance(access, str) else access
                if not isinstance(access, Access):
                    raise _refusal(f"computation '{name}' has {access!r} for a region: give a name, or an Access")
                accesses.append((access.region, mode, _pairs(name, access.where), _pairs(name, access.around)))
        computation = Computation(str(name), self._core.declare(str(name), accesses))
        self._computations[computation.number] = computation.name
        return computation

    def compute(self, computation: Computation, body: Callable, *args, **kwargs):
        """Runs body(*args, **kwargs), which is that computation, and gives what it returns. A region that computations
        overwrite before they read it, after a checkpoint, is left out of its line; resume() leaves it as it is. Until
        that is decided, at the next checkpoint() at the latest, the line waits; checkpoint(now=True) does not. A replay
        skips it, and gives back what it returned then (a copy, as pickle makes it)."""
        if not isinstance(computation, Computation):
            raise _refusal(f"compute({computation!r}): give what declare() returned")
        if self._computations.get(computation.number) != computation.name:
            raise _refusal(
                f"compute() was given '{computation.name}', which this session has not declared: call declare() of it"
            )
        runs = self._in_computation(self._core.enter, computation.number)
        completed = False
        try:
            result = self._kept(body(*args, **kwargs) if runs else None, True)
            completed = True
        finally:
            self._in_computation(self._core.leave_computation, completed)
        return result

    def result(self, value):
        """Gives back `value`, which came from something that may give another one the next time: reductions, clocks,
        random numbers. After replay() it gives what it was then."""
        return self._kept(value, False)

    def _kept(self, value, of_computation: bool):
        if not self._keeps_way:
            return value
        region = next(
            (name for name, held in self._held.items() if held is value and isinstance(value, np.ndarray)), None
        )
        try:
            written = b"" if self.replaying else pickle.dumps(value if region is None else _ArrayOf(region, value))
        except Exception as error:
            raise _refusal(f"a replay could not give back {value!r:.60}, which cannot be pickled: {error}") from None
        kept = self._core.kept(written, of_computation)
        if kept == written:
            return value
        given = pickle.loads(kept)
        return given.put_back(self._held) if isinstance(given, _ArrayOf) else given

    def _in_computation(self, call, argument):
        try:
            return call(argument)
        finally:
            for moving in self._moving():
                moving.release()

    def checkpoint(self, now: bool = False) -> Outcome:
        """Takes a checkpoint if one is due, or now. Returns after the capture; no barrier
        (docs/limitations.md says when a rank waits for one that is more than a step behind)."""
        if self._tells_place:
            frame = sys._getframe(1)
            _core.set_caller(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        try:
            outcome = self._core.checkpoint(bool(now))
        finally:
            for moving in self._moving():
                moving.release()
        if self._look or outcome is not Outcome.not_due:
            self._look_for_replaced(bool(now))
        return outcome

    def resume(self) -> Resumed:
        """Puts back the newest whole line, if there is one."""
        for name, held in self._held.items():
            if isinstance(held, np.ndarray) and not held.flags.writeable:
                raise _refusal(f"region '{name}' has become read-only, so resume() cannot fill it: make it writable")
        try:
            resumed = Resumed(*self._core.resume())
        finally:
            for moving in self._moving():
                moving.release()
        self._look_for_replaced(False)
        return resumed

    def replay(self) -> Resumed:
        """In place of resume(), by programs that declare all of their computations: the program runs from its beginning
        as it did, its computations skipped and their results given back, to the call of checkpoint() at which the
        newest line was taken; there the data are put back, and it goes on. What decides on the way and is no result of
        a computation goes through result(). Inside loop(), if there is one, and before the first computation or
        result()."""
        try:
            resumed = Resumed(*self._core.replay())
        finally:
            for moving in self._moving():
                moving.release()
        self._keeps_way = True
        return resumed

    def init_done(self) -> None:
        """The beginning of the program ends here; all of it runs again when the program is started again, so that what
        no computation changes after it is in no line. Between replay() and the first checkpoint(); without replay()
        before resume()."""
        self._core.init_done()

    def save_only(self, regions) -> None:
        """From the next checkpoint() on a line holds these regions, a list of names, and no others (but static ones),
        captured at once; an empty list: what computations decide, as without this call. A run that goes on from such a
        line and reads something else before it has overwritten it is stopped. So what no computation uses must be on
        the list, or no line is saved. The same list on every rank; behind a rollback or a repair it is the one of
        before loop() until it is named again."""
        names = [] if isinstance(regions, str) else list(regions)
        if isinstance(regions, str) or not all(isinstance(name, str) for name in names):
            raise _refusal(f"save_only({regions!r}): give a list of names")
        self._core.save_only(names)

    @property
    def replaying(self) -> bool:
        """Computations are skipped."""
        return self._keeps_way and self._core.replaying()

    def init(self, phase: Callable[[], Any]) -> None:
        """Collective, before loop(): runs `phase`, in which the program sets itself up. With the option spares it is
        refused: messages of mpi4py cannot be recorded for who takes a lost rank's place, so set up inside loop()."""
        self._core.init(phase)

    def loop(self, body: Callable[[], Any]):
        """Runs `body` and gives what it returns; when it calls rollback(), runs it again from its start, where resume()
        puts back the newest line. With the option spares also when a rank was lost: another process has its place then,
        and `comm` is another one."""
        result = []
        try:
            self._core.loop(lambda: result.append(body()), self._rolled_back)
        except SystemExit as error:
            self._end_all_at_exit(error)
            raise
        return result[-1]

    def rollback(self, why: str) -> None:
        """Collective, inside loop(): gives up the current state."""
        self._core.rollback(str(why).encode(errors="backslashreplace").decode(), self._rolled_back)

    def include(self, comm) -> None:
        """A communicator that the program made from `comm` of this session: a rank that waits in it is woken when
        another is lost. It is forgotten with the next repair. MPI.COMM_NULL is none, and nothing is done."""
        if not _is_communicator(comm):
            raise _refusal(f"include({comm!r}): give a communicator of mpi4py")
        if _core.have_mpi and comm:  # a rank that is not in it has MPI.COMM_NULL
            _core.include(self._core, _handle_of(comm))

    def wait(self) -> None:
        """Waits until everything captured is committed or given up."""
        self._core.wait()

    # ---- looking after lines ----------------------------------------------------------------------------------------

    def verify(self) -> Verified:
        """Reads every byte of every line at every level and checks its CRC."""
        return Verified(*self._core.verify())

    def prune(self, keep: int) -> None:
        """Removes all but the newest `keep` (1 or more) whole lines of every level."""
        if not isinstance(keep, numbers.Integral):
            raise _refusal(f"prune({keep!r}): give the number of lines to keep, 1 or more")
        self._core.prune(max(-1, min(int(keep), 2**31 - 1)))

    def stopping(self) -> bool:
        """Whether a signal has asked the job to end: the same on every rank at the same call of checkpoint()."""
        return self._core.stopping()

    def status(self) -> Status:
        return Status(*self._core.status())

    def _moving(self):
        return [held for held in self._held.values() if isinstance(held, _Moving)]

    def _look_for_replaced(self, now: bool) -> None:
        """Warns of each array that somebody else had at an earlier look and nobody else has any more. A checkpoint
        that was asked for `now` may be the last, after the function that had the array: the next one warns."""
        self._look = False
        for name, patience in list(self._watched.items()):
            if _others_have(self._held, name):
                self._watched[name] = 1
            elif now and patience:
                self._watched[name] = 0
            elif patience is not None:
                del self._watched[name]
                warnings.warn(_replaced(name), ReplacedWarning, stacklevel=3)


class State:
    """Numbers that a session protects, as attributes. They keep the type that they began with. A copy has numbers of
    its own, which no session protects."""

    __slots__ = ("_arrays", "_numpy")

    def __init__(self, arrays: dict, numpy_names: set):
        object.__setattr__(self, "_arrays", arrays)
        object.__setattr__(self, "_numpy", numpy_names)

    def __getattr__(self, name):
        if name in State.__slots__:  # of one that is being made
            raise AttributeError(name)
        if name not in self._arrays:
            raise AttributeError(f"this state has no '{name}'; it has {', '.join(self._arrays)}")
        array = self._arrays[name]
        return array[()] if name in self._numpy else array.item()

    def __setattr__(self, name, value):
        if name not in self._arrays:
            raise AttributeError(f"this state has no '{name}', and none can be added: name it in run.state({name}=...)")
        array = self._arrays[name]
        if not _keeps_kind(value, array.dtype):
            raise TypeError(f"'{name}' began as {array.dtype} and cannot become {value!r}")
        try:
            array[()] = _in_range(value, array.dtype)
        except OverflowError:
            raise OverflowError(f"'{name}' is {_range_of(array.dtype)}, and cannot become {value!r}") from None

    def __reduce__(self):
        return State, ({name: array.copy() for name, array in self._arrays.items()}, self._numpy)

    def __dir__(self):
        return list(self._arrays)

    def __repr__(self):
        return f"State({', '.join(f'{name}={getattr(self, name)!r}' for name in self._arrays)})"


class _Moving:
    """An array that changes its size, or that the program replaces."""

    def __init__(self, name, get, set):
        self._name, self._get, self._set = name, get, set
        self._seen = self._filled = None
        self.dtype = _check_array(name, get()).dtype

    def look(self):
        """The memory as it is now. The array is held until release(), for it may be a temporary one."""
        array = _check_array(self._name, self._get())
        if array.dtype != self.dtype:
            raise Error(Code.user, f"get() gave an array of {array.dtype}; when it was protected it was {self.dtype}")
        self._seen = array
        return _memory(array)

    def release(self) -> None:
        self._seen = None

    def resize(self, shape):
        """Room for what is put back."""
        self._filled = np.zeros(shape, self.dtype)
        return _memory(self._filled)

    def deliver(self) -> None:
        """The program's now."""
        filled, self._filled = self._filled, None
        self._set(filled)


# ---- opening ----------------------------------------------------------------------------------------------------

_sessions: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Before mpi4py ends MPI, which it does later in the exit of Python."""
    try:
        for session in list(_sessions):
            session.close()
    finally:
        _flush()  # who does not come to the meeting ends those who do
        has_failed = getattr(sys, "last_value", None) is not None  # by an exception that nobody caught
        if not _core.meet_behind_python(has_failed) and (ends := _core.meet_before_the_end()) != _core.AtTheEnd.met:
            os._exit(1 if has_failed or ends == _core.AtTheEnd.lost else 0)


def _status_of(error: SystemExit) -> int:
    """What the process ends with; the message of sys.exit("message") is status 1."""
    if isinstance(error.code, int):
        return error.code & 0xFF
    return int(error.code is not None)


def _end_with_all_ranks(kind, error, trace) -> None:
    """The excepthook of a rank."""
    sys.__excepthook__(kind, error, trace)
    _abort(128 + signal.SIGINT if issubclass(kind, KeyboardInterrupt) else 1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or nobody reads it
            stream.flush()


def _abort(status: int) -> None:
    """Ends all ranks. They would wait for this one in MPI for ever, and nobody would launch it again. Where another
    process can take its place, this one ends in a way that they notice."""
    _flush()
    _core.end_by_a_signal(status)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None:
        if mpi.Is_initialized() and not mpi.Is_finalized():
            mpi.COMM_WORLD.Abort(status)
    elif any(not session.closed and session.size > 1 for session in _sessions):
        os._exit(status)  # MPI is still in use: a rank that goes without MPI_Finalize has mpirun end the others


def _open(comm, options):
    _flush()  # a spare that is never needed ends in the call below
    if comm is None:
        comm = _usual_communicator()
    if comm is False:
        return _core.open_alone(options), None
    if not _core.have_mpi:
        raise _refusal("this backstay was built without MPI: build it with MPI, or use comm=False")
    if comm is _WORLD:
        return _core.open_world(options), None
    return _core.open_comm(_handle_of(comm), options), comm


_WORLD = object()  # MPI_COMM_WORLD, without mpi4py


def _usual_communicator():
    """False: nothing speaks of MPI, so the process is alone."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None and not any(name in os.environ for name in RANK_VARIABLES):
        return False
    try:
        from mpi4py import MPI
    except ImportError:
        return _WORLD
    return MPI.COMM_WORLD if MPI.Is_initialized() else _WORLD


def _is_communicator(value) -> bool:
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and isinstance(value, mpi.Comm)


def _handle_of(comm) -> int:
    mpi = sys.modules.get("mpi4py.MPI")
    if not _is_communicator(comm):
        raise _refusal(f"comm is {comm!r}, and must be a communicator of mpi4py, None or False")
    if comm == mpi.COMM_NULL:
        raise _refusal("comm is MPI.COMM_NULL: only the ranks of a communicator may open a session on it")
    theirs, ours = mpi.Get_library_version().strip("\0\n "), _core.mpi_library().strip("\0\n ")
    if theirs != ours:
        found = f"mpi4py uses {theirs.splitlines()[0]}, and backstay was built with {ours.splitlines()[0]}"
        raise _refusal(f"{found}: both need the same MPI")
    return mpi._handleof(comm)


def _communicator(mpi, handle: int):
    """That of mpi4py with this MPI_Comm, which stays ours."""
    comm = mpi.Intracomm()
    size = mpi._sizeof(comm)
    memory = (ctypes.c_ubyte * size).from_address(mpi._addressof(comm))
    memory[:] = handle.to_bytes(size, sys.byteorder)
    return comm


def _read_options(given: Mapping[str, Any]) -> dict[str, str]:
    """Options by their true names, as texts. Unknown ones are left to the library, which names the nearest."""
    known = _core.option_names()
    true_names = {name.replace(".", "_"): name for name in known}
    named: dict[str, str] = {}
    for word, value in given.items():
        name = word if _require_text("the name of an option", word) in known else true_names.get(word, word)
        if value is None:
            continue
        text = _option_text(name, value)
        if named.setdefault(name, text) != text:
            raise _refusal(f"the option {name} is given twice, as {named[name]!r} and as {text!r}")
    # Exceptions of C++ have no way through mpi4py: its calls raise its own when a rank was lost.
    named.setdefault("lost_rank", "return")
    return named


def _option_text(name: str, value) -> str:
    if name in ("dir", "local_dir"):
        return _path(name, value)
    if name == "name":
        return _require_text("the name of a session", value)
    if isinstance(value, (bool, np.bool_)):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return ",".join(_option_text(name, item) for item in value)
    if not isinstance(value, (str, os.PathLike, numbers.Real)):
        raise _refusal(
            f"the option {name} is {value!r}, and must be a text, a number, True or False, or a list of them"
        )
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _path(name: str, value) -> str:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(path, str):
        return _require_utf8(name, path)
    meant = isinstance(value, bool) or _is_communicator(value)
    hint = "; for a communicator, or False for this process alone, write Session(comm=...)" if meant else ""
    raise _refusal(f"{name} is {value!r}, and must be a path, as a text or a pathlib.Path{hint}")


def _require_utf8(name: str, path: str) -> str:
    """Bytes that are no text are surrogates there."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise _refusal(f"{name} is {path!r}, which is not UTF-8: name another directory") from None
    return path


# ---- arrays -----------------------------------------------------------------------------------------------------


def _refusal(sentence: str) -> Error:
    return Error(Code.invalid_argument, sentence)


def _require_text(what: str, value) -> str:
    if not isinstance(value, str):
        raise _refusal(f"{what} is {value!r}, and must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refusal(f"{what} is {value!r}, which has no form in UTF-8") from None
    return value


def _extents(what: str, value) -> tuple:
    """A whole number stands for a tuple of one."""
    with contextlib.suppress(TypeError):
        value = (operator.index(value),)
    try:
        extents = tuple(map(operator.index, value))
    except TypeError:
        extents = None
    if extents is None or any(not -(2**63) <= extent < 2**63 for extent in extents):
        raise _refusal(f"{what} is {value!r}, and must be whole numbers of 64 bits, one for each dimension")
    return extents


def _has_one_owner(array: np.ndarray) -> bool:
    """Whether its memory belongs to an array of NumPy, this one or its base. Else who may reach it is not known."""
    owner = array if array.base is None else array.base
    return isinstance(owner, np.ndarray) and owner.flags.owndata


def _others_have(held: dict, name: str) -> bool:
    """Whether anything else refers to the array held[name], or to its base as each of its views does."""
    if sys.getrefcount(held[name]) > _OURS or weakref.getweakrefcount(held[name]):
        return True
    base = held[name].base is not None
    return base and (sys.getrefcount(held[name].base) > _OURS or weakref.getweakrefcount(held[name].base) > 0)


_alone = {"x": np.empty(0)}
_OURS = sys.getrefcount(_alone["x"])  # what is counted where nobody else has it; versions of Python differ


def _replaced(name: str) -> str:
    return (
        f"region '{name}': nothing but the session refers to its array any more, so checkpoints go on saving it as it "
        "is. If the program replaced it, as u = u + 1.0 does, the new one is not saved: fill it instead "
        "(u[...] = u + 1.0, or u += 1.0), or protect it with get and set"
    )


def _check_array(name: str, array) -> np.ndarray:
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise _refusal(
            f"region '{name}' is a {type(array).__name__}, and must be a NumPy array that is not masked; "
            "for numbers there is run.state(...), for anything else save and load"
        )
    if any(stride < 0 for stride in array.strides) and array.size > 0:
        raise _refusal(f"region '{name}' has a negative stride: protect the array that it is a reversed view of")
    return array


def _memory(array: np.ndarray):
    address = array.__array_interface__["data"][0] if array.size else 0
    return address, array.shape, array.strides if array.size else (0,) * array.ndim


def _placement(name: str, placement, box) -> Optional[Placement]:
    words = {"list": distributed_list, "distributed_list": distributed_list, "replicated": replicated}
    words.update({"private": rank_private, "rank_private": rank_private})
    if box is not None and placement is not None:
        raise _refusal(f"region '{name}' has both a block and a placement: give one")
    if box is not None:
        placement = box if isinstance(box, Placement) else _block_of(name, box)
    if isinstance(placement, str) and placement in words:
        return words[placement]()
    if placement is not None and not isinstance(placement, Placement):
        raise _refusal(f"region '{name}': the placement {placement!r} is none of block(...), {', '.join(words)}")
    return placement


def _block_of(name: str, box) -> Placement:
    if not isinstance(box, (list, tuple)) or len(box) != 3:
        raise _refusal(f"region '{name}': block is {box!r}, and must be (global_shape, lower, upper)")
    return block(*box)


_KINDS = {
    "i": _core.Kind.integer,
    "u": _core.Kind.unsigned_integer,
    "f": _core.Kind.floating,
    "c": _core.Kind.complex,
    "b": _core.Kind.boolean,
    "S": _core.Kind.text,
    "V": _core.Kind.opaque,
}
_INSTEAD = {
    "O": "holds Python objects, which have no bytes to save: use save and load",
    "U": "holds text of 4 bytes a character: use bytes (dtype 'S') or save and load",
    "M": "holds dates: protect array.view('int64')",
    "m": "holds time differences: protect array.view('int64')",
}


def _type_of(name: str, dtype: np.dtype) -> _core.Type:
    if dtype.hasobject or dtype.kind not in _KINDS:
        raise _refusal(f"region '{name}' {_INSTEAD.get('O' if dtype.hasobject else dtype.kind, f'is of {dtype}')}")
    if not dtype.isnative:
        raise _refusal(f"region '{name}' is not in this machine's byte order: convert it, for checkpoints are")
    if dtype.names is None:
        return _core.Type(_KINDS[dtype.kind], dtype.itemsize)
    fields = sorted((dtype.fields[field][1], field, dtype.fields[field][0]) for field in dtype.names)
    members = [(field, offset, kind.shape, _type_of(name, kind.base)) for offset, field, kind in fields]
    return _core.Type(_core.Kind.compound, dtype.itemsize, members)


def _number(name: str, value) -> np.ndarray:
    array = np.array(value)
    if isinstance(value, int) and array.dtype.kind == "O":
        raise _refusal(f"the state '{name}' is {value!r}, and a whole number must be from -2**63 to 2**64 - 1")
    if array.ndim != 0 or array.dtype.kind not in "biufc":
        raise _refusal(f"the state '{name}' is {value!r}, and must be a number; protect anything else by itself")
    return array


def _keeps_kind(value, dtype: np.dtype) -> bool:
    """Whether a number of this dtype can become `value` without a change of kind, as 1.5 for an integer would be."""
    if isinstance(value, int) and not isinstance(value, bool) and dtype.kind in "iufc":
        return True  # whether it fits is another question
    return np.can_cast(np.asarray(value).dtype, dtype, "same_kind")


def _in_range(value, dtype: np.dtype):
    """The value, or an OverflowError: NumPy would cut an integer of its own to fewer bits without a word."""
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max:
        raise OverflowError
    return value


def _range_of(dtype: np.dtype) -> str:
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return f"of type {dtype}, from {limits.min} to {limits.max}"


def _saved(save: Callable[[], Any]) -> bytes:
    data = save()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"save() returned a {type(data).__name__}, and must return bytes")
    return bytes(data)
