// In which order the ranks of a ring hold the tokens of a sequence.
#pragma once

#include <cstdint>

#include "sim/program/mesh.h"

namespace trireme::program {

enum class OrderKind : std::uint8_t {
  contiguous,  // rank r has the r-th part
  zigzag,      // the sequence in 2 R parts: rank r has parts r and 2 R - 1 - r
  striped      // rank r has tokens r, r + R, r + 2 R, ...
};

/// Tensors of a program hold their tokens in the order of places: rank after rank. A token's
/// position in the sequence decides what it attends to and how it is rotated.
struct TokenOrder {
  OrderKind kind = OrderKind::contiguous;
  AxisMask group = 0;  // the ring; 0: no ranks
  std::int64_t ranks = 1;
  std::int64_t sequence = 1;  // tokens, a multiple of the ranks; of twice that in zigzag order

  /// EQ token-position: contiguous p = s; zigzag p = r c + w for w < c, else (2 R - 2 - r) c + w;
  ///   striped p = w R + r
  ///   s  place of a token in memory, over all ranks                      [tokens]
  ///   r  the rank that holds it: s div (S / R)                           [1]
  ///   w  its place there: s mod (S / R)                                  [tokens]
  ///   R  ranks                                                           [ranks]
  ///   S  sequence                                                        [tokens]
  ///   c  S / (2 R), a part of zigzag order                               [tokens]
  ///   p  result: its position in the sequence                            [tokens]
  /// Source: transformer-engine, get_seq_chunk_ids_for_reordering_before_attn (zigzag);
  ///   brandon2023-striped, section 3 (striped)
  /// Valid:  S a multiple of R, zigzag of 2 R
  /// Tests:  tests/unit/program/token_order_test.cpp
  [[nodiscard]] constexpr std::int64_t position(std::int64_t place) const {
    if (kind == OrderKind::contiguous || ranks == 1) {
      return place;
    }
    const std::int64_t own = sequence / ranks;
    const std::int64_t rank = place / own;
    const std::int64_t within = place % own;
    if (kind == OrderKind::striped) {
      return within * ranks + rank;
    }
    const std::int64_t part = own / 2;
    return within < part ? rank * part + within : (2 * ranks - 2 - rank) * part + within;
  }
};

}  // namespace trireme::program
