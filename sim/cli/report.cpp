#include <algorithm>
#include <cctype>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/cli/study_call.h"
#include "sim/core/files.h"
#include "sim/report/gantt.h"
#include "sim/report/json.h"
#include "sim/report/study_tables.h"
#include "sim/study/evaluate.h"
#include "sim/study/timeline.h"

namespace trireme::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kTable = "table.csv";
constexpr const char* kReport = "report.md";

struct NamedText {
  fs::path path;
  std::string text;
};

fs::path draft_of(const fs::path& path) {
  return fs::path(path) += ".draft";
}

/// What stood where `path` is to be written, until all files are.
fs::path previous_of(const fs::path& path) {
  return fs::path(path) += ".previous";
}

/// Puts the drafts in place. When one cannot be, those before it are taken back and what they
/// replaced is as it was. Throws std::filesystem::filesystem_error.
void rename_all_or_none(std::span<const NamedText> files) {
  std::size_t placed = 0;
  std::size_t set_aside = 0;
  try {
    for (; set_aside < files.size(); ++set_aside) {
      const fs::path& path = files[set_aside].path;
      if (fs::exists(path)) {
        fs::rename(path, previous_of(path));
      }
    }
    for (; placed < files.size(); ++placed) {
      fs::rename(draft_of(files[placed].path), files[placed].path);
    }
  } catch (const fs::filesystem_error&) {
    std::error_code ignored;
    for (std::size_t i = 0; i < placed; ++i) {
      fs::remove(files[i].path, ignored);
    }
    for (std::size_t i = 0; i < set_aside; ++i) {
      if (fs::exists(previous_of(files[i].path), ignored)) {
        fs::rename(previous_of(files[i].path), files[i].path, ignored);
      }
    }
    throw;
  }
  for (const NamedText& file : files) {
    std::error_code ignored;
    fs::remove(previous_of(file.path), ignored);
  }
}

/// Writes all files or none: first drafts beside them, then renames. Throws Error (command line).
void write_all_or_none(std::span<const NamedText> files) {
  const auto remove_drafts = [&] {
    for (const NamedText& file : files) {
      std::error_code ignored;
      fs::remove(draft_of(file.path), ignored);
    }
  };
  try {
    for (const NamedText& file : files) {
      if (fs::is_directory(file.path)) {
        throw Error(ErrorKind::command_line,
                    SourceLocation{.file = file.path.string()},
                    "a folder stands where the file is to be written",
                    "remove it, or name another folder");
      }
      write_file_atomically(draft_of(file.path), file.text);
    }
    rename_all_or_none(files);
  } catch (const fs::filesystem_error& failure) {
    remove_drafts();
    throw Error(ErrorKind::command_line,
                SourceLocation{.file = failure.path1().string()},
                fmt::format("the file cannot be written: {}", failure.code().message()));
  } catch (const Error&) {
    remove_drafts();
    throw;
  }
}

/// "timeline-PLAN.svg", with letters and digits only and unlike the names in `files`.
std::string picture_name(const std::string& plan, const std::vector<NamedText>& files) {
  std::string stem = "timeline-";
  for (const char c : plan) {
    stem += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  }
  const auto taken = [&](const std::string& name) {
    return std::any_of(files.begin(), files.end(), [&](const NamedText& file) {
      return file.path.filename() == name;
    });
  };
  std::string name = stem + ".svg";
  for (int number = 2; taken(name); ++number) {
    name = fmt::format("{}-{}.svg", stem, number);
  }
  return name;
}

/// Adds the picture of every plan that has a timeline.
std::vector<report::TimelineFigure> draw_timelines(const config::StudySpec& study,
                                                   const fs::path& folder,
                                                   std::vector<NamedText>& files) {
  std::vector<report::TimelineFigure> figures;
  for (const config::PlanSpec& plan : study.plans) {
    const ledger::Timeline timeline = study::timeline(study, plan);
    if (!timeline.reason.empty()) {
      note(fmt::format("plan '{}' has no timeline: {}", plan.name, timeline.reason));
      continue;
    }
    const std::string name = picture_name(plan.name, files);
    figures.push_back({plan.name, name, report::critical_sentences(timeline.critical_path)});
    files.push_back({folder / name, report::to_gantt(timeline)});
  }
  return figures;
}

}  // namespace

ExitCode run_report(const Invocation& call) {
  if (!call.output) {
    throw Error(ErrorKind::command_line,
                SourceLocation{.file = "trireme"},
                "report needs a folder to write to",
                "add -o DIR");
  }
  const config::StudyFile file = read_study_of(call);
  const ledger::StudyResult result = study::sweep(
      file, "", [](std::size_t, std::size_t) {}, engine_of(call, file));
  note_result(result);
  std::error_code failed;
  fs::create_directories(*call.output, failed);
  if (failed) {
    throw Error(ErrorKind::command_line,
                SourceLocation{.file = call.output->string()},
                fmt::format("the folder cannot be made: {}", failed.message()),
                "name a folder in one that exists and that you may write to");
  }
  std::vector<NamedText> files = {{*call.output / kTable, report::to_csv(result)}};
  const std::vector<report::TimelineFigure> timelines =
      draw_timelines(file.base(), *call.output, files);
  files.push_back({*call.output / kReport, report::to_markdown(result, kTable, timelines)});
  write_all_or_none(files);
  note(fmt::format("wrote {}, {} and {} timeline{} into {}",
                   kReport,
                   kTable,
                   timelines.size(),
                   timelines.size() == 1 ? "" : "s",
                   call.output->string()));
  return exit_code_of(result);
}

}  // namespace trireme::cli
