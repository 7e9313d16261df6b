#include "sim/engine/sizes.h"

#include <map>
#include <numeric>
#include <string>

#include "tests/catch.h"
#include "tests/unit/engine/small_program.h"

namespace trireme::engine {
namespace {

using program::AxisMask;
using program::Builder;
using program::Function;
using program::Index;
using program::Layout;
using program::Placement;
using program::Program;
using program::read;
using program::Role;
using program::Shape;
using program::TensorId;
using program::TensorSpec;
using program::update;
using program::write;

constexpr AxisMask kGroup = program::axis_bit(0);
constexpr Placement kWhole = Placement::replicate();
constexpr Placement kPartial = Placement::partial_sum();
constexpr Placement kSequence = Placement::shard(program::kSequenceDim);
constexpr Placement kFeatures = Placement::shard(program::kFeatureDim);
constexpr Placement kFlat = Placement::shard(Placement::kFlat);

TensorSpec tensor(const Shape& shape,
                  Placement placement,
                  AxisMask axes = kGroup,
                  ElementType type = ElementType::bf16) {
  TensorSpec spec = resident("x", shape, Layout().with(axes, placement));
  spec.type = type;
  return spec;
}

const Shape kHidden{{1, "B"}, {8, "S"}, {4, "h"}};  // 32 elements
const Shape kOne{{1, "1"}};

Program all_reduce_of_one_number() {
  Builder builder = small_program({{"group", 4}});
  emit_collective(builder,
                  CollectiveKind::all_reduce,
                  kGroup,
                  tensor(kOne, kPartial, kGroup, ElementType::fp32),
                  tensor(kOne, kWhole, kGroup, ElementType::fp32));
  return std::move(builder).close();
}

TEST_CASE("bytes: each collective, times its executions, under its headings", "[engine]") {
  Builder builder = small_program({{"group", 4}}, 2, 3);
  builder.repeat(Index::micro_batch, 0, 1, 2, [&] {
    builder.repeat(Index::layer, 0, 1, 3, [&] {
      builder.begin_segment("layer");
      builder.set_component(Component::mlp);
      emit_collective(builder,
                      CollectiveKind::all_gather,
                      kGroup,
                      tensor(kHidden, kSequence),
                      tensor(kHidden, kWhole));
    });
    builder.begin_segment("after");
    builder.set_phase(Phase::backward);
    TensorSpec gradient = tensor({{10, "h"}}, kPartial, kGroup, ElementType::fp32);
    gradient.role = Role::gradient;
    gradient.component = Component::norm;
    TensorSpec shard = gradient;
    shard.layout = Layout().with(kGroup, kFlat);
    shard.pad_multiple = 1;
    emit_collective(builder, CollectiveKind::reduce_scatter, kGroup, gradient, shard);
  });
  const Program program = std::move(builder).close();
  const ledger::ByteLedger bytes = read_bytes(program, 8);

  // all-gather: 32 elements of 2 bytes, 64 * 3 / 4 = 48, six times; reduce-scatter: 10 elements
  // padded to 12 of 4 bytes, 48 * 3 / 4 = 36, twice
  CHECK(bytes.sent == Bytes(6 * 48 + 2 * 36));
  CHECK(bytes.received == bytes.sent);
  using ledger::index;
  CHECK(bytes.sent_by_phase[index(Phase::forward)] == Bytes(288));
  CHECK(bytes.sent_by_phase[index(Phase::backward)] == Bytes(72));
  const auto& activations = bytes.sent_by_traffic[index(Traffic::activations)];
  CHECK(activations[index(Component::mlp)] == Bytes(288));  // the operation's component
  const auto& gradients = bytes.sent_by_traffic[index(Traffic::gradients)];
  CHECK(gradients[index(Component::norm)] == Bytes(72));  // the gradient's own
  CHECK(bytes.sent_by_collective[index(CollectiveKind::all_gather)] == Bytes(288));
  CHECK(bytes.sent_by_collective[index(CollectiveKind::reduce_scatter)] == Bytes(72));
  CHECK(bytes.sent_by_link[index(LinkClass::nvlink)] == Bytes(360));
  CHECK(bytes.sent_by_link[index(LinkClass::nic)] == Bytes(0));

  const auto entries = byte_entries(program, 8);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].group == "group");
  CHECK(entries[0].ranks == 4);
  CHECK(entries[0].count == 6);
  CHECK(entries[0].payload == "gathered");
  CHECK(entries[0].payload_bytes == Bytes(64));
  CHECK(entries[0].sent == Bytes(288));
  CHECK(entries[1].payload == "reduced");
  CHECK(entries[1].payload_bytes == Bytes(48));  // padding included
  CHECK(entries[1].sent == Bytes(72));
}

TEST_CASE("bytes: a coalesced collective carries each of its tensors", "[engine]") {
  Builder builder = small_program({{"group", 4}});
  const std::array from{read(builder.declare(tensor(kHidden, kSequence))),
                        read(builder.declare(tensor({{1, "B"}, {8, "S"}, {2, "h"}}, kSequence)))};
  const std::array to{write(builder.declare(tensor(kHidden, kWhole))),
                      write(builder.declare(tensor({{1, "B"}, {8, "S"}, {2, "h"}}, kWhole)))};
  builder.emit_collective(CollectiveKind::all_gather, "both", kGroup, from, to);
  const Program program = std::move(builder).close();
  CHECK(read_bytes(program, 8).sent == Bytes(48 + 24));
  CHECK(byte_entries(program, 8).size() == 2);
}

TEST_CASE("bytes: one number all-reduced over four ranks", "[engine]") {
  // One chunk of four bytes travels 3 hops to be summed and 3 to be spread: 24 bytes. It is rank
  // 0's chunk: rank 3 does not send it on when it spreads, rank 0 not when it is summed.
  const Program program = all_reduce_of_one_number();
  const std::array<std::int64_t, 4> sent = {4, 8, 8, 4};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(read_bytes(program, 8, rank).sent == Bytes(sent[static_cast<std::size_t>(rank)]));
  }
}

TEST_CASE("bytes: sent equal received over the group where payloads do not divide", "[engine]") {
  const auto sums = [](const Program& program, std::int64_t gpus_per_node) {
    std::pair<Bytes, Bytes> sum;
    for (std::int64_t rank = 0; rank < program.mesh().ranks(); ++rank) {
      const ledger::ByteLedger bytes = read_bytes(program, gpus_per_node, rank);
      sum.first += bytes.sent;
      sum.second += bytes.received;
    }
    return sum;
  };
  SECTION("all-reduce of 10 elements over 4 ranks") {
    Builder builder = small_program({{"group", 4}});
    const Shape ten{{10, "h"}};
    emit_collective(
        builder, CollectiveKind::all_reduce, kGroup, tensor(ten, kPartial), tensor(ten, kWhole));
    const auto [sent, received] = sums(std::move(builder).close(), 2);
    CHECK(sent == Bytes(2 * 3 * 10 * 2));  // 2 (P - 1) N
    CHECK(received == sent);
  }
  SECTION("all-to-all of 10 features over 4 ranks") {
    Builder builder = small_program({{"group", 4}});
    const Shape x{{1, "B"}, {4, "S"}, {10, "h"}};
    TensorSpec by_feature = tensor(x, kFeatures);
    by_feature.pad_multiple = 1;
    emit_collective(builder, CollectiveKind::all_to_all, kGroup, tensor(x, kSequence), by_feature);
    const auto [sent, received] = sums(std::move(builder).close(), 2);
    // each rank holds 10 elements, in chunks of 3, 3, 2 and 2, and keeps its own: 40 - 10 are sent
    CHECK(sent == Bytes(30 * 2));
    CHECK(received == sent);
  }
}

TEST_CASE("bytes: the rank that sends most", "[engine]") {
  CHECK(largest_sender(all_reduce_of_one_number(), 8) == 1);  // 8 bytes, and rank 2 as well
  Builder builder = small_program({{"group", 4}});
  emit_collective(builder,
                  CollectiveKind::all_gather,
                  kGroup,
                  tensor(kHidden, kSequence),
                  tensor(kHidden, kWhole));
  CHECK(largest_sender(std::move(builder).close(), 8) == 0);  // all the same
}

TEST_CASE("bytes: by link on two nodes of two ranks", "[engine]") {
  constexpr AxisMask kInner = program::axis_bit(0);
  constexpr AxisMask kOuter = program::axis_bit(1);
  constexpr AxisMask kBoth = kInner | kOuter;
  const auto links = [&](CollectiveKind kind, AxisMask group, Placement from, Placement to) {
    Builder builder = small_program({{"inner", 2}, {"outer", 2}});
    emit_collective(builder, kind, group, tensor(kHidden, from, group), tensor(kHidden, to, group));
    const ledger::ByteLedger bytes = read_bytes(std::move(builder).close(), 2);
    return std::pair(bytes.sent_by_link[ledger::index(LinkClass::nvlink)],
                     bytes.sent_by_link[ledger::index(LinkClass::nic)]);
  };
  using enum CollectiveKind;
  // 64 bytes over 2 ranks: 32 sent
  CHECK(links(all_gather, kInner, kSequence, kWhole) == std::pair(Bytes(32), Bytes(0)));
  CHECK(links(all_gather, kOuter, kSequence, kWhole) == std::pair(Bytes(0), Bytes(32)));
  // over 4 ranks: 48 sent; on a ring half of a node's ranks have their successor elsewhere
  CHECK(links(all_gather, kBoth, kSequence, kWhole) == std::pair(Bytes(24), Bytes(24)));
  // 8 elements held, 2 for each rank: one peer on the node, two off it
  CHECK(links(all_to_all, kBoth, kSequence, kFeatures) == std::pair(Bytes(4), Bytes(8)));
}

// --- memory ---

TensorSpec bytes_of_memory(std::string_view name, std::int64_t bytes, program::IndexMask varies) {
  TensorSpec spec;
  spec.name = name;
  spec.type = ElementType::fp8;
  spec.shape = {{bytes, "n"}};
  spec.varies = varies;
  return spec;
}

/// Three layers save 100 bytes each; backward frees them, with a temporary of 30. A weight of 7
/// bytes per layer is resident.
Program forward_and_backward() {
  Builder builder = small_program({}, 1, 3);
  TensorSpec weight = bytes_of_memory("weight", 7, program::kPerLayer);
  weight.role = Role::parameter;
  weight.resident = true;
  const TensorId w = builder.declare(weight);
  const TensorId saved = builder.declare(bytes_of_memory("saved", 100, program::kPerLayer));
  const TensorId scratch = builder.declare(bytes_of_memory("scratch", 30, program::kPerLayer));
  builder.repeat(Index::layer, 0, 1, 3, [&] {
    builder.begin_segment("forward");
    builder.emit(Function::zero, "save", {read(w), write(saved)});
  });
  builder.set_phase(Phase::backward);
  builder.repeat(Index::layer, 2, -1, 3, [&] {
    builder.begin_segment("backward");
    builder.emit(Function::zero, "make", {read(saved), write(scratch)});
    builder.emit(Function::zero, "use", {read(scratch)});
  });
  return std::move(builder).close();
}

TEST_CASE("memory: the peak, its instant, and what fills it", "[engine]") {
  const Program program = forward_and_backward();
  // 3 * 7 resident, 3 * 100 saved, and 30 in the first iteration of backward, before its layer's
  // 100 are freed
  const MemoryPeak peak = read_peak(program);
  CHECK(peak.resident == Bytes(21));
  CHECK(peak.allocated == Bytes(21 + 300 + 30));
  CHECK(program.op(peak.op).label == "make");
  CHECK(read_net_memory(program) == Bytes(0));

  const ledger::MemoryLedger memory = read_memory(program);
  CHECK(memory.allocated == Bytes(351));
  CHECK(memory.instant == "backward, layer 2, attention: make");
  CHECK(memory.by_item[ledger::index(MemoryItem::parameters)] == Bytes(21));
  CHECK(memory.by_item[ledger::index(MemoryItem::saved_activations)] == Bytes(300));
  CHECK(memory.by_item[ledger::index(MemoryItem::temporaries)] == Bytes(30));

  const auto entries = memory_entries(program);
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].tensor == "saved");
  CHECK(entries[0].instances == 3);
  CHECK(entries[0].bytes == Bytes(300));
  CHECK(entries[1].tensor == "scratch");
  CHECK(entries[2].tensor == "weight");
  CHECK(entries[2].instances == 3);
  CHECK(entries[2].shape_numbers == "[7]");
}

TEST_CASE("memory: a repeat that grows peaks in its last iteration", "[engine]") {
  Builder builder = small_program({}, 1, 3);
  const TensorId saved = builder.declare(bytes_of_memory("saved", 100, program::kPerLayer));
  const TensorId scratch = builder.declare(bytes_of_memory("scratch", 30, program::kPerLayer));
  builder.repeat(Index::layer, 0, 1, 3, [&] {
    builder.begin_segment("forward");
    builder.emit(Function::zero, "make", {write(saved), write(scratch)});
    builder.emit(Function::zero, "use", {read(scratch)});
  });
  builder.repeat(Index::layer, 0, 1, 3, [&] {
    builder.begin_segment("free");
    builder.emit(Function::zero, "free", {read(saved)});
  });
  const Program program = std::move(builder).close();
  CHECK(read_memory(program).allocated == Bytes(330));
  CHECK(read_memory(program).instant == "forward, layer 2, attention: make");
}

TEST_CASE("memory: a program without operations holds what is resident", "[engine]") {
  Builder builder = small_program({});
  builder.declare(resident("x", {{5, "n"}}));
  const Program program = std::move(builder).close();
  CHECK(read_peak(program).allocated == Bytes(10));
  CHECK(read_memory(program).allocated == Bytes(10));
  CHECK(read_memory(program).instant == "no operation");
}

// --- operation counts ---

TEST_CASE("flops: matrix products of one rank and of the model", "[engine]") {
  Builder builder = small_program({{"group", 4}}, 1, 3);
  const Shape weight_shape{{6, "f"}, {4, "h"}};
  const TensorId x = builder.declare(tensor(kHidden, kSequence));
  const TensorId weight = builder.declare(tensor(weight_shape, kWhole));
  const TensorId y = builder.declare(tensor({{1, "B"}, {8, "S"}, {6, "f"}}, kSequence));
  const auto emit = [&](Phase phase) {
    builder.set_phase(phase);
    builder.emit(Function::gemm_forward, "gemm", {read(x), read(weight), update(y)});
  };
  builder.repeat(Index::layer, 0, 1, 3, [&] {
    builder.begin_segment("layer");
    emit(Phase::forward);
    emit(Phase::recompute);
  });
  const ledger::FlopLedger flops = read_flops(std::move(builder).close());
  // 2 * 8 * 6 * 4 = 384 over all ranks, 96 on each of four; three layers; recomputed once, which
  // the model does not require
  CHECK(flops.model == Flops(3 * 384));
  CHECK(flops.model_full_attention == Flops(3 * 384));
  CHECK(flops.executed == Flops(2 * 3 * 96));
}

TEST_CASE("flops: gradients of a matrix product, and padding", "[engine]") {
  Builder builder = small_program({{"group", 4}});
  // a vocabulary of 5 rows, padded to 8: two on each rank
  const Shape weight_shape{{5, "V"}, {4, "h"}};
  TensorSpec weight_spec = tensor(weight_shape, Placement::shard(0));
  weight_spec.pad_multiple = 1;
  TensorSpec logits_spec = tensor({{1, "B"}, {8, "S"}, {5, "V"}}, kFeatures);
  logits_spec.pad_multiple = 1;
  const TensorId x = builder.declare(tensor(kHidden, kWhole));
  const TensorId weight = builder.declare(weight_spec);
  const TensorId dweight = builder.declare(weight_spec);
  const TensorId logits = builder.declare(logits_spec);
  const TensorId dx = builder.declare(tensor(kHidden, kPartial));
  builder.set_phase(Phase::backward);
  builder.emit(Function::gemm_input_gradient, "dx", {read(logits), read(weight), update(dx)});
  builder.emit(Function::gemm_weight_gradient, "dw", {read(logits), read(x), update(dweight)});
  const ledger::FlopLedger flops = read_flops(std::move(builder).close());
  CHECK(flops.model == Flops(2 * (2 * 8 * 5 * 4)));
  CHECK(flops.executed == Flops(2 * (2 * 8 * 2 * 4)));
}

/// Attention forward and backward of 8 tokens, 4 heads of 4, with queries placed as `q`.
ledger::FlopLedger attention_flops(Placement q, Placement k, bool causal) {
  Builder builder = small_program({{"group", 2}});
  const Shape queries{{1, "B"}, {8, "S"}, {2, "g"}, {2, "a/g"}, {4, "d"}};
  const Shape keys{{1, "B"}, {8, "S"}, {2, "g"}, {4, "d"}};
  const Shape per_head{{1, "B"}, {8, "S"}, {2, "g"}, {2, "a/g"}};
  const auto declare = [&](const Shape& shape, Placement placement) {
    return builder.declare(tensor(shape, placement));
  };
  const TensorId query = declare(queries, q);
  const TensorId key = declare(keys, k);
  const TensorId o = declare(queries, q);
  const TensorId log_sum_exp = declare(per_head, q);
  const TensorId dq = declare(queries, q);
  const TensorId dk = declare(keys, q == kSequence ? kPartial : k);
  builder
      .emit(Function::attention_forward,
            "attention",
            {read(query), read(key), read(key), update(o), update(log_sum_exp)})
      .causal = causal;
  builder.set_phase(Phase::backward);
  builder
      .emit(Function::attention_backward,
            "attention backward",
            {read(query),
             read(key),
             read(key),
             read(o),
             read(log_sum_exp),
             read(o),
             update(dq),
             update(dk),
             update(dk)})
      .causal = causal;
  return read_flops(std::move(builder).close());
}

TEST_CASE("flops: attention, full and causal", "[engine]") {
  // forward 4 * 8 * 8 * 4 * 4 = 4,096; backward twice that in the model, 2.5 times in the kernel
  const ledger::FlopLedger full = attention_flops(kWhole, kWhole, false);
  CHECK(full.model == Flops(3 * 4096));
  CHECK(full.model_full_attention == Flops(3 * 4096));
  CHECK(full.executed == Flops(3.5 * 4096));
  const ledger::FlopLedger causal = attention_flops(kWhole, kWhole, true);
  CHECK(causal.model == Flops(3 * 2048));
  CHECK(causal.model_full_attention == Flops(3 * 4096));
  CHECK(causal.executed == Flops(3.5 * 2048));
}

TEST_CASE("flops: attention by heads and by queries", "[engine]") {
  // half the heads on each of two ranks
  const ledger::FlopLedger heads = attention_flops(kFeatures, kFeatures, true);
  CHECK(heads.model == Flops(3 * 2048));
  CHECK(heads.executed == Flops(3.5 * 1024));
  // Half the queries on each of two ranks. The first half sees half of 4 keys, 4 * 4 heads * 4 * 4
  // queries * 2 keys = 512; the last sees 4 whole ones and half of the other 4, 1,536.
  const ledger::FlopLedger queries = attention_flops(kSequence, kWhole, true);
  CHECK(queries.model == Flops(3 * 2048));
  CHECK(queries.executed == Flops(3.5 * (512 + 1536) / 2));
}

}  // namespace
}  // namespace trireme::engine
