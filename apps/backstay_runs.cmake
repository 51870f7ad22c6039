# For the tests that run an example program under `backstay run`, in FOLDER, which is emptied.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

# backstay(words ...): runs the command; sets status, printed and complaint.
macro(backstay)
  execute_process(COMMAND ${PYTHON} -m backstay ${ARGN} WORKING_DIRECTORY ${FOLDER}
                  RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE complaint)
endmacro()

function(require_status wanted what)
  if(NOT status EQUAL wanted)
    message(FATAL_ERROR "${what} ended with status ${status} instead of ${wanted}:\n${printed}${complaint}")
  endif()
endfunction()

# require_same_table(NAME OTHER): NAME.csv and OTHER.csv.
function(require_same_table name other)
  file(READ ${FOLDER}/${name}.csv csv)
  file(READ ${FOLDER}/${other}.csv other_csv)
  if(NOT csv STREQUAL other_csv)
    message(FATAL_ERROR "${name} has other bytes than ${other}:\n${csv}\ninstead of\n${other_csv}")
  endif()
endfunction()

# The tables, and the newest lines in the directories NAME and OTHER.
function(require_same name other)
  require_same_table(${name} ${other})
  backstay(diff ${name} ${other})
  require_status(0 "comparing the last lines of ${name} and ${other}")
endfunction()
