#include "calibrate/cli/commands.h"

namespace trireme::calibrate {

namespace po = boost::program_options;

void add_show_options(po::options_description& options) {
  options.add_options()("output,o", po::value<std::string>()->value_name("PATH"), "write here");
}

ExitCode run_show(const Invocation& /*call*/) {
  refuse("show is not built in");
}

}  // namespace trireme::calibrate
