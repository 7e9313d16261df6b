// The ranks of one plan as a mesh: its axes, and the groups that collectives run over.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/units/units.h"

namespace trireme::program {

inline constexpr int kMaxMeshAxes = 6;

/// A set of mesh axes, bit i for axis i: the group of the ranks that differ along these axes only.
using AxisMask = std::uint8_t;

constexpr AxisMask axis_bit(int axis) {
  return static_cast<AxisMask>(1U << axis);
}

struct MeshAxis {
  std::string_view name;
  std::int64_t size = 1;
};

/// Axis 0 is innermost unless `place` says otherwise: ranks that differ along it have neighbouring
/// numbers. Groups may overlay: a sequence-parallel and a tensor-parallel group over the same ranks
/// are the same axis.
class Mesh {
 public:
  static constexpr int kNoAxis = -1;

  /// Returns the new axis' number. At most kMaxMeshAxes.
  int add_axis(std::string_view axis_name, std::int64_t size) {
    ensure(axes_ < kMaxMeshAxes, "mesh: too many axes");
    ensure(size >= 1, "mesh: an empty axis");
    axis_[static_cast<std::size_t>(axes_)] = {axis_name, size};
    order_[static_cast<std::size_t>(axes_)] = static_cast<std::uint8_t>(axes_);
    return axes_++;
  }

  /// Numbers ranks along these axes first, the first of them innermost; every axis once.
  void place(std::span<const int> innermost_first) {
    ensure(static_cast<int>(innermost_first.size()) == axes_, "mesh: an axis has no place");
    AxisMask placed = 0;
    for (std::size_t i = 0; i < innermost_first.size(); ++i) {
      placed = static_cast<AxisMask>(placed | axis_bit(innermost_first[i]));
      order_[i] = static_cast<std::uint8_t>(innermost_first[i]);
    }
    ensure(placed == all_axes(), "mesh: an axis is placed twice");
  }

  /// The axis at a place, counted from the innermost.
  [[nodiscard]] int axis_at(int place) const { return order_[static_cast<std::size_t>(place)]; }

  /// Along this axis ranks run different programs, the stages of a pipeline: that a tensor is
  /// replicated along it means nothing.
  void set_stage_axis(int number) { stage_axis_ = number; }

  [[nodiscard]] int stage_axis() const { return stage_axis_; }

  [[nodiscard]] std::int64_t stages() const {
    return stage_axis_ == kNoAxis ? 1 : size(stage_axis_);
  }

  [[nodiscard]] std::int64_t stage_of(std::int64_t rank) const {
    return stage_axis_ == kNoAxis ? 0 : coordinate(rank, stage_axis_);
  }

  /// The rank of another stage at the same place in every other group.
  [[nodiscard]] std::int64_t in_stage(std::int64_t rank, std::int64_t stage) const {
    return stage_axis_ == kNoAxis ? rank : rank + (stage - stage_of(rank)) * stride(stage_axis_);
  }

  /// The ranks of a stage, by their place among them in ascending order.
  [[nodiscard]] std::int64_t rank_of_stage(std::int64_t place, std::int64_t stage) const {
    if (stage_axis_ == kNoAxis) {
      return place;
    }
    const std::int64_t inner = stride(stage_axis_);
    return place / inner * inner * stages() + place % inner + stage * inner;
  }

  [[nodiscard]] int axes() const { return axes_; }

  [[nodiscard]] const MeshAxis& axis(int number) const {
    return axis_[static_cast<std::size_t>(number)];
  }

  [[nodiscard]] std::int64_t size(int number) const { return axis(number).size; }

  [[nodiscard]] std::int64_t ranks() const { return group_size(all_axes()); }

  [[nodiscard]] AxisMask all_axes() const { return static_cast<AxisMask>((1U << axes_) - 1U); }

  [[nodiscard]] std::int64_t group_size(AxisMask group) const {
    std::int64_t ranks = 1;
    for (int i = 0; i < axes_; ++i) {
      if ((group & axis_bit(i)) != 0) {
        ranks *= size(i);
      }
    }
    return ranks;
  }

  /// Distance in rank numbers between neighbours along an axis.
  [[nodiscard]] std::int64_t stride(int number) const {
    std::int64_t ranks = 1;
    for (int place = 0; axis_at(place) != number; ++place) {
      ranks *= size(axis_at(place));
    }
    return ranks;
  }

  [[nodiscard]] std::int64_t coordinate(std::int64_t rank, int number) const {
    return rank / stride(number) % size(number);
  }

  /// A rank's position in its group: its coordinates along the group's axes, the lowest number
  /// fastest.
  [[nodiscard]] std::int64_t position(std::int64_t rank, AxisMask group) const {
    std::int64_t position = 0;
    std::int64_t scale = 1;
    for (int i = 0; i < axes_; ++i) {
      if ((group & axis_bit(i)) != 0) {
        position += scale * coordinate(rank, i);
        scale *= size(i);
      }
    }
    return position;
  }

 private:
  std::array<MeshAxis, kMaxMeshAxes> axis_{};
  std::array<std::uint8_t, kMaxMeshAxes> order_{};
  int axes_ = 0;
  int stage_axis_ = kNoAxis;
};

}  // namespace trireme::program
