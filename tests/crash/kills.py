"""Kills a simulation at random moments while it writes checkpoints, and requires that it always comes back.

    python tests/crash/kills.py --runs 50 --seed 1              # 50 kills for each mix of levels
    python tests/crash/kills.py --runs 5 --mix partner,one_file

A history: the simulation starts, is killed at a random moment (one rank; or, where a partner keeps copies or a group
parity, every second time all ranks of a node, whose directory is removed as well), is launched again, and so on; the
last launch runs to its end. After each kill the relaunch must resume from a line that is not older than the newest one
whose commit stood in events.jsonl before the kill, at a level that survives such a kill; once there was one, "fresh" is
a failure, and so is every launch that does not end in time, and any end in another hash than that of an undisturbed
run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from backstay import guard  # noqa: E402 - found only with the line above

RANKS, NODES = 4, 2
LIMIT = 60  # seconds for one launch; it needs a few
CRASH = "*** Process received signal ***"  # Open MPI says so of a process that crashes, not of one that is killed

MIXES = {
    "local": {"LEVELS": "local", "EVERY": "2"},
    "memory_local": {"LEVELS": "memory,local", "MEMORY_EVERY": "1", "LOCAL_EVERY": "2"},
    "partner": {"LEVELS": "partner", "EVERY": "2"},
    "file_per_rank": {"LEVELS": "shared", "SHARED_LAYOUT": "file-per-rank", "EVERY": "2"},
    "file_per_node": {"LEVELS": "shared", "SHARED_LAYOUT": "file-per-node", "EVERY": "2"},
    "one_file": {"LEVELS": "shared", "SHARED_LAYOUT": "one-file", "EVERY": "2"},
    "partner_shared": {"LEVELS": "partner,shared", "PARTNER_EVERY": "2", "SHARED_EVERY": "7"},
    "parity": {"LEVELS": "local", "EVERY": "2", "NODES": "4", "LOCAL_REDUNDANCY": "rs(3,1)"},
}
# The level of a mix whose lines outlive the loss of a node.
OUTLIVES_A_NODE = {"partner": "partner", "partner_shared": "partner", "parity": "local"}


def nodes_of(mix: str) -> int:
    return int(MIXES[mix].get("NODES", NODES))


@dataclass
class Ended:
    status: int
    out: str
    err: str
    printed: float = 0.0  # time.time() of the last words on stdout

    def line(self, word: str) -> list[str] | None:
        """The words of the line of stdout that begins with `word`."""
        return next((words for words in map(str.split, self.out.splitlines()) if words[:1] == [word]), None)


@dataclass
class Tally:
    kills: int = 0
    node_kills: int = 0
    resumes: int = 0
    fresh: int = 0
    ends: int = 0
    failures: list[str] = field(default_factory=list)


class Countdown:
    """Seconds in which this process looks: where the whole machine stands still, nothing is late. What it sleeps by
    itself for longer does not count, either, as between SIGSTOP and SIGCONT: the bound is later by that."""

    longest_gap = 2.0  # between two looks, seconds; what is longer counts as that

    def __init__(self, seconds: float):
        self.left, self.skipped = seconds, 0.0
        self.seen = time.monotonic()

    def is_over(self) -> bool:
        gap = time.monotonic() - self.seen
        self.seen += gap
        self.left -= min(gap, self.longest_gap)
        self.skipped += max(0.0, gap - self.longest_gap)
        return self.left <= 0

    def skip(self) -> None:
        """What passed since the last look does not count."""
        self.skipped += time.monotonic() - self.seen
        self.seen = time.monotonic()


class Launch:
    """One start of the simulation, under a mark by which all of its processes are found."""

    def __init__(
        self,
        program: Path,
        words: list[str],
        directory: Path,
        options: dict[str, str],
        processes: int = RANKS,
        limit: float = LIMIT,
        variables: dict[str, str] | None = None,
    ):
        self.run_id = f"kills-{os.getpid()}-{time.monotonic_ns()}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
        options = {"DIR": str(directory), "NODES": str(NODES), "TIMEOUT": str(LIMIT), **options}
        environment |= {f"BACKSTAY_{name}": value for name, value in options.items()}
        environment |= {guard.MARK: self.run_id, "OMPI_MCA_mpi_yield_when_idle": "1", **(variables or {})}
        # Of its own, because what a killed launcher leaves keeps a later one with its process id from starting.
        self.scratch = tempfile.TemporaryDirectory(prefix="kills-")
        environment |= {"PRTE_MCA_prte_local_tmpdir_base": self.scratch.name}
        # Shared memory, too: Open MPI tells jobs at once apart by 16 bits there; two with the same ones seem to crash.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.shared_memory = tempfile.TemporaryDirectory(prefix="kills-", dir=memory)
        environment |= {"OMPI_MCA_btl_sm_backing_directory": self.shared_memory.name}
        mpirun = shutil.which("mpirun") or shutil.which("mpiexec")
        if not mpirun:
            raise SystemExit("kills.py: no mpirun is on PATH")
        flags = ["--oversubscribe", "--bind-to", "none"] if "Open MPI" in version_of(mpirun) else []
        flags += ["--allow-run-as-root"] if flags and os.geteuid() == 0 else []
        flags += ["--with-ft", "ulfm"] if "SPARES" in options else []
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        command = [mpirun, *flags, "-n", str(processes), str(program), *words]
        self.process = subprocess.Popen(command, env=environment, stdout=self.out, stderr=self.err)
        self.time_left, self.looks_stuck = Countdown(limit), limit / 2  # before the session's own time-out
        self.where = ""

    def running(self) -> bool:
        return self.process.poll() is None

    def in_time(self) -> bool:
        return not self.time_left.is_over()

    def kill(self, ranks: set[int]) -> bool:
        """SIGKILL to these ranks; False if none of them is there any more."""
        found = guard.rank_processes(self.run_id)
        guard.send([pid for rank, pid in found.items() if rank in ranks], 9)
        return any(rank in ranks for rank in found)

    def _wait(self) -> int:
        """The launcher's status; 200 where it does not end although all ranks have: prterun of Open MPI 5.0 sometimes
        waits for a lock of its own, and `backstay run` ends it then. A launcher of which no rank was
        seen may be slow to start any."""
        gone, began = None, False
        while self.in_time():
            try:
                return self.process.wait(0.5)
            except subprocess.TimeoutExpired:
                there = bool(guard.rank_processes(self.run_id))
                began = began or there
                gone = None if there else gone or time.monotonic()
            if not self.where and self.time_left.left < self.looks_stuck:
                self.where = self._stacks()
            if gone and time.monotonic() - gone > (5 if began else 20):
                return 200
        raise subprocess.TimeoutExpired("mpirun", LIMIT)

    def _stacks(self) -> str:
        """The processes stand still while they are looked at."""
        self.time_left.is_over()
        uncounted = self.time_left.skipped
        stacks = stacks_of(self.run_id)
        self.time_left.skip()
        return f"{self.where}\nseconds that do not count, as nobody looked for longer than 2: {uncounted:.1f}{stacks}"

    def end(self) -> Ended:
        """Waits for the end; what is late is killed and has status 124. At the end of `err` is where the processes of a
        launch were that did not end, or not in half of the time: the session's own time-out may end it later."""
        try:
            status = self._wait()
        except subprocess.TimeoutExpired:
            status, self.where = 124, self._stacks()
        guard.end_all(self.run_id)
        self.process.wait()
        self.scratch.cleanup()
        self.shared_memory.cleanup()
        printed = os.fstat(self.out.fileno()).st_mtime
        texts = []
        for stream in (self.out, self.err):
            stream.seek(0)
            texts.append(stream.read())
            stream.close()
        return Ended(status, texts[0], texts[1] + self.where, printed)


def stacks_of(run_id: str) -> str:
    """Where each process of a run is that does not end, as far as a debugger is there to tell."""
    processes = guard.job_processes(run_id)
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    out = f"\nload averages of this machine with {os.cpu_count()} cores: {load}\n"
    command = ["gdb", "-batch", "-ex", "thread apply all bt 16", "-p"]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    there = processes if shutil.which("gdb") else {}
    debuggers = {pid: subprocess.Popen([*command, str(pid)], **piped) for pid in there}
    limit = Countdown(30)
    for pid, environment in processes.items():
        rank = environment.get("OMPI_COMM_WORLD_RANK", "-")
        out += f"\nprocess {pid}, rank {rank}, {state_of(pid)}, had not ended\n"
        if debugger := debuggers.get(pid):
            told = told_by(debugger, limit)
            out += "\n".join(line[:160] for line in told.splitlines() if line.startswith(("#", "Thread")))
    return out


def told_by(debugger: subprocess.Popen, limit: Countdown) -> str:
    while not limit.is_over():
        try:
            return debugger.communicate(timeout=0.5)[0]
        except subprocess.TimeoutExpired:
            pass
    debugger.kill()
    return debugger.communicate()[0] + "\n# the debugger did not come to an end"


def state_of(pid: int) -> str:
    """As /proc has it: sleeping, running, stopped."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "gone"
    return next((line for line in status.splitlines() if line.startswith("State:")), "State: unknown")


def version_of(mpirun: str) -> str:
    return subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout


def events_of(directory: Path) -> list[dict]:
    """What events.jsonl says; a last line that a kill has torn is left out."""
    events = []
    try:
        lines = (directory / "events.jsonl").read_text().splitlines()
    except OSError:
        return events
    for line in lines:
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


def newest_committed(directory: Path, levels: set[str]) -> int:
    """The newest line committed at one of these levels; 0 for none."""
    commits = [e for e in events_of(directory) if e.get("event") == "commit" and e.get("level") in levels]
    return max((int(e["line"]) for e in commits), default=0)


def started(launch: Launch, directory: Path, starts: int) -> bool:
    """Waits until the session of this launch is open."""
    while launch.running() and launch.in_time():
        if sum(e.get("event") == "start" for e in events_of(directory)) > starts:
            return True
        time.sleep(0.005)
    return False


class History:
    """Kills and relaunches in one directory, until the last launch runs to its end."""

    def __init__(
        self, program: Path, words: list[str], mix: str, expected_hash: str, chance: random.Random, tally: Tally
    ):
        self.program, self.words, self.mix, self.expected = program, words, mix, expected_hash
        self.chance, self.tally = chance, tally
        self.committed = 0  # must come back, or something newer
        self.lost: int | None = None  # the node that was lost last
        self.newest_when_lost = 0  # the newest line by then, at the level that outlives such a loss
        self.outliving = {OUTLIVES_A_NODE[mix]} if mix in OUTLIVES_A_NODE else set()

    def run(self, directory: Path, kills: int) -> None:
        for _ in range(kills):
            launch = Launch(self.program, self.words, directory, MIXES[self.mix])
            if not self._kill_once(launch, directory):
                return
        launch = Launch(self.program, self.words, directory, MIXES[self.mix])
        self._check_end(launch.end())

    def _kill_once(self, launch: Launch, directory: Path) -> bool:
        """One kill; False when the history is over, because the simulation had ended before or something failed."""
        starts = sum(e.get("event") == "start" for e in events_of(directory))
        if not started(launch, directory, starts):
            self._fail("the simulation did not start in time", launch.end())
            return False
        time.sleep(self.chance.uniform(0, 0.8) ** 2)  # early moments, resume among them, more often than late ones
        node = self._node_to_lose(directory) if self.outliving and self.chance.random() < 0.5 else None
        ranks = {self.chance.randrange(RANKS)} if node is None else ranks_of(node, nodes_of(self.mix))
        hit = launch.kill(ranks)
        ended = launch.end()
        if ended.status == 124:
            self._fail("the launch did not end after a rank was killed", ended)
            return False
        if not hit:  # it was over already
            self._check_end(ended)
            return False
        self._check_beginning(ended, may_be_silent=True)
        self.tally.kills += 1
        survives = {"local", "partner", "shared"}
        if node is not None:
            self.tally.node_kills += 1
            self.lost = node
            self.newest_when_lost = newest_committed(directory, self.outliving)
            shutil.rmtree(directory / f"node-{node}", ignore_errors=True)
            survives = self.outliving | {"shared"}
        # Lines of a level that did not survive count no more, but what came back before must come back again.
        self.committed = max(self.committed if node is None else 0, newest_committed(directory, survives))
        return True

    def _node_to_lose(self, directory: Path) -> int:
        """Any; but while what a lost one held has not been made again, that one: one loss is what is borne."""
        if self.lost is not None and newest_committed(directory, self.outliving) == self.newest_when_lost:
            return self.lost
        return self.chance.randrange(nodes_of(self.mix))

    def _check_beginning(self, ended: Ended, may_be_silent: bool = False) -> None:
        """The launch came back from no older line than it had to. Killed early enough, it may not have said so."""
        if CRASH in ended.err:
            self._fail("a process that nobody killed has crashed", ended)
        resumed = ended.line("resumed")
        if resumed:
            self.tally.resumes += 1
            if int(resumed[2]) < self.committed:
                self._fail(f"resumed from line {resumed[2]}, although line {self.committed} was committed", ended)
        elif ended.line("fresh"):
            self.tally.fresh += 1
            if self.committed:
                self._fail(f"a fresh start, although line {self.committed} was committed", ended)
        elif not may_be_silent:
            self._fail("neither resumed nor fresh", ended)

    def _check_end(self, ended: Ended) -> None:
        self._check_beginning(ended)
        self.tally.ends += 1
        if ended.status != 0 or ended.line("hash") != ["hash", self.expected]:
            self._fail(f"the last launch ended with status {ended.status} and {ended.line('hash')}", ended)

    def _fail(self, what: str, ended: Ended) -> None:
        self.tally.failures.append(f"{self.mix}: {what}\n{ended.out}{ended.err[-3000:]}")


def ranks_of(node: int, nodes: int) -> set[int]:
    return {rank for rank in range(RANKS) if rank * nodes // RANKS == node}


def undisturbed_hash(program: Path, words: list[str], directory: Path) -> str:
    ended = Launch(program, words, directory, {"LEVELS": "memory", "EVERY": "100000"}).end()
    words = ended.line("hash")
    if ended.status != 0 or words is None:
        raise SystemExit(f"kills.py: the undisturbed run ended with status {ended.status}\n{ended.out}{ended.err}")
    return words[1]


Hashes = dict[tuple[str, ...], str]


def sizes(steps: int) -> list[list[str]]:
    """What stepper is given: four times in five 200 KiB a rank, else 6 MiB, in fewer steps."""
    return [[str(steps)]] * 4 + [[str(steps // 8), "resume", "250000"]]


def undisturbed(program: Path, steps: int) -> Hashes:
    out: Hashes = {}
    for words in sizes(steps)[3:]:
        with tempfile.TemporaryDirectory(prefix="backstay-kills.") as directory:
            out[tuple(words)] = undisturbed_hash(program, words, Path(directory))
    return out


def campaign(program: Path, mix: str, runs: int, steps: int, seed: int, kills_each: int, expected: Hashes) -> Tally:
    """Histories of `kills_each` kills, until there were `runs` of them or something failed."""
    tally, chance = Tally(), random.Random(f"{seed} {mix}")
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    while tally.kills < runs and not tally.failures:
        directory = Path(tempfile.mkdtemp(prefix="backstay-kills.", dir=place))
        words = chance.choice(sizes(steps))
        history = History(program, words, mix, expected[tuple(words)], chance, tally)
        history.run(directory, min(kills_each, runs - tally.kills))
        if tally.failures:
            tally.failures[-1] += f"\nits directory is kept: {directory}"
        else:
            shutil.rmtree(directory)
    return tally


def parse(arguments: list[str] | None) -> argparse.Namespace:
    build = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "dev"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="kills for each mix")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mix", default=",".join(MIXES), help="list of " + ", ".join(MIXES))
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--kills-each", type=int, default=5, help="kills in one history")
    parser.add_argument("--program", type=Path, default=build / "tests" / "crash" / "stepper")
    options = parser.parse_args(arguments)
    unknown = set(options.mix.split(",")) - set(MIXES)
    if unknown:
        parser.error(f"there is no mix {unknown.pop()}; there are {', '.join(MIXES)}")
    if not options.program.exists():
        parser.error(f"{options.program} is missing: build the target stepper, or name it with --program")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    expected = undisturbed(options.program, options.steps)
    failed = 0
    for mix in options.mix.split(","):
        start = time.monotonic()
        tally = campaign(options.program, mix, options.runs, options.steps, options.seed, options.kills_each, expected)
        failed += len(tally.failures)
        print(
            f"{mix:15} {tally.kills} kills ({tally.node_kills} of whole nodes)  {tally.resumes} resumed  "
            f"{tally.fresh} fresh before the first commit  {tally.ends} ended bit-identical  "
            f"{len(tally.failures)} failed  {time.monotonic() - start:.0f} s",
            flush=True,
        )
        for failure in tally.failures:
            print(failure, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
