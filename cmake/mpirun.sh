#!/bin/sh
# mpirun.sh MPIEXEC RANKS SECONDS PROGRAM [ARGUMENTS...]
# Runs the program on RANKS processes of this machine, more than it has cores if need be, with Open MPI or MPICH. After
# SECONDS the job is ended, with every process of it, and the exit status is 124.
set -u
if [ $# -lt 4 ]; then
  echo "usage: $0 MPIEXEC RANKS SECONDS PROGRAM [ARGUMENTS...]" >&2
  exit 2
fi
mpiexec=$1 ranks=$2 seconds=$3
shift 3

case $("$mpiexec" --version 2>&1) in
  *"Open MPI"* | *OpenRTE* | *PRRTE*)
    flags="--oversubscribe --bind-to none"
    [ "$(id -u)" -eq 0 ] && flags="$flags --allow-run-as-root"
    # One machine: shared memory only, no word about networks that are not there, and a waiting rank gives way.
    export OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_osc=^ucx
    export OMPI_MCA_rmaps_base_oversubscribe=1
    ;;
  *) flags="" ;;
esac

# Open MPI's launcher names its files by its process id; what a killed one left behind keeps another with the same
# number from starting ("listener thread failed to start", status 213). Here it has a directory of its own.
scratch=$(mktemp -d) || exit 2
export PRTE_MCA_prte_local_tmpdir_base="$scratch"
trap 'rm -rf "$scratch"' EXIT

# The processes of the job carry this in their environment, wherever they were put in the process tree.
MPIRUN_SH_JOB=$$.$(date +%s%N)
export MPIRUN_SH_JOB

kill_stragglers() {
  for environment in /proc/[0-9]*/environ; do
    grep -qs "MPIRUN_SH_JOB=$MPIRUN_SH_JOB" "$environment" || continue
    pid=${environment#/proc/}
    pid=${pid%/environ}
    [ "$pid" = "$$" ] || kill -9 "$pid" 2>/dev/null
  done
}
clock=
trap 'kill $clock 2>/dev/null; kill_stragglers; exit 143' TERM INT HUP

# In the background, so that a signal to this script is served at once.
"$mpiexec" $flags -n "$ranks" "$@" &
job=$!
# In seconds that pass one by one: where the machine stands still, as one that is shared may, the job does, too.
{
  passed=0
  while [ $passed -lt "$seconds" ]; do
    sleep 1
    passed=$((passed + 1))
  done
  kill -0 $job || exit 0
  : >"$scratch/over"
  kill -TERM $job
  sleep 10
  kill -KILL $job
} >/dev/null 2>&1 &
clock=$!
wait $job
status=$?
kill $clock 2>/dev/null
if [ -e "$scratch/over" ]; then
  kill_stragglers
  echo "$1 on $ranks ranks did not end within $seconds s and was killed" >&2
  status=124
fi
exit $status
