#include "calibrate/cli/commands.h"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/core/nearest.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace {

constexpr std::array kCommands = {
    Command{"run",
            "how fast is this machine? measures it, point by point",
            "",
            0,
            0,
            "  trireme calibrate run -o measured\n"
            "  mpirun -n 8 trireme calibrate run -o measured\n",
            add_run_options,
            run_run},
    Command{"import",
            "what did others measure? logs of other tools into measurements",
            "FILE...",
            1,
            -1,
            "  trireme-calibrate import all_gather.log alltoall.log -o measured\n",
            add_import_options,
            run_import},
    Command{"fit",
            "which coefficients explain it? measurements into a profile",
            "[FOLDER...]",
            0,
            -1,
            "  trireme-calibrate fit measured --gpu h100-sxm --nic-rate '400 Gbit/s' -o h100.yaml\n"
            "  trireme-calibrate fit --law steps.csv -o law.yaml\n",
            add_fit_options,
            run_fit},
    Command{"show",
            "what does a profile say? its coefficients, and measured against fitted",
            "PROFILE.yaml [FOLDER...]",
            1,
            -1,
            "  trireme-calibrate show profile.yaml\n"
            "  trireme-calibrate show profile.yaml measured --svg fit.svg\n",
            add_show_options,
            run_show},
};

}  // namespace

std::span<const Command> command_table() {
  return kCommands;
}

const Command& find_command(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.name == name) {
      return command;
    }
    names.emplace_back(command.name);
  }
  refuse(fmt::format("no command is named {}", in_quotes(name)), hint_near(name, names));
}

}  // namespace trireme::calibrate
