// The ranks of one plan as a mesh: its axes, and the groups that collectives run over.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/units/units.h"

namespace trireme::program {

inline constexpr int kMaxMeshAxes = 5;

/// A set of mesh axes, bit i for axis i: the group of the ranks that differ along these axes only.
using AxisMask = std::uint8_t;

constexpr AxisMask axis_bit(int axis) {
  return static_cast<AxisMask>(1U << axis);
}

struct MeshAxis {
  std::string_view name;
  std::int64_t size = 1;
};

/// Axis 0 is innermost: ranks that differ along it have neighbouring numbers. Groups may overlay:
/// a sequence-parallel and a tensor-parallel group over the same ranks are the same axis.
class Mesh {
 public:
  /// Returns the new axis' number. At most kMaxMeshAxes.
  int add_axis(std::string_view axis_name, std::int64_t size) {
    ensure(axes_ < kMaxMeshAxes, "mesh: too many axes");
    ensure(size >= 1, "mesh: an empty axis");
    axis_[static_cast<std::size_t>(axes_)] = {axis_name, size};
    return axes_++;
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
    for (int i = 0; i < number; ++i) {
      ranks *= size(i);
    }
    return ranks;
  }

  [[nodiscard]] std::int64_t coordinate(std::int64_t rank, int number) const {
    return rank / stride(number) % size(number);
  }

  /// A rank's position in its group: its coordinates along the group's axes, innermost fastest.
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
  int axes_ = 0;
};

}  // namespace trireme::program
