// The tensors that ranks recorded against the dense reference.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/execute/distribution.h"
#include "sim/study/verify_checks.h"

namespace trireme::study {

using ledger::PlanVerification;
using ledger::Quantity;
using program::Index;
using program::Op;
using program::Program;
using program::Tensor;

namespace {

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
  NumberCheck(const Reference& reference, const std::vector<RankRecord>& records)
      : reference_(reference), records_(records) {}

  /// Compares what the ranks of one stage recorded. Returns false where they disagree.
  bool add(const Program& stage, PlanVerification& result) {
    program_ = &stage;
    ranks_ = ranks_of(stage);
    const std::size_t captures = first_record().captures.size();
    for (const std::int64_t rank : ranks_) {
      if (record_of(rank).captures.size() != captures) {
        result.messages.push_back("ranks disagree about which operations there are");
        return false;
      }
    }
    for (std::size_t i = 0; i < captures; ++i) {
      compare(i);
    }
    check_gradients(result);
    return true;
  }

  /// Rates the errors of every tensor, over all stages.
  void rate(PlanVerification& result) const {
    for (const auto& [kind, tensors] : errors_) {
      rate(kind.first, tensors, result);
    }
  }

 private:
  /// A quantity, and which of the optimizer's states it is: norms are taken over each apart.
  using Kind = std::pair<Quantity, std::string_view>;

  [[nodiscard]] const RankRecord& record_of(std::int64_t rank) const {
    return records_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] const RankRecord& first_record() const { return record_of(ranks_.front()); }

  /// Adds up one instance of a tensor: the sums of its partial values, against the reference, in
  /// every copy that some rank holds.
  void compare(std::size_t number) {
    Capture capture = first_record().captures[number];
    const Tensor& tensor = program_->tensor(capture.tensor);
    const program::Mesh& mesh = program_->mesh();
    capture.instance = in_model(*program_, tensor, capture.instance);
    const std::vector<double> expected = reference_.expected(tensor, capture);
    const program::AxisMask partial = tensor.layout.partial_axes();
    const program::AxisMask stages =
        mesh.stages() > 1 ? program::axis_bit(mesh.stage_axis()) : program::AxisMask{0};
    const auto others = static_cast<program::AxisMask>(mesh.all_axes() & ~(partial | stages));
    std::vector<std::vector<double>> copies(static_cast<std::size_t>(mesh.group_size(others)));
    std::vector<std::int64_t> holder(copies.size());
    for (const std::int64_t rank : ranks_) {
      const std::vector<double>& values = record_of(rank).captures[number].values;
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
      if (difference[i] < 0) {  // no rank holds it
        difference[i] = kNobody;
      }
      squared += difference[i] * difference[i];
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
    const Op& op = program_->op(capture.op);
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
    for (const Capture& capture : first_record().captures) {
      steps = std::max(steps, capture.step + 1);
      if (capture.quantity == Quantity::gradients) {
        ++read[{program_->tensor(capture.tensor).name, capture.instance[index_of(Index::layer)]}];
      }
    }
    for (const Capture& capture : first_record().captures) {
      const Tensor& tensor = program_->tensor(capture.tensor);
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

  const Program* program_ = nullptr;  // of the stage under way
  std::vector<std::int64_t> ranks_;   // that run it
  const Reference& reference_;
  const std::vector<RankRecord>& records_;
  std::map<Kind, std::map<std::string, TensorError>> errors_;
};

}  // namespace

std::vector<std::int64_t> ranks_of(const Program& stage) {
  const program::Mesh& mesh = stage.mesh();
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (mesh.stage_of(rank) == stage.stage()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

void check_numbers(std::span<const Program> stages,
                   const Reference& reference,
                   const std::vector<RankRecord>& records,
                   PlanVerification& result) {
  NumberCheck check(reference, records);
  for (const Program& stage : stages) {
    if (!check.add(stage, result)) {
      return;
    }
  }
  check.rate(result);
}

}  // namespace trireme::study
