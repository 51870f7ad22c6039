"""What users do: install backstay, then build and run programs of their own, outside the tree, in C, C++ and Python.

The programs have the same regions, so that each reads what the others wrote, on another number of ranks.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "dev"))
LIMIT = 60  # seconds for one job


def cached(name):
    """A variable of the build's CMake cache."""
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


CMAKE, MPIEXEC, LIB = cached("CMAKE_COMMAND"), cached("MPIEXEC_EXECUTABLE"), cached("CMAKE_INSTALL_LIBDIR")
needs_mpi = pytest.mark.skipif(not MPIEXEC, reason="this build has no MPI")


def run(*command, **settings):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    environment = {**keep, **settings.pop("env", {})}
    done = subprocess.run([str(word) for word in command], env=environment, text=True, capture_output=True, **settings)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Outside the tree: an installed backstay in `prefix`."""
    place = tmp_path_factory.mktemp("consumer")
    run(CMAKE, "--install", BUILD, "--prefix", place / "prefix")
    for name in ("c", "cpp", "python"):
        shutil.copytree(HERE / name, place / name)
    return place


def build(place, name):
    """Configures and builds a project with CMake; gives its program."""
    paths = ";".join([str(place / "prefix"), cached("CMAKE_PREFIX_PATH")])
    tools = [f"-D{tool}={cached(tool)}" for tool in ("CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_MAKE_PROGRAM")]
    target = place / f"build-{name}"
    mpi = [f"-DMPI_{language}_COMPILER={cached(f'MPI_{language}_COMPILER')}" for language in ("C", "CXX")]
    generator = cached("CMAKE_GENERATOR")
    run(CMAKE, "-G", generator, "-S", place / name, "-B", target, f"-DCMAKE_PREFIX_PATH={paths}", *tools, *mpi)
    run(CMAKE, "--build", target)
    return [target / "program"]


@pytest.fixture(scope="session")
def programs(place):
    made = {"cpp": build(place, "cpp")}
    if MPIEXEC:
        made["c"] = build(place, "c")
    if list(place.glob("prefix/lib/python*/site-packages/backstay/_core*")):
        made["python"] = [sys.executable, place / "python" / "program.py"]
    return made


@pytest.fixture
def launch(place, programs, tmp_path):
    (packages,) = list(place.glob("prefix/lib/python*/site-packages")) or [""]

    def launch(program, what, ranks):
        words = [*programs[program], what, tmp_path / "ck"]
        if MPIEXEC:
            words = [ROOT / "cmake" / "mpirun.sh", MPIEXEC, ranks, LIMIT, *words]
        run(*words, cwd=tmp_path, env={"PYTHONPATH": str(packages)}, timeout=2 * LIMIT)

    return launch


@pytest.mark.parametrize(("writers", "readers"), [(1, 4), (4, 1), (4, 4)] if MPIEXEC else [(1, 1)])
@pytest.mark.parametrize(("first", "second"), [("c", "c"), ("cpp", "cpp"), ("python", "python")])
def test_installed_program_resumes_on(launch, programs, first, second, writers, readers):
    if first not in programs:
        pytest.skip("this build has no such program")
    launch(first, "write", writers)
    launch(second, "read", readers)


@pytest.mark.parametrize(("first", "second"), [("c", "cpp"), ("cpp", "python"), ("python", "c")])
def test_one_language_reads_what_another_wrote(launch, programs, first, second):
    if not {first, second} <= set(programs):
        pytest.skip("this build has not both of them")
    launch(first, "write", 4 if MPIEXEC else 1)
    launch(second, "read", 1)


@needs_mpi
def test_callbacks_of_c_save_load_and_redistribute(launch):
    for ranks in (4, 4, 1):
        launch("c", "owned", ranks)


@needs_mpi
def test_program_in_c_works_alone_and_hears_why_calls_are_refused(programs, tmp_path):
    run(*programs["c"], "alone", tmp_path / "ck", timeout=LIMIT)


@needs_mpi
def test_compiler_wrapper_and_two_flags_are_enough(place, tmp_path):
    wrapper, prefix = cached("MPI_C_COMPILER"), place / "prefix"
    if not wrapper:
        pytest.skip("this MPI has no compiler wrapper")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{prefix}/include", f"-L{prefix}/{LIB}"]
    program = tmp_path / "program"
    run(wrapper, *flags, place / "c" / "program.c", "-o", program, "-lbackstay", f"-Wl,-rpath,{prefix}/{LIB}")
    run(program, "alone", tmp_path / "ck", timeout=LIMIT)


@needs_mpi
def test_headers_are_fit_for_c_and_for_old_cpp(place):
    wrapper = cached("MPI_CXX_COMPILER")
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{place / 'prefix' / 'include'}"]
    run(wrapper, "-x", "c++", "-std=c++11", *flags, "-", input="#include <backstay/backstay_mpi.h>\n")
    run(wrapper, "-x", "c++", "-std=c++20", *flags, "-", input="#include <backstay/backstay.hpp>\n")


def test_installed_files_name_no_place_of_the_build(place):
    paths = [*place.glob(f"prefix/{LIB}/cmake/backstay/*.cmake"), *place.glob("prefix/include/backstay/*")]
    assert len(paths) > 8
    for path in paths:
        text = path.read_text()
        assert str(ROOT) not in text and str(BUILD) not in text, path
