#include "calibrate/fit/fit.h"

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/cli/commands.h"
#include "calibrate/cli/fitting.h"
#include "calibrate/fit/law_fit.h"
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
  options.nic_rate = nic_rate_of(call);
  if (!call.text("multiprocessors").empty()) {
    options.multiprocessors = parsed(call, "multiprocessors", parse_count);
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
  if (!call.text("least-rows").empty()) {
    options.least_rows = parsed(call, "least-rows", parse_count);
  }
  options.accept_slow_fabric = call.flag("accept-slow-fabric");
  options.device = call.text("device");
  options.source = call.text("source");
  options.kernels = kernel_places(call);
  return options;
}

/// The coefficients that a file of measured steps gives.
ExitCode run_law(const Invocation& call) {
  if (!call.arguments.empty()) {
    refuse("--law takes the steps of its file alone", "leave the folder out");
  }
  for (const auto& [name, value] : call.values) {
    if (name != "law" && name != "output" && name != "source" && !value.defaulted()) {
      refuse(fmt::format("--{} says nothing of a law", name), "leave it out");
    }
  }
  const std::string file = call.text("law");
  const LawFit fit = fit_law(read_step_rows(read_text_file(file), file));
  const std::string source = call.text("source").empty() ? "measured" : call.text("source");
  const std::string law = law_yaml(fit, source);
  if (fit.collinear()) {
    note(
        fmt::format("the condition number {:.0f} is above {:.0f}: memory, bytes and tokens grow "
                    "together in these steps, and no coefficient stands for one cause",
                    fit.condition_number,
                    LawFit::kMostCondition));
  }
  if (call.text("output").empty()) {
    say(law_text(fit));
    write_result(call, law);
  } else {
    write_result(call, law);
    write_result({}, law_text(fit));
  }
  return ExitCode::done;
}

}  // namespace

void add_fit_options(po::options_description& options) {
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("output,o", text("FILE"), "write the profile or law here; else to stdout")(
      "law",
      text("ROWS.csv"),
      "fit a law of step times instead, to the columns sequence_tokens, peak_bytes, sent_bytes and "
      "step_seconds")("gpu", text("NAME"), "preset or file of the GPU that was measured")(
      "nic-rate", text("RATE"), "line rate of one GPU's NIC, one direction, such as '400 Gbit/s'")(
      "device", text("NAME"), "take the rows of this device, where there are several")(
      "multiprocessors", text("COUNT"), "of the device, where the measurements do not say")(
      "kernel",
      po::value<std::vector<std::string>>()->value_name("A=B"),
      "attention kernel A takes the place of B: flash2, flash3 or cudnn; may be repeated")(
      "least-tokens", text("COUNT"), "leave attention over fewer tokens out, such as 2K")(
      "least-width", text("COUNT"), "leave matrix products with a smaller n or k out")(
      "least-rows", text("COUNT"), "leave matrix products with a smaller m out")(
      "source", text("TEXT"), "source of the coefficients; else that of the measurements")(
      "seed", text("NUMBER"), "of the resampling behind intervals (1)")(
      "accept-slow-fabric",
      po::bool_switch(),
      "fit a fabric that reached less than half of its line rate");
}

ExitCode run_fit(const Invocation& call) {
  if (!call.text("law").empty()) {
    return run_law(call);
  }
  if (call.arguments.empty()) {
    refuse("no folder of measurements is given", "name what run or import wrote");
  }
  const FitOptions options = options_of(call);
  const FitResult result = fit_profile(read_folders(call.arguments), options);
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
