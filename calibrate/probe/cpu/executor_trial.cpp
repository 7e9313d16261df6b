#include "calibrate/probe/cpu/executor_trial.h"

#include <chrono>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "sim/core/counter_random.h"
#include "sim/engine/execute/thread_transport.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

/// More sets than these add time to the preparation and nothing to the measurement: real steps
/// find some of their operands in the cache as well.
constexpr std::int64_t kMostLayers = 8;
/// A kernel that computes more for each of its numbers lasts several times as long as it takes to
/// read them from memory: where they were makes no difference, and two sets are enough.
constexpr double kComputesLong = 100;
constexpr std::int64_t kFewLayers = 2;
/// Of the machine's memory, for one point of one rank.
constexpr std::int64_t kMemoryParts = 16;

Bytes cache() {
  const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  const long second = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return Bytes(bytes > 0 ? bytes : second > 0 ? second : 0);
}

}  // namespace

void fill_any(const engine::InstanceIndex& instance, engine::LocalTensor& local) {
  std::uint64_t state = mixed_bits(static_cast<std::uint64_t>(instance[1]) + 1);
  const bool whole = local.tensor->type == ElementType::int64;
  const bool positive = local.tensor->role == program::Role::optimizer_state;
  for (double& value : local.values) {
    state = mixed_bits(state);
    const double unit = static_cast<double>(state >> 11U) * 0x1.0p-53;
    value = whole ? 0 : positive ? unit : 2 * unit - 1;
  }
}

std::int64_t rotated_layers(std::int64_t elements, Flops work) {
  const Bytes set = bytes_of(Elements(elements), ElementType::fp64);  // as executed
  const auto memory = Bytes(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE));
  const std::int64_t fit = memory.value() / kMemoryParts / set.value();
  if (fit < 1) {
    throw PointRefused(fmt::format("{} for one point is more than 1/{} of the memory of {}",
                                   to_text(set),
                                   kMemoryParts,
                                   to_text(memory)));
  }
  const bool long_work = work.value() >= kComputesLong * static_cast<double>(elements);
  return rotated_sets(set, cache(), std::min(fit, long_work ? kFewLayers : kMostLayers));
}

/// A network of one rank.
class ExecutorTrial::Alone {
 public:
  Alone() : network_(1, std::chrono::seconds(1)), transport_(network_.endpoint(0)) {}

  [[nodiscard]] engine::Transport& transport() { return *transport_; }

 private:
  engine::ThreadNetwork network_;
  std::unique_ptr<engine::Transport> transport_;
};

ExecutorTrial::ExecutorTrial(RepeatedOperation operation, engine::Transport* transport)
    : operation_(std::move(operation)) {
  if (transport == nullptr) {
    alone_ = std::make_unique<Alone>();
    transport = &alone_->transport();
  }
  const auto observe = [this](const program::Op& op,
                              std::size_t operand,
                              const engine::InstanceIndex& instance,
                              const engine::LocalTensor& local) {
    const bool first = instance[1] == 0 && op.function != program::Function::load_batch;
    if (looks_ && first) {
      seen_.resize(std::max(seen_.size(), operand + 1));
      seen_[operand] = local;
    }
  };
  executor_ = std::make_unique<engine::Executor>(operation_.program,
                                                 *transport,
                                                 transport->ranks(),
                                                 operation_.fill ? operation_.fill : fill_any,
                                                 observe);
}

ExecutorTrial::~ExecutorTrial() = default;

void ExecutorTrial::verify() {
  looks_ = true;
  static_cast<void>(executor_->run_step({}));
  looks_ = false;
  operation_.check(seen_);
  seen_.clear();
}

Seconds ExecutorTrial::run(std::int64_t times) {
  const std::int64_t steps = ceil_div(times, operation_.layers);
  Seconds total;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const Seconds phase : executor_->run_step({}).wall_clock) {
      total += phase;
    }
  }
  return (1.0 / static_cast<double>(steps * operation_.layers)) * total;
}

}  // namespace trireme::calibrate
