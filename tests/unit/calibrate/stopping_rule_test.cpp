#include "calibrate/harness/stopping_rule.h"

#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

TEST_CASE("the interval of the median is between the ranks of the binomial's normal limit") {
  // n = 9: z sqrt(9) = 5.88; floor(3.12 / 2) = 1, ceil(1 + 14.88 / 2) = ceil(8.44) = 9
  CHECK(median_interval(9).lower == 1);
  CHECK(median_interval(9).upper == 9);
  // n = 100: z sqrt(100) = 19.6; floor(80.4 / 2) = 40, ceil(1 + 119.6 / 2) = ceil(60.8) = 61
  CHECK(median_interval(100).lower == 40);
  CHECK(median_interval(100).upper == 61);
  // n = 4: floor((4 - 3.92) / 2) = 0 and ceil(1 + 7.92 / 2) = 5 lie outside: the first and the last
  CHECK(median_interval(4).lower == 1);
  CHECK(median_interval(4).upper == 4);
}

constexpr StoppingLimits kLimits{.fewest_samples = 3,
                                 .least_samples = 9,
                                 .most_samples = 20,
                                 .relative_interval = 0.05,
                                 .time = Seconds(10)};

TEST_CASE("equal samples are settled with the least number of them") {
  StoppingRule rule(kLimits);
  for (int i = 0; i < 8; ++i) {
    rule.add(Seconds(2), Seconds(0.1 * i));
    CHECK_FALSE(rule.done());
  }
  rule.add(Seconds(2), Seconds(0.9));
  CHECK(rule.done());
  CHECK(rule.settled());
  CHECK(rule.timing().samples == 9);
  CHECK(rule.timing().median == Seconds(2));
  CHECK(rule.timing().settled);
}

TEST_CASE("the interval is compared with the median, both sides together") {
  // Nine samples: the interval is from the first to the last. Its half is 5 % of the median, 20.
  StoppingRule narrow(kLimits);
  StoppingRule wide(kLimits);
  for (const double sample : {19.0, 19.5, 20.0, 20.0, 20.0, 20.0, 20.0, 20.5, 21.0}) {
    narrow.add(Seconds(sample), Seconds(1));
    wide.add(Seconds(sample == 21.0 ? 21.1 : sample), Seconds(1));
  }
  CHECK(narrow.settled());
  CHECK_FALSE(wide.settled());
  CHECK_FALSE(wide.done());
}

TEST_CASE("when the time is up a few samples are enough, and marked") {
  StoppingRule rule(kLimits);
  rule.add(Seconds(4), Seconds(11));
  rule.add(Seconds(6), Seconds(15));
  CHECK_FALSE(rule.done());
  rule.add(Seconds(5), Seconds(20));
  CHECK(rule.done());
  CHECK_FALSE(rule.timing().settled);
  // Ordered 4, 5, 6: quartiles at places 0.5 and 1.5.
  CHECK(rule.timing().lower_quartile == Seconds(4.5));
  CHECK(rule.timing().median == Seconds(5));
  CHECK(rule.timing().upper_quartile == Seconds(5.5));
}

TEST_CASE("samples that never settle end at the most of them") {
  StoppingRule rule(kLimits);
  for (int i = 0; i < 19; ++i) {
    rule.add(Seconds(1 + i % 2), Seconds(1));
    CHECK_FALSE(rule.done());
  }
  rule.add(Seconds(2), Seconds(1));
  CHECK(rule.done());
  CHECK_FALSE(rule.settled());
}

}  // namespace
}  // namespace trireme::calibrate
