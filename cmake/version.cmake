# The source behind sim/core/version.h: looked at in every build, rewritten only when the commit moved.

set(TRIREME_VERSION_SOURCE "${PROJECT_BINARY_DIR}/generated/version.cpp")
add_custom_target(trireme_version
  COMMAND "${CMAKE_COMMAND}"
          -D "ROOT=${PROJECT_SOURCE_DIR}"
          -D "TRIREME_VERSION=${PROJECT_VERSION}"
          -D "TEMPLATE=${PROJECT_SOURCE_DIR}/cmake/version.cpp.in"
          -D "OUTPUT=${TRIREME_VERSION_SOURCE}"
          -P "${PROJECT_SOURCE_DIR}/cmake/write_version.cmake"
  BYPRODUCTS "${TRIREME_VERSION_SOURCE}"
  COMMENT "Reading the git commit"
  VERBATIM)

add_library(trireme_version_text STATIC "${TRIREME_VERSION_SOURCE}")
add_library(trireme::version ALIAS trireme_version_text)
add_dependencies(trireme_version_text trireme_version)
target_include_directories(trireme_version_text PUBLIC "${PROJECT_SOURCE_DIR}")
target_link_libraries(trireme_version_text PRIVATE trireme::compiler)
