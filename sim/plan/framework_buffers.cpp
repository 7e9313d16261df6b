#include "sim/plan/framework_buffers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/config/words.h"

namespace trireme::plan {

using program::Access;
using program::Function;
using program::Operand;
using program::Role;
using program::write;

namespace {

bool with_transformer_engine(const Plan& plan, const Stage& /*stage*/) {
  return plan.transformer_engine;
}

/// Rows and columns of a weight on this rank, gathered; of experts, those of one.
std::optional<std::array<std::int64_t, 2>> module_shape(const Step& step,
                                                        const Parameter& parameter) {
  const program::Tensor stored = step.b.tensor(parameter.stored);
  const int rank = stored.shape.rank();
  // Megatron Core multiplies with the router's weight itself.
  if (parameter.varies != program::kPerLayer || rank < 2 || stored.name == "router weight") {
    return std::nullopt;
  }
  program::Tensor whole = stored;
  if (parameter.sharding->shards_parameters) {
    whole.layout = stored.layout.with(parameter.shard_axes, Placement::replicate());
  }
  const program::LocalShape local = program::local_shape(step.b.mesh(), whole);
  const auto last = static_cast<std::size_t>(rank - 1);
  return std::array{local.extents[last - 1], local.extents[last]};
}

/// Modules of TransformerEngine share one placeholder for each shape that their weights have.
void declare_placeholders(Step& step, const Parameters& parameters) {
  std::vector<std::array<std::int64_t, 2>> shapes;
  for (const Parameter& parameter : parameters.all()) {
    const auto shape = module_shape(step, parameter);
    if (!shape || std::find(shapes.begin(), shapes.end(), *shape) != shapes.end()) {
      continue;
    }
    shapes.push_back(*shape);
    program::TensorSpec spec;
    spec.name = step.b.tensor(parameter.stored).name;
    spec.part = "gradient placeholder";
    spec.role = Role::workspace;
    spec.component = parameter.component;
    spec.shape = {{(*shape)[0], "rows"}, {(*shape)[1], "columns"}};
    spec.resident = true;
    step.b.declare(spec);
  }
}

bool gathers_head_input(const Plan& plan, const Stage& stage) {
  return stage.has_last_layer() && plan.transformer_engine && plan.vocabulary_parallel() &&
         plan.sequence_sharded && plan.group_degree > 1 && plan.model.vocabulary > 0 &&
         plan.loss != config::LossKind::eager;
}

void declare_head_input(Step& step, const Parameters& /*parameters*/) {
  program::TensorSpec spec;
  spec.name = "head input, gathered";
  spec.role = Role::communication_buffer;
  spec.component = Component::head;
  spec.shape = step.hidden_shape();
  spec.layout = Step::whole_sequences();
  spec.resident = true;
  step.head_input = step.b.declare(spec);
}

bool keeps_input_gradient(const Plan& plan, const Stage& stage) {
  return plan.transformer_engine && !stage.has_first_layer();
}

/// Source: megatron-lm, megatron/core/pipeline_parallel/schedules.py,
/// forward_backward_pipelining_without_interleaving: input_tensor_grad
void declare_input_gradient(Step& step, const Parameters& /*parameters*/) {
  program::TensorSpec spec;
  spec.name = "input gradient of the micro batch before";
  spec.role = Role::communication_buffer;
  spec.component = Component::pipeline;
  spec.shape = step.hidden_shape();
  spec.layout = step.between_blocks();
  spec.resident = true;
  step.b.declare(spec);
}

bool has_workspaces(const Plan& plan, const Stage& /*stage*/) {
  return plan.library_workspaces > Bytes(0);
}

void declare_workspaces(Step& step, const Parameters& /*parameters*/) {
  program::TensorSpec spec;
  spec.name = "workspaces of libraries";
  spec.role = Role::workspace;
  spec.component = Component::optimizer;
  spec.type = ElementType::uint8;
  spec.shape = {{step.plan.library_workspaces.value(), "bytes"}};
  spec.resident = true;
  step.b.declare(spec);
}

/// Elements of all parameters of this rank's stage, gathered.
std::int64_t elements_of(const Step& step, const Parameters& parameters) {
  std::int64_t in_all = 0;
  for (const Parameter& parameter : parameters.all()) {
    program::Tensor whole = step.b.tensor(parameter.stored);
    if (parameter.sharding->shards_parameters) {
      whole.layout = whole.layout.with(parameter.shard_axes, Placement::replicate());
    }
    const bool of_layer = parameter.varies == program::kPerLayer;
    const std::int64_t layers =
        parameter.layers.count > 0 ? parameter.layers.count : step.b.extent(program::Index::layer);
    in_all += program::local_shape(step.b.mesh(), whole).elements.value() * (of_layer ? layers : 1);
  }
  return in_all;
}

bool gathers_tokens(const Plan& plan, const Stage& /*stage*/) {
  return plan.modules.gathers_into_buffers && plan.sequence_sharded && plan.group_degree > 1 &&
         plan.attention == AttentionLowering::megatron;
}

void declare_token_buffers(Step& step, const Parameters& /*parameters*/) {
  const auto buffer = [&](std::string_view name) {
    program::TensorSpec spec;
    spec.name = name;
    spec.role = Role::communication_buffer;
    spec.component = Component::mlp;
    spec.shape = step.hidden_shape();
    spec.layout = Step::whole_sequences();
    spec.resident = true;
    return step.b.declare(spec);
  };
  if (step.plan.gathers_again) {
    step.gathered_inputs = buffer("inputs of products, gathered");
  }
  step.gathered_gradients = buffer("gradients of outputs, gathered");
}

bool has_reduction_buckets(const Plan& plan, const Stage& /*stage*/) {
  return plan.modules.reduction_buckets && plan.data_degree > 1;
}

/// Source: pytorch, torch/nn/parallel/distributed.py, gradient_as_bucket_view, off by default
void declare_reduction_buckets(Step& step, const Parameters& parameters) {
  const bool of_micro_batch = step.plan.modules.gradients_of_micro_batch;
  program::TensorSpec spec;
  spec.name = "reduction buckets";
  spec.role = Role::communication_buffer;
  spec.component = Component::optimizer;
  spec.type = of_micro_batch ? ElementType::bf16 : step.plan.gradient_type;
  spec.shape = {{elements_of(step, parameters), "elements"}};
  spec.resident = true;
  step.b.declare(spec);
}

bool has_bucket(const Plan& plan, const Stage& /*stage*/) {
  return plan.reduce_bucket.elements > 0;
}

bool sorts_bucket(const Plan& plan, const Stage& stage) {
  return has_bucket(plan, stage) && plan.reduce_bucket.sorted;
}

void declare_bucket_of(Step& step, std::string_view name, std::int64_t elements) {
  program::TensorSpec spec;
  spec.name = name;
  spec.role = Role::communication_buffer;
  spec.component = Component::optimizer;
  spec.type = step.plan.reduce_bucket.type;
  spec.shape = {{elements, "elements"}};
  spec.resident = true;
  step.b.declare(spec);
}

void declare_buckets(Step& step, const Parameters& /*parameters*/) {
  const ReduceBucket& bucket = step.plan.reduce_bucket;
  declare_bucket_of(step, "reduce bucket", bucket.buffers * bucket.elements);
}

/// As large as a bucket is ever filled.
void declare_sorted_bucket(Step& step, const Parameters& parameters) {
  declare_bucket_of(step,
                    "reduce bucket, sorted by rank",
                    std::min(step.plan.reduce_bucket.elements, elements_of(step, parameters)));
}

constexpr std::array kBuffers = {
    FrameworkBuffer{"gradient placeholders",
                    "TransformerEngine hands autograd one empty gradient per shape of weight",
                    "transformer-engine",
                    with_transformer_engine,
                    declare_placeholders},
    FrameworkBuffer{"head input, gathered",
                    "Megatron Core gathers the head's input into a buffer that stays",
                    "megatron-lm",
                    gathers_head_input,
                    declare_head_input},
    FrameworkBuffer{"input gradient, sent",
                    "Megatron Core's schedules hold what a stage sent back until the next is there",
                    "megatron-lm",
                    keeps_input_gradient,
                    declare_input_gradient},
    FrameworkBuffer{"tokens, gathered",
                    "nanotron gathers inputs of products, and gradients, into a buffer each",
                    "nanotron",
                    gathers_tokens,
                    declare_token_buffers},
    FrameworkBuffer{"reduction buckets",
                    "DistributedDataParallel copies all gradients into buckets to sum them",
                    "pytorch",
                    has_reduction_buckets,
                    declare_reduction_buckets},
    FrameworkBuffer{"reduce bucket",
                    "DeepSpeed copies gradients into a bucket of 5e8 elements to reduce them",
                    "deepspeed",
                    has_bucket,
                    declare_buckets},
    FrameworkBuffer{"reduce bucket, sorted by rank",
                    "ZeRO-3 of DeepSpeed sorts a bucket by rank before it scatters it",
                    "deepspeed",
                    sorts_bucket,
                    declare_sorted_bucket},
    FrameworkBuffer{"library workspaces",
                    "cuBLAS and TransformerEngine ask PyTorch's allocator for them",
                    "pytorch",
                    has_workspaces,
                    declare_workspaces},
};

}  // namespace

std::span<const FrameworkBuffer> framework_buffers() {
  return kBuffers;
}

void declare_framework_buffers(Step& step, const Parameters& parameters, const Stage& stage) {
  for (const FrameworkBuffer& buffer : kBuffers) {
    if (buffer.there(step.plan, stage)) {
      buffer.declare(step, parameters);
    }
  }
}

std::vector<std::string> remarks_on_framework(const Plan& plan) {
  using config::Framework;
  switch (plan.framework) {
    case Framework::generic:
      return {};
    case Framework::megatron:
      if (!plan.transformer_engine) {
        return {
            "memory is that of the generic recipe: Megatron Core's own modules "
            "(transformer_impl: local) are not modelled yet"};
      }
      if (plan.model.experts) {
        return {
            "memory of experts: what they give back is kept for the gradients of their weights; "
            "Megatron Core weighs what they read last and keeps none of it"};
      }
      return {};
    case Framework::deepspeed:
    case Framework::deepspeed_legacy:
      return {
          "memory is that of the generic recipe with DeepSpeed's reduce buckets, persistent "
          "parameters and sub-groups: its live window is one block, and what the modules of a "
          "model keep beside it is not known"};
    case Framework::nanotron:
      return {};
    case Framework::torchtitan:
      return {
          "memory is that of eager modules: what a compiler fuses away is not left out, and key "
          "and "
          "value heads that attention repeats are not counted"};
    case Framework::huggingface:
      return {
          "memory is that of a Llama-like model in eager code: experts and latent attention are "
          "those of the generic recipe, and key and value heads that attention repeats are not "
          "counted"};
    case Framework::pytorch:
      return {
          "memory is that of the generic recipe: what the modules of a model keep beside it is not "
          "known"};
    case Framework::prime_rl:
    case Framework::verl:
      break;
  }
  return {fmt::format("memory is that of the generic recipe: none of framework {} is modelled yet",
                      config::word_for(config::kFrameworkWords, plan.framework))};
}

/// Source: megatron-lm, megatron/core/tensor_parallel/layers.py,
/// LinearWithGradAccumulationAndAsyncCommunication.backward
void emit_weight_gradient_placeholder(Step& step,
                                      const Parameters& parameters,
                                      ParameterId weight,
                                      std::initializer_list<Ref> held) {
  if (!step.plan.transformer_engine) {
    return;
  }
  program::Builder& b = step.b;
  const program::Tensor working = b.tensor(parameters.working(weight).tensor);
  program::TensorSpec spec;
  spec.name = working.name;
  spec.part = "gradient placeholder";
  spec.role = Role::workspace;
  spec.component = b.component();
  spec.varies = program::kPerMicroBatch;
  spec.shape = working.shape;
  spec.pad_multiple = working.pad_multiple;
  spec.layout = working.layout;
  std::vector<Operand> operands;
  for (const Ref& ref : held) {
    operands.push_back({ref, Access::hold});
  }
  operands.push_back(write(b.declare(spec)));
  b.emit(Function::keep, "gradient placeholder", operands).source =
      "megatron-lm, LinearWithGradAccumulationAndAsyncCommunication.backward: the input's gradient "
      "waits for its reduction, a gradient of the weight is made empty";
}

}  // namespace trireme::plan
