"""What users do: install backstay, then build and run programs of their own, outside the tree, in C, C++, Fortran and
Python.

The programs have the same regions, so that each reads what the others wrote, on another number of ranks.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from backstay.mpirun import find
from installed import (
    BUILD,
    HERE,
    LIB,
    LIMIT,
    MPIEXEC,
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


@pytest.fixture(scope="session")
def programs(prefix, tmp_path_factory):
    place = tmp_path_factory.mktemp("programs")
    made = {
        name: [build(prefix, HERE / name, place / name) / "program"] for name in (["cpp", "c"] if MPIEXEC else ["cpp"])
    }
    if cached("CMAKE_Fortran_COMPILER"):
        made["fortran"] = [build(prefix, HERE / "fortran", place / "fortran") / "program"]
    if packages(prefix):
        made["python"] = [sys.executable, HERE / "python" / "program.py"]
    return made


@pytest.fixture
def launch(prefix, programs, tmp_path):
    def launch(program, what, ranks):
        words = on_ranks(ranks, *programs[program], what, tmp_path / "ck")
        run(*words, cwd=tmp_path, env={"PYTHONPATH": packages(prefix)}, timeout=2 * LIMIT)

    return launch


def test_installed_library_finds_isal_where_the_build_found_it(prefix):
    """Not only in a place where every program looks: ./dev setup unpacks it, and installs it nowhere."""
    needed = subprocess.check_output(["ldd", prefix / LIB / "libbackstay.so"], text=True)
    found = next(line.split("=>")[1].split()[0] for line in needed.splitlines() if "libisal" in line)
    assert Path(found).resolve() == Path(cached("ISAL_LIBRARY")).resolve()


@pytest.mark.parametrize(("writers", "readers"), [(1, 4), (4, 1), (4, 4)] if MPIEXEC else [(1, 1)])
@pytest.mark.parametrize(("first", "second"), [(p, p) for p in ("c", "cpp", "fortran", "python")])
def test_installed_program_resumes_on(launch, programs, first, second, writers, readers):
    if first not in programs:
        pytest.skip("this build has no such program")
    launch(first, "write", writers)
    launch(second, "read", readers)


@pytest.mark.parametrize(
    ("first", "second"), [("c", "cpp"), ("cpp", "python"), ("python", "c"), ("c", "fortran"), ("fortran", "python")]
)
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


@needs_fortran
@pytest.mark.parametrize("what", ["types", "refused", "declared", "closes"])
def test_program_in_fortran_works_alone(programs, tmp_path, what):
    run(*programs["fortran"], what, tmp_path / "ck", timeout=LIMIT)


@needs_fortran
def test_an_error_that_a_program_in_fortran_does_not_ask_for_ends_it_with_its_sentence(programs, tmp_path):
    command = [*map(str, programs["fortran"]), "stops", str(tmp_path / "ck")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 1
    assert "backstay: the option 'evry' does not exist; did you mean every?" in ended.stderr


@pytest.fixture
def run_beside_spares(prefix, programs, tmp_path):
    """`backstay run` of the program in Fortran, with these flags, where this MPI goes on without a lost rank."""
    mpirun = shutil.which("mpirun")
    if not packages(prefix) or mpirun is None or find(mpirun, 2).kind != "openmpi":
        pytest.skip("this MPI cannot go on after the loss of a rank, or there is no command line")

    def start(what, *flags):
        command = [sys.executable, "-m", "backstay", "run", "--dir", tmp_path / "ck", "--relaunch", "0", *flags, "--"]
        return subprocess.run(
            [str(word) for word in [*command, *programs["fortran"], what, tmp_path]],
            env=environment(PYTHONPATH=packages(prefix)), capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip

    return start


@needs_fortran
@needs_mpi
def test_a_rank_of_a_program_in_fortran_is_replaced(run_beside_spares):
    job = ["-n", "3", "--spares", "1", "--nodes", "4", "--kill", "1@100", "--every", "5", "--levels", "memory"]
    ended = run_beside_spares("loops", *job, "--opt", "policy=wait", "--opt", "memory.redundancy=rs(2,1)")
    assert ended.returncode == 0, ended.stderr
    assert "sum 20100" in ended.stdout and "rank 1 was lost; spare 3" in ended.stderr


@needs_fortran
@needs_mpi
def test_init_beside_spares_is_refused_in_fortran_which_calls_mpi_past_the_library(run_beside_spares):
    ended = run_beside_spares("inits", "-n", "1", "--spares", "1")
    assert "not so" not in ended.stderr and "init() cannot record the messages" in ended.stdout, ended


@needs_mpi
def test_compiler_wrapper_and_two_flags_are_enough(prefix, tmp_path):
    wrapper = cached("MPI_C_COMPILER")
    if not wrapper:
        pytest.skip("this MPI has no compiler wrapper")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{prefix}/include", f"-L{prefix}/{LIB}"]
    program = tmp_path / "program"
    run(wrapper, *flags, HERE / "c" / "program.c", "-o", program, "-lbackstay", f"-Wl,-rpath,{prefix}/{LIB}")
    run(program, "alone", tmp_path / "ck", timeout=LIMIT)


@needs_mpi
def test_headers_are_fit_for_c_and_for_old_cpp(prefix):
    wrapper = cached("MPI_CXX_COMPILER")
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{prefix / 'include'}"]
    run(wrapper, "-x", "c++", "-std=c++11", *flags, "-", input="#include <backstay/backstay_mpi.h>\n")
    run(wrapper, "-x", "c++", "-std=c++20", *flags, "-", input="#include <backstay/backstay.hpp>\n")


def test_installed_files_name_no_place_of_the_build(prefix):
    paths = [*prefix.glob(f"{LIB}/cmake/backstay/*.cmake"), *prefix.glob("include/backstay/*")]
    assert len(paths) > 8
    for path in filter(Path.is_file, paths):
        text = path.read_text()
        assert str(ROOT) not in text and str(BUILD) not in text, path
