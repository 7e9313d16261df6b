#include "calibrate/cli/built_with.h"

#include <fmt/format.h>

#include "calibrate/cli/run_gpu.h"

namespace trireme::calibrate {

std::string built_with() {
  return fmt::format("MPI: {}\n",
                     TRIREME_WITH_MPI ? "yes" : "no, ranks of a CPU are not measured") +
         gpu_libraries();
}

}  // namespace trireme::calibrate
