#include "sim/engine/execute/memory.h"

#include <limits>
#include <string>

#include <fmt/format.h>

namespace trireme::engine {

using program::Access;
using program::Operand;
using program::Program;
using program::Slice;
using program::Storage;
using program::Tensor;
using program::TensorId;

namespace {

std::vector<double> unwritten(Elements elements) {
  return std::vector<double>(static_cast<std::size_t>(elements.value()),
                             std::numeric_limits<double>::quiet_NaN());
}

std::string instance_name(const Tensor& tensor, const InstanceIndex& indices) {
  std::string text = program::display_name(tensor);
  for (std::size_t i = 0; i < program::kIndexCount; ++i) {
    if ((tensor.varies & (1U << i)) != 0) {
      text += fmt::format("[{} {}]", program::kIndexNames[i], indices[i]);
    }
  }
  return text;
}

}  // namespace

RankMemory::RankMemory(const Program& program, std::int64_t rank)
    : program_(program), rank_(rank), distribution_(program) {}

InstanceIndex RankMemory::instance_of(TensorId tensor, const InstanceIndex& indices) const {
  const Tensor& owner = program_.tensor(program_.tensor(tensor).root);
  InstanceIndex instance{};
  for (std::size_t i = 0; i < program::kIndexCount; ++i) {
    instance[i] = (owner.varies & (1U << i)) != 0 ? indices[i] : 0;
  }
  return instance;
}

RankMemory::Piece& RankMemory::piece_of(TensorId tensor, const InstanceIndex& indices) {
  const TensorId owner = program_.tensor(tensor).root;
  const auto piece = pieces_.find({owner, instance_of(tensor, indices)});
  if (piece == pieces_.end()) {
    throw ExecutionError(fmt::format("tensor '{}' is not in memory",
                                     instance_name(program_.tensor(tensor), indices)));
  }
  return piece->second;
}

void RankMemory::allocate(TensorId owner, const InstanceIndex& instance) {
  const InstanceIndex key = instance_of(owner, instance);
  const auto [piece, missing] = pieces_.try_emplace({owner, key});
  if (!missing) {
    throw ExecutionError(
        fmt::format("tensor '{}' is born twice", instance_name(program_.tensor(owner), instance)));
  }
  piece->second.content = owner;
  piece->second.values = unwritten(program_.tensor(owner).local_elements);
  allocated_of(owner) += program_.tensor(owner).local_bytes();
}

void RankMemory::free(TensorId owner, const InstanceIndex& instance) {
  if (pieces_.erase({owner, instance_of(owner, instance)}) == 0) {
    throw ExecutionError(fmt::format("tensor '{}' is freed and not in memory",
                                     instance_name(program_.tensor(owner), instance)));
  }
  allocated_of(owner) -= program_.tensor(owner).local_bytes();
}

void RankMemory::free_all(const program::RepeatDeath& death,
                          const InstanceIndex& bound,
                          program::IndexMask bound_indices) {
  const Tensor& owner = program_.tensor(death.tensor);
  std::int64_t freed = 0;
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    bool dies = piece->first.first == death.tensor;
    for (std::size_t i = 0; i < program::kIndexCount; ++i) {
      const bool decides = (owner.varies & bound_indices & (1U << i)) != 0;
      dies = dies && (!decides || piece->first.second[i] == bound[i] + death.offset[i]);
    }
    if (dies) {
      piece = pieces_.erase(piece);
      allocated_of(death.tensor) -= owner.local_bytes();
      ++freed;
    } else {
      ++piece;
    }
  }
  if (freed != death.instances) {
    throw ExecutionError(fmt::format("tensor '{}': {} instances die with a repeat, {} were there",
                                     program::display_name(owner),
                                     death.instances,
                                     freed));
  }
}

void RankMemory::reset_resident() {
  for (auto& [key, piece] : pieces_) {
    if (piece.content != key.first) {
      piece.content = key.first;
      piece.values = unwritten(program_.tensor(key.first).local_elements);
    }
  }
}

std::vector<AliveTensor> RankMemory::alive(program::Place place) const {
  std::vector<AliveTensor> tensors;
  for (const auto& [key, piece] : pieces_) {
    if (program_.tensor(key.first).place != place) {
      continue;
    }
    if (tensors.empty() || tensors.back().tensor != key.first) {
      tensors.push_back({key.first, 0});
    }
    ++tensors.back().instances;
  }
  return tensors;
}

TensorId RankMemory::content_of(TensorId tensor) const {
  while (program_.tensor(tensor).storage == Storage::view) {
    tensor = program_.tensor(tensor).base;
  }
  return tensor;
}

std::int64_t RankMemory::first_of_block(const Tensor& view, const Tensor& base) const {
  if (view.block == base.block) {
    return 0;
  }
  return block_number(view.block) * view.slice.extent;
}

std::int64_t RankMemory::block_number(const program::Block& block) const {
  const program::Mesh& mesh = program_.mesh();
  const std::int64_t ranks = mesh.group_size(block.group);
  return (mesh.position(rank_, block.group) + ranks - block.rotation) % ranks;
}

std::vector<std::int64_t> RankMemory::places(TensorId tensor, const InstanceIndex& indices) {
  const Tensor& view = program_.tensor(tensor);
  const auto elements = static_cast<std::size_t>(view.local_elements.value());
  std::vector<std::int64_t> result(elements);
  if (view.storage != Storage::view) {
    for (std::size_t i = 0; i < elements; ++i) {
      result[i] = static_cast<std::int64_t>(i);
    }
    return result;
  }
  const Tensor& base = program_.tensor(view.base);
  const std::vector<std::int64_t> base_places = places(view.base, indices);
  if (view.block.whole() && !base.block.whole()) {  // the own block as the rank's own tokens
    return base_places;
  }
  if (view.layout != base.layout) {  // the shard of a base that is whole on this rank
    const std::vector<std::int64_t>& held = distribution_.held(tensor, rank_);
    for (std::size_t i = 0; i < elements; ++i) {
      result[i] = held[i] < 0 ? -1 : base_places[distribution_.place_of(view.base, rank_, held[i])];
    }
    return result;
  }
  if (view.slice.whole()) {
    return base_places;
  }
  const Slice& slice = view.slice;
  const LocalTensor shape = local_shape(program_.mesh(), base, rank_);
  const auto sliced = static_cast<std::size_t>(slice.dim);
  const auto chunk = static_cast<std::size_t>(program::Index::chunk);
  const std::int64_t first =
      slice.first + slice.per_chunk * indices[chunk] + first_of_block(view, base);
  std::int64_t inner = 1;
  for (std::size_t dim = sliced + 1; dim < static_cast<std::size_t>(shape.rank); ++dim) {
    inner *= shape.extent[dim];
  }
  if (first < 0 || first + slice.extent > shape.extent[sliced]) {
    throw ExecutionError(fmt::format("tensor '{}' reaches beyond '{}'",
                                     instance_name(view, indices),
                                     program::display_name(base)));
  }
  const std::int64_t block = slice.extent * inner;  // contiguous elements of the slice
  for (std::size_t i = 0; i < elements; ++i) {
    const auto element = static_cast<std::int64_t>(i);
    const std::int64_t outer = element / block;
    const std::int64_t within = element % block;
    result[i] = base_places[static_cast<std::size_t>(outer * shape.extent[sliced] * inner +
                                                     first * inner + within)];
  }
  return result;
}

const std::vector<std::int64_t>& RankMemory::known_places(TensorId tensor,
                                                          const InstanceIndex& indices) {
  const auto chunk = static_cast<std::size_t>(program::Index::chunk);
  const auto [entry, missing] = places_.try_emplace({tensor, indices[chunk]});
  if (missing) {
    entry->second = places(tensor, indices);
  }
  return entry->second;
}

LocalTensor RankMemory::load(const Operand& operand, const InstanceIndex& indices) {
  const TensorId id = operand.ref.tensor;
  const Tensor& tensor = program_.tensor(id);
  LocalTensor local = local_shape(program_.mesh(), tensor, rank_);
  local.access = operand.access;
  if (!tensor.slice.whole()) {  // a slice along tokens keeps count of where it starts
    const auto dim = static_cast<std::size_t>(tensor.slice.dim);
    const auto chunk = static_cast<std::size_t>(program::Index::chunk);
    if (dim < static_cast<std::size_t>(program::kTokenDims)) {
      const LocalTensor base = local_shape(program_.mesh(), program_.tensor(tensor.base), rank_);
      local.first[dim] =
          base.first[dim] + tensor.slice.first + tensor.slice.per_chunk * indices[chunk];
    }
  }
  if (!tensor.block.whole()) {
    local.first[program::kSequenceDim] +=
        block_number(tensor.block) * local.extent[program::kSequenceDim];
  }
  Piece& piece = piece_of(id, indices);
  if (operand.access == Access::write) {
    local.values = unwritten(tensor.local_elements);
    return local;
  }
  if (piece.content != content_of(id)) {
    throw ExecutionError(fmt::format("tensor '{}' is read where '{}' is",
                                     instance_name(tensor, indices),
                                     program::display_name(program_.tensor(piece.content))));
  }
  if (tensor.storage != Storage::view) {
    local.values = piece.values;
    return local;
  }
  const std::vector<std::int64_t>& from = known_places(id, indices);
  local.values.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    local.values[i] = from[i] < 0 ? 0.0 : piece.values[static_cast<std::size_t>(from[i])];
  }
  return local;
}

void RankMemory::store(const LocalTensor& local,
                       const Operand& operand,
                       const InstanceIndex& indices) {
  const TensorId id = operand.ref.tensor;
  Piece& piece = piece_of(id, indices);
  if (program_.tensor(id).storage != Storage::view) {
    piece.content = id;
    piece.values = local.values;
    return;
  }
  const std::vector<std::int64_t>& to = known_places(id, indices);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] >= 0) {
      piece.values[static_cast<std::size_t>(to[i])] = local.values[i];
    }
  }
}

}  // namespace trireme::engine
