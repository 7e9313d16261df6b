// One study per kind of bad input, and what is said about it: tests/golden/errors/NAME.yaml and
// NAME.txt. A new case is one file, and update_goldens.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sim/config/study_file.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "tests/catch.h"
#include "tests/support/golden.h"

namespace trireme::config {
namespace {

TEST_CASE("each kind of bad input has its message", "[config][golden]") {
  const std::filesystem::path folder =
      std::filesystem::path(TRIREME_SOURCE_DIR) / "tests" / "golden" / "errors";
  std::vector<std::filesystem::path> studies;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") {
      studies.push_back(entry.path());
    }
  }
  std::sort(studies.begin(), studies.end());
  REQUIRE(studies.size() >= 70);
  for (const std::filesystem::path& study : studies) {
    const std::string name = study.stem().string();
    CAPTURE(name);
    std::string printed;
    try {
      const auto source = std::make_shared<const SourceText>(name + ".yaml", read_text_file(study));
      static_cast<void>(StudyFile::parse(source, DataSource{}));
    } catch (const Error& error) {
      CHECK(error.exit_code() == ExitCode::input_file);
      CHECK(error.message().find('\n') == std::string::npos);
      CHECK_FALSE(error.hint().empty());
      printed = std::string(error.what()) + "\n";
    }
    REQUIRE_FALSE(printed.empty());
    test::check_golden(std::filesystem::path("errors") / (name + ".txt"), printed);
  }
}

}  // namespace
}  // namespace trireme::config
