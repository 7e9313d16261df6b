#include "calibrate/cli/commands.h"

namespace trireme::calibrate {

namespace po = boost::program_options;

void add_run_options(po::options_description& options) {
  options.add_options()("output,o",
                        po::value<std::string>()->value_name("FOLDER"),
                        "append measurements here; what is there already is not measured again");
}

ExitCode run_run(const Invocation& /*call*/) {
  refuse("run is not built in");
}

}  // namespace trireme::calibrate
