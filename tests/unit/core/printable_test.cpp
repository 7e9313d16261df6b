#include "sim/core/printable.h"

#include <string>

#include "tests/catch.h"

namespace trireme {
namespace {

TEST_CASE("UTF-8 is told from what is not", "[core]") {
  CHECK(utf8_valid_prefix("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == 10);  // 1 + 2 + 3 + 4 bytes
  CHECK(utf8_valid_prefix("ab\xFF") == 2);
  CHECK(utf8_valid_prefix("a\xC3") == 1);             // cut off
  CHECK(utf8_valid_prefix("\xC0\xAF") == 0);          // overlong '/'
  CHECK(utf8_valid_prefix("\xE0\x80\x80") == 0);      // overlong
  CHECK(utf8_valid_prefix("\xED\xA0\x80") == 0);      // a surrogate
  CHECK(utf8_valid_prefix("\xF4\x90\x80\x80") == 0);  // above U+10FFFF
  CHECK(utf8_count("a\xC3\xA9\xE2\x82\xAC") == 3);
}

TEST_CASE("printing keeps one column for one character", "[core]") {
  CHECK(printable("a\tb\r\n") == "a b  ");
  CHECK(printable("\x1b\x07\x7F") == "???");
  CHECK(printable("\xC2\x9B") == "?");      // a C1 control
  CHECK(printable("\xE2\x80\xAE") == "?");  // right-to-left override
  CHECK(printable("\xFF\xC3\xA9") == "?\xC3\xA9");
}

TEST_CASE("quotes cut a long text between characters", "[core]") {
  CHECK(in_quotes("abc") == "'abc'");
  CHECK(in_quotes("abcdef", 3) == "'abc...'");
  CHECK(in_quotes("\xC3\xA9\xC3\xA9", 1) == "'\xC3\xA9...'");
}

}  // namespace
}  // namespace trireme
