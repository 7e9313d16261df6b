// Which logical elements a rank's part of a tensor holds, in the order in which it holds them.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/engine/execute/kernel.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// The shape of one rank's part of a tensor, with no values yet.
[[nodiscard]] LocalTensor local_shape(const program::Mesh& mesh,
                                      const program::Tensor& tensor,
                                      std::int64_t rank);

/// Logical flat index (row-major) of every element of one rank's part; -1 for padding.
[[nodiscard]] std::vector<std::int64_t> logical_indices(const program::Mesh& mesh,
                                                        const program::Tensor& tensor,
                                                        std::int64_t rank);

/// Logical indices of a program's tensors on any rank, and the way back, worked out once each.
class Distribution {
 public:
  explicit Distribution(const program::Program& program) : program_(program) {}

  /// As logical_indices.
  [[nodiscard]] const std::vector<std::int64_t>& held(program::TensorId tensor, std::int64_t rank);

  /// Place of every logical element in the rank's part; -1 for those it does not hold.
  [[nodiscard]] const std::vector<std::int64_t>& place(program::TensorId tensor, std::int64_t rank);

  /// Place of one logical element. Throws std::logic_error, naming the tensor, when the rank does
  /// not hold it: layouts of a program do not nest.
  [[nodiscard]] std::size_t place_of(program::TensorId tensor,
                                     std::int64_t rank,
                                     std::int64_t element);

 private:
  using Key = std::pair<program::TensorId, std::int64_t>;

  const program::Program& program_;
  std::map<Key, std::vector<std::int64_t>> held_;
  std::map<Key, std::vector<std::int64_t>> place_;
};

}  // namespace trireme::engine
