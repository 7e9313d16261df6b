// Closed-form memory against a walk over every instance of every operation.
#include <cstdint>
#include <map>
#include <string>

#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "tests/catch.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_program.h"
#include "tests/support/unrolled_oracle.h"

namespace trireme {
namespace {

constexpr int kPrograms = 500;
constexpr int kPlans = 100;

void check_memory(const program::Program& program, program::Place place) {
  const test::UnrolledMemory unrolled = test::unroll_memory(program, place);
  REQUIRE(unrolled.fault == "");
  REQUIRE(unrolled.net == Bytes(0));

  const engine::MemoryPeak peak = engine::read_peak(program, place);
  REQUIRE(peak.allocated == unrolled.peak);
  REQUIRE(peak.op == unrolled.op);
  REQUIRE(engine::read_net_memory(program, place) == Bytes(0));

  std::map<std::string, Bytes> alive;
  for (const auto& [id, instances] : unrolled.alive) {
    const program::Tensor& tensor = program.tensor(id);
    alive[program::display_name(tensor)] += instances * tensor.local_bytes();
  }
  std::map<std::string, Bytes> listed;
  Bytes total;
  for (const ledger::MemoryEntry& entry : engine::memory_entries(program, place)) {
    listed[entry.tensor] += entry.bytes;
    total += entry.bytes;
  }
  REQUIRE(listed == alive);
  REQUIRE(total == peak.allocated);
  REQUIRE(engine::read_memory(program, place).allocated == peak.allocated);
}

void check_memory(const program::Program& program) {
  check_memory(program, program::Place::device);
  check_memory(program, program::Place::host);
}

TEST_CASE("closed-form memory equals a walk over every instance", "[property][program]") {
  // A draw of some programs is refused; a generator that is mostly refused draws only simple ones.
  constexpr std::uint64_t kMostDraws = 2 * kPrograms;
  const std::uint64_t first_seed = std::uint64_t{1000003} * Catch::getSeed();
  std::uint64_t draws = 0;
  int compared = 0;
  for (; compared < kPrograms && draws < kMostDraws; ++draws) {
    const std::uint64_t seed = first_seed + draws;
    CAPTURE(seed);
    const test::RandomProgram drawn = test::random_program(seed);
    if (drawn.program) {
      ++compared;
      check_memory(*drawn.program);
    }
  }
  CAPTURE(first_seed, draws);
  REQUIRE(compared == kPrograms);
}

TEST_CASE("closed-form memory of plans equals a walk over every instance", "[property][program]") {
  const std::uint64_t first_seed = std::uint64_t{1000003} * Catch::getSeed();
  for (int draw = 0; draw < kPlans; ++draw) {
    const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(draw);
    const plan::Plan plan = test::random_plan(seed);
    CAPTURE(seed, test::describe(plan));
    check_memory(plan::lower(plan));
  }
}

}  // namespace
}  // namespace trireme
