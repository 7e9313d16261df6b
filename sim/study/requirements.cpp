#include "sim/study/requirements.h"

#include <utility>

namespace trireme::study {

void check_requirements(std::span<const config::RequireSpec> requirements,
                        std::span<const ledger::PlanResult> rows,
                        std::vector<ledger::FailedRequirement>& failed) {
  for (const config::RequireSpec& requirement : requirements) {
    for (const ledger::PlanResult& row : rows) {
      if (row.plan != requirement.plan) {
        continue;
      }
      ledger::FailedRequirement failure;
      failure.plan = row.plan;
      failure.point = row.point;
      failure.verdict = row.verdict;
      if (requirement.fits && *requirement.fits != (row.verdict == ledger::Verdict::fits)) {
        failed.push_back(failure);
        failed.back().fits = requirement.fits;
      }
      if (!requirement.exposed_communication_below) {
        continue;
      }
      failure.exposed_below = *requirement.exposed_communication_below;
      if (row.numbers && row.numbers->step) {
        failure.exposed_fraction = row.numbers->step->exposed_fraction;
      }
      if (!failure.exposed_fraction || *failure.exposed_fraction >= failure.exposed_below) {
        failed.push_back(std::move(failure));
      }
    }
  }
}

}  // namespace trireme::study
