// Kinds of work, as charts colour them and critical paths name them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/core/vocabulary.h"

namespace trireme::ledger {

enum class Work : std::uint8_t {
  attention,
  matrix_product,
  memory_bound,
  all_to_all,
  all_gather,
  reduce_scatter,
  all_reduce,
  send_recv,
  host_copy
};
inline constexpr std::array<std::string_view, 9> kWorkNames = {"attention",
                                                               "matrix product",
                                                               "memory-bound kernel",
                                                               "all-to-all",
                                                               "all-gather",
                                                               "reduce-scatter",
                                                               "all-reduce",
                                                               "send and receive",
                                                               "host and its copies"};

constexpr std::string_view name(Work value) {
  return name_in(kWorkNames, value);
}

/// The kind of a collective's work.
constexpr Work work_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_to_all:
      return Work::all_to_all;
    case CollectiveKind::all_gather:
      return Work::all_gather;
    case CollectiveKind::reduce_scatter:
      return Work::reduce_scatter;
    case CollectiveKind::all_reduce:
      return Work::all_reduce;
    case CollectiveKind::send_recv:
      return Work::send_recv;
  }
  return Work::send_recv;
}

}  // namespace trireme::ledger
