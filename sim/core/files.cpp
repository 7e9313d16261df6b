#include "sim/core/files.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/core.h>

#include "sim/core/printable.h"

namespace trireme {
namespace {

std::string reason_of(int error_number) {
  return std::generic_category().message(error_number);
}

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}

  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }

  [[nodiscard]] int number() const { return number_; }

  /// Closes and says whether that went well, as a full disk may be reported here first.
  [[nodiscard]] bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

/// At most `largest` + 1 bytes, so that the caller sees that there are more.
std::string read_up_to(int descriptor, std::int64_t largest, const auto& fail) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (static_cast<std::int64_t>(text.size()) <= largest) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail(fmt::format("cannot be read: {}", reason_of(errno)));
    }
    if (count == 0) {
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

/// False with errno set when not all could be written.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

[[noreturn]] void throw_not_written(const std::filesystem::path& path, int error_number) {
  throw Error(ErrorKind::command_line,
              SourceLocation{.file = path.string()},
              fmt::format("the file cannot be written: {}", reason_of(error_number)),
              "name a file in a folder that exists and that you may write to");
}

void write_directly(const std::filesystem::path& path, std::string_view text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.number() < 0 || !write_all(file.number(), text)) {
    throw_not_written(path, errno);
  }
}

/// The permissions that an ordinary new file would get.
mode_t default_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666U & ~mask;
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path,
                           const std::optional<SourceLocation>& named_at,
                           std::int64_t largest) {
  const auto fail = [&](const std::string& problem, const std::string& hint = {}) {
    if (named_at) {
      throw Error(ErrorKind::input,
                  *named_at,
                  fmt::format("the file {} {}", in_quotes(path.string(), 200), problem),
                  hint);
    }
    throw Error(ErrorKind::input,
                SourceLocation{.file = path.string()},
                fmt::format("the file {}", problem),
                hint);
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file.number() < 0) {
    fail(fmt::format("cannot be opened: {}", reason_of(errno)), "check the name of the file");
  }

  struct stat status {};

  if (::fstat(file.number(), &status) == 0 && S_ISDIR(status.st_mode)) {
    fail("is a directory, not a file", "name a YAML file in it");
  }
  std::string text = read_up_to(file.number(), largest, fail);
  if (text.empty()) {
    fail("is empty", "is this the file that you meant?");
  }
  if (static_cast<std::int64_t>(text.size()) > largest) {
    fail(fmt::format("is larger than {} bytes", largest), "is this the file that you meant?");
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) {
    fail(fmt::format("is not a text file: byte {} is NUL", nul + 1),
         "is this the file that you meant?");
  }
  if (const std::size_t valid = utf8_valid_prefix(text); valid < text.size()) {
    fail(fmt::format("is not UTF-8: byte {} is wrong", valid + 1), "save it as UTF-8");
  }
  return text;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    throw_not_written(path, EISDIR);
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    write_directly(path, text);
    return;
  }
  std::error_code unresolved;
  std::filesystem::path target = std::filesystem::weakly_canonical(path, unresolved);
  if (unresolved) {
    target = path;
  }
  std::string temporary =
      (target.parent_path() / fmt::format(".{}.XXXXXX", target.filename().string())).string();
  Descriptor file(::mkstemp(temporary.data()));
  if (file.number() < 0) {
    throw_not_written(path, errno);
  }
  const bool written = write_all(file.number(), text) &&
                       ::fchmod(file.number(), default_mode()) == 0 &&
                       ::fsync(file.number()) == 0 && file.close() &&
                       ::rename(temporary.c_str(), target.c_str()) == 0;
  if (!written) {
    const int error_number = errno;
    ::unlink(temporary.c_str());
    throw_not_written(path, error_number);
  }
}

}  // namespace trireme
