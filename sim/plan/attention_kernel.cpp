#include "sim/plan/attention_kernel.h"

#include <array>

#include "sim/plan/attention_context.h"

namespace trireme::plan {

using program::Function;
using program::Operand;
using program::read;
using program::update;
using program::write;

namespace {

program::AttentionImplementation implementation(config::AttentionKernel kernel) {
  switch (kernel) {
    case config::AttentionKernel::flash3:
      return program::AttentionImplementation::flash3;
    case config::AttentionKernel::cudnn:
      return program::AttentionImplementation::cudnn;
    case config::AttentionKernel::flash2:
    case config::AttentionKernel::unfused:
      break;
  }
  return program::AttentionImplementation::flash2;
}

/// Workspaces of the backward pass, as operands that are written and never read.
/// Source: flash-attention, csrc/flash_attn/flash_api.cpp and hopper/flash_api.cpp, mha_bwd;
/// cudnn-frontend, the composite backward graph.
class BackwardWorkspaces {
 public:
  BackwardWorkspaces(Step& step, const AttentionTensors& saved, Ref keys) {
    const program::Tensor q = step.b.tensor(saved.q.tensor);
    const program::Tensor statistics = step.b.tensor(saved.log_sum_exp.tensor);
    add(step.workspace("query gradient accumulator", q.shape, q.layout, ElementType::fp32));
    add(step.workspace(
        "row sums of o times do", statistics.shape, statistics.layout, ElementType::fp32));
    const bool grouped = q.shape[3].size > 1;
    const program::Tensor k = step.b.tensor(keys.tensor);
    switch (implementation(step.plan.kernel)) {
      case program::AttentionImplementation::flash2:
        if (grouped) {  // one key and value gradient per query head, summed over the group after
          const Shape expanded{k.shape[0], k.shape[1], k.shape[2], q.shape[3], q.shape[4]};
          add(step.workspace(
              "key gradients per query head", expanded, k.layout, ElementType::bf16));
          add(step.workspace(
              "value gradients per query head", expanded, k.layout, ElementType::bf16));
        }
        break;
      case program::AttentionImplementation::flash3:
        add(step.workspace(
            "base-2 log-sum-exp", statistics.shape, statistics.layout, ElementType::fp32));
        if (grouped) {
          add(step.workspace("key gradient accumulator", k.shape, k.layout, ElementType::fp32));
          add(step.workspace("value gradient accumulator", k.shape, k.layout, ElementType::fp32));
        }
        break;
      case program::AttentionImplementation::cudnn:
        break;
    }
  }

  [[nodiscard]] std::span<const Operand> operands() const { return {operand_.data(), count_}; }

 private:
  void add(TensorId workspace) { operand_[count_++] = write(workspace); }

  std::array<Operand, 8> operand_{};
  std::size_t count_ = 0;
};

bool is_own(const Step& step, const program::Dim& groups) {
  return groups.size == step.plan.model.kv_heads;
}

/// Query heads of each of `groups` key/value heads.
program::Dim queries_of(const Step& step, const program::Dim& groups) {
  return {step.plan.model.heads / groups.size, is_own(step, groups) ? "a/g" : "a/g'"};
}

}  // namespace

Shape packed_qkv_shape(const Step& step, const program::Dim& groups) {
  const program::Dim queries = queries_of(step, groups);
  return {step.batch(),
          step.sequence(),
          groups,
          {queries.size + 2, is_own(step, groups) ? "a/g+2" : "a/g'+2"},
          step.head_dim()};
}

Shape packed_qkv_shape(const Step& step) {
  return packed_qkv_shape(step, step.groups());
}

Shape query_shape(const Step& step, const program::Dim& groups) {
  return {step.batch(), step.sequence(), groups, queries_of(step, groups), step.head_dim()};
}

Shape query_shape(const Step& step) {
  return query_shape(step, step.groups());
}

Shape key_value_shape(const Step& step, const program::Dim& groups) {
  return {step.batch(), step.sequence(), groups, step.head_dim()};
}

Shape key_value_shape(const Step& step) {
  return key_value_shape(step, step.groups());
}

QueryKeyValue unpack(Step& step, Ref packed) {
  constexpr std::int8_t kWithinGroup = 3;  // the dimension of queries, key and value of a group
  program::Builder& b = step.b;
  const bool gradient = b.phase() == Phase::backward;
  const program::Dim groups = b.tensor(packed.tensor).shape[program::kFeatureDim];
  const Shape keys = key_value_shape(step, groups);
  const std::int64_t queries = queries_of(step, groups).size;
  return {b.declare_view(packed.tensor,
                         gradient ? "q gradient" : "q",
                         query_shape(step, groups),
                         {.dim = kWithinGroup, .first = 0, .extent = queries}),
          b.declare_view(packed.tensor,
                         gradient ? "k gradient" : "k",
                         keys,
                         {.dim = kWithinGroup, .first = queries, .extent = 1}),
          b.declare_view(packed.tensor,
                         gradient ? "v gradient" : "v",
                         keys,
                         {.dim = kWithinGroup, .first = queries + 1, .extent = 1})};
}

void copy_key_values(Step& step, AttentionTensors& saved) {
  if (!step.plan.modules.copies_key_values) {
    return;
  }
  constexpr std::int8_t kPair = 3;  // the dimension of a key and its value
  program::Builder& b = step.b;
  const program::Tensor k = b.tensor(saved.k.tensor);
  const program::Tensor q = b.tensor(saved.q.tensor);
  const Shape pair{k.shape[0], k.shape[1], k.shape[2], {2, "2"}, k.shape[3]};
  const Ref packed = step.value("keys and values, packed", pair, k.layout);
  const Ref keys =
      b.declare_view(packed.tensor, "k", k.shape, {.dim = kPair, .first = 0, .extent = 1});
  const Ref values =
      b.declare_view(packed.tensor, "v", k.shape, {.dim = kPair, .first = 1, .extent = 1});
  b.emit(Function::copy, "pack keys", {read(saved.k), write(keys)});
  b.emit(Function::copy, "pack values", {read(saved.v), write(values)});
  if (q.shape[3].size > 1) {
    const Ref queries = step.value("queries", q.shape, q.layout);
    b.emit(Function::copy, "copy queries", {read(saved.q), write(queries)});
    saved.q = queries;
  }
  saved.k = keys;
  saved.v = values;
}

void emit_rotary(Step& step, Ref q, Ref k) {
  if (step.plan.model.rotary) {
    step.b.emit(Function::rotary, "rotary embedding of q", {update(q)});
    step.b.emit(Function::rotary, "rotary embedding of k", {update(k)});
  }
}

void emit_rotary_backward(Step& step, Ref dq, Ref dk) {
  if (step.plan.model.rotary) {
    step.b.emit(Function::rotary_backward, "rotary embedding of q, backward", {update(dq)});
    step.b.emit(Function::rotary_backward, "rotary embedding of k, backward", {update(dk)});
  }
}

PartialAttention emit_block_attention(Step& step, Ref q_ref, Ref k, Ref v) {
  const program::Tensor q = step.b.tensor(q_ref.tensor);
  constexpr int kHeadDim = 4;
  const program::Dim value_dim = step.b.tensor(v.tensor).shape[3];
  PartialAttention result;
  result.o = step.value("attention output", q.shape.with(kHeadDim, value_dim), q.layout);
  result.log_sum_exp = step.value(
      "log-sum-exp", {q.shape[0], q.shape[1], q.shape[2], q.shape[3]}, q.layout, ElementType::fp32);
  program::Op& op =
      step.b.emit(Function::attention_forward,
                  "attention",
                  {read(q_ref), read(k), read(v), write(result.o), write(result.log_sum_exp)});
  op.causal = step.plan.causal;
  op.attention = implementation(step.plan.kernel);
  return result;
}

void emit_attention(Step& step, AttentionTensors& saved) {
  if (step.b.mesh().group_size(kRing) > 1) {
    context_lowering(step.plan.ring).forward(step, saved);
    return;
  }
  const PartialAttention whole = emit_block_attention(step, saved.q, saved.k, saved.v);
  saved.o = whole.o;
  saved.log_sum_exp = whole.log_sum_exp;
  const bool made_again = step.runs_again || step.plan.recompute_modules.core_attention;
  if (made_again && step.b.phase() == Phase::forward) {
    step.b.keep({saved.log_sum_exp}, "flash-attention, mha_fwd writes it, needed or not");
  }
}

void emit_block_attention_backward(Step& step,
                                   const AttentionTensors& saved,
                                   Ref k,
                                   Ref v,
                                   Ref gradient_of_o,
                                   const QueryKeyValue& gradients) {
  std::array<Operand, 16> operands{read(saved.q),
                                   read(k),
                                   read(v),
                                   read(saved.o),
                                   read(saved.log_sum_exp),
                                   read(gradient_of_o),
                                   write(gradients.q),
                                   write(gradients.k),
                                   write(gradients.v)};
  std::size_t count = 9;
  const BackwardWorkspaces workspaces(step, saved, k);
  for (const Operand& workspace : workspaces.operands()) {
    operands[count++] = workspace;
  }
  program::Op& op = step.b.emit(Function::attention_backward,
                                "attention backward",
                                std::span<const Operand>(operands.data(), count));
  op.causal = step.plan.causal;
  op.attention = implementation(step.plan.kernel);
}

void emit_attention_backward(Step& step,
                             const AttentionTensors& saved,
                             Ref gradient_of_o,
                             const QueryKeyValue& gradients) {
  if (step.b.mesh().group_size(kRing) > 1) {
    context_lowering(step.plan.ring).backward(step, saved, gradient_of_o, gradients);
    return;
  }
  emit_block_attention_backward(step, saved, saved.k, saved.v, gradient_of_o, gradients);
}

}  // namespace trireme::plan
