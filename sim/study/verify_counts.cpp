// Bytes and memory that an execution counted against the ledgers.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/collective_payload.h"
#include "sim/engine/placement.h"
#include "sim/engine/sizes.h"
#include "sim/study/verify_checks.h"

namespace trireme::study {

using ledger::PlanVerification;
using program::Op;
using program::OpId;
using program::Program;
using program::Tensor;

namespace {

/// "operation 'gather parameters' (forward, attention) on 'qkv weight', ...": what a transfer is
/// called in messages, the same for equal operations of two programs.
std::string transfer_name(const Program& program, const Op& op) {
  std::string tensors;
  const auto operands = program.operands(op);
  for (std::size_t i = 0; i < engine::payloads(op); ++i) {
    tensors += fmt::format("{}'{}'",
                           tensors.empty() ? "" : ", ",
                           program::display_name(program.tensor(operands[i].ref.tensor)));
  }
  return fmt::format("operation {} on {}", operation_in_words(op), tensors);
}

/// Bytes that each operation is to send in a step.
std::map<std::string, Bytes> promised_bytes(const Program& program,
                                            std::int64_t gpus_per_node,
                                            std::int64_t rank) {
  std::map<std::string, Bytes> sent;
  program::for_each_op(program, [&](OpId, const Op& op, std::int64_t times) {
    if (!program::communicates(op)) {
      return;
    }
    for (std::size_t pair = 0; pair < engine::payloads(op); ++pair) {
      sent[transfer_name(program, op)] +=
          times * engine::bytes_of_rank(program, op, pair, gpus_per_node, rank).sent;
    }
  });
  return sent;
}

/// Bytes that each operation has sent: the tensors of one transfer have one type.
std::map<std::string, Bytes> executed_bytes(const Program& program, const StepCounts& step) {
  std::map<std::string, Bytes> sent;
  for (OpId id = 0; id < program.ops().size(); ++id) {
    const Op& op = program.op(id);
    if (program::communicates(op) || step.sent_elements[id] != 0) {
      const ElementType type = program.tensor(program.operands(op)[0].ref.tensor).type;
      sent[transfer_name(program, op)] += bytes_of(Elements(step.sent_elements[id]), type);
    }
  }
  return sent;
}

/// Calls `visit(name, in a, in b)` for every name whose amounts differ.
template <class Amount, class Visit>
void for_each_difference(const std::map<std::string, Amount>& a,
                         const std::map<std::string, Amount>& b,
                         Visit visit) {
  std::map<std::string, std::pair<Amount, Amount>> both;
  for (const auto& [name, amount] : a) {
    both[name].first = amount;
  }
  for (const auto& [name, amount] : b) {
    both[name].second = amount;
  }
  for (const auto& [name, amounts] : both) {
    if (amounts.first != amounts.second) {
      visit(name, amounts.first, amounts.second);
    }
  }
}

/// Every account of every rank and step, and every operation, to the byte.
class ByteCheck {
 public:
  ByteCheck(std::span<const Program> promised,
            std::span<const Program> executed,
            std::int64_t gpus_per_node)
      : promised_(promised), executed_(executed), gpus_per_node_(gpus_per_node) {}

  void run(const std::vector<RankRecord>& records, PlanVerification& result) const {
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      const auto number = static_cast<std::int64_t>(rank);
      const ledger::ByteLedger ledger = promised_bytes_of(number);
      for (std::size_t step = 0; step < records[rank].steps.size(); ++step) {
        const StepCounts& counts = records[rank].steps[step];
        if (!compare(ledger, counts, number, result)) {
          return;  // other ranks and steps would say the same again
        }
        if (rank == 0 || ledger.sent > result.sent.ledger) {
          book(ledger, counts.bytes, result);
        }
      }
    }
    compare_links(records, result);
  }

 private:
  [[nodiscard]] std::size_t stage_of(std::int64_t rank) const {
    return static_cast<std::size_t>(promised_.front().mesh().stage_of(rank));
  }

  [[nodiscard]] ledger::ByteLedger promised_bytes_of(std::int64_t rank) const {
    return engine::read_bytes(promised_[stage_of(rank)], gpus_per_node_, rank);
  }

  /// Whether positions in every group, around which messages go, ascend with the ranks' numbers:
  /// not where axes of one group are placed in another order than their own.
  [[nodiscard]] bool rings_follow_ranks() const {
    for (const Program& program : promised_) {
      const program::Mesh& mesh = program.mesh();
      for (const Op& op : program.ops()) {
        int outermost = -1;
        for (int place = 0; program::communicates(op) && place < mesh.axes(); ++place) {
          const int axis = mesh.axis_at(place);
          if ((op.group & program::axis_bit(axis)) == 0 || mesh.size(axis) == 1) {
            continue;
          }
          if (axis < outermost) {
            return false;
          }
          outermost = axis;
        }
      }
    }
    return true;
  }

  /// Bytes by link over all ranks. Of one rank they differ: messages go around one ring, which
  /// leaves a node at one rank, while the ledger has rings whose exits rotate over a node's ranks
  /// (equation ring-off-node). Where ranks of a stage send unequal amounts, those shares are
  /// rounded; where rings do not follow the ranks, they leave nodes more often than NCCL's.
  void compare_links(const std::vector<RankRecord>& records, PlanVerification& result) const {
    ledger::PerLink<Bytes> counted{};
    ledger::PerLink<Bytes> promised{};
    std::vector<Bytes> of_stage(promised_.size(), Bytes(-1));
    bool equal = rings_follow_ranks();
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      const auto number = static_cast<std::int64_t>(rank);
      const ledger::ByteLedger ledger = promised_bytes_of(number);
      Bytes& sent = of_stage[stage_of(number)];
      equal = equal && (sent == Bytes(-1) || sent == ledger.sent);
      sent = ledger.sent;
      for (std::size_t link = 0; link < kLinkNames.size(); ++link) {
        promised[link] += ledger.sent_by_link[link];
        counted[link] += records[rank].steps.back().bytes.sent_by_link[link];
      }
    }
    for (std::size_t link = 0; link < kLinkNames.size() && equal; ++link) {
      if (counted[link] != promised[link]) {
        result.messages.push_back(fmt::format("{} of all ranks: {} bytes counted, {} in the ledger",
                                              kLinkNames[link],
                                              counted[link].value(),
                                              promised[link].value()));
      }
    }
  }

  static void book(const ledger::ByteLedger& ledger,
                   const ledger::ByteLedger& counted,
                   PlanVerification& result) {
    result.sent = {counted.sent, ledger.sent};
    for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
      result.sent_by_collective[i] = {counted.sent_by_collective[i], ledger.sent_by_collective[i]};
    }
  }

  bool compare(const ledger::ByteLedger& ledger,
               const StepCounts& counts,
               std::int64_t rank,
               PlanVerification& result) const {
    bool equal = true;
    std::vector<Bytes> amounts;
    for_each_account(counts.bytes,
                     [&](std::string_view, Bytes amount) { amounts.push_back(amount); });
    std::size_t next = 0;
    std::string accounts;
    for_each_account(ledger, [&](std::string_view name, Bytes amount) {
      const Bytes counted = amounts[next++];
      if (counted != amount) {
        equal = false;
        accounts += fmt::format(
            "; {}: {} counted, {} in the ledger", name, counted.value(), amount.value());
      }
    });
    for_each_difference(
        executed_bytes(executed_[stage_of(rank)], counts),
        promised_bytes(promised_[stage_of(rank)], gpus_per_node_, rank),
        [&](const std::string& transfer, Bytes sent, Bytes promised) {
          equal = false;
          result.messages.push_back(fmt::format("{}: rank {} sent {} bytes, the ledger has {}",
                                                transfer,
                                                rank,
                                                sent.value(),
                                                promised.value()));
        });
    if (!accounts.empty()) {
      book(ledger, counts.bytes, result);
      result.messages.push_back(fmt::format("rank {}, bytes{}", rank, accounts));
    }
    return equal;
  }

  std::span<const Program> promised_;
  std::span<const Program> executed_;
  std::int64_t gpus_per_node_;
};

/// Peak and end-of-step memory of every rank of a stage and every step, on its GPU or its host, to
/// the byte.
class MemoryCheck {
 public:
  MemoryCheck(const Program& promised, const Program& executed, program::Place place)
      : promised_(promised),
        executed_(executed),
        place_(place),
        peak_(engine::read_peak(promised, place)) {}

  void run(const std::vector<RankRecord>& records, PlanVerification& result) const {
    ledger::Counted& largest = place_ == program::Place::device ? result.peak : result.host_peak;
    largest.ledger = std::max(largest.ledger, peak_.allocated);
    const std::vector<std::int64_t> ranks = ranks_of(promised_);
    for (const std::int64_t rank : ranks) {
      for (const StepCounts& step : records[static_cast<std::size_t>(rank)].steps) {
        largest.executed = std::max(largest.executed, held_in(step).peak);
      }
    }
    for (const std::int64_t rank : ranks) {
      for (const StepCounts& step : records[static_cast<std::size_t>(rank)].steps) {
        if (!compare(held_in(step), static_cast<std::size_t>(rank), result)) {
          return;
        }
      }
    }
  }

 private:
  [[nodiscard]] const engine::HeldMemory& held_in(const StepCounts& step) const {
    return step.held[static_cast<std::size_t>(place_)];
  }

  bool compare(const engine::HeldMemory& step, std::size_t rank, PlanVerification& result) const {
    if (step.peak != peak_.allocated) {
      std::map<std::string, std::int64_t> promised;
      for (const ledger::MemoryEntry& entry : engine::memory_entries(promised_, place_)) {
        promised[entry.tensor] += entry.bytes.value();
      }
      report("at its fullest",
             fmt::format("operation {} in the ledger, {} when executed",
                         operation_in_words(promised_.op(peak_.op)),
                         operation_in_words(executed_.op(step.peak_op))),
             {step.peak, peak_.allocated},
             bytes_by_tensor(step.alive_at_peak),
             promised,
             rank,
             result);
      return false;
    }
    if (step.at_end != peak_.resident) {
      std::map<std::string, std::int64_t> promised;
      for (const Tensor& tensor : promised_.tensors()) {
        if (tensor.resident && tensor.storage == program::Storage::own && tensor.place == place_) {
          promised[program::display_name(tensor)] +=
              promised_.resident_instances(tensor) * tensor.local_bytes().value();
        }
      }
      report("after the step",
             fmt::format("last operation {}", operation_in_words(executed_.ops().back())),
             {step.at_end, peak_.resident},
             bytes_by_tensor(step.alive_at_end),
             promised,
             rank,
             result);
      return false;
    }
    return true;
  }

  [[nodiscard]] std::map<std::string, std::int64_t> bytes_by_tensor(
      const std::vector<engine::AliveTensor>& alive) const {
    std::map<std::string, std::int64_t> bytes;
    for (const engine::AliveTensor& one : alive) {
      const Tensor& tensor = executed_.tensor(one.tensor);
      bytes[program::display_name(tensor)] += one.instances * tensor.local_bytes().value();
    }
    return bytes;
  }

  void report(std::string_view when,
              const std::string& operation,
              const ledger::Counted& memory,
              const std::map<std::string, std::int64_t>& executed,
              const std::map<std::string, std::int64_t>& promised,
              std::size_t rank,
              PlanVerification& result) const {
    std::string tensors;
    for_each_difference(
        executed, promised, [&](const std::string& name, std::int64_t held, std::int64_t ledger) {
          tensors += fmt::format("; '{}': {} held, {} in the ledger", name, held, ledger);
        });
    result.messages.push_back(fmt::format("{}: rank {} holds {} bytes {}{}, the ledger has {}{}",
                                          operation,
                                          rank,
                                          memory.executed.value(),
                                          place_ == program::Place::host ? "on its host " : "",
                                          when,
                                          memory.ledger.value(),
                                          tensors));
  }

  const Program& promised_;
  const Program& executed_;
  program::Place place_;
  engine::MemoryPeak peak_;
};

}  // namespace

void check_bytes(std::span<const Program> promised,
                 std::span<const Program> executed,
                 std::int64_t gpus_per_node,
                 const std::vector<RankRecord>& records,
                 PlanVerification& result) {
  ByteCheck(promised, executed, gpus_per_node).run(records, result);
}

void check_memory(std::span<const Program> promised,
                  std::span<const Program> executed,
                  const std::vector<RankRecord>& records,
                  PlanVerification& result) {
  for (std::size_t stage = 0; stage < promised.size(); ++stage) {
    for (const program::Place place : {program::Place::device, program::Place::host}) {
      MemoryCheck(promised[stage], executed[stage], place).run(records, result);
    }
  }
}

}  // namespace trireme::study
