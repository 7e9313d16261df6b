#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/config/bounds.h"
#include "sim/config/map_reader.h"
#include "sim/config/model.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/report/legality.h"
#include "sim/study/legality.h"
#include "sim/units/text.h"

namespace trireme::cli {

namespace {

/// The option's text by a parser that throws BadText; nullopt when it was not given.
template <class Parse>
auto parsed(const Invocation& call, const std::string& option, Parse parse)
    -> std::optional<decltype(parse(std::string_view()))> {
  const std::string text = call.text(option);
  if (text.empty()) {
    return std::nullopt;
  }
  try {
    return parse(text);
  } catch (const BadText& bad) {
    refuse(fmt::format("--{}: {}", option, bad.what()), bad.hint());
  }
}

/// A preset, a model file, or a config.json of Hugging Face.
config::ModelSpec read_model_of(const Invocation& call, std::vector<std::string>& defaults) {
  const std::string name = call.text("model");
  if (name.empty()) {
    refuse("legal needs a --model",
           "a preset (see 'trireme models'), a model file or a config.json");
  }
  const config::Library library(call.data);
  const config::Node text = config::make_text(name, {});
  if (name.ends_with(".json")) {
    config::Node reference = config::make_map({});
    reference.set("hf", {}, text);
    return config::read_model(reference, library, &defaults);
  }
  const auto presets = library.names(config::PresetKind::model);
  if (!config::names_a_file(name) &&
      std::find(presets.begin(), presets.end(), name) == presets.end()) {
    refuse(fmt::format("no model is named {}", in_quotes(name)), hint_near(name, presets));
  }
  return config::read_model(text, library, &defaults);
}

}  // namespace

ExitCode run_legal(const Invocation& call) {
  std::vector<std::string> defaults;
  const config::ModelSpec model = read_model_of(call, defaults);
  const auto gpus =
      parsed(call, "gpus", config::count_between(1, static_cast<std::int64_t>(config::kMostGpus)));
  if (!gpus) {
    refuse("legal needs the number of --gpus", "such as --gpus 64");
  }
  const auto tensor_parallel = parsed(call, "tensor-parallel", config::count_within("degree"));
  const auto sequence = parsed(call, "sequence", config::parse_sequence);
  echo_defaults(defaults, {});
  const ledger::LegalityResult result = study::legal_degrees(
      model,
      *gpus,
      tensor_parallel.value_or(1),
      sequence ? std::optional<std::int64_t>(sequence->value()) : std::nullopt);
  write_result_as(
      call,
      [&] { return report::to_json(result); },
      [&] { return report::to_csv(result); },
      [&] { return report::to_terminal(result, call.color); });
  return ExitCode::done;
}

}  // namespace trireme::cli
