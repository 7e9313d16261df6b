// Heads of tensor-parallel ranks that share key and value heads: each takes its own of the packed
// queries, keys and values of every head, and returns their gradients.
#include <cstddef>
#include <cstdint>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

/// Where the elements of own queries and keys stand among the packed [.., groups, a/g + 2, d].
class PackedHeads {
 public:
  PackedHeads(const LocalTensor& packed, const LocalTensor& queries)
      : groups_(packed.extent[2]),
        within_(packed.extent[3]),
        head_dim_(packed.extent[4]),
        ranks_(queries.tensor->shape[2].size),
        per_rank_(queries.extent[3]),
        first_(queries.first[2]) {}

  /// Of query head `head` of the `i`-th own group, at token `token`.
  [[nodiscard]] std::size_t query(std::int64_t token, std::int64_t i, std::int64_t head) const {
    const std::int64_t number = (first_ + i) * per_rank_ + head;
    const std::int64_t queries = within_ - 2;
    return place(token, number / queries, number % queries);
  }

  /// Of the key (0) or value (1) head of the `i`-th own group.
  [[nodiscard]] std::size_t key_value(std::int64_t token,
                                      std::int64_t i,
                                      std::int64_t which) const {
    return place(token, (first_ + i) * groups_ / ranks_, within_ - 2 + which);
  }

 private:
  [[nodiscard]] std::size_t place(std::int64_t token, std::int64_t group, std::int64_t at) const {
    return static_cast<std::size_t>(((token * groups_ + group) * within_ + at) * head_dim_);
  }

  std::int64_t groups_;
  std::int64_t within_;
  std::int64_t head_dim_;
  std::int64_t ranks_;  // own groups of all ranks
  std::int64_t per_rank_;
  std::int64_t first_;
};

/// Calls `visit(own tensor, its offset, packed offset)` for every own head of every token.
template <class Visit>
void for_each_head(const LocalTensor& packed, const LocalTensor& queries, Visit visit) {
  const PackedHeads heads(packed, queries);
  const std::int64_t own = queries.extent[2];
  const std::int64_t per_group = queries.extent[3];
  const auto head_dim = static_cast<std::size_t>(queries.extent[4]);
  for (std::int64_t token = 0; token < token_count(queries); ++token) {
    for (std::int64_t i = 0; i < own; ++i) {
      const auto group = static_cast<std::size_t>(token * own + i);
      for (std::int64_t head = 0; head < per_group; ++head) {
        const std::size_t at = group * static_cast<std::size_t>(per_group);
        visit(0, (at + static_cast<std::size_t>(head)) * head_dim, heads.query(token, i, head));
      }
      visit(1, group * head_dim, heads.key_value(token, i, 0));
      visit(2, group * head_dim, heads.key_value(token, i, 1));
    }
  }
}

}  // namespace

void take_heads(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& packed = operands[0];
  const auto head_dim = static_cast<std::size_t>(operands[1].extent[4]);
  for_each_head(packed, operands[1], [&](std::size_t which, std::size_t own, std::size_t place) {
    for (std::size_t e = 0; e < head_dim; ++e) {
      operands[1 + which].values[own + e] = packed.values[place + e];
    }
  });
}

void return_heads(const KernelContext& /*context*/, Operands operands) {
  LocalTensor& packed = operands[3];
  const auto head_dim = static_cast<std::size_t>(operands[0].extent[4]);
  std::fill(packed.values.begin(), packed.values.end(), 0.0);
  for_each_head(packed, operands[0], [&](std::size_t which, std::size_t own, std::size_t place) {
    for (std::size_t e = 0; e < head_dim; ++e) {
      packed.values[place + e] += operands[which].values[own + e];
    }
  });
}

}  // namespace trireme::engine
