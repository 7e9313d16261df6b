#include "sim/report/numbers.h"

#include "tests/catch.h"

namespace trireme::report {
namespace {

TEST_CASE("JSON and CSV carry nine significant digits", "[unit]") {
  CHECK(nine_digit_text(1.0 / 3) == "0.333333333");
  CHECK(nine_digit_text(123456789012.0) == "123456789000");
  CHECK(nine_digit_text(0.5) == "0.5");
  CHECK(nine_digit_text(6.6e-6) == "6.6e-06");
  CHECK(nine_digits(nine_digits(2.0 / 3)) == nine_digits(2.0 / 3));
}

TEST_CASE("amounts for people", "[unit]") {
  CHECK(gibibytes(Bytes(1LL << 30)) == "1.00");
  CHECK(gibibytes(Bytes(24662507520)) == "22.97");  // 22.96875 GiB = 24,662,507,520 bytes
  CHECK(human(Bytes(0)) == "0 B");
  CHECK(human(Bytes(1023)) == "1023 B");
  CHECK(human(Bytes(28 * 1024)) == "28 KiB");
  CHECK(human(Bytes(1879048192)) == "1.75 GiB");
  CHECK(human(Seconds(11.27)) == "11.3 s");
  CHECK(human(Seconds(1)) == "1 s");
  CHECK(human(Seconds(0.845)) == "845 ms");
  CHECK(human(Seconds(12.5e-6)) == "12.5 us");
  CHECK(human(Seconds(0)) == "0 s");
  CHECK(human(Elements(8030261248)) == "8.03 billion");
  CHECK(human(Elements(351000000)) == "351 million");
  CHECK(human(Elements(1234)) == "1,234");
  CHECK(percent(0.4712) == "47.1 %");
  CHECK(with_thousands(1234567) == "1,234,567");
  CHECK(with_thousands(123) == "123");
}

TEST_CASE("a place along a key is printed in the key's unit", "[unit]") {
  CHECK(along_key("workload.sequence", 62464) == "61K");  // 61 x 1024
  CHECK(along_key("workload.sequence", 1.5 * 1048576) == "1.5M");
  CHECK(along_key("cluster.nodes", 2.345) == "2.35");
}

}  // namespace
}  // namespace trireme::report
