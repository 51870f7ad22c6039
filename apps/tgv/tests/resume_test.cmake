# The program under `backstay run`, 16^3 points on 4 ranks. Killed in the middle (a rank; at level partner a node with
# its directory) and resumed, it prints and writes the same bytes as an undisturbed run, and its last line holds the same
# bits. Options that would make another curve of a directory are refused, and change nothing there.
set(steps 60)
set(calls_between_lines 7)
set(kill_call 40)

include(${CMAKE_CURRENT_LIST_DIR}/../../backstay_runs.cmake)

# run_tgv(NAME TGV_OPTIONS RUN_OPTIONS): the checkpoints go to NAME, the curve to NAME.csv. With the policy `wait` no
# line is skipped, however slow the disk, so the newest one is at the same step in every run.
macro(run_tgv name tgv_options run_options)
  backstay(run -n 4 --mpirun ${LAUNCHER} --dir ${name} --every ${calls_between_lines} --opt policy=wait
           ${run_options} -- ${PROGRAM} --n 16 --csv ${name}.csv ${tgv_options})
endmacro()

set(usual --steps ${steps} --output-every 4)

# same_run(KIND RUN_OPTIONS KILL): once undisturbed, once killed.
function(same_run kind run_options kill)
  run_tgv(${kind}-calm "${usual}" "${run_options}")
  require_status(0 "the undisturbed run")
  set(whole_table "${printed}")
  file(READ ${FOLDER}/${kind}-calm.csv whole_csv)

  run_tgv(${kind}-killed "${usual}" "${run_options};--kill;${kill}")
  require_status(0 "the run that lost ${kill}")
  if(NOT complaint MATCHES "launch 1 ended" OR NOT complaint MATCHES "resumed"
     OR NOT complaint MATCHES "done, after 2 launches")
    message(FATAL_ERROR "killing ${kill} did not lead to a second launch that resumed:\n${complaint}")
  endif()
  file(READ ${FOLDER}/${kind}-killed.csv csv)
  if(NOT csv STREQUAL whole_csv)
    message(FATAL_ERROR "after the loss of ${kind} the CSV file has other bytes:\n${csv}\ninstead of\n${whole_csv}")
  endif()
  # What the first launch printed stands before the table of the second, which is whole.
  string(LENGTH "${printed}" length)
  string(LENGTH "${whole_table}" whole_length)
  math(EXPR start "${length} - ${whole_length}")
  string(SUBSTRING "${printed}" ${start} -1 last_table)
  if(NOT last_table STREQUAL whole_table)
    message(FATAL_ERROR "after the loss of ${kind} the table has other bytes:\n${last_table}\ninstead of\n${whole_table}")
  endif()
  backstay(diff ${kind}-calm ${kind}-killed)  # the newest of each; `step` is one of the regions
  require_status(0 "comparing the last lines")
endfunction()

same_run(rank "" 2@${kill_call})
same_run(node "--nodes;2;--levels;partner" node1@${kill_call})

# refuse(TGV_OPTIONS SENTENCE): on the directory of the undisturbed run, whose last line is at step 55.
function(refuse tgv_options sentence)
  file(GLOB_RECURSE files ${FOLDER}/rank-calm/shared/*)
  file(READ ${FOLDER}/rank-calm.csv csv)
  run_tgv(rank-calm "${tgv_options}" "--relaunch;0")
  string(REGEX MATCHALL "tgv: [^\n]*" said "${complaint}")
  # Not status 1 in every MPI: MPICH kills the other ranks when the first has ended.
  if(status EQUAL 0 OR NOT said STREQUAL "tgv: ${sentence}")
    message(FATAL_ERROR "tgv ${tgv_options} gave status ${status} and:\n${complaint}\ninstead of:\n${sentence}")
  endif()
  file(GLOB_RECURSE files_after ${FOLDER}/rank-calm/shared/*)
  file(READ ${FOLDER}/rank-calm.csv csv_after)
  if(NOT files STREQUAL files_after OR NOT csv STREQUAL csv_after OR printed MATCHES "enstrophy")
    message(FATAL_ERROR "tgv ${tgv_options} was refused and yet changed something:\n${files_after}\n${printed}")
  endif()
endfunction()

set(other_directory "or another directory for this run")
refuse("--steps;${steps};--output-every;3"
       "the checkpoint was made with --output-every 4 instead of 3: use that one again, ${other_directory}")
refuse("--steps;50;--output-every;4" "the newest checkpoint is at step 55 and this run ends at step 50: \
give --steps 55 or more (or a later --t-end), ${other_directory}")
refuse("--steps;${steps};--output-every;4;--cfl;0.5" "the checkpoint was made with another --cfl (a time step of 0.021420 \
instead of 0.017850): use that one again, ${other_directory}")
