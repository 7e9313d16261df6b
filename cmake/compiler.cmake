# Compiler settings of our own targets, on an interface target so that nothing is global.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

add_library(trireme_compiler INTERFACE)
add_library(trireme::compiler ALIAS trireme_compiler)
target_compile_features(trireme_compiler INTERFACE cxx_std_20)
target_compile_options(trireme_compiler INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow>"
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TRIREME_WARNINGS_AS_ERRORS}>>:-Werror>
  # Results are printed and compared: a fused multiply-add on one machine must not change a digit.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TRIREME_WARNINGS_AS_ERRORS}>>:-Werror=all-warnings>)
# A test program's own code takes longer to compile than to run: trireme_tests() sets the property.
set(is_test_program "$<BOOL:$<TARGET_PROPERTY:TRIREME_TEST_PROGRAM>>")
target_compile_options(trireme_compiler INTERFACE
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>,${is_test_program}>:-O1>")
target_compile_definitions(trireme_compiler INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)

if(TRIREME_SANITIZE)
  target_compile_options(trireme_compiler INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:$<IF:${is_test_program},-O0,-Og>>"
    "$<$<COMPILE_LANGUAGE:CXX>:-g1;-fno-omit-frame-pointer;-fsanitize=${TRIREME_SANITIZE}>"
    # The address sanitizer sees null pointers too, and x86-64 has no alignment to miss: without
    # these two checks the library compiles in half the time.
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,alignment>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>
    # GCC 12 sees uninitialised members in instrumented code of the standard library's <regex>.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(trireme_compiler INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()
if(TRIREME_BUILD_FUZZERS)
  target_compile_options(trireme_compiler INTERFACE -fsanitize=fuzzer-no-link)
endif()
