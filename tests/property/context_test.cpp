// Context parallelism: published volumes of every ring, balance of causal work over its ranks, and
// numbers of hand-picked plans.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/engine/event/event.h"
#include "sim/engine/sizes.h"
#include "sim/engine/work.h"
#include "sim/plan/layers.h"
#include "sim/plan/legality.h"
#include "sim/plan/lower.h"
#include "sim/study/verify.h"
#include "tests/catch.h"
#include "tests/support/random_plan.h"

namespace trireme {
namespace {

using config::RingImplementation;
using config::RingOrder;
using plan::AttentionLowering;
using plan::MlpLowering;
using plan::Plan;

constexpr std::array kImplementations = {RingImplementation::transformer_engine,
                                         RingImplementation::ring_flash_attention,
                                         RingImplementation::pytorch,
                                         RingImplementation::all_gather};

/// Ulysses of U ranks inside a ring of R, beside tensor parallelism of t.
Plan context(std::int64_t tensor, std::int64_t exchange, std::int64_t ring) {
  Plan plan;
  plan.name = "context";
  if (tensor > 1) {
    plan.attention = AttentionLowering::megatron;
    plan.mlp = MlpLowering::megatron;
    plan.group_degree = tensor;
    plan.exchange_degree = exchange;
  } else {
    plan.group_degree = exchange;
  }
  plan.ring_degree = ring;
  plan.order = ring > 1 ? RingOrder::zigzag : RingOrder::contiguous;
  plan.model.layers = 2;
  plan.model.hidden = 7;
  plan.model.kv_heads = 2 * tensor * exchange;
  plan.model.heads = 2 * plan.model.kv_heads;
  plan.model.head_dim = 2;
  plan.model.mlp_width = 3 * tensor;
  plan.model.vocabulary = 37;
  plan.sequence = 2 * tensor * exchange * ring;
  plan.micro_batch = 2;
  plan.micro_batches = 2;
  return plan;
}

bool legal(const Plan& plan) {
  Feasibility feasibility;
  plan::check_rules(plan, feasibility);
  return feasibility.legal();
}

void verify(const Plan& plan) {
  CAPTURE(test::describe(plan));
  REQUIRE(legal(plan));
  const auto result = study::verify_small_plan(
      plan, plan.group_degree, study::VerifyOptions{}, study::thread_ranks());
  CAPTURE(result.messages);
  CHECK(result.verdict == ledger::VerificationVerdict::equal);
}

Bytes sent_by_attention(const program::Program& program,
                        std::int64_t rank,
                        std::vector<CollectiveKind> kinds) {
  Bytes sent;
  for (const ledger::ByteEntry& entry : engine::byte_entries(program, 1024, rank)) {
    const bool wanted =
        kinds.empty() ||
        std::find(kinds.begin(), kinds.end(), entry.account.collective) != kinds.end();
    if (wanted && entry.account.traffic == Traffic::activations &&
        entry.account.component == Component::attention) {
      sent += entry.sent;
    }
  }
  return sent;
}

/// Layers of which the attention kernel runs again, with its exchanges.
std::int64_t layers_again(const Plan& plan) {
  return plan.recompute_modules.core_attention ? plan.model.layers : plan::recomputed_layers(plan);
}

/// Bytes of a ring in the layers of a micro batch for a block of b bytes (cost-model, ring).
std::int64_t ring_bytes(const Plan& plan, std::int64_t block) {
  const std::int64_t ranks = plan.ring_degree;
  if (ranks == 1) {
    return 0;
  }
  const std::int64_t forward = block * (ranks - 1);
  const bool fp32 = plan.ring == RingImplementation::ring_flash_attention ||
                    plan.ring == RingImplementation::pytorch;
  const std::int64_t backward = fp32 ? forward + 2 * block * ranks : 2 * forward;
  return plan.model.layers * (forward + backward) + layers_again(plan) * forward;
}

/// Both levels, of one tensor-parallel rank.
Bytes context_bytes(const Plan& plan) {
  const plan::ModelShape& model = plan.model;
  const std::int64_t tensor = plan.attention == AttentionLowering::megatron ? plan.group_degree : 1;
  const std::int64_t exchange = plan.ulysses_degree();
  const std::int64_t ranks = exchange * plan.ring_degree;
  // Tensor-parallel ranks that share a key/value head have a copy each.
  const std::int64_t kv_heads = std::max(plan.exchanged_kv_heads(), tensor);
  const std::int64_t of_token = 2 * plan.micro_batch * model.head_dim;  // bytes of one head
  const std::int64_t all = of_token * plan.sequence * (4 * model.layers + 2 * layers_again(plan)) *
                           (model.heads + kv_heads) / tensor;
  const std::int64_t block = 2 * of_token * (plan.sequence / ranks) * kv_heads / tensor;
  const std::int64_t each = all * (exchange - 1) / (exchange * ranks) + ring_bytes(plan, block);
  return Bytes(plan.micro_batches * each);
}

TEST_CASE("rings: 3 b (P - 1) in 16 bits and gathered, b (P - 1) + b (P - 1) + 2 b P in fp32",
          "[property][plan]") {
  for (const RingImplementation kind : kImplementations) {
    for (const std::int64_t ranks : {2, 3, 4, 8, 16}) {
      for (const std::int64_t tokens : {2, 6, 40}) {
        Plan plan = context(1, 1, ranks);
        plan.ring = kind;
        plan.sequence = tokens * ranks;
        CAPTURE(test::describe(plan));
        REQUIRE(legal(plan));
        const program::Program program = plan::lower(plan);
        const std::int64_t block = 2 * 2 * plan.micro_batch * tokens * plan.model.kv_heads * 2;
        const bool fp32 =
            kind == RingImplementation::ring_flash_attention || kind == RingImplementation::pytorch;
        const std::int64_t each =
            fp32 ? 2 * block * (ranks - 1) + 2 * block * ranks : 3 * block * (ranks - 1);
        for (const std::int64_t rank : {std::int64_t{0}, ranks - 1}) {
          CHECK(sent_by_attention(program, rank, {}) == Bytes(2 * 2 * each));
        }
      }
    }
  }
}

TEST_CASE("USP: e B S d (4 a + 4 g') (U - 1) / (U P), and the ring's with R for P",
          "[property][plan]") {
  for (const RingImplementation kind : kImplementations) {
    for (const std::int64_t exchange : {1, 2, 4, 8}) {
      for (const std::int64_t ring : {1, 2, 3, 8}) {
        for (const std::int64_t kv_heads : {1, 2, 4, 16}) {
          Plan plan = context(1, exchange, ring);
          plan.ring = kind;
          plan.model.heads = 16;
          plan.model.kv_heads = kv_heads;
          CAPTURE(test::describe(plan));
          REQUIRE(legal(plan));
          CHECK(sent_by_attention(plan::lower(plan), 0, {}) == context_bytes(plan));
        }
      }
    }
  }
}

TEST_CASE("random plans send what their exchange and ring have to", "[property][plan]") {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  int rings = 0;
  for (std::uint64_t seed = first; seed < first + 300; ++seed) {
    const Plan plan = test::plain(test::random_plan(seed));
    CAPTURE(seed, test::describe(plan));
    if (plan.attention == AttentionLowering::sequence_gather) {
      continue;
    }
    rings += plan.ring_degree > 1 ? 1 : 0;
    const program::Program program = plan::lower(plan);
    if (plan.attention == AttentionLowering::ulysses) {
      CHECK(sent_by_attention(program, 0, {}) == context_bytes(plan));
    } else if (plan.overlap_tensor != config::TensorParallelOverlap::ring_exchange &&
               plan.ring != RingImplementation::pytorch &&
               plan.ring != RingImplementation::all_gather) {
      const std::vector kinds = {CollectiveKind::all_to_all, CollectiveKind::send_recv};
      CHECK(sent_by_attention(program, 0, kinds) == context_bytes(plan));
    }
  }
  CHECK(rings > 30);
}

/// Attention's operations of each rank in one layer and micro batch, by the ledger of kernels.
std::vector<double> attention_flops(const Plan& plan) {
  const program::Program program = plan::lower(plan);
  std::vector<double> flops(static_cast<std::size_t>(plan.ring_degree), 0);
  for (const program::Op& op : program.ops()) {
    if (op.function != program::Function::attention_forward) {
      continue;
    }
    for (std::int64_t rank = 0; rank < plan.ring_degree; ++rank) {
      const engine::AttentionKernels kernels =
          engine::attention_kernels(program, op, engine::Extents::local, rank);
      for (const cost::AttentionShape& kernel : kernels.all()) {
        flops[static_cast<std::size_t>(rank)] += cost::attention_forward_flops(kernel).value();
      }
    }
  }
  return flops;
}

TEST_CASE("zigzag and striped order balance causal work, contiguous order does not",
          "[property][engine]") {
  for (const RingImplementation kind : kImplementations) {
    for (const std::int64_t ranks : {2, 3, 8}) {
      Plan plan = context(1, 1, ranks);
      plan.ring = kind;
      plan.sequence = 64 * ranks;
      CAPTURE(test::describe(plan));
      // 4 B a d S^2 / 2 over the ranks.
      const auto pairs = static_cast<double>(plan.sequence) * static_cast<double>(plan.sequence);
      const double all = 4 * 2 * static_cast<double>(plan.model.heads) * 2 * pairs / 2;
      for (const double flops : attention_flops(plan)) {
        CHECK(flops == Approx(all / static_cast<double>(ranks)).epsilon(1e-12));
      }
      if (kind == RingImplementation::ring_flash_attention) {
        plan.order = RingOrder::striped;
        for (const double flops : attention_flops(plan)) {
          CHECK(flops == Approx(all / static_cast<double>(ranks)).epsilon(1e-12));
        }
      }
      plan.order = RingOrder::contiguous;
      const std::vector<double> uneven = attention_flops(plan);
      for (std::size_t rank = 0; rank < uneven.size(); ++rank) {  // its own tokens and all before
        const double share =
            (2 * static_cast<double>(rank) + 1) / static_cast<double>(ranks * ranks);
        CHECK(uneven[rank] == Approx(all * share).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("verified: every ring in every order", "[property][verify]") {
  for (const RingImplementation kind : kImplementations) {
    for (const RingOrder order : {RingOrder::contiguous, RingOrder::zigzag, RingOrder::striped}) {
      for (const bool causal : {false, true}) {
        for (const std::int64_t ring : {2, 3, 4}) {
          Plan plan = context(1, 1, ring);
          plan.ring = kind;
          plan.order = order;
          plan.causal = causal;
          plan.sequence = 4 * ring;
          plan.recompute_layers = ring == 3;
          plan.zero_stage = ring == 4 ? 3 : 0;
          if (legal(plan)) {
            verify(plan);
          }
        }
      }
    }
  }
}

TEST_CASE("verified: Ulysses inside a ring, beside tensor parallelism", "[property][verify]") {
  for (const RingImplementation kind : kImplementations) {
    for (const std::int64_t tensor : {1, 2}) {
      for (const std::int64_t exchange : {1, 2}) {
        for (const std::int64_t ring : {1, 2}) {
          for (const bool sequence : {false, true}) {
            Plan plan = context(tensor, exchange, ring);
            plan.ring = kind;
            plan.sequence *= 3;
            plan.data_degree = tensor * exchange * ring < 8 ? 2 : 1;
            plan.sequence_sharded = tensor == 1 || sequence;
            plan.exchange =
                sequence ? config::ExchangeKind::packed : config::ExchangeKind::separate;
            plan.zero_stage = sequence ? 3 : 1;
            plan.model.learned_positions = sequence ? 5 : 0;
            verify(plan);
          }
        }
      }
    }
  }
}

TEST_CASE("verified: fewer key/value heads than ranks of the exchange, inside a ring",
          "[property][verify]") {
  for (const RingImplementation kind : kImplementations) {
    Plan plan = context(1, 4, 2);
    plan.ring = kind;
    plan.model.kv_heads = 2;
    plan.model.heads = 8;
    plan.mlp = MlpLowering::megatron;  // the hybrid's
    plan.model.mlp_width = 12;
    verify(plan);
  }
}

}  // namespace
}  // namespace trireme
