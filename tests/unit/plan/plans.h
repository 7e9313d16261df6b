// Plans written out by hand, and sums over what their programs send, for tests of lowerings.
#pragma once

#include <cstdint>

#include "sim/core/vocabulary.h"
#include "sim/engine/sizes.h"
#include "sim/ledger/ledger.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/program/program.h"

namespace trireme::test {

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// All ranks of a test share a node, unless it says otherwise.
inline constexpr std::int64_t kOneNode = 1024;

/// A model of the reference study's kind: MHA, GELU with f = 4 h, LayerNorm, no biases, no
/// vocabulary, no rotary embedding.
[[nodiscard]] inline plan::ModelShape gelu_model(std::int64_t layers,
                                                 std::int64_t hidden,
                                                 std::int64_t heads) {
  plan::ModelShape model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.mlp_width = 4 * hidden;
  model.mlp_kind = config::MlpKind::gelu;
  model.norm = config::NormKind::layernorm;
  model.rotary = false;
  return model;
}

[[nodiscard]] inline plan::ModelShape llama_8b(std::int64_t layers = 32) {
  plan::ModelShape model;
  model.layers = layers;
  model.hidden = 4096;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.mlp_width = 14336;
  model.vocabulary = 128256;
  return model;
}

/// One sequence on `degree` ranks; plain gradients, Ulysses.
[[nodiscard]] inline plan::Plan ulysses(const plan::ModelShape& model,
                                        std::int64_t degree,
                                        std::int64_t sequence) {
  plan::Plan plan;
  plan.name = "ulysses";
  plan.model = model;
  plan.group_degree = degree;
  plan.sequence = sequence;
  return plan;
}

/// Ulysses with every weight sharded; `keep`: gathered once per step, not again for backward.
[[nodiscard]] inline plan::Plan ulysses_zero3(const plan::ModelShape& model,
                                              std::int64_t degree,
                                              std::int64_t sequence,
                                              bool keep,
                                              ElementType gradient_type = ElementType::fp32) {
  plan::Plan plan = ulysses(model, degree, sequence);
  plan.name = "ulysses-zero3";
  plan.zero_stage = 3;
  plan.reshard_after_forward = !keep;
  plan.gradient_type = gradient_type;
  return plan;
}

[[nodiscard]] inline plan::Plan megatron(const plan::ModelShape& model,
                                         std::int64_t degree,
                                         std::int64_t sequence,
                                         bool sequence_parallel = true) {
  plan::Plan plan = ulysses(model, degree, sequence);
  plan.name = "megatron";
  plan.attention = plan::AttentionLowering::megatron;
  plan.mlp = plan::MlpLowering::megatron;
  plan.sequence_sharded = sequence_parallel;
  return plan;
}

/// Ulysses attention whose weights alone are sharded, Megatron MLP.
[[nodiscard]] inline plan::Plan hybrid(const plan::ModelShape& model,
                                       std::int64_t degree,
                                       std::int64_t sequence,
                                       bool keep) {
  plan::Plan plan = ulysses_zero3(model, degree, sequence, keep);
  plan.name = "hybrid";
  plan.mlp = plan::MlpLowering::megatron;
  plan.zero_scope = config::ZeroScope::attention;
  return plan;
}

[[nodiscard]] inline plan::Plan sequence_gather(const plan::ModelShape& model,
                                                std::int64_t degree,
                                                std::int64_t sequence) {
  plan::Plan plan = ulysses(model, degree, sequence);
  plan.name = "sequence-gather";
  plan.attention = plan::AttentionLowering::sequence_gather;
  return plan;
}

[[nodiscard]] inline plan::Plan data_parallel(const plan::ModelShape& model,
                                              std::int64_t degree,
                                              std::int64_t sequence,
                                              std::int64_t zero_stage) {
  plan::Plan plan = ulysses(model, 1, sequence);
  plan.name = "data-parallel";
  plan.data_degree = degree;
  plan.zero_stage = zero_stage;
  return plan;
}

/// Bytes that rank 0 sends in a step in the entries that `wanted` picks.
template <class Wanted>
[[nodiscard]] Bytes sent_where(const program::Program& program, Wanted wanted) {
  Bytes sent;
  for (const ledger::ByteEntry& entry : engine::byte_entries(program, kOneNode)) {
    if (wanted(entry)) {
      sent += entry.sent;
    }
  }
  return sent;
}

[[nodiscard]] inline Bytes sent(const program::Program& program,
                                Traffic traffic,
                                Component component) {
  return sent_where(program, [&](const ledger::ByteEntry& entry) {
    return entry.account.traffic == traffic && entry.account.component == component;
  });
}

[[nodiscard]] inline Bytes sent(const program::Program& program,
                                Traffic traffic,
                                Component component,
                                Phase phase) {
  return sent_where(program, [&](const ledger::ByteEntry& entry) {
    return entry.account.traffic == traffic && entry.account.component == component &&
           entry.account.phase == phase;
  });
}

/// What a step sends without gradient clipping's norm and without norms' parameters, which the
/// published figures leave out.
[[nodiscard]] inline Bytes sent_without_norms(const program::Program& program) {
  return sent_where(program, [](const ledger::ByteEntry& entry) {
    return entry.account.component != Component::norm &&
           entry.account.component != Component::clipping;
  });
}

/// Resident bytes of one rank, of one role.
[[nodiscard]] inline Bytes resident(const program::Program& program, program::Role role) {
  Bytes total;
  for (const program::Tensor& tensor : program.tensors()) {
    if (tensor.resident && tensor.storage == program::Storage::own && tensor.role == role) {
      total += program.resident_instances(tensor) * tensor.local_bytes();
    }
  }
  return total;
}

/// What a step needs at its peak beyond what is resident.
[[nodiscard]] inline Bytes peak_above_resident(const plan::Plan& plan) {
  const engine::MemoryPeak peak = engine::read_peak(plan::lower(plan));
  return peak.allocated - peak.resident;
}

}  // namespace trireme::test
