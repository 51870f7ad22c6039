"""`backstay run --check`: false declarations are told, and nothing else changes."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from commands import backstay as command

pytest.importorskip("backstay._core")

from backstay import checked_access
from backstay.mpirun import LaunchError

try:
    LIBRARY = checked_access.library()
except LaunchError:
    pytest.skip("the library that is preloaded is not built", allow_module_level=True)

ONE = """
import sys
import backstay, numpy as np
run = backstay.Session(comm=False, every=1)
u, f = np.ones(100000), np.ones(100000)
run.protect("u", u)
run.protect("f", f)
flux = run.declare("flux", reads="u", writes="f")
update = run.declare("update", updates="u", reads="f")
run.resume()
for step in range(3):
    run.checkpoint()
    run.compute(flux, np.multiply, u, 2, out=f if sys.argv[1] == "right" else u)
    run.compute(update, np.add, u, f, out=u)
print("sum", u.sum())
sys.exit(3 if sys.argv[1] == "fails" else 0)
"""

# Large messages into and out of regions: whole ones, halves, and many pieces at once.
MESSAGES = """
import os
import sys
import backstay, numpy as np
from mpi4py import MPI
run = backstay.Session(every=3)
comm = run.comm
rank, size = comm.rank, comm.size
n = 200000
u, f, g = (np.arange(n, dtype=float) + i + rank for i in range(3))
for name, x in (("u", u), ("f", f), ("g", g)):
    run.protect(name, x)
shift = run.declare("shift", reads="u", writes="f")
halves = run.declare("halves", updates=["f"])
add = run.declare("add", reads="f", updates="u")
pieces = run.declare("pieces", reads="u", writes="g")
run.resume()
right, left = (rank + 1) % size, (rank - 1) % size

def exchange():
    comm.Sendrecv(u, right, recvbuf=f, source=left)

def exchange_halves():
    request = comm.Isend(f[: n // 2].copy(), right)
    comm.Recv(f[n // 2 :], left)
    request.Wait()

def in_pieces():
    requests = []
    for k in range(0, n, 8192):
        requests.append(comm.Irecv(g[k : k + 8192], left, tag=k))
    for k in range(0, n, 8192):
        requests.append(comm.Isend(u[k : k + 8192], right, tag=k))
    MPI.Request.Waitall(requests)

for step in range(6):
    run.checkpoint()
    run.compute(shift, exchange)
    run.compute(halves, exchange_halves)
    run.compute(add, np.add, u, f, out=u)
    run.compute(pieces, in_pieces)
    u /= comm.allreduce(float(g.max()))
    if sys.argv[1] == "wrong":
        run.compute(add, comm.Sendrecv_replace, g, right, 0, left)
sums = [repr(float(x.sum())) for x in (u, f, g)]
os.write(1, (" ".join(["rank", str(rank), *sums]) + "\\n").encode())  # at once, as a launcher mixes what ranks write
"""


def run(tmp_path, capfd, program, *words, flags=(), ranks=1, name="checked"):
    """Status, the program's output, what was said, and the events."""
    (tmp_path / "app.py").write_text(program)
    command_line = [*flags, "-n", str(ranks), "--relaunch", "0", "-d", tmp_path / name]
    ended = command("run", *command_line, "--", sys.executable, tmp_path / "app.py", *words)
    said = capfd.readouterr()
    lines = (tmp_path / name / "events.jsonl").read_text().splitlines()
    return ended.status, sorted(said.out.splitlines()), said.err + ended.err, [json.loads(line) for line in lines]


@pytest.mark.parametrize(("way", "findings"), [("right", 0), ("wrong", 2), ("fails", 2)])
def test_what_is_false_is_told_and_the_program_goes_on(tmp_path, capfd, way, findings):
    plain = run(tmp_path, capfd, ONE, way, name="plain")
    checked = run(tmp_path, capfd, ONE, way, flags=["--check"])
    assert checked[:2] == plain[:2] and "sum" in plain[1][0]
    assert plain[0] == (3 if way == "fails" else 0)
    sentences = [
        "'flux' writes region 'u', which it does not declare: element [0] of rank 0",
        "is declared to overwrite, and does not, region 'f': element [0] of rank 0 and 99999 more",
        "it declares: reads u",
        "--check: 'flux' writes region 'u', on rank 0",
    ]
    assert all((sentence in checked[2]) == (findings > 0) for sentence in sentences), checked[2]
    assert f"check_access: 6 computations looked at, {findings} false declarations on this rank" in checked[2]
    assert f"--check: {findings} false declarations in 6 computations that were looked at" in checked[2]
    found = [event for event in checked[3] if event["event"] == "false_declaration"]
    assert {(event["computation"], event["region"]) for event in found} == (
        {("flux", "u"), ("flux", "f")} if findings else set()
    )


def test_without_the_library_changes_are_told_and_nothing_else(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("BACKSTAY_CHECK_ACCESS", "1")
    status, _, said, events = run(tmp_path, capfd, ONE, "wrong")
    assert status == 0
    assert "was not started by `backstay run --check`, so only changes" in said
    found = [event for event in events if event["event"] == "false_declaration"]
    assert [(event["fault"], event["region"]) for event in found] == [("writes", "u")]
    assert "and 99999 more" in said


@pytest.mark.parametrize("ranks", [2, 4])
def test_messages_arrive_as_without(tmp_path, capfd, ranks):
    pytest.importorskip("mpi4py")
    plain = run(tmp_path, capfd, MESSAGES, "right", ranks=ranks, name="plain")
    checked = run(tmp_path, capfd, MESSAGES, "right", flags=["--check"], ranks=ranks)
    assert checked[0] == plain[0] == 0, checked[2]
    assert checked[1] == plain[1] and len(plain[1]) == ranks
    assert not [event for event in checked[3] if event["event"] == "false_declaration"], checked[2]


def test_a_message_that_is_not_declared_is_told(tmp_path, capfd):
    pytest.importorskip("mpi4py")
    plain = run(tmp_path, capfd, MESSAGES, "wrong", ranks=2, name="plain")
    checked = run(tmp_path, capfd, MESSAGES, "wrong", flags=["--check"], ranks=2)
    assert checked[:2] == plain[:2]
    for fault in ("reads", "writes"):
        assert f"'add' {fault} region 'g', which it does not declare" in checked[2]
    assert "--check: 'add' writes region 'g', on 2 ranks" in checked[2]


def test_the_library_is_loaded_before_others(monkeypatch):
    env = checked_access.environment({"LD_PRELOAD": "mine.so", "OMPI_MCA_btl": "self,tcp"}, Path("check.so"))
    assert env["LD_PRELOAD"] == "check.so:mine.so"
    assert env["OMPI_MCA_btl"] == "self,tcp"
    assert env["OMPI_MCA_smsc"].startswith("^cma")
    assert env["GLIBC_TUNABLES"].startswith("glibc.cpu.x86_rep_movsb_threshold=")


def test_instructions_have_lines_where_the_program_was_built_with_them(tmp_path):
    assert checked_access.source_line("", 0) == ""
    assert checked_access.source_line(str(tmp_path), 5) == ""
    assert checked_access.source_line(sys.executable, 1) == ""
    assert re.fullmatch(r"|.*:\d+", checked_access.source_line(os.fspath(LIBRARY), 0x2000))


def test_a_pipe_in_place_of_the_events_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "events.jsonl")
    assert checked_access._events(tmp_path / "events.jsonl") == []


@pytest.mark.parametrize("options", ["dir=sys.argv[2]", 'name="ocean"'])
def test_sessions_that_the_program_leads_elsewhere_are_summed_up(tmp_path, capfd, options):
    program = ONE.replace("backstay.Session(", f"backstay.Session({options}, ")
    assert program != ONE
    (tmp_path / "app.py").write_text(program)
    words = ("-n", "1", "--relaunch", "0", "-d", tmp_path / "job", "--check", "--", sys.executable, tmp_path / "app.py")
    for _ in range(2):
        ended = command("run", *words, "wrong", tmp_path / "elsewhere")
        said = capfd.readouterr().err + ended.err
        assert ended.status == 0 and "--check: 'flux' writes region 'u', on rank 0" in said, said
        assert "--check: 2 false declarations in 6 computations that were looked at" in said
    ended = command("run", *words[:-2], "/bin/true")
    said = capfd.readouterr().err + ended.err
    assert "--check: 0 false declarations in 0 computations that were looked at (no session told" in said, said
