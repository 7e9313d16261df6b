# Catch2 test programs and their test cases, for Catch2 v2 (Debian 12) and v3 (Ubuntu 24.04).

# trireme_tests(KIND): tests/KIND/**.cpp as the program trireme_KIND_tests, each test case a ctest
# test. main.cpp is left out: it belongs to a program that the tests start. A test case has the label
# KIND and one for each of its tags in the list below. Catch2 v2 cannot turn tags into labels, so
# discover_tests.cmake asks the program itself after it is built.
function(trireme_tests kind)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${kind}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)
    return()
  endif()
  set(target trireme_${kind}_tests)
  add_executable(${target} ${sources})
  set_target_properties(${target} PROPERTIES TRIREME_TEST_PROGRAM ON)
  target_link_libraries(${target} PRIVATE trireme_test_support trireme::compiler)
  trireme_precompile(${target} <fmt/format.h> "${PROJECT_SOURCE_DIR}/tests/catch.h")
  add_dependencies(${target} trireme trireme-calibrate)

  set(tests_file "${CMAKE_CURRENT_BINARY_DIR}/${target}.cmake")
  add_custom_command(
    TARGET ${target} POST_BUILD
    BYPRODUCTS "${tests_file}"
    COMMAND "${CMAKE_COMMAND}"
            -D "PROGRAM=$<TARGET_FILE:${target}>"
            -D "KIND=${kind}"
            -D "TAGS=golden slow"
            -D "CATCH_VERSION=${Catch2_VERSION}"
            -D "OUTPUT=${tests_file}"
            -P "${PROJECT_SOURCE_DIR}/cmake/discover_tests.cmake"
    VERBATIM)
  # Before the program is built there is one test that says so.
  set(include_file "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake")
  file(WRITE "${include_file}"
    "if(EXISTS \"${tests_file}\")\n"
    "  include(\"${tests_file}\")\n"
    "else()\n"
    "  add_test(${target}_is_not_built ${target})\n"
    "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include_file}")
  set(TRIREME_TEST_PROGRAMS ${TRIREME_TEST_PROGRAMS} ${target} PARENT_SCOPE)
endfunction()

# trireme_script_test(NAME): the self-test of scripts/NAME.py.
function(trireme_script_test name)
  add_test(NAME "script: ${name}"
    COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/${name}.py" --self-test)
  set_tests_properties("script: ${name}" PROPERTIES LABELS unit)
endfunction()
