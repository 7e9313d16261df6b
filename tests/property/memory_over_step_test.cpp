// Memory over the step against the readers of the peak, on plans drawn at random.
#include "sim/engine/memory_over_step.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "tests/catch.h"
#include "tests/support/random_plan.h"

namespace trireme {
namespace {

TEST_CASE("memory over the step peaks where the peak is, and its items sum", "[property]") {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  for (std::uint64_t i = 0; i < 200; ++i) {
    const plan::Plan plan = test::random_plan(first + i);
    CAPTURE(first + i, test::describe(plan));
    const program::Program program = plan::lower(plan);
    const std::vector<ledger::MemoryInstant> instants = engine::memory_over_step(program);
    const ledger::MemoryLedger peak = engine::read_memory(program);
    const auto highest =
        std::max_element(instants.begin(), instants.end(), [](const auto& a, const auto& b) {
          return a.allocated < b.allocated;
        });
    REQUIRE(highest != instants.end());
    CHECK(highest->allocated == peak.allocated);
    CHECK(highest->by_item == peak.by_item);
    for (const ledger::MemoryInstant& at : instants) {
      Bytes all;
      for (const Bytes bytes : at.by_item) {
        REQUIRE(bytes >= Bytes(0));
        all += bytes;
      }
      REQUIRE(all == at.allocated);
      REQUIRE(at.allocated >= peak.resident);
    }
  }
}

}  // namespace
}  // namespace trireme
