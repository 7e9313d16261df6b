// Rows of a table looked up by token. A rank answers for the rows of the table that it owns and
// gives zeros for others, so that the sum over the ranks that share the table is right.
#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

/// Whether this rank owns the row of a table; then, where it stands.
struct OwnedRow {
  bool owned = false;
  std::size_t offset = 0;  // of its first element
};

OwnedRow row_of(const LocalTensor& table, std::int64_t row) {
  const std::int64_t local = row - table.first[0];
  if (local < 0 || local >= table.valid[0]) {
    return {};
  }
  return {true, static_cast<std::size_t>(local * table.extent[1])};
}

/// Token ids are carried in doubles, as every tensor is.
std::int64_t id_of(const LocalTensor& ids, std::int64_t token) {
  return static_cast<std::int64_t>(ids.values[static_cast<std::size_t>(token)]);
}

void ensure_fit(const LocalTensor& ids, const LocalTensor& table, const LocalTensor& x) {
  ensure(ids.elements() == token_count(x) && table.extent[1] == feature_count(x),
         "embedding: operands do not fit together");
}

void add_row(const LocalTensor& table, std::int64_t row, std::span<double> to) {
  const OwnedRow from = row_of(table, row);
  for (std::size_t i = 0; from.owned && i < to.size(); ++i) {
    to[i] += table.values[from.offset + i];
  }
}

void add_to_row(std::span<const double> from, LocalTensor& table, std::int64_t row) {
  const OwnedRow to = row_of(table, row);
  for (std::size_t i = 0; to.owned && i < from.size(); ++i) {
    table.values[to.offset + i] += from[i];
  }
}

}  // namespace

// Source: megatron-lm, megatron/core/tensor_parallel/layers.py, VocabParallelEmbedding.forward
void embedding_forward(const KernelContext& context, Operands operands) {
  const LocalTensor& ids = operands[0];
  const LocalTensor& table = operands[1];
  const LocalTensor* positions = operands.size() == 4 ? &operands[2] : nullptr;
  LocalTensor& x = operands.back();
  ensure_fit(ids, table, x);
  start_sum(x);
  for (std::int64_t token = 0; token < token_count(x); ++token) {
    add_row(table, id_of(ids, token), features_of(x, token));
    if (positions != nullptr) {
      add_row(*positions, position_of(context, x, token), features_of(x, token));
    }
  }
}

void embedding_backward(const KernelContext& context, Operands operands) {
  const LocalTensor& ids = operands[0];
  const LocalTensor& dx = operands[1];
  LocalTensor& dtable = operands[2];
  LocalTensor* dpositions = operands.size() == 4 ? &operands[3] : nullptr;
  ensure_fit(ids, dtable, dx);
  for (LocalTensor& result : operands.subspan(2)) {
    start_sum(result);
  }
  for (std::int64_t token = 0; token < token_count(dx); ++token) {
    add_to_row(features_of(dx, token), dtable, id_of(ids, token));
    if (dpositions != nullptr) {
      add_to_row(features_of(dx, token), *dpositions, position_of(context, dx, token));
    }
  }
}

}  // namespace trireme::engine
