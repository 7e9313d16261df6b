#include "sim/study/routing.h"

#include <numeric>
#include <utility>

#include "sim/core/counter_random.h"
#include "sim/plan/experts.h"

namespace trireme::study {

namespace {

/// 0, ..., count - 1 in an order that `state` decides, of which the first `wanted` are drawn.
std::vector<std::int64_t> shuffled(std::int64_t count, std::int64_t wanted, std::uint64_t state) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = 0; i < wanted; ++i) {
    const auto left = static_cast<std::uint64_t>(count - i);
    const std::uint64_t drawn = mixed_bits(state ^ static_cast<std::uint64_t>(i)) % left;
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(i) + static_cast<std::size_t>(drawn)]);
  }
  order.resize(static_cast<std::size_t>(wanted));
  return order;
}

/// One layer of one step.
class LayerRouting {
 public:
  LayerRouting(const plan::Plan& plan, std::uint64_t state)
      : plan_(plan),
        state_(state),
        shards_(plan.sequence_sharded ? plan.group_degree : 1),
        slots_(plan::expert_slots(plan)) {}

  void run(std::vector<std::int64_t>& experts, std::vector<bool>& kept) {
    const std::int64_t sequences = plan_.micro_batches * plan_.micro_batch * plan_.data_degree;
    const auto choices = static_cast<std::size_t>(sequences * plan_.sequence * per_token());
    experts.resize(choices);
    kept.resize(choices);
    for (std::int64_t first = 0; first < sequences; first += plan_.micro_batch) {
      for (std::int64_t shard = 0; shard < shards_; ++shard) {
        route_source(tokens_of(first, shard), experts, kept);
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t per_token() const { return plan_.model.experts->per_token; }

  /// The tokens that one rank sends, in its order.
  [[nodiscard]] std::vector<std::int64_t> tokens_of(std::int64_t first, std::int64_t shard) const {
    std::vector<std::int64_t> tokens;
    const std::int64_t own = plan_.sequence / shards_;
    for (std::int64_t sequence = first; sequence < first + plan_.micro_batch; ++sequence) {
      for (std::int64_t i = 0; i < own; ++i) {
        tokens.push_back(sequence * plan_.sequence + shard * own + i);
      }
    }
    return tokens;
  }

  void route_source(const std::vector<std::int64_t>& tokens,
                    std::vector<std::int64_t>& experts,
                    std::vector<bool>& kept) {
    const std::int64_t count = plan_.model.experts->count;
    const auto sent = static_cast<std::int64_t>(tokens.size());
    const std::uint64_t state = mixed_bits(state_ ^ static_cast<std::uint64_t>(tokens.front() + 1));
    const bool balanced = plan_.expert_capacity <= 0;
    const auto order = shuffled(sent, sent, state);
    const auto in_turn = shuffled(count, count, mixed_bits(state));
    for (std::int64_t i = 0; i < sent; ++i) {
      const std::int64_t token =
          tokens[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
      const auto drawn =
          shuffled(count, per_token(), mixed_bits(state_ + static_cast<std::uint64_t>(token) + 1));
      for (std::int64_t j = 0; j < per_token(); ++j) {
        const std::int64_t turn = (i * per_token() + j) % count;
        experts[place(token, j)] =
            balanced ? in_turn[static_cast<std::size_t>(turn)] : drawn[static_cast<std::size_t>(j)];
      }
    }
    std::vector<std::int64_t> taken(static_cast<std::size_t>(count), 0);
    for (const std::int64_t token : tokens) {
      for (std::int64_t j = 0; j < per_token(); ++j) {
        const std::int64_t expert = experts[place(token, j)];
        kept[place(token, j)] = taken[static_cast<std::size_t>(expert)]++ < slots_;
      }
    }
  }

  [[nodiscard]] std::size_t place(std::int64_t token, std::int64_t number) const {
    return static_cast<std::size_t>(token * per_token() + number);
  }

  const plan::Plan& plan_;
  std::uint64_t state_;
  std::int64_t shards_;
  std::int64_t slots_;
};

}  // namespace

Routing route(const plan::Plan& plan, std::uint64_t seed, std::int64_t step) {
  Routing routing;
  if (!plan.model.experts) {
    return routing;
  }
  const auto layers = static_cast<std::size_t>(plan.model.layers);
  routing.experts.resize(layers);
  routing.kept.resize(layers);
  for (auto layer = static_cast<std::size_t>(plan.model.dense_layers()); layer < layers; ++layer) {
    std::uint64_t state = mixed_bits(seed ^ 0x6578706572747321U);  // apart from other numbers
    state = mixed_bits(state ^ static_cast<std::uint64_t>(step));
    state = mixed_bits(state ^ static_cast<std::uint64_t>(layer));
    LayerRouting(plan, state).run(routing.experts[layer], routing.kept[layer]);
  }
  return routing;
}

}  // namespace trireme::study
