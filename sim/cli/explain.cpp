#include "sim/study/explain.h"

#include <optional>
#include <string>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/cli/study_call.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/report/accuracy_words.h"
#include "sim/report/json.h"
#include "sim/report/study_tables.h"
#include "sim/study/evaluate.h"
#include "sim/units/text.h"

namespace trireme::cli {

namespace {

/// More cells than anybody reads in a drawing.
constexpr std::int64_t kMostTokensOrHeads = 256;

std::optional<study::OwnerShape> owner_shape(const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const std::size_t cross = text.find('x');
  try {
    if (cross != std::string::npos) {
      const std::int64_t tokens = parse_count(text.substr(0, cross));
      const std::int64_t heads = parse_count(text.substr(cross + 1));
      if (tokens >= 1 && heads >= 1 && tokens <= kMostTokensOrHeads &&
          heads <= kMostTokensOrHeads) {
        return study::OwnerShape{tokens, heads};
      }
    }
  } catch (const BadText&) {
    // The message below says what is accepted.
  }
  throw Error(
      ErrorKind::command_line,
      SourceLocation{.file = "trireme"},
      fmt::format("--owners: {} is no shape", in_quotes(text)),
      fmt::format("accepted: tokens x heads, each 1 to {}, such as 16x8", kMostTokensOrHeads));
}

}  // namespace

ExitCode run_explain(const Invocation& call) {
  const std::optional<study::OwnerShape> shape = owner_shape(call.text("owners"));
  const config::StudyFile file = read_study_of(call);
  const config::PlanSpec& plan = chosen_plan(file.base(), call.text("plan"));
  const ledger::Explanation explanation = study::explain(file.base(), plan, shape);
  note(fmt::format("seconds by profile {}; accuracy band: {}",
                   explanation.profile,
                   report::accuracy_band({explanation.result})));
  for (const std::string& said : report::what_if_sentences({explanation.result})) {
    note(said);
  }
  for (const std::string& remark : report::remarks({explanation.result})) {
    note(remark);
  }
  write_result_as(
      call,
      [&] { return report::to_json(explanation); },
      [&] { return report::to_csv(explanation); },
      [&] { return report::to_terminal(explanation, call.color); });
  return explanation.result.numbers ? ExitCode::done : ExitCode::infeasible;
}

}  // namespace trireme::cli
