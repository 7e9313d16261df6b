// Seconds of copies between GPU and host, and of the host's work.
#include "sim/cost/host.h"

#include "tests/catch.h"

namespace trireme {

TEST_CASE("a copy takes its bytes over the link's rate, host work over the processors'", "[cost]") {
  const cost::HostCosts costs{.link_rate = BytesPerSecond(50e9), .work_rate = BytesPerSecond(10e9)};
  CHECK(cost::host_copy_time(Bytes(100'000'000'000), costs).value() == Approx(2));
  CHECK(cost::host_work_time(Bytes(100'000'000'000), costs).value() == Approx(10));
  CHECK(cost::host_copy_time(Bytes(0), costs) == Seconds(0));
}

}  // namespace trireme
