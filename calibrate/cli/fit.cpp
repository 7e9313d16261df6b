#include "calibrate/cli/commands.h"

namespace trireme::calibrate {

namespace po = boost::program_options;

void add_fit_options(po::options_description& options) {
  options.add_options()("output,o", po::value<std::string>()->value_name("PATH"), "write here");
}

ExitCode run_fit(const Invocation& /*call*/) {
  refuse("fit is not built in");
}

}  // namespace trireme::calibrate
