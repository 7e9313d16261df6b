#include "calibrate/probe/groups.h"

namespace trireme::calibrate {

namespace {

/// The divisors of `number` above 1, ascending.
std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 2; i <= number; ++i) {
    if (number % i == 0) {
      found.push_back(i);
    }
  }
  return found;
}

}  // namespace

std::vector<GroupShape> group_shapes(std::int64_t ranks, std::int64_t ranks_per_node) {
  if (ranks < 2) {
    return {};
  }
  std::vector<GroupShape> shapes;
  if (ranks % ranks_per_node != 0) {
    shapes.push_back({.ranks = ranks, .ranks_per_node = ranks_per_node});
    return shapes;
  }
  for (const std::int64_t size : divisors(ranks_per_node)) {
    shapes.push_back({.ranks = size, .ranks_per_node = size});
  }
  for (const std::int64_t nodes : divisors(ranks / ranks_per_node)) {
    shapes.push_back({.ranks = nodes * ranks_per_node, .ranks_per_node = ranks_per_node});
    if (ranks_per_node > 1) {
      shapes.push_back({.ranks = nodes, .ranks_per_node = 1});
    }
  }
  return shapes;
}

std::int64_t group_of(std::int64_t rank, std::int64_t ranks_per_node, const GroupShape& shape) {
  const bool rail = shape.ranks_per_node == 1 && ranks_per_node > 1;
  if (!rail) {
    return rank / shape.ranks;  // groups of neighbours, whole nodes included
  }
  const std::int64_t nodes = shape.ranks;
  return rank / (nodes * ranks_per_node) * ranks_per_node + rank % ranks_per_node;
}

}  // namespace trireme::calibrate
