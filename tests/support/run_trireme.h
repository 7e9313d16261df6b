// Runs the built command line.
#pragma once

#include <filesystem>
#include <string>

namespace trireme::test {

struct ProgramRun {
  std::string out;
  std::string error;
  int exit_code = -1;
};

/// Runs `trireme` with `arguments`, as a shell reads them, in the root of the source tree.
[[nodiscard]] ProgramRun run_trireme(const std::string& arguments);

/// Runs a shell script in the root of the source tree; "$TRIREME" is the command line.
[[nodiscard]] ProgramRun run_shell(const std::string& script);

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read_file(const std::filesystem::path& path);

/// Throws std::runtime_error when the file cannot be written.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace trireme::test
