#include "sim/plan/lower.h"

#include <array>

#include "sim/plan/attention.h"
#include "sim/plan/embedding.h"
#include "sim/plan/head.h"
#include "sim/plan/mlp.h"
#include "sim/plan/parameters.h"
#include "sim/plan/step.h"

namespace trireme::plan {

using program::Function;
using program::Index;
using program::read;
using program::update;
using program::write;

program::Mesh mesh_of(const Plan& plan) {
  const bool tensor_only =
      plan.attention == AttentionLowering::megatron && plan.mlp == MlpLowering::megatron;
  program::Mesh mesh;
  mesh.add_axis(tensor_only ? "tensor" : "sequence", plan.group_degree);
  mesh.add_axis("data", plan.data_degree);
  return mesh;
}

namespace {

/// Emits a whole step: gradient accumulation over micro batches, each a forward and a backward
/// pass, then the reduction of gradients and the optimizer.
class AccumulateSchedule {
 public:
  AccumulateSchedule(Step& step, Parameters& parameters)
      : step_(step),
        b_(step.b),
        parameters_(parameters),
        attention_(attention_lowering(step.plan.attention)),
        mlp_(mlp_lowering(step.plan.mlp)),
        has_vocabulary_(step.plan.model.vocabulary > 0) {}

  void emit() {
    declare();
    begin_step();
    b_.repeat_with_ends(Index::micro_batch,
                        0,
                        1,
                        step_.plan.micro_batches,
                        parameters_.special_micro_batches(),
                        [&](program::Builder::Ends at) {
                          parameters_.begin_micro_batch(at);
                          emit_micro_batch();
                        });
    reduce_gradients();
    const TensorId norm = step_.plan.clip_gradients ? emit_gradient_norm() : program::kNoTensor;
    optimize(norm);
  }

 private:
  void declare() {
    b_.set_component(Component::attention);
    attention_parameters_ = attention_.declare(step_, parameters_);
    b_.set_component(Component::mlp);
    mlp_parameters_ = mlp_.declare(step_, parameters_);
    if (has_vocabulary_) {
      b_.set_component(Component::embedding);
      embedding_parameters_ = declare_embedding(step_, parameters_);
      b_.set_component(Component::head);
      head_parameters_ = declare_head(step_, parameters_, embedding_parameters_.table);
    }
    b_.set_component(Component::embedding);
    residual_ = step_.value("residual stream", step_.hidden_shape(), step_.between_blocks());
    b_.set_phase(Phase::backward);
    d_residual_ =
        step_.value("residual stream gradient", step_.hidden_shape(), step_.between_blocks());
    program::TensorSpec loss;
    loss.name = "loss";
    loss.component = Component::loss;
    loss.type = ElementType::fp32;
    loss.shape = {{1, "1"}};
    const bool split = has_vocabulary_ && step_.plan.vocabulary_parallel();
    loss.layout = Layout().with(split ? kData : token_axes(step_.plan), Placement::partial_sum());
    loss_ = b_.declare(loss);
  }

  void begin_step() {
    b_.set_phase(Phase::optimizer);
    b_.set_component(Component::optimizer);
    b_.repeat(Index::layer, 0, 1, step_.plan.model.layers, [&] {
      b_.begin_segment("zero the gradients of a layer");
      parameters_.zero_gradients(program::kPerLayer);
    });
    b_.begin_segment("zero the other gradients");
    parameters_.zero_gradients(program::kPerStep);
    b_.set_component(Component::loss);
    b_.emit(Function::zero, "zero loss", {write(loss_)});
  }

  void emit_micro_batch() {
    const std::int64_t layers = step_.plan.model.layers;
    const Ref first = Ref(residual_).at(Index::layer, 0);
    const auto at_layer = [&](std::int64_t layer, auto body) {
      b_.repeat(Index::layer, layer, 1, 1, body);
    };
    EmbeddingTensors embedded;
    at_layer(0, [&] {
      b_.set_phase(Phase::forward);
      b_.set_component(Component::embedding);
      b_.begin_segment("embedding");
      if (has_vocabulary_) {
        embedded = emit_embedding(
            step_, parameters_, embedding_parameters_, first, attention_next(Phase::forward));
      } else {
        b_.emit(Function::load_batch, "load input", {write(first)}).stream =
            program::kHostCopyStream;
        parameters_.look_ahead(attention_next(Phase::forward));
      }
    });
    using Ends = program::Builder::Ends;
    const Ends last_gathers_other{false, step_.plan.overlap_parameters};
    b_.repeat_with_ends(
        Index::layer, 0, 1, layers, last_gathers_other, [&](Ends at) { emit_layer_forward(at); });
    at_layer(layers, [&] {
      b_.begin_segment("head and loss");
      if (has_vocabulary_) {
        emit_head_and_loss(
            step_, parameters_, head_parameters_, residual_, d_residual_, loss_, backward_next(-1));
      } else {
        emit_half_square_loss(step_, residual_, d_residual_, loss_);
      }
    });
    const Ends ends_differ{step_.plan.overlap_gradients, step_.plan.overlap_parameters};
    b_.repeat_with_ends(Index::layer, layers - 1, -1, layers, ends_differ, [&](Ends at) {
      if (!at.first) {
        parameters_.move_layer(-1);
      }
      emit_layer_backward(at);
    });
    at_layer(0, [&] {
      b_.set_phase(Phase::backward);
      b_.set_component(Component::embedding);
      b_.begin_segment("embedding backward");
      if (has_vocabulary_) {
        emit_embedding_backward(step_, parameters_, embedding_parameters_, embedded, d_residual_);
      } else {
        b_.keep({d_residual_}, "the gradient of the input is a result");
      }
      parameters_.finish_micro_batch();
    });
  }

  [[nodiscard]] NextUse attention_next(Phase phase, int layers_on = 0) const {
    return {&attention_parameters_.unit, phase, Component::attention, layers_on};
  }

  [[nodiscard]] NextUse mlp_next(Phase phase) const {
    return {&mlp_parameters_.unit, phase, Component::mlp, 0};
  }

  /// The first block that the backward pass of the layer `layers_on` works on.
  [[nodiscard]] NextUse backward_next(int layers_on) const {
    if (step_.plan.recompute_layers) {
      return attention_next(Phase::recompute, layers_on);
    }
    NextUse next = mlp_next(Phase::backward);
    next.layers_on = layers_on;
    return next;
  }

  void emit_layer_forward(program::Builder::Ends at) {
    b_.set_phase(Phase::forward);
    b_.begin_segment("layer forward");
    NextUse next = attention_next(Phase::forward, 1);
    if (at.last) {
      next = has_vocabulary_
                 ? NextUse{&head_parameters_.norm_unit, Phase::forward, Component::head, 0}
                 : backward_next(0);
    }
    emit_blocks_forward(Ref(residual_).at(Index::layer, 1), next);
  }

  /// Both blocks of a layer; what they leave for the backward pass is saved. `next` is the work
  /// after them.
  void emit_blocks_forward(Ref out, const NextUse& next) {
    b_.set_component(Component::attention);
    parameters_.gather(attention_parameters_.unit, mlp_next(b_.phase()));
    const Ref between =
        step_.value("residual stream between blocks", step_.hidden_shape(), step_.between_blocks());
    attention_tensors_ =
        attention_.forward(step_, parameters_, attention_parameters_, residual_, between);
    b_.set_component(Component::mlp);
    parameters_.gather(mlp_parameters_.unit, next);
    mlp_tensors_ = mlp_.forward(step_, parameters_, mlp_parameters_, between, out);
  }

  void emit_layer_backward(program::Builder::Ends at) {
    b_.begin_segment("layer backward");
    if (step_.plan.recompute_layers) {
      b_.set_phase(Phase::recompute);
      b_.set_component(Component::mlp);
      const Ref out =
          step_.value("residual stream, recomputed", step_.hidden_shape(), step_.between_blocks());
      emit_blocks_forward(out, {});  // the same block goes backward next
      b_.keep({out}, "pytorch, torch/utils/checkpoint.py: the recomputed output is not used");
    }
    b_.set_phase(Phase::backward);
    b_.set_component(Component::mlp);
    parameters_.gather(mlp_parameters_.unit, attention_next(Phase::backward));
    const Ref d_between = step_.value(
        "residual stream gradient between blocks", step_.hidden_shape(), step_.between_blocks());
    mlp_.backward(step_,
                  parameters_,
                  mlp_parameters_,
                  mlp_tensors_,
                  Ref(d_residual_).at(Index::layer, 1),
                  d_between);
    parameters_.finish_backward(mlp_parameters_.unit);
    b_.set_component(Component::attention);
    NextUse next = backward_next(-1);
    if (at.last) {
      next = has_vocabulary_
                 ? NextUse{&embedding_parameters_.unit, Phase::backward, Component::embedding, 0}
                 : NextUse{};
    }
    parameters_.gather(attention_parameters_.unit, next);
    attention_.backward(
        step_, parameters_, attention_parameters_, attention_tensors_, d_between, d_residual_);
    parameters_.finish_backward(attention_parameters_.unit);
  }

  void reduce_gradients() {
    b_.set_phase(Phase::backward);
    b_.set_component(Component::optimizer);
    b_.repeat(Index::layer, 0, 1, step_.plan.model.layers, [&] {
      b_.begin_segment("reduce the gradients of a layer");
      parameters_.reduce_step(program::kPerLayer);
    });
    b_.begin_segment("reduce the other gradients");
    parameters_.reduce_step(program::kPerStep);
    b_.keep({loss_}, "the loss is a result");
  }

  TensorId emit_gradient_norm() {
    b_.set_phase(Phase::optimizer);
    b_.set_component(Component::clipping);
    program::TensorSpec spec;
    spec.name = "gradient norm, squared";
    spec.role = program::Role::optimizer_state;
    spec.component = Component::clipping;
    spec.type = ElementType::fp32;
    spec.shape = {{1, "1"}};
    spec.layout = Layout().with(parameters_.norm_axes(), Placement::partial_sum());
    const TensorId partial = b_.declare(spec);
    b_.begin_segment("start the gradient norm");
    b_.emit(Function::zero, "zero the norm", {write(partial)});
    b_.repeat(Index::layer, 0, 1, step_.plan.model.layers, [&] {
      b_.begin_segment("norm of a layer's gradients");
      parameters_.add_square_sums(program::kPerLayer, partial);
    });
    b_.begin_segment("gradient norm");
    parameters_.add_square_sums(program::kPerStep, partial);
    return b_.all_reduce_in_place(partial, parameters_.norm_axes(), "summed over ranks").tensor;
  }

  void optimize(TensorId norm) {
    b_.set_phase(Phase::optimizer);
    b_.set_component(Component::optimizer);
    b_.repeat(Index::layer, 0, 1, step_.plan.model.layers, [&] {
      b_.begin_segment("optimizer of a layer");
      parameters_.optimize(program::kPerLayer, norm);
    });
    b_.begin_segment("optimizer of the other parameters");
    parameters_.optimize(program::kPerStep, norm);
    if (norm != program::kNoTensor) {
      b_.keep({norm}, "pytorch, clip_grad_norm_: the norm is a result");
    }
  }

  Step& step_;
  program::Builder& b_;
  Parameters& parameters_;
  const AttentionLoweringInfo& attention_;
  const MlpLoweringInfo& mlp_;
  bool has_vocabulary_;
  AttentionParameters attention_parameters_;
  MlpParameters mlp_parameters_;
  EmbeddingParameters embedding_parameters_;
  HeadParameters head_parameters_;
  AttentionTensors attention_tensors_;
  MlpTensors mlp_tensors_;
  TensorId residual_ = program::kNoTensor;
  TensorId d_residual_ = program::kNoTensor;
  TensorId loss_ = program::kNoTensor;
};

}  // namespace

program::Program lower(const Plan& plan) {
  const bool chunked = plan.model.vocabulary > 0 && !plan.vocabulary_parallel() &&
                       plan.loss == config::LossKind::fused;
  program::Builder builder(
      mesh_of(plan),
      {plan.micro_batches, plan.model.layers, chunked ? fused_loss_chunks(plan).count : 1});
  Step step(builder, plan);
  Parameters parameters(step);
  AccumulateSchedule(step, parameters).emit();
  return std::move(builder).close();
}

std::span<const AttentionLoweringInfo> attention_lowerings() {
  static const std::array kRows = {kAttentionMegatron, kAttentionUlysses, kAttentionSequenceGather};
  return kRows;
}

const AttentionLoweringInfo& attention_lowering(AttentionLowering kind) {
  return attention_lowerings()[static_cast<std::size_t>(kind)];
}

std::span<const MlpLoweringInfo> mlp_lowerings() {
  static const std::array kRows = {kMlpMegatron, kMlpReplicated};
  return kRows;
}

const MlpLoweringInfo& mlp_lowering(MlpLowering kind) {
  return mlp_lowerings()[static_cast<std::size_t>(kind)];
}

std::span<const LoweringInfo> lowering_table() {
  static const std::vector<LoweringInfo> kRows = [] {
    std::vector<LoweringInfo> rows;
    for (const auto& row : attention_lowerings()) {
      rows.push_back({"attention", row.name, row.description, row.bibliography_key});
    }
    for (const auto& row : mlp_lowerings()) {
      rows.push_back({"mlp", row.name, row.description, row.bibliography_key});
    }
    for (const auto& row : loss_lowerings()) {
      rows.push_back({"loss", row.name, row.description, row.bibliography_key});
    }
    return rows;
  }();
  return kRows;
}

}  // namespace trireme::plan
