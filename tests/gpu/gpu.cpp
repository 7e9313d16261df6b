#include "tests/gpu/gpu.h"

#include <string>

#include "calibrate/probe/gpu/support.h"
#include "tests/catch.h"

namespace trireme::test {

bool has_gpu() {
  const std::string missing = calibrate::gpu::support().missing();
  if (!missing.empty()) {
    skip("no GPU: " + missing);
  }
  return missing.empty();
}

}  // namespace trireme::test
