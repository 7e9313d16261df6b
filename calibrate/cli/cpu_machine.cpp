#include "calibrate/cli/cpu_machine.h"

#include <algorithm>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "sim/core/files.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

/// The best that was measured.
struct Reached {
  FlopsPerSecond flops;
  BytesPerSecond memory;
  BytesPerSecond copy;
  BytesPerSecond exchange;  // what a rank receives in a collective; zero where none was measured

  /// Ranks exchange messages through memory: where they did not, no faster than a copy.
  [[nodiscard]] BytesPerSecond link() const {
    return exchange > BytesPerSecond(0) ? exchange : copy;
  }
};

/// The least that a rank of a collective receives.
Bytes received(const CollectivePoint& point) {
  const std::int64_t payload = point.payload.value();
  const std::int64_t others = point.ranks - 1;
  switch (point.collective) {
    case CollectiveKind::all_reduce:
      return Bytes(2 * (payload / point.ranks) * others);
    case CollectiveKind::send_recv:
      return point.payload;
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      break;
  }
  return Bytes(payload / point.ranks * others);
}

Reached reached_by(const MeasurementSet& set) {
  Reached best;
  for (const Measurement& row : set.measurements) {
    const Seconds time = row.timing.median;
    if (const auto* gemm = std::get_if<GemmPoint>(&row.point)) {
      const Flops work(2.0 * static_cast<double>(gemm->m) * static_cast<double>(gemm->n) *
                       static_cast<double>(gemm->k));
      best.flops = std::max(best.flops, work / time);
    } else if (const auto* kernel = std::get_if<MemoryBoundPoint>(&row.point)) {
      best.memory = std::max(best.memory, kernel->moved / time);
    } else if (const auto* copy = std::get_if<HostCopyPoint>(&row.point)) {
      best.copy = std::max(best.copy, copy->amount / time);
    } else if (const auto* collective = std::get_if<CollectivePoint>(&row.point)) {
      best.exchange = std::max(best.exchange, received(*collective) / time);
    }
  }
  return best;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    result += character == '"' || character == '\\' ? std::string("\\") + character
                                                    : std::string(1, character);
  }
  return result + '"';
}

}  // namespace

void write_cpu_machine(const std::filesystem::path& folder, const Environment& environment) {
  const Reached best = reached_by(read_measurements(folder, [](const std::string&) {}));
  if (best.flops <= FlopsPerSecond(0) || best.memory <= BytesPerSecond(0) ||
      best.link() <= BytesPerSecond(0)) {
    return;
  }
  const std::string source = quoted(fmt::format("the best measured, {}", environment.date));
  const auto sourced = [](const std::string& value, const std::string& from) {
    return fmt::format("{{value: {}, source: {}}}", value, from);
  };
  const std::string link = sourced(to_text(best.link()), source);
  write_file_atomically(
      folder / "gpu.yaml",
      fmt::format(
          "# A rank on one core in the place of a GPU: what `trireme verify --time` runs on.\n"
          "# Bytes and operations count as a program declares them, though every number is\n"
          "# executed in double precision; ranks exchange messages through memory.\n"
          "version: 1\n"
          "name: {}\n"
          "memory_visible: {}\n"
          "peak_dense: {{bf16: {}}}\n"
          "memory_bandwidth: {}\n"
          "nvlink_one_direction: {}\n",
          quoted(environment.device),
          sourced(to_text(environment.device_memory), quoted("the system's memory")),
          sourced(to_text(best.flops), source),
          sourced(to_text(best.memory), source),
          link));
  write_file_atomically(folder / "cluster.yaml",
                        fmt::format("# The machine that was measured, for `cluster: {{use: "
                                    "cluster.yaml, profile: ...}}` of a study.\n"
                                    "version: 1\n"
                                    "nodes: {}\n"
                                    "node: {{gpus: {}, gpu: gpu.yaml, nic_per_gpu: {}}}\n"
                                    "fabric: {{kind: rail_optimised}}\n",
                                    environment.hosts,
                                    environment.devices_per_host,
                                    link));
}

}  // namespace trireme::calibrate
