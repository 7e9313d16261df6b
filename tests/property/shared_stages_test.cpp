// Programs of a pipeline's stages that share segments, against those of each stage alone and a walk
// over every instance.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "tests/catch.h"
#include "tests/support/random_plan.h"
#include "tests/support/unrolled_oracle.h"

namespace trireme {
namespace {

using program::Node;
using program::Program;

constexpr int kPlans = 60;
constexpr std::int64_t kGpusPerNode = 1;  // every message leaves a node

/// Numbers of tensors follow the order in which a stage first emits its passes: names do not.
std::vector<std::string> names_of(const Program& program, std::span<const program::TensorId> ids) {
  std::vector<std::string> names;
  for (const program::TensorId id : ids) {
    const program::Tensor& tensor = program.tensor(id);
    names.push_back(program::display_name(tensor) +
                    program::shape_in_numbers(program.mesh(), tensor));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> names_of(const Program& program,
                                  std::span<const program::RepeatDeath> deaths) {
  std::vector<std::string> names;
  for (const program::RepeatDeath& death : deaths) {
    std::string text = program::display_name(program.tensor(death.tensor));
    for (const std::int64_t number :
         {death.instances, std::int64_t{death.offset[0]}, std::int64_t{death.offset[1]}}) {
      text += " " + std::to_string(number);
    }
    names.push_back(text);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void check_same_nodes(const Program& shared, const Program& alone) {
  REQUIRE(shared.nodes().size() == alone.nodes().size());
  for (std::size_t i = 0; i < alone.nodes().size(); ++i) {
    const Node& a = shared.nodes()[i];
    const Node& b = alone.nodes()[i];
    CAPTURE(i);
    REQUIRE(a.kind == b.kind);
    REQUIRE(a.end == b.end);
    REQUIRE(a.first == b.first);
    REQUIRE(a.step == b.step);
    REQUIRE(a.count == b.count);
    REQUIRE(a.shift == b.shift);
    REQUIRE(names_of(shared, shared.deaths(a)) == names_of(alone, alone.deaths(b)));
    if (a.kind != Node::Kind::run) {
      continue;
    }
    const auto& segment = shared.segments()[a.segment];
    const auto& own = alone.segments()[b.segment];
    REQUIRE(segment.label == own.label);
    REQUIRE(segment.ops == own.ops);
    for (std::uint32_t k = 0; k < own.ops; ++k) {
      const program::Op& op = shared.op(segment.first_op + k);
      const program::Op& expected_op = alone.op(own.first_op + k);
      CAPTURE(op.label);
      REQUIRE(op.label == expected_op.label);
      REQUIRE(names_of(shared, shared.births(op)) == names_of(alone, alone.births(expected_op)));
      REQUIRE(names_of(shared, shared.deaths(op)) == names_of(alone, alone.deaths(expected_op)));
      REQUIRE(
          (!program::crosses_stages(op) || shared.peer_stage(op) == alone.peer_stage(expected_op)));
    }
  }
}

TEST_CASE("stages that share segments have the programs of each alone", "[property][plan]") {
  const std::uint64_t first_seed = std::uint64_t{1000003} * Catch::getSeed();
  int sharing = 0;
  for (int draw = 0; draw < kPlans; ++draw) {
    const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(draw);
    const plan::Plan plan = test::random_pipeline_plan(seed);
    CAPTURE(seed, test::describe(plan));
    const std::vector<Program> stages = plan::lower_stages(plan);
    const std::vector<engine::MemoryPeak> peaks = engine::read_peaks(stages);
    const std::vector<engine::StageBytes> bytes = engine::read_bytes(stages, kGpusPerNode);
    const std::vector<ledger::FlopLedger> flops = engine::read_flops(stages);
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      CAPTURE(stage);
      const Program alone = plan::lower_stage(plan, static_cast<std::int64_t>(stage));
      check_same_nodes(stages[stage], alone);
      sharing += stage > 0 && stages[stage].shares_segments_with(stages[stage - 1]) ? 1 : 0;
      const test::UnrolledMemory unrolled = test::unroll_memory(stages[stage]);
      REQUIRE(unrolled.fault == "");
      REQUIRE(unrolled.net == Bytes(0));
      REQUIRE(peaks[stage].allocated == unrolled.peak);
      REQUIRE(peaks[stage].op == unrolled.op);
      REQUIRE(peaks[stage].allocated == engine::read_peak(alone).allocated);
      REQUIRE(peaks[stage].resident == engine::read_peak(alone).resident);
      const std::int64_t rank =
          alone.mesh().in_stage(engine::largest_sender(alone, kGpusPerNode), alone.stage());
      REQUIRE(bytes[stage].rank == rank);
      const ledger::ByteLedger expected = engine::read_bytes(alone, kGpusPerNode, rank);
      REQUIRE(bytes[stage].bytes.sent == expected.sent);
      REQUIRE(bytes[stage].bytes.received == expected.received);
      REQUIRE(bytes[stage].bytes.sent_by_link == expected.sent_by_link);
      REQUIRE(bytes[stage].bytes.sent_by_phase == expected.sent_by_phase);
      REQUIRE(flops[stage].executed.value() ==
              Approx(engine::read_flops(alone).executed.value()).epsilon(1e-12));  // order of sums
    }
  }
  CAPTURE(first_seed);
  REQUIRE(sharing > 0);
}

}  // namespace
}  // namespace trireme
