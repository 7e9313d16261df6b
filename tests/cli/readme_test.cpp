// Runs the commands that README.md shows and compares their output with what it shows.
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

constexpr const char* kReadme = TRIREME_SOURCE_DIR "/README.md";
constexpr std::string_view kFence = "```\n";
constexpr std::string_view kPrompt = "$ ";

/// A fenced block that begins with a prompt: a command line and what it prints.
struct Example {
  std::string command;
  std::string output;
  std::size_t output_at = 0;  // where `output` stands in the text
};

std::vector<Example> examples_in(const std::string& text) {
  std::vector<Example> examples;
  const std::string begin = "\n" + std::string(kFence) + std::string(kPrompt);
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    const std::size_t line_end = text.find('\n', at);
    const std::size_t end = text.find("\n" + std::string(kFence), line_end);
    Example example;
    example.command = text.substr(at, line_end - at);
    example.output_at = line_end + 1;
    example.output = text.substr(line_end + 1, end - line_end);
    examples.push_back(example);
    at = end;
  }
  return examples;
}

/// The command with the built program in place of the names that README gives it, and what it
/// would write to build/ sent to `folder`.
ProgramRun run_example(std::string command, const TemporaryFolder& folder) {
  for (const std::string_view name : {"build/release/bin/trireme", "trireme"}) {
    if (command.starts_with(name)) {
      command.replace(0, name.size(), "\"$TRIREME\"");
      break;
    }
  }
  const std::string option = "-o build/";
  if (const std::size_t at = command.find(option); at != std::string::npos) {
    command.replace(at, option.size(), "-o " + folder.path().string() + "/");
  }
  return run_shell(command);
}

/// The lines of a YAML text without comments, and without what that leaves empty.
std::string without_comments(const std::string& yaml) {
  std::istringstream lines(yaml);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty()) {
      kept += line + '\n';
    }
  }
  return kept;
}

}  // namespace

TEST_CASE("the study of README.md is the one that its commands run", "[cli]") {
  const std::string readme = read_file(kReadme);
  const std::string begin = "```yaml\n";
  const std::size_t from = readme.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t to = readme.find(kFence, from + begin.size());
  const std::string shown = readme.substr(from + begin.size(), to - from - begin.size());
  const std::string study = read_file(TRIREME_SOURCE_DIR "/reports/ulysses-vs-megatron/study.yaml");
  CHECK(without_comments(shown) == without_comments(study));
}

TEST_CASE("the commands of README.md print what it shows", "[cli][golden]") {
  std::string text = read_file(kReadme);
  std::vector<Example> examples = examples_in(text);
  REQUIRE(examples.size() >= 5);
  const TemporaryFolder folder;
  // From the last to the first, so that a rewritten output moves no other.
  for (auto example = examples.rbegin(); example != examples.rend(); ++example) {
    INFO(example->command);
    const ProgramRun run = run_example(example->command, folder);
    CHECK(run.exit_code == 0);
    if (std::getenv("TRIREME_UPDATE_GOLDENS") != nullptr) {
      text.replace(example->output_at, example->output.size(), run.out);
    } else {
      CHECK(example->output == run.out);
    }
  }
  if (std::getenv("TRIREME_UPDATE_GOLDENS") != nullptr) {
    write_file(kReadme, text);
  }
}

}  // namespace trireme::test
