"""What became of a job, from the events that its sessions and `backstay run` have left in its directory."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from .lines import Problem, open_to_read

ENDS = {"end", "stop"}
NUMBERS = {
    *("time", "ranks", "nodes", "attempt", "status", "signal", "seconds", "since_first_end", "repairs", "lost"),
    *("replaced", "line", "call", "bytes", "processes"),
}
LAUNCHES = {"launch", "exit", "hang", "node_removed"}  # noted by `backstay run`, and not by a session


@dataclass(frozen=True)
class Commit:
    """A line that became whole. Times are seconds since the run began."""

    time: float
    seconds: float  # from the start of its writing
    line: int
    level: str
    call: int
    bytes: int

    @property
    def began(self) -> float:
        return self.time - self.seconds


@dataclass
class Loss:
    """A failure, and how the job came back."""

    time: float
    what: str
    how: str = "not yet"  # it came back
    line: int | None = None
    level: str | None = None
    call: int | None = None
    stood_still: float | None = None  # seconds from the loss until the data were back; None: they are not
    lost_work: float | None = None  # seconds from the capture of what was put back to the loss; None: not known
    back: float | None = None  # when the data were
    online: bool = False  # without another launch
    ranks: list[int] = field(default_factory=list)  # that were lost, as far as the session has named them


@dataclass(frozen=True)
class LevelSummary:
    level: str
    lines: int
    given_up: int
    bytes: int
    seconds: float  # median from the start of the writing of a line until it was whole
    bytes_per_second: float


@dataclass
class History:
    """The newest run in a directory: from a launch, or a start, to the last event."""

    directory: str
    program: str = ""
    ranks: int = 0
    nodes: int | None = None
    began: float = 0.0  # seconds since 1970
    seconds: float = 0.0
    state: str = "running, or ended without a word"
    launches: int = 0
    commits: list[Commit] = field(default_factory=list)
    given_up: list[dict] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    starts: list[tuple[float, int]] = field(default_factory=list)  # (time, call) where ranks began to compute

    @property
    def levels(self) -> list[LevelSummary]:
        names = list(dict.fromkeys([c.level for c in self.commits] + [g["level"] for g in self.given_up]))
        return [self._level(name) for name in names]

    def _level(self, name: str) -> LevelSummary:
        mine = [c for c in self.commits if c.level == name]
        rates = [c.bytes / c.seconds for c in mine if c.seconds > 0]
        return LevelSummary(
            name, len(mine), sum(g["level"] == name for g in self.given_up), sum(c.bytes for c in mine),
            median([c.seconds for c in mine] or [0.0]), median(rates or [0.0]),
        )  # fmt: skip

    @property
    def stood_still(self) -> float:
        return sum(loss.stood_still or 0 for loss in self.losses)

    @property
    def lost_work(self) -> float:
        return sum(loss.lost_work or 0 for loss in self.losses)

    def as_dict(self) -> dict:
        """For JSON."""
        return {
            "directory": self.directory,
            "program": self.program,
            "ranks": self.ranks,
            "nodes": self.nodes,
            "began": self.began,
            "seconds": self.seconds,
            "state": self.state,
            "launches": self.launches,
            "stood_still": self.stood_still,
            "lost_work": self.lost_work,
            "levels": [asdict(level) for level in self.levels],
            "failures": [asdict(loss) for loss in self.losses],
            "checkpoints": [asdict(commit) for commit in self.commits],
            "given_up": self.given_up,
            "starts": [{"time": time, "call": call} for time, call in self.starts],
        }


def named_sessions(directory: Path) -> list[Path]:
    """Where sessions with a name have left events, below the directory of the job."""
    try:
        return sorted(path.parent for pattern in ("*", "*/*") for path in directory.glob(f"{pattern}/events.jsonl"))
    except OSError:  # it cannot be looked at now
        return []


def session_directories(directory: Path) -> list[Path]:
    """Where the sessions of the newest run of a job have left events, as far as that is known."""
    return [directory, *named_sessions(directory), *_told_sessions(_events(directory))]


def read_history(directory: Path) -> History | None:
    """The newest run that left events in `directory`; None: none did, or several sessions below it.

    A session with a name leaves its events in a directory of its own, and `backstay run` its ones above: of such a job
    both directories tell the same, unless there is another session. A line that a crash has torn is passed over."""
    events = _events(directory)
    if events and not _any(events, LAUNCHES):
        events += _launches_above(directory, events)
    elif events and not _any(_newest_run(events), {"start"}):
        began = _time(_newest_run(events)[0])
        places = dict.fromkeys([*named_sessions(directory), *_told_sessions(events)])
        below = [session for session in map(_events, places) if session]
        below = [s for s in below if _time(s[-1]) >= began and _are_of_one_run(_newest_run(events), s)]
        if len(below) > 1:
            return None
        events += below[0] if below else []
    if not events:
        return None
    return _Reader(directory, _newest_run(sorted(events, key=_time))).read()


def _told_sessions(events: list[dict]) -> list[Path]:
    """Where the program's own options have led sessions of the newest run, as `backstay run` has noted."""
    lists = [event["sessions"] for event in _newest_run(events) if isinstance(event.get("sessions"), list)]
    return [Path(place) for places in lists for place in places if isinstance(place, str)]


def _launches_above(directory: Path, events: list[dict]) -> list[dict]:
    """By a `backstay run` of the directory above, if no session without a name runs there; later runs are of others."""
    for parent in list(directory.absolute().parents)[:2]:
        above = _events(parent)
        if not above or _any(_newest_run(above), {"start"}) or not _are_of_one_run(above, events):
            continue
        later = [e for e in above if e["event"] == "launch" and e.get("attempt") == 1 and _time(e) > _time(events[-1])]
        return [e for e in above if e["event"] in LAUNCHES and (not later or _time(e) < _time(later[0]))]
    return []


def _are_of_one_run(launches: list[dict], session: list[dict]) -> bool:
    """As far as that is known: a session that was not started by `backstay run` has no name of its run."""
    runs = [{e["run"] for e in events if e.get("run")} for events in (launches, session)]
    return not all(runs) or not runs[0].isdisjoint(runs[1])


def _any(events: list[dict], names: set[str]) -> bool:
    return any(event["event"] in names for event in events)


def _time(event: dict) -> float:
    return float(event["time"])


def _events(directory: Path) -> list[dict]:
    try:
        with open_to_read(directory / "events.jsonl") as file:
            lines = file.read().decode(errors="replace").splitlines()
    except (OSError, Problem):  # none, or not for us
        return []
    return [event for event in map(_event, lines) if event]


def _event(line: str) -> dict | None:
    try:
        event = with_numbers(json.loads(line))
    except (ValueError, RecursionError):
        return None
    return event if event is not None and isinstance(event.get("event"), str) and "time" in event else None


def with_numbers(event: object) -> dict | None:
    """An event without what is null; None: it is none, or what should be a number is something else."""
    if not isinstance(event, dict):
        return None
    event = {name: value for name, value in event.items() if value is not None or name not in NUMBERS}
    return event if all(_is_number(event[name]) for name in NUMBERS & event.keys()) else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and -1e300 < value < 1e300  # false for those that are no number, too


def _newest_run(events: list[dict]) -> list[dict]:
    """From the last first launch; or, without a launcher of ours, from the last start behind an orderly end."""
    begin, before = 0, ""
    for i, event in enumerate(events):
        launched = event["event"] == "launch" and event.get("attempt") == 1
        fresh = event["event"] == "start" and before in ENDS
        if launched or fresh:
            begin = i
        if event["event"] != "over":  # comes behind an orderly end
            before = event["event"]
    return events[begin:]


class _Reader:
    def __init__(self, directory: Path, events: list[dict]):
        self._events = events
        self._out = History(str(directory), began=float(events[0]["time"]))
        self._out.seconds = max(float(e["time"]) for e in events) - self._out.began
        # Progress is the time that was computed and is not lost so far.
        self._bases: list[tuple[float, float]] = []  # from when on it grows with time, and what it was then
        self._progress_of: dict[int, float] = {}  # line -> that at its capture, as far as is known
        self._alive = False  # ranks compute
        self._came_back = False  # since the session was opened: it has looked for a line
        self._last = 0.0  # time of the event before
        self._stood_since: float | None = None  # when the launch fell silent that was killed for it
        self._launched: float | None = None  # a launch in which no session is open yet
        self._end: Loss | None = None  # what ends this launch, as its session has said

    def read(self) -> History:
        for event in self._events:
            time = float(event["time"]) - self._out.began
            handle = getattr(self, f"_on_{event['event']}", None)
            if handle:
                handle(time, event)
            self._last = time
        return self._out

    def _on_launch(self, time: float, event: dict) -> None:
        self._launched = time
        self._out.launches += 1
        self._out.nodes = event.get("nodes")
        self._out.state = "running, or ended without a word"

    def _on_start(self, time: float, event: dict) -> None:
        """`repairs`: how often ranks were lost in this launch by then, each of which has an event of its own."""
        self._launched = self._end = None
        self._out.program, self._out.ranks = str(event.get("program", "")), int(event.get("ranks", 0))
        if self._alive and int(event.get("repairs", 0)) > 0:
            return
        if self._alive:  # nobody said that the one before has ended
            self._out.losses.append(Loss(self._last, "the job ended without a word"))
        self._alive = True
        if not self._bases:
            self._bases.append((time, 0.0))
        self._out.starts.append((time, 0))
        self._came_back = False
        self._out.launches = max(1, self._out.launches)

    def _on_repair(self, time: float, event: dict) -> None:
        lost = int(event.get("lost", 0))
        if lost == 0 and any(loss.back is None for loss in self._out.losses):
            return  # they met once more for that loss
        replaced = int(event.get("replaced", lost))
        numbers = _numbers(event)
        what = _lost(numbers, lost) if lost else "a process lost that was no rank"
        how = "replaced by spares" if replaced else "the ranks that were left went on"
        if 0 < replaced < lost:
            how = f"{replaced} replaced by spares, and the ranks that were left went on"
        elif lost == 0:
            how = "nobody had to be replaced"
        loss = Loss(time - float(event.get("seconds", 0)), what, how, online=True, ranks=numbers)
        self._out.losses.append(loss)

    def _on_lost(self, time: float, event: dict) -> None:
        """Of the ranks of a session that does not go on without them."""
        self._alive = False
        numbers = _numbers(event)
        what = f"{_lost(numbers, len(numbers)) if numbers else 'a rank lost'}, and not replaced"
        self._end = self._ended_by(what, time - float(event.get("seconds", 0)))
        self._end.ranks += numbers

    def _ended_by(self, what: str, time: float) -> Loss:
        """Of a launch, which may have ended by a loss that it was about to survive."""
        last = self._out.losses[-1] if self._out.losses else None
        if last and last.back is None and (last.online or last is self._end):
            last.what, last.how, last.online = f"{last.what}; {what}", Loss.how, False
            return last
        self._out.losses.append(Loss(time, what))
        return self._out.losses[-1]

    def _on_exit(self, time: float, event: dict) -> None:
        self._alive = False
        status, number = int(event.get("status") or 0), event.get("signal")
        if status == 0:
            self._out.state = "done" if self._out.state != "stopped" else "stopped"
            return
        how = f"status {status}" if number is None else f"signal {_signal_name(int(number))}"
        self._out.state = f"failed with {how}"
        what = f"launch {event.get('attempt')} ended with {how}"
        stood_since = self._launched if self._stood_since is None else self._stood_since  # nothing was computed before
        began = time - float(event.get("since_first_end") or 0) if stood_since is None else stood_since
        self._stood_since = None
        self._ended_by(what, began)
        self._end = None

    def _on_hang(self, time: float, event: dict) -> None:
        """`seconds`: for which nobody computed by then."""
        self._stood_since = time - float(event.get("seconds", 0))

    _on_stuck = _on_hang

    def _on_end(self, time: float, event: dict) -> None:
        self._alive, self._out.state = False, "done"

    def _on_stop(self, time: float, event: dict) -> None:
        self._alive, self._out.state = False, "stopped"

    def _on_commit(self, time: float, event: dict) -> None:
        commit = Commit(
            time, float(event.get("seconds", 0)), int(event.get("line", 0)), str(event.get("level", "?")),
            int(event.get("call", 0)), int(event.get("bytes", 0)),
        )  # fmt: skip
        self._out.commits.append(commit)
        if (progress := self._progress_at(commit.began)) is not None:
            self._progress_of.setdefault(commit.line, progress)

    def _progress_at(self, time: float) -> float | None:
        """None: nothing had begun."""
        begun = [(since, progress) for since, progress in self._bases if since <= time]
        return begun[-1][1] + time - begun[-1][0] if begun else None

    def _on_failed(self, time: float, event: dict) -> None:
        given_up = {"time": time, "line": event.get("line"), "level": str(event.get("level", "?"))}
        self._out.given_up.append(given_up | {"why": str(event.get("why", ""))})

    def _on_resume(self, time: float, event: dict) -> None:
        call = int(event.get("call", 0))
        if self._out.starts and not any(loss.back is None for loss in self._out.losses):
            if self._came_back:  # as the program itself wants it
                self._out.starts.append((time, call))
            else:
                self._out.starts[-1] = (self._out.starts[-1][0], call)  # a job of before goes on
        self._come_back(time, call, f"resumed from line {event.get('line')}", event)

    def _on_fresh(self, time: float, event: dict) -> None:
        self._come_back(time, 0, "began again", {})

    def _come_back(self, time: float, call: int, how: str, event: dict) -> None:
        """All losses since the last time are made good by this one; what it cost is counted at the first of them."""
        self._came_back = True
        waiting = [loss for loss in self._out.losses if loss.back is None]
        for loss in waiting:
            loss.how = f"{loss.how}, {how}" if loss.online else f"launched again, {how}"
            loss.line, loss.level, loss.call = event.get("line"), event.get("level"), call
            loss.back, loss.stood_still, loss.lost_work = time, 0.0, 0.0
        line = int(event.get("line") or 0)
        if not waiting:
            if self._bases and line:
                self._progress_of.setdefault(line, self._bases[-1][1])  # of before this run
            return
        first = waiting[0]
        first.stood_still = time - first.time
        starts = self._out.starts
        reached = self._progress_at(first.time) or 0.0  # no session had begun
        # A line of before this run has what that left: all that this one has computed is lost.
        kept = self._progress_of.get(line, 0.0)
        first.lost_work = max(0.0, reached - kept) if self._bases else None
        self._bases.append((time, min(kept, reached)))
        # Numbers above it are given anew.
        self._progress_of = {number: made for number, made in self._progress_of.items() if number <= line}
        if starts and starts[-1][0] >= waiting[-1].time:  # of this launch
            starts.pop()
        starts.append((time, call))


NAMED = 8  # ranks in a sentence


def _numbers(event: dict) -> list[int]:
    """Of ranks. Older events have none."""
    return [int(number) for number in re.findall(r"\d{1,9}", str(event.get("numbers", "")))]


def _lost(numbers: list[int], count: int) -> str:
    if 0 < len(numbers) <= NAMED:
        return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))} lost"
    return f"{count} rank{'s' if count > 1 else ''} lost"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def human_seconds(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 120:
        return f"{seconds / 60:.1f} min"
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
    return f"{seconds * 1e3:.3g} ms"


def human_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= 1024
    raise AssertionError
