#include "sim/config/memory.h"

#include <algorithm>

#include <fmt/core.h>

#include "sim/config/map_reader.h"
#include "sim/config/words.h"

namespace trireme::config {

namespace {

constexpr Choice<cost::ReserveBase> kBaseWords[] = {{"allocated", cost::ReserveBase::allocated},
                                                    {"transient", cost::ReserveBase::transient}};

std::optional<Framework> parse_framework_or_any(std::string_view text) {
  return text == "any" ? std::nullopt : std::optional<Framework>(word_of(kFrameworkWords)(text));
}

ReserveRow read_reserve(const Node& item) {
  const MapReader map(
      item, "reserved", {"framework", "allocator", "of", "share", "spread", "samples", "source"});
  ReserveRow row;
  row.framework = map.required("framework", parse_framework_or_any);
  row.allocator = map.required("allocator", word_of(kAllocatorWords));
  row.share.base = map.required("of", word_of(kBaseWords));
  row.share.share = map.required("share", parse_percentage);
  const auto bounds = map.items("spread");
  if (bounds.size() != 2) {
    refuse(map.node("spread").where(),
           fmt::format("spread: expected two values, found {}", bounds.size()),
           "write it as [1.7 %, 7.8 %]");
  }
  row.share.low = parse_node(bounds[0], "spread", parse_percentage);
  row.share.high = parse_node(bounds[1], "spread", parse_percentage);
  if (!(row.share.low <= row.share.share && row.share.share <= row.share.high)) {
    refuse(map.node("spread").where(),
           "spread: the share is not between its bounds",
           "write it as [low, high]");
  }
  row.samples = map.maybe("samples", count_between(1, 1'000'000));
  row.source = map.required("source", parse_word);
  return row;
}

cost::NcclBuffers read_nccl_buffers(const Node& node) {
  const MapReader map(node,
                      "outside.nccl",
                      {"receive_per_channel",
                       "send_per_channel",
                       "ring_peers",
                       "ring_channels",
                       "peer_channels",
                       "network_buffer"});
  const auto count = count_between(1, 1024);
  cost::NcclBuffers nccl;
  nccl.receive_per_channel = map.sourced("receive_per_channel", parse_bytes).value;
  nccl.send_per_channel = map.sourced("send_per_channel", parse_bytes).value;
  nccl.ring_peers = map.sourced("ring_peers", count).value;
  nccl.ring_channels = map.sourced("ring_channels", count).value;
  nccl.peer_channels = map.sourced("peer_channels", count).value;
  nccl.network_buffer = map.sourced("network_buffer", parse_bytes).value;
  return nccl;
}

}  // namespace

const ReserveRow& reserve_row(const MemorySpec& memory, Framework framework, Allocator allocator) {
  const auto row =
      std::find_if(memory.reserved.begin(), memory.reserved.end(), [&](const ReserveRow& r) {
        return r.allocator == allocator && r.framework.value_or(framework) == framework;
      });
  ensure(row != memory.reserved.end(), "reserve_row: no row for any framework");
  return *row;
}

MemorySpec read_memory(const Node& root, const std::string& name) {
  const MapReader map(root, "memory", {"version", "reserved", "outside"});
  map.required("version", parse_version);
  MemorySpec memory;
  memory.name = name;
  for (const Node& item : map.items("reserved")) {
    memory.reserved.push_back(read_reserve(item));
  }
  for (const Choice<Allocator>& allocator : kAllocatorWords) {
    if (std::none_of(memory.reserved.begin(), memory.reserved.end(), [&](const ReserveRow& row) {
          return row.allocator == allocator.value && !row.framework;
        })) {
      refuse(map.node("reserved").where(),
             fmt::format("reserved: no row for any framework with allocator {}", allocator.word),
             fmt::format("add '{{framework: any, allocator: {}, of: transient, share: 9 %, spread: "
                         "[6 %, 12 %], source: ...}}'",
                         allocator.word));
    }
  }
  const MapReader outside(
      map.node("outside"), "outside", {"cuda_context", "library_workspaces", "nccl"});
  memory.cuda_context = outside.sourced("cuda_context", parse_bytes).value;
  memory.library_workspaces = outside.sourced("library_workspaces", parse_bytes).value;
  memory.nccl = read_nccl_buffers(outside.node("nccl"));
  return memory;
}

}  // namespace trireme::config
