"""The guides tell the truth: their programs, taken from the page, are built on an installed backstay, killed, resumed.

A block of code whose first line is a comment with the name of a file is a whole program.
"""

import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from backstay.mpirun import find
from installed import (
    HERE,
    LIMIT,
    ROOT,
    build,
    cached,
    environment,
    needs_fortran,
    needs_mpi,
    on_ranks,
    packages,
    run,
)

GUIDES = ROOT / "docs" / "guide"
RANKS = 4
pytestmark = needs_mpi


def blocks(guide, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (GUIDES / guide).read_text(), re.MULTILINE | re.DOTALL)


def programs_in(guide, language):
    """Name of a file to its text."""
    found = {re.match(r"(?://|/\*|#|!) (\w+\.\w+): ", text): text for text in blocks(guide, language)}
    return {match[1]: text for match, text in found.items() if match}


def project(place, language, file, target):
    """A CMake project of one file, whose last lines are those of getting-started.md."""
    (lines,) = blocks("getting-started.md", "cmake")
    start = f"cmake_minimum_required(VERSION 3.24)\nproject({target} LANGUAGES {language})\nset(CMAKE_C_STANDARD 11)\n"
    strict = f"target_compile_options({target} PRIVATE -Wall -Wextra -Wpedantic -Werror)\n"
    lines = lines.replace("heat", target)
    (place / "CMakeLists.txt").write_text(f"{start}add_executable({target} {file})\n{strict}{lines}")
    return place


def heat_program(prefix, place, guide, language, file):
    """The words that start it."""
    (place / file).write_text(programs_in(guide, language)[file])
    if language == "python":
        return [sys.executable, place / file]
    project(place, {"cpp": "CXX", "c": "C"}[language], file, "heat")
    return [build(prefix, place, place / "build") / "heat"]


HEAT = {
    "cpp": ("getting-started.md", "cpp", "heat.cpp"),
    "c": ("c.md", "c", "heat.c"),
    "python": ("python.md", "python", "heat.py"),
}


@pytest.fixture(scope="module", params=HEAT)
def heat(request, prefix, tmp_path_factory):
    if request.param == "python":
        if not packages(prefix):
            pytest.skip("this build has no Python module")
        pytest.importorskip("mpi4py")
    return heat_program(prefix, tmp_path_factory.mktemp(request.param), *HEAT[request.param])


@pytest.fixture
def launch(prefix, tmp_path):
    """launch(ranks, words, NAME=VALUE ...): starts a program in the directory of this test."""

    def launch(ranks, words, **variables):
        command = [str(word) for word in on_ranks(ranks, *words)]
        # Steps are so short here that most checkpoints would be skipped.
        env = environment(PYTHONPATH=packages(prefix), BACKSTAY_POLICY="wait", BACKSTAY_EVERY="100", **variables)
        return subprocess.run(command, cwd=tmp_path, env=env, text=True, capture_output=True, timeout=2 * LIMIT)

    return launch


def statements(program):
    """Those that a program without protection would not have; what is handed to them stands in the same statement."""
    return re.findall(r"backstay::Session \w+\(|\brun\.(?:protect|resume|checkpoint|loop|verify|prune)\(", program)


def test_protection_is_five_statements():
    assert len(statements(programs_in("getting-started.md", "cpp")["heat.cpp"])) == 5
    (readme,) = re.findall(r"^```cpp\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(statements(readme)) == 5


@pytest.mark.parametrize("ranks", [RANKS, 3])
def test_heat_that_was_killed_and_resumed_prints_the_same(heat, launch, ranks):
    calm = launch(RANKS, heat, BACKSTAY_DIR="calm")
    assert (calm.returncode, calm.stdout.count("hottest after 500 steps: 0.0")) == (0, 1), calm.stdout + calm.stderr
    killed = launch(RANKS, heat, BACKSTAY_KILL="1@350")
    assert killed.returncode != 0 and "hottest" not in killed.stdout
    resumed = launch(ranks, heat)
    assert "resumed from line" in resumed.stderr, resumed.stderr
    assert (resumed.returncode, resumed.stdout) == (0, calm.stdout)


def asked_to_end(words, directory, env, once_said):
    """Sends SIGTERM once the program has said that; gives its status and all it said."""
    said = directory / "said"
    with said.open("w") as output:
        words = [str(word) for word in words]
        process = subprocess.Popen(words, cwd=directory, env=env, stdout=output, stderr=output)
        deadline = time.monotonic() + LIMIT
        while once_said not in said.read_text() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout=LIMIT), said.read_text()


def test_heat_that_is_asked_to_end_does_and_goes_on_later(heat, prefix, tmp_path):
    for once_said in ("a fresh start", "resumed from line"):
        env = environment(PYTHONPATH=packages(prefix))
        status, said = asked_to_end([*heat, 2_000_000_000], tmp_path, env, once_said)
        assert status == 0 and once_said in said and "the last checkpoint is written" in said, said
        assert "hottest" not in said


def test_heat_that_is_refused_says_why_and_fails(heat, prefix, tmp_path):
    (tmp_path / "taken").write_text("a file, not a directory")
    env = environment(PYTHONPATH=packages(prefix), BACKSTAY_DIR="taken")
    words = [str(word) for word in heat]  # without mpirun, which may lose the last words of a job that it ends
    refused = subprocess.run(words, cwd=tmp_path, env=env, text=True, capture_output=True, timeout=LIMIT)
    assert refused.returncode != 0 and "taken" in refused.stderr and refused.stdout == ""


# ---- cpp.md -----------------------------------------------------------------------------------------------------


def bare(code):
    """Without comments and space."""
    return re.sub(r"\s+", "", re.sub(r"//.*", "", code))


def test_code_of_the_guide_to_cpp_is_that_of_a_program():
    program = bare((HERE / "guides" / "forms.cpp").read_text())
    table = re.findall(r"^\|[^|]*\| `(run\.protect\(.*?\))` \|", (GUIDES / "cpp.md").read_text(), re.MULTILINE)
    assert len(table) == 10
    code = [*(f"{call};" for call in table), *blocks("cpp.md", "cpp")]
    assert [text for text in code if bare(text) not in program] == []


@pytest.fixture(scope="module")
def forms(prefix, tmp_path_factory):
    place = tmp_path_factory.mktemp("forms")
    shutil.copy(HERE / "guides" / "forms.cpp", place)
    return build(prefix, project(place, "CXX", "forms.cpp", "forms"), place / "build") / "forms"


@pytest.mark.parametrize("ranks", [1, RANKS])
def test_every_form_of_protect_comes_back(forms, tmp_path, ranks):
    for what in ("save", "check"):
        run(*on_ranks(ranks, forms, what), cwd=tmp_path, timeout=2 * LIMIT)


def test_loop_of_the_guide_goes_back_until_its_steps_succeed(forms, tmp_path):
    env = {"BACKSTAY_POLICY": "wait"}
    run(*on_ranks(RANKS, forms, "loop"), cwd=tmp_path, timeout=2 * LIMIT, env=env)


def test_replay_of_the_guide_comes_to_the_same_end(forms, tmp_path):
    env = {"BACKSTAY_POLICY": "wait"}
    said = [run(*on_ranks(RANKS, forms, "replay"), cwd=tmp_path, timeout=2 * LIMIT, env=env) for _ in range(2)]
    all_of_them, rest = (int(re.search(r"swept (\d+) times", text).group(1)) for text in said)
    assert 0 < rest < all_of_them / 2


def test_computations_of_the_guide_leave_their_fluxes_out(forms, tmp_path):
    run(*on_ranks(RANKS, forms, "less"), cwd=tmp_path, timeout=2 * LIMIT, env={"BACKSTAY_POLICY": "wait"})


@pytest.mark.parametrize(
    "what",
    [
        "int x",
        "double* x",
        "std::vector<double*> x",
        "std::vector<std::string_view> x",
        "std::vector<std::span<int>> x",
    ],
)
def test_what_leads_elsewhere_does_not_compile(prefix, tmp_path, what):
    (tmp_path / "odd.cpp").write_text(f"""
#include <backstay/backstay.hpp>
void program(backstay::Session& run) {{
  {what}{{}};
  run.protect("x", x);
}}
""")
    words = [cached("MPI_CXX_COMPILER"), "-std=c++20", "-fsyntax-only", f"-I{prefix}/include", "odd.cpp"]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), text=True, capture_output=True, timeout=LIMIT)
    assert (done.returncode == 0) == (what == "int x"), done.stderr
    assert what == "int x" or "this would save" in done.stderr, done.stderr


@pytest.mark.parametrize("what, compiles", [("u[0]", True), ("*p", True), ("s", True), ("u", False), ("p", False)])
def test_type_of_an_array_or_a_pointer_does_not_compile_in_c(prefix, tmp_path, what, compiles):
    (tmp_path / "odd.c").write_text(f"""
#include <backstay/backstay.h>
struct pair {{ int a, b; }} s;
float u[4], *p = u;
backstay_type type(void);
backstay_type type(void) {{ return BACKSTAY_TYPE_OF({what}); }}
""")
    words = [cached("MPI_C_COMPILER"), "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    done = subprocess.run(
        [*words, f"-I{prefix}/include", "odd.c"],
        cwd=tmp_path,
        env=environment(),
        text=True,
        capture_output=True,
        timeout=LIMIT,
    )
    assert (done.returncode == 0) == compiles, done.stderr
    assert compiles or "needs an element" in done.stderr, done.stderr


@needs_fortran
def test_the_program_of_the_fortran_page_goes_on_where_it_was(prefix, launch, tmp_path):
    (lines,) = blocks("fortran.md", "cmake")
    (tmp_path / "CMakeLists.txt").write_text(lines)
    (tmp_path / "rods.f90").write_text(programs_in("fortran.md", "fortran")["rods.f90"])
    program = build(prefix, tmp_path, tmp_path / "build") / "rods"
    undisturbed = launch(2, [program], BACKSTAY_DIR="undisturbed")
    killed = launch(2, [program], BACKSTAY_DIR="killed", BACKSTAY_KILL="1@350")
    again = launch(2, [program], BACKSTAY_DIR="killed")
    assert undisturbed.returncode == 0 and killed.returncode != 0, killed.stderr
    assert "resumed from line 2" in again.stderr or "resumed from line 3" in again.stderr, again.stderr
    assert sorted(again.stdout.splitlines()) == sorted(undisturbed.stdout.splitlines())
    assert again.stdout.count("is hottest at") == 2


@pytest.fixture
def goes_on(prefix, tmp_path):
    """goes_on(program): what 3 ranks say that lose one in the middle, with a spare and without another launch."""
    mpirun = shutil.which("mpirun")
    if not packages(prefix) or mpirun is None or find(mpirun, 2).kind != "openmpi":
        pytest.skip("this MPI cannot go on after the loss of a rank, or there is no command line")

    def goes_on(program):
        command = [sys.executable, "-m", "backstay", "run", "--dir", tmp_path / "ck", "-n", "3", "--spares", "1"]
        options = ["--kill", "1@250", "--every", "100", "--levels", "shared", "--opt", "policy=wait", "--relaunch", "0"]
        ended = subprocess.run(
            [str(word) for word in [*command, *options, "--", program]],
            env=environment(PYTHONPATH=packages(prefix)), capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert "rank 1 was lost; spare 3" in ended.stderr, ended.stderr
        return ended

    return goes_on


def test_the_body_of_loop_on_the_c_page_goes_on_after_a_loss(prefix, goes_on, launch, tmp_path):
    text = programs_in("c.md", "c")["heat.c"]
    body, state, loop = [text for text in blocks("c.md", "c") if "simulation" in text or "backstay_loop" in text]
    plain = re.search(r"^  for \(check\(backstay_resume.*?^  }\n", text, re.MULTILINE | re.DOTALL)
    text = (
        text.replace(plain[0], loop)
        .replace("int main(", body + "\nint main(")
        .replace("provided, step = 0", "provided")
    )
    text = text.replace("  const backstay_region step_region", f"{state}  const backstay_region step_region")
    for old in ("(step)", "&step}", "if (step =", ", step, hottest"):
        assert text.count(old) == 1, old
        text = text.replace(old, re.sub(r"\bstep\b", "s.step", old))
    (tmp_path / "heat.c").write_text(text)
    project(tmp_path, "C", "heat.c", "heat")
    program = build(prefix, tmp_path, tmp_path / "build") / "heat"
    undisturbed = launch(3, [program], BACKSTAY_DIR="undisturbed")
    assert "hottest after 500 steps: 0.0" in undisturbed.stdout, undisturbed.stdout + undisturbed.stderr
    assert goes_on(program).stdout == undisturbed.stdout


@needs_fortran
def test_the_body_of_loop_on_the_fortran_page_goes_on_after_a_loss(prefix, goes_on, tmp_path):
    (lines,) = blocks("fortran.md", "cmake")
    (tmp_path / "CMakeLists.txt").write_text(lines)
    (body,) = [text for text in blocks("fortran.md", "fortran") if text.startswith("subroutine body")]
    (tmp_path / "rods.f90").write_text(AROUND_THE_BODY.replace("BODY", body))
    ended = goes_on(build(prefix, tmp_path, tmp_path / "build") / "rods")
    assert ended.stdout.count("warmed 500 times, 500") == 3, ended.stdout + ended.stderr


AROUND_THE_BODY = """
module rod
  use, intrinsic :: iso_fortran_env, only: real64
  use backstay
  implicit none
  integer, parameter :: steps = 500
  integer, target :: step = 0
  real(real64), target :: u(10) = 0
contains
BODY
  subroutine advance(u, comm, stat)
    real(real64), intent(inout) :: u(:)
    integer, intent(in) :: comm
    integer, intent(out) :: stat
    u = u + 1
    stat = merge(0, 1, comm /= 0)
  end subroutine
end module

program rods
  use rod
  implicit none
  type(backstay_session) :: run
  call run%open()
  call run%protect("step", backstay_data(step))
  call run%protect("u", backstay_data(u), backstay_rank_private())
  call run%loop(body)
  print "(a, i0, a, i0)", "warmed ", step, " times, ", nint(maxval(u) * count(abs(u - u(1)) <= 0) / size(u))
  call run%close()
end program
"""
