// TransformerEngine's ring: keys and values travel in one message, a hop beside every attention
// step; outputs of all steps are put together at the end. Going backward, the ring runs the other
// way from the block that came last, and gradients of a block follow it in 16 bits.
// Source: transformer-engine, context_parallel.py, AttnFuncWithCPAndKVP2P
#include <vector>

#include "sim/plan/attention_context.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::Operand;
using program::read;
using program::update;
using program::write;

constexpr std::string_view kHop = "keys and values, next block";
constexpr std::string_view kHopBack = "keys and values and their gradients, next block";

void forward(Step& step, AttentionTensors& saved) {
  program::Builder& b = step.b;
  KeyValueBlocks blocks(step, saved.k);
  saved.q = apart(step, saved.q, "q, apart");
  std::vector<Ref> key_value{blocks.own(saved.k, saved.v)};
  std::vector<PartialAttention> parts;
  for (std::int64_t i = 0; i < blocks.ranks(); ++i) {
    const Ref block = key_value.back();
    if (i + 1 < blocks.ranks()) {
      key_value.push_back(blocks.declare("keys and values of another rank", i + 1));
      b.emit_hop(kHop, kRing, block, key_value.back(), 1, beside_attention(step));
    }
    parts.push_back(emit_block_attention(step, saved.q, blocks.keys(block), blocks.values(block)));
    const program::Tensor statistics = b.tensor(parts[0].log_sum_exp.tensor);
    if (i == 0) {
      saved.log_sum_exp = step.value(
          "log-sum-exp of every block", statistics.shape, statistics.layout, statistics.type);
      b.emit(Function::copy,
             "log-sum-exp of every block",
             {read(parts[0].log_sum_exp), write(saved.log_sum_exp)});
    } else {
      b.emit(Function::merge_log_sum_exp,
             "merge log-sum-exp",
             {read(parts.back().log_sum_exp), update(saved.log_sum_exp)});
    }
  }
  const program::Tensor q = b.tensor(saved.q.tensor);
  saved.o = step.value("attention output of every block", q.shape, q.layout);
  for (const PartialAttention& part : parts) {
    const bool first = &part == &parts.front();
    b.emit(Function::correct_output,
           "merge attention outputs",
           {read(part.o),
            read(part.log_sum_exp),
            read(saved.log_sum_exp),
            first ? write(saved.o) : update(saved.o)});
  }
  saved.key_value = key_value.back();
  key_value.pop_back();
  b.keep(key_value, "transformer-engine, p2p_comm_buffers: a list of every block");
}

/// Adds a step's gradient of the queries to that of the steps before.
void add_query_gradient(Step& step, bool first, Ref of_block, Ref sum) {
  step.b.emit(first ? Function::copy : Function::accumulate,
              "q gradient, summed over blocks",
              {read(of_block), first ? write(sum) : update(sum)});
}

void backward(Step& step,
              const AttentionTensors& saved,
              Ref gradient_of_o,
              const QueryKeyValue& gradients) {
  program::Builder& b = step.b;
  KeyValueBlocks blocks(step, saved.k);
  const program::Tensor q = b.tensor(saved.q.tensor);
  const std::int64_t ranks = blocks.ranks();
  Ref key_value = saved.key_value;
  Ref before;  // the block of the step before
  Ref sum;     // gradients of `before`, by every rank that had it
  for (std::int64_t i = 0; i < ranks; ++i) {
    const std::int64_t rotation = ranks - 1 - i;
    std::vector<Operand> from;
    std::vector<Operand> to;
    Ref next;
    Ref arriving;
    if (rotation > 0) {
      next = blocks.next("keys and values of another rank", rotation - 1, before, i > 1);
      from.push_back(read(key_value));
      to.push_back(write(next));
    }
    if (i > 0) {
      arriving =
          blocks.declare("gradient of keys and values, summed", rotation, ElementType::bf16, true);
      from.push_back(read(sum));
      to.push_back(write(arriving));
    }
    b.emit_hop(kHopBack, kRing, from, to, -1, beside_attention(step));
    const Ref d_q = step.value("q gradient by a block", q.shape, q.layout);
    const Ref own_part = blocks.declare(
        "gradient of keys and values by own queries", rotation, ElementType::bf16, true);
    emit_block_attention_backward(step,
                                  saved,
                                  blocks.keys(key_value),
                                  blocks.values(key_value),
                                  gradient_of_o,
                                  {d_q, blocks.keys(own_part), blocks.values(own_part)});
    add_query_gradient(step, i == 0, d_q, gradients.q);
    if (rotation == 0) {
      b.emit(Function::sum_blocks,
             "k gradient",
             {read(blocks.keys(arriving)), read(blocks.keys(own_part)), write(gradients.k)});
      b.emit(Function::sum_blocks,
             "v gradient",
             {read(blocks.values(arriving)), read(blocks.values(own_part)), write(gradients.v)});
      b.keep({sum}, kHeldUntilSent);
    } else if (i == 0) {
      sum = own_part;
    } else {
      b.emit(Function::accumulate,
             "gradient of keys and values, summed",
             {read(own_part), update(arriving)});
      b.keep({sum}, kHeldUntilSent);
      sum = arriving;
    }
    before = key_value;
    key_value = next;
  }
}

}  // namespace

const ContextLoweringInfo kContextTransformerEngine = {
    config::RingImplementation::transformer_engine,
    "transformer_engine",
    "ring: keys and values passed on P - 1 hops, back with their 16-bit gradients",
    "transformer-engine",
    forward,
    backward};

}  // namespace trireme::plan
