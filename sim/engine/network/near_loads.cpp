#include "sim/engine/network/near_loads.h"

#include <algorithm>
#include <unordered_map>

namespace trireme::engine {

NearGpus::NearGpus(const Topology& topology, std::span<const std::int64_t> gpus)
    : topology_(topology), near_(static_cast<std::size_t>(topology.shape().gpus())) {
  const TopologyShape& shape = topology.shape();
  const std::int64_t nodes = spine_is_crossed(shape) ? shape.nodes_per_leaf : 1;
  const std::int64_t together = nodes * shape.gpus_per_node;
  for (const std::int64_t gpu : gpus) {
    const std::int64_t first = gpu / together * together;
    if (!has(first)) {
      const std::int64_t end = std::min(first + together, shape.gpus());
      std::fill(near_.begin() + first, near_.begin() + end, true);
    }
  }
  for (std::int64_t gpu = 0; gpu < shape.gpus(); ++gpu) {
    if (has(gpu)) {
      list_.push_back(gpu);
    }
  }
}

std::vector<LinkLoad> near_loads(const Algorithm& algorithm,
                                 Bytes payload,
                                 PlacedRanks ranks,
                                 const Topology& topology,
                                 const NearGpus& near) {
  std::unordered_map<LinkId, Bytes> sums;
  std::vector<LinkId> links;
  const auto is_near = [&](std::int32_t place) {
    return near.has(ranks[static_cast<std::size_t>(place)]);
  };
  const auto add = [&](const Message& message) {
    if (!is_near(message.from) && !is_near(message.to)) {
      return;
    }
    links_of(message, ranks, topology, links);
    for (const LinkId link : links) {
      if (near.has_link(link)) {
        sums[link] += message.amount;
      }
    }
  };
  if (algorithm.of_pair == nullptr) {
    for (const Message& message : algorithm.add_up(payload, ranks, topology)) {
      add(message);
    }
  } else {
    const auto n = static_cast<std::int32_t>(ranks.size());
    for (std::int32_t one = 0; one < n; ++one) {
      if (!is_near(one)) {
        continue;
      }
      for (std::int32_t other = 0; other < n; ++other) {
        if (other == one) {
          continue;
        }
        const auto send = [&](std::int32_t from, std::int32_t to) {
          add({.from = from,
               .to = to,
               .step = 0,
               .delivery = Delivery::one_to_one,
               .amount = algorithm.of_pair(payload, n, from, to)});
        };
        send(one, other);
        if (!is_near(other)) {
          send(other, one);
        }
      }
    }
  }
  std::vector<LinkLoad> loads;
  loads.reserve(sums.size());
  for (const auto& [link, amount] : sums) {
    loads.push_back({link, amount});
  }
  std::sort(loads.begin(), loads.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.link < b.link;
  });
  return loads;
}

}  // namespace trireme::engine
