"""Where backstay was built, and how tests build and run programs on an installed one, outside the tree."""

import os
import re
import subprocess
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
needs_fortran = pytest.mark.skipif(not cached("CMAKE_Fortran_COMPILER"), reason="this build has no Fortran module")
needs_mpi = pytest.mark.skipif(not MPIEXEC, reason="this build has no MPI")


def environment(**more):
    """Of this process, without options of backstay that are set in it, and `more`."""
    return {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")} | more


def run(*command, **settings):
    settings["env"] = environment(**settings.pop("env", {}))
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **settings)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def on_ranks(ranks, *words):
    """The command that runs `words` on so many ranks; in a build without MPI, by itself."""
    return [ROOT / "cmake" / "mpirun.sh", MPIEXEC, ranks, LIMIT, *words] if MPIEXEC else list(words)


def packages(prefix):
    """Where the Python package was installed; "" in a build without it."""
    return next((str(path.parent.parent) for path in prefix.glob("lib/python*/site-packages/backstay/_core*")), "")


def build(prefix, source, target):
    """Configures and builds a project with CMake in the directory `target`, and gives that."""
    paths = ";".join([str(prefix), cached("CMAKE_PREFIX_PATH")])
    compilers = [f"CMAKE_{language}_COMPILER" for language in ("C", "CXX", "Fortran")]
    tools = [f"-D{tool}={cached(tool)}" for tool in (*compilers, "CMAKE_MAKE_PROGRAM")]
    mpi = [f"-DMPI_{language}_COMPILER={cached(f'MPI_{language}_COMPILER')}" for language in ("C", "CXX")]
    generator = cached("CMAKE_GENERATOR")
    run(CMAKE, "-G", generator, "-S", source, "-B", target, f"-DCMAKE_PREFIX_PATH={paths}", *tools, *mpi)
    run(CMAKE, "--build", target)
    return target
