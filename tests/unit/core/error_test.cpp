#include "sim/core/error.h"

#include <string>

#include "tests/catch.h"

namespace trireme {
namespace {

using Catch::Matchers::ContainsSubstring;

SourceLocation at(int line, int column, const std::string& text) {
  return {"plan.yaml", line, column, text, 0};
}

TEST_CASE("an error prints as compilers do", "[core]") {
  const Error error(ErrorKind::input,
                    at(7, 10, "  degree: 12"),
                    "degree: 12 does not divide 32 heads",
                    "use 8 or 16",
                    {{at(2, 1, "heads: 32"), "the heads stand here"}});
  CHECK(std::string(error.what()) ==
        "plan.yaml:7:10: error: degree: 12 does not divide 32 heads\n"
        "    degree: 12\n"
        "           ^\n"
        "hint: use 8 or 16\n"
        "plan.yaml:2:1: note: the heads stand here\n"
        "  heads: 32\n"
        "  ^");
  CHECK(error.message() == "degree: 12 does not divide 32 heads");
  CHECK(error.hint() == "use 8 or 16");
  CHECK(error.notes().size() == 1);
}

TEST_CASE("a whole file and no file have no line", "[core]") {
  CHECK(std::string(Error(ErrorKind::input, {"a.yaml", 0, 0, "", 0}, "the file is empty").what()) ==
        "a.yaml: error: the file is empty");
  CHECK(std::string(Error(ErrorKind::command_line, {}, "no study is named").what()) ==
        "error: no study is named");
}

TEST_CASE("each kind has its exit code", "[core]") {
  CHECK(Error(ErrorKind::command_line, {}, "x").exit_code() == ExitCode::command_line);
  CHECK(Error(ErrorKind::input, {}, "x").exit_code() == ExitCode::input_file);
  CHECK(Error(ErrorKind::device, {}, "x").exit_code() == ExitCode::device);
  CHECK(static_cast<int>(ExitCode::command_line) == 2);
  CHECK(static_cast<int>(ExitCode::input_file) == 3);
  CHECK(static_cast<int>(ExitCode::device) == 6);
}

TEST_CASE("control characters of the input are not printed", "[core]") {
  const Error error(ErrorKind::input,
                    {"a\x1b[2J.yaml", 1, 3, "\tb\x1b]0;title\x07\xC2\x9B", 0},
                    "unknown key '\x1b[31m'\nsecond line",
                    "\x7F");
  CHECK(std::string(error.what()) ==
        "a?[2J.yaml:1:3: error: unknown key '?[31m' second line\n"
        "   b?]0;title??\n"
        "    ^\n"
        "hint: ?");
}

TEST_CASE("a long line is cut around the caret", "[core]") {
  const std::string line = std::string(500, 'a') + "X" + std::string(500, 'b');
  const std::string printed = Error(ErrorKind::input, at(1, 501, line), "here").what();
  // "...", 48 characters before the column, and the caret below the X.
  const std::string shown = "  ..." + std::string(48, 'a') + "X" + std::string(47, 'b') + "...";
  CHECK(printed == "plan.yaml:1:501: error: here\n" + shown + "\n" + std::string(53, ' ') + "^");
}

TEST_CASE("an excerpt of a line knows what was skipped before it", "[core]") {
  const SourceLocation where{"a.yaml", 1, 1003, "abc", 1000};
  CHECK(std::string(Error(ErrorKind::input, where, "here").what()) ==
        "a.yaml:1:1003: error: here\n"
        "  ...abc\n"
        "       ^");
}

TEST_CASE("a caret counts characters, not bytes", "[core]") {
  CHECK_THAT(Error(ErrorKind::input, at(1, 4, "\xC3\xA9\xC3\xA9: x"), "here").what(),
             ContainsSubstring("\n  \xC3\xA9\xC3\xA9: x\n     ^"));
}

}  // namespace
}  // namespace trireme
