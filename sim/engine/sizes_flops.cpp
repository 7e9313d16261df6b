// Operation counts of one rank and of the model.
#include "sim/engine/sizes.h"
#include "sim/engine/work.h"

namespace trireme::engine {

ledger::FlopLedger read_flops(const program::Program& program) {
  ledger::FlopLedger flops;
  program::for_each_op(program, [&](program::OpId, const program::Op& op, std::int64_t count) {
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

}  // namespace trireme::engine
