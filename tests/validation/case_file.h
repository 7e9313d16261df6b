// Validation cases as their YAML files state them: a fact of a source and what it is checked on.
//
//   version: 1
//   source: blog2026ulysses-megatron        # key in docs/bibliography.md
//   study: {model: ..., cluster: ..., workload: ..., plans: [...]}   # or a file, from here
//   cases:
//     - name: peak-difference-8k
//       where: peak memory, 8 K tokens      # table and cell
//       fact: Ulysses + ZeRO-3 needs 6.39 GiB more than Megatron
//       printed: 6.39 GiB                   # the value as printed
//       quantity: peak_memory               # a row of quantity_table
//       plan: ulysses
//       minus: megatron                     # or relative_to, less_than; absent: the plan alone
//       sequence: 8K                        # or a list: the worst counts; absent: the study's own
//       expected: 6.39 GiB                  # or at_least, at_most: a bound
//       tolerance: 0.3 GiB                  # or "5 %", or exact; not with a bound
//       reason: why that wide
//       assumptions: [what the source does not state]
//       known_deviation: why it is missed   # counts as an error, and fails once the case passes
//       role: judged                        # or fitted: its value went into a profile
//
// Sent bytes are narrowed by `phases`, `traffic` and `components`, peak memory by `items`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/config/library.h"
#include "sim/config/node.h"
#include "sim/config/study_spec.h"
#include "tests/validation/quantities.h"

namespace trireme::validation {

/// What is done with the second plan b of a case on plan a: a / b, a - b, or 1 - a / b.
enum class Against : std::uint8_t { nothing, ratio, difference, saving };
enum class Bound : std::uint8_t { value, at_least, at_most };
enum class Role : std::uint8_t { judged, fitted };

struct Expectation {
  Bound bound = Bound::value;
  double value = 0;
  double tolerance = 0;  // absolute, in the unit of `value`; 0 for exact and for bounds
  std::string tolerance_text;
};

struct ValidationCase {
  std::string name;
  SourceLocation location;
  std::string where;  // in the source
  std::string fact;
  std::string printed;
  const Quantity* quantity = nullptr;
  Selection selection;
  std::string plan;
  Against against = Against::nothing;
  std::string other_plan;              // b, or the other plan of a crossover
  std::vector<std::string> sequences;  // as written; never empty
  Expectation expected;
  std::string reason;
  std::vector<std::string> assumptions;
  std::optional<std::string> known_deviation;
  Role role = Role::judged;

  /// Unit of the value: a ratio and a saving have none.
  [[nodiscard]] Dimension dimension() const {
    return against == Against::ratio || against == Against::saving ? Dimension::number
                                                                   : quantity->dimension;
  }
};

struct CaseFile {
  std::string name;    // of the file, without its extension
  std::string source;  // key in docs/bibliography.md
  config::Node study;
  std::vector<ValidationCase> cases;
};

/// Reads a whole file; `bibliography` holds the keys that `source` may name. The study is read too,
/// so that a plan which it does not name is refused. Throws Error (input), located.
[[nodiscard]] CaseFile read_cases(const config::Node& root,
                                  const config::Library& library,
                                  std::span<const std::string> bibliography);

/// The same from disk.
[[nodiscard]] CaseFile read_case_file(const std::filesystem::path& path,
                                      const config::Library& library,
                                      std::span<const std::string> bibliography);

/// The study of a file with another sequence length.
[[nodiscard]] config::StudySpec study_at(const CaseFile& file,
                                         const std::string& sequence,
                                         const config::Library& library);

/// Keys that items of docs/bibliography.md begin with.
[[nodiscard]] std::vector<std::string> bibliography_keys(const std::string& markdown);

}  // namespace trireme::validation
