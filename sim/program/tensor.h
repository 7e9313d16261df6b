// Tensors of a step program: role, logical shape, element type, and layout over the mesh.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/core/vocabulary.h"
#include "sim/program/mesh.h"
#include "sim/units/units.h"

namespace trireme::program {

using TensorId = std::uint16_t;
inline constexpr TensorId kNoTensor = 0xffff;

/// The loops of a step. A tensor has one instance per value of each index that it varies over.
enum class Index : std::uint8_t { micro_batch, layer, chunk };
inline constexpr int kIndexCount = 3;
inline constexpr std::array<std::string_view, kIndexCount> kIndexNames = {
    "micro batch", "layer", "chunk"};

using IndexMask = std::uint8_t;

constexpr IndexMask index_bit(Index index) {
  return static_cast<IndexMask>(1U << static_cast<unsigned>(index));
}

inline constexpr IndexMask kPerStep = 0;
inline constexpr IndexMask kPerLayer = index_bit(Index::layer);
inline constexpr IndexMask kPerMicroBatch = index_bit(Index::micro_batch);
inline constexpr IndexMask kPerLayerAndMicroBatch = kPerLayer | kPerMicroBatch;

enum class Role : std::uint8_t {
  parameter,
  gradient,
  optimizer_state,
  activation,
  temporary,
  communication_buffer,
  workspace
};

/// Whose memory a tensor lies in: the GPU's, or that of the host it hangs on.
enum class Place : std::uint8_t { device, host };
inline constexpr std::array<std::string_view, 2> kPlaceNames = {"device", "host"};

/// Along one mesh axis a tensor is replicated, sharded along one of its dimensions (or along its
/// flattened elements), or holds partial values that a reduction still has to combine.
class Placement {
 public:
  static constexpr int kFlat = 7;

  constexpr Placement() = default;

  static constexpr Placement replicate() { return {}; }

  static constexpr Placement shard(int dim) {
    return Placement(static_cast<std::uint8_t>(1 + dim));
  }

  /// A shard of what other axes leave of a dimension: they split first, whatever their numbers. So
  /// ZeRO splits the rows that tensor parallelism has left.
  /// Source: pytorch, torch/distributed/tensor/placement_types.py, _StridedShard
  static constexpr Placement shard_within(int dim) {
    return Placement(static_cast<std::uint8_t>((1 + dim) | kWithin));
  }

  static constexpr Placement partial_sum() { return Placement(0x80); }

  static constexpr Placement partial_max() { return Placement(0x81); }

  [[nodiscard]] constexpr bool replicated() const { return code_ == 0; }

  [[nodiscard]] constexpr bool sharded() const { return code_ != 0 && code_ < 0x80; }

  [[nodiscard]] constexpr bool partial() const { return code_ >= 0x80; }

  /// The sharded dimension; kFlat for the flattened elements. Only of a sharded placement.
  [[nodiscard]] constexpr int dim() const { return (code_ & ~kWithin) - 1; }

  /// Whether other axes that shard the dimension split it first.
  [[nodiscard]] constexpr bool within() const { return sharded() && (code_ & kWithin) != 0; }

  friend constexpr bool operator==(Placement, Placement) = default;

 private:
  static constexpr std::uint8_t kWithin = 0x40;

  constexpr explicit Placement(std::uint8_t code) : code_(code) {}

  std::uint8_t code_ = 0;
};

/// One placement per mesh axis. Where several axes shard one dimension, the higher-numbered
/// (outer) axis splits first and the innermost axis varies fastest; shards within come last.
class Layout {
 public:
  constexpr Layout() = default;

  [[nodiscard]] constexpr Placement operator[](int axis) const {
    return axis_[static_cast<std::size_t>(axis)];
  }

  /// This layout with another placement along every axis of `group`.
  [[nodiscard]] constexpr Layout with(AxisMask group, Placement placement) const {
    Layout changed = *this;
    for (int i = 0; i < kMaxMeshAxes; ++i) {
      if ((group & axis_bit(i)) != 0) {
        changed.axis_[static_cast<std::size_t>(i)] = placement;
      }
    }
    return changed;
  }

  /// The axes along which `matches` holds for the placement.
  template <class Predicate>
  [[nodiscard]] constexpr AxisMask axes_where(Predicate matches) const {
    AxisMask mask = 0;
    for (int i = 0; i < kMaxMeshAxes; ++i) {
      if (matches((*this)[i])) {
        mask = static_cast<AxisMask>(mask | axis_bit(i));
      }
    }
    return mask;
  }

  [[nodiscard]] constexpr AxisMask partial_axes() const {
    return axes_where([](Placement p) { return p.partial(); });
  }

  [[nodiscard]] constexpr AxisMask sharded_axes() const {
    return axes_where([](Placement p) { return p.sharded(); });
  }

  friend constexpr bool operator==(Layout, Layout) = default;

 private:
  std::array<Placement, kMaxMeshAxes> axis_{};
};

inline constexpr int kMaxDims = 5;

/// One dimension: its logical size and the symbol that shape traces print for it (B, S, h, ...).
/// Neighbours "g" (key/value groups) and "a/g" (query heads per group) print as the heads "a".
struct Dim {
  std::int64_t size = 1;
  const char* symbol = "";
};

/// Activations are [batch, sequence, features...]: dimensions 0 and 1 count tokens, dimension 2 is
/// the one that tensor parallelism shards. Tokens on their way through experts are [source rank,
/// expert, slot, features...], and weights of experts [expert, out, in]. In memory the sequence is
/// outermost, as Megatron keeps it, so that shards along it are contiguous and need no layout
/// change around a collective.
class Shape {
 public:
  constexpr Shape() = default;

  constexpr Shape(std::initializer_list<Dim> dims) {
    for (const Dim& dim : dims) {
      ensure(rank_ < kMaxDims, "shape: too many dimensions");
      dim_[static_cast<std::size_t>(rank_++)] = dim;
    }
  }

  [[nodiscard]] constexpr int rank() const { return rank_; }

  [[nodiscard]] constexpr const Dim& operator[](int dim) const {
    return dim_[static_cast<std::size_t>(dim)];
  }

  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t count = 1;
    for (int i = 0; i < rank_; ++i) {
      count *= (*this)[i].size;
    }
    return count;
  }

  [[nodiscard]] constexpr Shape with(int dim, Dim changed) const {
    Shape shape = *this;
    shape.dim_[static_cast<std::size_t>(dim)] = changed;
    return shape;
  }

 private:
  std::array<Dim, kMaxDims> dim_{};
  int rank_ = 0;
};

inline constexpr int kTokenDims = 2;
inline constexpr int kBatchDim = 0;
inline constexpr int kSequenceDim = 1;
inline constexpr int kFeatureDim = 2;
// Of tokens by expert.
inline constexpr int kSourceDim = 0;
inline constexpr int kExpertDim = 1;
inline constexpr int kSlotDim = 2;
inline constexpr int kSlotFeatureDim = 3;

/// How a tensor's memory relates to another's.
enum class Storage : std::uint8_t {
  own,      // its own memory
  view,     // another name, shape or part of its base: readable as soon as the base is written
  in_place  // takes over its base's memory when it is written
};

/// Which part of its base a view is: `extent` indices of one dimension from `first` on, further by
/// `per_chunk` in each chunk; all in one rank's indices. A view without a slice is a reshape.
struct Slice {
  std::int8_t dim = -1;
  std::int64_t first = 0;
  std::int64_t extent = 0;
  std::int64_t per_chunk = 0;

  [[nodiscard]] constexpr bool whole() const { return dim < 0; }

  friend constexpr bool operator==(const Slice&, const Slice&) = default;
};

/// Ranks of a group hold one block each of a sequence that is cut by their number: position p holds
/// block p - rotation of the ring. Blocks of one sequence that differ in rotation are different
/// memory on every rank. Without a group, a tensor is no block.
struct Block {
  AxisMask group = 0;
  std::int16_t rotation = 0;

  [[nodiscard]] constexpr bool whole() const { return group == 0; }

  friend constexpr bool operator==(const Block&, const Block&) = default;
};

/// Layers first, ..., first + count - 1; without a count all of a model's.
struct LayerRange {
  std::int16_t first = 0;
  std::int16_t count = 0;

  friend constexpr bool operator==(const LayerRange&, const LayerRange&) = default;
};

struct Tensor {
  std::string_view name;
  std::string_view part;  // of what `name` names: "gathered", "master", ...; may be empty
  Role role = Role::activation;
  Component component = Component::attention;
  ElementType type = ElementType::bf16;
  Storage storage = Storage::own;
  Place place = Place::device;
  /// Exists at the beginning and at the end of the step.
  bool resident = false;
  /// Derived: born in the forward pass, or its recomputation, and last used in a later phase.
  bool saved = false;
  IndexMask varies = kPerStep;
  /// 0: shards must divide exactly; k: the sharded dimension is padded up to k times the shards,
  /// flattened elements up to a multiple of theirs. Tokens of activations are never padded.
  std::int16_t pad_multiple = 0;
  TensorId root = kNoTensor;  // the tensor that owns the memory; itself for Storage::own
  TensorId base = kNoTensor;  // what it is a view or the successor of
  Slice slice;                // of a view
  Block block;
  /// Of a resident tensor: the layers that have it.
  LayerRange layers;
  /// Of an owner of memory: blocks that its views cut it into. They are written and read apart.
  std::int16_t blocks = 1;
  Shape shape;
  Layout layout;
  /// Derived from shape and layout, by local_shape.
  std::array<std::int64_t, kMaxDims> local_extents{};
  Elements local_elements;

  [[nodiscard]] std::int64_t local_extent(int dim) const {
    return local_extents[static_cast<std::size_t>(dim)];
  }

  [[nodiscard]] Bytes local_bytes() const { return bytes_of(local_elements, type); }
};

/// What one rank holds, padding included. Flat shards have elements alone.
struct LocalShape {
  std::array<std::int64_t, kMaxDims> extents{};
  Elements elements;
};

/// One rank's part under the tensor's layout. Throws std::logic_error where shards do not divide
/// and the tensor states no padding.
///
/// EQ local-elements: E = product over dimensions of ceil(x / (k n)) k; of flat shards ceil(E / m)
///   x  logical size of a dimension                                        [1]
///   n  ranks that share the dimension; shards within others' are cut in a second turn  [ranks]
///   k  pad_multiple; without one n divides x, and shards within others pad to 1  [1]
///   m  ranks that share the flattened elements                            [ranks]
///   E  result                                                             [elements]
/// Source: derived: equal shards of what is padded up to k times the ranks that share it
/// Valid:  every rank holds as much, padding included
/// Tests:  tests/unit/program/tensor_test.cpp
[[nodiscard]] LocalShape local_shape(const Mesh& mesh, const Tensor& tensor);

/// The same for one dimension of a tensor that no program has derived.
[[nodiscard]] std::int64_t local_extent(const Mesh& mesh, const Tensor& tensor, int dim);

/// "qkv weight (gathered)".
[[nodiscard]] std::string display_name(const Tensor& tensor);

/// "[B, S/8, a, d]" in symbols with the degrees of the shards, or in numbers for one rank.
[[nodiscard]] std::string shape_in_symbols(const Mesh& mesh, const Tensor& tensor);
[[nodiscard]] std::string shape_in_numbers(const Mesh& mesh, const Tensor& tensor);

/// What fills memory, as reports list it; derived from role, residency, component and `saved`.
[[nodiscard]] MemoryItem memory_item(const Tensor& tensor);

/// Under which heading a collective that carries this tensor is booked.
[[nodiscard]] Traffic traffic(const Tensor& tensor);

}  // namespace trireme::program
