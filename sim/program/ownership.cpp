#include "sim/program/ownership.h"

#include <algorithm>

namespace trireme::program {

OwnedRange owned_range(const Mesh& mesh, const Tensor& tensor, int dim, std::int64_t rank) {
  const auto axes_of = [&](int wanted, bool within) {
    return tensor.layout.axes_where(
        [=](Placement p) { return p.sharded() && p.dim() == wanted && p.within() == within; });
  };
  ensure(mesh.group_size(axes_of(Placement::kFlat, false)) == 1,
         "owned_range: a flat shard has no range of a dimension");
  // What the axes that split first leave, then the shard within it.
  const AxisMask within = axes_of(dim, true);
  Tensor outer = tensor;
  outer.layout = tensor.layout.with(within, Placement::replicate());
  OwnedRange owned{0, tensor.shape[dim].size};
  const auto narrow = [&](std::int64_t position, std::int64_t extent) {
    const std::int64_t skipped = std::min(owned.count, position * extent);
    owned.first += skipped;
    owned.count = std::min(extent, owned.count - skipped);
  };
  narrow(mesh.position(rank, axes_of(dim, false)), local_extent(mesh, outer, dim));
  narrow(mesh.position(rank, within), local_extent(mesh, tensor, dim));
  return owned;
}

std::vector<std::int64_t> owners_of(const Mesh& mesh,
                                    const Tensor& tensor,
                                    std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> owners;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    bool holds = true;
    for (std::size_t dim = 0; dim < indices.size(); ++dim) {
      holds =
          holds && owned_range(mesh, tensor, static_cast<int>(dim), rank).contains(indices[dim]);
    }
    if (holds) {
      owners.push_back(rank);
    }
  }
  return owners;
}

}  // namespace trireme::program
