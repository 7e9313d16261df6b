#include "sim/plan/embedding.h"

#include <algorithm>

#include "sim/plan/megatron_regions.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::update;
using program::write;

namespace {

/// Megatron pads the vocabulary to a multiple of this times the tensor-parallel degree.
/// Source: megatron-lm, --make-vocab-size-divisible-by, its default
constexpr std::int16_t kMegatronMultiple = 128;

/// PyTorch splits rows as evenly as they go.
/// Source: pytorch, torch/distributed/tensor/placement_types.py, Shard
std::int16_t vocabulary_multiple(const Plan& plan) {
  return plan.shard_rows ? 1 : kMegatronMultiple;
}

/// Megatron adds learned positions to whole sequences: every rank sums the embeddings of every
/// token and takes its own tokens after. Source: megatron-lm,
/// megatron/core/models/common/embeddings/language_model_embedding.py, reduce_scatter_embeddings
bool adds_positions_to_whole_sequences(const Plan& plan) {
  return plan.framework == config::Framework::megatron && plan.model.learned_positions > 0 &&
         plan.attention == AttentionLowering::megatron && plan.sequence_sharded &&
         plan.group_degree > 1;
}

/// Adds the embedding of positions to x, which is placed as `layout` says; returns the positions.
Ref emit_positions(
    Step& step, Parameters& parameters, ParameterId table, const Layout& layout, Ref x) {
  program::Builder& b = step.b;
  const Ref ids = step.micro_batch_value(
      "position ids", {step.batch(), step.sequence()}, layout, ElementType::int64);
  b.emit(Function::load_batch, "load position ids", {write(ids)}).stream = program::kHostCopyStream;
  const Ref positions = step.micro_batch_value("position embedding", step.hidden_shape(), layout);
  b.emit(Function::embedding_forward,
         "position embedding",
         {read(ids), read(parameters.working(table)), write(positions)});
  b.emit(Function::add, "add position embedding", {update(x), read(positions)});
  return ids;
}

}  // namespace

ParameterId declare_vocabulary_weight(Step& step,
                                      Parameters& parameters,
                                      std::string_view name,
                                      Component component) {
  const Shape shape{{step.plan.model.vocabulary, "V"}, step.hidden()};
  if (step.plan.vocabulary_parallel()) {
    return parameters.declare(name,
                              component,
                              program::kPerStep,
                              shape,
                              Layout().with(kGroup, Placement::shard(0)),
                              kReplicas,
                              vocabulary_multiple(step.plan));
  }
  return parameters.declare(
      name, component, program::kPerStep, shape, Layout(), token_axes(step.plan));
}

EmbeddingParameters declare_embedding(Step& step, Parameters& parameters) {
  EmbeddingParameters embedding;
  embedding.table =
      declare_vocabulary_weight(step, parameters, "embedding table", Component::embedding);
  embedding.unit.add(embedding.table);
  if (step.plan.model.learned_positions > 0) {  // a longer context needs a longer table
    const std::int64_t rows = std::max(step.plan.model.learned_positions, step.plan.sequence);
    embedding.positions = parameters.declare(
        "position table",
        Component::embedding,
        program::kPerStep,
        {{rows, "S"}, step.hidden()},
        Layout(),
        adds_positions_to_whole_sequences(step.plan) ? kReplicas : token_axes(step.plan));
    embedding.unit.add(*embedding.positions);
  }
  return embedding;
}

EmbeddingTensors emit_embedding(Step& step,
                                Parameters& parameters,
                                const EmbeddingParameters& embedding,
                                Ref x,
                                const NextUse& next) {
  program::Builder& b = step.b;
  const bool parallel = step.plan.vocabulary_parallel();
  const Shape tokens{step.batch(), step.sequence()};
  EmbeddingTensors saved;
  saved.ids = step.micro_batch_value("token ids",
                                     tokens,
                                     parallel ? Step::whole_sequences() : step.between_blocks(),
                                     ElementType::int64);
  b.emit(Function::load_batch, "load token ids", {write(saved.ids)}).stream =
      program::kHostCopyStream;
  parameters.gather(embedding.unit, next);
  const Ref table = parameters.working(embedding.table);
  if (!parallel || b.mesh().group_size(kGroup) == 1) {
    b.emit(Function::embedding_forward, "embedding", {read(saved.ids), read(table), write(x)});
  } else {
    const Ref partial =
        step.micro_batch_value("embedding, partial", step.hidden_shape(), Step::partial_sums());
    b.emit(
        Function::embedding_forward, "embedding", {read(saved.ids), read(table), write(partial)});
    if (adds_positions_to_whole_sequences(step.plan)) {
      const Ref whole = b.all_reduce_in_place(partial, kGroup, "embedding, summed");
      saved.position_ids =
          emit_positions(step, parameters, *embedding.positions, Step::whole_sequences(), whole);
      const Ref own = b.declare_shard_of(
          whole.tensor, "own tokens", kGroup, Placement::shard(program::kSequenceDim));
      b.emit(Function::copy, "take own tokens", {read(own), write(x)});
      return saved;
    }
    emit_sum_into(step, partial, x, "embedding");
  }
  if (embedding.positions) {
    saved.position_ids =
        emit_positions(step, parameters, *embedding.positions, step.between_blocks(), x);
  }
  return saved;
}

void emit_embedding_backward(Step& step,
                             Parameters& parameters,
                             const EmbeddingParameters& embedding,
                             const EmbeddingTensors& saved,
                             Ref dx) {
  program::Builder& b = step.b;
  // DeepSpeed and FSDP gather a module's parameters before its backward pass, needed or not.
  // Source: deepspeed, runtime/zero/parameter_offload.py, pre_sub_module_backward_function;
  // pytorch, FSDPParamGroup.pre_backward
  parameters.gather(embedding.unit);
  const Ref dx_whole =
      step.plan.vocabulary_parallel() ? every_token(step, dx, "embedding gradient, gathered") : dx;
  b.emit(Function::embedding_backward,
         "embedding backward",
         {read(saved.ids), read(dx_whole), parameters.gradient(embedding.table)});
  if (embedding.positions) {
    b.emit(Function::embedding_backward,
           "position embedding backward",
           {read(saved.position_ids),
            read(adds_positions_to_whole_sequences(step.plan) ? dx_whole : dx),
            parameters.gradient(*embedding.positions)});
  }
  parameters.finish_backward(embedding.unit);
}

}  // namespace trireme::plan
