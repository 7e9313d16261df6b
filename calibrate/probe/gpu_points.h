// What is measured on a GPU, and in which order: the points alone, without a device.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

/// 4 KiB to 8 GiB in steps of 4, and 8 GiB itself.
[[nodiscard]] std::vector<Bytes> collective_payloads();

/// The smallest payload from `payload` on that `ranks` ranks share equally in parts of 16 bytes.
[[nodiscard]] Bytes divisible_payload(Bytes payload, std::int64_t ranks);

/// Attention in bf16, forward and backward of each: head dims 64, 128 and 256, causal and not, 1 K
/// to 256 K tokens with fewer heads where they are longer, so that a point takes well under a
/// second; grouped heads, and at head dim 128 also as many key/value heads as query heads. Each
/// backward point comes after the forward point whose output it needs. `unified`: also cuDNN's
/// single operation, forward and without a mask.
[[nodiscard]] std::vector<AttentionPoint> attention_points(bool unified);

/// A grid of products around those of transformers: forward, and at some sizes both gradients.
[[nodiscard]] std::vector<GemmPoint> gemm_grid();

}  // namespace trireme::calibrate
