"""`backstay advise`: what has to be saved is never told to be left out, and what is overwritten first is found."""

import sys

import pytest
from commands import backstay as command
from commands import sentence_of

pytest.importorskip("backstay._core")

from backstay import checked_access
from backstay.cli.advise import advice_of
from backstay.lines import Problem
from backstay.mpirun import LaunchError

try:
    checked_access.library()
except LaunchError:
    pytest.skip("the library that is preloaded is not built", allow_module_level=True)

# Arrays of which it is known what becomes of them after checkpoint().
KNOWN = """
import os, sys, threading
import backstay, numpy as np
run = backstay.Session(every=100) if int(sys.argv[1]) > 1 else backstay.Session(comm=False, every=100)
steps, n = int(sys.argv[2]), 20000
names = "state work constant half hole seldom idle copied received filed written threaded bytes".split()
a = {name: np.ones(n, np.uint8 if name == "bytes" else float) for name in names}
file = os.open("data", os.O_RDWR | os.O_CREAT)
os.write(file, a["state"])
for name in names:
    run.protect(name, a[name])
run.resume()
for step in range(steps):
    run.checkpoint()
    np.multiply(a["state"], 2, out=a["work"])            # overwritten, then read
    a["half"][: n // 2] = a["work"][: n // 2]            # the other half stays, and is read
    a["hole"][1:] = 3                                    # all but the first element of a page
    total = a["half"].sum() + a["hole"].sum()
    a["copied"][:] = a["constant"]                       # memcpy
    if step % 3 == 2:
        total += a["seldom"].sum()                       # every third step only
    a["seldom"][:] = 4
    os.lseek(file, 0, 0); os.readv(file, [a["filed"]])   # the kernel fills it
    os.pwrite(file, a["written"], 0)                     # the kernel reads it, then it is overwritten
    a["written"][:] = 5
    reader = threading.Thread(target=lambda: a["threaded"].sum())
    reader.start(); reader.join()
    a["threaded"][:] = 6
    a["bytes"][:] = 7
    if int(sys.argv[1]) > 1:
        run.comm.Sendrecv(a["state"], (run.comm.rank + 1) % 2, recvbuf=a["received"], source=(run.comm.rank + 1) % 2)
    a["state"] += a["work"] * 1e-3
print("sum", sum(float(x.sum()) for x in a.values()), flush=True)
"""
LIVE = {"state", "constant", "half", "hole", "seldom", "idle", "written", "threaded"}


def advise(tmp_path, monkeypatch, program, *words, ranks=1, steps=5, flags=("--json",)):
    (tmp_path / "app.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    asked = ["-n", str(ranks), "--steps", str(steps), *flags]
    return command("advise", *asked, "--", sys.executable, tmp_path / "app.py", *words)


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_is_live_is_kept_and_what_is_overwritten_is_found(tmp_path, monkeypatch, ranks):
    if ranks > 1:
        pytest.importorskip("mpi4py")
    ended = advise(tmp_path, monkeypatch, KNOWN, str(ranks), "7", ranks=ranks)
    assert ended.status == 0, ended
    found = {array["name"]: array for array in ended.json["arrays"]}
    assert {name for name in LIVE if not found[name]["save"]} == set(), found
    assert {"work", "copied"} <= {name for name in found if not found[name]["save"]}, found
    assert found["constant"]["what"] == "never written" and found["idle"]["what"] == "not touched"
    assert found["bytes"]["save"]
    assert ended.json["steps"] == 5 and ended.json["ranks"] == ranks
    assert found["work"]["bytes"] == 160000 * ranks


def test_the_table_has_a_list_to_paste_and_says_what_it_saw(tmp_path, monkeypatch):
    ended = advise(tmp_path, monkeypatch, KNOWN, "1", "4", flags=())
    assert 'run.protect("state", state);' in ended.out and 'run.protect("work"' not in ended.out, ended
    assert "Seen were 3 steps (5 were asked for) of this run, with this input, and nothing else" in ended.out


def test_what_is_overwritten_beside_other_memory_is_not_called_so(tmp_path, monkeypatch):
    """The first and last rows of an array are not protected, as halos are not: nothing is known of their pages."""
    program = KNOWN.replace("run.protect(name, a[name])", "run.protect(name, a[name][16:-16])")
    ended = advise(tmp_path, monkeypatch, program, "1", "4", flags=("--json",))
    work = next(array for array in ended.json["arrays"] if array["name"] == "work")
    assert work["save"] and work["what"] == "overwritten where seen", ended
    assert 0 < work["pages_overwritten"] < work["pages"]
    ended = advise(tmp_path, monkeypatch, program, "1", "4", flags=())
    assert "leave out?" in ended.out and 'run.protect("work", work);  // needed?' in ended.out, ended


@pytest.mark.parametrize(
    ("program", "steps", "sentence"),
    [
        ("", 4, "no session of backstay told what it saw"),
        ("import backstay; backstay.Session(comm=False).close()", 4, "has 0 whole steps"),
        (KNOWN, 0, "--steps 0: give 2 or more"),
        (KNOWN, 4, "has 1 whole step between two calls"),
    ],
)
def test_what_cannot_be_advised_is_said_in_a_sentence(tmp_path, monkeypatch, program, steps, sentence):
    ended = advise(tmp_path, monkeypatch, program, "1", "2", steps=steps, flags=())
    assert sentence in ended.err and "Traceback" not in ended.err and ended.status == 1, ended


def test_a_program_that_is_not_there_is_said(tmp_path):
    assert "nowhere" in sentence_of(command("advise", "--", tmp_path / "nowhere"))


def test_the_worst_of_the_ranks_counts():
    steps = [{"event": "observed", "rank": rank, "steps": 3, "sees": "all"} for rank in (0, 1)]

    def of(*whats):
        regions = [{"event": "observed_region", "region": "u", "what": what, "bytes": 8} for what in whats]
        return advice_of(steps + regions, "app", 0, 2)["arrays"][0]

    assert not of("overwritten first", "overwritten first")["save"]
    assert of("overwritten first", "read first")["what"] == "read first"
    assert of("overwritten first", "read first")["ranks_differ"]
    assert of("overwritten first")["what"] == "not known"  # one rank does not have it
    assert of("overwritten first", "a word of tomorrow")["save"]
    assert of("overwritten first", "overwritten where seen")["save"]
    with pytest.raises(Problem, match="1 of 2 ranks"):
        advice_of(steps[:1], "app", 0, 2)
