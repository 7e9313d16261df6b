#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/cli/commands.h"
#include "calibrate/cli/fitting.h"
#include "calibrate/fit/comparison.h"
#include "calibrate/fit/kernel_names.h"
#include "sim/config/library.h"
#include "sim/config/profile.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/files.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace po = boost::program_options;

namespace {

config::ProfileSpec profile_of(const std::string& name) {
  const config::Resolved resolved =
      config::Library({}).resolve(config::PresetKind::profile, config::make_text(name, {}), name);
  return config::read_profile(resolved.node, resolved.name);
}

std::string coefficients_text(const config::ProfileSpec& profile) {
  std::string text =
      fmt::format("profile {}, GPU {}{}{}\n",
                  printable(profile.name),
                  printable(profile.gpu.value),
                  profile.date.empty() ? "" : ", " + printable(profile.date),
                  profile.description.empty() ? "" : ", " + printable(profile.description));
  std::size_t width = 0;
  for (const config::CoefficientSpec& coefficient : profile.coefficients) {
    width = std::max(width, coefficient.key.size());
  }
  for (const config::CoefficientSpec& coefficient : profile.coefficients) {
    const std::string spread = coefficient.spread_low.empty()
                                   ? ""
                                   : fmt::format("{} .. {}",
                                                 printable(coefficient.spread_low),
                                                 printable(coefficient.spread_high));
    text += fmt::format("  {:<{}}  {:<14} {:<28} {:>6}  {}{}\n",
                        coefficient.key,
                        width,
                        printable(coefficient.value),
                        spread,
                        coefficient.samples ? fmt::format("{}", *coefficient.samples) : "-",
                        printable(coefficient.source),
                        coefficient.date.empty() ? "" : ", " + printable(coefficient.date));
  }
  const cost::ResidualTables& tables = profile.costs.residuals;
  const std::size_t groups = tables.all_to_all.size() + tables.all_gather.size() +
                             tables.reduce_scatter.size() + tables.all_reduce.size() +
                             tables.send_recv.size();
  if (groups > 0) {
    text += fmt::format("  tables of residuals of {} groups\n", groups);
  }
  return text;
}

}  // namespace

void add_show_options(po::options_description& options) {
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("output,o", text("FILE"), "write the tables here; else to stdout")(
      "svg", text("FILE"), "draw measured and predicted seconds")(
      "nic-rate", text("RATE"), "line rate of one GPU's NIC, one direction, such as '400 Gbit/s'")(
      "kernel",
      po::value<std::vector<std::string>>()->value_name("A=B"),
      "attention kernel A takes the place of B; may be repeated");
}

ExitCode run_show(const Invocation& call) {
  const config::ProfileSpec profile = profile_of(call.arguments.front());
  std::string text = coefficients_text(profile);
  const std::vector<std::string> folders(call.arguments.begin() + 1, call.arguments.end());
  for (const char* const option : {"svg", "nic-rate", "kernel"}) {
    if (folders.empty() && call.values.count(option) != 0) {
      refuse(fmt::format("--{} is of measurements, and no folder of them is given", option),
             "name what run or import wrote");
    }
  }
  if (!folders.empty()) {
    MeasurementSet set = read_folders(folders);
    rename_kernels(kernel_places(call), set.measurements);
    const std::vector<Panel> panels =
        compare_with(set.measurements, profile.costs, nic_rate_of(call));
    text += '\n' + comparison_text(panels);
    if (!call.text("svg").empty()) {
      write_file_atomically(call.text("svg"), comparison_svg(panels));
    }
  }
  write_result(call, text);
  return ExitCode::done;
}

}  // namespace trireme::calibrate
