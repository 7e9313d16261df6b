# Writes OUTPUT, a file for ctest, with a test for each test case of PROGRAM: KIND and the TAGS that
# the case has are its labels.
cmake_minimum_required(VERSION 3.25)

if(CATCH_VERSION VERSION_LESS 3)
  set(list_names --list-test-names-only)
else()
  set(list_names --list-tests --verbosity quiet)
endif()

# The names of the test cases that a Catch2 test specification selects. Brackets are replaced by
# control characters: CMake would not split a list inside a pair of them.
string(ASCII 1 open)
string(ASCII 2 close)
string(ASCII 3 semicolon)
function(list_cases result)
  # Catch2 v2 exits with the number of cases, so only a program that could not run has a word here.
  execute_process(COMMAND "${PROGRAM}" ${ARGN} ${list_names}
    OUTPUT_VARIABLE names
    ERROR_VARIABLE errors
    RESULT_VARIABLE status)
  if(NOT status MATCHES "^[0-9]+$" OR errors)
    message(FATAL_ERROR "${PROGRAM}: cannot list its test cases: ${status}\n${errors}")
  endif()
  string(REPLACE "[" "${open}" names "${names}")
  string(REPLACE "]" "${close}" names "${names}")
  string(REPLACE ";" "${semicolon}" names "${names}")
  string(REGEX REPLACE "\n+$" "" names "${names}")
  string(REPLACE "\n" ";" names "${names}")
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

list_cases(cases)
if(NOT cases)
  message(FATAL_ERROR "${PROGRAM}: has no test case")
endif()
string(REPLACE " " ";" TAGS "${TAGS}")
foreach(tag IN LISTS TAGS)
  list_cases(cases_with_${tag} "[${tag}]")
endforeach()

set(script "")
foreach(case IN LISTS cases)
  set(labels "${KIND}")
  set(arguments "")
  foreach(tag IN LISTS TAGS)
    if(case IN_LIST cases_with_${tag})
      list(APPEND labels "${tag}")
    endif()
  endforeach()
  if("slow" IN_LIST labels)
    set(arguments " --rng-seed time")
    set(timeout 1800)
  else()
    set(timeout 120)
  endif()

  string(REPLACE "${open}" "[" name "${case}")
  string(REPLACE "${close}" "]" name "${name}")
  string(REPLACE "${semicolon}" ";" name "${name}")
  # In a test specification these characters have a meaning.
  string(REGEX REPLACE "([][,\\\\\"])" "\\\\\\1" specification "${name}")
  string(APPEND script
    "add_test([==[${KIND}: ${name}]==] [==[${PROGRAM}]==] [==[${specification}]==]${arguments})\n"
    "set_tests_properties([==[${KIND}: ${name}]==] PROPERTIES\n"
    "  LABELS \"${labels}\" TIMEOUT ${timeout} SKIP_RETURN_CODE 77)\n")
endforeach()
file(WRITE "${OUTPUT}" "${script}")
