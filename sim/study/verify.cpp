#include "sim/study/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/collective_payload.h"
#include "sim/engine/execute/distribution.h"
#include "sim/engine/execute/thread_transport.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/program/builder.h"
#include "sim/study/rank_record.h"

namespace trireme::study {

using engine::DenseValues;
using engine::InstanceIndex;
using engine::LocalTensor;
using ledger::PlanVerification;
using ledger::Quantity;
using ledger::VerificationVerdict;
using plan::Plan;
using program::Index;
using program::Op;
using program::OpId;
using program::Program;
using program::Tensor;
using program::TensorId;

namespace {

/// A quantity of one tensor that differs everywhere needs one message, not one per rank and layer.
constexpr std::size_t kMostMessages = 12;

std::size_t index_of(Index index) {
  return static_cast<std::size_t>(index);
}

/// "'adam' (optimizer, attention)".
std::string operation_in_words(const Op& op) {
  return fmt::format("'{}' ({}, {})", op.label, name(op.phase), name(op.component));
}

/// The numbers that a run is given and what comes out without any plan.
class Reference {
 public:
  Reference(const Plan& plan, const VerifyOptions& options)
      : model_(dense_model(plan)), numbers_(plan, options.seed) {
    constants_.rmsnorm = model_.rmsnorm;
    // Large enough that rounding of a gradient that is nearly zero does not decide its direction.
    constants_.adam_epsilon = 1e-6;
    // Below the norm of the gradients, so that they are clipped.
    constants_.clip_norm = 1e-3;
    initial_ = numbers_.initial_parameters();
    for (std::int64_t step = 0; step < options.steps; ++step) {
      batches_.push_back(numbers_.batch(step));
    }
    sequences_ = plan.micro_batch * plan.data_degree;
    clip_ = plan.clip_gradients;
  }

  [[nodiscard]] const engine::DenseModel& model() const { return model_; }

  [[nodiscard]] const engine::ExecutionConstants& constants() const { return constants_; }

  /// Fills one rank's part of a parameter, an optimizer state or an input.
  void fill(const program::Mesh& mesh,
            std::int64_t rank,
            std::int64_t step,
            const InstanceIndex& instance,
            LocalTensor& local) const {
    const std::vector<double> whole = source(*local.tensor, step, instance);
    const std::vector<std::int64_t> elements = engine::logical_indices(mesh, *local.tensor, rank);
    constexpr double kPadding = 0.5;  // whatever it is, it must not matter
    for (std::size_t i = 0; i < elements.size(); ++i) {
      local.values[i] = elements[i] < 0 ? kPadding : whole[static_cast<std::size_t>(elements[i])];
    }
  }

  /// Runs the steps; before that, expected() has nothing to give.
  void run() {
    DenseValues parameters = initial_;
    engine::DenseMoments moments{engine::dense_zeros(model_), engine::dense_zeros(model_)};
    for (std::size_t step = 0; step < batches_.size(); ++step) {
      engine::ExecutionConstants now = constants_;
      now.optimizer_step = static_cast<std::int64_t>(step) + 1;
      results_.push_back(engine::dense_step(model_, now, parameters, batches_[step]));
      engine::dense_adamw(now, clip_, results_.back(), parameters, moments);
      parameters_.push_back(parameters);
      moments_.push_back(moments);
    }
  }

  /// The whole of a captured tensor, in logical order.
  [[nodiscard]] std::vector<double> expected(const Tensor& tensor, const Capture& capture) const {
    const auto step = static_cast<std::size_t>(capture.step);
    const std::int64_t layer = capture.instance[index_of(Index::layer)];
    const std::string parameter(tensor.name);
    switch (capture.quantity) {
      case Quantity::loss:
        return {results_[step].loss};
      case Quantity::output:
        return of_micro_batch(results_[step].output, capture.instance, model_.hidden);
      case Quantity::input_gradient:
        return of_micro_batch(results_[step].input_gradient, capture.instance, model_.hidden);
      case Quantity::gradients:
        return program_values(model_, results_[step].gradients, parameter, layer);
      case Quantity::parameters:
        break;
    }
    const DenseValues& values = tensor.part == "first moment"    ? moments_[step].first
                                : tensor.part == "second moment" ? moments_[step].second
                                                                 : parameters_[step];
    return program_values(model_, values, parameter, layer);
  }

 private:
  [[nodiscard]] std::vector<double> source(const Tensor& tensor,
                                           std::int64_t step,
                                           const InstanceIndex& instance) const {
    const engine::DenseBatch& batch = batches_[static_cast<std::size_t>(step)];
    if (tensor.role == program::Role::parameter || tensor.part == "master") {
      return program_values(
          model_, initial_, std::string(tensor.name), instance[index_of(Index::layer)]);
    }
    if (tensor.role == program::Role::optimizer_state) {
      return std::vector<double>(static_cast<std::size_t>(tensor.shape.elements()), 0.0);
    }
    if (tensor.name == "token ids") {
      return of_micro_batch(as_doubles(batch.ids), instance, 1);
    }
    if (tensor.name == "labels") {
      return of_micro_batch(as_doubles(batch.labels), instance, 1);
    }
    if (tensor.name == "position ids") {
      std::vector<double> positions(static_cast<std::size_t>(tensor.shape.elements()));
      for (std::size_t i = 0; i < positions.size(); ++i) {
        positions[i] = static_cast<double>(static_cast<std::int64_t>(i) % batch.sequence);
      }
      return positions;
    }
    ensure(tensor.name == "residual stream", "verify: a program loads what has no source");
    return of_micro_batch(batch.input, instance, model_.hidden);
  }

  static std::vector<double> as_doubles(const std::vector<std::int64_t>& values) {
    return {values.begin(), values.end()};
  }

  [[nodiscard]] std::vector<double> of_micro_batch(const std::vector<double>& step,
                                                   const InstanceIndex& instance,
                                                   std::int64_t width) const {
    const std::int64_t elements = sequences_ * batches_.front().sequence * width;
    const auto first = step.begin() + elements * instance[index_of(Index::micro_batch)];
    return {first, first + elements};
  }

  engine::DenseModel model_;
  SmallNumbers numbers_;
  engine::ExecutionConstants constants_;
  DenseValues initial_;
  std::vector<engine::DenseBatch> batches_;
  std::int64_t sequences_ = 1;  // of one micro batch, on all ranks
  bool clip_ = true;
  std::vector<engine::DenseResult> results_;
  std::vector<DenseValues> parameters_;
  std::vector<engine::DenseMoments> moments_;
};

/// Squared differences and norms of one tensor over its layers and micro batches.
struct TensorError {
  double squared_difference = 0;
  double squared_norm = 0;
  double worst = -1;  // squared difference of one instance
  std::string where;  // of that instance: operation, tensor, layer
};

/// Compares what the ranks recorded with the reference.
class NumberCheck {
 public:
  NumberCheck(const Program& program,
              const Reference& reference,
              const std::vector<RankRecord>& records)
      : program_(program), reference_(reference), records_(records) {}

  void run(PlanVerification& result) {
    const std::size_t captures = records_.front().captures.size();
    for (const RankRecord& record : records_) {
      if (record.captures.size() != captures) {
        result.messages.push_back("ranks disagree about which operations there are");
        return;
      }
    }
    for (std::size_t i = 0; i < captures; ++i) {
      compare(i);
    }
    for (const auto& [kind, tensors] : errors_) {
      rate(kind.first, tensors, result);
    }
    check_gradients(result);
  }

 private:
  /// A quantity, and which of the optimizer's states it is: norms are taken over each apart.
  using Kind = std::pair<Quantity, std::string_view>;

  /// Adds up one instance of a tensor: the sums of its partial values, against the reference, in
  /// every copy that some rank holds.
  void compare(std::size_t number) {
    const Capture& capture = records_.front().captures[number];
    const Tensor& tensor = program_.tensor(capture.tensor);
    const program::Mesh& mesh = program_.mesh();
    const std::vector<double> expected = reference_.expected(tensor, capture);
    const program::AxisMask partial = tensor.layout.partial_axes();
    const auto others = static_cast<program::AxisMask>(mesh.all_axes() & ~partial);
    std::vector<std::vector<double>> copies(static_cast<std::size_t>(mesh.group_size(others)));
    std::vector<std::int64_t> holder(copies.size());
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      const std::vector<double>& values =
          records_[static_cast<std::size_t>(rank)].captures[number].values;
      const auto position = static_cast<std::size_t>(mesh.position(rank, others));
      std::vector<double>& copy = copies[position];
      copy.resize(values.size());
      holder[position] = rank;
      for (std::size_t i = 0; i < values.size(); ++i) {
        copy[i] += values[i];
      }
    }
    constexpr double kNobody = std::numeric_limits<double>::infinity();
    std::vector<double> difference(expected.size(), -1.0);
    for (std::size_t position = 0; position < copies.size(); ++position) {
      const std::vector<std::int64_t> elements =
          engine::logical_indices(mesh, tensor, holder[position]);
      for (std::size_t i = 0; i < elements.size(); ++i) {
        if (elements[i] >= 0) {
          const auto at = static_cast<std::size_t>(elements[i]);
          const double gap = std::abs(copies[position][i] - expected[at]);
          difference[at] = std::max(difference[at], std::isnan(gap) ? kNobody : gap);
        }
      }
    }
    double squared = 0;
    double norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      squared += difference[i] < 0 ? kNobody : difference[i] * difference[i];
      norm += expected[i] * expected[i];
    }
    const Kind kind{capture.quantity,
                    capture.quantity == Quantity::parameters ? tensor.part : std::string_view()};
    TensorError& error = errors_[kind][std::string(tensor.name)];
    error.squared_difference += squared;
    error.squared_norm += norm;
    if (squared > error.worst) {
      error.worst = squared;
      error.where = where(capture, tensor);
    }
  }

  [[nodiscard]] std::string where(const Capture& capture, const Tensor& tensor) const {
    const Op& op = program_.op(capture.op);
    std::string text = fmt::format("'{}'", program::display_name(tensor));
    for (const Index index : {Index::layer, Index::micro_batch}) {
      if ((tensor.varies & program::index_bit(index)) != 0) {
        text += fmt::format(
            ", {} {}", program::kIndexNames[index_of(index)], capture.instance[index_of(index)]);
      }
    }
    const bool reads = capture.quantity == Quantity::gradients;
    return fmt::format("operation {} {} {}, step {}",
                       operation_in_words(op),
                       reads ? "reads" : "writes",
                       text,
                       capture.step + 1);
  }

  /// Errors relative to each tensor's norm in the whole model, but not less than a part of the norm
  /// of all of its kind: a gradient that is zero by symmetry is rounding alone.
  void rate(Quantity quantity,
            const std::map<std::string, TensorError>& tensors,
            PlanVerification& result) const {
    constexpr double kLeastShare = 1e-3;
    double all = 0;
    for (const auto& [name, error] : tensors) {
      all += error.squared_norm;
    }
    for (const auto& [name, error] : tensors) {
      const double norm = std::max(std::sqrt(error.squared_norm), kLeastShare * std::sqrt(all));
      const double difference = std::sqrt(error.squared_difference);
      const double relative = difference == 0 ? 0 : difference / norm;
      ledger::WorstError& worst = result.error[ledger::index(quantity)];
      if (!(relative <= worst.relative)) {
        worst = {relative, name};
      }
      if (!(relative <= kVerifyTolerance)) {
        result.messages.push_back(
            fmt::format("{}: it differs from the reference by {:.1e} of the "
                        "norm of '{}' in the whole model",
                        error.where,
                        relative,
                        name));
      }
    }
  }

  /// Every parameter is to be updated with a gradient of its own, in every step.
  void check_gradients(PlanVerification& result) const {
    std::map<std::pair<std::string_view, std::int64_t>, std::int64_t> read;
    std::int64_t steps = 0;
    for (const Capture& capture : records_.front().captures) {
      steps = std::max(steps, capture.step + 1);
      if (capture.quantity == Quantity::gradients) {
        ++read[{program_.tensor(capture.tensor).name, capture.instance[index_of(Index::layer)]}];
      }
    }
    for (const Capture& capture : records_.front().captures) {
      const Tensor& tensor = program_.tensor(capture.tensor);
      const bool parameter = capture.quantity == Quantity::parameters &&
                             tensor.role == program::Role::parameter && capture.step == 0;
      const std::int64_t layer = capture.instance[index_of(Index::layer)];
      if (parameter && read[{tensor.name, layer}] != steps) {
        result.messages.push_back(
            fmt::format("no operation 'adam' reads a gradient of '{}', layer {}, in every step",
                        program::display_name(tensor),
                        layer));
      }
    }
  }

  const Program& program_;
  const Reference& reference_;
  const std::vector<RankRecord>& records_;
  std::map<Kind, std::map<std::string, TensorError>> errors_;
};

/// "operation 'gather parameters' (forward, attention) on 'qkv weight', ...": what a transfer is
/// called in messages, the same for equal operations of two programs.
std::string transfer_name(const Program& program, const Op& op) {
  std::string tensors;
  const auto operands = program.operands(op);
  for (std::size_t i = 0; i < operands.size() / 2; ++i) {
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
  program::for_each_run(program, [&](const program::Node& node, std::int64_t times) {
    const program::Segment& segment = program.segments()[node.segment];
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const Op& op = program.op(id);
      if (op.function != program::Function::collective) {
        continue;
      }
      const cost::Group group = engine::place(program.mesh(), op.group, gpus_per_node);
      const std::int64_t position = program.mesh().position(rank, op.group);
      for (std::size_t pair = 0; pair < op.operands / 2U; ++pair) {
        sent[transfer_name(program, op)] +=
            times * engine::collective_bytes(program, op, pair, group, position).sent;
      }
    }
  });
  return sent;
}

/// Bytes that each operation has sent: the tensors of one transfer have one type.
std::map<std::string, Bytes> executed_bytes(const Program& program, const StepCounts& step) {
  std::map<std::string, Bytes> sent;
  for (OpId id = 0; id < program.ops().size(); ++id) {
    const Op& op = program.op(id);
    if (op.function == program::Function::collective || step.sent_elements[id] != 0) {
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
  ByteCheck(const Program& promised, const Program& executed, std::int64_t gpus_per_node)
      : promised_(promised), executed_(executed), gpus_per_node_(gpus_per_node) {}

  void run(const std::vector<RankRecord>& records, PlanVerification& result) const {
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      const auto number = static_cast<std::int64_t>(rank);
      const ledger::ByteLedger ledger = engine::read_bytes(promised_, gpus_per_node_, number);
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
  /// Bytes by link over all ranks. Of one rank they differ: messages go around one ring, which
  /// leaves a node at one rank, while the ledger has rings whose exits rotate over a node's ranks
  /// (equation ring-off-node). Where ranks send unequal amounts, those shares are rounded.
  void compare_links(const std::vector<RankRecord>& records, PlanVerification& result) const {
    ledger::PerLink<Bytes> counted{};
    ledger::PerLink<Bytes> promised{};
    Bytes least;
    Bytes most;
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      const ledger::ByteLedger ledger =
          engine::read_bytes(promised_, gpus_per_node_, static_cast<std::int64_t>(rank));
      least = rank == 0 ? ledger.sent : std::min(least, ledger.sent);
      most = std::max(most, ledger.sent);
      for (std::size_t link = 0; link < kLinkNames.size(); ++link) {
        promised[link] += ledger.sent_by_link[link];
        counted[link] += records[rank].steps.back().bytes.sent_by_link[link];
      }
    }
    for (std::size_t link = 0; link < kLinkNames.size() && least == most; ++link) {
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
        executed_bytes(executed_, counts),
        promised_bytes(promised_, gpus_per_node_, rank),
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

  const Program& promised_;
  const Program& executed_;
  std::int64_t gpus_per_node_;
};

/// Peak and end-of-step memory of every rank and step, to the byte.
class MemoryCheck {
 public:
  MemoryCheck(const Program& promised, const Program& executed)
      : promised_(promised), executed_(executed), peak_(engine::read_peak(promised)) {}

  void run(const std::vector<RankRecord>& records, PlanVerification& result) const {
    result.peak.ledger = peak_.allocated;
    for (const RankRecord& record : records) {
      for (const StepCounts& step : record.steps) {
        result.peak.executed = std::max(result.peak.executed, step.peak);
      }
    }
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      for (const StepCounts& step : records[rank].steps) {
        if (!compare(step, rank, result)) {
          return;
        }
      }
    }
  }

 private:
  bool compare(const StepCounts& step, std::size_t rank, PlanVerification& result) const {
    if (step.peak != peak_.allocated) {
      std::map<std::string, std::int64_t> promised;
      for (const ledger::MemoryEntry& entry : engine::memory_entries(promised_)) {
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
        if (tensor.resident && tensor.storage == program::Storage::own) {
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

  static void report(std::string_view when,
                     const std::string& operation,
                     const ledger::Counted& memory,
                     const std::map<std::string, std::int64_t>& executed,
                     const std::map<std::string, std::int64_t>& promised,
                     std::size_t rank,
                     PlanVerification& result) {
    std::string tensors;
    for_each_difference(
        executed, promised, [&](const std::string& name, std::int64_t held, std::int64_t ledger) {
          tensors += fmt::format("; '{}': {} held, {} in the ledger", name, held, ledger);
        });
    result.messages.push_back(fmt::format("{}: rank {} holds {} bytes {}, the ledger has {}{}",
                                          operation,
                                          rank,
                                          memory.executed.value(),
                                          when,
                                          memory.ledger.value(),
                                          tensors));
  }

  const Program& promised_;
  const Program& executed_;
  engine::MemoryPeak peak_;
};

/// "shard of S over sequence, partial over data".
std::string layout_in_words(const program::Mesh& mesh, const Tensor& tensor) {
  std::string text;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const program::Placement placement = tensor.layout[axis];
    if (placement.replicated()) {
      continue;
    }
    text += text.empty() ? "" : ", ";
    text += placement.partial() ? "partial"
            : placement.dim() == program::Placement::kFlat
                ? "shard of the elements"
                : fmt::format("shard of {}", tensor.shape[placement.dim()].symbol);
    text += fmt::format(" over {}", mesh.axis(axis).name);
  }
  return text.empty() ? "whole on every rank" : text;
}

std::string_view access_word(program::Access access) {
  constexpr std::array<std::string_view, 4> kWords = {"reads", "writes", "updates", "holds"};
  return kWords[static_cast<std::size_t>(access)];
}

std::vector<ledger::TracedOperation> trace_of(const Program& program) {
  std::vector<ledger::TracedOperation> trace;
  program::for_each_run(program, [&](const program::Node& node, std::int64_t times) {
    const program::Segment& segment = program.segments()[node.segment];
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const Op& op = program.op(id);
      ledger::TracedOperation traced;
      traced.phase = name(op.phase);
      traced.component = name(op.component);
      traced.label = op.label;
      traced.function = op.function == program::Function::collective
                            ? name(op.collective)
                            : program::info(op.function).name;
      traced.times = times;
      for (const program::Operand& operand : program.operands(op)) {
        const Tensor& tensor = program.tensor(operand.ref.tensor);
        traced.operands.push_back(fmt::format("{} {} {} = {}: {}",
                                              access_word(operand.access),
                                              program::display_name(tensor),
                                              program::shape_in_symbols(program.mesh(), tensor),
                                              program::shape_in_numbers(program.mesh(), tensor),
                                              layout_in_words(program.mesh(), tensor)));
      }
      trace.push_back(std::move(traced));
    }
  });
  return trace;
}

/// Executes the program on the ranks of this process. Fills `records`, of every rank, where rank 0
/// is. Returns why a rank failed.
std::string execute(const Program& program,
                    const Reference& reference,
                    std::int64_t gpus_per_node,
                    std::int64_t steps,
                    const RunRanks& run,
                    std::vector<RankRecord>& records) {
  return run(program.mesh().ranks(), [&](std::int64_t rank, engine::Transport& transport) {
    RankRecord own =
        record_rank(program,
                    transport,
                    gpus_per_node,
                    steps,
                    reference.constants(),
                    [&](std::int64_t step, const InstanceIndex& instance, LocalTensor& local) {
                      reference.fill(program.mesh(), rank, step, instance, local);
                    });
    if (rank != 0) {
      send_record(transport, own);
      return;
    }
    records.push_back(std::move(own));
    for (std::int64_t other = 1; other < transport.ranks(); ++other) {
      records.push_back(receive_record(transport, other));
    }
  });
}

}  // namespace

RunRanks thread_ranks(std::chrono::milliseconds timeout) {
  return [timeout](std::int64_t ranks, const RankBody& body) -> std::string {
    engine::ThreadNetwork network(ranks, timeout);
    try {
      engine::run_ranks(network, body);
    } catch (const std::exception& failure) {  // of the execution, or of a rank that is lost
      return failure.what();
    }
    return {};
  };
}

namespace {

/// Executes one program and appends a message for everything that differs.
void compare_with_reference(const Plan& plan,
                            const Program& promised,
                            const Program& executed,
                            std::int64_t gpus_per_node,
                            const VerifyOptions& options,
                            const RunRanks& run,
                            PlanVerification& result) {
  Reference reference(plan, options);
  std::vector<RankRecord> records;
  const std::string failure =
      execute(executed, reference, gpus_per_node, options.steps, run, records);
  if (!failure.empty()) {
    result.messages.push_back(failure);
  } else if (!records.empty()) {
    reference.run();
    NumberCheck(executed, reference, records).run(result);
    ByteCheck(promised, executed, gpus_per_node).run(records, result);
    MemoryCheck(promised, executed).run(records, result);
    result.wall_clock = records.front().steps.back().wall_clock;
  }
}

}  // namespace

PlanVerification verify_small_plan(const Plan& plan,
                                   std::int64_t gpus_per_node,
                                   const VerifyOptions& options,
                                   const RunRanks& run,
                                   const Lowering& executed) {
  PlanVerification result;
  result.plan = plan.name;
  result.model = in_words(plan);
  result.ranks = plan.ranks();
  result.steps = options.steps;
  try {
    const Program program = executed(plan);
    if (options.trace) {
      result.trace = trace_of(program);
    }
    compare_with_reference(plan, plan::lower(plan), program, gpus_per_node, options, run, result);
  } catch (const program::BuildError& refusal) {  // a lowering that contradicts itself
    result.messages.emplace_back(refusal.what());
  }
  result.verdict =
      result.messages.empty() ? VerificationVerdict::equal : VerificationVerdict::differs;
  if (result.messages.size() > kMostMessages) {
    const std::size_t more = result.messages.size() - kMostMessages;
    result.messages.resize(kMostMessages);
    result.messages.push_back(fmt::format("and {} more", more));
  }
  for (std::string& message : result.messages) {
    message = fmt::format("plan '{}': {}", plan.name, message);
  }
  return result;
}

PlanVerification verify_plan(const Plan& plan,
                             std::int64_t gpus_per_node,
                             const VerifyOptions& options,
                             const RunRanks& run) {
  return verify_small_plan(shrink(plan, options.size, gpus_per_node), gpus_per_node, options, run);
}

ledger::VerificationResult verify_study(const config::StudySpec& study,
                                        const VerifyOptions& options,
                                        const RunRanks& run) {
  ledger::VerificationResult result;
  result.study = study.name;
  result.tolerance = kVerifyTolerance;
  for (const config::PlanSpec& spec : study.plans) {
    const plan::Resolution resolution = plan::resolve(study, spec);
    if (resolution.feasibility.legal()) {
      result.rows.push_back(
          verify_plan(resolution.plan, study.cluster.gpus_per_node, options, run));
      continue;
    }
    PlanVerification illegal;
    illegal.plan = spec.name;
    for (const Refusal& refusal : resolution.feasibility.refusals) {
      illegal.messages.push_back(
          fmt::format("plan '{}': {}: {}", spec.name, refusal.rule, refusal.message));
    }
    result.rows.push_back(std::move(illegal));
  }
  return result;
}

}  // namespace trireme::study
