// The segments of a program in another order: stages of a pipeline that are alike differ in nothing
// else.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/program/program.h"

namespace trireme::program {

/// Arranges what a program runs anew. The segments, what is born and what dies in them stay: every
/// instance has to be used in the same order as before.
class Arrangement {
 public:
  explicit Arrangement(const Program& like) : like_(like) { made_.pool_ = like.pool_; }

  /// Appends nodes of the program as they are.
  void keep(NodeRange nodes) { append(nodes, {}); }

  /// Repeats what `body` appends for index = first, first + step, ...
  template <class Body>
  void repeat(Index index, std::int64_t first, std::int64_t step, std::int64_t count, Body body) {
    Node node;
    node.kind = Node::Kind::repeat;
    node.index = index;
    node.first = static_cast<std::int32_t>(first);
    node.step = static_cast<std::int32_t>(step);
    node.count = static_cast<std::int32_t>(count);
    const std::size_t number = made_.nodes_.size();
    made_.nodes_.push_back(node);
    body();
    made_.nodes_[number].end = static_cast<std::uint32_t>(made_.nodes_.size());
  }

  /// Appends a passage for the instances `shift` further along `index`.
  void pass(const Passage& passage, Index index, std::int64_t shift);

  [[nodiscard]] Program close(std::int64_t stage, std::vector<std::int64_t> layers_of_model) &&;

 private:
  void append(NodeRange nodes, const std::array<std::int32_t, kIndexCount>& moved);

  const Program& like_;
  Program made_;
};

}  // namespace trireme::program
