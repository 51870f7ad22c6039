"""`backstay advise`: what has to be saved is never told to be left out, and what is overwritten first is found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import backstay as command
from commands import sentence_of

pytest.importorskip("backstay._core")

from backstay import allocated, checked_access
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


# Regions that share their first and last page with others: one to which nothing is written, and one of which the last
# element is. The first element of the array is at the begin of no page.
NEIGHBOURS = """
import backstay, numpy as np
run = backstay.Session(comm=False, every=100)
n = 5000
memory = np.ones(4 * n)
before, constant, between, but_one = (memory[i * n:(i + 1) * n] for i in range(4))
for name in "before constant between but_one".split():
    run.protect(name, globals()[name])
total = 0.0
for step in range(6):
    run.checkpoint()
    total += constant.sum() + but_one.sum()
    before[:] = step
    between[:] = total
    but_one[-1] = step
"""


def test_what_is_written_beside_an_array_that_nobody_writes_to_says_nothing_of_it(tmp_path, monkeypatch):
    ended = advise(tmp_path, monkeypatch, NEIGHBOURS)
    found = {array["name"]: array["what"] for array in ended.json["arrays"]}
    assert found == {
        "before": "overwritten first", "constant": "never written", "between": "overwritten first",
        "but_one": "read first",
    }, ended  # fmt: skip


# The name of a file ends in the page before an array; and the address of that is left where arguments could be.
NAMED = """
import ctypes
import backstay, numpy as np
run = backstay.Session(comm=False, every=100)
bytes, page, name = 40960, 4096, b"app.py"
memory = np.zeros(bytes + 3 * page, np.uint8)
begin = -memory.ctypes.data % page + 2 * page
constant = memory[begin:begin + bytes].view(float)
run.protect("constant", constant)
access = ctypes.CDLL(None).access
total = 0.0
for before in (7, 300, 4200):  # in one piece, in two, in two pages
    long_name = b"./" * ((before - 7) // 2) + name
    memory[begin - before:begin - before + len(long_name)] = list(long_name)
    for step in range(2):
        run.checkpoint()
        assert access(ctypes.c_void_p(memory.ctypes.data + begin - before), 0) == (0 if before < 4096 else -1)
        assert access(ctypes.c_void_p(page), 0) == -1
        total += constant.sum()
    memory[:begin] = 0

libc, at = ctypes.CDLL(None), ctypes.c_void_p(constant.ctypes.data)
syscall, gettid, mmap, munmap, getfl = libc.syscall, 186, 9, 11, 3
syscall.restype = ctypes.c_void_p
anonymous, length = 0x4022, ctypes.c_size_t(1 << 26)
for step in range(2):
    run.checkpoint()
    assert syscall(gettid, at, at, at, at, at) > 0  # which takes no arguments
    assert libc.fcntl(1, getfl, at) >= 0  # nor does this
    # As a library does it that watches malloc's mappings: where they may lie is a wish, with others there already.
    mapped = syscall(mmap, at, length, 0, anonymous, -1, ctypes.c_long(0))
    assert mapped > 4096 and not mapped <= constant.ctypes.data < mapped + length.value
    assert syscall(munmap, ctypes.c_void_p(mapped), length, at, at, at, at) is None
    total += constant.sum()
"""


def test_names_of_files_that_end_before_an_array_and_arguments_that_are_none_say_nothing_of_it(tmp_path, monkeypatch):
    ended = advise(tmp_path, monkeypatch, NAMED)
    assert [array["what"] for array in ended.json["arrays"]] == ["never written"], ended


def test_the_checkpoints_of_the_program_are_left_alone(tmp_path, monkeypatch):
    """It names their directory itself."""
    program = """
import backstay, numpy as np
with backstay.Session(comm=False, every=1, dir="ck", local_dir="there/node-%n", levels="local,shared") as run:
    a = np.ones(9999)
    run.protect("a", a)
    for step in range(4):
        run.checkpoint()
        a += 1
"""
    ended = advise(tmp_path, monkeypatch, program)
    assert [array["name"] for array in ended.json["arrays"]] == ["a"], ended
    assert not (tmp_path / "ck").exists() and not (tmp_path / "there").exists()


def test_a_program_with_two_sessions_is_refused(tmp_path, monkeypatch):
    """Their places are no alternatives, and their arrays are not those of each other."""
    program = """
import backstay, numpy as np
for name in "spinup", "main":
    with backstay.Session(comm=False, every=100, name=name) as run:
        a = np.ones(9999)
        run.protect(name, a)
        for step in range(3):
            run.checkpoint()
            a += 1
"""
    ended = advise(tmp_path, monkeypatch, program)
    assert ended.status == 1 and "opened 2 sessions, and what each of them saw is not told apart" in ended.json["error"]


# Its pages are given up, by a call by its number.
DROPPED = """
import ctypes
import backstay, numpy as np
run = backstay.Session(comm=False, every=100)
bytes, page = 40960, 4096
memory = np.ones(bytes + 2 * page, np.uint8)
begin = -memory.ctypes.data % page
dropped = memory[begin:begin + bytes].view(float)
run.protect("dropped", dropped)
syscall, madvise, dontneed = ctypes.CDLL(None).syscall, 28, 4
total = 0.0
for step in range(4):
    run.checkpoint()
    assert syscall(madvise, ctypes.c_void_p(dropped.ctypes.data), ctypes.c_size_t(bytes), dontneed) == 0
    total += dropped.sum()
"""


def test_of_an_array_whose_pages_are_given_up_nothing_is_known(tmp_path, monkeypatch):
    ended = advise(tmp_path, monkeypatch, DROPPED)
    assert [array["what"] for array in ended.json["arrays"]] == ["not known"], ended


def test_the_table_has_a_list_to_paste_and_says_what_it_saw(tmp_path, monkeypatch):
    ended = advise(tmp_path, monkeypatch, KNOWN, "1", "4", flags=())
    (kept,) = [line for line in ended.out.splitlines() if line.startswith("keep the calls that protect: ")]
    (gone,) = [line for line in ended.out.splitlines() if line.startswith("take out those that protect: ")]
    assert " state," in kept and "half (live 78.1 KiB of 156 KiB: [10000:20000])" in kept, ended
    assert "work" in gone and "work" not in kept and "state" not in gone, ended
    assert "arrays that are static, saved between calls, or on the stack: those are protected by hand" in ended.out
    assert "Seen were 3 steps (5 were asked for) of this run, with this input, and nothing else" in ended.out


@pytest.mark.parametrize("cut", ["[16:-16]", "[1:]", "[:-1]"])
def test_the_first_and_last_page_of_an_array_with_a_halo_are_looked_at(tmp_path, monkeypatch, cut):
    program = KNOWN.replace("run.protect(name, a[name])", f"run.protect(name, a[name]{cut})")
    ended = advise(tmp_path, monkeypatch, program, "1", "6")
    found = {array["name"]: array for array in ended.json["arrays"]}
    assert found["work"]["what"] == found["copied"]["what"] == "overwritten first", ended
    assert {name for name in LIVE if not found[name]["save"]} <= {"hole"}, found  # its hole is in the halo, perhaps


# Fields with a layer of halo, protected without it: what is live of them is known.
PARTS = """
import backstay, numpy as np
run = backstay.Session(comm=False, every=100)
n = 100
names = "inside halo_first boundary rows column range ends last_page edge_of_word".split()
a = {name: np.ones((n + 2, n + 2)) for name in names}
for name in names:
    run.protect(name, a[name][1:-1, 1:-1])
run.resume()
total = 0.0
for step in range(6):
    run.checkpoint()
    inner = {name: field[1:-1, 1:-1] for name, field in a.items()}
    inner["inside"][:] = step
    total += a["halo_first"][0].sum() + a["halo_first"][:, -1].sum()     # of which the corners only are nobody's
    inner["halo_first"][:] = step
    inner["boundary"][1:-1, 1:-1] = step                                 # the boundary stays, and is read
    total += inner["boundary"].sum()
    total += inner["rows"][7:9].sum()                                    # read, then overwritten with all others
    inner["rows"][:] = step
    total += sum(float(x) for x in inner["column"][:, 5])
    inner["column"][:] = step
    total += inner["range"][20:30, 40:60].sum()
    inner["range"][:] = step
    total += float(inner["ends"][0, 0]) + float(inner["ends"][-1, -1])   # in the first page and the last one
    inner["ends"][:] = step
    inner["last_page"][:-1] = step                                       # all but the last row, which nobody touches
    inner["edge_of_word"].view(np.uint8)[3, 3] = 1                       # one byte of one value, before the others
    inner["edge_of_word"][:] = step
print(total, flush=True)
"""


def test_what_is_live_of_an_array_is_told_to_the_element(tmp_path, monkeypatch):
    ended = advise(tmp_path, monkeypatch, PARTS, steps=4)
    assert ended.status == 0, ended
    found = {array["name"]: array for array in ended.json["arrays"]}
    assert found["inside"]["what"] == found["halo_first"]["what"] == "overwritten first", ended
    live = {name: (array["live_bytes"] // 8, array["part"]) for name, array in found.items()}
    assert live["boundary"] == (396, "[0:1, 0:100] [1:99, 0:1] [1:99, 99:100] [99:100, 0:100]")
    assert live["rows"] == (200, "[7:9, 0:100]")
    assert live["column"] == (100, "[0:100, 5:6]")
    assert live["range"] == (200, "[20:30, 40:60]")
    assert live["ends"] == (2, "[0:1, 0:1] [99:100, 99:100]")
    assert live["last_page"] == (100, "[99:100, 0:100]")
    assert found["last_page"]["what"] == "overwritten in part" and found["last_page"]["save"]
    assert found["edge_of_word"]["what"] == "overwritten where seen" and found["edge_of_word"]["save"]
    assert 8 <= found["edge_of_word"]["live_bytes"] <= 4096, ended  # of the page nothing more is known, perhaps


def test_what_is_not_known_of_an_array_is_a_question(tmp_path, monkeypatch):
    ended = advise(tmp_path, monkeypatch, PARTS, flags=())
    assert "leave out?" in ended.out, ended
    assert "edge_of_word (perhaps " in ended.out, ended


# Called at three places, of which the second needs least: `sum` is overwritten between it and the third.
PLACES = """
import backstay, numpy as np
run = backstay.Session(comm=False, every=100)
n = 20000
state, flux, total = np.ones(n), np.ones(n), np.ones(n)
for name, array in dict(state=state, flux=flux, total=total).items():
    run.protect(name, array)
run.resume()
run.checkpoint()                      # once
for step in range(6):
    run.checkpoint()                  # begin
    np.multiply(state, 0.5, out=flux)
    run.checkpoint()                  # flux
    total[:] = flux
    run.checkpoint()                  # both
    np.add(flux, total, out=state)
print(state.sum(), flush=True)
"""


def test_each_place_has_a_table_and_the_one_that_needs_least_is_named(tmp_path, monkeypatch):
    lines = PLACES.splitlines()
    once, begin, flux, both = (lines.index(next(x for x in lines if x.endswith(f"# {w}"))) + 1 for w in
                               ("once", "begin", "flux", "both"))  # fmt: skip
    ended = advise(tmp_path, monkeypatch, PLACES, steps=3)
    assert ended.status == 0, ended
    places = {int(place["line"].rsplit(":", 1)[1]): place for place in ended.json["places"]}
    assert set(places) == {once, begin, flux, both}, ended
    saved = {line: {array["name"] for array in place["arrays"] if array["save"]} for line, place in places.items()}
    assert saved[begin] == {"state"} and saved[flux] == {"flux"} and saved[both] == {"flux", "total"}, ended
    assert places[once]["steps"] == 1 and saved[once] == {"state", "flux", "total"}
    assert ended.json["line"].endswith((f"app.py:{begin}", f"app.py:{flux}"))
    ended = advise(tmp_path, monkeypatch, PLACES, steps=3, flags=())
    assert f"checkpoint() at app.py:{both}, 3 steps:" in ended.out, ended
    assert "The fewest bytes are to be saved at app.py:" in ended.out, ended
    assert "Places with less than 2 whole steps" in ended.out, ended


@pytest.mark.parametrize(
    ("app", "size", "minimum", "arrays"),
    [
        ("tea2d", 256, {"energy"}, 8),
        ("clover3d", 16, {"density0", "energy0", "xvel0", "yvel0", "zvel0"}, 26),
    ],
)
def test_of_real_programs_the_minimum_by_hand_is_found(tmp_path, monkeypatch, app, size, minimum, arrays):
    """As if they declared nothing. What is below 16 KiB (the clock, the history) is kept unseen."""
    path = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", "build/dev")).absolute() / "apps" / app / app
    if not path.is_file():
        pytest.skip(f"{app} is not built")
    monkeypatch.chdir(tmp_path)
    words = ["--n", str(size), "--steps", "5", "--quiet"]
    ended = command("advise", "-n", "2", "--steps", "3", "--json", "--", path, *words)
    assert ended.status == 0, ended
    found = {array["name"]: array["what"] for array in ended.json["arrays"] if array["bytes"] > 16384}
    assert len(found) == arrays, found
    assert {name for name, what in found.items() if what == "read first"} == minimum, found
    assert {what for name, what in found.items() if name not in minimum} == {"overwritten first"}, found


def planted(name):
    path = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", "build/dev")) / "tests" / "python" / name
    if not path.is_file():
        pytest.skip(f"{name} is not built")
    return path.absolute()


def line_of(name, source="planted.cpp"):
    """Where an array is allocated: that line ends with its name."""
    lines = (Path(__file__).parent / source).read_text().splitlines()
    ends = (f"// {name}", f"/* {name} */", f"! {name}")
    return f"{source}:{next(i for i, line in enumerate(lines, 1) if line.endswith(ends))}"


def found_in(ended):
    """By the line where they are allocated."""
    assert ended.status == 0, ended
    return {array["where"].rsplit("/", 1)[-1]: array for array in ended.json["allocated"]}


NAMES = "state scratch constant half single received freed moved seldom idle tail helper grown late".split()


@pytest.mark.parametrize("ranks", [1, 2])
def test_arrays_that_are_only_allocated_are_found_by_their_lines(tmp_path, monkeypatch, ranks):
    program = planted("planted")
    monkeypatch.chdir(tmp_path)
    ended = command("advise", "-n", str(ranks), "--steps", "5", "--json", "--", program)
    found = found_in(ended)
    assert set(found) == {line_of(name) for name in NAMES}, found  # neither `small`, nor `buffer`, nor what MPI has
    array = {name: found[line_of(name)] for name in NAMES}
    assert array["state"]["what"] == "read first" and array["state"]["live_bytes"] == 160000 * ranks
    assert array["scratch"]["what"] == array["helper"]["what"] == "overwritten first", found
    assert array["constant"]["what"] == "never written" and array["idle"]["what"] == "not touched"
    assert array["half"]["what"] == "read first in part" and array["half"]["part"] == "[80000:160000]"
    assert array["seldom"]["what"] == "read first"  # in one step of three
    assert array["tail"]["what"] == "read first in part" and array["tail"]["part"] == "[159200:159208]", found
    assert array["state"]["arrays"] == ranks and array["state"]["arrays_of_a_rank"] == 1
    assert array["helper"]["from"].endswith(line_of("work"))
    reasons = {"freed": "freed", "moved": "freed", "single": "smaller"}
    for name, why in (reasons | dict.fromkeys(("late", "grown"), "after the first step")).items():
        assert array[name]["save"] and array[name]["what"] == "not known" and why in array[name]["why"], array[name]
    assert array["state"]["paste"] == 'run.protect("NAME", NAME);' and array["state"]["element"] == "double"
    assert any("libopen-pal" in name or "libmpi" in name for name in ended.json["others"]), ended
    assert not ended.json["arrays"]


def test_an_element_type_is_not_told_by_a_function_that_may_be_that_of_another_type():
    header, own = "/usr/include/c++/12/bits/stl_vector.h:387", "/src/app.cpp:7"

    def called(*chains):
        frames = [str(i) for i in range(len(chains))]
        known = {str(i): [allocated.Caller(*c) for c in chain] for i, chain in enumerate(chains)}
        return allocated._place(frames, known)

    storage = ("std::_Vector_base<long, std::allocator<long> >::_M_create_storage(unsigned long)", header)
    allocate = ("std::__new_allocator<long>::allocate(unsigned long, void const*)", header)
    vector = ("std::vector<double, std::allocator<double> >::vector(unsigned long)", header)
    folded = called([allocate, storage], [vector, ("work()", own)])
    assert folded["element"] == "double" and folded["where"] == own
    assert called([allocate, storage], [("work()", own)])["element"] == ""
    assert called([allocate, storage], [("work()", own)])["paste"] == 'run.protect("NAME", NAME);'
    base, made = (storage[0].replace("_M_create_storage", name) for name in ("_Vector_base", "_M_allocate"))
    chains = [[allocate], [(made, header)], [storage], [(base, header)], [("work()", own)]]
    assert called(*chains)["element"] == "long"  # as no compiler that optimises leaves them


def test_a_program_computes_the_same_while_its_arrays_are_looked_at(tmp_path, monkeypatch, capfd):
    program = planted("planted")
    monkeypatch.chdir(tmp_path)
    alone = subprocess.run(["mpirun", "-n", "1", program], capture_output=True, text=True, timeout=120, check=True)
    written = Path("planted.txt").read_bytes()
    assert alone.stdout.startswith("sum ")
    assert command("advise", "--steps", "5", "--", program).status == 0
    assert alone.stdout in capfd.readouterr().out
    assert Path("planted.txt").read_bytes() == written


def test_names_of_files_structs_texts_locks_and_stacks_may_lie_in_arrays_that_are_looked_at(
    tmp_path, monkeypatch, capfd
):
    program = planted("planted_things")
    monkeypatch.chdir(tmp_path)
    alone = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    written = Path("things.txt").read_bytes()
    ended = command("advise", "--steps", "3", "--json", "--", program)
    assert ended.status == 0 and ended.json["status"] == 0, ended
    assert alone.stdout.startswith("sum ") and alone.stdout in capfd.readouterr().err
    assert Path("things.txt").read_bytes() == written
    assert all(array["save"] for array in ended.json["allocated"]), ended


def test_an_array_that_is_protected_is_listed_as_a_region_alone(tmp_path, monkeypatch):
    program = planted("planted")
    monkeypatch.chdir(tmp_path)
    ended = command("advise", "--steps", "3", "--json", "--", program, "protected")
    assert line_of("state") not in found_in(ended), ended
    assert [(array["name"], array["what"]) for array in ended.json["arrays"]] == [("state", "read first")]


def test_arrays_of_a_program_in_c_are_found_and_the_list_says_where_they_are(tmp_path, monkeypatch):
    program = planted("planted_c")
    monkeypatch.chdir(tmp_path)
    ended = command("advise", "--json", "--", program)
    what = {line: array["what"] for line, array in found_in(ended).items()}
    expected = {"state": "read first", "scratch": "overwritten first"}
    assert what == {line_of(name, "planted_c.c"): fate for name, fate in expected.items()}
    ended = command("advise", "--", program)
    assert f"// an array, {line_of('state', 'planted_c.c')}" in ended.out and "backstay_protect(run, " in ended.out, (
        ended
    )
    assert "judged in units of 8 bytes" in ended.out and "Left out: " in ended.out, ended


def test_arrays_that_fortran_allocates_are_found(tmp_path, monkeypatch):
    program = planted("planted_fortran")
    monkeypatch.chdir(tmp_path)
    found = found_in(command("advise", "--json", "--", program))
    state, scratch = (found[line_of(name, "planted_fortran.f90")] for name in ("state", "scratch"))
    assert state["what"] == "read first" and scratch["what"] == "overwritten first", found
    assert state["paste"] == 'call run%protect("NAME", backstay_data(NAME))'


def test_two_calls_of_checkpoint_in_fortran_are_two_places(tmp_path, monkeypatch):
    program = planted("planted_fortran")
    monkeypatch.chdir(tmp_path)
    ended = command("advise", "--steps", "3", "--json", "--", program, "twice")
    scratch = line_of("scratch", "planted_fortran.f90")
    what = {a["what"] for place in ended.json["places"] for a in place["allocated"] if a["where"].endswith(scratch)}
    assert what == {"overwritten first", "read first"}, ended


def test_arrays_below_the_size_that_is_asked_for_are_not_listed(tmp_path, monkeypatch):
    program = planted("planted_c")
    monkeypatch.chdir(tmp_path)
    ended = command("advise", "--arrays-from", "200000", "--", program)
    assert "had allocated none of the size" in sentence_of_last(ended), ended
    assert "give 16384 or more" in sentence_of(command("advise", "--arrays-from", "8", "--", program))


def sentence_of_last(ended):
    return ended.err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("program", "steps", "sentence"),
    [
        ("", 4, "no session of backstay told what it saw"),
        ("", 4, "Add `backstay::Session run(MPI_COMM_WORLD);`"),
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
    steps = [{"event": "observed", "rank": rank, "sees": "all"} for rank in (0, 1)]
    steps += [{"event": "observed_place", "rank": rank, "place": 0, "program": "a:1", "steps": 3} for rank in (0, 1)]
    fields = {
        "overwritten first": {"overwritten": 8},
        "read first": {"read": 8},
        "overwritten where seen": {"overwritten": 4},
    }

    def of(*whats):
        common = {"event": "observed_region", "place": 0, "region": "u", "bytes": 8}
        regions = [common | {"rank": rank} | fields.get(what, {}) for rank, what in enumerate(whats)]
        return advice_of(steps + regions, "app", 0, 2)["arrays"][0]

    assert not of("overwritten first", "overwritten first")["save"]
    assert of("overwritten first", "read first")["what"] == "read first"
    assert of("overwritten first", "read first")["ranks_differ"]
    assert of("overwritten first", "read first")["live_bytes"] == 8
    assert of("overwritten first")["what"] == "not known"  # one rank does not have it
    assert of("overwritten first", "fields of tomorrow")["save"]
    assert of("overwritten first", "overwritten where seen")["save"]
    with pytest.raises(Problem, match="1 of 2 ranks"):
        advice_of(steps[:1], "app", 0, 2)


def test_a_place_to_which_one_rank_never_came_is_not_judged():
    events = [{"event": "observed", "rank": rank, "sees": "all"} for rank in (0, 1)]
    events.append({"event": "observed_place", "rank": 0, "place": 0, "program": "a:1", "steps": 3})
    events.append({"event": "observed_region", "rank": 0, "place": 0, "region": "u", "bytes": 8, "overwritten": 8})
    with pytest.raises(Problem, match="has 0 whole steps"):
        advice_of(events, "app", 0, 2)


def advice_at(line, region):
    events = [{"event": "observed", "rank": 0, "sees": "all"}]
    events.append({"event": "observed_place", "rank": 0, "place": 0, "program": line, "steps": 3})
    events += [{"event": "observed_region", "rank": 0, "place": 0, "region": name, "bytes": 8, "read": 8}
               for name in ("u", region)]  # fmt: skip
    return advice_of(events, "app", 0, 1)


def test_the_log_of_a_replay_is_none_of_the_program_s_arrays():
    assert [array["name"] for array in advice_at("a.cpp:1", "backstay.replay")["arrays"]] == ["u"]


@pytest.mark.parametrize(
    ("where", "pasted"),
    [
        ("a.cpp:1", 'run.protect("NAME", backstay::array(NAME, {COUNT}));'),
        ("a.F90:1", 'call run%protect("NAME", backstay_data(NAME))'),
        ("a.c:1", 'backstay_protect(run, &(backstay_region){.name = "NAME", .type = BACKSTAY_TYPE_OF(*NAME), '),
    ],
)
def test_the_list_to_paste_is_in_the_language_of_the_line(where, pasted):
    assert allocated._paste(where, False).startswith(pasted)
