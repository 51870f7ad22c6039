# The program itself, without protection: the same bytes run after run, nearly the same on other numbers of ranks; bad
# options refused; the figures.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

# run_heat(RANKS CSV): 10 steps on 12^3 cells.
macro(run_heat ranks csv)
  execute_process(COMMAND ${LAUNCHER} ${RANKS_FLAG} ${ranks} ${PROGRAM} --plain --cells 12 --steps 10
                          --csv ${FOLDER}/${csv}
                  OUTPUT_VARIABLE table RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "heat on ${ranks} ranks ended with status ${status}")
  endif()
  file(READ ${FOLDER}/${csv} csv)
endmacro()

foreach(ranks 1 4 7)
  run_heat(${ranks} first-${ranks}.csv)
  set(first_table "${table}")
  set(first_csv "${csv}")
  run_heat(${ranks} second-${ranks}.csv)
  if(NOT table STREQUAL first_table OR NOT csv STREQUAL first_csv)
    message(FATAL_ERROR "the second run on ${ranks} ranks has other bytes than the first:\n${csv}\n${first_csv}")
  endif()
  string(REGEX MATCHALL "\n" lines "${csv}")
  list(LENGTH lines count)
  if(NOT count EQUAL 11)  # a header and 10 steps
    message(FATAL_ERROR "the CSV file has ${count} lines instead of 11:\n${csv}")
  endif()
  # The solver's tolerance shows at the tenth digit or later.
  string(REGEX MATCH "\n10,0[.]02[0-9]*,([0-9][.][0-9][0-9][0-9][0-9][0-9][0-9][0-9])" found "${csv}")
  if(ranks EQUAL 1)
    set(heat ${CMAKE_MATCH_1})
  endif()
  if(found STREQUAL "" OR NOT CMAKE_MATCH_1 STREQUAL heat)
    message(FATAL_ERROR "${ranks} ranks find another heat at the last step than one (${heat}):\n${csv}")
  endif()
endforeach()

execute_process(COMMAND ${PROGRAM} --cell 3 RESULT_VARIABLE status ERROR_VARIABLE complaint OUTPUT_QUIET)
if(NOT status EQUAL 2 OR NOT complaint STREQUAL "heat: unknown option '--cell'; see heat --help\n")
  message(FATAL_ERROR "a misspelt option gave status ${status} and: ${complaint}")
endif()
execute_process(COMMAND ${LAUNCHER} ${RANKS_FLAG} 7 ${PROGRAM} --plain --cells 2 RESULT_VARIABLE status
                ERROR_VARIABLE complaint OUTPUT_QUIET)
if(status EQUAL 0 OR NOT complaint MATCHES "2\\^3 cells cannot be shared among 7 ranks: use more --cells or fewer ranks")
  message(FATAL_ERROR "too few cells for the ranks gave status ${status} and: ${complaint}")
endif()
execute_process(COMMAND ${PROGRAM} --plain --csv ${FOLDER}/nowhere/a.csv RESULT_VARIABLE status
                ERROR_VARIABLE complaint OUTPUT_QUIET)
if(status EQUAL 0 OR NOT complaint MATCHES "cannot write the results to .*name another file with --csv")
  message(FATAL_ERROR "a CSV file that cannot be written gave status ${status} and: ${complaint}")
endif()
execute_process(COMMAND ${PROGRAM} --help RESULT_VARIABLE status OUTPUT_VARIABLE text)
if(NOT status EQUAL 0 OR NOT text MATCHES "^mpirun -n 4 heat ")
  message(FATAL_ERROR "--help gave status ${status} and: ${text}")
endif()

execute_process(COMMAND ${LAUNCHER} ${RANKS_FLAG} 2 ${PROGRAM} --plain --quiet --figures --cells 12 --steps 1
                RESULT_VARIABLE status OUTPUT_VARIABLE text)
if(NOT status EQUAL 0 OR NOT text MATCHES "^set-up +[0-9.]+ s\nstatic data .*static / dynamic: [0-9]+.*received in set-up")
  message(FATAL_ERROR "--figures gave status ${status} and: ${text}")
endif()
