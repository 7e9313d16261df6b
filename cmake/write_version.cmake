# Writes OUTPUT from TEMPLATE with TRIREME_VERSION and the git commit of ROOT.
cmake_minimum_required(VERSION 3.25)

set(TRIREME_COMMIT unknown)
find_program(GIT_PROGRAM git)
# The test for .git keeps an unpacked archive inside another checkout from naming that one's commit.
if(GIT_PROGRAM AND EXISTS "${ROOT}/.git")
  execute_process(
    COMMAND "${GIT_PROGRAM}" describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY "${ROOT}"
    OUTPUT_VARIABLE described
    RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
  if(NOT failed)
    set(TRIREME_COMMIT "${described}")
  endif()
endif()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
