// Parts of a layer that run again on their own before they go backward: what they leave is given up
// going forward and made again, from what they started from, when their gradient arrives.
#pragma once

#include <string_view>

#include "sim/plan/attention.h"
#include "sim/plan/block.h"
#include "sim/plan/mlp.h"
#include "sim/plan/step.h"

namespace trireme::plan {

/// Books what is emitted in its scope as recomputation.
class InRecompute {
 public:
  explicit InRecompute(Step& step) : b_(step.b), outer_(step.b.phase()) {
    b_.set_phase(Phase::recompute);
  }

  ~InRecompute() { b_.set_phase(outer_); }

  InRecompute(const InRecompute&) = delete;
  InRecompute& operator=(const InRecompute&) = delete;

 private:
  program::Builder& b_;
  Phase outer_;
};

/// A norm's output for the backward pass of its block: `normed`, or made again from x.
/// Source: megatron-lm, megatron/core/transformer/transformer_layer.py, "layernorm" of
/// recompute_modules: the output is given up, and made again as the block's gradient arrives
[[nodiscard]] Ref normed_again(
    Step& step, Parameters& parameters, const NormParameters& norm, Ref x, Ref normed);

/// What core attention leaves for its backward pass: `saved`, or made again by `emit_core(again)`,
/// which starts from the queries, keys and values that the layer saved.
/// Source: megatron-lm, megatron/core/transformer/attention.py, _checkpointed_attention_forward:
/// all of it runs again, its exchanges too, whose last result nobody reads
template <class EmitCore>
[[nodiscard]] AttentionTensors core_again(Step& step,
                                          const AttentionTensors& saved,
                                          EmitCore emit_core) {
  if (!step.plan.recompute_modules.core_attention) {
    return saved;
  }
  const InRecompute scope(step);
  AttentionTensors again = saved;
  emit_core(again);
  if (again.o_tokens.tensor != again.o.tensor) {
    step.b.keep({again.o_tokens}, "megatron-lm, tensor_parallel/random.py, CheckpointFunction");
  }
  return again;
}

/// What the MLP leaves for its backward pass: `saved`, with the parts that the plan recomputes made
/// again. `emit_inner(again)` emits the MLP behind its norm and returns its output, which nobody
/// reads; `emit_act(again)` its activation alone.
/// Source: megatron-lm, megatron/core/transformer/transformer_layer.py, "mlp" of recompute_modules
template <class EmitInner, class EmitAct>
[[nodiscard]] MlpTensors mlp_again(Step& step,
                                   const MlpTensors& saved,
                                   EmitInner emit_inner,
                                   EmitAct emit_act) {
  const config::RecomputeModules& modules = step.plan.recompute_modules;
  if (!modules.mlp && !modules.mlp_activation) {
    return saved;
  }
  const InRecompute scope(step);
  MlpTensors again = saved;
  if (modules.mlp) {
    const Ref output = emit_inner(again);
    step.b.keep({output}, "megatron-lm, tensor_parallel/random.py, CheckpointFunction");
  } else {
    emit_act(again);
  }
  return again;
}

}  // namespace trireme::plan
