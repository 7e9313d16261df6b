#include "sim/program/tensor.h"

#include <fmt/format.h>

namespace trireme::program {

namespace {

/// Ranks that share one dimension (or the flattened elements), as one number.
std::int64_t shards_of(const Mesh& mesh, const Layout& layout, int dim) {
  return mesh.group_size(
      layout.axes_where([dim](Placement p) { return p.sharded() && p.dim() == dim; }));
}

std::int64_t divided(std::int64_t whole, std::int64_t shards, std::int64_t pad_multiple) {
  if (pad_multiple == 0) {
    return exact_div(whole, shards);
  }
  return pad_to(whole, pad_multiple * shards) / shards;
}

/// Key/value groups, repeated or not, followed by the query heads of a group: printed as one
/// dimension of heads.
bool heads_start_at(const Shape& shape, int dim) {
  using namespace std::string_view_literals;
  return dim + 1 < shape.rank() &&
         ((shape[dim].symbol == "g"sv && shape[dim + 1].symbol == "a/g"sv) ||
          (shape[dim].symbol == "g'"sv && shape[dim + 1].symbol == "a/g'"sv));
}

}  // namespace

LocalShape local_shape(const Mesh& mesh, const Tensor& tensor) {
  std::array<std::int64_t, kMaxDims> first;   // ranks that share a dimension
  std::array<std::int64_t, kMaxDims> within;  // ranks that share what those leave
  first.fill(1);
  within.fill(1);
  std::int64_t flat = 1;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const Placement placement = tensor.layout[axis];
    if (!placement.sharded()) {
      continue;
    }
    std::int64_t& shards =
        placement.dim() == Placement::kFlat
            ? flat
            : (placement.within() ? within : first).at(static_cast<std::size_t>(placement.dim()));
    shards *= mesh.size(axis);
  }
  const bool state = tensor.role == Role::parameter || tensor.role == Role::gradient ||
                     tensor.role == Role::optimizer_state;
  LocalShape local;
  std::int64_t count = 1;
  for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
    const auto d = static_cast<std::size_t>(dim);
    const bool counts_tokens = !state && tensor.shape.rank() > kTokenDims && dim < kTokenDims;
    const std::int64_t multiple = counts_tokens ? 0 : tensor.pad_multiple;
    std::int64_t extent = tensor.shape[dim].size;
    if (first[d] > 1) {
      extent = divided(extent, first[d], multiple);
    }
    if (within[d] > 1) {
      extent = divided(extent, within[d], multiple == 0 ? 0 : 1);
    }
    local.extents[d] = extent;
    count *= extent;
  }
  local.elements =
      Elements(flat == 1 ? count : divided(count, flat, tensor.pad_multiple == 0 ? 0 : 1));
  return local;
}

std::int64_t local_extent(const Mesh& mesh, const Tensor& tensor, int dim) {
  return local_shape(mesh, tensor).extents[static_cast<std::size_t>(dim)];
}

std::string display_name(const Tensor& tensor) {
  return tensor.part.empty() ? std::string(tensor.name)
                             : fmt::format("{} ({})", tensor.name, tensor.part);
}

std::string shape_in_symbols(const Mesh& mesh, const Tensor& tensor) {
  std::string text;
  for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
    const bool heads = heads_start_at(tensor.shape, dim);
    const std::int64_t shards = shards_of(mesh, tensor.layout, dim);
    text += text.empty() ? "[" : ", ";
    text += heads ? "a" : tensor.shape[dim].symbol;
    if (shards > 1) {
      text += fmt::format("/{}", shards);
    }
    dim += heads ? 1 : 0;
  }
  const std::int64_t flat_shards = shards_of(mesh, tensor.layout, Placement::kFlat);
  return text + (flat_shards > 1 ? fmt::format("]/{}", flat_shards) : "]");
}

std::string shape_in_numbers(const Mesh& mesh, const Tensor& tensor) {
  if (shards_of(mesh, tensor.layout, Placement::kFlat) > 1) {
    return fmt::format("[{}]", tensor.local_elements.value());
  }
  std::string text;
  for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
    std::int64_t extent = tensor.local_extent(dim);
    if (heads_start_at(tensor.shape, dim)) {
      extent *= tensor.local_extent(++dim);
    }
    text += fmt::format("{}{}", text.empty() ? "[" : ", ", extent);
  }
  return text + "]";
}

MemoryItem memory_item(const Tensor& tensor) {
  switch (tensor.role) {
    case Role::parameter:
      return tensor.resident ? MemoryItem::parameters : MemoryItem::gathered_parameters;
    case Role::gradient:
      return tensor.resident ? MemoryItem::gradients : MemoryItem::gradient_buckets;
    case Role::optimizer_state:
      return MemoryItem::optimizer;
    case Role::communication_buffer:
      return MemoryItem::communication_buffers;
    case Role::workspace:
      return MemoryItem::workspaces;
    case Role::activation:
    case Role::temporary:
      break;
  }
  if (tensor.component == Component::loss) {
    return MemoryItem::logits_and_loss;
  }
  return tensor.saved ? MemoryItem::saved_activations : MemoryItem::temporaries;
}

Traffic traffic(const Tensor& tensor) {
  switch (tensor.role) {
    case Role::parameter:
      return Traffic::parameters;
    case Role::gradient:
      return Traffic::gradients;
    case Role::optimizer_state:
      return Traffic::optimizer;
    case Role::activation:
    case Role::temporary:
    case Role::communication_buffer:
    case Role::workspace:
      break;
  }
  return Traffic::activations;
}

}  // namespace trireme::program
