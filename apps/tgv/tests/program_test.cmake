# The program itself, without protection: the same table and CSV bytes on 1, 2, 3, 4 and 8 ranks; bad options refused;
# progress.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

foreach(n 16 17)
  foreach(ranks 1 2 3 4 8)
    execute_process(COMMAND ${LAUNCHER} ${RANKS_FLAG} ${ranks} ${PROGRAM} --plain --n ${n} --steps 25 --output-every 4
                            --csv ${FOLDER}/${n}-${ranks}.csv
                    OUTPUT_VARIABLE table RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "tgv on ${ranks} ranks ended with status ${status}")
    endif()
    file(READ ${FOLDER}/${n}-${ranks}.csv csv)
    if(ranks EQUAL 1)
      set(first_table "${table}")
      set(first_csv "${csv}")
      string(REGEX MATCHALL "\n" lines "${csv}")
      list(LENGTH lines count)
      if(NOT count EQUAL 9)  # a header, steps 0 4 ... 24, and the last step
        message(FATAL_ERROR "the CSV file has ${count} lines instead of 9:\n${csv}")
      endif()
    elseif(NOT table STREQUAL first_table OR NOT csv STREQUAL first_csv)
      message(FATAL_ERROR "${ranks} ranks print or write other bytes than one:\n${table}\n${first_table}")
    endif()
  endforeach()
endforeach()

# Every quantity in an array: the same bytes (those of 17^3 points were the last), and of 65 arrays five are in a line. The
# first of two ranks has 8 x 17 x 17 points.
foreach(ranks 1 8)
  execute_process(COMMAND ${LAUNCHER} ${RANKS_FLAG} ${ranks} ${PROGRAM} --plain --stored --n 17 --steps 25 --output-every 4
                          --csv ${FOLDER}/stored.csv
                  OUTPUT_VARIABLE table RESULT_VARIABLE status)
  file(READ ${FOLDER}/stored.csv csv)
  if(NOT status EQUAL 0 OR NOT table STREQUAL first_table OR NOT csv STREQUAL first_csv)
    message(FATAL_ERROR "with --stored, ${ranks} ranks gave status ${status} and\n${table}instead of\n${first_table}")
  endif()
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} -E env BACKSTAY_DIR=${FOLDER}/stored BACKSTAY_EVERY=3 BACKSTAY_POLICY=wait
                        ${LAUNCHER} ${RANKS_FLAG} 2 ${PROGRAM} --stored --n 17 --steps 25 --output-every 4
                OUTPUT_VARIABLE table RESULT_VARIABLE status)
math(EXPR array "8 * 8 * 17 * 17")
math(EXPR all "65 * ${array}")
math(EXPR left_out "60 * ${array}")
set(note "of the ${all} bytes of this rank's arrays the newest checkpoint left out ${left_out}\n")
if(NOT status EQUAL 0 OR NOT table STREQUAL "${first_table}${note}")
  message(FATAL_ERROR "with --stored and protection, status ${status} and\n${table}instead of\n${first_table}${note}")
endif()

execute_process(COMMAND ${PROGRAM} --stpes 3 RESULT_VARIABLE status ERROR_VARIABLE complaint OUTPUT_QUIET)
if(NOT status EQUAL 2 OR NOT complaint STREQUAL "tgv: unknown option '--stpes'; see tgv --help\n")
  message(FATAL_ERROR "a misspelt option gave status ${status} and: ${complaint}")
endif()
execute_process(COMMAND ${LAUNCHER} ${RANKS_FLAG} 7 ${PROGRAM} --plain --n 8 RESULT_VARIABLE status
                ERROR_VARIABLE complaint OUTPUT_QUIET)
if(status EQUAL 0 OR NOT complaint MATCHES "cannot be cut into 7 blocks")
  message(FATAL_ERROR "a cube too small for its ranks gave status ${status} and: ${complaint}")
endif()

# Where a terminal is at the other end of the pipe, progress is shown, the last state of all.
execute_process(COMMAND ${CMAKE_COMMAND} -E env _BACKSTAY_TERMINAL=1 ${LAUNCHER} ${RANKS_FLAG} 2 ${PROGRAM} --plain --n 8
                        --steps 23 OUTPUT_VARIABLE table ERROR_VARIABLE progress)
if(NOT progress MATCHES "step 0 of 23 .*step 23 of 23 [^\n\r]*\n" OR table MATCHES "of 23")
  message(FATAL_ERROR "the progress shown was: ${progress}")
endif()
execute_process(COMMAND ${LAUNCHER} ${RANKS_FLAG} 2 ${PROGRAM} --plain --n 8 --steps 23
                OUTPUT_QUIET ERROR_VARIABLE progress)
if(progress MATCHES "of 23")
  message(FATAL_ERROR "progress was shown where no terminal is: ${progress}")
endif()

# Under protection it also says how many checkpoints are durable and how many on their way: of 23 steps the calls 5, 10,
# 15 and 20 are due, and none is passed over.
set(checkpoints BACKSTAY_DIR=${FOLDER}/checkpoints BACKSTAY_EVERY=5 BACKSTAY_POLICY=wait)
execute_process(COMMAND ${CMAKE_COMMAND} -E env ${checkpoints} ${LAUNCHER} ${RANKS_FLAG} 2 ${PROGRAM} --n 8 --steps 23
                        --progress --quiet OUTPUT_QUIET ERROR_VARIABLE progress)
if(progress MATCHES "of 23")
  message(FATAL_ERROR "--quiet shows progress: ${progress}")
endif()
file(REMOVE_RECURSE ${FOLDER}/checkpoints)
execute_process(COMMAND ${CMAKE_COMMAND} -E env ${checkpoints} ${LAUNCHER} ${RANKS_FLAG} 2 ${PROGRAM} --n 8 --steps 23
                        --progress OUTPUT_QUIET ERROR_VARIABLE progress)
if(NOT progress MATCHES "step 23 of 23 [^\n\r]*checkpoints ([0-9]+) done, ([0-9]+) in flight")
  message(FATAL_ERROR "the progress shown says nothing of checkpoints: ${progress}")
endif()
math(EXPR taken "${CMAKE_MATCH_1} + ${CMAKE_MATCH_2}")
if(NOT taken EQUAL 4)
  message(FATAL_ERROR "4 checkpoints were taken; the progress shown was: ${progress}")
endif()
