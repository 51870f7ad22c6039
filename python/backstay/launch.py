"""Launches a job, watches it, and launches it again after a failure. Resuming is the library's own work.

The library hears of what it needs through BACKSTAY_* variables; both append to DIR/events.jsonl. A launch that ends
with status 0, or after a signal of the user's, is the last one; so is one that failed while another job has the
directory.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import json
import os
import re
import resource
import select
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from . import guard
from .history import ENDS, human_seconds, named_sessions, read_history, with_numbers
from .job import Job, check
from .lines import COMPANIONS, LEVELS, Problem, newest_whole, open_directory, open_to_read, read_lines
from .locks import holder_of, is_held, is_of_run, locked_for_run
from .mpirun import Ending, LaunchError, ending

STALLED_LAUNCHES = 2  # so many in a row without a new line, by an end of its own: the next would end as they did
GRACE = 3.0  # seconds for the launcher to clean up after its ranks were killed
LOST_LOCK = 120.0  # seconds in which a file system gives up the lock of a node that is gone; a repair waits as long
ECHO = 0.2  # seconds in which a second SIGINT is the same one, sent to the process and to its group
ENDED = "_BACKSTAY_ENDED"  # not BACKSTAY_...: see guard.MARK
BEGINNING = 60.0  # seconds after a launch in which its ranks are counted often
GLANCE = 5.0  # the same where no rank can be replaced


@dataclass
class Launch:
    """What became of one launch. `from_outside`: somebody has killed it, or may have: of a process that was lost, and
    had no spare to take its place, nothing else is known."""

    attempt: int
    status: int
    signal: int | None
    seconds: float
    progress: bool
    from_outside: bool


@dataclass
class Report:
    """What became of the job. `reason`: done, stopped, in_use, refused, no_progress, gave_up."""

    status: int
    reason: str
    launches: list[Launch]


def run_job(job: Job, is_last: bool = True) -> Report:
    """Runs the job to its end. Must be called from the main thread. When it returns no process of the job is left,
    and none stays behind either if this process is killed. A Problem if another run has the directory. `is_last`: this
    process ends with what became of it."""
    check(job)
    run_id = uuid.uuid4().hex
    with locked_for_run(job.directory), Signals(is_last) as signals, Guard(run_id) as scratch:
        return Supervisor(job, run_id, signals, scratch).run()


class Events:
    """DIR/events.jsonl: one JSON object a line, one write a line, so that several processes may append."""

    def __init__(self, directory: Path):
        self.path = directory / "events.jsonl"
        self.said: set[str] = set()

    def add(self, event: str, **values: object) -> None:
        line = json.dumps({"time": round(time.time(), 6), "event": event, **values}) + "\n"
        try:
            # A pipe that nobody reads fails, and is not waited for.
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        except OSError as problem:  # the job matters more than its diary
            why = "it is a pipe that nobody reads" if problem.errno == errno.ENXIO else problem.strerror
            if why not in self.said:
                say(f"could not write {self.path}: {why}.")
            self.said.add(why)

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def since(self, offset: int) -> list[dict]:
        """The events after `offset`; a line that is not JSON was torn by a crash and is passed over."""
        try:
            with open_to_read(self.path) as file:
                file.seek(offset)
                lines = file.read().splitlines()
        except (OSError, Problem):
            return []
        return [event for line in lines if (event := with_numbers(_json(line))) is not None]


def _json(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def is_unread(problem: OSError, descriptor: int) -> bool:
    """Whether nobody wants what cannot be written there any more, or has wanted it: a pipe, or a terminal that is gone
    (which is no terminal to isatty() then)."""
    if problem.errno in {errno.EPIPE, errno.ECONNRESET, errno.EBADF}:
        return True
    return problem.errno == errno.EIO and stat.S_ISCHR(os.fstat(descriptor).st_mode)


def say(text: str) -> None:
    """One line to the user."""
    try:
        print(f"backstay: {text}", file=sys.stderr, flush=True)
    except OSError as problem:  # what is left of it is tried again with the next one, and at Python's end
        if is_unread(problem, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def may_lose_its_reader(descriptor: int) -> bool:
    """Whether it leads to another program, as in `backstay run ... | head`."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def is_same_file(one: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


def newest_line(job: Job) -> int:
    """The newest whole line that is seen from here, lines of nodes elsewhere not among them; 0: none."""
    try:
        line = newest_whole(read_lines(open_directory(job.session_directory())))
    except (Problem, OSError):  # a directory that cannot be looked at now says nothing of the job
        return 0
    return line.number if line else 0


def _is_of_a_session(directory: Path) -> bool:
    """Whether it has lines, or the lock of a session: an ordinary file, alone or beside directories of levels."""
    levels = [directory / level for level in (*LEVELS, *COMPANIONS) if (directory / level).is_dir()]
    if any(re.fullmatch(r"line-\d{8,19}", path.name) for level in levels for path in level.iterdir()):
        return True
    return (directory / "lock").is_file() and (bool(levels) or len(list(directory.iterdir())) == 1)


def remove_node(directory: Path) -> bool:
    """Removes what a lost node held. Only a directory that looks like backstay's is touched; False: it was not."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    sessions = (directory, *directory.glob("*/"), *directory.glob("*/*/"))  # those with a name lie below
    if not any(_is_of_a_session(place) for place in sessions):
        return False
    shutil.rmtree(directory)
    return True


class Guard:
    """A process that ends what is left of the job, however this process ends. Gives a directory for the launchers'
    scratch files, which the guard removes in the end: a launcher that is killed leaves its own behind."""

    def __init__(self, run_id: str):
        self._run_id = run_id

    def __enter__(self) -> Path:
        scratch = tempfile.mkdtemp(prefix="backstay-")
        command = [sys.executable, "-I", "-S", guard.__file__, self._run_id, scratch]
        # Of a run inside another one, which is ended with that: its guard outlives it.
        free = {name: value for name, value in os.environ.items() if name != guard.MARK}
        self._process = subprocess.Popen(command, env=free, stdin=subprocess.PIPE, start_new_session=True)
        return Path(scratch)

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # its signal to look once more and go
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Signals:
    """Signals as something to wait for, together with the end of a child. Main thread only. Behind the last job they
    are passed over: what has been said of its end stays true until this process has ended with that status."""

    ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)

    def __init__(self, is_last: bool = True):
        self._is_last = is_last

    def __enter__(self):
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old = signal.signal(signal.SIGCHLD, lambda *_: None)
        self._old_ones = {number: signal.getsignal(number) for number in self.ASKED}
        for number, handler in self._old_ones.items():
            # What was ignored stays ignored: that is how nohup works.
            if handler is not signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        self._old_descriptor = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._old_descriptor)
        signal.signal(signal.SIGCHLD, self._old)
        for number, handler in self._old_ones.items():
            signal.signal(number, signal.SIG_IGN if self._is_last else handler)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float | None, also: Iterable[int] = ()) -> list[int]:
        """The signals that came; empty when the time is over, a child has ended or one of `also` can be read."""
        waiting = select.poll()
        for descriptor in (self._read, *also):
            waiting.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in waiting.poll(None if seconds is None else 1000 * seconds)]
        if self._read not in ready:
            return []
        return [number for number in os.read(self._read, 4096) if number != signal.SIGCHLD]


class FirstEnd:
    """When the first of the ranks on this machine ended. A launcher may take seconds to end behind it."""

    MOST = 200  # ranks of a launch that are watched: each takes a descriptor

    def __init__(self):
        self.time: float | None = None
        self._descriptors: dict[int, int] = {}  # by process id

    def watch(self, processes: Collection[int]) -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = self.MOST if limit == resource.RLIM_INFINITY else min(self.MOST, limit // 4)
        for pid in processes if len(processes) <= most else ():
            if self.time is None and pid not in self._descriptors:
                # It has ended already, or this system, or this Python, has none of them.
                with contextlib.suppress(OSError, AttributeError):
                    self._descriptors[pid] = os.pidfd_open(pid)

    def descriptors(self) -> Iterable[int]:
        return self._descriptors.values()

    def look(self) -> None:
        ended = select.poll()
        for descriptor in self.descriptors():
            ended.register(descriptor, select.POLLIN)
        if ended.poll(0):
            self.time = time.time()
            self.close()

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def is_of_late_ranks(output: bytes) -> bool:
    """The session says nothing here but that ranks wait: no sign that the job goes on."""
    says = (b": a rank has not come for", b": a rank has been busy for")
    return all(b"backstay" in line and any(it in line for it in says) for line in output.split(b"\n") if line)


class Relay:
    """Passes the output of a launch on, byte for byte, noting when it last came and how it ended. What nobody reads any
    more is dropped, and what cannot be written is noted, and the job goes on. Does nothing for a launch that was not
    given pipes."""

    PATIENCE = 5.0  # seconds for the last output of a launch that has ended

    def __init__(self, process: subprocess.Popen, output: int):
        self.last_time = time.monotonic()
        self.tail = b""
        self.unwritten = ""  # why something could not be written
        self._writing: set[int] = set()  # descriptors whose reader has to take something
        self._threads = [
            threading.Thread(target=self._copy, args=(pipe, descriptor), daemon=True)
            for pipe, descriptor in ((process.stdout, output), (process.stderr, 2))
            if pipe is not None
        ]
        for thread in self._threads:
            thread.start()

    def finish(self, give_up: Callable[[float], bool]) -> None:
        """Waits for the last output, and for as long as a reader takes with it, as `less` may: until give_up(seconds),
        which waits so long, says so."""
        for thread in self._threads:
            thread.join(timeout=self.PATIENCE)
            while thread.is_alive() and self._writing and not give_up(0.2):
                pass

    def is_waiting(self) -> bool:
        """For a reader that takes nothing."""
        return bool(self._writing)

    def _copy(self, pipe: object, descriptor: int) -> None:
        while chunk := os.read(pipe.fileno(), 65536):
            if not is_of_late_ranks(chunk):
                self.last_time = time.monotonic()
            self.tail = (self.tail + chunk)[-8192:]
            self._writing.add(descriptor)
            try:
                while chunk:
                    chunk = chunk[self._write(descriptor, chunk) :]
            except OSError as problem:
                if not is_unread(problem, descriptor):
                    self.unwritten = problem.strerror
            self._writing.discard(descriptor)

    @staticmethod
    def _write(descriptor: int, chunk: bytes) -> int:
        """Also where our caller has made it one that does not wait."""
        try:
            return os.write(descriptor, chunk)
        except BlockingIOError:
            select.select([], [descriptor], [])
            return 0


class Supervisor:
    """One job, launch after launch."""

    def __init__(self, job: Job, run_id: str, signals: Signals, scratch: Path):
        self._job = job
        self._scratch = scratch
        self._run_id = run_id
        self._signals = signals
        self._events = Events(job.directory)
        self._stop_asked: float | None = None  # when the user's first signal came
        self._kill_deadline: float | None = None  # of what was killed from here; None: nothing was
        self._stood_still = False  # and was killed for that
        self._lingered = False  # so was what was left of a launch behind its ranks
        self._lost_early = False  # a process, before the session was open
        self._in_use: Path | None = None  # a directory of the job's sessions, by another job
        self._first_end = FirstEnd()
        self._ended = scratch / "ended"  # what sessions of this launch say aside of their events
        self._most_ranks = 0  # of this launch, on this machine at once
        self._ranks_before = 0  # when they were last counted
        self._seen: set[int] = set()  # ranks of this launch that were on this machine
        self._offset = 0  # in the events, where this launch begins
        self._launched_at = 0.0
        self._unwritten = ""  # why output of the job could not be passed on
        self._launches: list[Launch] = []

    def run(self) -> Report:
        started = time.monotonic()
        while True:
            launch = self._launch(len(self._launches) + 1)
            self._launches.append(launch)
            self._remove_lost_nodes(launch)
            reason = self._reason_to_end(launch)
            if reason is None:
                self._pause()
                reason = "stopped" if self._stop_asked else None
            if reason:
                self._say_farewell(reason, time.monotonic() - started)
                return Report(launch.status or int(self._unwritten != ""), reason, self._launches)

    def _reason_to_end(self, launch: Launch) -> str | None:
        if launch.status == 0:
            return "stopped" if self._stop_asked or self._session_was_stopped() else "done"
        in_use = not self._stop_asked and self._is_in_use()
        if self._stop_asked:
            return "stopped"
        if in_use:
            launch.progress = False  # what was committed meanwhile was the other job's
            return "in_use"
        if launch.signal is None and self._is_refused():
            return "refused"
        if launch.attempt > self._job.relaunch:
            return "gave_up"
        recent = self._launches[-STALLED_LAUNCHES:]
        alike = len({(past.status, past.signal) for past in recent}) == 1 and not launch.from_outside
        if len(recent) == STALLED_LAUNCHES and alike and not any(past.progress for past in recent):
            return "no_progress"
        return None

    def _is_in_use(self) -> bool:
        """Another job holds the directory, so that every launch would be refused. Asked for a while: of this job's own
        processes, which were killed, one may be about to go, and of one that went down with its node the file system
        keeps the lock until it has missed it."""
        since = time.monotonic()
        patience = GRACE
        while (held := self._held_directory()) is not None:
            late = time.monotonic() - since > patience
            may_launch = len(self._launches) <= self._job.relaunch
            if late and may_launch and patience == GRACE and is_of_run(held / "lock", self._run_id):
                patience, late = LOST_LOCK, False
                say(
                    f"the lock of {held} is still that of a process of this job that was lost, as file systems keep it "
                    f"for a while: waiting for it for up to {human_seconds(patience)}."
                )
            if self._is_asked_to_stop(0.05) or late:
                self._in_use = held
                return True
        return False

    def _held_directory(self) -> Path | None:
        places = (self._job.session_directory(), *self._told_directories())
        return next((place for place in places if is_held(place / "lock")), None)

    def _is_refused(self) -> bool:
        """The session has said so: an option or a call that can never work, or lines of which none can be put back."""
        names = {e.get("event") for e in self._session_events(self._offset)}
        return "refused" in names and names.isdisjoint({"fresh", "resume", "repair", "commit"})

    def _session_was_stopped(self) -> bool:
        """By a signal that a scheduler has sent to the ranks."""
        ends = [self._ends_among(events) for events in self._events_by_session(self._offset)]
        return any(of_one[-1]["event"] == "stop" for of_one in ends if of_one)

    def _ends_among(self, events: list[dict]) -> list[dict]:
        """Of sessions. Beside spares one of fewer processes may come to its end long before the job does."""
        most = self._job.processes() if self._job.spares else 0
        return [e for e in events if e.get("event") in ENDS and e.get("processes", most) >= most]

    def _is_asked_to_stop(self, seconds: float) -> bool:
        """Whether a signal has come, or comes in so many seconds."""
        if not self._stop_asked and self._signals.wait(seconds):
            self._stop_asked = time.monotonic()
        return bool(self._stop_asked)

    def _say_farewell(self, reason: str, seconds: float) -> None:
        count = len(self._launches)
        launches = f"{count} launch{'es' if count > 1 else ''}"
        last = self._launches[-1]
        how = _how(last.status, last.signal)
        directory = self._in_use or self._job.session_directory()
        say(
            {
                "done": f"the job is done, after {launches} and {seconds:.1f} s.",
                "stopped": f"the job was asked to end and did, with {how}"
                + (
                    "; the same command goes on from there."
                    if self._may_have_saved(last)
                    else ", before it had saved anything that is seen from here; the same command launches it again."
                ),
                "in_use": f"{directory} is in use by another job ({holder_of(directory / 'lock')}), so this one is not "
                "launched again: wait until that job ends, stop it, or choose another directory with --dir.",
                "refused": "the job is not launched again, which would be refused as well: mend what the message above "
                "names.",
                "gave_up": f"the job failed with {how}, and {launches} were allowed: see its messages above.",
                "no_progress": f"the last {STALLED_LAUNCHES} launches ended alike and saved no new line to go on "
                f"from, so another would end the same way: see the messages above (last: {how}).",
            }[reason].replace("1 launch were", "1 launch was")
        )
        if self._unwritten:
            say(
                f"what the job has written could not all be passed on ({self._unwritten}): some of it is missing, and "
                f"this ends with status {last.status or 1}. The job itself and its checkpoints are as without that."
            )
        self._say_cost(self._job.session_directory())

    def _may_have_saved(self, last: Launch) -> bool:
        if newest_line(self._job) > 0:
            return True
        committed = any(e.get("event") == "commit" for e in self._session_events(self._offset))
        if committed and not self._committed_since(self._offset):
            return False  # in memory, which has ended with the job
        return last.status == 0 or self._has_begun()

    def _say_cost(self, directory: Path) -> None:
        """Of failures; a job at level memory alone, or of another program, may have left no events."""
        history = read_history(directory)
        if history is None or not any(loss.back is not None for loss in history.losses):
            return
        count = len(history.losses)
        report = shlex.join(["backstay", "report", str(directory), "-o", "report.html"])
        say(
            f"{count} failure{'s' if count > 1 else ''}: the job stood still for {human_seconds(history.stood_still)}, "
            f"and {human_seconds(history.lost_work)} were computed again; `{report}` shows it."
        )

    def _pause(self) -> None:
        left = self._job.relaunch + 1 - len(self._launches)
        say(f"launching again in {self._job.pause:g} s ({left} more allowed).")
        deadline = time.monotonic() + self._job.pause
        while not self._stop_asked and (seconds := deadline - time.monotonic()) > 0:
            self._is_asked_to_stop(seconds)

    def _launch(self, attempt: int) -> Launch:
        self._announce(attempt)
        newest, offset = newest_line(self._job), self._events.size()
        self._offset = offset
        self._launched_at = time.time()
        started = time.monotonic()
        end = self._run_once(attempt)
        lost = False
        if self._job.spares:
            end, lost = self._look_how_it_ended(offset, end)
        seconds = time.monotonic() - started
        progress = newest_line(self._job) > newest or self._committed_since(offset)
        what = {"attempt": attempt, "status": end.status, "signal": end.signal, "seconds": round(seconds, 3)}
        if end.status and self._first_end.time is not None:
            what["since_first_end"] = round(time.time() - self._first_end.time, 6)
        known = named_sessions(self._job.directory)
        what["sessions"] = [str(place) for place in self._other_directories() if place not in known]
        self._events.add("exit", **{name: value for name, value in what.items() if value != []})
        if end.status:
            say(f"launch {attempt} ended after {seconds:.1f} s with {_how(end.status, end.signal)}.")
        from_outside = (lost or self._lost_early or end.signal == signal.SIGKILL) and not self._stood_still
        return Launch(attempt, end.status, end.signal, round(seconds, 3), progress, from_outside)

    def _committed_since(self, offset: int) -> bool:
        """Lines in the directories of real nodes are not seen from here, but rank 0 tells of each. Those in memory end
        with the launch."""
        return any(
            e.get("event") == "commit" and not str(e.get("level", "")).startswith("memory")
            for e in self._session_events(offset)
        )

    def _look_how_it_ended(self, offset: int, end: Ending) -> tuple[Ending, bool]:
        """The status of a launcher that goes on after losses is 0 also where a signal has ended every process, and what
        a process ended with is lost where that end was turned into one by a signal. And whether a session was open and
        no process has said why it ended: one was lost then, and the others left without a word for that."""
        events = self._session_events(offset)
        made_good = [number for number, e in enumerate(events) if e.get("event") == "repair"]
        rest = events[made_good[-1] if made_good else 0 :]
        over = any(e.get("event") == "over" for e in rest)  # all ranks have come to the end of MPI
        left = [int(e.get("status", 1)) for e in rest if e.get("event") == "left"]
        told = self._told_aside()
        left = left or [int(line.split()[1]) for line in told if line.startswith("left ")]
        over = over or "over" in told
        lost = not over and not left and self._has_begun()
        if self._lingered and end.signal == signal.SIGKILL and over and not left:
            # The signal was for a launcher that had nothing more to do, and tells no status of a rank any more.
            statuses = [int(line.split()[1]) for line in told if line.startswith("status ")]
            return Ending(statuses[-1] if statuses else 0), False
        if end.status or left:
            # 1 may be the word of others for it.
            return (Ending(next((s for s in left if s != 1), 1)) if left else end), lost
        if not over and self._kill_deadline is None and not self._stop_asked and not self._is_refused():
            why = (
                "not all ranks came to the end of MPI: they were lost, or the program does not call MPI_Finalize"
                if lost
                else "no session was opened: it was refused, or the program does not use backstay, or was lost"
            )
            say(f"the launcher says that all is well, but {why}.")
        return Ending(0 if over and not self._stood_still else 1), lost

    def _told_aside(self) -> list[str]:
        """Since the last repair, by sessions whose events may be lost with the directory."""
        lines = self._all_told_aside()
        repairs = [number for number, line in enumerate(lines) if line == "repair"]
        return lines[repairs[-1] :] if repairs else lines

    def _all_told_aside(self) -> list[str]:
        try:
            return self._ended.read_text(errors="surrogateescape").splitlines()
        except OSError:
            return []

    def _told_directories(self) -> list[Path]:
        """Of sessions of the newest launch, as far as these can tell it."""
        told = [line.removeprefix("directory ") for line in self._all_told_aside() if line.startswith("directory ")]
        return [Path(path) for path in dict.fromkeys(told)]

    def _other_directories(self) -> list[Path]:
        """Where sessions have their events, but for the directory of the job: below it, as they have names, or where
        the program's own options say."""
        known = named_sessions(self._job.directory)
        seen = {path.resolve() for path in (*known, self._job.directory)}
        return known + [path for path in self._told_directories() if path.resolve() not in seen]

    def _session_events(self, offset: int) -> list[dict]:
        """In the order of time, but those of one directory stay in that in which they were written."""
        return list(heapq.merge(*self._events_by_session(offset), key=lambda event: event.get("time", 0)))

    def _events_by_session(self, offset: int) -> list[list[dict]]:
        """Of each directory in which sessions of this launch have left some."""
        found = [self._events.since(offset)]
        for directory in self._other_directories():
            since = [e for e in Events(directory).since(0) if e.get("time", 0) >= self._launched_at]
            runs = {e["run"] for e in since if e.get("run")}  # empty: not known, or its session is not open yet
            found += [since] if not runs or self._run_id in runs else []
        return found

    def _repaired_since(self, offset: int) -> int:
        """Ranks that were lost, and whose loss the job has survived."""
        return sum(int(e.get("lost", 0)) for e in self._session_events(offset) if e.get("event") == "repair")

    def _announce(self, attempt: int) -> None:
        job = self._job
        where = f" on {job.nodes} simulated nodes" if job.nodes else ""
        beside = f" and {job.spares} spare{'s' if job.spares > 1 else ''}" if job.spares else ""
        say(f"launch {attempt}: {job.app.name} on {job.ranks} rank{'s' if job.ranks > 1 else ''}{beside}{where}.")
        for kill in job.kills_of(attempt):
            say(f"{kill.what} {kill.number} will be killed {kill.when()}.")
        self._events.add("launch", attempt=attempt, ranks=job.ranks, nodes=job.nodes, run=self._run_id)

    def _run_once(self, attempt: int) -> Ending:
        job = self._job
        self._most_ranks = self._ranks_before = 0
        self._seen = set()
        environment = job.environment(attempt, self._run_id, sys.stderr.isatty() and not self._piped())
        job.launcher.use_scratch(environment, self._scratch / str(attempt))
        self._ended = self._scratch / f"ended-{attempt}"
        environment[ENDED] = str(self._ended)
        launcher = job.launcher.command(job.processes(), environment, survive=job.spares > 0)
        command = [*launcher, str(job.app), *job.arguments]
        output = os.open(job.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666) if job.output else os.dup(1)
        try:
            process = self._start(command, environment, output)
            relay = Relay(process, output)
            self._first_end = FirstEnd()
            try:
                self._watch(process, relay)
            finally:
                self._first_end.close()
                guard.end_all(self._run_id)
            relay.finish(self._is_asked_to_stop)
            self._unwritten = relay.unwritten or self._unwritten
            return ending(job.launcher, process.wait(), relay.tail)
        finally:
            os.close(output)

    def _piped(self) -> bool:
        """The output must be watched; MPICH tells only there whether a signal or a status ended a rank."""
        return bool(self._job.hang) or self._job.launcher.kind == "mpich"

    def _start(self, command: list[str], environment: dict[str, str], output: int) -> subprocess.Popen:
        out = subprocess.PIPE if self._piped() or may_lose_its_reader(output) else output
        err = subprocess.PIPE if self._piped() or may_lose_its_reader(2) else None
        if out == err and is_same_file(output, 2):  # in the order in which it was written
            err = subprocess.STDOUT
        try:
            # A session of its own, so that Ctrl-C comes to this process alone, which tells the ranks.
            return subprocess.Popen(command, env=environment, stdout=out, stderr=err, start_new_session=True)
        except OSError as problem:
            raise LaunchError(f"{command[0]} could not be started: {problem.strerror}.") from None

    def _watch(self, process: subprocess.Popen, relay: Relay) -> None:
        """Returns when the launcher has ended; what came meanwhile was passed on."""
        sizes, events_time = {}, time.monotonic()
        self._are_new_events(sizes)
        self._kill_deadline = None
        self._stood_still = self._lingered = self._lost_early = False
        ranks_seen = time.monotonic()
        while process.poll() is None:
            for number in self._signals.wait(self._tick(), self._first_end.descriptors()):
                self._pass_on(number, process)
            self._first_end.look()
            if not self._job.spares and self._are_awaited():
                ranks = guard.rank_processes(self._run_id).values()
                self._most_ranks = max(len(ranks), self._most_ranks)
                self._first_end.watch(ranks)
            if self._job.spares:
                ranks_seen = self._look_for_ranks(ranks_seen, process)
            if self._job.hang and (self._are_new_events(sizes) or relay.is_waiting()):
                events_time = time.monotonic()
            quiet = time.monotonic() - max(relay.last_time, events_time)
            if self._job.hang and quiet > self._job.hang and self._kill_deadline is None:
                say(f"no output and no event for {quiet:.0f} s: the launch hangs and is killed.")
                self._events.add("hang", attempt=len(self._launches) + 1, seconds=round(quiet, 3))
                self._stood_still = True
                self._kill(process)
            if self._kill_deadline is not None and time.monotonic() > self._kill_deadline:
                guard.end_all(self._run_id)

    def _are_new_events(self, sizes: dict[Path, int]) -> bool:
        """Since `sizes`, which become those of now; but for what is said of ranks that are waited for."""
        found = False
        for events in (self._events, *map(Events, self._other_directories())):
            before, size = sizes.get(events.path, 0), events.size()
            sizes[events.path] = size
            if size != before:
                found = found or any(e.get("event") != "late" for e in events.since(before))
        return found

    def _has_begun(self) -> bool:
        """A session of this launch is open, or was."""
        return any(e.get("event") in {"start", *ENDS} for e in self._session_events(self._offset))

    def _to_be_seen(self) -> set[int]:
        """Ranks that are on this machine if none was lost: all, where it simulates the nodes; else those that were
        seen, as others may be elsewhere."""
        return set(range(self._job.processes())) if self._job.nodes and self._seen else self._seen

    def _has_begun_here(self) -> bool:
        """The same, for ranks on this machine whose session has its events elsewhere."""
        return "open" in self._all_told_aside() or self._has_begun()

    def _stuck(self, who: str | None = None) -> list[dict]:
        """What processes have said before they ended."""
        events = self._session_events(self._offset)
        return [e for e in events if e.get("event") == "stuck" and e.get("who") == who]

    def _spares_alone_are_left(self, here: set[int]) -> bool:
        """Ranks that a spare has not come to at the end of MPI say so, and which processes are spares. The program, or
        a script that it is called from, may go on for long behind that, also on a rank that the spare came to just in
        time; a spare does not."""
        said = self._stuck("spares")
        if not said or time.time() - max(e.get("time", 0) for e in said) < GRACE:
            return False
        spares = {int(number) for e in said for number in re.findall(r"\d+", str(e.get("numbers", "")))}
        return bool(here) and here <= spares

    def _look_for_ranks(self, seen: float, process: subprocess.Popen) -> float:
        """When a rank of the launch was last there. A launcher that goes on after the loss of a rank may not notice
        that it has none left (Open MPI 5.0 waits for a lock of its own then): it is ended."""
        now = time.monotonic()
        here = set(guard.rank_processes(self._run_id))
        ranks = len(here)
        more_come = not here <= self._seen
        self._seen |= here
        self._most_ranks = max(ranks, self._most_ranks)
        fewer, self._ranks_before = ranks < self._ranks_before, ranks
        elsewhere = self._most_ranks < self._job.processes()  # some may be, or are not there yet
        if not elsewhere and self._kill_deadline is None and self._spares_alone_are_left(here):
            say("the job has come to its end, and a spare has not: it is ended.")
            self._lingered = True
            self._kill(process)
        if (fewer or elsewhere) and self._kill_deadline is None and self._stuck():
            say("the ranks that are left do not come to a repair: the launch is ended.")
            self._stood_still = True
            self._kill(process)
        if not more_come and here != self._to_be_seen() and not self._has_begun_here():
            refused = self._is_refused()  # and all leave: the launcher may need a while
            if now - seen > (10 if refused else 2) * GRACE and self._kill_deadline is None:
                why = "the session was refused, and not all processes have ended"
                if not refused:
                    why = "a process was lost before the session was open, where none can be replaced"
                say(f"{why}: the launch is ended.")
                self._lost_early = not refused
                self._kill(process)
            return seen
        if ranks or elsewhere:
            return now
        if now - seen > 2 * GRACE and self._kill_deadline is None:
            say("all ranks have ended and their launcher has not: it is ended.")
            if self._first_end.time is None:
                self._first_end.time = time.time() - (now - seen)
            self._lingered = True
            self._kill_deadline = now
        return seen

    def _are_awaited(self) -> bool:
        """Ranks are looked for often until all have been seen: one may be lost before its session is open. Without
        spares it is only for the time of a loss, and not worth a search of /proc for long."""
        beginning = BEGINNING if self._job.spares else GLANCE
        return self._most_ranks < self._job.processes() and time.time() - self._launched_at < beginning

    def _tick(self) -> float | None:
        if self._kill_deadline is not None:
            return 0.1
        if self._are_awaited():
            return 0.05
        if self._job.hang:
            return min(1.0, self._job.hang / 4)
        return 1.0 if self._job.spares else None

    def _pass_on(self, number: int, process: subprocess.Popen) -> None:
        now = time.monotonic()
        if number == signal.SIGINT and self._stop_asked and now - self._stop_asked > ECHO:
            say("interrupted again: the ranks are killed.")
            self._kill(process)
            return
        if not self._stop_asked:
            say(
                f"{signal.Signals(number).name}: the ranks were asked for a last checkpoint; Ctrl-C kills them at once."
            )
            self._stop_asked = now
        # To the ranks themselves: Open MPI's mpirun, given SIGINT or SIGTERM, kills them a moment later.
        ranks = list(guard.rank_processes(self._run_id).values())
        if self._job.launcher.kind == "none":
            ranks = [process.pid]
        if len(ranks) >= self._job.processes() - self._repaired_since(self._offset):
            passed_on = signal.SIGUSR1 if number == signal.SIGUSR1 else signal.SIGTERM
            guard.send(guard.who_catch(passed_on, ranks, self._run_id), passed_on)
        else:  # some are on other machines: every launcher passes this signal on to all ranks, and none acts on it
            guard.send([process.pid], signal.SIGUSR1)

    def _kill(self, process: subprocess.Popen) -> None:
        """Ranks first: their launcher then removes its own traces. It has GRACE for that."""
        ranks = guard.rank_processes(self._run_id).values()
        guard.send(list(ranks) or [process.pid], signal.SIGKILL)
        self._kill_deadline = time.monotonic() + GRACE

    def _remove_lost_nodes(self, launch: Launch) -> None:
        """A killed node takes its directory with it, as a real one would."""
        kills = self._job.kills_of(launch.attempt)
        if self._job.spares:  # what ended the launch, or was repaired in it, may have been another loss
            killed = {(e.get("what"), e.get("number")) for e in self._session_events(self._offset)}
            kills = [kill for kill in kills if (kill.what, kill.number) in killed]
        else:
            why_not = why_not_killed(launch, bool(self._stop_asked), self._kill_deadline is not None)
            if why_not and all(kill.call is None for kill in kills):
                why_not = "no rank was replaced, for which there must be spares (--spares)"
            if kills and why_not:
                say(f"the kill did not happen: {why_not}.")
                return
            kills = [kill for kill in kills if kill.call is not None]  # the others are for a repair
        for kill in kills:
            if kill.what == "node" and (directory := self._job.node_directory(kill.number)):
                self._remove_lost_node(launch.attempt, kill.number, directory)

    def _remove_lost_node(self, attempt: int, node: int, directory: Path) -> None:
        if is_held(directory / "lock"):
            say(f"node {node}: {directory} is in use by another job and was left alone.")
        elif remove_node(directory):
            self._events.add("node_removed", attempt=attempt, node=node, directory=str(directory))
            say(f"node {node} is lost: {directory} was removed with all that it held.")
        else:
            say(f"node {node}: {directory} is not a node directory of backstay and was left alone.")


def why_not_killed(launch: Launch, asked_to_stop: bool, killed_from_here: bool) -> str:
    """Why the kill that was planned for a launch cannot be what ended it; empty: it can. The library uses SIGKILL."""
    if asked_to_stop:
        return "the job was asked to end before that call of checkpoint()"
    if killed_from_here:
        return "the launch hung before that call of checkpoint()"
    if launch.signal != signal.SIGKILL:
        how = f" with {_how(launch.status, launch.signal)}" if launch.status else ""
        return f"the job ended{how} before that call of checkpoint()"
    return ""


def _how(status: int, number: int | None) -> str:
    if number is None:
        return f"status {status}"
    try:
        return f"status {status} ({signal.Signals(number).name})"
    except ValueError:
        return f"status {status} (signal {number})"
