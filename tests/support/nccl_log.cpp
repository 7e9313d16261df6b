#include "tests/support/nccl_log.h"

#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

namespace trireme::test {

namespace {

struct Program {
  std::string name;
  std::string reduction;
  bool split = false;
  double factor = 0;  // 0: bus and algorithm bandwidth are the same
  bool in_place_compared = true;
};

const Program& find_program(const std::string& name) {
  static const std::vector<Program> kPrograms = {
      {"all_reduce_perf", "sum", false, 2, true},
      {"all_gather_perf", "none", true, 1, true},
      {"reduce_scatter_perf", "sum", true, 1, true},
      {"alltoall_perf", "none", true, 1, false},
      {"sendrecv_perf", "sum", false, 0, false},
  };
  for (const Program& program : kPrograms) {
    if (program.name == name) {
      return program;
    }
  }
  throw std::invalid_argument(name);
}

/// As getFloatStr() of nccl-tests: two decimals, fewer where they do not fit.
std::string padded(double value, int width) {
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (static_cast<int>(text.size()) <= width) {
      return text;
    }
  }
  return fmt::format("{:{}.1e}", value, width);
}

std::string half(std::int64_t size, double time_us, double factor, bool compared) {
  const double algorithm = static_cast<double>(size) / time_us * 1e-3;
  return fmt::format("  {}  {}  {}  {:>6}",
                     padded(time_us, 7),
                     padded(algorithm, 6),
                     padded(algorithm * factor, 6),
                     compared ? "0" : "N/A");
}

}  // namespace

std::vector<std::string> nccl_rows(const LogRecipe& recipe) {
  const Program& program = find_program(recipe.program);
  const auto ranks = static_cast<double>(recipe.ranks);
  const double factor = program.factor == 0 ? 1 : program.factor * (ranks - 1) / ranks;
  std::vector<std::string> rows;
  std::int64_t size = recipe.first_size;
  for (int i = 0; i < recipe.rows; ++i, size *= 2) {
    const std::int64_t count = size / 4 / (program.split ? recipe.ranks : 1);
    const double time_us = 20.0 + static_cast<double>(size) / (90e3 + 1e3 * i);
    rows.push_back(fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}{}{}",
                               size,
                               count,
                               "float",
                               program.reduction,
                               -1,
                               half(size, time_us, factor, true),
                               half(size, time_us * 1.01, factor, program.in_place_compared)));
  }
  return rows;
}

std::string nccl_log(const LogRecipe& recipe) {
  std::string log = fmt::format(
      "# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n"
      "# Collective test starting: {}\n"
      "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20 "
      "agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n",
      recipe.program);
  for (std::int64_t rank = 0; rank < recipe.ranks; ++rank) {
    log += fmt::format(
        "#  Rank {:2} Group  0 Pid {:6} on  host{:02} device {:2} [0000:{:02x}:00] NVIDIA H100 "
        "80GB "
        "HBM3\n",
        rank,
        1000 + rank,
        rank / recipe.ranks_per_node,
        rank % recipe.ranks_per_node,
        16 + rank % recipe.ranks_per_node);
  }
  log +=
      "#\n#                                                              out-of-place          "
      "             in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong \n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
      "(us)  (GB/s)  (GB/s)         \n";
  for (const std::string& row : nccl_rows(recipe)) {
    log += row + '\n';
  }
  log += "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.0 \n#\n";
  return log + fmt::format("# Collective test concluded: {}\n", recipe.program);
}

std::string with_prefix(const std::string& text, const std::string& prefix) {
  std::istringstream lines(text);
  std::string line;
  std::string prefixed;
  while (std::getline(lines, line)) {
    prefixed += prefix + line + '\n';
  }
  return prefixed;
}

}  // namespace trireme::test
