// What one rank saw while it executed a program: the tensors that are compared with the reference,
// and what it sent and held. Ranks hand their records to rank 0 as messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/engine/execute/executor.h"
#include "sim/engine/execute/transport.h"
#include "sim/ledger/verification.h"
#include "sim/program/program.h"

namespace trireme::study {

constexpr std::size_t index_of(program::Index index) {
  return static_cast<std::size_t>(index);
}

/// One rank's part of a tensor at the end of a step, or where it was read last.
struct Capture {
  std::int64_t step = 0;
  ledger::Quantity quantity = ledger::Quantity::loss;
  program::TensorId tensor = program::kNoTensor;
  engine::InstanceIndex instance{};
  program::OpId op = 0;  // that wrote it, or that reads it (gradients)
  std::vector<double> values;
};

struct StepCounts {
  ledger::ByteLedger bytes;
  std::vector<std::int64_t> sent_elements;  // by operation of the program
  engine::HeldMemories held;
  ledger::PerPhase<Seconds> wall_clock{};
};

struct RankRecord {
  std::vector<Capture> captures;  // in the same order on every rank
  std::vector<StepCounts> steps;
};

/// An instance of a stage's tensor with the layer's number in the model.
[[nodiscard]] engine::InstanceIndex in_model(const program::Program& stage,
                                             const program::Tensor& tensor,
                                             engine::InstanceIndex instance);

/// The tensor of that name that owns its memory. Throws std::logic_error when there is none.
[[nodiscard]] program::TensorId find_tensor(const program::Program& program, std::string_view name);

/// Executes `steps` steps and records. `source(step)` gives the batch of a step; what it gives for
/// the first step also fills parameters.
[[nodiscard]] RankRecord record_rank(const program::Program& program,
                                     engine::Transport& transport,
                                     std::int64_t gpus_per_node,
                                     std::int64_t steps,
                                     const engine::ExecutionConstants& constants,
                                     const std::function<void(std::int64_t step,
                                                              const engine::InstanceIndex& instance,
                                                              engine::LocalTensor& local)>& source);

/// Sends a record to rank 0.
void send_record(engine::Transport& transport, const RankRecord& record);

/// Receives the record of `rank`.
[[nodiscard]] RankRecord receive_record(engine::Transport& transport, std::int64_t rank);

/// Calls `visit(name, amount)` for every account of a byte ledger; links are left to the caller.
template <class Ledger, class Visit>
void for_each_account(Ledger& bytes, Visit visit) {
  visit("sent", bytes.sent);
  visit("received", bytes.received);
  const auto each = [&](auto& amounts, const auto& names) {
    for (std::size_t i = 0; i < amounts.size(); ++i) {
      visit(names[i], amounts[i]);
    }
  };
  each(bytes.sent_by_phase, kPhaseNames);
  for (auto& components : bytes.sent_by_traffic) {
    each(components, kComponentNames);
  }
  each(bytes.sent_by_collective, kCollectiveNames);
  visit("copied to the host", bytes.to_host);
  visit("copied from the host", bytes.to_device);
}

}  // namespace trireme::study
