#include "sim/program/arrangement.h"

#include <array>

namespace trireme::program {

void Arrangement::pass(const Passage& passage, Index index, std::int64_t shift) {
  std::array<std::int32_t, kIndexCount> moved{};
  const auto along = static_cast<std::size_t>(index);
  moved[along] = static_cast<std::int32_t>(shift) - passage.shift[along];
  append(passage.nodes, moved);
}

void Arrangement::append(NodeRange nodes, const std::array<std::int32_t, kIndexCount>& moved) {
  const auto distance = static_cast<std::uint32_t>(made_.nodes_.size()) - nodes.first;
  for (std::uint32_t i = nodes.first; i < nodes.end; ++i) {
    Node node = like_.nodes_[i];
    node.end += distance;
    node.first_death = static_cast<std::uint32_t>(made_.repeat_deaths_.size());
    for (RepeatDeath death : like_.deaths(like_.nodes_[i])) {
      for (std::size_t index = 0; index < kIndexCount; ++index) {
        death.offset[index] += moved[index];
      }
      made_.repeat_deaths_.push_back(death);
    }
    for (std::size_t index = 0; node.kind == Node::Kind::run && index < kIndexCount; ++index) {
      node.shift[index] += moved[index];
    }
    made_.nodes_.push_back(node);
  }
}

Program Arrangement::close(std::int64_t stage, std::vector<std::int64_t> layers_of_model) && {
  made_.stage_ = stage;
  made_.layers_of_model_ = std::move(layers_of_model);
  return std::move(made_);
}

}  // namespace trireme::program
