// The `trireme-calibrate` executable.
#include <csignal>
#include <string>
#include <vector>

#include "calibrate/cli/command_line.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is reported as a failed write
  return static_cast<int>(trireme::calibrate::run(std::vector<std::string>(argv + 1, argv + argc)));
}
