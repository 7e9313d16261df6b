#include "sim/study/rates.h"

#include <algorithm>
#include <array>

namespace trireme::study {

double tokens_per_second_per_gpu(Tokens step_tokens, std::int64_t gpus, Seconds step) {
  return static_cast<double>(step_tokens.value()) / (static_cast<double>(gpus) * step.value());
}

double flop_utilisation(Flops work, std::int64_t gpus, FlopsPerSecond peak, Seconds step) {
  return work.value() / (static_cast<double>(gpus) * peak.value() * step.value());
}

ledger::Bound bound_by(const ledger::TimeLedger& time) {
  const std::array<Seconds, ledger::kBoundNames.size()> parts = {
      time.attention, time.gemm, time.memory_bound, time.exposed_communication};
  const auto largest = std::max_element(parts.begin(), parts.end());
  return static_cast<ledger::Bound>(largest - parts.begin());
}

}  // namespace trireme::study
