// What executing a plan's program with real numbers shows: how far its results are from the dense
// reference, and what it moved and held against what the ledgers say.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/ledger/ledger.h"
#include "sim/units/units.h"

namespace trireme::ledger {

/// What is compared with the reference.
enum class Quantity : std::uint8_t { loss, output, input_gradient, gradients, parameters };
inline constexpr std::array<std::string_view, 5> kQuantityNames = {
    "loss", "output", "input_gradient", "gradients", "parameters"};

constexpr std::string_view name(Quantity value) {
  return name_in(kQuantityNames, value);
}

/// The worst error of a quantity over all steps, and the tensor that has it.
struct WorstError {
  double relative = 0;  // to the tensor's norm in the whole model; infinity for what is no number
  std::string tensor;
};

/// A count beside what a ledger says.
struct Counted {
  Bytes executed;
  Bytes ledger;

  [[nodiscard]] bool equal() const { return executed == ledger; }
};

/// One operation of a program as --full-trace lists it.
struct TracedOperation {
  std::string_view phase;
  std::string_view component;
  std::string label;
  std::string_view function;
  std::int64_t times = 1;  // in one step
  std::vector<std::string> operands;
};

enum class VerificationVerdict : std::uint8_t { equal, differs, illegal };
inline constexpr std::array<std::string_view, 3> kVerificationVerdictNames = {
    "equal", "differs", "illegal"};

constexpr std::string_view name(VerificationVerdict value) {
  return name_in(kVerificationVerdictNames, value);
}

/// Repeated steps, each as long as on its slowest rank.
struct StepTiming {
  Seconds median;
  Seconds lower_quartile;
  Seconds upper_quartile;
  std::int64_t steps = 0;
};

/// One plan, executed.
struct PlanVerification {
  std::string plan;
  VerificationVerdict verdict = VerificationVerdict::illegal;
  std::string model;  // what the model was shrunk to, in words
  std::int64_t ranks = 0;
  std::int64_t steps = 0;
  PerName<WorstError, kQuantityNames.size()> error{};
  // Of the rank that sent most, in one step.
  Counted sent;
  PerCollective<Counted> sent_by_collective{};
  Counted peak;                         // the largest over ranks
  Counted host_peak;                    // the same of the host's memory; zero where it is not used
  PerPhase<Seconds> wall_clock{};       // of rank 0 in the last step
  std::optional<StepTiming> step_time;  // when it was asked for
  /// Why it is illegal, or what differs: each names operation and tensor.
  std::vector<std::string> messages;
  std::vector<TracedOperation> trace;
};

struct VerificationResult {
  std::string study;
  std::string transport;  // what carried the messages
  double tolerance = 0;   // the largest error that counts as rounding
  std::vector<PlanVerification> rows;

  [[nodiscard]] bool any(VerificationVerdict verdict) const {
    for (const PlanVerification& row : rows) {
      if (row.verdict == verdict) {
        return true;
      }
    }
    return false;
  }
};

}  // namespace trireme::ledger
