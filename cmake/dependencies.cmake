# What backstay needs: ISA-L (CRC32C, Reed-Solomon), nlohmann-json (manifests), and MPI unless BACKSTAY_MPI is off.
find_path(ISAL_INCLUDE_DIR isa-l.h)
find_library(ISAL_LIBRARY isal)
if(NOT ISAL_INCLUDE_DIR OR NOT ISAL_LIBRARY)
  message(FATAL_ERROR "backstay needs ISA-L: install libisal-dev (Debian, Ubuntu) or isa-l (Spack, Fedora), "
                      "or name its prefix in CMAKE_PREFIX_PATH. `./dev setup` does it without root.")
endif()
add_library(backstay_isal UNKNOWN IMPORTED)
set_target_properties(backstay_isal PROPERTIES IMPORTED_LOCATION ${ISAL_LIBRARY}
                                               INTERFACE_INCLUDE_DIRECTORIES ${ISAL_INCLUDE_DIR})
# What is installed finds ISA-L where the build found it. CMake leaves such a path out where it lies below the sources,
# as that of ./dev setup does.
get_filename_component(isal_directory ${ISAL_LIBRARY} DIRECTORY)
if(NOT isal_directory IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
  list(APPEND CMAKE_INSTALL_RPATH ${isal_directory})
endif()
find_package(nlohmann_json 3.9 REQUIRED)
find_package(Threads REQUIRED)
set(BACKSTAY_HAVE_MPI 0)
if(BACKSTAY_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS C CXX)
  set(BACKSTAY_HAVE_MPI 1)
endif()
