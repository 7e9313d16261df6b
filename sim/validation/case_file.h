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
//       tolerance: 0.3 GiB                  # or "5 %", exact, or set: its set has the bound
//       reason: why that wide
//       assumptions: [what the source does not state]
//       known_deviation: why it is missed   # counts as an error, and fails once the case passes
//       role: judged                        # fitted: its value went into a profile or an overhead;
//                                           # reported: its own source contradicts it
//       with: {cluster.nodes: 2}            # keys of the study that are otherwise for this case
//       group: 8 GPUs                       # runs that could replace each other
//       peer: 700 ms                        # what the file's `peer` predicts for it
//   common: {quantity: step_time, tolerance: 10 %, reason: ...}   # keys that cases do not write
//   tables:                               # many cases alike, one a row
//     - common: {role: fitted, with: {model.layers: 16}}      # as above, before the file's own
//       columns: [name, plans.p.ulysses, workload.micro_batch, expected]  # keys of a case; dotted
//       rows: [[ulysses-8, 8, 1, 36.7 GiB]]                   # ones are those of `with`
//   peer: SimuMax 1.2
//
// A quantity of a set of runs, such as mean_error, is asked of all the file's cases with the same
// role that state what it is about, and names no plan. `printed` of a table's row is what is
// expected unless it says otherwise; documents list its set alone.
//
// Sent bytes are narrowed by `phases`, `traffic` and `components`, peak memory by `items`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/library.h"
#include "sim/config/node.h"
#include "sim/config/study_spec.h"
#include "sim/ledger/validation.h"
#include "sim/validation/quantities.h"

namespace trireme::validation {

/// What is done with the second plan b of a case on plan a: a / b, a - b, or 1 - a / b.
enum class Against : std::uint8_t { nothing, ratio, difference, saving };

struct ValidationCase {
  SourceLocation location;
  ledger::StatedFact stated;
  const Quantity* quantity = nullptr;
  Selection selection;
  std::string plan;
  Against against = Against::nothing;
  std::string other_plan;              // b, or the other plan of a crossover
  std::vector<std::string> sequences;  // as written; never empty
  std::vector<config::Entry> with;     // dotted keys of the study and their values
};

struct CaseFile {
  config::Node study;
  std::vector<ValidationCase> cases;
};

/// Where a study that a case file names is looked for: beside it, or among the built-in files.
enum class StudyFiles : std::uint8_t { on_disk, built_in };

/// Reads a whole file. The study is read too, so that a plan which it does not name is refused.
/// Throws Error (input), located.
[[nodiscard]] CaseFile read_cases(const config::Node& root,
                                  const config::Library& library,
                                  StudyFiles studies = StudyFiles::on_disk);

/// The case files that are compiled into the binary, sorted by name: those of
/// tests/validation/cases.
[[nodiscard]] std::vector<CaseFile> built_in_cases(const config::Library& library);

/// The study of a case at a sequence length.
[[nodiscard]] config::StudySpec study_at(const CaseFile& file,
                                         const ValidationCase& asked,
                                         const std::string& sequence,
                                         const config::Library& library);

}  // namespace trireme::validation
