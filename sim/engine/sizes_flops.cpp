// Operation counts of one rank and of the model.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/shared_readings.h"
#include "sim/engine/sizes.h"
#include "sim/engine/work.h"

namespace trireme::engine {

namespace {

ledger::FlopLedger flops_of(const program::Program& program,
                            std::span<const std::int64_t> executions) {
  ledger::FlopLedger flops;
  for_each_op_once(program, executions, [&](const program::Op& op, std::int64_t count) {
    const auto times = static_cast<double>(count);
    flops.executed += times * executed_flops(program, op);
    if (op.phase == Phase::forward || op.phase == Phase::backward) {
      const ModelFlops model = model_flops(program, op);
      flops.model += times * model.causal_halved;
      flops.model_full_attention += times * model.causal_in_full;
    }
  });
  return flops;
}

}  // namespace

ledger::FlopLedger read_flops(const program::Program& program) {
  return read_flops(std::span(&program, 1)).front();
}

std::vector<ledger::FlopLedger> read_flops(std::span<const program::Program> stages) {
  std::vector<ledger::FlopLedger> all;
  const SharedReadings readings(stages);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    all.push_back(readings.first_like(stage) < stage
                      ? all[readings.first_like(stage)]
                      : flops_of(stages[stage], readings.executions(stage)));
  }
  return all;
}

}  // namespace trireme::engine
