#include "calibrate/measurement/columns.h"

#include <array>

namespace trireme::calibrate {

namespace {

constexpr std::array<std::string_view, 2> kPassNames = {"forward", "backward"};
constexpr std::array<std::string_view, 3> kGemmPassNames = {
    "forward", "data_gradient", "weight_gradient"};
constexpr std::array<std::string_view, cost::kPointwiseClasses> kKindNames = {
    "norm_forward", "norm_backward", "pointwise", "copy", "adam", "cross_entropy"};
constexpr std::array<std::string_view, 2> kDirectionNames = {"host_to_device", "device_to_host"};
// In the order of the enumeration.
constexpr std::array<std::string_view, 11> kTypeNames = {name(ElementType::bf16),
                                                         name(ElementType::fp16),
                                                         name(ElementType::fp32),
                                                         name(ElementType::fp64),
                                                         name(ElementType::fp8),
                                                         name(ElementType::int32),
                                                         name(ElementType::int64),
                                                         name(ElementType::int8),
                                                         name(ElementType::uint8),
                                                         name(ElementType::uint32),
                                                         name(ElementType::uint64)};

/// Columns of a part of a row, whose names begin alike.
class Prefixed final : public Columns {
 public:
  Prefixed(Columns& columns, std::string prefix) : columns_(columns), prefix_(std::move(prefix)) {}

  void text(std::string_view column, std::string& value, Presence presence) override {
    columns_.text(named(column), value, presence);
  }

  void count(std::string_view column, std::int64_t& value, std::int64_t least) override {
    columns_.count(named(column), value, least);
  }

  void seconds(std::string_view column, Seconds& value) override {
    columns_.seconds(named(column), value);
  }

  void flag(std::string_view column, bool& value) override { columns_.flag(named(column), value); }

  void choice(std::string_view column,
              std::size_t& value,
              std::span<const std::string_view> names) override {
    columns_.choice(named(column), value, names);
  }

 private:
  [[nodiscard]] std::string named(std::string_view column) const {
    return prefix_ + std::string(column);
  }

  Columns& columns_;
  std::string prefix_;
};

}  // namespace

void visit(Columns& columns, CollectivePoint& point) {
  columns.word("collective", point.collective, kCollectiveNames);
  columns.text("method", point.method, Presence::required);
  columns.count("ranks", point.ranks, 1);
  columns.count("ranks_per_node", point.ranks_per_node, 1);
  columns.word("type", point.type, kTypeNames);
  columns.bytes("payload_bytes", point.payload, 1);
}

void visit(Columns& columns, AttentionPoint& point) {
  columns.text("kernel", point.kernel, Presence::required);
  columns.word("pass", point.pass, kPassNames);
  columns.count("sequences", point.sequences, 1);
  columns.tokens("query_tokens", point.query_tokens);
  columns.tokens("key_tokens", point.key_tokens);
  columns.count("heads", point.heads, 1);
  columns.count("kv_heads", point.kv_heads, 1);
  columns.count("head_dim", point.head_dim, 1);
  columns.flag("causal", point.causal);
  columns.word("type", point.type, kTypeNames);
}

void visit(Columns& columns, GemmPoint& point) {
  columns.count("m", point.m, 1);
  columns.count("n", point.n, 1);
  columns.count("k", point.k, 1);
  columns.word("pass", point.pass, kGemmPassNames);
  columns.word("type", point.type, kTypeNames);
  columns.flag("fp32_accumulation", point.fp32_accumulation);
}

void visit(Columns& columns, MemoryBoundPoint& point) {
  columns.word("kind", point.kind, kKindNames);
  columns.text("kernel", point.kernel, Presence::required);
  columns.bytes("moved_bytes", point.moved, 1);
}

void visit(Columns& columns, LaunchPoint& point) {
  columns.text("kernel", point.kernel, Presence::required);
}

void visit(Columns& columns, HostCopyPoint& point) {
  columns.word("direction", point.direction, kDirectionNames);
  columns.flag("pinned", point.pinned);
  columns.bytes("amount_bytes", point.amount, 1);
}

void visit(Columns& columns, InterferencePoint& point) {
  Prefixed collective(columns, "collective_");
  visit(collective, point.collective);
  Prefixed gemm(columns, "gemm_");
  visit(gemm, point.gemm);
  columns.flag("collective_timed", point.collective_timed);
  columns.flag("together", point.together);
}

void visit(Columns& columns, Timing& timing) {
  columns.seconds("median_seconds", timing.median);
  columns.seconds("lower_quartile_seconds", timing.lower_quartile);
  columns.seconds("upper_quartile_seconds", timing.upper_quartile);
  columns.count("samples", timing.samples, 0);
  columns.flag("settled", timing.settled);
}

void visit(Columns& columns, Measurement& measurement) {
  std::visit([&](auto& point) { visit(columns, point); }, measurement.point);
  visit(columns, measurement.timing);
  columns.text("environment", measurement.environment, Presence::required);
}

void visit(Columns& columns, MemoryMeasurement& measurement) {
  columns.text("stage", measurement.stage, Presence::required);
  columns.bytes("used_bytes", measurement.used, 0);
  columns.text("environment", measurement.environment, Presence::required);
}

void visit(Columns& columns, Environment& environment) {
  columns.text("key", environment.key, Presence::required);
  columns.text("date", environment.date, Presence::optional);  // few logs state it
  columns.text("source", environment.source, Presence::required);
  columns.count("hosts", environment.hosts, 0);
  columns.text("host_names", environment.host_names, Presence::optional);
  columns.text("device", environment.device, Presence::optional);
  columns.count("devices_per_host", environment.devices_per_host, 0);
  columns.count("processors", environment.processors, 0);
  columns.bytes("device_memory_bytes", environment.device_memory, 0);
  columns.text("clocks", environment.clocks, Presence::optional);
  columns.text("power", environment.power, Presence::optional);
  columns.word("load", environment.load, kLoadNames);
  columns.text("driver", environment.driver, Presence::optional);
  columns.text("cuda", environment.cuda, Presence::optional);
  columns.text("nccl", environment.nccl, Presence::optional);
  columns.text("cudnn", environment.cudnn, Presence::optional);
  columns.text("mpi", environment.mpi, Presence::optional);
  columns.text("compiler", environment.compiler, Presence::optional);
  columns.text("commit", environment.commit, Presence::optional);
}

}  // namespace trireme::calibrate
