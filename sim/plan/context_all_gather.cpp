// Keys and values of every token gathered, in both passes; their gradients are reduce-scattered.
// Source: transformer-engine, context_parallel.py, AttnFuncWithCPAndKVAllGather
#include "sim/plan/attention_context.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::write;

/// In zigzag order the parts of a rank are not neighbours in the sequence: they are sorted.
Ref in_sequence(Step& step, Ref tokens, std::string_view name) {
  if (step.plan.order != config::RingOrder::zigzag) {
    return tokens;
  }
  const program::Tensor tensor = step.b.tensor(tokens.tensor);
  const Ref sorted = step.value(name, tensor.shape, tensor.layout, tensor.type);
  step.b.emit(Function::copy, name, {read(tokens), write(sorted)});
  return sorted;
}

struct KeysAndValues {
  Ref k;
  Ref v;
};

KeysAndValues gathered(Step& step, const AttentionTensors& saved) {
  const Ref k = step.b.all_gather(saved.k, kRing, "k, gathered");
  const Ref v = step.b.all_gather(saved.v, kRing, "v, gathered");
  return {in_sequence(step, k, "k in sequence"), in_sequence(step, v, "v in sequence")};
}

void forward(Step& step, AttentionTensors& saved) {
  saved.q = apart(step, saved.q, "q, apart");
  saved.k = apart(step, saved.k, "k, apart");
  saved.v = apart(step, saved.v, "v, apart");
  const KeysAndValues every = gathered(step, saved);
  const PartialAttention whole = emit_block_attention(step, saved.q, every.k, every.v);
  saved.o = whole.o;
  saved.log_sum_exp = whole.log_sum_exp;
  const bool made_again = step.runs_again || step.plan.recompute_modules.core_attention;
  if (made_again && step.b.phase() == Phase::forward) {
    step.b.keep({saved.log_sum_exp}, "flash-attention, mha_fwd writes it, needed or not");
  }
}

/// Sums a gradient of every token over the ranks and leaves own tokens in `to`.
void sum_into(Step& step, Ref every, Ref to, std::string_view sorted, std::string_view name) {
  const Ref own =
      step.b.reduce_scatter(in_sequence(step, every, sorted), kRing, program::kSequenceDim, name);
  step.b.emit(Function::copy, name, {read(own), write(to)});
}

void backward(Step& step,
              const AttentionTensors& saved,
              Ref gradient_of_o,
              const QueryKeyValue& gradients) {
  const KeysAndValues every = gathered(step, saved);
  const program::Tensor keys = step.b.tensor(every.k.tensor);
  const Layout partial = keys.layout.with(kRing, Placement::partial_sum());
  const Ref d_k = step.value("k gradient of every token", keys.shape, partial);
  const Ref d_v = step.value("v gradient of every token", keys.shape, partial);
  emit_block_attention_backward(
      step, saved, every.k, every.v, gradient_of_o, {gradients.q, d_k, d_v});
  sum_into(step, d_k, gradients.k, "k gradient by rank", "k gradient, own tokens");
  sum_into(step, d_v, gradients.v, "v gradient by rank", "v gradient, own tokens");
}

}  // namespace

const ContextLoweringInfo kContextAllGather = {
    config::RingImplementation::all_gather,
    "all_gather",
    "keys and values gathered each way, 16-bit gradients reduce-scattered",
    "transformer-engine",
    forward,
    backward};

}  // namespace trireme::plan
