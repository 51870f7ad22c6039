# Half of a build from nothing is tests. They are compiled without optimisation (what they test is optimised), and the
# programs of GoogleTest share one precompiled header.
add_library(backstay_test_code INTERFACE)
target_link_libraries(backstay_test_code INTERFACE backstay_warnings)
target_compile_options(backstay_test_code INTERFACE -pthread)  # as MPI's flags say: the header is the same for all
if(NOT BACKSTAY_SANITIZE)
  target_compile_options(backstay_test_code INTERFACE -O0)
endif()

# Time-outs that tests wait for are so many times longer where sanitizers make everything slower.
set(backstay_test_pace 1)
if(BACKSTAY_SANITIZE)
  set(backstay_test_pace 4)
endif()
target_compile_definitions(backstay_test_code INTERFACE BACKSTAY_TEST_PACE=${backstay_test_pace})

if(BACKSTAY_UNITY)
  add_executable(backstay_test_headers EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/test_headers.cpp)
  target_link_libraries(backstay_test_headers PRIVATE backstay_test_code GTest::gtest Threads::Threads)
  target_precompile_headers(backstay_test_headers PRIVATE <gtest/gtest.h> <algorithm> <array> <chrono> <filesystem>
                            <fstream> <functional> <map> <random> <thread>)
endif()

# backstay_gtest(TARGET LIBRARIES ...): what a program of GoogleTest is compiled with.
function(backstay_gtest target)
  target_link_libraries(${target} PRIVATE ${ARGN} backstay_test_code)
  if(BACKSTAY_UNITY)
    target_precompile_headers(${target} REUSE_FROM backstay_test_headers)
  endif()
endfunction()
