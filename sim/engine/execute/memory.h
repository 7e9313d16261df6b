// The private memory of one rank: what is alive, under which name, and how much it is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/engine/execute/distribution.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// Values of the loop indices that select an instance; zero for those a tensor does not vary over.
using InstanceIndex = std::array<std::int32_t, program::kIndexCount>;

/// A program that asks for what is not there. The message names the tensor.
class ExecutionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How many instances of a tensor are in memory.
struct AliveTensor {
  program::TensorId tensor = program::kNoTensor;
  std::int64_t instances = 0;
};

/// Pieces of memory by owner and instance. A piece holds the values of one tensor at a time: the
/// owner, or the successor that took it over in place; views read and write parts of that.
class RankMemory {
 public:
  RankMemory(const program::Program& program, std::int64_t rank);

  /// Brings an instance into being, with values that nobody has written yet (NaN).
  void allocate(program::TensorId owner, const InstanceIndex& instance);

  /// Throws ExecutionError when there is no such instance.
  void free(program::TensorId owner, const InstanceIndex& instance);

  /// Frees the instances that die with a repeat: those that agree with the indices still bound.
  void free_all(const program::RepeatDeath& death,
                const InstanceIndex& bound,
                program::IndexMask bound_indices);

  /// A resident owner's memory is its own again, whatever took it over in the step before.
  void reset_resident();

  /// One rank's part of a tensor: shape, and values unless it is to be written.
  [[nodiscard]] LocalTensor load(const program::Operand& operand, const InstanceIndex& indices);

  /// Puts back what an operation wrote or updated.
  void store(const LocalTensor& local,
             const program::Operand& operand,
             const InstanceIndex& indices);

  [[nodiscard]] Bytes allocated(program::Place place) const {
    return allocated_[static_cast<std::size_t>(place)];
  }

  /// What is in that memory, by owner.
  [[nodiscard]] std::vector<AliveTensor> alive(program::Place place) const;

  [[nodiscard]] Distribution& distribution() { return distribution_; }

 private:
  using Key = std::pair<program::TensorId, InstanceIndex>;

  struct Piece {
    program::TensorId content = program::kNoTensor;
    std::vector<double> values;
  };

  [[nodiscard]] InstanceIndex instance_of(program::TensorId tensor,
                                          const InstanceIndex& indices) const;

  [[nodiscard]] Bytes& allocated_of(program::TensorId owner) {
    return allocated_[static_cast<std::size_t>(program_.tensor(owner).place)];
  }

  [[nodiscard]] Piece& piece_of(program::TensorId tensor, const InstanceIndex& indices);
  /// The tensor whose values a view is a part of.
  [[nodiscard]] program::TensorId content_of(program::TensorId tensor) const;
  /// Which block of the sequence this rank holds under the block's name.
  [[nodiscard]] std::int64_t block_number(const program::Block& block) const;
  /// Where the block that a view is begins in its base, in indices of the sliced dimension.
  [[nodiscard]] std::int64_t first_of_block(const program::Tensor& view,
                                            const program::Tensor& base) const;
  /// For each element of a view, its place among the values of its content; -1 for padding.
  [[nodiscard]] std::vector<std::int64_t> places(program::TensorId tensor,
                                                 const InstanceIndex& indices);
  /// The same, worked out once for each chunk: nothing else of the indices moves a view.
  [[nodiscard]] const std::vector<std::int64_t>& known_places(program::TensorId tensor,
                                                              const InstanceIndex& indices);

  const program::Program& program_;
  std::int64_t rank_;
  Distribution distribution_;
  std::map<Key, Piece> pieces_;
  std::map<std::pair<program::TensorId, std::int32_t>, std::vector<std::int64_t>> places_;
  std::array<Bytes, program::kPlaceNames.size()> allocated_{};
};

}  // namespace trireme::engine
