#include "sim/study/verify_reference.h"

#include <string>

#include "sim/engine/execute/distribution.h"
#include "sim/plan/lower.h"

namespace trireme::study {

using engine::DenseValues;
using engine::InstanceIndex;
using engine::LocalTensor;
using ledger::Quantity;
using program::Index;
using program::Tensor;

namespace {

std::vector<double> as_doubles(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

Reference::Reference(const plan::Plan& plan, std::int64_t steps, std::uint64_t seed)
    : model_(dense_model(plan)),
      order_(plan::token_order(plan)),
      sequences_(plan.micro_batch * plan.data_degree),
      clip_(plan.clip_gradients) {
  constants_.rmsnorm = model_.rmsnorm;
  // Large enough that rounding of a gradient that is nearly zero does not decide its direction.
  constants_.adam_epsilon = 1e-6;
  // Below the norm of the gradients, so that they are clipped.
  constants_.clip_norm = 1e-3;
  const SmallNumbers numbers(plan, seed);
  initial_ = numbers.initial_parameters();
  for (std::int64_t step = 0; step < steps; ++step) {
    batches_.push_back(numbers.batch(step));
  }
}

void Reference::fill(const program::Mesh& mesh,
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

void Reference::run() {
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

std::vector<double> Reference::expected(const Tensor& tensor, const Capture& capture) const {
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
  // What a part of the ranks keeps is what the step's forward passes gathered.
  const DenseValues& before = step == 0 ? initial_ : parameters_[step - 1];
  const DenseValues& values = tensor.part == "first moment"    ? moments_[step].first
                              : tensor.part == "second moment" ? moments_[step].second
                              : tensor.part == "kept shard"    ? before
                                                               : parameters_[step];
  return program_values(model_, values, parameter, layer);
}

std::vector<double> Reference::source(const Tensor& tensor,
                                      std::int64_t step,
                                      const InstanceIndex& instance) const {
  const engine::DenseBatch& batch = batches_[static_cast<std::size_t>(step)];
  if (tensor.role == program::Role::parameter || tensor.part == "master") {
    return program_values(
        model_, initial_, std::string(tensor.name), instance[index_of(Index::layer)]);
  }
  const bool buffer =
      tensor.role == program::Role::workspace || tensor.role == program::Role::communication_buffer;
  if (tensor.role == program::Role::optimizer_state || buffer) {
    return std::vector<double>(static_cast<std::size_t>(tensor.shape.elements()), 0.0);
  }
  if (tensor.name == "token ids") {
    return of_micro_batch(as_doubles(batch.ids), instance, 1);
  }
  if (tensor.name == "labels") {
    return of_micro_batch(as_doubles(batch.labels), instance, 1);
  }
  if (tensor.name == "expert ids") {
    const auto layer = static_cast<std::size_t>(instance[index_of(Index::layer)]);
    return of_micro_batch(as_doubles(batch.experts.at(layer)), instance, model_.experts->per_token);
  }
  if (tensor.name == "position ids") {
    std::vector<double> positions(static_cast<std::size_t>(tensor.shape.elements()));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      positions[i] =
          static_cast<double>(order_.position(static_cast<std::int64_t>(i) % batch.sequence));
    }
    return positions;
  }
  ensure(tensor.name == "residual stream", "verify: a program loads what has no source");
  return of_micro_batch(batch.input, instance, model_.hidden);
}

std::vector<double> Reference::of_micro_batch(const std::vector<double>& step,
                                              const InstanceIndex& instance,
                                              std::int64_t width) const {
  const std::int64_t sequence = batches_.front().sequence;
  const std::int64_t tokens = sequences_ * sequence;
  const auto first = step.begin() + tokens * width * instance[index_of(Index::micro_batch)];
  std::vector<double> in_order;  // as the ranks of a ring hold them
  in_order.reserve(static_cast<std::size_t>(tokens * width));
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t place = token % sequence;
    const auto features = first + (token - place + order_.position(place)) * width;
    in_order.insert(in_order.end(), features, features + width);
  }
  return in_order;
}

}  // namespace trireme::study
