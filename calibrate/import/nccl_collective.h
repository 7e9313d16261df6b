// What the columns of an nccl-tests table mean for each of its collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "calibrate/import/nccl_row.h"
#include "sim/core/vocabulary.h"

namespace trireme::calibrate {

/// A program of nccl-tests.
struct NcclCollective {
  std::string_view name;               // all_reduce of all_reduce_perf
  std::optional<CollectiveKind> kind;  // nullopt: no plan uses it
  bool split = false;     // count is one rank's part of size, else size counts the same elements
  int bus_factor = 0;     // c of the bus bandwidth; 0: algorithm and bus bandwidth are the same
  bool reduces = false;   // a reduction is named
  bool has_root = false;  // a rank is
  bool in_place = true;   // the in-place result is meant to be right
};

[[nodiscard]] std::span<const NcclCollective> nccl_collectives();

/// The program of that name, or nullptr.
[[nodiscard]] const NcclCollective* find_nccl_collective(std::string_view name);

/// Bus over algorithm bandwidth.
//
// EQ nccl-tests-bus-bandwidth:  B = c (n - 1) / n A
//   B  bus_bandwidth                                                       [bytes/second]
//   A  algorithm bandwidth                                                 [bytes/second]
//   n  ranks                                                               [ranks]
//   c  bus_factor: 2 for all_reduce, 1 for collectives that keep one part  [1]
// Source: nccl-tests doc/PERFORMANCE.md, "Bus bandwidth"
// Valid:  B = A where bus_factor is 0: broadcast, reduce, sendrecv.
// Tests:  tests/unit/calibrate/import/nccl_collective_test.cpp
[[nodiscard]] double bus_ratio(const NcclCollective& collective, std::int64_t ranks);

/// Whether a row could be one of that program, by everything but its ranks: reduction, root, and
/// which results were compared. `columns` of the table, if it has a header.
[[nodiscard]] bool has_shape_of(const NcclCollective& collective,
                                const NcclRow& row,
                                const std::optional<TableColumns>& columns);

/// Whether size, count and type of a row agree.
[[nodiscard]] bool count_agrees(const NcclCollective& collective,
                                const NcclRow& row,
                                std::int64_t ranks);

/// Whether the bus bandwidths of a row are those of so many ranks, within the printed digits.
[[nodiscard]] bool bandwidths_agree(const NcclCollective& collective,
                                    const NcclRow& row,
                                    std::int64_t ranks);

/// A range of ranks; `most` 0: any number from `least` on.
struct RankRange {
  std::int64_t least = 1;
  std::int64_t most = 0;

  [[nodiscard]] bool is_one() const { return least == most; }

  [[nodiscard]] bool empty() const { return most != 0 && most < least; }
};

/// How many ranks the counts and bandwidths of the rows speak of together.
[[nodiscard]] RankRange ranks_by_columns(const NcclCollective& collective,
                                         const std::vector<NcclRow>& rows);

}  // namespace trireme::calibrate
