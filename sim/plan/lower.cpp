#include "sim/plan/lower.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sim/plan/attention.h"
#include "sim/plan/attention_context.h"
#include "sim/plan/chunks.h"
#include "sim/plan/embedding.h"
#include "sim/plan/framework_buffers.h"
#include "sim/plan/head.h"
#include "sim/plan/layers.h"
#include "sim/plan/mlp.h"
#include "sim/plan/parameters.h"
#include "sim/plan/recipes.h"
#include "sim/plan/schedule.h"
#include "sim/plan/step.h"
#include "sim/program/arrangement.h"

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
  const std::int64_t inner = plan.inner_data_degree();
  const std::int64_t outer = plan.data_degree / inner;
  if (plan.model.experts && plan.expert_data_degree() > 1) {
    mesh.add_axis("expert", inner);
    mesh.add_axis("data", outer);
  } else if (plan.zero_parts > 1) {
    mesh.add_axis(plan.zero_replicated ? "shard" : "hpz", inner);
    mesh.add_axis(plan.zero_replicated ? "replicate" : "data", outer);
  } else {
    mesh.add_axis("data", inner);
  }
  if (plan.pipeline_degree > 1) {
    if (mesh.axes() == kOuterDataAxis) {
      mesh.add_axis("data", 1);
    }
    mesh.set_stage_axis(mesh.add_axis("pipeline", plan.pipeline_degree));
  }
  if (!plan.placement.empty()) {
    mesh.place(plan.placement);
  }
  return mesh;
}

namespace {

/// A stage's passes, each of which is emitted once, and where its program runs them.
struct EmittedPasses {
  using Ends = program::Builder::Ends;

  /// Passes of one chunk in one direction, by whether their micro batch is the first or the last,
  /// where that makes a difference.
  using OfChunk = std::array<program::Passage, 4>;

  SpecialPasses special;
  std::vector<std::array<OfChunk, 2>> of_chunk;  // backward, then forward
  program::NodeRange rounds;

  [[nodiscard]] program::Passage& of(const Pass& pass, Ends at) {
    return of_chunk[pass.chunk][pass.forward ? 1 : 0][(at.first ? 1U : 0U) + (at.last ? 2U : 0U)];
  }

  /// Whether the micro batch of a pass is the first or the last one, where that matters to it.
  [[nodiscard]] Ends ends_of(const Plan& plan,
                             const Stage& stage,
                             const Round& round,
                             const Pass& pass) const {
    const std::int64_t first = round.first + pass.micro_batch;
    const std::int64_t last = first + round.step * (round.count - 1);
    // The backward pass of the last chunk ends what its forward pass has begun.
    const bool joined = stage.has_last_layer() && pass.chunk + 1 == stage.chunks.size();
    const bool first_apart = joined         ? special.first_forward || special.first_backward
                             : pass.forward ? special.first_forward
                                            : special.first_backward;
    const bool last_apart = special.last_backward && (joined || !pass.forward);
    return {first_apart && first == 0, last_apart && last == plan.micro_batches - 1};
  }

  [[nodiscard]] std::vector<Round> apart(std::vector<Round> in_order, const Plan& plan) const {
    return with_ends_apart(std::move(in_order), plan.micro_batches, special);
  }
};

/// Each micro batch forward and backward through all chunks before the next.
std::vector<Round> one_by_one(const Plan& plan, const Stage& stage) {
  Round round{0, 1, plan.micro_batches, {}};
  for (std::size_t chunk = 0; chunk < stage.chunks.size(); ++chunk) {
    round.passes.push_back({true, chunk, 0});
  }
  for (std::size_t chunk = stage.chunks.size(); chunk-- > 0;) {
    round.passes.push_back({false, chunk, 0});
  }
  return {round};
}

/// Emits a whole step of one stage: micro batches forward and backward, one by one, then the
/// reduction of gradients and the optimizer.
class StepEmitter {
 public:
  StepEmitter(Step& step, Parameters& parameters, const Stage& stage)
      : step_(step),
        b_(step.b),
        parameters_(parameters),
        stage_(stage),
        has_vocabulary_(step.plan.model.vocabulary > 0) {}

  EmittedPasses emit() {
    if (stage_.idle()) {
      passes_.rounds = {b_.next_node(), b_.next_node()};
      emit_idle();
      return std::move(passes_);
    }
    declare();
    begin_step();
    passes_.special = parameters_.special_passes();
    passes_.of_chunk.resize(stage_.chunks.size());
    passes_.rounds.first = b_.next_node();
    for (const Round& round : passes_.apart(one_by_one(step_.plan, stage_), step_.plan)) {
      b_.repeat(Index::micro_batch, round.first, round.step, round.count, [&] {
        for (const Pass& pass : round.passes) {
          emit_pass(round, pass);
        }
      });
    }
    passes_.rounds.end = b_.next_node();
    reduce_gradients();
    const TensorId norm = step_.plan.clip_gradients ? emit_gradient_norm() : program::kNoTensor;
    optimize(norm);
    return std::move(passes_);
  }

 private:
  /// What the passes of a chunk have in common.
  struct ChunkTensors {
    program::Builder::Declarations forward;
    program::Builder::Declarations backward;
    Layers layers;
    EmbeddingTensors embedded;
    TensorId residual = program::kNoTensor;
    TensorId d_residual = program::kNoTensor;
  };

  /// No part of the model: the rank only meets the others where they sum the gradients' norm.
  void emit_idle() {
    if (step_.plan.clip_gradients) {
      const TensorId norm = emit_gradient_norm();
      b_.keep({norm}, "pytorch, clip_grad_norm_: the norm is a result");
    }
  }

  void declare() {
    layer_parameters_ = declare_layers(
        step_, parameters_, stage_.layers(), stage_.dense_layers(step_.plan.model.dense_layers()));
    if (has_vocabulary_ && stage_.has_first_layer()) {
      b_.set_component(Component::embedding);
      embedding_parameters_ = declare_embedding(step_, parameters_);
    }
    if (has_vocabulary_ && stage_.has_last_layer()) {
      b_.set_component(Component::head);
      head_parameters_ = declare_head(
          step_,
          parameters_,
          stage_.has_first_layer() ? std::optional(embedding_parameters_.table) : std::nullopt);
    }
    declare_framework_buffers(step_, parameters_, stage_);
    b_.set_component(Component::embedding);
    chunks_.reserve(stage_.chunks.size());
    for (const Chunk& layers : stage_.chunks) {
      ChunkTensors& chunk = chunks_.emplace_back(ChunkTensors{
          {},
          {},
          Layers(step_, parameters_, layer_parameters_, layers.first_layer, layers.layers),
          {}});
      b_.set_phase(Phase::forward);
      chunk.residual = step_.value("residual stream", step_.hidden_shape(), step_.between_blocks());
      b_.set_phase(Phase::backward);
      chunk.d_residual =
          step_.value("residual stream gradient", step_.hidden_shape(), step_.between_blocks());
      chunk.layers.use(chunk.residual, chunk.d_residual);
    }
    if (stage_.has_last_layer()) {
      declare_loss();
    }
  }

  void declare_loss() {
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
    for_each_layer(step_, parameters_, layer_parameters_, [&] {
      b_.begin_segment("zero the gradients of a layer");
      parameters_.zero_gradients(program::kPerLayer);
    });
    b_.begin_segment("zero the other gradients");
    parameters_.zero_gradients(program::kPerStep);
    if (stage_.has_last_layer()) {
      b_.set_component(Component::loss);
      b_.emit(Function::zero, "zero loss", {write(loss_)});
    }
  }

  void emit_pass(const Round& round, const Pass& pass) {
    chunk_ = pass.chunk;
    const program::Builder::Ends at = passes_.ends_of(step_.plan, stage_, round, pass);
    b_.pass(passes_.of(pass, at), Index::micro_batch, pass.micro_batch, [&] {
      parameters_.begin_micro_batch(at);
      if (pass.forward) {
        b_.declare_alike(tensors().forward, [&] { emit_forward(); });
      } else {
        b_.declare_alike(tensors().backward, [&] { emit_backward(); });
      }
    });
  }

  [[nodiscard]] const Chunk& chunk() const { return stage_.chunks[chunk_]; }

  [[nodiscard]] ChunkTensors& tensors() { return chunks_[chunk_]; }

  [[nodiscard]] bool is_first_chunk() const { return stage_.has_first_layer() && chunk_ == 0; }

  [[nodiscard]] bool is_last_chunk() const {
    return stage_.has_last_layer() && chunk_ + 1 == stage_.chunks.size();
  }

  template <class Body>
  void at_layer(std::int64_t layer, Body body) {
    b_.repeat(Index::layer, layer, 1, 1, body);
  }

  void emit_forward() {
    const std::int64_t first = chunk().first_layer;
    const std::int64_t layers = chunk().layers;
    at_layer(first, [&] {
      b_.set_phase(Phase::forward);
      b_.set_component(is_first_chunk() ? Component::embedding : Component::pipeline);
      b_.begin_segment(is_first_chunk() ? "embedding" : "receive");
      emit_input(tensors().residual);
    });
    tensors().layers.emit_forward(
        !is_last_chunk()  ? NextUse{}
        : has_vocabulary_ ? NextUse{&head_parameters_.norm_unit, Phase::forward, Component::head, 0}
                          : tensors().layers.first_backward(0));
    at_layer(first + layers, [&] {
      if (is_last_chunk()) {
        b_.begin_segment("head and loss");
        emit_loss(tensors().residual, tensors().d_residual);
      } else {
        b_.set_component(Component::pipeline);
        b_.begin_segment("send");
        b_.emit_stage_send("send activations", stage_.next(), tensors().residual, true);
      }
    });
  }

  void emit_input(Ref x) {
    if (!is_first_chunk()) {
      b_.emit_stage_receive("receive activations", stage_.previous(), x, true);
      look_ahead_apart(tensors().layers.first_forward());
    } else if (has_vocabulary_) {
      tensors().embedded = emit_embedding(
          step_, parameters_, embedding_parameters_, x, tensors().layers.first_forward());
    } else {
      b_.emit(Function::load_batch, "load input", {write(x)}).stream = program::kHostCopyStream;
      parameters_.look_ahead(tensors().layers.first_forward());
    }
  }

  /// Messages between stages stand in segments of their own.
  void look_ahead_apart(const NextUse& next) {
    if (step_.plan.overlap_parameters) {
      b_.begin_segment("gather ahead");
      parameters_.look_ahead(next);
    }
  }

  void emit_loss(Ref x, Ref dx) {
    if (has_vocabulary_) {
      emit_head_and_loss(
          step_, parameters_, head_parameters_, x, dx, loss_, tensors().layers.first_backward(-1));
    } else {
      emit_half_square_loss(step_, x, dx, loss_);
    }
  }

  void emit_backward() {
    const std::int64_t first = chunk().first_layer;
    const std::int64_t layers = chunk().layers;
    const Ref d_residual = tensors().d_residual;
    b_.set_phase(Phase::backward);
    if (!is_last_chunk()) {
      at_layer(first + layers, [&] {
        b_.set_component(Component::pipeline);
        b_.begin_segment("receive");
        b_.emit_stage_receive("receive gradients", stage_.next(), d_residual, false);
        look_ahead_apart(tensors().layers.first_backward(-1));
      });
    }
    tensors().layers.emit_backward(
        has_vocabulary_ && is_first_chunk()
            ? NextUse{&embedding_parameters_.unit, Phase::backward, Component::embedding, 0}
            : NextUse{});
    at_layer(first, [&] {
      b_.set_phase(Phase::backward);
      if (!is_first_chunk()) {
        b_.set_component(Component::pipeline);
        b_.begin_segment("send");
        b_.emit_stage_send("send gradients", stage_.previous(), d_residual, false);
        if (step_.plan.overlap_gradients) {
          b_.begin_segment("finish the reductions");
        }
      } else {
        b_.set_component(Component::embedding);
        b_.begin_segment("embedding backward");
        if (has_vocabulary_) {
          emit_embedding_backward(
              step_, parameters_, embedding_parameters_, tensors().embedded, d_residual);
        } else {
          b_.keep({d_residual}, "the gradient of the input is a result");
        }
      }
      parameters_.finish_micro_batch();
    });
    if (step_.plan.modules.gradients_of_micro_batch) {
      add_micro_batch();
    }
  }

  void add_micro_batch() {
    b_.set_component(Component::optimizer);
    for_each_layer(step_, parameters_, layer_parameters_, [&] {
      b_.begin_segment("add the gradients of a layer");
      parameters_.add_micro_batch(program::kPerLayer);
    });
    b_.begin_segment("add the other gradients");
    parameters_.add_micro_batch(program::kPerStep);
  }

  void reduce_gradients() {
    b_.set_phase(Phase::backward);
    b_.set_component(Component::optimizer);
    sum_tied_gradients();
    for_each_layer(step_, parameters_, layer_parameters_, [&] {
      b_.begin_segment("reduce the gradients of a layer");
      parameters_.reduce_step(program::kPerLayer);
    });
    b_.begin_segment("reduce the other gradients");
    parameters_.reduce_step(program::kPerStep);
    if (stage_.has_last_layer()) {
      b_.keep({loss_}, "the loss is a result");
    }
  }

  /// The first and the last stage have a copy of the embedding table each when it is the head's
  /// weight too. Source: megatron-lm, megatron/core/distributed/finalize_model_grads.py,
  /// _allreduce_word_embedding_grads
  void sum_tied_gradients() {
    const bool alone = stage_.last == 0;
    if (alone || !has_vocabulary_ || !step_.plan.model.tied_embeddings) {
      return;
    }
    if (stage_.has_first_layer()) {
      b_.begin_segment("sum tied gradients");
      parameters_.sum_between_stages(embedding_parameters_.table, stage_.last);
    } else if (stage_.has_last_layer()) {
      b_.begin_segment("sum tied gradients");
      parameters_.sum_between_stages(head_parameters_.weight.weight, 0);
      parameters_.leave_out_of_norm(head_parameters_.weight.weight);
    }
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
    TensorId on_host = program::kNoTensor;
    if (parameters_.gradients_on_host()) {
      spec.part = "of gradients on the host";
      spec.place = program::Place::host;
      on_host = b_.declare(spec);
      b_.emit(Function::zero, "zero the norm on the host", {write(on_host)});
    }
    const auto add_square_sums = [&](program::IndexMask varies) {
      parameters_.add_square_sums(varies, partial);
      if (on_host != program::kNoTensor) {
        parameters_.add_square_sums(varies, on_host);
      }
    };
    for_each_layer(step_, parameters_, layer_parameters_, [&] {
      b_.begin_segment("norm of a layer's gradients");
      add_square_sums(program::kPerLayer);
    });
    b_.begin_segment("gradient norm");
    add_square_sums(program::kPerStep);
    if (on_host != program::kNoTensor) {
      spec.part = "copied from the host";
      spec.place = program::Place::device;
      const TensorId copied = b_.declare(spec);
      b_.emit_host_copy("copy the norm to the GPU", on_host, write(copied));
      b_.emit(Function::accumulate, "add the host's part", {read(copied), update(partial)});
    }
    if (stage_.stages > 1) {
      b_.begin_segment("gradient norm over stages");
    }
    return b_.all_reduce_in_place(partial, parameters_.norm_axes(), "summed over ranks").tensor;
  }

  /// Those of a sub-group's shards in fp32, one sub-group after the other; an optimizer on the host
  /// has them there.
  Ref sub_group_gradients() {
    const std::int64_t shards = parameters_.shard_elements();
    if (step_.plan.sub_group_elements == 0 || shards == 0 || step_.plan.offload_optimizer) {
      return program::kNoTensor;
    }
    program::TensorSpec spec;
    spec.name = "gradients of a sub-group";
    spec.role = program::Role::gradient;
    spec.component = Component::optimizer;
    spec.type = ElementType::fp32;
    spec.shape = {{std::min(step_.plan.sub_group_elements, shards), "elements"}};
    const TensorId gradients = b_.declare(spec);
    b_.begin_segment("gradients of a sub-group");
    b_.emit(Function::keep, "keep", {write(gradients)}).source =
        "deepspeed, runtime/zero/stage3.py, _prepare_fp32_grad_for_sub_group";
    return gradients;
  }

  /// The norm where an optimizer on the host reads it.
  TensorId norm_on_host(TensorId norm) {
    b_.begin_segment("gradient norm to the host");
    program::TensorSpec spec = program::declared_like(b_.tensor(norm));
    spec.part = "copied to the host";
    spec.place = program::Place::host;
    const TensorId copied = b_.declare(spec);
    b_.emit_host_copy("copy the norm to the host", norm, write(copied));
    return copied;
  }

  void optimize(TensorId norm) {
    b_.set_phase(Phase::optimizer);
    b_.set_component(Component::optimizer);
    const bool on_host = step_.plan.offload_optimizer && norm != program::kNoTensor;
    const TensorId read_norm = on_host ? norm_on_host(norm) : norm;
    const Ref sub_group = sub_group_gradients();
    for_each_layer(step_, parameters_, layer_parameters_, [&] {
      b_.begin_segment("optimizer of a layer");
      parameters_.optimize(program::kPerLayer, read_norm);
    });
    b_.begin_segment("optimizer of the other parameters");
    parameters_.optimize(program::kPerStep, read_norm);
    use_kept(step_, sub_group);
    if (norm != program::kNoTensor) {
      b_.keep({norm}, "pytorch, clip_grad_norm_: the norm is a result");
    }
  }

  Step& step_;
  program::Builder& b_;
  Parameters& parameters_;
  const Stage& stage_;
  LayerParameters layer_parameters_;
  EmittedPasses passes_;
  std::vector<ChunkTensors> chunks_;
  std::size_t chunk_ = 0;  // of the pass that is emitted
  bool has_vocabulary_;
  EmbeddingParameters embedding_parameters_;
  HeadParameters head_parameters_;
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

namespace {

/// A stage's program with one micro batch after the other, and what arranging it anew needs.
struct LoweredStage {
  Stage stage;
  program::Program program;
  EmittedPasses passes;
};

LoweredStage lower_one_by_one(const Plan& plan, std::int64_t number) {
  Stage stage = stage_of(plan, number);
  program::Builder builder(mesh_of(plan),
                           {plan.micro_batches,
                            stage.layers(),
                            std::max(loss_chunks(plan).count, mlp_tiles(plan).count)});
  builder.set_token_order(token_order(plan));
  if (stage.stages > 1) {
    builder.set_stage(number, stage.layers_of_model);
  }
  Step step(builder, plan);
  Parameters parameters(step);
  EmittedPasses passes = StepEmitter(step, parameters, stage).emit();
  return {std::move(stage), std::move(builder).close(), std::move(passes)};
}

/// Whether stages have the same passes, in whatever order they run them.
bool alike(const Plan& plan, const Stage& a, const Stage& b) {
  const std::int64_t dense = plan.model.dense_layers();
  return a.has_first_layer() == b.has_first_layer() && a.has_last_layer() == b.has_last_layer() &&
         a.idle() == b.idle() && a.dense_layers(dense) == b.dense_layers(dense) &&
         std::equal(a.chunks.begin(),
                    a.chunks.end(),
                    b.chunks.begin(),
                    b.chunks.end(),
                    [](const Chunk& one, const Chunk& other) {
                      return one.first_layer == other.first_layer && one.layers == other.layers;
                    });
}

/// The passes of a stage, or of one that is alike, in the order of the plan's schedule. What is
/// born and dies in a pass stays: in any order a micro batch goes forward before it goes backward.
program::Program arranged(LoweredStage& like, const Plan& plan, const Stage& stage) {
  const auto nodes = like.program.nodes();
  const program::NodeRange rounds = like.passes.rounds;
  for (std::uint32_t i = rounds.first; i < rounds.end; i = nodes[i].end) {
    ensure(nodes[i].deaths == 0, "lower: what all micro batches share dies in their order");
  }
  program::Arrangement arrangement(like.program);
  arrangement.keep({0, rounds.first});
  const std::vector<Round> in_order =
      stage.idle() ? std::vector<Round>() : like.passes.apart(schedule_of(plan, stage), plan);
  for (const Round& round : in_order) {
    arrangement.repeat(Index::micro_batch, round.first, round.step, round.count, [&] {
      for (const Pass& pass : round.passes) {
        const program::Passage& passage =
            like.passes.of(pass, like.passes.ends_of(plan, stage, round, pass));
        ensure(!passage.nodes.empty(), "lower: a pass that one micro batch after the other lacks");
        arrangement.pass(passage, Index::micro_batch, pass.micro_batch);
      }
    });
  }
  arrangement.keep({rounds.end, static_cast<std::uint32_t>(nodes.size())});
  return std::move(arrangement).close(stage.number, stage.layers_of_model);
}

}  // namespace

program::Program lower(const Plan& plan) {
  ensure(plan.pipeline_degree == 1, "lower: each stage of a pipeline has a program of its own");
  return lower_stage(plan, 0);
}

program::Program lower_stage(const Plan& plan, std::int64_t number) {
  LoweredStage stage = lower_one_by_one(plan, number);
  return plan.pipeline_degree == 1 ? std::move(stage.program) : arranged(stage, plan, stage.stage);
}

std::vector<program::Program> lower_stages(const Plan& plan) {
  std::vector<program::Program> stages;
  stages.reserve(static_cast<std::size_t>(plan.pipeline_degree));
  if (plan.pipeline_degree == 1) {
    stages.push_back(lower_stage(plan, 0));
    return stages;
  }
  std::vector<LoweredStage> emitted;
  for (std::int64_t number = 0; number < plan.pipeline_degree; ++number) {
    const Stage stage = stage_of(plan, number);
    auto like = std::find_if(emitted.begin(), emitted.end(), [&](const LoweredStage& other) {
      return alike(plan, other.stage, stage);
    });
    if (like == emitted.end()) {
      like = emitted.insert(like, lower_one_by_one(plan, number));
    }
    stages.push_back(arranged(*like, plan, stage));
  }
  return stages;
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
    for (const auto& row : recipe_table()) {
      rows.push_back({"modules", row.name, row.description, row.bibliography_key});
    }
    for (const auto& row : framework_buffers()) {
      rows.push_back({"buffer", row.name, row.description, row.bibliography_key});
    }
    for (const auto& row : schedule_table()) {
      rows.push_back({"schedule", row.name, row.description, row.bibliography_key});
    }
    return rows;
  }();
  return kRows;
}

}  // namespace trireme::plan
