#include "calibrate/probe/cpu/executor_collectives.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "calibrate/probe/cpu/executor_trial.h"
#include "sim/core/counter_random.h"
#include "sim/program/builder.h"

namespace trireme::calibrate {

namespace {

using engine::InstanceIndex;
using engine::LocalTensor;
using program::Layout;
using program::Placement;

constexpr program::AxisMask kGroup = program::axis_bit(0);

/// A tensor of tokens by features that every rank of a group can hold a part of either of.
struct WholeTensor {
  std::int64_t tokens = 0;
  std::int64_t features = 0;
};

WholeTensor whole_tensor(Bytes whole, ElementType type, std::int64_t ranks) {
  constexpr std::int64_t kLeastFeatures = 64;
  const std::int64_t features = pad_to(kLeastFeatures, ranks);
  const std::int64_t tokens = ceil_div(whole.value(), width(type) * features);
  return {pad_to(tokens, ranks), features};
}

/// Of the whole tensor that a collective carries: an all-to-all's payload is what one rank holds.
Bytes whole_bytes(const CollectivePoint& point) {
  return point.collective == CollectiveKind::all_to_all ? point.ranks * point.payload
                                                        : point.payload;
}

/// A whole number for each logical element, so that sums are exact.
double value_of(std::int64_t layer, std::int64_t element) {
  constexpr std::uint64_t kValues = 1024;
  const std::uint64_t bits = mixed_bits(static_cast<std::uint64_t>(layer) * 0x9e3779b97f4a7c15U +
                                        static_cast<std::uint64_t>(element));
  return static_cast<double>(bits % kValues);
}

/// Calls `visit(place, logical element)` for every element of a rank's part of [B, S, h].
template <class Visit>
void for_each_element(const LocalTensor& local, Visit visit) {
  const program::Shape& shape = local.tensor->shape;
  std::size_t place = 0;
  for (std::int64_t token = 0; token < local.extent[1]; ++token) {
    for (std::int64_t feature = 0; feature < local.extent[2]; ++feature) {
      visit(place++, (local.first[1] + token) * shape[2].size + local.first[2] + feature);
    }
  }
}

/// A partial value is the element's times the rank's number from 1, of which the sum is known.
double share_of(const LocalTensor& local, std::int64_t position) {
  const bool partial = local.tensor->layout[0].partial();
  return partial ? static_cast<double>(position + 1) : 1.0;
}

struct Layouts {
  Layout from;
  Layout to;
};

Layouts layouts_of(CollectiveKind kind) {
  const auto placed = [](Placement placement) { return Layout().with(kGroup, placement); };
  switch (kind) {
    case CollectiveKind::all_gather:
      return {placed(Placement::shard(1)), placed(Placement::replicate())};
    case CollectiveKind::reduce_scatter:
      return {placed(Placement::partial_sum()), placed(Placement::shard(1))};
    case CollectiveKind::all_reduce:
      return {placed(Placement::partial_sum()), placed(Placement::replicate())};
    case CollectiveKind::all_to_all:
    case CollectiveKind::send_recv:
      break;
  }
  return {placed(Placement::shard(1)), placed(Placement::shard(2))};
}

RepeatedOperation draw(const CollectivePoint& point, std::int64_t ranks, std::int64_t rank) {
  const auto [tokens, features] = whole_tensor(whole_bytes(point), point.type, point.ranks);
  const std::int64_t layers = rotated_layers(2 * tokens * features);
  program::Mesh mesh;
  mesh.add_axis("group", point.ranks);
  mesh.add_axis("others", ranks / point.ranks);
  program::Builder builder(mesh, {1, layers, 1});
  const Layouts layouts = layouts_of(point.collective);
  program::TensorSpec spec;
  spec.type = point.type;
  spec.varies = program::kPerLayer;
  spec.shape = {{1, "B"}, {tokens, "S"}, {features, "h"}};
  spec.name = "sent";
  spec.layout = layouts.from;
  spec.resident = true;
  const program::TensorId from = builder.declare(spec);
  spec.name = "received";
  spec.layout = layouts.to;
  spec.resident = false;
  spec.role = program::Role::workspace;
  const program::TensorId to = builder.declare(spec);
  const std::array in{program::read(from)};
  const std::array out{program::write(to)};
  builder.repeat(program::Index::layer, 0, 1, layers, [&] {
    builder.begin_segment("measured");
    builder.emit_collective(point.collective, name(point.collective), kGroup, in, out);
  });
  const std::int64_t position = mesh.position(rank, kGroup);
  const bool sums = layouts.from[0].partial();
  const double factor = sums ? static_cast<double>(point.ranks * (point.ranks + 1) / 2) : 1.0;
  return {std::move(builder).close(),
          layers,
          [factor](const OperandValues& seen) {
            for_each_element(seen[1], [&](std::size_t place, std::int64_t element) {
              const double expected = factor * value_of(0, element);
              if (seen[1].values[place] != expected) {
                throw WrongResult(fmt::format("element {} is {} where it has to be {}",
                                              element,
                                              seen[1].values[place],
                                              expected));
              }
            });
          },
          [position](const InstanceIndex& instance, LocalTensor& local) {
            for_each_element(local, [&](std::size_t place, std::int64_t element) {
              local.values[place] = share_of(local, position) * value_of(instance[1], element);
            });
          }};
}

/// With the payload that ranks can share evenly.
CollectivePoint padded(CollectivePoint point) {
  const auto [tokens, features] = whole_tensor(whole_bytes(point), point.type, point.ranks);
  const std::int64_t parts = point.collective == CollectiveKind::all_to_all ? point.ranks : 1;
  point.payload = Bytes(tokens * features * width(point.type) / parts);
  return point;
}

class CollectiveProbe final : public Probe {
 public:
  CollectiveProbe(engine::Transport& transport, std::int64_t ranks_per_node, Grid grid)
      : transport_(transport), ranks_per_node_(ranks_per_node), grid_(grid) {}

  [[nodiscard]] std::string_view name() const override { return "collectives"; }

  [[nodiscard]] std::vector<Point> points() const override {
    std::vector<Point> points;
    for (const CollectiveKind kind : {CollectiveKind::all_to_all,
                                      CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter,
                                      CollectiveKind::all_reduce}) {
      for (const std::int64_t ranks : group_sizes(transport_.ranks())) {
        for (const Bytes payload : payload_sizes(grid_)) {
          points.emplace_back(padded({.collective = kind,
                                      .method = "executor",
                                      .ranks = ranks,
                                      .ranks_per_node = std::min(ranks, ranks_per_node_),
                                      .type = ElementType::bf16,
                                      .payload = payload}));
        }
      }
    }
    return points;
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    return std::make_unique<ExecutorTrial>(
        draw(std::get<CollectivePoint>(point), transport_.ranks(), transport_.rank()), &transport_);
  }

 private:
  engine::Transport& transport_;
  std::int64_t ranks_per_node_;
  Grid grid_;
};

}  // namespace

std::unique_ptr<Probe> executor_collectives(engine::Transport& transport,
                                            std::int64_t ranks_per_node,
                                            Grid grid) {
  return std::make_unique<CollectiveProbe>(transport, ranks_per_node, grid);
}

std::vector<std::int64_t> group_sizes(std::int64_t ranks) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 2; size < ranks; size *= 2) {
    if (ranks % size == 0) {
      sizes.push_back(size);
    }
  }
  if (ranks > 1) {
    sizes.push_back(ranks);
  }
  return sizes;
}

std::vector<Bytes> payload_sizes(Grid grid) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 12;
  constexpr std::int64_t kStep = 4;
  const std::int64_t most = grid == Grid::few ? kLeast * kStep : std::int64_t{1} << 22;
  std::vector<Bytes> sizes;
  for (std::int64_t size = kLeast; size <= most; size *= kStep) {
    sizes.emplace_back(size);
  }
  return sizes;
}

}  // namespace trireme::calibrate
