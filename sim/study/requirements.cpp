#include "sim/study/requirements.h"

#include <fmt/format.h>

namespace trireme::study {

namespace {

std::string_view words(ledger::Verdict verdict) {
  switch (verdict) {
    case ledger::Verdict::fits:
      return "it fits";
    case ledger::Verdict::does_not_fit:
      return "it does not fit";
    case ledger::Verdict::illegal:
      return "it is illegal";
  }
  return "";
}

}  // namespace

void check_requirements(std::span<const config::RequireSpec> requirements,
                        std::span<const ledger::PlanResult> rows,
                        std::vector<ledger::FailedRequirement>& failed) {
  for (const config::RequireSpec& requirement : requirements) {
    for (const ledger::PlanResult& row : rows) {
      if (row.plan != requirement.plan) {
        continue;
      }
      const auto fail = [&](std::string message) {
        failed.push_back({row.plan, row.point, std::move(message)});
      };
      if (requirement.fits && *requirement.fits != (row.verdict == ledger::Verdict::fits)) {
        fail(fmt::format("requires fits: {}, but {}", *requirement.fits, words(row.verdict)));
      }
      if (!requirement.exposed_communication_below) {
        continue;
      }
      const double bound = *requirement.exposed_communication_below;
      if (!row.numbers || !row.numbers->step) {
        fail(fmt::format("requires exposed_communication < {:.4g} %, but that is not known",
                         100 * bound));
      } else if (row.numbers->step->exposed_fraction >= bound) {
        fail(fmt::format("requires exposed_communication < {:.4g} %, but it is {:.4g} %",
                         100 * bound,
                         100 * row.numbers->step->exposed_fraction));
      }
    }
  }
}

}  // namespace trireme::study
