#include "sim/core/files.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "tests/catch.h"

namespace trireme {
namespace {

/// A new empty folder, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("trireme-files-test-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
  }

  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string message_of(const std::filesystem::path& path) {
  try {
    static_cast<void>(read_text_file(path));
    return "";
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::input_file);
    CHECK(error.where().file == path.string());
    CHECK(error.where().line == 0);
    return error.message();
  }
}

TEST_CASE("a text file is read whole", "[core]") {
  const TemporaryFolder folder;
  write(folder / "a.yaml", "version: 1\nname: \xC3\xA9\n");
  CHECK(read_text_file(folder / "a.yaml") == "version: 1\nname: \xC3\xA9\n");
}

TEST_CASE("what is no text file is refused", "[core]") {
  const TemporaryFolder folder;
  CHECK(message_of(folder / "none.yaml") == "the file cannot be opened: No such file or directory");
  CHECK(message_of(folder.path()) == "the file is a directory, not a file");
  write(folder / "empty.yaml", "");
  CHECK(message_of(folder / "empty.yaml") == "the file is empty");
  CHECK(message_of("/dev/null") == "the file is empty");
  CHECK(message_of("/dev/zero") == "the file is larger than 1048576 bytes");
  write(folder / "nul.yaml", std::string("a: \0b", 5));
  CHECK(message_of(folder / "nul.yaml") == "the file is not a text file: byte 4 is NUL");
  write(folder / "latin1.yaml", "name: caf\xE9\n");
  CHECK(message_of(folder / "latin1.yaml") == "the file is not UTF-8: byte 10 is wrong");
}

TEST_CASE("a file at the cap is read and one byte more is not", "[core]") {
  const TemporaryFolder folder;
  write(folder / "cap.yaml", std::string(1 << 20, 'a'));
  CHECK(read_text_file(folder / "cap.yaml").size() == 1048576);
  write(folder / "more.yaml", std::string((1 << 20) + 1, 'a'));
  CHECK(message_of(folder / "more.yaml") == "the file is larger than 1048576 bytes");
  std::filesystem::resize_file(folder / "more.yaml", 100'000'000);
  CHECK(message_of(folder / "more.yaml") == "the file is larger than 1048576 bytes");
}

TEST_CASE("an error stands where the file was named", "[core]") {
  const SourceLocation named_at{"study.yaml", 2, 8, "model: ./m.yaml", 0};
  try {
    static_cast<void>(read_text_file("/no/such/m.yaml", named_at));
    FAIL("a missing file was read");
  } catch (const Error& error) {
    CHECK(error.where().file == "study.yaml");
    CHECK(error.where().line == 2);
    CHECK(error.message() ==
          "the file '/no/such/m.yaml' cannot be opened: No such file or directory");
  }
}

TEST_CASE("a file is written whole, with ordinary permissions", "[core]") {
  const TemporaryFolder folder;
  write(folder / "ordinary", "");
  write_file_atomically(folder / "report.md", "first");
  write_file_atomically(folder / "report.md", "second");
  CHECK(read_text_file(folder / "report.md") == "second");
  CHECK(std::filesystem::status(folder / "report.md").permissions() ==
        std::filesystem::status(folder / "ordinary").permissions());
  std::filesystem::remove(folder / "ordinary");
  std::filesystem::create_symlink("report.md", folder / "link.md");
  write_file_atomically(folder / "link.md", "third");
  CHECK(std::filesystem::is_symlink(folder / "link.md"));
  CHECK(read_text_file(folder / "report.md") == "third");
  // report.md and link.md, and no temporary file.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("what cannot be written leaves nothing behind", "[core]") {
  const TemporaryFolder folder;
  const auto refused = [](const std::filesystem::path& path) {
    try {
      write_file_atomically(path, "text");
      return std::string("written");
    } catch (const Error& error) {
      CHECK(error.exit_code() == ExitCode::command_line);
      return error.message();
    }
  };
  CHECK(refused(folder / "none" / "report.md") ==
        "the file cannot be written: No such file or directory");
  CHECK(refused(folder.path()) == "the file cannot be written: Is a directory");
  CHECK(refused("/dev/full") == "the file cannot be written: No space left on device");
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace trireme
