#include "sim/report/gzip.h"

#include <string>

#include "tests/catch.h"

namespace trireme::report {
namespace {

unsigned byte(const std::string& text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// The four bytes from `at` on, the lowest first.
unsigned word(const std::string& text, std::size_t at) {
  return byte(text, at) | byte(text, at + 1) << 8U | byte(text, at + 2) << 16U |
         byte(text, at + 3) << 24U;
}

TEST_CASE("gzip: magic, method, no name and no time before, checksum and length behind", "[unit]") {
  const std::string compressed = gzip("123456789");
  REQUIRE(compressed.size() > 18);
  CHECK(byte(compressed, 0) == 0x1f);
  CHECK(byte(compressed, 1) == 0x8b);
  CHECK(byte(compressed, 2) == 8);  // deflate
  CHECK(byte(compressed, 3) == 0);  // no name, no comment
  CHECK(word(compressed, 4) == 0);  // no time
  // The check value of CRC-32, and the length.
  CHECK(word(compressed, compressed.size() - 8) == 0xcbf43926U);
  CHECK(word(compressed, compressed.size() - 4) == 9);
}

TEST_CASE("gzip: nothing, and much of the same", "[unit]") {
  const std::string nothing = gzip("");
  CHECK(word(nothing, nothing.size() - 8) == 0);
  CHECK(word(nothing, nothing.size() - 4) == 0);
  const std::string much(1'000'000, 'x');
  const std::string compressed = gzip(much);
  CHECK(compressed.size() < 2000);  // deflate's best is one bit for 129 bytes: 970 bytes
  CHECK(word(compressed, compressed.size() - 4) == 1'000'000);
  CHECK(gzip(much) == compressed);
}

}  // namespace
}  // namespace trireme::report
