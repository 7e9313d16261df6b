// Validation cases judged, and the texts that say how far off the predictions are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/config/library.h"
#include "tests/validation/case_file.h"

namespace trireme::validation {

enum class Verdict : std::uint8_t {
  pass,
  fail,
  known_deviation,  // missed, with a cause: no failure, but an error that counts
  stale_deviation   // a known deviation that is within its tolerance now: a failure
};

struct Outcome {
  std::string id;      // "file/case"
  std::string source;  // key in docs/bibliography.md
  const ValidationCase* asked = nullptr;
  std::optional<double> predicted;  // in base units
  std::string problem;              // why nothing is predicted
  double error = 0;                 // relative to what is expected; of a bound that is kept, 0
  Verdict verdict = Verdict::fail;

  [[nodiscard]] bool failed() const {
    return verdict == Verdict::fail || verdict == Verdict::stale_deviation;
  }
};

/// The outcome of a case for a prediction: whether it is within the tolerance, and how far off.
[[nodiscard]] Outcome judge(const ValidationCase& asked, std::optional<double> predicted);

/// Every case of a file, in its order. Of several sequence lengths the worst counts. The outcomes
/// point into `file`.
[[nodiscard]] std::vector<Outcome> evaluate_cases(const CaseFile& file,
                                                  const config::Library& library);

/// case, predicted, expected, error, verdict: worst first.
[[nodiscard]] std::string outcome_table(std::span<const Outcome> outcomes);

/// The judged cases counted by topic, with their errors, in markdown.
[[nodiscard]] std::string accuracy_summary(std::span<const Outcome> outcomes);

/// docs/accuracy.md.
[[nodiscard]] std::string accuracy_page(std::span<const Outcome> outcomes);

}  // namespace trireme::validation
