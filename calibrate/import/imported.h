// What reading a file of another tool gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/measurement/environment.h"
#include "calibrate/measurement/measurement.h"
#include "sim/core/error.h"

namespace trireme::calibrate {

/// What a person says about files that do not say it themselves; 0 and empty: not said. A file that
/// says otherwise is refused.
struct Statements {
  std::string collective{};  // of kCollectiveNames
  std::int64_t ranks = 0;
  std::int64_t ranks_per_node = 0;
  std::string device{};
  std::string nccl{};
  std::string date{};
  std::string source{};
};

/// A row, or a table, that was not taken.
struct Refusal {
  SourceLocation where;
  std::string reason;
  std::string hint;
};

/// Refusals beyond these are counted, not kept.
inline constexpr std::size_t kMostRefusals = 100;

struct ImportedLog {
  std::vector<Measurement> measurements;
  std::vector<Environment> environments;
  std::vector<Refusal> refusals;   // the first kMostRefusals
  std::int64_t refusal_count = 0;  // all of them
  std::int64_t refused_rows = 0;
  std::int64_t empty_rows = 0;     // of no bytes: nothing was sent
  std::vector<std::string> notes;  // what was concluded rather than read

  void refuse(Refusal refusal, std::int64_t rows);
  /// Adds a note unless it is there already.
  void note(std::string text);
};

}  // namespace trireme::calibrate
