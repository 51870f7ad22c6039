# The program under `backstay run`, 10^3 cells on 4 ranks. Killed in the middle and started again, or repaired by a spare,
# it prints and writes the same bytes as an undisturbed run. Options that would make another run are refused.
set(steps 30)
set(kill_call 20)

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

# run_heat(NAME HEAT_OPTIONS RUN_OPTIONS): the checkpoints go to NAME, the history to NAME.csv.
macro(run_heat name heat_options run_options)
  execute_process(COMMAND ${PYTHON} -m backstay run -n 4 --mpirun ${LAUNCHER} --dir ${name} --every 7 --opt policy=wait
                          ${run_options} -- ${PROGRAM} --csv ${name}.csv ${heat_options}
                  WORKING_DIRECTORY ${FOLDER}
                  RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE complaint)
endmacro()

set(usual --cells 10 --steps ${steps})
run_heat(calm "${usual}" "")
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the undisturbed run ended with status ${status}:\n${printed}${complaint}")
endif()
set(whole_table "${printed}")
file(READ ${FOLDER}/calm.csv whole_csv)

function(same_run name run_options sign)
  run_heat(${name} "${usual}" "${run_options}")
  if(NOT status EQUAL 0 OR NOT complaint MATCHES "${sign}")
    message(FATAL_ERROR "${name}: status ${status}, and '${sign}' should be in:\n${printed}${complaint}")
  endif()
  file(READ ${FOLDER}/${name}.csv csv)
  if(NOT csv STREQUAL whole_csv)
    message(FATAL_ERROR "${name}: the CSV file has other bytes:\n${csv}\ninstead of\n${whole_csv}")
  endif()
  # What the first launch printed stands before the table of the second, which is whole.
  string(LENGTH "${printed}" length)
  string(LENGTH "${whole_table}" whole_length)
  math(EXPR start "${length} - ${whole_length}")
  string(SUBSTRING "${printed}" ${start} -1 last_table)
  if(NOT last_table STREQUAL whole_table)
    message(FATAL_ERROR "${name}: the table has other bytes:\n${last_table}\ninstead of\n${whole_table}")
  endif()
  execute_process(COMMAND ${PYTHON} -m backstay diff calm ${name} WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE status
                  OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${name}: the last lines differ:\n${said}")
  endif()
endfunction()

same_run(killed "--kill;2@${kill_call}" "done, after 2 launches")
# Other MPIs cannot go on after the loss of a rank.
execute_process(COMMAND ${LAUNCHER} --version OUTPUT_VARIABLE version)
if(version MATCHES "Open MPI")
  same_run(repaired "--spares;1;--kill;2@${kill_call}" "spare 4 [^\n]*is rank 2 now.*done, after 1 launch")
  same_run(first-lost "--spares;1;--kill;0@${kill_call}" "is rank 0 now.*done, after 1 launch")
endif()

# refuse(HEAT_OPTIONS SENTENCE): on the directory of the undisturbed run, whose last line is at step 27.
function(refuse heat_options sentence)
  run_heat(calm "${heat_options}" "--relaunch;0")
  file(READ ${FOLDER}/calm.csv csv)
  if(status EQUAL 0 OR NOT complaint MATCHES "heat: ${sentence}" OR NOT csv STREQUAL whole_csv)
    message(FATAL_ERROR "heat ${heat_options} gave status ${status} and:\n${complaint}\ninstead of:\n${sentence}")
  endif()
endfunction()

refuse("--cells;11;--steps;${steps}" "the checkpoint was made with --cells 10 instead of 11")
refuse("--cells;10;--steps;${steps};--dt;0.001" "the checkpoint was made with --dt 0.002000 instead of 0.001000")
refuse("--cells;10;--steps;20" "the newest checkpoint is at step 27 and this run ends at step 20: give --steps 27 or more")
