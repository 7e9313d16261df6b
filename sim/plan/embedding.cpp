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
                              kData,
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
    embedding.positions = parameters.declare("position table",
                                             Component::embedding,
                                             program::kPerStep,
                                             {{rows, "S"}, step.hidden()},
                                             Layout(),
                                             token_axes(step.plan));
    embedding.unit.add(*embedding.positions);
  }
  return embedding;
}

EmbeddingTensors emit_embedding(Step& step,
                                Parameters& parameters,
                                const EmbeddingParameters& embedding,
                                Ref x) {
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
  parameters.gather(embedding.unit);
  const Ref table = parameters.working(embedding.table);
  if (parallel && b.mesh().group_size(kGroup) > 1) {
    const Ref partial =
        step.micro_batch_value("embedding, partial", step.hidden_shape(), Step::partial_sums());
    b.emit(
        Function::embedding_forward, "embedding", {read(saved.ids), read(table), write(partial)});
    emit_sum_into(step, partial, x, "embedding");
  } else {
    b.emit(Function::embedding_forward, "embedding", {read(saved.ids), read(table), write(x)});
  }
  if (embedding.positions) {
    saved.position_ids =
        step.micro_batch_value("position ids", tokens, step.between_blocks(), ElementType::int64);
    b.emit(Function::load_batch, "load position ids", {write(saved.position_ids)}).stream =
        program::kHostCopyStream;
    const Ref positions =
        step.micro_batch_value("position embedding", step.hidden_shape(), step.between_blocks());
    b.emit(Function::embedding_forward,
           "position embedding",
           {read(saved.position_ids),
            read(parameters.working(*embedding.positions)),
            write(positions)});
    b.emit(Function::add, "add position embedding", {update(x), read(positions)});
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
           {read(saved.position_ids), read(dx), parameters.gradient(*embedding.positions)});
  }
  parameters.finish_backward(embedding.unit);
}

}  // namespace trireme::plan
