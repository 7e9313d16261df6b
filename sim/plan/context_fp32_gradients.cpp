// Rings whose gradients of keys and values travel all the way round in fp32: ring-flash-attention
// passes keys and values on in both directions, PyTorch gathers them. Outputs are merged in fp32
// after every step.
// Source: ring-flash-attention, ring_flash_attn.py; pytorch, _context_parallel/_attention.py,
// _templated_ring_attention and its backward
#include <vector>

#include "sim/plan/attention_context.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;
using program::write;

/// The blocks of a pass, in the order in which they are used.
class Blocks {
 public:
  /// `own` is block 0, with its own memory.
  Blocks(Step& step, Ref own_keys, Ref own, bool gathered)
      : step_(step), parts_(step, own_keys), block_(own), gathered_(gathered) {
    if (gathered_) {
      const Ref tokens = step.b.declare_own_tokens(own.tensor);
      every_ =
          step.b.all_gather(tokens, kRing, "keys and values, gathered", beside_attention(step));
    }
  }

  [[nodiscard]] KeyValueBlocks& parts() { return parts_; }

  /// Sends for the block after the current one, which is the `i`-th.
  void ask_for_next(std::int64_t i) {
    if (i + 1 == parts_.ranks()) {
      return;
    }
    if (gathered_) {
      next_ = step_.b.declare_block(every_.tensor, kRing, i + 1);
      return;
    }
    next_ = parts_.next("keys and values of another rank", i + 1, before_, i > 1);
    step_.b.emit_hop(
        "keys and values, next block", kRing, block_, next_, 1, beside_attention(step_));
  }

  [[nodiscard]] Ref keys() const { return parts_.keys(block_); }

  [[nodiscard]] Ref values() const { return parts_.values(block_); }

  void advance() {
    before_ = block_;
    block_ = next_;
  }

 private:
  Step& step_;
  KeyValueBlocks parts_;
  Ref block_;
  Ref next_;
  Ref before_;
  Ref every_;
  bool gathered_;
};

void forward_through(Step& step, AttentionTensors& saved, bool gathered) {
  program::Builder& b = step.b;
  KeyValueBlocks own(step, saved.k);
  saved.q = apart(step, saved.q, "q, apart");
  saved.key_value = own.own(saved.k, saved.v);
  const program::Tensor q = b.tensor(saved.q.tensor);
  Blocks blocks(step, saved.k, saved.key_value, gathered);
  const Ref sum = step.value("attention output, merged", q.shape, q.layout, ElementType::fp32);
  for (std::int64_t i = 0; i < own.ranks(); ++i) {
    blocks.ask_for_next(i);
    const PartialAttention part =
        emit_block_attention(step, saved.q, blocks.keys(), blocks.values());
    if (i == 0) {
      saved.log_sum_exp = part.log_sum_exp;
      b.emit(Function::cast, "attention output in fp32", {read(part.o), write(sum)});
    } else {
      b.emit(Function::merge_attention,
             "merge attention",
             {read(part.o), read(part.log_sum_exp), update(sum), update(saved.log_sum_exp)});
    }
    blocks.advance();
  }
  saved.o = step.value("attention output of every block", q.shape, q.layout);
  b.emit(Function::cast, "attention output", {read(sum), write(saved.o)});
}

void backward_through(Step& step,
                      const AttentionTensors& saved,
                      Ref gradient_of_o,
                      const QueryKeyValue& gradients,
                      bool gathered) {
  program::Builder& b = step.b;
  const program::Tensor q = b.tensor(saved.q.tensor);
  Blocks blocks(step, saved.k, saved.key_value, gathered);
  KeyValueBlocks& parts = blocks.parts();
  const Ref d_q = step.value("q gradient, merged", q.shape, q.layout, ElementType::fp32);
  Ref sum;   // gradients of the current block by the ranks that had it
  Ref sent;  // on its way
  for (std::int64_t i = 0; i < parts.ranks(); ++i) {
    blocks.ask_for_next(i);
    const Ref d_q_part = step.value("q gradient by a block", q.shape, q.layout);
    const Ref own_part =
        parts.declare("gradient of keys and values by own queries", i, ElementType::bf16, true);
    emit_block_attention_backward(step,
                                  saved,
                                  blocks.keys(),
                                  blocks.values(),
                                  gradient_of_o,
                                  {d_q_part, parts.keys(own_part), parts.values(own_part)});
    if (i == 0) {
      b.emit(Function::cast, "q gradient in fp32", {read(d_q_part), write(d_q)});
      sum = parts.declare("gradient of keys and values, summed", 0, ElementType::fp32, true);
      b.emit(Function::cast, "gradient of keys and values in fp32", {read(own_part), write(sum)});
    } else {
      b.emit(Function::accumulate, "q gradient, summed over blocks", {read(d_q_part), update(d_q)});
      b.emit(Function::accumulate,
             "gradient of keys and values, summed",
             {read(own_part), update(sum)});
      b.keep({sent}, kHeldUntilSent);
    }
    const Ref arriving =
        parts.declare("gradient of keys and values, summed", i + 1, ElementType::fp32, true);
    b.emit_hop(
        "gradient of keys and values, next block", kRing, sum, arriving, 1, beside_attention(step));
    sent = sum;
    sum = arriving;
    blocks.advance();
  }
  b.emit(Function::cast, "q gradient", {read(d_q), write(gradients.q)});
  b.emit(Function::sum_blocks, "k gradient", {read(parts.keys(sum)), write(gradients.k)});
  b.emit(Function::sum_blocks, "v gradient", {read(parts.values(sum)), write(gradients.v)});
  b.keep({sent}, kHeldUntilSent);
}

void pass_forward(Step& step, AttentionTensors& saved) {
  forward_through(step, saved, false);
}

void pass_backward(Step& step,
                   const AttentionTensors& saved,
                   Ref gradient_of_o,
                   const QueryKeyValue& gradients) {
  backward_through(step, saved, gradient_of_o, gradients, false);
}

void gather_forward(Step& step, AttentionTensors& saved) {
  forward_through(step, saved, true);
}

void gather_backward(Step& step,
                     const AttentionTensors& saved,
                     Ref gradient_of_o,
                     const QueryKeyValue& gradients) {
  backward_through(step, saved, gradient_of_o, gradients, true);
}

}  // namespace

const ContextLoweringInfo kContextRingFlashAttention = {
    config::RingImplementation::ring_flash_attention,
    "ring_flash_attention",
    "ring: keys and values passed on P - 1 hops each way, fp32 gradients P hops",
    "ring-flash-attention",
    pass_forward,
    pass_backward};

const ContextLoweringInfo kContextPytorch = {
    config::RingImplementation::pytorch,
    "pytorch",
    "keys and values gathered each way, fp32 gradients passed on P hops",
    "pytorch",
    gather_forward,
    gather_backward};

}  // namespace trireme::plan
