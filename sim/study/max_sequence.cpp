#include "sim/study/max_sequence.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/config/study_reader.h"
#include "sim/plan/plan.h"
#include "sim/study/device_memory.h"
#include "sim/study/levers.h"
#include "sim/units/text.h"

namespace trireme::study {

using config::PlanSpec;
using config::StudySpec;
using ledger::LongestSequence;
using ledger::Verdict;

namespace {

/// One plan at any length.
class Lengths {
 public:
  Lengths(StudySpec study, PlanSpec plan) : study_(std::move(study)), plan_(std::move(plan)) {
    study_.plans = {plan_};
    study_.sweep.clear();
  }

  [[nodiscard]] std::vector<std::string> refusals(Tokens sequence) {
    study_.workload.sequence.value = sequence;
    std::vector<std::string> found;
    if (!config::within_limits(study_)) {
      found.push_back(fmt::format("longest-sequence: {} tokens are beyond what a study may ask",
                                  sequence.value()));
      return found;
    }
    for (const Refusal& refusal : plan::resolve(study_, plan_).feasibility.refusals) {
      found.push_back(fmt::format("{}: {}", refusal.rule, refusal.message));
    }
    return found;
  }

  [[nodiscard]] bool legal(Tokens sequence) { return refusals(sequence).empty(); }

  /// Empty at an illegal length.
  [[nodiscard]] std::optional<PlanMemory> memory(Tokens sequence) {
    if (!legal(sequence)) {
      return std::nullopt;
    }
    return plan_memory(study_, plan_);
  }

  [[nodiscard]] Verdict verdict(Tokens sequence) {
    const std::optional<PlanMemory> found = memory(sequence);
    return found ? found->verdict : Verdict::illegal;
  }

  /// The smallest length whose multiples are all legal: rules ask for multiples of products of
  /// degrees, zigzag blocks for twice that. Zero where there is none.
  [[nodiscard]] Tokens step() {
    const std::int64_t all = 2 * std::max<std::int64_t>(1, plan_.ulysses.value) * plan_.ring.value *
                             plan_.sequence_gather.value * plan_.tensor_parallel.value;
    for (std::int64_t length = 1; length <= all; ++length) {
      if (all % length == 0 && legal(Tokens(length)) && legal(Tokens(2 * length)) &&
          legal(Tokens(3 * length))) {
        return Tokens(length);
      }
    }
    return Tokens(legal(Tokens(all)) ? all : 0);
  }

  [[nodiscard]] const StudySpec& study() const { return study_; }

  [[nodiscard]] const PlanSpec& plan() const { return plan_; }

 private:
  StudySpec study_;
  PlanSpec plan_;
};

/// The most steps for which `holds`, of 0, 1, ...; it holds for 0 and, where it does not for one
/// number, for none above.
template <class Holds>
std::int64_t most_steps(std::int64_t from, Holds holds) {
  std::int64_t good = from;
  std::int64_t bad = std::max<std::int64_t>(1, 2 * from);
  while (holds(bad)) {
    good = bad;
    bad *= 2;
  }
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

/// The longest that fits, in steps.
std::int64_t longest(Lengths& lengths, Tokens step) {
  return most_steps(
      0, [&](std::int64_t steps) { return lengths.verdict(steps * step) == Verdict::fits; });
}

void add_levers(const StudySpec& study,
                const PlanSpec& plan,
                const ledger::DeviceMemory& now,
                LongestSequence& row) {
  for (ChangedPlan& changed : levers(study, plan, now)) {
    Lengths lengths(std::move(changed.study), std::move(changed.plan));
    const Tokens step = lengths.step();
    if (step == Tokens(0)) {
      continue;
    }
    const Tokens fits = longest(lengths, step) * step;
    if (fits > row.fits.value_or(Tokens(0))) {
      row.levers.push_back({std::move(changed.lever.change), fits});
    }
  }
  std::stable_sort(row.levers.begin(), row.levers.end(), [](const auto& a, const auto& b) {
    return a.fits > b.fits;
  });
}

LongestSequence longest_of(const StudySpec& study, const PlanSpec& plan) {
  Lengths lengths(study, plan);
  LongestSequence row;
  row.plan = plan.name;
  row.capacity = study.cluster.gpu.memory_visible;
  row.step = lengths.step();
  if (row.step == Tokens(0)) {
    row.refusals = lengths.refusals(study.workload.sequence.value);
    return row;
  }
  const std::int64_t fits = longest(lengths, row.step);
  if (fits > 0) {
    row.fits = fits * row.step;
  }
  const std::int64_t tight = most_steps(fits, [&](std::int64_t steps) {
    const Verdict verdict = lengths.verdict(steps * row.step);
    return verdict == Verdict::fits || verdict == Verdict::tight;
  });
  if (tight > fits) {
    row.tight = tight * row.step;
  }
  const Tokens beyond = (fits + 1) * row.step;
  const std::optional<PlanMemory> memory = lengths.memory(beyond);
  if (!memory) {
    row.refusals = lengths.refusals(beyond);
    return row;
  }
  row.beyond = beyond;
  row.memory = memory->memory;
  row.device = memory->device;
  row.host = memory->host;
  add_levers(lengths.study(), lengths.plan(), row.device, row);
  return row;
}

}  // namespace

ledger::LongestSequences longest_sequences(const StudySpec& study) {
  ledger::LongestSequences found;
  found.study = study.name;
  found.memory_table = study.memory.name;
  for (const PlanSpec& plan : study.plans) {
    found.rows.push_back(longest_of(study, plan));
  }
  return found;
}

}  // namespace trireme::study
