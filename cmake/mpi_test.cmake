# backstay_mpi_test(NAME name TARGET executable RANKS 1 2 4 8 [ARGS ...] [TIMEOUT seconds])
# One ctest per number of ranks, named NAME.N_ranks and labelled mpi: the executable under mpirun, on this machine.
# A test that does not end within TIMEOUT (default 120; so many times longer where its own waits are: test_code.cmake)
# fails, and none of its processes is left.
include_guard(GLOBAL)

function(backstay_mpi_test)
  cmake_parse_arguments(PARSE_ARGV 0 T "" "NAME;TARGET;TIMEOUT" "RANKS;ARGS")
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  math(EXPR T_TIMEOUT "${T_TIMEOUT} * ${backstay_test_pace}")
  # mpirun.sh ends the job itself, with its last words; ctest's own time-out, which counts standstills, is the second net.
  math(EXPR outer "${T_TIMEOUT} + 180")
  foreach(ranks ${T_RANKS})
    set(test ${T_NAME}.${ranks}_ranks)
    add_test(NAME ${test} COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/mpirun.sh ${MPIEXEC_EXECUTABLE} ${ranks} ${T_TIMEOUT}
                                  $<TARGET_FILE:${T_TARGET}> ${T_ARGS})
    # Two slots at most: ranks mostly wait for each other, and a ctest -j 2 would never start a test of eight.
    set(slots ${ranks})
    if(slots GREATER 2)
      set(slots 2)
    endif()
    set_tests_properties(${test} PROPERTIES TIMEOUT ${outer} LABELS mpi PROCESSORS ${slots})
  endforeach()
endfunction()
