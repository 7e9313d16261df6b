#include "sim/cost/step_law.h"

#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST_CASE("a step's law charges memory, bytes, tokens and their square", "[cost]") {
  const StepLaw law{.constant = Seconds(5.40e-3),
                    .per_peak_gibibyte = Seconds(2.80e-3),
                    .per_sent_gibibyte = Seconds(1.49e-3),
                    .per_kilotoken = Seconds(4.94e-3),
                    .per_kilotoken_squared = Seconds(0.14157e-3)};
  // 10 GiB, 2 GiB, 8K: 5.40 + 28.0 + 2.98 + 39.52 + 0.14157 * 64 = 84.96048 ms
  CHECK(step_law_time(Bytes(10 * kGiB), Bytes(2 * kGiB), Tokens(8192), law).value() ==
        Approx(84.96048e-3));
  // of 256K the square alone is 0.14157 * 65,536 = 9277.93152 ms
  const StepLaw square{.constant = Seconds(0),
                       .per_peak_gibibyte = Seconds(0),
                       .per_sent_gibibyte = Seconds(0),
                       .per_kilotoken = Seconds(0),
                       .per_kilotoken_squared = Seconds(0.14157e-3)};
  CHECK(step_law_time(Bytes(0), Bytes(0), Tokens(262'144), square).value() == Approx(9.27793152));
}

}  // namespace
}  // namespace trireme::cost
