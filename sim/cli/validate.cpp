#include "sim/validation/validate.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/config/accuracy.h"
#include "sim/config/yaml_reader.h"
#include "sim/report/validation.h"
#include "sim/units/text.h"

namespace trireme::cli {

namespace {

/// The name under which the page of --markdown shows the figure of --svg.
constexpr const char* kFigure = "accuracy.svg";

}  // namespace

ExitCode run_validate(const Invocation& call) {
  const bool page = call.values["markdown"].as<bool>();
  const bool figure = call.values["svg"].as<bool>();
  const bool bands = call.values["bands"].as<bool>();
  if (page + figure + bands + (call.format != Format::table) > 1) {
    refuse("--markdown, --svg, --bands, --json and --csv exclude each other", "keep one of them");
  }
  const config::Library library(call.data);
  std::vector<validation::CaseFile> files;
  if (call.argument.empty()) {
    files = validation::built_in_cases(library);
  } else {
    files.push_back(validation::read_cases(config::read_yaml_file(call.argument), library));
  }
  const ledger::ValidationResult result = validation::validate(files, library);
  if (page) {
    write_result(call, report::accuracy_page(result, kFigure));
  } else if (bands) {
    constexpr std::array kKinds = {config::kOneNode, config::kLongSequence, config::kSeveralNodes};
    write_result(
        call, report::accuracy_bands(result, to_text(config::accuracy().longest_measured), kKinds));
  } else if (figure) {
    write_result(call, report::accuracy_figure(result));
  } else {
    write_result_as(
        call,
        [&] { return report::to_json(result); },
        [&] { return report::to_csv(result); },
        [&] { return report::to_terminal(result, call.color); });
  }
  const auto failed = std::count_if(
      result.rows.begin(), result.rows.end(), [](const auto& row) { return row.failed(); });
  if (failed > 0) {
    note(fmt::format("{} of {} cases failed", failed, result.rows.size()));
    return ExitCode::bound_missed;
  }
  return ExitCode::done;
}

}  // namespace trireme::cli
