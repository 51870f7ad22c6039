"""What the levels of a job bear, and whether a job that was killed came back from the line that it had to: pure, from
what was killed when and from the events of the job.

Losses are counted in failure units, since the session that wrote a line was opened: who died before that has no part
in the line. A spare that waited all the time holds nothing, and does not count. Several losses since then count
together, though a repair may have lain between them: what it rebuilt may lie beside another part of the same line
(racks, fewer ranks), and lost copies are made again by the next line only. So a job is never asked for more than
docs/limitations.md says, and for a little less where losses follow each other without a line between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

ANY = 1000  # losses: all of them
NODES_A_RACK = 2


@dataclass(frozen=True)
class Protection:
    """The options of a job's levels, and of each how many failure units may be lost at once."""

    options: dict[str, str]
    bears: dict[str, int]
    units: dict[str, str] = field(default_factory=dict)  # of the levels that count ranks or racks, and not nodes
    ranks_a_node: int = 1
    more: int = 0  # ranks, and spares, than others need

    @property
    def loses_with_nodes(self) -> bool:
        return set(self.bears) != {"shared"}

    @property
    def racks(self) -> int:
        """How many may be lost at once at some level; 0: no level counts racks."""
        return max((self.bears[level] for level, unit in self.units.items() if unit == "rack"), default=0)


PROTECTIONS = {
    "memory rs(2,1)": Protection({"LEVELS": "memory", "MEMORY_REDUNDANCY": "rs(2,1)"}, {"memory": 1}),
    "memory rs(2,2)": Protection({"LEVELS": "memory", "MEMORY_REDUNDANCY": "rs(2,2)"}, {"memory": 2}),
    "local rs(2,1)": Protection({"LEVELS": "local", "LOCAL_REDUNDANCY": "rs(2,1)"}, {"local": 1}),
    "partner": Protection({"LEVELS": "partner"}, {"partner": 1}),
    "shared": Protection({"LEVELS": "shared", "SHARED_LAYOUT": "file-per-rank"}, {"shared": ANY}),
    "memory, shared": Protection(
        {"LEVELS": "memory,shared", "MEMORY_REDUNDANCY": "rs(2,1)", "SHARED_EVERY": "40"}, {"memory": 1, "shared": ANY}
    ),
    "partner, shared": Protection({"LEVELS": "partner,shared", "SHARED_EVERY": "40"}, {"partner": 1, "shared": ANY}),
    "memory, local, shared": Protection(
        {"LEVELS": "memory,local,shared", "MEMORY_REDUNDANCY": "rs(2,1)", "LOCAL_REDUNDANCY": "rs(2,2)",
         "LOCAL_EVERY": "10", "SHARED_EVERY": "60"},
        {"memory": 1, "local": 2, "shared": ANY},
    ),
    # Two a node, so that spares are where ranks are; three ranks are on two nodes at least.
    "memory, two a node": Protection(
        {"LEVELS": "memory", "MEMORY_REDUNDANCY": "rs(2,1)"}, {"memory": 1}, ranks_a_node=2
    ),
    # Two of a kind: a small parity often, a larger one more seldom, which bears what the small one does not.
    "memory, memory2": Protection(
        {"LEVELS": "memory,memory2", "MEMORY_REDUNDANCY": "rs(2,1)", "MEMORY2_REDUNDANCY": "rs(4,2)",
         "MEMORY2_EVERY": "12"},
        {"memory": 1, "memory2": 2},
    ),
    "local, local2": Protection(
        {"LEVELS": "local,local2", "LOCAL_REDUNDANCY": "rs(2,1)", "LOCAL2_REDUNDANCY": "rs(4,2)", "LOCAL2_EVERY": "12"},
        {"local": 1, "local2": 2},
    ),
    # Units other than nodes. Ranks of one node are in one group: each may die, but not the node.
    "memory by ranks": Protection(
        {"LEVELS": "memory", "MEMORY_REDUNDANCY": "rs(2,1)"}, {"memory": 1}, {"memory": "rank"}, ranks_a_node=3
    ),
    "memory by racks": Protection(
        {"LEVELS": "memory", "MEMORY_REDUNDANCY": "rs(2,1)"}, {"memory": 1}, {"memory": "rack"}
    ),
    "local by racks": Protection({"LEVELS": "local", "LOCAL_REDUNDANCY": "rs(2,1)"}, {"local": 1}, {"local": "rack"}),
    # Two units: one node of a group may be lost, or two racks. Five ranks are in three racks at least, as two parities
    # need, whoever takes their places; four spares are enough for two racks.
    "local, local2 by racks": Protection(
        {"LEVELS": "local,local2", "LOCAL_REDUNDANCY": "rs(2,1)", "LOCAL2_REDUNDANCY": "rs(2,2)", "LOCAL2_EVERY": "12"},
        {"local": 1, "local2": 2}, {"local2": "rack"}, more=2,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """How a job is put together. Processes are numbered over the nodes; spares are the last ones."""

    ranks: int
    spares: int
    protection: str
    shrink: bool = False

    @property
    def processes(self) -> int:
        return self.ranks + self.spares

    @property
    def levels(self) -> Protection:
        return PROTECTIONS[self.protection]

    @property
    def nodes(self) -> int:
        return -(-self.processes // self.levels.ranks_a_node)

    def node_of(self, number: int) -> int:
        return number * self.nodes // self.processes

    def on_nodes(self, nodes: set[int]) -> set[int]:
        return {number for number in range(self.processes) if self.node_of(number) in nodes}

    def rack_of(self, number: int) -> set[int]:
        """The nodes beside that of a process, and its own."""
        first = self.node_of(number) // NODES_A_RACK * NODES_A_RACK
        return set(range(first, min(first + NODES_A_RACK, self.nodes)))

    def units_of(self, level: str, numbers: Iterable[int]) -> set[int]:
        """What dies together with these processes, as the library was told for a level."""
        unit = self.levels.units.get(level, "node")
        of_one = {"rank": int, "rack": lambda number: min(self.rack_of(number)), "node": self.node_of}[unit]
        return {of_one(number) for number in numbers}

    def options(self) -> dict[str, str]:
        given = {"EVERY": "2", "SPARES": str(self.spares), "NODES": str(self.nodes), "TIMEOUT": "40"}
        given |= {"SHRINK": "on"} if self.shrink else {}
        given |= {f"{level.upper()}_UNIT": self.named(unit) for level, unit in self.levels.units.items()}
        return given | self.levels.options

    def named(self, unit: str) -> str:
        if unit == "rank":
            return "rank"
        racks = [range(self.nodes)[at : at + NODES_A_RACK] for at in range(0, self.nodes, NODES_A_RACK)]
        return "nodes:" + "/".join(",".join(map(str, rack)) for rack in racks)


def shape_for(protection: str, ranks: int, spares: int) -> Shape:
    """With as many more of both as the protection needs."""
    more = PROTECTIONS[protection].more
    return Shape(ranks + more, spares + more, protection)


@dataclass(frozen=True)
class Kill:
    """Processes that died together, by the clock of the events: between `began` and `ended`."""

    began: float
    ended: float
    numbers: frozenset[int]
    removed: frozenset[int] = field(default_factory=frozenset)  # nodes whose directories are gone


def of_workers(kills: list[Kill], shape: Shape) -> tuple[list[Kill], set[int]]:
    """The same without spares that were surely waiting, and who may work behind them. The first that lives may have
    taken the place of each lost, and in racks any."""
    out = []
    working, waiting = set(range(shape.ranks)), list(range(shape.ranks, shape.processes))
    for kill in kills:
        hit = kill.numbers & working
        waiting = [number for number in waiting if number not in kill.numbers]
        taken = len(waiting) if hit and shape.levels.racks else len(hit)
        working = (working - hit) | set(waiting[:taken])
        waiting = waiting[taken:]
        out.append(Kill(kill.began, kill.ended, frozenset(hit), kill.removed))
    return out, working


class Lines:
    """What is known of a job's lines, event after event."""

    def __init__(self, kills: list[Kill], shape: Shape):
        self.all_kills, self.shape = kills, shape
        self.kills, _ = of_workers(kills, shape)
        self.newest: dict[str, int] = {}  # by level
        self.opened: dict[str, float] = {}  # when the session that wrote it was
        self.open_since = 0.0

    def lost(self, level: str, now: float) -> int:
        """Units since the session that wrote the newest line of a level was opened."""
        since = self.opened[level]
        hit = [number for kill in self.kills if kill.ended > since and kill.began <= now for number in kill.numbers]
        return len(self.shape.units_of(level, hit))

    def bears(self, level: str) -> int:
        """Units that its newest line bears. Who is left, with the option shrink, may all be in one: "has no parity"."""
        before = [kill for kill in self.all_kills if kill.began <= self.opened[level]]
        _, workers = of_workers(before, self.shape)
        is_in_one = self.shape.shrink and len(self.shape.units_of(level, workers)) <= 1
        return 0 if is_in_one and level.startswith("memory") else self.shape.levels.bears[level]

    def bearing(self, now: float) -> dict[str, int]:
        """The newest lines, by level, that the losses until now cannot have ended."""
        return {
            level: line for level, line in self.newest.items() if line and self.lost(level, now) <= self.bears(level)
        }

    def take(self, event: dict) -> str:
        """What is wrong with it."""
        kind, line = event.get("event"), int(event.get("line") or 0)
        if kind == "commit" and event["level"] in self.shape.levels.bears:  # not those of static regions
            self.newest[event["level"]] = line
            self.opened[event["level"]] = self.open_since
        if kind not in {"resume", "fresh"}:
            return ""
        now = self.open_since = float(event["time"])
        for level, committed in self.bearing(now).items():
            if line < committed:
                lost = self.lost(level, now)
                return f"came back from line {line} after {lost} losses, and line {committed} was committed at {level}"
        self.newest = {level: min(newest, line) for level, newest in self.newest.items()}  # newer ones were tried
        return ""


def older_line(events: list[dict], kills: list[Kill], shape: Shape) -> str:
    """The first coming back that went further than it had to; nothing if none did."""
    lines = Lines(kills, shape)
    return next((wrong for event in events if (wrong := lines.take(event))), "")


def has_a_line(events: list[dict], kills: list[Kill], shape: Shape) -> bool:
    """Whether "none can be put back" cannot be true: the newest line of some level has lost no more than it bears."""
    lines = Lines(kills, shape)
    for event in events:
        lines.take(event)
    hit = {number for kill in kills for number in kill.numbers}
    bear_all = all(len(shape.units_of(level, hit)) <= bears for level, bears in shape.levels.bears.items())
    return bear_all or bool(lines.bearing(float("inf")))


def files_bear(events: list[dict], kills: list[Kill], shape: Shape) -> bool:
    """Whether the next launch must have a line: all the directories that were removed are no more than some level
    bears that wrote a line to files. What was in memory is gone."""
    removed = {number for kill in kills for number in shape.on_nodes(set(kill.removed))}
    wrote = {event["level"] for event in events if event.get("event") == "commit"}
    of_files = [level for level in shape.levels.bears if level in wrote and not level.startswith("memory")]
    return not removed or any(len(shape.units_of(level, removed)) <= shape.levels.bears[level] for level in of_files)
