#include "calibrate/cli/commands.h"

namespace trireme::calibrate {

namespace po = boost::program_options;

void add_import_options(po::options_description& options) {
  options.add_options()("output,o", po::value<std::string>()->value_name("PATH"), "write here");
}

ExitCode run_import(const Invocation& /*call*/) {
  refuse("import is not built in");
}

}  // namespace trireme::calibrate
