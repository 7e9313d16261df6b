#include "calibrate/import/log_lines.h"

#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

std::vector<LogLine> all_lines(std::string_view text) {
  LogLines lines(text);
  std::vector<LogLine> found;
  while (auto line = lines.next()) {
    found.push_back(*line);
  }
  return found;
}

TEST_CASE("lines end by any convention and count as an editor counts them", "[import]") {
  const auto lines = all_lines("one\r\ntwo\nthree\rfour\nfive");
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].text == "one");
  CHECK(lines[1].text == "two");
  CHECK(lines[1].number == 2);
  CHECK(lines[2].text == "three");
  CHECK(lines[3].text == "four");
  CHECK(lines[3].number == 3);  // a carriage return alone begins no line
  CHECK(lines[4].number == 4);
  CHECK(lines[3].ended);
  CHECK_FALSE(lines[4].ended);
  CHECK(all_lines("").empty());
}

TEST_CASE("colours and launcher tags are blanked, and nothing moves", "[import]") {
  const auto blanked = [](std::string_view text) { return all_lines(text).at(0).text; };
  CHECK(blanked("\x1b[4mGPU0\x1b[0m") == "    GPU0    ");
  CHECK(blanked("\x1b]0;title\x07x") == "          x");
  CHECK(blanked("[1,0]<stdout>:  8") == "                8");
  CHECK(blanked("-1[1,12]<stderr>: 9") == "-1" + std::string(16, ' ') + "9");
  CHECK(blanked("[prterun-a-1@1,0]<stdout>:7") == std::string(26, ' ') + "7");
  CHECK(blanked("\x1b[") == "  ");
  CHECK(blanked("\x1b") == " ");
  CHECK(blanked("\xef\xbb\xbfhead") == "head");
}

TEST_CASE("a line that is too long is counted and not read", "[import]") {
  const std::string text =
      std::string(kLongestLine + 1, 'x') + "\n" + std::string(kLongestLine, 'y');
  const auto lines = all_lines(text);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].too_long);
  CHECK(lines[0].text.empty());
  CHECK_FALSE(lines[1].too_long);
  CHECK(lines[1].text.size() == kLongestLine);
}

TEST_CASE("tokens know their columns", "[import]") {
  const auto tokens = tokens_of("  8\t 16 float");
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[0].text == "8");
  CHECK(tokens[0].column == 3);
  CHECK(tokens[1].column == 6);
  CHECK(tokens[2].text == "float");
  CHECK(tokens_of(" \t ").empty());
}

}  // namespace
}  // namespace trireme::calibrate
