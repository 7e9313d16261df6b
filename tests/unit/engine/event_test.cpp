#include "sim/engine/event/event.h"

#include <span>
#include <vector>

#include "sim/engine/event/rank_classes.h"
#include "tests/catch.h"
#include "tests/unit/engine/timed_program.h"

namespace trireme::engine {
namespace {

using program::Index;
using program::Program;
using program::read;
using program::write;

EventResult simulated(const Program& program, const EventOptions& options = {}) {
  const Schedule schedule(program);
  const auto result = simulate(schedule, machine(), options);
  REQUIRE(result.has_value());
  return *result;
}

double step(const Program& program, const EventOptions& options = {}) {
  return simulated(program, options).time.step.value() * kBytesPerSecond;
}

TEST_CASE("event: kernels and blocking collectives add up", "[engine]") {
  Draft draft;
  draft.kernel(30);
  draft.gather();
  draft.kernel(20);
  const Program program = draft.close();
  const EventResult result = simulated(program);
  CHECK(result.time.step.value() * kBytesPerSecond == Approx(100).epsilon(1e-12));  // 30 + 50 + 20
  CHECK(result.time.exposed_communication.value() * kBytesPerSecond == Approx(50).epsilon(1e-12));
  CHECK(result.classes == 1);  // two ranks that behave alike
}

TEST_CASE("event: streams run on across a segment's end", "[engine]") {
  Draft draft;
  draft.builder.repeat(Index::layer, 0, 1, 4, [&] {
    draft.builder.begin_segment("layer");
    draft.gather().op->blocking = false;  // 50: the communicator is busy without a pause
    draft.kernel(30);
  });
  const Program program = draft.close();
  CHECK(step(program) == Approx(4 * 50).epsilon(1e-12));
  draft = Draft();
  draft.builder.begin_segment("first");
  draft.gather().op->blocking = false;  // until 50
  draft.builder.begin_segment("second");
  draft.kernel(80);  // does not wait for the segment before
  const Program two = draft.close();
  CHECK(step(two) == Approx(80).epsilon(1e-12));
  CHECK(read_time(two, machine())->step.value() * kBytesPerSecond ==
        Approx(50 + 80).epsilon(1e-12));  // the analytic bound
}

TEST_CASE("event: a task waits for what it reads and for readers of what it writes", "[engine]") {
  Draft draft;
  const auto gathered = draft.gather();  // until 50
  gathered.op->blocking = false;
  draft.kernel(30);
  draft.builder.emit(program::Function::zero, "use", {read(gathered.to)});  // 50 to 150
  CHECK(step(draft.close()) == Approx(150).epsilon(1e-12));
  draft = Draft();
  const auto sent = draft.gather();  // until 50
  sent.op->blocking = false;
  draft.builder.emit(program::Function::zero, "overwrite", {write(sent.from)});  // 50 bytes
  CHECK(step(draft.close()) == Approx(100).epsilon(1e-12));
}

TEST_CASE("event: a collective waits for the slowest of its group", "[engine]") {
  Draft draft;
  draft.kernel(30);
  draft.gather();
  draft.kernel(20);
  const Program program = draft.close();
  EventOptions options;
  options.variation.stragglers = {{1, 2.0, {}}};
  const EventResult result = simulated(program, options);
  // 2 x 30, the gather 50, 2 x 20 on the slow rank.
  CHECK(result.time.step.value() * kBytesPerSecond == Approx(60 + 50 + 40).epsilon(1e-12));
  CHECK(result.rank == 1);
  CHECK(result.classes == 2);
}

TEST_CASE("event: every task is observed once per class, in time", "[engine]") {
  Draft draft;
  draft.kernel(30);
  draft.gather();
  draft.kernel(20);
  const Program program = draft.close();
  const Schedule schedule(program);
  EventOptions options;
  options.unfolded = true;
  std::vector<TaskRecord> records;
  REQUIRE(simulate(
      schedule, machine(), options, [&](const TaskRecord& record) { records.push_back(record); }));
  REQUIRE(records.size() == 6);
  for (std::size_t i = 1; i < records.size(); ++i) {
    CHECK(records[i].end >= records[i - 1].end);
  }
  CHECK(records.back().start.value() * kBytesPerSecond == Approx(80).epsilon(1e-12));
}

TEST_CASE("event: classes split only where ranks differ", "[engine]") {
  program::Builder builder = small_program({{"inner", 4}, {"outer", 3}});
  const program::TensorSpec whole = resident("x", {{1, "B"}, {8, "S"}});
  program::TensorSpec shard = whole;
  shard.layout = program::Layout().with(kGroup, program::Placement::shard(1));
  emit_collective(builder, CollectiveKind::all_gather, kGroup, shard, whole);
  const Program program = std::move(builder).close();
  std::vector<std::uint32_t> own(12, 0);
  CHECK(fold_ranks(std::span(&program, 1), own).first_rank == std::vector<std::int64_t>{0});
  own[5] = 1;  // in the second group of four
  const RankClasses classes = fold_ranks(std::span(&program, 1), own);
  // The other groups; the different rank's neighbours; that rank.
  CHECK(classes.first_rank == std::vector<std::int64_t>{0, 4, 5});
  CHECK(classes.class_of_rank == std::vector<std::uint32_t>{0, 0, 0, 0, 1, 2, 1, 1, 0, 0, 0, 0});
}

}  // namespace
}  // namespace trireme::engine
