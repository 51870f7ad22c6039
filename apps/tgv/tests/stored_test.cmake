# The form with every quantity in an array, under `backstay run`: a rank, or a node with its directory, is lost, or another
# number of ranks goes on, and the table and the last line are those of an undisturbed run. `--check` finds its
# declarations true.
set(usual --n 16 --steps 30 --output-every 4 --stored)
set(kill_call 20)

include(${CMAKE_CURRENT_LIST_DIR}/../../backstay_runs.cmake)

# run_tgv(NAME RANKS RUN_OPTIONS): the checkpoints go to NAME, the curve to NAME.csv.
macro(run_tgv name ranks run_options)
  backstay(run -n ${ranks} --mpirun ${LAUNCHER} --dir ${name} --every 7 --opt policy=wait ${run_options} -- ${PROGRAM}
           --csv ${name}.csv ${usual})
endmacro()

run_tgv(calm 4 "")
require_status(0 "the undisturbed run")
run_tgv(rank 4 "--kill;2@${kill_call}")
require_status(0 "the run that lost a rank")
if(NOT complaint MATCHES "resumed" OR NOT complaint MATCHES "done, after 2 launches")
  message(FATAL_ERROR "killing a rank did not lead to a second launch that resumed:\n${complaint}")
endif()
require_same(rank calm)
run_tgv(node 4 "--nodes;2;--levels;partner;--kill;node1@${kill_call}")
require_status(0 "the run that lost a node")
if(NOT complaint MATCHES "done, after 2 launches")
  message(FATAL_ERROR "killing a node did not lead to a second launch:\n${complaint}")
endif()
require_same_table(node calm)
backstay(show calm)
string(REGEX MATCHALL "left out by 4 ranks: overwritten before it is read" left_out "${printed}")
list(LENGTH left_out count)
if(NOT count EQUAL 60)
  message(FATAL_ERROR "the last line leaves out ${count} arrays instead of 60:\n${printed}")
endif()

foreach(ranks 1 3)
  run_tgv(moved-${ranks} 4 "--relaunch;0;--kill;1@${kill_call}")
  if(status EQUAL 0)
    message(FATAL_ERROR "the run that was to be killed was not:\n${complaint}")
  endif()
  run_tgv(moved-${ranks} ${ranks} "")
  require_status(0 "the run that went on with ${ranks} ranks")
  if(NOT complaint MATCHES "resumed")
    message(FATAL_ERROR "with ${ranks} ranks the run did not go on:\n${complaint}")
  endif()
  require_same(moved-${ranks} calm)
endforeach()

set(usual --n 16 --steps 3 --stored)
run_tgv(checked 2 "--check")
require_status(0 "the run that was checked")
if(NOT complaint MATCHES "--check: 0 false declarations in [0-9]+ computations")
  message(FATAL_ERROR "--check did not find the declarations true:\n${complaint}")
endif()
