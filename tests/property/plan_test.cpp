// What every legal plan keeps, on plans drawn at random.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "sim/engine/sizes.h"
#include "sim/plan/layers.h"
#include "sim/plan/legality.h"
#include "sim/plan/lower.h"
#include "sim/plan/megatron_shared_heads.h"
#include "tests/catch.h"
#include "tests/support/random_plan.h"
#include "tests/support/unrolled_oracle.h"

namespace trireme {
namespace {

using test::describe;
using test::random_plan;

/// Calls `check(plan)` for plans of this run's seed.
template <class Check>
void for_each_plan(int count, Check check) {
  const std::uint64_t first = std::uint64_t{1000003} * Catch::getSeed();
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    const plan::Plan plan = random_plan(seed);
    CAPTURE(seed, describe(plan));
    check(plan);
  }
}

/// Ranks fill nodes of one sequence (or tensor) group.
std::int64_t gpus_per_node(const plan::Plan& plan) {
  return plan.group_degree;
}

template <class Wanted>
Bytes sent_where(const program::Program& program, std::int64_t rank, Wanted wanted) {
  Bytes sent;
  for (const ledger::ByteEntry& entry : engine::byte_entries(program, 1024, rank)) {
    if (wanted(entry.account)) {
      sent += entry.sent;
    }
  }
  return sent;
}

Bytes block_activations(const program::Program& program, Component block) {
  return sent_where(program, 0, [block](const ledger::ByteAccount& account) {
    return account.traffic == Traffic::activations && account.component == block;
  });
}

template <class Container>
Bytes sum(const Container& values) {
  Bytes total;
  for (const Bytes value : values) {
    total += value;
  }
  return total;
}

TEST_CASE("random plans are legal", "[property][plan]") {
  for_each_plan(1000, [](const plan::Plan& plan) {
    Feasibility feasibility;
    plan::check_rules(plan, feasibility);
    REQUIRE(feasibility.legal());
  });
}

TEST_CASE("over all ranks as much is received as is sent", "[property][plan]") {
  for_each_plan(200, [](const plan::Plan& plan) {
    const program::Program program = plan::lower(plan);
    ledger::ByteLedger all;
    for (std::int64_t rank = 0; rank < plan.ranks(); ++rank) {
      const ledger::ByteLedger one = engine::read_bytes(program, gpus_per_node(plan), rank);
      all.sent += one.sent;
      all.received += one.received;
      REQUIRE(one.sent >= Bytes(0));
      REQUIRE(one.received >= Bytes(0));
    }
    REQUIRE(all.sent == all.received);
    REQUIRE((all.sent > Bytes(0)) == (plan.ranks() > 1));
  });
}

TEST_CASE("a single rank sends nothing", "[property][plan]") {
  for_each_plan(100, [](plan::Plan plan) {
    plan.group_degree = 1;
    plan.exchange_degree = 1;
    plan.ring_degree = 1;
    plan.data_degree = 1;
    plan.zero_parts = 1;
    plan.expert_degree = 1;
    const program::Program program = plan::lower(plan);
    REQUIRE(engine::read_bytes(program, 1).sent == Bytes(0));
    REQUIRE(engine::byte_entries(program, 1).empty());
    for (const program::Op& op : program.ops()) {
      REQUIRE(op.function != program::Function::collective);
    }
  });
}

TEST_CASE("every breakdown of the bytes sums to the total", "[property][plan]") {
  for_each_plan(200, [](const plan::Plan& plan) {
    const program::Program program = plan::lower(plan);
    const std::int64_t rank = engine::largest_sender(program, gpus_per_node(plan));
    const ledger::ByteLedger bytes = engine::read_bytes(program, gpus_per_node(plan), rank);
    REQUIRE(sum(bytes.sent_by_phase) == bytes.sent);
    REQUIRE(sum(bytes.sent_by_collective) == bytes.sent);
    REQUIRE(sum(bytes.sent_by_link) == bytes.sent);
    Bytes by_traffic;
    for (const auto& components : bytes.sent_by_traffic) {
      by_traffic += sum(components);
    }
    REQUIRE(by_traffic == bytes.sent);
    Bytes entries;
    for (const ledger::ByteEntry& entry :
         engine::byte_entries(program, gpus_per_node(plan), rank)) {
      entries += entry.sent;
    }
    REQUIRE(entries == bytes.sent);
    for (std::int64_t other = 0; other < plan.ranks(); ++other) {
      REQUIRE(engine::read_bytes(program, gpus_per_node(plan), other).sent <= bytes.sent);
    }
  });
}

TEST_CASE("memory of a plan equals a walk over every instance", "[property][plan]") {
  for_each_plan(300, [](const plan::Plan& plan) {
    const program::Program program = plan::lower(plan);
    for (const program::Place place : {program::Place::device, program::Place::host}) {
      const test::UnrolledMemory unrolled = test::unroll_memory(program, place);
      REQUIRE(unrolled.fault == "");
      const engine::MemoryPeak peak = engine::read_peak(program, place);
      REQUIRE(peak.allocated == unrolled.peak);
      REQUIRE(peak.op == unrolled.op);
      REQUIRE(peak.allocated >= peak.resident);
      REQUIRE(unrolled.net == Bytes(0));
      REQUIRE(engine::read_net_memory(program, place) == Bytes(0));

      const ledger::MemoryLedger memory = engine::read_memory(program, place);
      REQUIRE(memory.allocated == peak.allocated);
      REQUIRE(sum(memory.by_item) == peak.allocated);
      Bytes entries;
      for (const ledger::MemoryEntry& entry : engine::memory_entries(program, place)) {
        REQUIRE(entry.bytes > Bytes(0));
        entries += entry.bytes;
      }
      REQUIRE(entries == peak.allocated);
    }
  });
}

/// The most that one reduction of gradients writes beside what it reads.
Bytes largest_shards(const program::Program& program) {
  Bytes largest;
  for (const program::Op& op : program.ops()) {
    if (op.function != program::Function::collective ||
        op.collective != CollectiveKind::reduce_scatter) {
      continue;
    }
    Bytes written;
    for (const program::Operand& operand : program.operands(op).subspan(op.operands / 2U)) {
      const program::Tensor& shard = program.tensor(operand.ref.tensor);
      if (shard.role == program::Role::gradient && shard.storage == program::Storage::own) {
        written += bytes_of(shard.local_elements, shard.type);
      }
    }
    largest = std::max(largest, written);
  }
  return largest;
}

// A reduction that hides begins when the block after it does: the shards that it writes are born
// that much later, by when what its own block held may be gone. All else lives as long or longer.
TEST_CASE(
    "overlap sends the same bytes, and holds no less memory but for shards that are born later",
    "[property][plan]") {
  for_each_plan(300, [](const plan::Plan& plan) {
    const program::Program hidden = plan::lower(plan);
    const program::Program exposed = plan::lower(test::without_overlap(plan));
    for (const std::int64_t rank : {std::int64_t{0}, plan.ranks() - 1}) {
      const ledger::ByteLedger with = engine::read_bytes(hidden, gpus_per_node(plan), rank);
      const ledger::ByteLedger without = engine::read_bytes(exposed, gpus_per_node(plan), rank);
      REQUIRE(with.sent == without.sent);
      REQUIRE(with.received == without.received);
      REQUIRE(with.sent_by_phase == without.sent_by_phase);
      REQUIRE(with.sent_by_traffic == without.sent_by_traffic);
    }
    const Bytes later = plan.overlap_gradients ? largest_shards(exposed) : Bytes(0);
    REQUIRE(engine::read_peak(hidden).allocated + later >= engine::read_peak(exposed).allocated);
    REQUIRE(engine::read_peak(hidden).resident == engine::read_peak(exposed).resident);
    REQUIRE(engine::read_flops(hidden).model.value() ==
            Approx(engine::read_flops(exposed).model.value()).epsilon(1e-12));
  });
}

TEST_CASE("a Megatron block sends 5 N (P - 1) / P, and 2 more where it is recomputed",
          "[property][plan]") {
  for_each_plan(400, [](const plan::Plan& drawn) {
    const plan::Plan plan = test::plain(drawn);
    if (plan.mlp != plan::MlpLowering::megatron || !plan.sequence_sharded) {
      return;
    }
    const program::Program program = plan::lower(plan);
    const std::int64_t context = plan.exchange_degree * plan.ring_degree;
    const std::int64_t whole = plan.micro_batch * plan.sequence / context * plan.model.hidden * 2;
    const auto expected = [&](std::int64_t recomputed) {
      // One less where forward passes keep what they gathered.
      const std::int64_t of_layer = plan.gathers_again ? 5 : 4;
      const std::int64_t transfers = of_layer * plan.model.layers + 2 * recomputed;
      return Bytes(plan.micro_batches * transfers * (whole - whole / plan.group_degree));
    };
    const std::int64_t layers = plan::recomputed_layers(plan);
    REQUIRE(block_activations(program, Component::mlp) ==
            expected(plan.recompute_modules.mlp ? plan.model.layers : layers));
    if (plan.attention == plan::AttentionLowering::megatron && context == 1) {
      // Where ranks share key/value heads, QKV is gathered and its gradient scattered besides.
      const plan::ModelShape& model = plan.model;
      const std::int64_t qkv = plan.micro_batch * plan.sequence *
                               (model.heads + 2 * model.kv_heads) * model.head_dim * 2;
      const std::int64_t gathers =
          plan::shares_key_value_heads(plan) ? 2 * model.layers + layers : 0;
      REQUIRE(block_activations(program, Component::attention) ==
              expected(layers) +
                  Bytes(plan.micro_batches * gathers * (qkv - qkv / plan.group_degree)));
    }
  });
}

TEST_CASE(
    "a Ulysses block sends e B S d (4 a + 4 g') (P - 1) / P^2, and half as much again where it "
    "or core attention is recomputed",
    "[property][plan]") {
  for_each_plan(400, [](const plan::Plan& drawn) {
    const plan::Plan plan = test::plain(drawn);
    if (plan.attention != plan::AttentionLowering::ulysses || plan.ring_degree > 1) {
      return;
    }
    const plan::ModelShape& model = plan.model;
    const std::int64_t ranks = plan.group_degree;
    const std::int64_t recomputed =
        plan.recompute_modules.core_attention ? model.layers : plan::recomputed_layers(plan);
    const std::int64_t exchanged = 2 * plan.micro_batch * plan.sequence * model.head_dim *
                                   (model.heads + plan.exchanged_kv_heads());
    REQUIRE(exchanged * (ranks - 1) % (ranks * ranks) == 0);
    const Bytes expected(plan.micro_batches * (4 * model.layers + 2 * recomputed) *
                         (exchanged * (ranks - 1) / (ranks * ranks)));
    REQUIRE(block_activations(plan::lower(plan), Component::attention) == expected);
  });
}

TEST_CASE("packed and separate exchanges send the same bytes", "[property][plan]") {
  for_each_plan(200, [](plan::Plan plan) {
    plan = test::plain(std::move(plan));
    plan.exchange = config::ExchangeKind::packed;
    const program::Program packed = plan::lower(plan);
    plan.exchange = config::ExchangeKind::separate;
    const program::Program separate = plan::lower(plan);
    for (const std::int64_t rank : {std::int64_t{0}, plan.ranks() - 1}) {
      REQUIRE(engine::read_bytes(packed, gpus_per_node(plan), rank).sent ==
              engine::read_bytes(separate, gpus_per_node(plan), rank).sent);
    }
    const bool exchanges = plan.ulysses_degree() > 1;
    REQUIRE((separate.ops().size() > packed.ops().size()) == exchanges);
  });
}

TEST_CASE("layers scale bytes linearly and leave the program's size alone", "[property][plan]") {
  for_each_plan(200, [](plan::Plan plan) {
    std::int64_t dense = 0;  // of a model with experts
    if (plan.model.experts) {
      dense = 3 * std::min<std::int64_t>(plan.model.experts->dense_layers, 1);
      plan.model.experts->dense_layers = dense;
    }
    plan.model.layers = dense + 3;  // a first, a last and one between
    plan.recompute_choice = config::LayerChoice::every;
    plan.recompute_number = 1;  // else layers are not alike
    const program::Program one = plan::lower(plan);
    plan.model.layers = dense + 4;
    const program::Program two = plan::lower(plan);
    plan.model.layers = dense + 103;
    const program::Program many = plan::lower(plan);
    for (const std::int64_t rank : {std::int64_t{0}, plan.ranks() - 1}) {
      const Bytes first = engine::read_bytes(one, gpus_per_node(plan), rank).sent;
      const Bytes each = engine::read_bytes(two, gpus_per_node(plan), rank).sent - first;
      REQUIRE(engine::read_bytes(many, gpus_per_node(plan), rank).sent == first + 100 * each);
    }
    REQUIRE(many.ops().size() == one.ops().size());
    REQUIRE(many.tensors().size() == one.tensors().size());
  });
}

TEST_CASE("the model's FLOPs do not depend on the plan", "[property][plan]") {
  for_each_plan(200, [](plan::Plan plan) {
    const double model = engine::read_flops(plan::lower(plan)).model.value();
    plan.recompute_layers = !plan.recompute_layers;
    plan.recompute_modules = {};
    plan.zero_stage = (plan.zero_stage + 1) % 4;
    plan.zero_scope = config::ZeroScope::all;
    REQUIRE(engine::read_flops(plan::lower(plan)).model.value() == model);
    // The same sequences on one rank.
    plan.micro_batch *= plan.data_degree;
    plan.data_degree = 1;
    plan.zero_parts = 1;
    plan.group_degree = 1;
    plan.exchange_degree = 1;
    plan.ring_degree = 1;
    plan.expert_degree = 1;
    REQUIRE(engine::read_flops(plan::lower(plan)).model.value() == Approx(model).epsilon(1e-12));
    plan.attention = plan::AttentionLowering::ulysses;
    plan.mlp = plan::MlpLowering::replicated;
    plan.loss = config::LossKind::eager;
    plan.sequence_sharded = true;
    REQUIRE(engine::read_flops(plan::lower(plan)).model.value() == Approx(model).epsilon(1e-12));
  });
}

TEST_CASE("a shard of ZeRO-3 is the whole over its ranks, rounded up", "[property][plan]") {
  for_each_plan(200, [](plan::Plan plan) {
    plan = test::plain(std::move(plan));
    plan.zero_scope = config::ZeroScope::all;
    plan.persistent_elements = 0;  // such weights have a whole copy besides
    plan.zero_stage = 0;
    const program::Program whole = plan::lower(plan);
    plan.zero_stage = 3;
    const program::Program sharded = plan::lower(plan);
    std::map<std::string, std::int64_t> shards;
    for (const program::Tensor& tensor : sharded.tensors()) {
      if (tensor.resident) {
        shards[program::display_name(tensor)] = tensor.local_elements.value();
      }
    }
    REQUIRE(!shards.empty());
    for (std::size_t i = 0; i < whole.tensors().size(); ++i) {
      const program::Tensor& tensor = whole.tensors()[i];
      const bool buffer = tensor.role == program::Role::workspace ||
                          tensor.role == program::Role::communication_buffer;
      if (!tensor.resident || buffer || tensor.storage != program::Storage::own) {
        continue;
      }
      CAPTURE(program::display_name(tensor));
      const auto id = static_cast<program::TensorId>(i);
      // Tensor-parallel ranks hold parts, or copies that they update alike: they do not shard.
      const bool split = tensor.layout[0].sharded();
      const bool group_shards = plan.attention != plan::AttentionLowering::megatron && !split;
      const std::int64_t data = plan.data_degree / (plan.zero_replicated ? plan.zero_parts : 1);
      const std::int64_t ranks =
          data * plan.exchange_degree * plan.ring_degree * (group_shards ? plan.group_degree : 1);
      const std::int64_t rows = whole.local_extent(id, 0);
      const std::int64_t elements = tensor.local_elements.value();
      const std::int64_t expected =
          plan.shard_rows ? ceil_div(rows, ranks) * (elements / rows) : ceil_div(elements, ranks);
      REQUIRE(shards.at(program::display_name(tensor)) == expected);
    }
  });
}

}  // namespace
}  // namespace trireme
