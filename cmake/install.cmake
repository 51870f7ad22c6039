# cmake --install BUILD --prefix P: headers, the library, and what find_package(backstay) reads. With the component
# python alone: the Python package, for those who do not use pip.
include(CMakePackageConfigHelpers)

# An installed library finds ISA-L and MPI where the build found them.
set_target_properties(backstay PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
set(BACKSTAY_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/backstay)

install(TARGETS backstay EXPORT backstay
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT library)
if(TARGET backstay_check_preload)
  install(TARGETS backstay_check_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endif()
if(TARGET backstay_fortran)
  install(TARGETS backstay_fortran EXPORT backstay ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
  install(FILES $<TARGET_PROPERTY:backstay_fortran,Fortran_MODULE_DIRECTORY>/backstay.mod
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/backstay/fortran COMPONENT library)
endif()
set(no_mpi_header)
if(NOT BACKSTAY_HAVE_MPI)
  set(no_mpi_header PATTERN backstay_mpi.h EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/backstay DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
        ${no_mpi_header})
install(FILES ${PROJECT_BINARY_DIR}/include/backstay/config.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/backstay
        COMPONENT library)
install(EXPORT backstay NAMESPACE backstay:: FILE backstay-targets.cmake DESTINATION ${BACKSTAY_CMAKE_DIR}
        COMPONENT library)

configure_package_config_file(cmake/backstay-config.cmake.in ${PROJECT_BINARY_DIR}/backstay-config.cmake
                              INSTALL_DESTINATION ${BACKSTAY_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/backstay-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/backstay-config.cmake ${PROJECT_BINARY_DIR}/backstay-config-version.cmake
        DESTINATION ${BACKSTAY_CMAKE_DIR} COMPONENT library)
