# The program itself: the same table and CSV bytes on 1, 2, 3 and 4 ranks, with and without protection; bad options and
# too few iterations refused; and what a checkpoint leaves out.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

set(checkpoints BACKSTAY_DIR=${FOLDER}/checkpoints BACKSTAY_EVERY=3 BACKSTAY_POLICY=wait)

# run_tea2d(RANKS OPTIONS ...): sets status, printed and complaint.
macro(run_tea2d ranks)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env ${checkpoints} ${LAUNCHER} ${RANKS_FLAG} ${ranks} ${PROGRAM} ${ARGN}
                  RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE complaint)
endmacro()

foreach(solver cg chebyshev ppcg)
  set(problem --nx 45 --ny 31 --steps 6 --solver ${solver} --csv ${FOLDER}/curve.csv)
  set(all_ranks 1 4)
  if(solver STREQUAL ppcg)
    set(all_ranks 1 2 3 4)
  endif()
  foreach(ranks ${all_ranks})
    run_tea2d(${ranks} --plain ${problem})
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "tea2d on ${ranks} ranks ended with status ${status}:\n${complaint}")
    endif()
    file(READ ${FOLDER}/curve.csv csv)
    if(ranks EQUAL 1)
      set(first_table "${printed}")
      set(first_csv "${csv}")
      string(REGEX MATCHALL "\n" lines "${csv}")
      list(LENGTH lines count)
      if(NOT count EQUAL 7 OR NOT printed MATCHES "6 of 6 steps, total energy [0-9.]+\n$")
        message(FATAL_ERROR "tea2d printed\n${printed}and the CSV file is\n${csv}")
      endif()
    elseif(NOT printed STREQUAL first_table OR NOT csv STREQUAL first_csv)
      message(FATAL_ERROR "${ranks} ranks print or write other bytes than one:\n${printed}\n${first_table}")
    endif()
  endforeach()

  # 11 arrays with ppcg, 10 with chebyshev, 9 with cg: the energy is in the line, the density is static, the others are
  # left out. 22 x 31 cells belong to the first of two ranks.
  file(REMOVE_RECURSE ${FOLDER}/checkpoints)
  run_tea2d(2 ${problem})
  file(READ ${FOLDER}/curve.csv csv)
  set(arrays 9)
  if(solver STREQUAL chebyshev)
    set(arrays 10)
  elseif(solver STREQUAL ppcg)
    set(arrays 11)
  endif()
  math(EXPR all "${arrays} * 22 * 31 * 8")
  math(EXPR left_out "(${arrays} - 2) * 22 * 31 * 8")
  set(note "of the ${all} bytes of this rank's arrays the newest checkpoint left out ${left_out}\n")
  if(NOT status EQUAL 0 OR NOT csv STREQUAL first_csv OR NOT printed STREQUAL "${first_table}${note}")
    message(FATAL_ERROR "with protection, ${solver} gave status ${status} and\n${printed}instead of\n"
                        "${first_table}${note}${complaint}")
  endif()
endforeach()

# With mesh, matrix and all between two loops in arrays: the same bytes (those of ppcg were the last), and of 20 arrays one is
# in the line, six are static.
foreach(ranks 1 3)
  run_tea2d(${ranks} --plain --stored ${problem})
  file(READ ${FOLDER}/curve.csv csv)
  if(NOT status EQUAL 0 OR NOT printed STREQUAL first_table OR NOT csv STREQUAL first_csv)
    message(FATAL_ERROR "with --stored, ${ranks} ranks gave status ${status} and\n${printed}instead of\n${first_table}")
  endif()
endforeach()
file(REMOVE_RECURSE ${FOLDER}/checkpoints)
run_tea2d(2 --stored ${problem})
math(EXPR all "20 * 22 * 31 * 8")
math(EXPR left_out "13 * 22 * 31 * 8")
set(note "of the ${all} bytes of this rank's arrays the newest checkpoint left out ${left_out}\n")
if(NOT status EQUAL 0 OR NOT printed STREQUAL "${first_table}${note}")
  message(FATAL_ERROR "with --stored and protection, status ${status} and\n${printed}instead of\n${first_table}${note}")
endif()

run_tea2d(2 --quiet --n 16 --steps 2 --plain)
if(NOT printed MATCHES "^2 of 2 steps, total energy [0-9.]+\n$")
  message(FATAL_ERROR "with --quiet this was printed:\n${printed}")
endif()

# refuse(STATUS SENTENCE RANKS OPTIONS ...): not that status in every MPI, where there are several ranks.
function(refuse wanted sentence ranks)
  run_tea2d(${ranks} ${ARGN})
  if(status EQUAL 0 OR (ranks EQUAL 1 AND NOT status EQUAL wanted) OR NOT complaint MATCHES "tea2d: ${sentence}")
    message(FATAL_ERROR "tea2d ${ARGN} gave status ${status} and: ${complaint}")
  endif()
endfunction()

refuse(2 "unknown option '--stpes'; see tea2d --help\n" 1 --stpes 3)
refuse(2 "--solver takes cg, chebyshev or ppcg, not 'sor'\n" 1 --solver sor)
refuse(2 "--n takes a number from 2 to 32768, not '0'\n" 1 --n 0)
refuse(1 "the solver cg has a residual of [0-9.e-]+ after 5 iterations instead of 1e-10: give a larger" 3
       --plain --n 32 --max-iterations 5)
refuse(1 "2 x 2 cells cannot be cut into 3 blocks" 3 --plain --n 2)
refuse(1 "cannot write the results to ${FOLDER}/none/a.csv: No such file" 1 --plain --csv ${FOLDER}/none/a.csv)
