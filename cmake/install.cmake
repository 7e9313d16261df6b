# Installs the library with its headers, importable by find_package(trireme) as trireme::sim, and
# the command line.
include(CMakePackageConfigHelpers)

install(TARGETS
    trireme_units trireme_core trireme_cost trireme_config trireme_program trireme_plan
    trireme_ledger trireme_engine trireme_execute trireme_study trireme_validation trireme_report
    trireme_sim
  EXPORT trireme_targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/sim"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/trireme"
  FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE PATTERN "mpi_*.h" EXCLUDE)
install(TARGETS trireme trireme-calibrate)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/trireme")
install(EXPORT trireme_targets NAMESPACE trireme:: DESTINATION "${package_dir}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/trireme-config.cmake.in"
  "${PROJECT_BINARY_DIR}/trireme-config.cmake" @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/trireme-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/trireme-config.cmake"
    "${PROJECT_BINARY_DIR}/trireme-config-version.cmake"
  DESTINATION "${package_dir}")
