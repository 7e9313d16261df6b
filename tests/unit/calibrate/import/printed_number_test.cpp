#include "calibrate/import/printed_number.h"

#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

TEST_CASE("a printed number lies within half a unit of its last digit", "[import]") {
  const auto two_decimals = parse_printed_number("12.50");
  REQUIRE(two_decimals);
  CHECK(two_decimals->value == 12.5);
  CHECK(two_decimals->range.low == Approx(12.495));
  CHECK(two_decimals->range.high == Approx(12.505));

  const auto whole = parse_printed_number("19023");
  REQUIRE(whole);
  CHECK(whole->range.low == 19022.5);
  CHECK(whole->range.high == 19023.5);

  // Two digits of a mantissa: 1.7e+07 is anything from 16.5 to 17.5 million.
  const auto exponent = parse_printed_number("1.7e+07");
  REQUIRE(exponent);
  CHECK(exponent->value == 17e6);
  CHECK(exponent->range.low == Approx(16.5e6));
  CHECK(exponent->range.high == Approx(17.5e6));

  CHECK(parse_printed_number("0.00")->range.low == 0);
  CHECK(parse_printed_number("2e-07")->value == 2e-7);
}

TEST_CASE("what is no number that nccl-tests prints is refused", "[import]") {
  for (const char* text : {"",
                           "-1.0",
                           "+1",
                           ".5",
                           "5.",
                           "nan",
                           "inf",
                           "0x10",
                           "12.5us",
                           "1.7e",
                           "1.7e+",
                           "1.7e+7x",
                           "1e999",
                           "1,5",
                           "12345678901234567890123456789012345678901"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_printed_number(text));
  }
}

TEST_CASE("intervals overlap or do not", "[import]") {
  CHECK_FALSE(intersection({1, 2}, {2, 3}).empty());
  CHECK(intersection({1, 2}, {2.5, 3}).empty());
  CHECK(intersection({1, 2}, {0, 1e300}).low == 1);
  CHECK(intersection({1, 2}, {0, 1.5}).high == 1.5);
}

TEST_CASE("microseconds become seconds by moving the point", "[import]") {
  CHECK(with_moved_point(798.52, -6) == 0.00079852);
  CHECK(with_moved_point(0.66, -6) == 6.6e-7);
  CHECK(with_moved_point(17e6, -6) == 17.0);
  CHECK(with_moved_point(0, -6) == 0.0);
}

TEST_CASE("a number printed with decimals is known to half of the last", "[import]") {
  const PrintedNumber number = printed_with_decimals(3.25, 2);
  CHECK(number.range.low == Approx(3.245));
  CHECK(number.range.high == Approx(3.255));
  CHECK(printed_with_decimals(0, 6).range.low == 0);
}

}  // namespace
}  // namespace trireme::calibrate
