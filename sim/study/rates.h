// What follows from the seconds of a step: throughput, utilisation, and what bounds it.
#pragma once

#include <cstdint>

#include "sim/ledger/result.h"
#include "sim/units/units.h"

namespace trireme::study {

/// Tokens that one GPU trains on in a second. All arguments are above zero.
///
/// EQ tokens-per-second-per-gpu: X = K / (n T)
///   K  step_tokens: of one step, over all ranks                                [tokens]
///   n  gpus                                                                    [1]
///   T  step                                                                    [seconds]
///   X  result                                                                  [tokens/second]
/// Source: derived: the definition
/// Valid:  every GPU of the cluster takes part in the step
/// Tests:  tests/unit/study/rates_test.cpp
[[nodiscard]] double tokens_per_second_per_gpu(Tokens step_tokens, std::int64_t gpus, Seconds step);

/// The share of the GPUs' dense peak that `work` over all of them takes.
///
/// EQ flop-utilisation: U = F / (n R T)
///   F  work: model FLOPs over all ranks (MFU), or n times a rank's executed ones (HFU)  [flop]
///   n  gpus                                                                    [1]
///   R  peak: dense, of one GPU                                                 [flop/second]
///   T  step                                                                    [seconds]
///   U  result                                                                  [1]
/// Source: korthikanti2022, section 6.3 (model and hardware FLOPs utilization)
/// Valid:  one GPU type; all matrix products in the peak's number format
/// Tests:  tests/unit/study/rates_test.cpp
[[nodiscard]] double flop_utilisation(Flops work,
                                      std::int64_t gpus,
                                      FlopsPerSecond peak,
                                      Seconds step);

/// The largest of a step's parts: attention, matrix products, memory-bound kernels, and the
/// communication that computing waits for. The first of equals.
[[nodiscard]] ledger::Bound bound_by(const ledger::TimeLedger& time);

}  // namespace trireme::study
