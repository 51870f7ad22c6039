# The program under `backstay run`. Killed in the middle (a rank; at level partner a node with its directory) and
# resumed or repaired, on as many ranks or on others, it writes the same bytes as an undisturbed run. Other options are
# refused.
set(steps 20)
set(calls_between_lines 3)
set(kill_call 12)

include(${CMAKE_CURRENT_LIST_DIR}/../../backstay_runs.cmake)

# run_clover3d(NAME RANKS CLOVER3D_OPTIONS RUN_OPTIONS): the checkpoints go to NAME, the table to NAME.csv. With the
# policy `wait` no line is skipped, however slow the disk, so the newest one is at the same step in every run.
macro(run_clover3d name ranks clover3d_options run_options)
  backstay(run -n ${ranks} --mpirun ${LAUNCHER} --dir ${name} --every ${calls_between_lines} --opt policy=wait
           ${run_options} -- ${PROGRAM} --n 12 --csv ${name}.csv ${clover3d_options})
endmacro()

set(usual --steps ${steps} --output-every 4)
run_clover3d(calm 4 "${usual}" "")
require_status(0 "the undisturbed run")

backstay(show calm)
string(REGEX MATCHALL "left out by 4 ranks: overwritten before it is read" left_out "${printed}")
list(LENGTH left_out count)
string(REGEX MATCHALL "\n(density|energy|xvel|yvel|zvel)0 +float64 " held "${printed}")
list(LENGTH held held_count)
if(NOT count EQUAL 21 OR NOT held_count EQUAL 5)
  message(FATAL_ERROR "the last line does not hold five fields and leave out 21:\n${printed}")
endif()

# go_on(NAME RUN_OPTIONS SIGN): `SIGN` is in what is said.
function(go_on name run_options sign)
  run_clover3d(${name} 4 "${usual}" "${run_options}")
  require_status(0 "the run ${name}")
  if(NOT complaint MATCHES "${sign}")
    message(FATAL_ERROR "${name}: '${sign}' is not in\n${complaint}")
  endif()
endfunction()

go_on(rank-killed "--kill;2@${kill_call}" "launch 1 ended.*done, after 2 launches")
require_same(rank-killed calm)

# With the directory of a node its static fields are lost as well.
go_on(node-killed "--nodes;2;--levels;partner;--kill;node1@${kill_call}" "done, after 2 launches")
require_same_table(node-killed calm)

# Other MPIs cannot go on after the loss of a rank.
execute_process(COMMAND ${LAUNCHER} --version OUTPUT_VARIABLE version)
if(version MATCHES "Open MPI")
  go_on(repaired "--spares;1;--kill;2@${kill_call}" "is rank 2 now.*done, after 1 launch")
  require_same(repaired calm)
endif()

run_clover3d(moved-1 4 "${usual}" "--relaunch;0;--kill;1@${kill_call}")
if(status EQUAL 0)
  message(FATAL_ERROR "the run that was to be killed was not:\n${complaint}")
endif()
file(COPY ${FOLDER}/moved-1/ DESTINATION ${FOLDER}/moved-3)
foreach(ranks 1 3)
  run_clover3d(moved-${ranks} ${ranks} "${usual}" "")
  require_status(0 "the run that went on with ${ranks} ranks")
  if(NOT complaint MATCHES "resumed")
    message(FATAL_ERROR "with ${ranks} ranks the run did not go on:\n${complaint}")
  endif()
  require_same(moved-${ranks} calm)
endforeach()

# refuse(CLOVER3D_OPTIONS SENTENCE): on the directory of the undisturbed run, whose last line is at step 17.
function(refuse clover3d_options sentence)
  file(READ ${FOLDER}/calm.csv csv)
  run_clover3d(calm 4 "${clover3d_options}" "--relaunch;0")
  string(REGEX MATCHALL "clover3d: [^\n]*" said "${complaint}")
  # Not status 1 in every MPI: MPICH kills the other ranks when the first has ended.
  if(status EQUAL 0 OR NOT said STREQUAL "clover3d: ${sentence}")
    message(FATAL_ERROR "clover3d ${clover3d_options} gave status ${status} and:\n${complaint}\ninstead of:\n"
                        "${sentence}")
  endif()
  file(READ ${FOLDER}/calm.csv csv_after)
  if(NOT csv STREQUAL csv_after)
    message(FATAL_ERROR "clover3d ${clover3d_options} was refused and yet wrote its table")
  endif()
endfunction()

refuse("--steps;${steps};--output-every;5" "the checkpoint was made with --output-every 4 instead of 5: \
use that one again, or another directory for this run")
refuse("--steps;15;--output-every;4" "the newest checkpoint is at step 17 and this run ends at step 15: \
give --steps 17 or more, or another directory for this run")
