// The one exception type for wrong input, with the place where the input stands.
#pragma once

#include <exception>
#include <string>
#include <vector>

namespace trireme {

/// A place in a file, 1-based and in characters; `line` 0 means the file as a whole.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
  std::string source_line{};  // the text of that line, for the caret; may be empty
  int source_line_skip = 0;   // characters of a long line left out before `source_line`
};

/// "study.yaml:7:20", or the file alone for line 0; harmless to print.
[[nodiscard]] std::string to_text(const SourceLocation& where);

/// A value that remembers where it was written, for checks across two files.
template <class T>
struct Located {
  T value{};
  SourceLocation where;

  operator const T&() const { return value; }  // NOLINT(google-explicit-constructor): reads as T
};

/// Exit codes of every trireme executable.
enum class ExitCode : int {
  done = 0,
  bug = 1,
  command_line = 2,
  input_file = 3,
  infeasible = 4,
  bound_missed = 5,
  device = 6,
  interrupted = 130
};

enum class ErrorKind { command_line, input, device };

struct ErrorNote {
  SourceLocation where;
  std::string message;
};

/// Wrong input: one sentence, where it stands, and the next thing to type.
class Error : public std::exception {
 public:
  Error(ErrorKind kind,
        SourceLocation where,
        std::string message,
        std::string hint = {},
        std::vector<ErrorNote> notes = {});

  [[nodiscard]] const char* what() const noexcept override { return printed_.c_str(); }

  [[nodiscard]] ErrorKind kind() const { return kind_; }

  [[nodiscard]] const SourceLocation& where() const { return where_; }

  [[nodiscard]] const std::string& message() const { return message_; }

  [[nodiscard]] const std::string& hint() const { return hint_; }

  [[nodiscard]] const std::vector<ErrorNote>& notes() const { return notes_; }

  /// 2 for the command line, 3 for an input file, 6 for a device.
  [[nodiscard]] ExitCode exit_code() const;

 private:
  ErrorKind kind_;
  SourceLocation where_;
  std::string message_;
  std::string hint_;
  std::vector<ErrorNote> notes_;
  std::string printed_;  // as compilers print it: place, message, source line, caret, hint, notes
};

}  // namespace trireme
