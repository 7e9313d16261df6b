// `trireme` without arguments: one comparison that says what the program is for.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/config/study_file.h"
#include "sim/report/accuracy_words.h"
#include "sim/report/json.h"
#include "sim/report/study_tables.h"
#include "sim/study/evaluate.h"

namespace trireme::cli {

namespace {

constexpr const char* kStudy = R"(version: 1
name: first-minute
model: llama-3.1-8b
cluster: h100-8x-nvlink
workload: {sequence: 128K, micro_batch: 1, causal: true}
defaults: {recompute: full, loss: {implementation: fused}, attention: flash2}
plans:
  - {name: megatron-sp, use: megatron-sp}
  - {name: ulysses-zero3, use: ulysses-zero3}
  - {name: hybrid, use: hybrid}
  - {name: sequence-gather, use: sequence-gather}
)";

std::string text_for_people(const ledger::StudyResult& result, bool color) {
  std::string text =
      fmt::format("{} at 131,072 tokens on {} x H100 ({}), full recompute, fused loss\n\n",
                  result.model,
                  result.gpus,
                  result.cluster);
  text += report::to_terminal(report::results_table(result.rows), color);
  text += fmt::format(
      "\naccuracy band: {}, profile {}\n", report::accuracy_band(result.rows), result.profile);
  for (const std::string& said : report::close_calls(result.too_close)) {
    text += said + '\n';
  }
  const std::string why = report::why_the_others_lose(result.rows);
  text += why.empty() ? "no plan fits\n" : why + '\n';
  text +=
      "\ntry next\n"
      "  trireme plans\n"
      "  trireme sweep reports/ulysses-vs-megatron/study.yaml\n"
      "  trireme explain reports/ulysses-vs-megatron/study.yaml --plan hybrid\n";
  return text;
}

}  // namespace

ExitCode run_first_minute(const Invocation& call) {
  const auto source = std::make_shared<const config::SourceText>("first-minute.yaml", kStudy);
  const config::StudyFile file = config::StudyFile::parse(source, call.data);
  const ledger::StudyResult result = study::compare(file.base());
  write_result_as(
      call,
      [&] { return report::to_json(result, "compare"); },
      [&] { return report::to_csv(result); },
      [&] { return text_for_people(result, call.color); });
  return ExitCode::done;
}

}  // namespace trireme::cli
