#include "calibrate/fit/fit.h"

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/cli/commands.h"
#include "calibrate/fit/report.h"
#include "calibrate/measurement/measurement_file.h"
#include "sim/config/cluster.h"
#include "sim/config/library.h"
#include "sim/core/files.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace po = boost::program_options;

namespace {

template <class Parse>
auto parsed(const Invocation& call, const std::string& option, Parse parse) {
  try {
    return parse(call.text(option));
  } catch (const BadText& bad) {
    refuse(fmt::format("--{}: {}", option, bad.what()), bad.hint());
  }
}

/// A reference to a GPU as a study would write it.
config::GpuSpec gpu_of(const Invocation& call) {
  const std::string name = call.text("gpu");
  if (name.empty()) {
    refuse("no --gpu is given", "name the preset or file of the GPU that was measured");
  }
  return config::read_gpu(config::make_text(name, {}), config::Library({}));
}

FitOptions options_of(const Invocation& call) {
  FitOptions options;
  options.gpu = gpu_of(call);
  if (!call.text("nic-rate").empty()) {
    options.nic_rate = parsed(call, "nic-rate", parse_bytes_per_second);
  }
  if (!call.text("seed").empty()) {
    options.seed = static_cast<std::uint64_t>(parsed(call, "seed", parse_count));
  }
  if (!call.text("least-tokens").empty()) {
    options.least_tokens = parsed(call, "least-tokens", parse_tokens);
  }
  if (!call.text("least-width").empty()) {
    options.least_width = parsed(call, "least-width", parse_count);
  }
  options.accept_slow_fabric = call.flag("accept-slow-fabric");
  options.device = call.text("device");
  options.source = call.text("source");
  if (call.values.count("kernel") != 0) {
    for (const std::string& text : call.values["kernel"].as<std::vector<std::string>>()) {
      const std::size_t equals = text.rfind('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
        refuse(fmt::format("--kernel: {} is not MEASURED=PROFILE", in_quotes(text)),
               "such as --kernel eigen=flash2");
      }
      options.kernels[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  return options;
}

MeasurementSet read_all(const std::vector<std::string>& folders) {
  MeasurementSet all;
  for (const std::string& folder : folders) {
    MeasurementSet set = read_measurements(folder, note);
    // Keys are unique in a folder: between folders the folder makes them so.
    const std::string prefix = folders.size() > 1 ? folder + ": " : "";
    for (Environment& environment : set.environments) {
      environment.key = prefix + environment.key;
      all.environments.push_back(environment);
    }
    for (Measurement& row : set.measurements) {
      row.environment = prefix + row.environment;
      all.measurements.push_back(row);
    }
    for (MemoryMeasurement& row : set.memory) {
      row.environment = prefix + row.environment;
      all.memory.push_back(row);
    }
  }
  return all;
}

}  // namespace

void add_fit_options(po::options_description& options) {
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("output,o", text("PROFILE"), "write the profile here; else to stdout")(
      "gpu", text("NAME"), "preset or file of the GPU that was measured")(
      "nic-rate", text("RATE"), "line rate of one GPU's NIC, one direction, such as '400 Gbit/s'")(
      "device", text("NAME"), "take the rows of this device, where there are several")(
      "kernel",
      po::value<std::vector<std::string>>()->value_name("A=B"),
      "attention kernel A takes the place of B: flash2, flash3 or cudnn; may be repeated")(
      "least-tokens", text("COUNT"), "leave attention over fewer tokens out, such as 2K")(
      "least-width", text("COUNT"), "leave matrix products with a smaller n or k out")(
      "source", text("TEXT"), "source of the coefficients; else that of the measurements")(
      "seed", text("NUMBER"), "of the resampling behind intervals (1)")(
      "accept-slow-fabric",
      po::bool_switch(),
      "fit a fabric that reached less than half of its line rate");
}

ExitCode run_fit(const Invocation& call) {
  const FitOptions options = options_of(call);
  const FitResult result = fit_profile(read_all(call.arguments), options);
  const std::string report = report_text(result);
  if (call.text("output").empty()) {
    say(report);
    write_result(call, result.profile);
  } else {
    write_result(call, result.profile);
    write_result({}, report);
  }
  return ExitCode::done;
}

}  // namespace trireme::calibrate
