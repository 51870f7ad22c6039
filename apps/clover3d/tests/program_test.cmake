# The program itself: the same table and CSV bytes on 1, 2, 3, 4 and 8 ranks, with and without protection; bad options
# refused; and what a checkpoint leaves out.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

set(checkpoints BACKSTAY_DIR=${FOLDER}/checkpoints BACKSTAY_EVERY=3 BACKSTAY_POLICY=wait)

# run_clover3d(RANKS OPTIONS ...): sets status, printed and complaint.
macro(run_clover3d ranks)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env ${checkpoints} ${LAUNCHER} ${RANKS_FLAG} ${ranks} ${PROGRAM} ${ARGN}
                  RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE complaint)
endmacro()

set(problem --nx 13 --ny 11 --nz 10 --steps 12 --output-every 5 --csv ${FOLDER}/shock.csv)
foreach(ranks 1 2 3 4 8)
  run_clover3d(${ranks} --plain ${problem})
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "clover3d on ${ranks} ranks ended with status ${status}:\n${complaint}")
  endif()
  file(READ ${FOLDER}/shock.csv csv)
  if(ranks EQUAL 1)
    set(first_table "${printed}")
    set(first_csv "${csv}")
    string(REGEX MATCHALL "\n" lines "${csv}")
    list(LENGTH lines count)  # a header, steps 0, 5 and 10, and the last step
    if(NOT count EQUAL 5 OR NOT printed MATCHES "12 of 12 steps, mass [0-9.]+, total energy [0-9.]+\n$")
      message(FATAL_ERROR "clover3d printed\n${printed}and the CSV file is\n${csv}")
    endif()
  elseif(NOT printed STREQUAL first_table OR NOT csv STREQUAL first_csv)
    message(FATAL_ERROR "${ranks} ranks print or write other bytes than one:\n${printed}\n${first_table}")
  endif()
endforeach()

# The first of two ranks has 6 x 11 x 10 cells, 6 x 12 x 11 nodes and 6 x 11 x 10, 6 x 12 x 10 and 6 x 11 x 11 faces
# (the second one has the nodes and faces at the end of x). Of 8 arrays of cells and 13 of nodes, 2 and 3 are in the
# line; of 3 arrays of each kind of faces one is static, and so is one of cells; the others are left out.
run_clover3d(2 ${problem})
file(READ ${FOLDER}/shock.csv csv)
math(EXPR all "8 * (8 * 660 + 13 * 792 + 3 * 660 + 3 * 720 + 3 * 726 + 4 * (13 + 11 + 10) + 6)")
math(EXPR left_out "8 * (5 * 660 + 10 * 792 + 2 * 660 + 2 * 720 + 2 * 726)")
set(note "of the ${all} bytes of this rank's arrays the newest checkpoint left out ${left_out}\n")
if(NOT status EQUAL 0 OR NOT csv STREQUAL first_csv OR NOT printed STREQUAL "${first_table}${note}")
  message(FATAL_ERROR "with protection, clover3d gave status ${status} and\n${printed}instead of\n"
                      "${first_table}${note}${complaint}")
endif()

run_clover3d(2 --quiet --n 8 --steps 2 --plain)
if(NOT printed MATCHES "^2 of 2 steps, mass [0-9.]+, total energy [0-9.]+\n$")
  message(FATAL_ERROR "with --quiet this was printed:\n${printed}")
endif()

# refuse(STATUS SENTENCE RANKS OPTIONS ...): not that status in every MPI, where there are several ranks.
function(refuse wanted sentence ranks)
  run_clover3d(${ranks} ${ARGN})
  if(status EQUAL 0 OR (ranks EQUAL 1 AND NOT status EQUAL wanted) OR NOT complaint MATCHES "clover3d: ${sentence}")
    message(FATAL_ERROR "clover3d ${ARGN} gave status ${status} and: ${complaint}")
  endif()
endfunction()

refuse(2 "unknown option '--stpes'; see clover3d --help\n" 1 --stpes 3)
refuse(2 "--n takes a number from 2 to 1024, not '0'\n" 1 --n 0)
refuse(1 "4 x 4 x 2 cells cannot be cut into 3 blocks of at least 2 cells along each axis: use" 3
       --plain --nx 4 --ny 4 --nz 2)
refuse(1 "cannot write the results to ${FOLDER}/none/a.csv: No such file" 1 --plain --csv ${FOLDER}/none/a.csv)
