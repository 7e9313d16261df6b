// The `trireme-calibrate` executable.
#include <csignal>
#include <string>
#include <vector>

#include "calibrate/cli/command_line.h"
#if TRIREME_WITH_GPU
#include "calibrate/probe/gpu/support.h"
#endif

int main(int argc, char** argv) {
#if TRIREME_WITH_GPU
  trireme::calibrate::offer_gpus(&trireme::calibrate::gpu::support());
#endif
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is reported as a failed write
  return static_cast<int>(trireme::calibrate::run(std::vector<std::string>(argv + 1, argv + argc)));
}
