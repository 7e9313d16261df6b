// Parts of device buffers on the host, as numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "calibrate/probe/gpu/check.h"

namespace trireme::calibrate::gpu {

[[nodiscard]] constexpr float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// `rows` rows of `width` elements that stand `stride` elements apart from element `first` on.
/// Waits for nothing: the stream that writes them has been waited for.
template <class Element>
[[nodiscard]] std::vector<Element> read_rows(const void* device,
                                             std::int64_t first,
                                             std::int64_t rows,
                                             std::int64_t width,
                                             std::int64_t stride) {
  std::vector<Element> host(static_cast<std::size_t>(rows * width));
  const auto row_bytes = static_cast<std::size_t>(width) * sizeof(Element);
  check(cudaMemcpy2D(host.data(),
                     row_bytes,
                     static_cast<const Element*>(device) + first,
                     static_cast<std::size_t>(stride) * sizeof(Element),
                     row_bytes,
                     static_cast<std::size_t>(rows),
                     cudaMemcpyDeviceToHost),
        "cudaMemcpy2D");
  return host;
}

[[nodiscard]] inline std::vector<float> read_bf16_rows(const void* device,
                                                       std::int64_t first,
                                                       std::int64_t rows,
                                                       std::int64_t width,
                                                       std::int64_t stride) {
  const auto bits = read_rows<std::uint16_t>(device, first, rows, width, stride);
  std::vector<float> numbers;
  numbers.reserve(bits.size());
  for (const std::uint16_t element : bits) {
    numbers.push_back(from_bf16(element));
  }
  return numbers;
}

}  // namespace trireme::calibrate::gpu
