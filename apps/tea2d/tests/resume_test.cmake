# The program under `backstay run`. Killed in the middle (a rank; at level partner a node with its directory) and
# resumed, on as many ranks or on others, it writes the same bytes as an undisturbed run. Other options are refused.
set(steps 20)
set(calls_between_lines 3)
set(kill_call 12)

include(${CMAKE_CURRENT_LIST_DIR}/../../backstay_runs.cmake)

# run_tea2d(NAME RANKS TEA2D_OPTIONS RUN_OPTIONS): the checkpoints go to NAME, the table to NAME.csv. With the policy
# `wait` no line is skipped, however slow the disk, so the newest one is at the same step in every run.
macro(run_tea2d name ranks tea2d_options run_options)
  backstay(run -n ${ranks} --mpirun ${LAUNCHER} --dir ${name} --every ${calls_between_lines} --opt policy=wait
           ${run_options} -- ${PROGRAM} --n 40 --csv ${name}.csv ${tea2d_options})
endmacro()

foreach(solver cg chebyshev ppcg)
  set(usual --steps ${steps} --solver ${solver})
  run_tea2d(${solver}-calm 4 "${usual}" "")
  require_status(0 "the undisturbed run")

  run_tea2d(${solver}-killed 4 "${usual}" "--kill;2@${kill_call}")
  require_status(0 "the run that lost a rank")
  if(NOT complaint MATCHES "launch 1 ended" OR NOT complaint MATCHES "done, after 2 launches")
    message(FATAL_ERROR "killing a rank did not lead to a second launch:\n${complaint}")
  endif()
  require_same(${solver}-killed ${solver}-calm)

  backstay(show ${solver}-killed)
  string(REGEX MATCHALL "left out by 4 ranks: overwritten before it is read" left_out "${printed}")
  list(LENGTH left_out count)
  if(count LESS 7 OR NOT printed MATCHES "energy +float64 +40[^ ]+40 ")
    message(FATAL_ERROR "the last line of ${solver} holds more than the energy:\n${printed}")
  endif()
endforeach()

# With the directory of a node its static density is lost as well.
set(usual --steps ${steps} --solver cg)
run_tea2d(node-killed 4 "${usual}" "--nodes;2;--levels;partner;--kill;node1@${kill_call}")
require_status(0 "the run that lost a node")
if(NOT complaint MATCHES "done, after 2 launches")
  message(FATAL_ERROR "killing a node did not lead to a second launch:\n${complaint}")
endif()
require_same_table(node-killed cg-calm)

foreach(ranks 1 3)
  run_tea2d(moved-${ranks} 4 "${usual}" "--relaunch;0;--kill;1@${kill_call}")
  if(status EQUAL 0)
    message(FATAL_ERROR "the run that was to be killed was not:\n${complaint}")
  endif()
  run_tea2d(moved-${ranks} ${ranks} "${usual}" "")
  require_status(0 "the run that went on with ${ranks} ranks")
  if(NOT complaint MATCHES "resumed")
    message(FATAL_ERROR "with ${ranks} ranks the run did not go on:\n${complaint}")
  endif()
  require_same(moved-${ranks} cg-calm)
endforeach()

# In the stored form, too; `--check` finds its declarations true.
set(usual --steps ${steps} --solver ppcg --stored)
run_tea2d(stored-calm 4 "${usual}" "")
require_status(0 "the undisturbed run of the stored form")
require_same_table(stored-calm ppcg-calm)
run_tea2d(stored 4 "${usual}" "--relaunch;0;--kill;2@${kill_call}")
if(status EQUAL 0)
  message(FATAL_ERROR "the run that was to be killed was not:\n${complaint}")
endif()
run_tea2d(stored 3 "${usual}" "")
require_status(0 "the stored form that went on with 3 ranks")
if(NOT complaint MATCHES "resumed")
  message(FATAL_ERROR "the stored form did not go on:\n${complaint}")
endif()
require_same(stored stored-calm)
run_tea2d(checked 2 "--steps;2;--solver;ppcg;--stored" "--check")
require_status(0 "the run that was checked")
if(NOT complaint MATCHES "--check: 0 false declarations in [0-9]+ computations")
  message(FATAL_ERROR "--check did not find the declarations true:\n${complaint}")
endif()

# refuse(TEA2D_OPTIONS SENTENCE): on the directory of the undisturbed run, whose last line is at step 17.
function(refuse tea2d_options sentence)
  file(READ ${FOLDER}/cg-calm.csv csv)
  run_tea2d(cg-calm 4 "${tea2d_options}" "--relaunch;0")
  string(REGEX MATCHALL "tea2d: [^\n]*" said "${complaint}")
  # Not status 1 in every MPI: MPICH kills the other ranks when the first has ended.
  if(status EQUAL 0 OR NOT said STREQUAL "tea2d: ${sentence}")
    message(FATAL_ERROR "tea2d ${tea2d_options} gave status ${status} and:\n${complaint}\ninstead of:\n${sentence}")
  endif()
  file(READ ${FOLDER}/cg-calm.csv csv_after)
  if(NOT csv STREQUAL csv_after)
    message(FATAL_ERROR "tea2d ${tea2d_options} was refused and yet wrote its table")
  endif()
endfunction()

set(advice "use that one again, or another directory for this run")
refuse("--steps;${steps};--dt;0.02" "the checkpoint was made with --dt 0.04 instead of 0.02: ${advice}")
refuse("--steps;${steps};--eps;1e-9" "the checkpoint was made with --eps 1e-10 instead of 1e-09: ${advice}")
refuse("--steps;15" "the newest checkpoint is at step 17 and this run ends at step 15: \
give --steps 17 or more, or another directory for this run")
