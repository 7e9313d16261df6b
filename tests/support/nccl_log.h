// Logs of nccl-tests for tests, built from numbers so that sizes, counts and bandwidths agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::test {

/// A run of one collective; each row has twice the size of the one before. By default sizes are so
/// large that their bandwidths have enough digits to show a contradiction.
struct LogRecipe {
  std::string program = "all_reduce_perf";
  std::int64_t ranks = 8;
  std::int64_t ranks_per_node = 8;
  int rows = 3;
  std::int64_t first_size = 1 << 20;
};

/// The table's rows alone, a line each.
[[nodiscard]] std::vector<std::string> nccl_rows(const LogRecipe& recipe);

/// The whole log, as version 2.17 prints it.
[[nodiscard]] std::string nccl_log(const LogRecipe& recipe);

/// `text` with `prefix` before every line.
[[nodiscard]] std::string with_prefix(const std::string& text, const std::string& prefix);

}  // namespace trireme::test
