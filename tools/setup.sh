#!/usr/bin/env bash
# Makes what the build needs, all of it under build/, without root:
#   build/venv   Python tools, CMake, Ninja and Open MPI, from requirements.txt
#   build/deps   C and C++ libraries, from the distribution's packages, downloaded and unpacked but not installed
# With --peers also what ./dev bench measures beside backstay:
#   build/peers  parallel HDF5 (unpacked from the distribution's packages) and ADIOS2 (from PyPI)
# With --mpich
#   build/mpich-venv   MPICH from PyPI, the second MPI that backstay is tested on
# With --fuzz
#   build/fuzz-tools   Clang with libFuzzer (unpacked from the distribution's packages; 65 MB to fetch)
# With --model
#   build/model  the model checker Spin, unpacked from the distribution's package
# Does nothing when they are there and made from the same lists. Only a missing compiler is installed into the
# system, and only by root.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build="$root/build"
venv="$build/venv"
deps="$build/deps"
apt_dir="$build/apt"
packages=(libisal-dev nlohmann-json3-dev libgmock-dev hdf5-tools gfortran)

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# apt-get with its own lists, cache and an empty list of installed packages: needs no root, changes nothing, and
# resolves the same packages on every machine.
apt_here() {
  apt-get -q -o Dir::State="$apt_dir/state" -o Dir::State::status="$apt_dir/status" -o Dir::Cache="$apt_dir/cache" \
    -o Dir::Cache::pkgcache=pkgcache.bin -o APT::Sandbox::User="$(id -un)" -o APT::Get::List-Cleanup=false "$@"
}

update_lists() {
  [[ -z ${lists_are_new:-} ]] || return 0
  mkdir -p "$apt_dir/state/lists/partial" "$apt_dir/cache/archives/partial" "$apt_dir/debs"
  : >"$apt_dir/status"
  apt_here update >"$apt_dir/update.log" 2>&1 ||
    die "the distribution's package lists could not be fetched (see $apt_dir/update.log); is there a network?"
  lists_are_new=1
}

forget_lists() {
  rm -rf "$apt_dir"
  lists_are_new=
}

# All packages that installing the arguments on an empty machine would bring, sorted, one a line.
closure() {
  apt_here -s install --no-install-recommends "$@" 2>"$apt_dir/resolve.log" | awk '/^Inst /{print $2}' | sort -u
}

# download_and_unpack DIR PACKAGE...
download_and_unpack() {
  local target=$1
  shift
  (cd "$apt_dir/debs" && rm -f ./*.deb && apt_here download "$@") >"$apt_dir/download.log" 2>&1 ||
    die "these packages could not be downloaded: $* (see $apt_dir/download.log)"
  local deb
  for deb in "$apt_dir"/debs/*.deb; do
    dpkg -x "$deb" "$target"
  done
}

install_compiler() {
  have "${CXX:-g++}" && return 0
  if [[ $(id -u) != 0 ]] || ! have apt-get; then
    die "there is no C++ compiler (${CXX:-g++}); install g++ 12 or newer with your package manager, or run this as root"
  fi
  say "installs g++ into the system (there is no C++ compiler)"
  { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends g++; } \
    >"$build/compiler.log" 2>&1 || die "g++ could not be installed (see $build/compiler.log)"
}

check_compiler() {
  install_compiler
  local probe='#include <span>
#include <concepts>
int main() {}'
  "${CXX:-g++}" -std=c++20 -fsyntax-only -x c++ - <<<"$probe" 2>/dev/null ||
    die "${CXX:-g++} does not know C++20; install g++ 12 or newer and name it in CXX (and CC)"
}

# The first Python of 3.11 or newer; the pinned packages need that.
find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
    if have "$candidate" && "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  die "there is no Python of version 3.11 or newer with its venv module; install one, or name it in PYTHON"
}

# Debian takes pip out of Python's venv module. The wheel that its own package carries puts it back.
make_venv_without_ensurepip() {
  have apt-get || die "Python's venv module has no pip here; install your distribution's python3-venv, then try again"
  say "fetches pip (this Python's venv module comes without it)"
  update_lists
  "$python" -m venv --clear --without-pip "$venv"
  local unpacked="$apt_dir/pip"
  rm -rf "$unpacked"
  download_and_unpack "$unpacked" python3-pip-whl
  local wheel
  wheel=$(find "$unpacked" -name 'pip-*.whl' | head -n 1)
  PYTHONPATH="$wheel" "$venv/bin/python" -m pip install -q --no-index "$wheel"
}

make_venv() {
  if [[ -x $venv/bin/python ]] && "$venv/bin/python" -m pip --version 2>/dev/null | grep -qF "$venv"; then
    return 0
  fi
  "$python" -m venv --clear "$venv" >/dev/null 2>&1 || make_venv_without_ensurepip
}

setup_venv() {
  local key
  key=$(cat "$root/requirements.txt" <(echo "$root" "$("$python" --version)") | sha256sum)
  [[ $(cat "$venv/.stamp" 2>/dev/null) != "$key" ]] || return 0
  say "installs $(grep -c '^[a-z]' "$root/requirements.txt") Python packages of requirements.txt, Open MPI and CMake" \
    "among them, into build/venv (a minute or two)"
  make_venv
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$root/requirements.txt" ||
    die "pip could not install requirements.txt into $venv; its message is above"
  echo "$key" >"$venv/.stamp"
}

python_headers() { "$python" -c 'import sysconfig; print(sysconfig.get_path("include"))'; }

add_python_headers() {
  if [[ ! -e $(python_headers)/Python.h ]]; then
    packages+=("lib$("$python" -c 'import sys; print("python%d.%d-dev" % sys.version_info[:2])')")
  fi
}

# Python.h is found at build/venv/include/python, whether this Python came with it or it had to be unpacked.
offer_python_headers() {
  local place="$venv/include/python" system unpacked
  system=$(python_headers)
  unpacked="$deps$system"
  mkdir -p "$venv/include"
  if [[ -e $system/Python.h ]]; then
    ln -sfn "$system" "$place"
  elif [[ -e $unpacked/Python.h && ! -e $place/Python.h ]]; then
    cp -r "$unpacked" "$place"
    # Debian's pyconfig.h only points to the one of this architecture, at a path that unpacking has moved.
    cp "$deps"/usr/include/*-linux-gnu*/"${system##*/}"/pyconfig.h "$place/"
  fi
}

# Links to absolute paths would leave build/deps; those whose target was unpacked too are turned inwards.
turn_links_inwards() {
  local link target
  while IFS= read -r link; do
    target=$(readlink "$link")
    if [[ -e $1$target ]]; then ln -sfnr "$1$target" "$link"; fi
  done < <(find "$1" -type l -lname '/*')
}

# The HDF5 tools find their libraries only through these wrappers, so that nothing else ever sees them.
wrap_tools() {
  local tool triple
  triple=$(basename "$(dirname "$(find "$1/usr/lib" -name libisal.so | head -n 1)")")
  mkdir -p "$1/bin"
  for tool in "$1"/usr/bin/h5*; do
    cat >"$1/bin/${tool##*/}" <<WRAPPER
#!/bin/sh
LD_LIBRARY_PATH="$deps/usr/lib/$triple:$deps/lib/$triple" exec "$deps/usr/bin/${tool##*/}" "\$@"
WRAPPER
    chmod +x "$1/bin/${tool##*/}"
  done
}

# Unpacked gfortran finds by itself what it brings, and here what it shares with the system's g++. Its programs find its
# libraries.
wrap_fortran() {
  local real triple
  triple=$(basename "$(dirname "$(find "$1/usr/lib" -name libisal.so | head -n 1)")")
  real=$(cd "$1/usr/bin" && ls gfortran-[0-9]* 2>/dev/null | head -n 1)
  [[ -n $real ]] || return 0
  cat >"$1/bin/gfortran" <<WRAPPER
#!/bin/sh
exec "$deps/usr/bin/$real" -B"\$(dirname "\$("${CXX:-g++}" -print-libgcc-file-name)")/" \\
  -Wl,-rpath,"$deps/usr/lib/$triple" "\$@"
WRAPPER
  chmod +x "$1/bin/gfortran"
  rm -f "$1/usr/bin/gfortran" # CMake would find it before the wrapper
}

# What apt and g++ themselves need is on every machine that gets this far, and must not be shadowed by a second copy.
choose_packages() {
  closure "${packages[@]}" >"$apt_dir/wanted"
  closure apt g++ >"$apt_dir/there"
  [[ -s $apt_dir/wanted && -s $apt_dir/there ]] ||
    die "the distribution does not have all of: ${packages[*]} (see $apt_dir/resolve.log)"
  comm -23 "$apt_dir/wanted" "$apt_dir/there"
}

setup_deps() {
  if ! have apt-get || ! have dpkg; then
    say "there is no apt-get here, so build/deps is not made: install ISA-L, nlohmann-json, GoogleTest, gfortran and" \
      "the HDF5 tools with your package manager"
    return 0
  fi
  add_python_headers
  local key
  key=$(cat "$root/tools/setup.sh" /etc/os-release <(echo "$root" "${packages[@]}") | sha256sum)
  [[ $(cat "$deps/.stamp" 2>/dev/null) != "$key" ]] || return 0
  say "downloads ${packages[*]} and what they need, and unpacks them into build/deps (nothing is installed)"
  update_lists
  local chosen
  chosen=$(choose_packages)
  rm -rf "$deps.part"
  # shellcheck disable=SC2086  # one word a package
  download_and_unpack "$deps.part" $chosen
  turn_links_inwards "$deps.part"
  wrap_tools "$deps.part"
  wrap_fortran "$deps.part"
  echo "$key" >"$deps.part/.stamp"
  rm -rf "$deps"
  mv "$deps.part" "$deps"
  forget_lists
}

# Parallel HDF5 speaks to any Open MPI of the same ABI, so that it runs on the one in build/venv; what else it needs is
# in build/deps already.
setup_peers() {
  local peers="$build/peers" key chosen adios2="adios2==2.12.1.1001"
  key=$(sha256sum "$root/tools/setup.sh" /etc/os-release)
  [[ $(cat "$peers/.stamp" 2>/dev/null) != "$key" ]] || return 0
  have apt-get || { say "there is no apt-get here, so nothing is measured beside backstay" && return 0; }
  say "fetches parallel HDF5 and ADIOS2 into build/peers, to measure beside backstay"
  rm -rf "$peers"
  update_lists
  chosen=$(closure libhdf5-openmpi-dev | grep '^libhdf5-openmpi')
  # shellcheck disable=SC2086  # one word a package
  download_and_unpack "$peers" $chosen
  forget_lists
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --target "$peers/python" "$adios2"
  echo "$key" >"$peers/.stamp"
}

# Beside the venv, because both MPIs bring an mpirun.
setup_mpich() {
  local place="$build/mpich-venv" mpich="mpich==5.0.2"
  [[ $(cat "$place/.stamp" 2>/dev/null) != "$root $mpich" ]] || return 0
  say "fetches MPICH into build/mpich-venv"
  rm -rf "$place"
  "$python" -m venv --without-pip "$place"
  "$venv/bin/python" -m pip --python "$place/bin/python" install -q --disable-pip-version-check --no-deps "$mpich" ||
    die "pip could not install $mpich into $place; its message is above"
  echo "$root $mpich" >"$place/.stamp"
}

# Clang in whatever version the distribution has as its own. It finds the headers and libraries of the system's g++;
# what it could need for other machines and languages is left out.
setup_fuzz() {
  local tools="$build/fuzz-tools" key version chosen
  key=$(cat "$root/tools/setup.sh" /etc/os-release <(echo "$root") | sha256sum)
  [[ $(cat "$tools/.stamp" 2>/dev/null) != "$key" ]] || return 0
  have apt-get || die "there is no apt-get here, and Clang with libFuzzer is taken from the distribution's packages"
  say "fetches Clang with libFuzzer into build/fuzz-tools"
  rm -rf "$tools"
  update_lists
  version=$(closure clang | sed -n 's/^clang-\([0-9]*\)$/\1/p')
  [[ -n $version ]] || die "the distribution does not have a package clang (see $apt_dir/resolve.log)"
  packages=("clang-$version" "libclang-rt-$version-dev")
  chosen=$(choose_packages | grep -vE '^lib32|i386|^libobjc|^libgc')
  # shellcheck disable=SC2086  # one word a package
  download_and_unpack "$tools" $chosen
  forget_lists
  wrap_clang "$tools" "$version"
  echo "$key" >"$tools/.stamp"
}

# clang and clang++ find their libraries only through these wrappers, so that nothing else ever sees them.
wrap_clang() {
  local tool triple
  triple=$(basename "$(dirname "$(find "$1/usr/lib" -name "libLLVM-$2.so*" -not -path '*/llvm-*' | head -n 1)")")
  mkdir -p "$1/bin"
  for tool in clang clang++; do
    cat >"$1/bin/$tool" <<WRAPPER
#!/bin/sh
LD_LIBRARY_PATH="$1/usr/lib/llvm-$2/lib:$1/usr/lib/$triple:$1/lib/$triple" exec "$1/usr/lib/llvm-$2/bin/$tool" "\$@"
WRAPPER
    chmod +x "$1/bin/$tool"
  done
}

# Half a megabyte; it needs libc, and a C compiler for what it makes.
setup_model() {
  local model="$build/model" key
  key=$(cat "$root/tools/setup.sh" /etc/os-release | sha256sum)
  [[ $(cat "$model/.stamp" 2>/dev/null) != "$key" ]] || return 0
  have apt-get || { have spin && return 0; } ||
    die "there is no apt-get here: install the model checker Spin with your package manager"
  say "fetches the model checker Spin into build/model"
  rm -rf "$model"
  update_lists
  download_and_unpack "$model" spin
  forget_lists
  echo "$key" >"$model/.stamp"
}

mkdir -p "$build"
exec 9>"$build/.setup.lock"
flock 9 # two at once would unpack into the same place
check_compiler
python=$(find_python)
setup_venv
setup_deps
offer_python_headers
case ${1:-} in
  --peers) setup_peers ;;
  --mpich) setup_mpich ;;
  --fuzz) setup_fuzz ;;
  --model) setup_model ;;
esac
