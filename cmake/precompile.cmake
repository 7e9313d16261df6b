# The headers that nearly every source includes take longer to read than most of our sources.

# trireme_precompile(TARGET HEADER...): reads the headers once for all sources of the target, and
# with them those of the standard library that most sources want. Not for a few sources, nor beside
# ccache, which sees through precompiled headers only with its checks off.
function(trireme_precompile target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(count LESS 8 OR CCACHE_PROGRAM)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <span> <string>
    <string_view> <utility> <vector> ${ARGN})
endfunction()
