// The ranges in which the whole numbers of a study are accepted, in one table.
//
// They lie far beyond any machine or model of today. Together with the limit on their products
// (study_file.cpp, check_products) they keep every later size within 63 bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "sim/units/units.h"

namespace trireme::config {

struct Bound {
  std::string_view key;
  std::int64_t lowest;
  std::int64_t highest;
};

inline constexpr Bound kBounds[] = {
    // model
    {"layers", 1, 1 << 12},
    {"hidden", 1, 1 << 17},
    {"heads", 1, 1 << 12},
    {"kv_heads", 1, 1 << 12},
    {"head_dim", 1, 1 << 12},
    {"width", 1, 1 << 20},
    {"vocabulary", 1, 1 << 24},
    {"learned_positions", 1, 1 << 27},
    {"norms_per_layer", 1, 8},
    {"rank", 1, 1 << 17},  // of latent attention
    {"window", 1, 1 << 27},
    {"full_every", 1, 1 << 12},
    {"experts", 1, 1 << 12},
    {"shared", 0, 1 << 6},
    {"dense_layers", 0, 1 << 12},
    // cluster
    {"nodes", 1, 1 << 16},
    {"gpus", 1, 1 << 10},
    // workload
    {"sequence", 1, 1 << 27},
    {"micro_batch", 1, 1 << 12},
    {"global_batch", 1, 1 << 20},
    // plans
    {"degree", 1, 1 << 20},
    {"stage", 0, 3},
    {"chunks", 1, 1 << 12},
    {"virtual_stages", 2, 1 << 6},
    {"elements", 0, 1'000'000'000'000},  // of buckets and thresholds
    // what if
    {"runs", 1, 10'000},
};

/// No product of sizes that a study gives rise to may pass this: it leaves a factor of 2^8 for
/// bytes per element, tensors per layer and the like.
inline constexpr double kLargestProduct = 36028797018963968.0;  // 2^55

/// GPUs of a cluster: each is asked what it sends, to find the one that sends most.
inline constexpr double kMostGpus = 1 << 19;

/// A parser of the whole numbers in the row `key` of kBounds; throws BadText with the range.
[[nodiscard]] std::function<std::int64_t(std::string_view)> count_within(std::string_view key);

/// A parser of tokens in the row `sequence` of kBounds.
[[nodiscard]] Tokens parse_sequence(std::string_view text);

}  // namespace trireme::config
