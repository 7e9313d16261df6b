#include "tests/support/run_trireme.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>

namespace trireme::test {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "trireme-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("no temporary folder: " + name);
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) {
    throw std::runtime_error("not read: " + path.string());
  }
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    throw std::runtime_error("not written: " + path.string());
  }
}

ProgramRun run_shell(const std::string& script) {
  const TemporaryFolder folder;
  const std::string command = "cd '" TRIREME_SOURCE_DIR "' && TRIREME='" TRIREME_BINARY "' && { " +
                              script + "\n} >'" + (folder.path() / "out").string() + "' 2>'" +
                              (folder.path() / "error").string() + "' </dev/null";
  const int status = std::system(command.c_str());  // NOLINT(cert-env33-c): a test's own command
  ProgramRun run;
  run.out = read_file(folder.path() / "out");
  run.error = read_file(folder.path() / "error");
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

ProgramRun run_trireme(const std::string& arguments) {
  return run_shell("\"$TRIREME\" " + arguments);
}

}  // namespace trireme::test
