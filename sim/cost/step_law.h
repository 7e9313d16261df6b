// Seconds of a step by a regression over measured steps, without a program.
#pragma once

#include <cstdint>

#include "sim/units/units.h"

namespace trireme::cost {

/// What a law charges for each of a step's sizes. Coefficients of a regression may be negative.
struct StepLaw {
  Seconds constant;
  Seconds per_peak_gibibyte;
  Seconds per_sent_gibibyte;
  Seconds per_kilotoken;  // of a sequence; a kilotoken is 1,024 tokens
  Seconds per_kilotoken_squared;
};

/// Seconds of a step that holds `peak` and sends `sent` bytes on a rank, over sequences of
/// `sequence` tokens.
///
/// EQ step-law: T = c0 + cm M + cw W + c1 S + c2 S^2
///   M   peak: allocated, of one rank                                         [GiB]
///   W   sent: per rank and step                                              [GiB]
///   S   sequence                                                             [1024 tokens]
///   c0  law.constant                                                         [seconds]
///   cm  law.per_peak_gibibyte                                                [seconds/GiB]
///   cw  law.per_sent_gibibyte                                                [seconds/GiB]
///   c1  law.per_kilotoken                                                    [seconds]
///   c2  law.per_kilotoken_squared                                            [seconds]
/// Source: blog2026ulysses-megatron, the regression over all 36 runs
/// Valid:  the model, machine, batch and range of sizes of the steps it was fitted to; their sizes
///   grow together, so that no single coefficient stands for one cause.
/// Tests:  tests/unit/cost/step_law_test.cpp
[[nodiscard]] inline Seconds step_law_time(Bytes peak,
                                           Bytes sent,
                                           Tokens sequence,
                                           const StepLaw& law) {
  constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
  constexpr double kKilotoken = 1024.0;
  const double held = static_cast<double>(peak.value()) / kGibibyte;
  const double moved = static_cast<double>(sent.value()) / kGibibyte;
  const double length = static_cast<double>(sequence.value()) / kKilotoken;
  return law.constant + held * law.per_peak_gibibyte + moved * law.per_sent_gibibyte +
         length * law.per_kilotoken + length * length * law.per_kilotoken_squared;
}

}  // namespace trireme::cost
