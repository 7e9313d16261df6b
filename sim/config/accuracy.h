// What judged runs say about predictions: topologies/accuracy/public.yaml, which
// `trireme validate --bands` writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/node.h"
#include "sim/units/units.h"

namespace trireme::config {

struct AccuracyRow {
  std::string kind;
  std::int64_t runs = 0;
  double low = 1;  // measured over predicted seconds
  double high = 1;
  double median_error = 0;
};

/// Kinds of runs are judged apart: over nodes, and longer than attention kernels were measured at.
inline constexpr std::string_view kOneNode = "on one node";
inline constexpr std::string_view kSeveralNodes = "over several nodes";
inline constexpr std::string_view kLongSequence =
    "on one node, longer than kernels were measured at";

struct AccuracySpec {
  Tokens longest_measured;  // sequence of the attention kernels behind the profiles
  std::vector<AccuracyRow> rows;

  [[nodiscard]] std::string_view kind_of(std::int64_t nodes, Tokens sequence) const {
    return nodes > 1 ? kSeveralNodes : sequence > longest_measured ? kLongSequence : kOneNode;
  }
};

/// Throws Error (input), located.
[[nodiscard]] AccuracySpec read_accuracy(const Node& root);

/// The built-in table.
[[nodiscard]] const AccuracySpec& accuracy();

}  // namespace trireme::config
