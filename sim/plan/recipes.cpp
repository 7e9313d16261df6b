#include "sim/plan/recipes.h"

#include <array>

namespace trireme::plan {

namespace {

using config::Framework;

// Source: nanotron, src/nanotron/models/llama.py: GLUActivation;
// CausalSelfAttention._forward_training (queries are a view of what was projected, keys and values
// are joined and made contiguous); parallel/tensor_parallel/functional.py: MemoryBuffer of
// "allgather" and "allgather2", and _ShardedCrossEntropy behind cast_to_fp32;
// optim/gradient_accumulator.py, FP32GradientAccumulator.backward
constexpr RecipeInfo kNanotron{
    "nanotron",
    "SiLU and product apart, keys and values packed again, softmax beside fp32 logits, gathers "
    "into "
    "two buffers, 16-bit gradients until the micro batch's backward pass is over",
    "nanotron",
    {.activation_in_two = true,
     .copies_key_values = true,
     .gathers_into_buffers = true,
     .softmax_beside_logits = true,
     .gradients_of_micro_batch = true}};

// Source: transformers, src/transformers/models/llama/modeling_llama.py: LlamaRMSNorm, LlamaMLP
constexpr RecipeInfo kHuggingFace{"huggingface",
                                  "norms in fp32 operation by operation, SiLU and product apart",
                                  "transformers",
                                  {.activation_in_two = true, .norms_in_parts = true}};

// Source: torchtitan, torchtitan/models/llama3/model/model.py: FeedForward
constexpr RecipeInfo kTorchtitan{
    "torchtitan", "SiLU and product apart", "torchtitan", {.activation_in_two = true}};

constexpr std::array kRecipes = {kNanotron, kHuggingFace, kTorchtitan};

}  // namespace

std::span<const RecipeInfo> recipe_table() {
  return kRecipes;
}

Modules modules_of(const Plan& plan) {
  Modules modules;
  switch (plan.framework) {
    case Framework::nanotron:
      modules = kNanotron.modules;
      // Sharded optimizer states do without DistributedDataParallel.
      modules.reduction_buckets = plan.zero_stage == 0;
      break;
    case Framework::huggingface:
      modules = kHuggingFace.modules;
      modules.reduction_buckets = plan.zero_stage == 0;
      break;
    case Framework::torchtitan:
      modules = kTorchtitan.modules;
      break;
    case Framework::pytorch:
      modules.reduction_buckets = plan.zero_stage == 0;
      break;
    case Framework::generic:
    case Framework::megatron:
    case Framework::deepspeed:
    case Framework::deepspeed_legacy:
    case Framework::prime_rl:
    case Framework::verl:
      break;
  }
  return modules;
}

Ref also_kept(Step& step,
              bool there,
              std::string_view name,
              const Shape& shape,
              const Layout& layout,
              ElementType type,
              std::string_view source) {
  if (!there) {
    return program::kNoTensor;
  }
  const Ref kept = step.value(name, shape, layout, type);
  step.b.emit(program::Function::keep, "keep", {program::write(kept)}).source = source;
  if (step.runs_again && step.b.phase() == Phase::forward) {
    use_kept(step, kept);  // written, needed or not
  }
  return kept;
}

Ref norm_parts(Step& step) {
  return also_kept(
      step,
      step.plan.modules.norms_in_parts,
      "norm input in fp32, normed in 16 bits",
      step.hidden_shape(),
      step.between_blocks(),
      ElementType::fp32,
      "transformers, LlamaRMSNorm.forward: six bytes of each element, two of which are "
      "the input's own");
}

void use_kept(Step& step, Ref kept) {
  if (kept.tensor != program::kNoTensor) {
    step.b.keep({kept}, "read by the backward pass of the module that wrote it");
  }
}

}  // namespace trireme::plan
