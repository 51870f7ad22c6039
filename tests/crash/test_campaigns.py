"""What the campaigns of `./dev campaign` go by. Their small sizes are in tests/campaigns."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import campaign
import faults
import kills
import middles
import openings
import pytest
import repairs
from backstay import guard
from backstay.mpirun import find
from protections import PROTECTIONS, Kill, Shape, files_bear, has_a_line, older_line

ROOT = Path(__file__).resolve().parents[2]
MPIRUN = shutil.which("mpirun")

needs_ulfm = pytest.mark.skipif(
    MPIRUN is None or find(MPIRUN, 2).kind != "openmpi", reason="this MPI cannot go on after the loss of a rank"
)


needs_mpirun = pytest.mark.skipif(MPIRUN is None, reason="there is no mpirun here")


@needs_mpirun
def test_a_job_whose_last_checkpoint_is_stuck_says_so_once_a_rank_that_stood_still_goes_on(tmp_path):
    """Rank 0, which speaks for all, stands still for three times the time-out; the others wait for it."""
    build = faults.built() / "tests" / "crash"
    stuck = {
        "LD_PRELOAD": str(build / "libfaulty_system.so"), "FAULTY_UNDER": str(tmp_path), "FAULTY_RANK": "-1",
        "FAULTY_KIND": "stuck", "FAULTY_FROM": "60", "FAULTY_COUNT": "1", "FAULTY_SECONDS": "60",
    }  # fmt: skip
    options = {"LEVELS": "shared", "EVERY": "2", "POLICY": "skip", "TIMEOUT": "1"}
    launch = kills.Launch(build / "stepper", ["400"], tmp_path, options, variables=stuck)
    while launch.running() and launch.in_time() and b"hash" not in os.pread(launch.out.fileno(), 1000, 0):
        time.sleep(0.005)
    rank_0 = guard.rank_processes(launch.run_id)[0]
    guard.send([rank_0], signal.SIGSTOP)
    time.sleep(3)
    assert launch.running()
    guard.send([rank_0], signal.SIGCONT)
    ended = launch.end()
    assert ended.status not in (0, 124), ended.out + ended.err
    assert "writing the last checkpoint was not done within 1.00 s (option timeout)" in ended.err


STUCK_AT_THE_END = """
import atexit, sys, time
if sys.argv[1] != "alone": from mpi4py import MPI
if sys.argv[1] == "late" and MPI.COMM_WORLD.rank == 0:
    atexit.register(lambda: MPI.Finalize())  # behind what is registered from here on
    MPI.COMM_SELF.Set_attr(MPI.Comm.Create_keyval(delete_fn=lambda *_: time.sleep(30)), 1)
import numpy
import backstay
u = numpy.zeros(1000)
with backstay.Session(**({"comm": False} if sys.argv[1] == "alone" else {})) as session:
    session.protect("u", u)
    session.resume()
    all_ranks = session.comm.Dup() if sys.argv[1] == "spares" else None
    for step in range(100):
        u[:] = step
        session.checkpoint()
if all_ranks is not None:  # it is no loss that storage is stuck
    time.sleep(0.2)
    u[0] = all_ranks.allreduce(u[0]) / all_ranks.size
print("result", u[0], flush=True)
"""


SPARED = ["spares", "late"]  # late: MPI_Finalize does not end on rank 0, nor on those who wait for it there


@pytest.mark.parametrize(
    "way",
    ["alone", pytest.param("mpi", marks=needs_mpirun), *(pytest.param(way, marks=needs_ulfm) for way in SPARED)],
)
def test_a_process_whose_last_checkpoint_is_not_written_ends_with_another_status_than_0(tmp_path, way):
    """Of several ranks the storage of one is stuck. MPI is the program's own, which ends it as ever."""
    program = tmp_path / "program.py"
    program.write_text(STUCK_AT_THE_END)
    options = {"DIR": str(tmp_path), "LEVELS": "shared", "EVERY": "1", "POLICY": "skip", "TIMEOUT": "1"}
    variables = {
        "LD_PRELOAD": str(faults.built() / "tests" / "crash" / "libfaulty_system.so"),
        "FAULTY_UNDER": str(tmp_path / "shared" / "line-"), "FAULTY_RANK": "0" if way == "alone" else "2",
        "FAULTY_KIND": "stuck", "FAULTY_FROM": "0", "FAULTY_COUNT": "1", "FAULTY_SECONDS": "60",
    }  # fmt: skip
    ranks, limit = 1 if way == "alone" else kills.RANKS, 50
    if way == "alone":
        variables |= {"PMI_RANK": "0"} | {f"BACKSTAY_{name}": value for name, value in options.items()}
        done = subprocess.run(
            [sys.executable, program, way], env=os.environ | variables, capture_output=True, text=True, timeout=limit
        )
        ended = kills.Ended(done.returncode, done.stdout, done.stderr)
    else:
        options |= {"SPARES": "1"} if way in SPARED else {}
        processes = ranks + (way in SPARED)
        words = [str(program), way]
        ended = kills.Launch(Path(sys.executable), words, tmp_path, options, processes, limit, variables).end()
    assert ended.out.count("result 99.0") == ranks, ended.out + ended.err
    assert "writing the last checkpoint was not done within 1.00 s (option timeout)" in ended.err
    assert way != "late" or "MPI_Finalize did not end within the option timeout" in ended.err
    assert ended.status not in (0, 124), ended.err


@pytest.mark.parametrize("program", ["tests/crash/looper 100", "apps/clover3d/clover3d_fortran"], ids=["c", "fortran"])
def test_so_does_one_in_c_or_fortran(tmp_path, program):
    if not (faults.built() / program.split()[0]).exists():
        pytest.skip("it is not built")
    stuck = {
        "LD_PRELOAD": str(faults.built() / "tests" / "crash" / "libfaulty_system.so"), "OMPI_COMM_WORLD_RANK": "0",
        "FAULTY_UNDER": str(tmp_path / "shared" / "line-"), "FAULTY_KIND": "stuck", "FAULTY_FROM": "0",
        "FAULTY_COUNT": "1", "FAULTY_SECONDS": "60",
    }  # fmt: skip
    options = {"DIR": str(tmp_path), "LEVELS": "shared", "EVERY": "1", "POLICY": "skip", "TIMEOUT": "1"}
    environment = os.environ | stuck | {f"BACKSTAY_{name}": value for name, value in options.items()}
    environment |= {"LOOPER_LAST_WORDS": "1"}
    words = [faults.built() / program.split()[0], *program.split()[1:]]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert "writing the last checkpoint was not done within 1.00 s (option timeout)" in done.stderr
    assert done.returncode == 1 and ("sum " in done.stdout or "of 100 steps" in done.stdout), done
    assert "fortran" in program or done.stdout.endswith("last words\n"), "the rest of its exit is the program's"


@needs_mpirun
def test_a_damaged_line_is_found_between_the_launches(tmp_path):
    ended = kills.Launch(
        faults.built() / "tests" / "crash" / "stepper", ["40"], tmp_path, kills.MIXES["one_file"]
    ).end()
    assert ended.status == 0 and faults.damage_in(tmp_path) == [], ended.err
    file = max(tmp_path.glob("shared/line-*/*.h5"))
    with open(file, "r+b") as opened:
        opened.seek(-100, os.SEEK_END)
        byte = opened.read(1)[0]
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([byte ^ 1]))
    assert str(file) in faults.damage_in(tmp_path)[0]


@needs_mpirun
def test_what_one_node_has_retired_and_another_could_not_is_no_damage(tmp_path):
    """A disk became read-only between the one and the other. By the copies that are left the line is whole."""
    mix = kills.MIXES["partner_shared"] | {"KEEP": "3", "POLICY": "wait"}
    ended = kills.Launch(faults.built() / "tests" / "crash" / "stepper", ["40"], tmp_path, mix).end()
    assert ended.status == 0 and faults.damage_in(tmp_path) == [], ended.err
    there = faults.lines.read_lines(faults.lines.open_directory(tmp_path), "partner")
    whole = [line for line in there if line.whole]
    oldest, newer = (f"line-{line.number:08}" for line in (whole[2], whole[1]))
    (tmp_path / "node-0" / "partner" / oldest / "manifest").unlink()
    assert faults.damage_in(tmp_path) == []
    shutil.rmtree(tmp_path / "node-0" / "partner" / oldest)
    assert faults.damage_in(tmp_path) == []
    (tmp_path / "node-0" / "partner" / newer / "manifest").unlink()  # of one that is kept
    assert len(faults.damage_in(tmp_path)) == 1
    shutil.rmtree(tmp_path / "node-0" / "partner" / newer)
    assert len(faults.damage_in(tmp_path)) == 4
    file = next(tmp_path.glob(f"node-1/partner/{oldest}/rank-*.h5"))
    os.truncate(file, 100)
    assert any(str(file) in sentence for sentence in faults.damage_in(tmp_path))


def test_what_a_job_that_is_launched_again_saved_before_is_told_from_what_it_saved_later():
    start, repair, commit = {"event": "start", "repairs": 0}, {"event": "start", "repairs": 1}, {"event": "commit"}
    first = [start, repair, commit]
    assert openings.of_the_first_launch([*first, start, commit]) == openings.of_the_first_launch(first) == first


OPENS = """
import sys, time
from pathlib import Path
from mpi4py import MPI
import backstay
rank = MPI.COMM_WORLD.rank
Path(sys.argv[1], f"opens.{rank}").touch()
if rank == 0: time.sleep(2)
with backstay.Session(timeout=3) as session:
    print("open", session.rank, flush=True)
"""


@needs_mpirun
def test_a_job_that_is_suspended_as_a_whole_does_not_wait_meanwhile(tmp_path):
    """The others wait for rank 0, all are stopped for twice the option timeout, and it comes then."""
    (tmp_path / "opens.py").write_text(OPENS)
    options = {"LEVELS": "memory", "TIMEOUT": "3"}
    launch = kills.Launch(Path(sys.executable), [str(tmp_path / "opens.py"), str(tmp_path)], tmp_path, options)
    while launch.running() and launch.in_time() and len(list(tmp_path.glob("opens.?"))) < kills.RANKS:
        time.sleep(0.01)
    time.sleep(0.2)
    ranks = guard.rank_processes(launch.run_id)
    assert len(ranks) == kills.RANKS
    for number in (signal.SIGSTOP, signal.SIGCONT):
        guard.send([*ranks.values()], number)
        time.sleep(6 if number == signal.SIGSTOP else 0)
    ended = launch.end()
    assert (ended.status, ended.out.count("open")) == (0, kills.RANKS), ended.out + ended.err


def lines_of(*levels_and_lines):
    """Events of a session that was opened at 0 s and wrote these, with lines of static regions between."""
    lines = [{"event": "commit", "line": line, "level": level} for level, line in levels_and_lines]
    static = {"event": "commit", "line": 99, "level": "partner-static"}
    return [{"event": "fresh", "time": 0}, static, *lines, static]


def at(time, *numbers):
    return Kill(time, time, frozenset(numbers))


def back(time, line):
    return {"event": "resume", "time": time, "line": line}


IN_RACKS, IN_LEVELS = "local by racks", "memory, memory2"
IN_BOTH = "local, local2 by racks"


@pytest.mark.parametrize(
    ("protection", "kills", "line", "wrong"),
    [
        ("partner", [at(1, 2)], 7, None),
        ("partner", [at(1, 2)], 6, (1, 7, "partner")),
        ("partner", [at(1, 2)], 0, (1, 7, "partner")),
        ("partner", [], 6, (0, 7, "partner")),
        ("partner", [at(1, 2), at(1, 3)], 6, None),
        ("partner", [at(1, 5), at(1, 3)], 6, (1, 7, "partner")),
        ("partner", [at(1, 2), at(1, 5), at(1, 6)], 6, None),  # the spare may have come in
        ("partner", [at(1, 2), at(3, 3)], 6, (1, 7, "partner")),
        ("memory rs(2,2)", [at(1, 2, 3)], 6, (2, 7, "memory")),
        (IN_RACKS, [at(1, 2, 3)], 6, (1, 7, "local")),
        (IN_RACKS, [at(1, 1), at(1, 2)], 6, None),
        (IN_LEVELS, [at(1, 1)], 6, (1, 7, "memory")),
        (IN_LEVELS, [at(1, 1), at(1, 2)], 6, None),
        (IN_LEVELS, [at(1, 1), at(1, 2)], 5, (2, 6, "memory2")),
        (IN_LEVELS, [at(1, 1, 2, 3)], 0, None),
        (IN_BOTH, [at(1, 2)], 6, (1, 7, "local")),
        (IN_BOTH, [at(1, 2, 3)], 6, None),  # two nodes
        (IN_BOTH, [at(1, 2, 3)], 5, (1, 6, "local2")),
        (IN_BOTH, [at(1, 0, 1, 2, 3)], 5, (2, 6, "local2")),
        (IN_BOTH, [at(1, 1, 3, 4)], 0, None),
    ],
)  # fmt: skip
def test_a_repair_that_goes_back_further_than_it_has_to_is_found(protection, kills, line, wrong):
    """Processes 0 to 4 work, 5 and 6 wait; coming back at 2 s."""
    level, *others = PROTECTIONS[protection].bears
    events = [*lines_of(*((other, 6) for other in others), (level, 7)), back(2, line)]
    said = (
        "came back from line {} after {} losses, and line {} was committed at {}".format(line, *wrong) if wrong else ""
    )
    assert older_line(events, kills, Shape(5, 2, protection)) == said


def test_losses_count_from_the_opening_of_the_session_that_wrote_the_line():
    shape, kills = Shape(5, 2, "partner"), [at(1, 2), at(4, 3)]
    lost = [*lines_of(("partner", 7)), back(2, 7)]
    renewed = [*lost, {"event": "commit", "line": 8, "level": "partner"}]
    assert older_line([*lost, back(5, 6)], kills, shape) == ""
    assert "line 8 was committed" in older_line([*renewed, back(5, 7)], kills, shape)
    # What was tried and could not be put back is not asked for again.
    assert older_line([*lines_of(("partner", 7)), back(5, 6), back(6, 6)], kills, shape) == ""


def test_a_job_may_say_that_no_line_is_left_only_if_every_level_has_lost_more_than_it_bears():
    shape, both = Shape(5, 2, IN_LEVELS), lines_of(("memory2", 6), ("memory", 7))
    assert has_a_line(both, [at(1, 1, 2)], shape) and not has_a_line(both, [at(1, 1, 2, 3)], shape)
    assert not has_a_line(lines_of(("memory", 7)), [at(1, 1, 2)], shape)  # the other level had no line yet
    assert has_a_line([], [at(1, 1)], shape)
    assert not has_a_line([*both, back(2, 0)], [at(1, 1, 2, 3)], shape)
    racks, files = Shape(5, 2, IN_BOTH), lines_of(("local2", 6), ("local", 7))
    assert has_a_line(files, [at(1, 0, 1, 2, 3)], racks) and not has_a_line(files, [at(1, 1, 3, 4)], racks)
    assert has_a_line([], [at(1, 1)], racks) and not has_a_line([], [at(1, 1, 2)], racks)


def test_who_is_left_on_one_node_has_no_parity():
    shape, kills = Shape(4, 1, "memory, two a node", shrink=True), [at(1, 2, 3), at(3, 4), at(5, 0)]  # 0, 1; 2, 3; 4
    of_three = [*lines_of(), back(2, 0), {"event": "commit", "line": 4, "level": "memory"}]
    of_two = [*of_three, back(4, 4), {"event": "commit", "line": 5, "level": "memory"}]
    assert has_a_line(of_three, kills[:2], shape) and "line 4" in older_line([*of_three, back(4, 3)], kills, shape)
    assert not has_a_line(of_two, kills, shape) and older_line([*of_two, back(6, 4)], kills, shape) == ""
    assert has_a_line(of_two, kills, dataclasses.replace(shape, shrink=False))


def test_files_are_lost_with_more_directories_than_a_level_bears():
    shape, lines = Shape(5, 2, "local, local2"), lines_of(("local2", 6), ("local", 7))
    gone = [Kill(1, 1, frozenset({node}), frozenset({node})) for node in range(3)]
    assert files_bear(lines, gone[:2], shape) and not files_bear(lines, gone, shape)
    assert not files_bear(lines_of(("local", 7)), gone[:2], shape)
    assert files_bear(lines, [at(1, 0, 1, 2, 3, 4)], shape)  # processes alone
    racks = Shape(5, 2, IN_BOTH)
    two, third = Kill(1, 1, frozenset(range(4)), frozenset(range(4))), Kill(1, 1, frozenset({5}), frozenset({5}))
    assert files_bear(lines, [two], racks) and not files_bear(lines, [two, third], racks)
    assert not files_bear(lines_of(("local", 7)), [two], racks) and files_bear(lines_of(("local", 7)), [third], racks)


def test_a_rack_is_two_nodes_and_the_last_may_be_one():
    shape = Shape(4, 1, IN_RACKS)
    assert shape.options()["LOCAL_UNIT"] == "nodes:0,1/2,3/4"
    assert [shape.rack_of(number) for number in (0, 3, 4)] == [{0, 1}, {2, 3}, {4}]
    assert [shape.units_of("local", [number]) for number in range(5)] == [{0}, {0}, {2}, {2}, {4}]
    both = Shape(5, 1, IN_BOTH)
    assert both.options()["LOCAL2_UNIT"] == "nodes:0,1/2,3/4,5" and "LOCAL_UNIT" not in both.options()
    assert both.units_of("local2", range(4)) == {0, 2} and both.units_of("local", range(4)) == {0, 1, 2, 3}


def test_units_of_ranks_are_several_on_a_node():
    shape = Shape(5, 2, "memory by ranks")
    assert shape.nodes == 3 and shape.options()["MEMORY_UNIT"] == "rank"
    assert shape.on_nodes({0}) == {0, 1, 2} and shape.units_of("memory", [2]) == {2}


@pytest.mark.parametrize("found", [[], ["a wrong byte", "a hang"]])
def test_the_last_line_of_a_campaign_and_its_status_tell_whether_it_is_clean(found, monkeypatch, capsys):
    monkeypatch.setattr(faults, "run_campaign", lambda large, seed: campaign.Outcome(f"{large} {seed}", found))
    status = campaign.main(["faults", "--large", "--seed", "7"])
    said = capsys.readouterr()
    command = "./dev campaign faults --large --seed 7"
    verdict = f"2 FAILURES (repeat with: {command})" if found else "clean"
    assert status == (1 if found else 0) and said.out == f"{command}: True 7: {verdict}, 0 s\n"
    assert said.err == "".join(f"failure {number}: {what}\n" for number, what in enumerate(found, 1))


def test_processes_that_mpi_ended_by_itself_are_accepted_and_told(monkeypatch):
    def go(run, *_):
        run.kills, run.lost = [at(1, 0)], 1 + getattr(run, "of_a_spare", 0)
        return kills.Ended(0, "", f"backstay: this process ends {repairs.GIVEN_UP}, with code -1\n"), ""

    for module in (repairs, openings, middles):
        monkeypatch.setattr(module.Run, "go", go)
    monkeypatch.setattr(repairs.Undisturbed, "of", lambda *_: ("", 1.0))
    monkeypatch.setattr(middles, "undisturbed", str)
    programs = repairs.applications(repairs.built(), 1)
    told = repairs.told(repairs.campaign(repairs.Choice(programs), 2, seed=1))
    assert "0 processes crashed inside MPI, 2 were ended by MPI itself" in told
    said = "; 2 processes were ended by MPI itself, or crashed inside it"
    assert openings.told(openings.campaign(programs, 2, seed=1)).endswith(said)
    assert middles.told(middles.campaign(2, seed=1)).endswith(said)


@needs_ulfm
@pytest.mark.parametrize(
    "kind",
    [
        ["--shrink", "--runs", "3"],
        ["--runs", "3", "--protection", "memory, memory2", "--protection", "local, local2"],
        ["--runs", "3", "--protection", IN_RACKS, "--protection", "memory by ranks", "--protection", IN_BOTH],
    ],
    ids=["fewer ranks", "levels of a kind", "units"],
)
def test_random_kills_end_bit_identical_or_for_a_stated_reason(kind, capsys):
    assert repairs.main([*kind, "--steps", "600", "--seed", "3"]) == 0, capsys.readouterr().err


@needs_ulfm
def test_a_job_that_loses_processes_as_it_opens_is_launched_again(capsys):
    assert openings.main(["--runs", "2", "--seed", "1"]) == 0, capsys.readouterr().err


@needs_ulfm
def test_processes_that_die_in_the_middle_of_a_call_on_files_are_replaced(capsys):
    assert middles.main(["--runs", "6", "--seed", "1"]) == 0, capsys.readouterr().err
