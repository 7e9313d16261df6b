# The source behind sim/cli/version.h: looked at in every build, rewritten only when the commit moved.

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
