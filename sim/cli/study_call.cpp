#include "sim/cli/study_call.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "sim/cli/output.h"
#include "sim/config/embedded_files.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/report/accuracy_words.h"
#include "sim/report/study_tables.h"
#include "sim/study/evaluate.h"
#include "sim/study/what_if.h"

namespace trireme::cli {

namespace {

/// The text of a built-in file where no file has its name; else null.
std::shared_ptr<const config::SourceText> built_in(const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::exists(name, ignored)) {
    for (const config::EmbeddedFile& file : config::embedded_files()) {
      if (file.path == name) {
        return std::make_shared<const config::SourceText>(name, std::string(file.text));
      }
    }
  }
  return nullptr;
}

}  // namespace

config::StudyFile read_study_silently(const Invocation& call) {
  if (const auto text = built_in(call.argument)) {
    return config::StudyFile::parse(text, call.data);
  }
  return config::StudyFile::read(call.argument, call.data);
}

config::StudyFile read_study_of(const Invocation& call) {
  config::StudyFile file = read_study_silently(call);
  std::vector<std::string> plans;
  for (const config::PlanSpec& plan : file.base().plans) {
    plans.push_back(plan.name);
  }
  echo_defaults(file.base().defaults_used, plans);
  return file;
}

const config::PlanSpec& chosen_plan(const config::StudySpec& study, const std::string& name) {
  if (!name.empty()) {
    return study::find_plan(study, name);
  }
  if (study.plans.size() == 1) {
    return study.plans.front();
  }
  std::vector<std::string> names;
  for (const config::PlanSpec& plan : study.plans) {
    names.push_back(plan.name);
  }
  refuse("the study has several plans and no --plan is given", hint_near("", names));
}

ledger::Engine engine_of(const Invocation& call, const config::StudyFile& file) {
  const ledger::Engine needed = study::default_engine(file);
  const std::string word = call.text("engine");
  if (word == name(ledger::Engine::analytic) && needed == ledger::Engine::event) {
    refuse(
        "--engine: the analytic engine has no slow ranks and no jitter, which the study asks for",
        "leave the option out, or try '--engine both'");
  }
  std::vector<std::string> known;
  for (std::size_t i = 0; i < ledger::kEngineNames.size(); ++i) {
    if (word == ledger::kEngineNames[i]) {
      return static_cast<ledger::Engine>(i);
    }
    known.emplace_back(ledger::kEngineNames[i]);
  }
  if (!word.empty()) {
    refuse(fmt::format("--engine: {} is not known", in_quotes(word)), hint_near(word, known));
  }
  return needed;
}

std::optional<config::LawSpec> law_of(const Invocation& call) {
  const std::string file = call.text("law");
  if (file.empty()) {
    return std::nullopt;
  }
  const auto text = built_in(file);
  const config::Node root = text ? config::read_yaml(text) : config::read_yaml_file(file);
  return config::read_law(root, std::filesystem::path(file).stem().string());
}

void note_result(const ledger::StudyResult& result) {
  note(fmt::format("seconds by profile {}, {}; accuracy band: {}",
                   result.profile,
                   report::engine_in_words(result.engine),
                   report::accuracy_band(result.rows)));
  for (const std::string& said : report::close_calls(result.too_close)) {
    note(said);
  }
  for (const std::string& said : report::what_if_sentences(result.rows)) {
    note(said);
  }
  if (!result.law.empty()) {
    note(
        fmt::format("law {}: a regression over measured steps; it holds for their model, machine "
                    "and range alone",
                    result.law));
  }
  for (const std::string& remark : report::remarks(result.rows)) {
    note(remark);
  }
  for (const ledger::FailedRequirement& failed : result.failed) {
    note(fmt::format(
        "{} ({}): {}", failed.plan, report::point_text(failed.point), report::sentence(failed)));
  }
}

ExitCode exit_code_of(const ledger::StudyResult& result) {
  return result.failed.empty() && result.any_fits() ? ExitCode::done : ExitCode::infeasible;
}

}  // namespace trireme::cli
