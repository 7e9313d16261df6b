#include "sim/units/text.h"

#include <clocale>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/catch.h"

namespace trireme {
namespace {

using Catch::Matchers::ContainsSubstring;

/// What BadText says about `text`, with its hint; "" when the parser takes it.
template <class Parse>
std::string refusal(Parse parse, const std::string& text) {
  try {
    static_cast<void>(parse(text));
    return "";
  } catch (const BadText& bad) {
    return std::string(bad.what()) + "; " + bad.hint();
  }
}

TEST_CASE("bytes are read exactly", "[units]") {
  CHECK(parse_bytes("4 B") == Bytes(4));
  CHECK(parse_bytes("139 GiB") == Bytes(139LL << 30));
  CHECK(parse_bytes("80GB") == Bytes(80'000'000'000));
  CHECK(parse_bytes("2 TiB") == Bytes(2LL << 40));
  // 79.2 * 2^30 = 85,040,352,460.8
  CHECK(parse_bytes("79.2 GiB") == Bytes(85'040'352'461));
  CHECK(parse_bytes("1.5 KiB") == Bytes(1536));
  CHECK(parse_bytes("9223372036854775807 B") == Bytes(std::numeric_limits<std::int64_t>::max()));
}

TEST_CASE("rates and times keep the nearest double", "[units]") {
  CHECK(parse_bytes_per_second("3.35 TB/s") == BytesPerSecond(3.35e12));
  // 400 Gbit/s = 50 GB/s
  CHECK(parse_bytes_per_second("400 Gbit/s") == BytesPerSecond(50e9));
  CHECK(parse_bytes_per_second("20 GiB/s") == BytesPerSecond(20.0 * 1073741824));
  CHECK(parse_flops_per_second("989 TFLOP/s") == FlopsPerSecond(989e12));
  CHECK(parse_flops_per_second("2.25 PFLOP/s") == FlopsPerSecond(2.25e15));
  CHECK(parse_seconds("6.6 us") == Seconds(6.6e-6));
  CHECK(parse_seconds("4 ns") == Seconds(4e-9));
  CHECK(parse_seconds("12 ms") == Seconds(0.012));
  CHECK(parse_seconds("1e-3 s") == Seconds(0.001));
}

TEST_CASE("tokens take K and M of two to the ten", "[units]") {
  CHECK(parse_tokens("131072") == Tokens(131072));
  CHECK(parse_tokens("128K") == Tokens(131072));
  CHECK(parse_tokens("1M") == Tokens(1048576));
  for (const char* text : {"1k", "1.5M", "8x", "128 K", "128KB", "1G", "K"}) {
    CAPTURE(text);
    CHECK_THAT(refusal(parse_tokens, text), ContainsSubstring("128K (2^10)"));
  }
}

TEST_CASE("numbers, percentages and truth values", "[units]") {
  CHECK(parse_count("0") == 0);
  CHECK(parse_count("8030261248") == 8030261248);
  CHECK(parse_number("-3.5") == -3.5);
  CHECK(parse_number("2e-6") == 2e-6);
  CHECK(parse_non_negative_number("0") == 0);
  CHECK(parse_percentage("20 %") == 0.2);
  CHECK(parse_percentage("0.5%") == 0.005);
  CHECK(parse_bool("true"));
  CHECK_FALSE(parse_bool("false"));
  for (const char* text : {"yes", "on", "True", "1", ""}) {
    CAPTURE(text);
    CHECK_THAT(refusal(parse_bool, text), ContainsSubstring("true or false"));
  }
}

TEST_CASE("a refusal says what is wrong and what is accepted", "[units]") {
  CHECK(refusal(parse_bytes, "80") ==
        "'80' has no unit; accepted: a number and one of the units B, KB, MB, GB, TB, KiB, MiB, "
        "GiB, TiB");
  CHECK_THAT(refusal(parse_bytes_per_second, "400 Gb"),
             ContainsSubstring("unknown unit 'Gb'") && ContainsSubstring("Gbit/s"));
  CHECK_THAT(refusal(parse_flops_per_second, "989 TFLOPS"),
             ContainsSubstring("unknown unit 'TFLOPS'") && ContainsSubstring("TFLOP/s"));
  CHECK_THAT(refusal(parse_seconds, "4.5"),
             ContainsSubstring("no unit; accepted: a number and one "
                               "of the units ns, us, ms, s"));
  CHECK_THAT(refusal(parse_count, "010"), ContainsSubstring("leading zero"));
  CHECK_THAT(refusal(parse_count, "8x"), ContainsSubstring("not a whole number"));
  CHECK_THAT(refusal(parse_count, "-8"), ContainsSubstring("negative"));
  CHECK_THAT(refusal(parse_count, "1e3"), ContainsSubstring("not a whole number"));
  CHECK_THAT(refusal(parse_count, "9223372036854775808"), ContainsSubstring("out of range"));
  CHECK_THAT(refusal(parse_bytes, "9223372036854775808 B"), ContainsSubstring("out of range"));
  CHECK_THAT(refusal(parse_bytes, "8388608 TiB"), ContainsSubstring("out of range"));  // 2^63
  CHECK_THAT(refusal(parse_bytes, "8388608.5 TiB"), ContainsSubstring("out of range"));
  CHECK_THAT(refusal(parse_number, "1e400"), ContainsSubstring("out of range"));
  CHECK_THAT(refusal(parse_number, "1e99999999999999999999"), ContainsSubstring("out of range"));
  CHECK_THAT(refusal(parse_bytes_per_second, "1e308 TB/s"), ContainsSubstring("out of range"));
  CHECK_THAT(refusal(parse_bytes, ""), ContainsSubstring("empty"));
}

TEST_CASE("what is no number is refused by every parser", "[units]") {
  const std::string text = GENERATE(as<std::string>{},
                                    ".inf",
                                    ".nan",
                                    "nan",
                                    "inf",
                                    "-",
                                    "--1",
                                    "+1",
                                    ".5",
                                    "0x10",
                                    " 1",
                                    "1,5",
                                    "1_000",
                                    "1.",
                                    "1e",
                                    "\xF0\x9F\x98\x80");
  CAPTURE(text);
  CHECK_FALSE(refusal(parse_count, text).empty());
  CHECK_FALSE(refusal(parse_number, text).empty());
  CHECK_FALSE(refusal(parse_non_negative_number, text).empty());
  CHECK_FALSE(refusal(parse_percentage, text + " %").empty());
  CHECK_FALSE(refusal(parse_tokens, text).empty());
  CHECK_FALSE(refusal(parse_bytes, text + " GiB").empty());
  CHECK_FALSE(refusal(parse_bytes_per_second, text + " GB/s").empty());
  CHECK_FALSE(refusal(parse_flops_per_second, text + " TFLOP/s").empty());
  CHECK_FALSE(refusal(parse_seconds, text + " us").empty());
}

TEST_CASE("units are printed in the largest unit that keeps them short", "[units]") {
  CHECK(to_text(Bytes(0)) == "0 B");
  CHECK(to_text(Bytes(139LL << 30)) == "139 GiB");
  CHECK(to_text(Bytes(1536)) == "1536 B");
  CHECK(to_text(Tokens(131072)) == "128K");
  CHECK(to_text(Tokens(1000)) == "1000");
  CHECK(to_text(Seconds(6.6e-6)) == "6.6 us");
  CHECK(to_text(Seconds(0)) == "0 s");
  CHECK(to_text(Seconds(90)) == "90 s");
  CHECK(to_text(Seconds(1e-12)) == "1e-3 ns");
  CHECK(to_text(BytesPerSecond(50e9)) == "50 GB/s");
  CHECK(to_text(FlopsPerSecond(989e12)) == "989 TFLOP/s");
  CHECK(to_text(FlopsPerSecond(1.979e15)) == "1.979 PFLOP/s");
  CHECK(to_text(0.1) == "0.1");
}

TEST_CASE("what is printed is read back to the same value", "[units]") {
  const double value = GENERATE(0.0, 1.0, 6.6e-6, 3.35e12, 1.0 / 3, 123456789.125, 9.99e-10, 4e21);
  CAPTURE(value);
  CHECK(parse_seconds(to_text(Seconds(value))) == Seconds(value));
  CHECK(parse_bytes_per_second(to_text(BytesPerSecond(value))) == BytesPerSecond(value));
  CHECK(parse_flops_per_second(to_text(FlopsPerSecond(value))) == FlopsPerSecond(value));
  CHECK(parse_number(to_text(value)) == value);
  const std::int64_t count =
      GENERATE(as<std::int64_t>{}, 0, 1, 1023, 1024, 1536, 1048576, 85040352461);
  CHECK(parse_bytes(to_text(Bytes(count))) == Bytes(count));
  CHECK(parse_tokens(to_text(Tokens(count))) == Tokens(count));
}

TEST_CASE("the locale changes nothing", "[units]") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  // Absent locales leave the C locale, in which the checks hold as well.
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  CHECK(parse_number("1.5") == 1.5);
  CHECK(to_text(Seconds(1.5)) == "1.5 s");
  std::setlocale(LC_ALL, before.c_str());
}

}  // namespace
}  // namespace trireme
