#include "sim/engine/execute/heap.h"

#include <cstdlib>  // defines __GLIBC__ where it is

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace trireme::engine {

void keep_freed_memory() {
#if defined(__GLIBC__)
  // Source: glibc manual, "Malloc Tunable Parameters"
  static const bool kept = mallopt(M_MMAP_MAX, 0) != 0 && mallopt(M_TRIM_THRESHOLD, -1) != 0;
  static_cast<void>(kept);
#endif
}

}  // namespace trireme::engine
