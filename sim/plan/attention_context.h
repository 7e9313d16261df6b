// Attention of own queries with the keys of the whole sequence, where ranks of a ring hold parts of
// it: keys and values travel, or are gathered. One row per implementation.
#pragma once

#include <span>
#include <string_view>

#include "sim/plan/attention.h"
#include "sim/plan/attention_kernel.h"

namespace trireme::plan {

struct ContextLoweringInfo {
  config::RingImplementation kind;
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  /// Declares and writes saved.o and saved.log_sum_exp from saved.q, k and v.
  void (*forward)(Step& step, AttentionTensors& saved);
  /// Writes the gradients of own tokens, which the caller declared, given the gradient of o.
  void (*backward)(Step& step,
                   const AttentionTensors& saved,
                   Ref gradient_of_o,
                   const QueryKeyValue& gradients);
};

[[nodiscard]] std::span<const ContextLoweringInfo> context_lowerings();

[[nodiscard]] const ContextLoweringInfo& context_lowering(config::RingImplementation kind);

extern const ContextLoweringInfo kContextTransformerEngine;
extern const ContextLoweringInfo kContextRingFlashAttention;
extern const ContextLoweringInfo kContextPytorch;
extern const ContextLoweringInfo kContextAllGather;

inline constexpr std::string_view kHeldUntilSent =
    "pytorch, isend: the message is held until it was sent";

/// Hops run beside the attention steps, unless nothing may.
[[nodiscard]] program::Completion beside_attention(const Step& step);

/// A value of own tokens with its own memory: a copy of a view, anything else as it is.
[[nodiscard]] Ref apart(Step& step, Ref tokens, std::string_view name);

/// Keys and values of one block of the ring, in one tensor [B, S', g, 2, d].
class KeyValueBlocks {
 public:
  /// Blocks like those of `own_keys`.
  KeyValueBlocks(Step& step, Ref own_keys);

  [[nodiscard]] std::int64_t ranks() const { return ranks_; }

  /// A block in memory of its own; `partial`: of gradients that ranks have yet to add to.
  [[nodiscard]] Ref declare(std::string_view name,
                            std::int64_t rotation,
                            ElementType type = ElementType::bf16,
                            bool partial = false);

  /// The block that is received after `older` was used for the last time, where there is one.
  [[nodiscard]] Ref next(std::string_view name, std::int64_t rotation, Ref older, bool reuse);

  [[nodiscard]] Ref keys(Ref block) const { return part(block, "k of a block", 0); }

  [[nodiscard]] Ref values(Ref block) const { return part(block, "v of a block", 1); }

  /// Own keys and values as block 0.
  [[nodiscard]] Ref own(Ref k, Ref v);

 private:
  [[nodiscard]] Ref part(Ref block, std::string_view name, std::int64_t which) const;

  Step& step_;
  std::int64_t ranks_;
  Shape shape_;
  Layout layout_;
};

/// The attention kernel with the keys of one block: its own output and log-sum-exp.
struct PartialAttention {
  Ref o;
  Ref log_sum_exp;
};

[[nodiscard]] PartialAttention emit_block_attention(Step& step, Ref q, Ref k, Ref v);

/// The backward pass of the same: gradients of own queries by this block, and of the block by own
/// queries.
void emit_block_attention_backward(Step& step,
                                   const AttentionTensors& saved,
                                   Ref k,
                                   Ref v,
                                   Ref gradient_of_o,
                                   const QueryKeyValue& gradients);

}  // namespace trireme::plan
