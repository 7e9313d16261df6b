# trireme_module(NAME [FOLDER folder] [EXCLUDE regex]
#                [PUBLIC libs...] [PRIVATE libs...] [GENERATED files...])
#
# The library of sim/NAME, or of FOLDER, a path from the root: every .cpp below it, except main.cpp
# and the paths that match EXCLUDE, as trireme::NAME.
# A module of headers only is an interface library. The list of files is checked at every build.
function(trireme_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER;EXCLUDE" "PUBLIC;PRIVATE;GENERATED")
  if(NOT arg_FOLDER)
    set(arg_FOLDER "sim/${name}")
  endif()
  set(folder "${PROJECT_SOURCE_DIR}/${arg_FOLDER}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  list(REMOVE_ITEM sources "${folder}/main.cpp")
  if(arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  list(APPEND sources ${arg_GENERATED})

  set(target trireme_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(public PUBLIC)
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:trireme::compiler>)
  else()
    add_library(${target} INTERFACE)
    set(public INTERFACE)
  endif()
  add_library(trireme::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} ${public}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/trireme>)
  target_compile_features(${target} ${public} cxx_std_20)
  target_link_libraries(${target} ${public} ${arg_PUBLIC})
  if(sources)
    trireme_precompile(${target})
  endif()
endfunction()
