#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "calibrate/cli/commands.h"
#include "calibrate/import/import_file.h"
#include "calibrate/import/keys.h"
#include "calibrate/import/nccl_tests.h"
#include "calibrate/measurement/measurement_file.h"
#include "sim/core/files.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/core/vocabulary.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

std::int64_t count_of(const Invocation& call, const std::string& option) {
  const std::string text = call.text(option);
  if (text.empty()) {
    return 0;
  }
  std::int64_t value = 0;
  try {
    value = parse_count(text);
  } catch (const BadText& bad) {
    refuse(fmt::format("--{}: {}", option, bad.what()), bad.hint());
  }
  if (value < 1) {
    refuse(fmt::format("--{}: {} is less than 1", option, value));
  }
  return value;
}

Statements statements_of(const Invocation& call) {
  Statements statements;
  statements.collective = call.text("collective");
  const std::vector<std::string> known(kCollectiveNames.begin(), kCollectiveNames.end());
  if (!statements.collective.empty() &&
      std::find(known.begin(), known.end(), statements.collective) == known.end()) {
    refuse(fmt::format("--collective: {} is not known", in_quotes(statements.collective)),
           hint_near(statements.collective, known));
  }
  statements.ranks = count_of(call, "ranks");
  statements.ranks_per_node = count_of(call, "ranks-per-node");
  statements.device = call.text("device");
  statements.nccl = call.text("nccl");
  statements.date = call.text("date");
  statements.source = call.text("source");
  return statements;
}

/// Throws Error (command line) when one file is named twice, as its rows would count twice.
void refuse_repeated(const std::vector<std::string>& files) {
  std::set<fs::path> seen;
  for (const std::string& file : files) {
    std::error_code ignored;
    fs::path path = fs::weakly_canonical(file, ignored);
    if (!seen.insert(ignored ? fs::path(file) : path).second) {
      refuse(fmt::format("the file {} is named twice", in_quotes(file, 200)));
    }
  }
}

/// A folder that appears with all its files at once, or not at all.
class WholeFolder {
 public:
  /// Throws Error (command line) when `folder` is there with files in it, or cannot be made.
  explicit WholeFolder(const std::string& folder) : target_(fs::path(folder).lexically_normal()) {
    if (target_.filename().empty()) {
      target_ = target_.parent_path();
    }
    std::error_code ignored;
    if (fs::exists(target_, ignored) &&
        (!fs::is_directory(target_, ignored) || !fs::is_empty(target_, ignored))) {
      refuse(fmt::format("-o: {} is there already", in_quotes(folder, 200)),
             "name a folder that is not there yet, or an empty one");
    }
    std::error_code unresolved;
    if (fs::path resolved = fs::weakly_canonical(target_, unresolved); !unresolved) {
      target_ = std::move(resolved);
    }
    const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
    std::string name = (parent / fmt::format(".{}.XXXXXX", target_.filename().string())).string();
    if (::mkdtemp(name.data()) == nullptr) {
      fail(errno);
    }
    temporary_ = name;
  }

  WholeFolder(const WholeFolder&) = delete;
  WholeFolder& operator=(const WholeFolder&) = delete;

  ~WholeFolder() {
    std::error_code ignored;
    if (!temporary_.empty()) {
      fs::remove_all(temporary_, ignored);
    }
  }

  /// Where to write the files.
  [[nodiscard]] const fs::path& path() const { return temporary_; }

  /// Gives the folder its name.
  void finish() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::chmod(temporary_.c_str(), 0777U & ~mask) != 0 ||
        ::rename(temporary_.c_str(), target_.c_str()) != 0) {
      fail(errno);
    }
    temporary_.clear();
  }

 private:
  [[noreturn]] void fail(int error_number) const {
    throw Error(ErrorKind::command_line,
                SourceLocation{.file = target_.string()},
                fmt::format("the folder cannot be written: {}",
                            std::generic_category().message(error_number)),
                "name a folder in one that exists and that you may write to");
  }

  fs::path target_;
  fs::path temporary_;
};

void write_measurements(const std::vector<ImportedFile>& files, const fs::path& folder) {
  const bool any = std::any_of(files.begin(), files.end(), [](const ImportedFile& file) {
    return !file.log.measurements.empty();
  });
  if (!any) {
    return;
  }
  MeasurementWriter writer(folder);
  for (const ImportedFile& file : files) {
    for (const Environment& environment : file.log.environments) {
      writer.append(environment);
    }
    for (const Measurement& measurement : file.log.measurements) {
      writer.append(measurement);
    }
  }
}

void write_topologies(std::vector<ImportedFile>& files,
                      const MachineStatements& statements,
                      const fs::path& folder) {
  std::set<std::string> taken;
  for (ImportedFile& file : files) {
    if (!file.topology) {
      continue;
    }
    const std::string stem = environment_key_of(file.file);
    std::string name = stem;
    for (int number = 2; !taken.insert(name).second; ++number) {
      name = fmt::format("{}-{}", stem, number);
    }
    file.topology_file = name + ".yaml";
    write_file_atomically(
        folder / file.topology_file,
        cluster_yaml(*file.topology, name, fs::path(file.file).filename().string(), statements));
  }
}

/// What a reader of the YAML files has to add.
void say_what_is_missing(const std::vector<ImportedFile>& files,
                         const MachineStatements& statements) {
  for (const ImportedFile& file : files) {
    if (!file.topology || file.topology_file.empty()) {
      continue;
    }
    std::string keys;
    for (const std::string& key : missing_in_yaml(*file.topology, statements)) {
      keys += (keys.empty() ? "" : ", ") + key;
    }
    if (!keys.empty()) {
      note(fmt::format("{}: {} does not state {}; add what is true of the cluster",
                       file.topology_file,
                       printable(file.file),
                       keys));
    }
  }
}

}  // namespace

void add_import_options(po::options_description& options) {
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("output,o", text("FOLDER"), "write here; must not be there or be empty")(
      "json", po::bool_switch(), "say what was read as one JSON document")(
      "collective", text("NAME"), "of logs that do not name theirs, such as all_gather")(
      "ranks", text("COUNT"), "of logs that do not list them")(
      "ranks-per-node", text("COUNT"), "of logs that do not name hosts")(
      "device", text("NAME"), "of logs that do not name it, such as 'NVIDIA H200'")(
      "nccl", text("VERSION"), "of logs that do not state it, such as 2.27.3")(
      "date", text("DAY"), "of logs that do not state it, such as 2026-11-30")(
      "source", text("TEXT"), "where the logs come from; else their file names")(
      "gpu", text("NAME"), "preset or file of the GPUs of a topology")(
      "profile", text("NAME"), "preset or file of the profile of a topology");
}

ExitCode run_import(const Invocation& call) {
  const Statements statements = statements_of(call);
  const MachineStatements machine{call.text("gpu"), call.text("profile")};
  refuse_repeated(call.arguments);
  std::vector<ImportedFile> files;
  std::vector<Error> errors;
  bool all_read = true;
  for (const std::string& file : call.arguments) {
    try {
      files.push_back(import_text(read_text_file(file, {}, kLargestLog), file, statements));
      all_read &= files.back().has_anything();
    } catch (const Error& error) {
      say(fmt::format("{}\n", error.what()));
      errors.push_back(error);
      all_read = false;
    }
  }
  make_keys_unique(files);

  const std::string output = call.text("output");
  const bool any = std::any_of(
      files.begin(), files.end(), [](const ImportedFile& file) { return file.has_anything(); });
  if (!output.empty() && any) {
    WholeFolder folder(output);
    write_measurements(files, folder.path());
    write_topologies(files, machine, folder.path());
    folder.finish();
    say_what_is_missing(files, machine);
  } else if (!output.empty()) {
    note("nothing was read, so nothing is written");
  }
  write_result({},
               call.flag("json") ? summary_json(files, errors, any ? output : std::string())
                                 : summary_text(files));
  return all_read ? ExitCode::done : ExitCode::input_file;
}

}  // namespace trireme::calibrate
