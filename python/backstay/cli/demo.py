"""`backstay demo`: a real simulation, three times: undisturbed, with a node lost and launched again, and with two
ranks lost and replaced while it runs. All must end alike, bit for bit."""

import json
import math
import os
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

import numpy as np
import typer

from ..job import Job, Kill
from ..launch import Report, run_job
from ..lines import Line, Problem, open_directory, read_lines
from ..mpirun import Launcher, LaunchError, find
from ..regions import whole_arrays
from .common import complain, plural
from .common import say as tell
from .output import require_file_name, require_outside

RANKS, NODES = 8, 4
LOST_NODE = 1
CHECKPOINTS = 12  # in a whole run
LEVELS = "partner,shared"
SPARES, LOST_RANKS = 2, (2, 5)
CFL = 1.3  # of the solver: close to its limit of 1.4, to be quick
MACH = 0.1


@dataclass(frozen=True)
class Plan:
    """What is computed, and when it is disturbed. Steps count from 0; call c of checkpoint() is at step c - 1."""

    n: int
    t_end: float
    dt: float
    every: int  # steps from one checkpoint to the next
    kill_call: int
    loss_call: int  # of the first of two ranks that are replaced
    output_every: int = 5

    @property
    def steps(self) -> int:
        return math.ceil(self.t_end / self.dt)

    def arguments(self) -> list:
        words = ["--n", self.n, "--t-end", f"{self.t_end:g}", "--cfl", CFL, "--output-every", self.output_every]
        return [str(word) for word in words]


@dataclass(frozen=True)
class Run:
    """One of the runs, once it has ended."""

    name: str
    directory: Path
    csv: Path
    report: Report
    seconds: float
    events: list

    def commits(self, level: str) -> list:
        """The calls of checkpoint() at which lines of a level were captured, those captured twice once."""
        return sorted({e["call"] for e in self._of("commit") if e.get("level") == level and "call" in e})

    def resume(self) -> Optional[dict]:
        return next(iter(self._of("resume")), None)

    def resume_call(self) -> Optional[int]:
        """The call at which the line was captured that was put back."""
        return (self.resume() or {}).get("call")

    def repairs(self) -> list:
        return self._of("repair")

    def stood_still(self) -> float:
        """Seconds from the end of the first launch, or from the first rank's coming to the repair, until all had their
        data."""
        resumed = self.resume() or {}
        if self.repairs():
            return sum(e["seconds"] for e in self.repairs()) + sum(e["seconds"] for e in self._of("resume"))
        return resumed.get("time", 0) - next((e["time"] for e in self._of("exit")), 0)

    def _of(self, kind: str) -> list:
        return [event for event in self.events if event.get("event") == kind]


@dataclass(frozen=True)
class Equal:
    """What was compared and found equal."""

    csv_bytes: int
    step: int
    regions: int
    values: int


class Failure(Exception):
    """The demo did not show what it should; the text is a sentence."""


def demo(
    apps_dir: Annotated[
        Optional[Path], typer.Option(help="Where tgv was built. [default: what is under build/]")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("build/demo"),
    n: Annotated[int, typer.Option("--n", min=16, help="Points along each side of the cube.")] = 40,
    quick: Annotated[bool, typer.Option(help="A few seconds only: a small cube, a short time.")] = False,
    picture: Annotated[Optional[Path], typer.Option(help="Write the picture here, too.")] = None,
    mpirun: Annotated[Optional[str], typer.Option(help="The launcher. [default: mpirun or mpiexec on PATH]")] = None,
) -> None:
    """A Taylor-Green vortex decays on 8 ranks. Then again, on 4 simulated nodes, one of which is lost in the middle
    with its ranks and its directory; the job launches itself again and resumes from the copies that the partners of
    that node keep. Then a third time, with two spares, and two ranks are lost, the second while the first is being
    replaced; the job goes on without a launch. All runs must give the same bytes. It ends with a picture."""
    try:
        _demo(find_tgv(apps_dir), out, make_plan(16 if quick else n, 2.0 if quick else 12.0), mpirun, picture)
    except (Failure, LaunchError, Problem) as problem:
        complain(str(problem))
        raise typer.Exit(2 if isinstance(problem, LaunchError) else 1) from None


def _demo(tgv: Path, out: Path, plan: Plan, mpirun: Optional[str], picture: Optional[Path]) -> None:
    for path in (out / "undisturbed", out / "killed", out / "repaired", *([picture] if picture else [])):
        require_outside(path)
    if picture:
        require_file_name(picture)
    launcher = find(mpirun, RANKS)
    can_repair = launcher.kind == "openmpi"
    _introduce(plan, can_repair)
    # Never skipped, however slow the disk: all runs keep checkpoints of the same steps, to be compared.
    relaunching = {"levels": LEVELS, "every": str(plan.every), "policy": "wait"}
    calm = _run("undisturbed", tgv, out, plan, launcher, relaunching)
    struck = _run("killed", tgv, out, plan, launcher, relaunching, (Kill("node", LOST_NODE, plan.kill_call),))
    _require_recovery(struck)
    equal, mended = compare(calm, struck), None
    if can_repair:
        repairing = {
            "levels": "memory,shared", "every": str(plan.every), "memory.every": str(max(1, plan.every // 5)),
            "memory.redundancy": "rs(2,2)", "policy": "wait",
        }  # fmt: skip
        first, second = LOST_RANKS
        kills = (Kill("rank", first, plan.loss_call), Kill("rank", second, None))
        mended = _run("repaired", tgv, out, plan, launcher, repairing, kills, SPARES)
        _require_repair(mended)
        compare(calm, mended)
    drawn = _draw(calm, struck, mended, plan, out / "demo.png")
    if picture:
        picture.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(drawn, picture)
    _sum_up(calm, struck, mended, plan, equal, drawn)


# ---- what is run ------------------------------------------------------------------------------------------------


def find_tgv(apps_dir: Optional[Path]) -> Path:
    """The solver, in the directory that was named or in the builds that are usual."""
    build = os.environ.get("BUILD_DIR_OF_BACKSTAY")
    usual = [Path(build) / "apps"] if build else [Path("build/release/apps"), Path("build/dev/apps")]
    places = [apps_dir] if apps_dir else usual
    for place in places:
        for path in (place / "tgv", place / "tgv" / "tgv"):
            if path.is_file() and os.access(path, os.X_OK):
                return path
    raise LaunchError(f"The simulation tgv is not in {' or '.join(map(str, places))}: build it with `./dev build`.")


def make_plan(n: int, t_end: float) -> Plan:
    """A dozen checkpoints, and the loss of a node well between two of them, past the middle."""
    dt = CFL * (2 * math.pi / n) / (1 + 1 / MACH)
    every = max(2, math.ceil(t_end / dt) // CHECKPOINTS)
    middle = every * (CHECKPOINTS // 2)
    return Plan(n, t_end, dt, every, kill_call=middle + every * 2 // 3, loss_call=middle // 2 + every // 3)


def _run(
    name: str, tgv: Path, out: Path, plan: Plan, launcher: Launcher, options: dict, kills: tuple = (), spares: int = 0,
) -> Run:  # fmt: skip
    place = _fresh_directory(out / name)
    csv = place / "curve.csv"
    progress = ["--progress"] if sys.stderr.isatty() else []
    job = Job(
        app=tgv.absolute(),
        arguments=(*plan.arguments(), "--csv", str(csv), *progress),
        launcher=launcher,
        directory=(place / "checkpoints").absolute(),
        ranks=RANKS,
        spares=spares,
        nodes=NODES + spares * NODES // RANKS,
        kills=(kills,) if kills else (),
        options=options,
        output=place / "table.txt",
    )
    tell()
    tell(f"$ {command_line(job, tgv)}", "bold")
    started = time.monotonic()
    report = run_job(job, is_last=False)
    if report.reason != "done":
        raise Failure(f"The {name} run did not end well (status {report.status}, {report.reason}): see above.")
    return Run(name, job.directory, csv, report, time.monotonic() - started, _events(job.directory))


def command_line(job: Job, tgv: Path) -> str:
    """What a user would type for this job."""
    words = ["backstay", "run", "-n", job.ranks, *(["--spares", job.spares] if job.spares else [])]
    words += ["--nodes", job.nodes, "--levels", job.options["levels"], "--every", job.options["every"]]
    for name, value in job.options.items():
        words += ["--opt", f"{name}={value}"] if name not in {"levels", "every"} else []
    words += ["--dir", _from_here(job.directory)]
    for kills in job.kills:
        words += ["--kill", ",".join(kill.text() for kill in kills)]
    return shlex.join(map(str, [*words, "--", tgv, *job.arguments]))


def _fresh_directory(place: Path) -> Path:
    """Without the results of an earlier demo; what is not a demo's is refused."""
    if place.exists():
        if any(place.iterdir()) and not (place / "checkpoints").is_dir():
            raise LaunchError(f"{place} holds something that is not a demo's: name another place with --out.")
        shutil.rmtree(place)
    try:
        place.mkdir(parents=True)
    except OSError as problem:
        raise LaunchError(f"{place} cannot be made: {problem.strerror}.") from None
    return place


def _events(directory: Path) -> list:
    lines = (directory / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


# ---- what is compared -------------------------------------------------------------------------------------------


def _require_recovery(struck: Run) -> None:
    if len(struck.report.launches) != 2:
        raise Failure(
            f"The node was not lost as planned: the job was launched {len(struck.report.launches)} times, not twice."
        )
    resumed = struck.resume()
    if not resumed:
        raise Failure("The second launch did not resume from a checkpoint but began again.")
    if resumed.get("level") != "partner":
        raise Failure(f"The second launch resumed from level {resumed.get('level')}, not from the partners' copies.")


def _require_repair(mended: Run) -> None:
    if len(mended.report.launches) != 1:
        raise Failure(
            f"The ranks were not replaced as planned: there were {len(mended.report.launches)} launches, and not one."
        )
    if sum(repair["lost"] for repair in mended.repairs()) != len(LOST_RANKS):
        raise Failure(f"{len(LOST_RANKS)} ranks were not replaced as planned: repairs {mended.repairs()}.")
    if (mended.resume() or {}).get("level") != "memory":
        raise Failure(f"The ranks went on from level {(mended.resume() or {}).get('level')}, not from memory.")


def compare(calm: Run, struck: Run) -> Equal:
    """Every byte of the curves and of the fields in the newest checkpoint that both runs have; or a Failure."""
    curves = calm.csv.read_bytes(), struck.csv.read_bytes()
    if curves[0] != curves[1]:
        raise Failure(f"The curves differ: compare {calm.csv} and {struck.csv}.")
    lines = _lines_by_step(calm), _lines_by_step(struck)
    common = set(lines[0]) & set(lines[1])
    if not common:
        steps = " and ".join(str(sorted(found)) for found in lines)
        raise Failure(f"The fields cannot be compared: the runs keep checkpoints of different steps ({steps}).")
    arrays = [whole_arrays(found[max(common)]) for found in lines]
    if set(arrays[0]) != set(arrays[1]):
        raise Failure("The checkpoints of the two runs hold different regions.")
    values = 0
    for name, array in arrays[0].items():
        mine, other = array.all(), arrays[1][name].all()
        if mine.dtype != other.dtype or mine.shape != other.shape or mine.tobytes() != other.tobytes():
            raise Failure(f"The region {name} differs between the two runs at step {max(common)}.")
        values += mine.size
    return Equal(len(curves[0]), max(common), len(arrays[0]), values)


def _lines_by_step(run: Run) -> dict:
    """Whole lines of a run by the step that they hold."""
    whole = [line for line in read_lines(open_directory(run.directory)) if line.whole]
    return {_step_of(line): line for line in whole}


def _step_of(line: Line) -> int:
    return int(np.asarray(whole_arrays(line)["step"].all()).item())


# ---- what is said -----------------------------------------------------------------------------------------------


def _introduce(plan: Plan, can_repair: bool) -> None:
    tell("A vortex decays into turbulence: the Taylor-Green vortex at Reynolds 1600, solved on", "cyan")
    tell(f"{plan.n} x {plan.n} x {plan.n} points by {RANKS} MPI ranks, from time 0 to {plan.t_end:g}.", "cyan")
    tell("First undisturbed. Then again, and in the middle node 1 of 4 is lost: its ranks are killed", "cyan")
    tell("and its directory is deleted. The job must go on by itself and give the same bytes.", "cyan")
    if can_repair:
        tell(
            "Then with two spares: two ranks are killed, the second while the first is being replaced, and the", "cyan"
        )
        tell("job goes on without being launched again.", "cyan")
    else:
        tell("(This MPI cannot replace ranks while a job runs; Open MPI 5 can.)", "cyan")


def _sum_up(calm: Run, struck: Run, mended: Optional[Run], plan: Plan, equal: Equal, drawn: Path) -> None:
    resumed, call = struck.resume(), struck.resume_call()
    seconds = f" in {resumed['seconds']:.2f} s" if "seconds" in resumed else ""
    again = f"; {plural(plan.kill_call - call, 'step')} of {plan.steps} were computed twice" if call else ""
    tell()
    tell("What happened", "bold")
    tell(f"  undisturbed   {calm.seconds:.1f} s")
    tell(f"  killed        {struck.seconds:.1f} s, with node {LOST_NODE} lost at step {plan.kill_call - 1}")
    tell(f"  resumed       from line {resumed.get('line')}, partner copies{seconds}{again}")
    if mended:
        ranks = " and ".join(map(str, LOST_RANKS))
        tell(f"  repaired      {mended.seconds:.1f} s, with ranks {ranks} lost at step {plan.loss_call - 1}")
        still = f"{mended.stood_still():.3f} s (launched again: {struck.stood_still():.2f} s, 1 s of it a pause)"
        tell(f"  stood still   {still}, from noticing the loss until all had their data")
    tell("What came out", "bold")
    tell(f"  curve         {equal.csv_bytes:,} bytes of CSV: identical", "green")
    tell(f"  fields        {equal.values:,} values in {equal.regions} regions at step {equal.step}: identical", "green")
    tell(f"  picture       {_from_here(drawn)}", "green")
    tell("Look further", "bold")
    where = _from_here(struck.directory)
    command = _command()
    tell(f"  {command} ls {where}")
    tell(f"  {command} view momentum_x {where}")


def _from_here(path: Path) -> str:
    """A path to type in this directory. With a `..` it stays as it is, for behind a link that leads elsewhere."""
    return str(path) if ".." in path.parts else os.path.relpath(path)


def _command() -> str:
    """How this command line was reached, so that what is printed can be typed."""
    return os.environ.get("COMMAND_OF_BACKSTAY") or ("backstay" if shutil.which("backstay") else "python -m backstay")


def _draw(calm: Run, struck: Run, mended: Optional[Run], plan: Plan, path: Path) -> Path:
    from . import demo_picture  # Matplotlib takes a second to load, and is for the end

    newest = max(_lines_by_step(calm).items())
    scene = demo_picture.Scene(
        calm=demo_picture.read_curve(calm.csv),
        struck=demo_picture.read_curve(struck.csv),
        dt=plan.dt,
        partner_calls=struck.commits("partner"),
        shared_calls=struck.commits("shared"),
        mended=demo_picture.read_curve(mended.csv) if mended else None,
        loss_call=plan.loss_call,
        kill_call=plan.kill_call,
        resume_call=struck.resume_call(),
        n=plan.n,
        fields={name: a.all() for name, a in whole_arrays(newest[1]).items() if a.shape == (plan.n,) * 3},
        fields_step=newest[0],
    )
    return demo_picture.draw(scene, path)
