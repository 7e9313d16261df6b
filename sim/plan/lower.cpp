#include "sim/plan/lower.h"

#include <algorithm>
#include <array>

#include "sim/plan/attention.h"
#include "sim/plan/attention_context.h"
#include "sim/plan/chunks.h"
#include "sim/plan/embedding.h"
#include "sim/plan/head.h"
#include "sim/plan/layers.h"
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
  mesh.add_axis("exchange", plan.exchange_degree);
  mesh.add_axis("ring", plan.ring_degree);
  const std::int64_t with_experts = plan.model.experts ? plan.expert_data_degree() : 1;
  if (with_experts > 1) {
    mesh.add_axis("expert", with_experts);
    mesh.add_axis("data", plan.data_degree / with_experts);
  } else {
    mesh.add_axis("data", plan.data_degree);
  }
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
        layers_(step, parameters),
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
    layers_.declare();
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
    layers_.use(residual_, d_residual_);
    program::TensorSpec loss;
    loss.name = "loss";
    loss.component = Component::loss;
    loss.type = ElementType::fp32;
    loss.shape = {{1, "1"}};
    const bool split = has_vocabulary_ && step_.plan.vocabulary_parallel();
    loss.layout =
        Layout().with(split ? kReplicas : token_axes(step_.plan), Placement::partial_sum());
    loss_ = b_.declare(loss);
  }

  void begin_step() {
    b_.set_phase(Phase::optimizer);
    b_.set_component(Component::optimizer);
    layers_.for_each([&] {
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
            step_, parameters_, embedding_parameters_, first, layers_.first_forward());
      } else {
        b_.emit(Function::load_batch, "load input", {write(first)}).stream =
            program::kHostCopyStream;
        parameters_.look_ahead(layers_.first_forward());
      }
    });
    layers_.emit_forward(
        has_vocabulary_ ? NextUse{&head_parameters_.norm_unit, Phase::forward, Component::head, 0}
                        : layers_.first_backward(0));
    at_layer(layers, [&] {
      b_.begin_segment("head and loss");
      if (has_vocabulary_) {
        emit_head_and_loss(step_,
                           parameters_,
                           head_parameters_,
                           residual_,
                           d_residual_,
                           loss_,
                           layers_.first_backward(-1));
      } else {
        emit_half_square_loss(step_, residual_, d_residual_, loss_);
      }
    });
    layers_.emit_backward(
        has_vocabulary_
            ? NextUse{&embedding_parameters_.unit, Phase::backward, Component::embedding, 0}
            : NextUse{});
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

  void reduce_gradients() {
    b_.set_phase(Phase::backward);
    b_.set_component(Component::optimizer);
    layers_.for_each([&] {
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
    layers_.for_each([&] {
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
    layers_.for_each([&] {
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
  Layers layers_;
  bool has_vocabulary_;
  EmbeddingParameters embedding_parameters_;
  HeadParameters head_parameters_;
  TensorId residual_ = program::kNoTensor;
  TensorId d_residual_ = program::kNoTensor;
  TensorId loss_ = program::kNoTensor;
};

program::OrderKind order_kind(config::RingOrder order) {
  switch (order) {
    case config::RingOrder::zigzag:
      return program::OrderKind::zigzag;
    case config::RingOrder::striped:
      return program::OrderKind::striped;
    case config::RingOrder::contiguous:
      break;
  }
  return program::OrderKind::contiguous;
}

}  // namespace

program::TokenOrder token_order(const Plan& plan) {
  return plan.ring_degree > 1
             ? program::TokenOrder{order_kind(plan.order), kRing, plan.ring_degree, plan.sequence}
             : program::TokenOrder{};
}

program::Program lower(const Plan& plan) {
  program::Builder builder(mesh_of(plan),
                           {plan.micro_batches,
                            plan.model.layers,
                            std::max(loss_chunks(plan).count, mlp_tiles(plan).count)});
  builder.set_token_order(token_order(plan));
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

const AttentionLoweringInfo& attention_lowering(const Plan& plan) {
  return plan.model.latent ? kAttentionLatent : attention_lowering(plan.attention);
}

std::span<const MlpLoweringInfo> mlp_lowerings() {
  static const std::array kRows = {kMlpMegatron, kMlpReplicated, kMlpTiled};
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
    for (const auto& row : context_lowerings()) {
      rows.push_back({"ring", row.name, row.description, row.bibliography_key});
    }
    rows.push_back({"attention",
                    kAttentionLatent.name,
                    kAttentionLatent.description,
                    kAttentionLatent.bibliography_key});
    for (const auto& row : mlp_lowerings()) {
      rows.push_back({"mlp", row.name, row.description, row.bibliography_key});
    }
    rows.push_back(
        {"mlp", kMlpExperts.name, kMlpExperts.description, kMlpExperts.bibliography_key});
    for (const auto& row : loss_lowerings()) {
      rows.push_back({"loss", row.name, row.description, row.bibliography_key});
    }
    return rows;
  }();
  return kRows;
}

}  // namespace trireme::plan
