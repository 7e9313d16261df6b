#include "sim/engine/execute/distribution.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "sim/program/ownership.h"

namespace trireme::engine {

using program::AxisMask;
using program::Mesh;
using program::Placement;
using program::Tensor;
using program::TensorId;

namespace {

AxisMask flat_axes(const Tensor& tensor) {
  return tensor.layout.axes_where([](Placement placement) {
    return placement.sharded() && placement.dim() == Placement::kFlat;
  });
}

/// The same tensor as its ranks would hold it if its flattened elements were not sharded.
Tensor without_flat_shards(const Tensor& tensor) {
  Tensor whole = tensor;
  whole.layout = tensor.layout.with(flat_axes(tensor), Placement::replicate());
  return whole;
}

/// Logical indices of a part that is sharded along dimensions only.
std::vector<std::int64_t> indices_of_box(const Mesh& mesh,
                                         const Tensor& tensor,
                                         std::int64_t rank) {
  const LocalTensor local = local_shape(mesh, tensor, rank);
  std::int64_t elements = 1;
  for (int dim = 0; dim < local.rank; ++dim) {
    elements *= local.extent[static_cast<std::size_t>(dim)];
  }
  std::vector<std::int64_t> indices(static_cast<std::size_t>(elements));
  for (std::int64_t element = 0; element < elements; ++element) {
    std::int64_t rest = element;
    std::int64_t logical = 0;
    std::int64_t stride = 1;
    bool padding = false;
    for (int dim = local.rank - 1; dim >= 0; --dim) {
      const auto d = static_cast<std::size_t>(dim);
      const std::int64_t index = rest % local.extent[d];
      rest /= local.extent[d];
      padding = padding || index >= local.valid[d];
      logical += (local.first[d] + index) * stride;
      stride *= tensor.shape[dim].size;
    }
    indices[static_cast<std::size_t>(element)] = padding ? -1 : logical;
  }
  return indices;
}

}  // namespace

LocalTensor local_shape(const Mesh& mesh, const Tensor& tensor, std::int64_t rank) {
  LocalTensor local;
  local.tensor = &tensor;
  const AxisMask flat = flat_axes(tensor);
  if (mesh.group_size(flat) > 1) {
    const Tensor whole = without_flat_shards(tensor);
    const std::int64_t elements = program::local_shape(mesh, whole).elements.value();
    local.rank = 1;
    local.extent[0] = tensor.local_elements.value();
    local.first[0] = mesh.position(rank, flat) * local.extent[0];
    local.valid[0] = std::clamp<std::int64_t>(elements - local.first[0], 0, local.extent[0]);
    return local;
  }
  local.rank = tensor.shape.rank();
  for (int dim = 0; dim < local.rank; ++dim) {
    const auto d = static_cast<std::size_t>(dim);
    const program::OwnedRange owned = owned_range(mesh, tensor, dim, rank);
    local.extent[d] = local_extent(mesh, tensor, dim);
    local.first[d] = owned.first;
    local.valid[d] = owned.count;
  }
  return local;
}

std::vector<std::int64_t> logical_indices(const Mesh& mesh,
                                          const Tensor& tensor,
                                          std::int64_t rank) {
  const AxisMask flat = flat_axes(tensor);
  if (mesh.group_size(flat) == 1) {
    return indices_of_box(mesh, tensor, rank);
  }
  const std::vector<std::int64_t> whole = indices_of_box(mesh, without_flat_shards(tensor), rank);
  const LocalTensor local = local_shape(mesh, tensor, rank);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(local.extent[0]), -1);
  for (std::int64_t i = 0; i < local.valid[0]; ++i) {
    indices[static_cast<std::size_t>(i)] = whole[static_cast<std::size_t>(local.first[0] + i)];
  }
  return indices;
}

const std::vector<std::int64_t>& Distribution::held(TensorId tensor, std::int64_t rank) {
  const auto [entry, missing] = held_.try_emplace({tensor, rank});
  if (missing) {
    entry->second = logical_indices(program_.mesh(), program_.tensor(tensor), rank);
  }
  return entry->second;
}

const std::vector<std::int64_t>& Distribution::place(TensorId tensor, std::int64_t rank) {
  const auto [entry, missing] = place_.try_emplace({tensor, rank});
  if (missing) {
    const auto elements = static_cast<std::size_t>(program_.tensor(tensor).shape.elements());
    entry->second.assign(elements, -1);
    const std::vector<std::int64_t>& indices = held(tensor, rank);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] >= 0) {
        entry->second[static_cast<std::size_t>(indices[i])] = static_cast<std::int64_t>(i);
      }
    }
  }
  return entry->second;
}

std::size_t Distribution::place_of(TensorId tensor, std::int64_t rank, std::int64_t element) {
  const std::int64_t found = place(tensor, rank)[static_cast<std::size_t>(element)];
  if (found < 0) {
    throw std::logic_error(fmt::format("tensor '{}': rank {} does not hold element {}",
                                       program::display_name(program_.tensor(tensor)),
                                       rank,
                                       element));
  }
  return static_cast<std::size_t>(found);
}

}  // namespace trireme::engine
