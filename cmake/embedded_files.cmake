# The YAML presets, compiled into the binary as the table behind sim/config/embedded_files.h.

file(GLOB embedded RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/models/*.yaml"
  "${PROJECT_SOURCE_DIR}/topologies/accuracy/*.yaml"
  "${PROJECT_SOURCE_DIR}/topologies/gpus/*.yaml"
  "${PROJECT_SOURCE_DIR}/topologies/clusters/*.yaml"
  "${PROJECT_SOURCE_DIR}/topologies/memory/*.yaml"
  "${PROJECT_SOURCE_DIR}/topologies/nccl/*.yaml"
  "${PROJECT_SOURCE_DIR}/topologies/overheads/*.yaml"
  "${PROJECT_SOURCE_DIR}/topologies/profiles/*.yaml"
  "${PROJECT_SOURCE_DIR}/reports/*/law.yaml"
  "${PROJECT_SOURCE_DIR}/reports/*/study.yaml"
  "${PROJECT_SOURCE_DIR}/tests/validation/cases/*.yaml")
list(SORT embedded)

set(TRIREME_EMBEDDED_FILES_SOURCE "${PROJECT_BINARY_DIR}/generated/embedded_files.cpp")
# The list is a file of its own, written only when it changes: a preset that was added or removed
# makes the table anew.
set(embedded_list "${PROJECT_BINARY_DIR}/generated/embedded_files.txt")
list(JOIN embedded "\n" embedded_text)
file(CONFIGURE OUTPUT "${embedded_list}" CONTENT "${embedded_text}" @ONLY)

list(TRANSFORM embedded PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE embedded_paths)
add_custom_command(
  OUTPUT "${TRIREME_EMBEDDED_FILES_SOURCE}"
  COMMAND "${CMAKE_COMMAND}"
          -D "ROOT=${PROJECT_SOURCE_DIR}"
          -D "LIST=${embedded_list}"
          -D "OUTPUT=${TRIREME_EMBEDDED_FILES_SOURCE}"
          -P "${PROJECT_SOURCE_DIR}/cmake/write_embedded_files.cmake"
  DEPENDS ${embedded_paths} "${embedded_list}"
          "${PROJECT_SOURCE_DIR}/cmake/write_embedded_files.cmake"
  COMMENT "Embedding the YAML presets"
  VERBATIM)
