#include "sim/program/ownership.h"

#include <algorithm>

namespace trireme::program {

OwnedRange owned_range(const Mesh& mesh, const Tensor& tensor, int dim, std::int64_t rank) {
  const auto shards_dim = [](int wanted) {
    return [wanted](Placement p) { return p.sharded() && p.dim() == wanted; };
  };
  ensure(mesh.group_size(tensor.layout.axes_where(shards_dim(Placement::kFlat))) == 1,
         "owned_range: a flat shard has no range of a dimension");
  const AxisMask axes = tensor.layout.axes_where(shards_dim(dim));
  const std::int64_t whole = tensor.shape[dim].size;
  const std::int64_t extent = local_extent(mesh, tensor, dim);
  const std::int64_t first = std::min(whole, mesh.position(rank, axes) * extent);
  return {first, std::min(extent, whole - first)};
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
