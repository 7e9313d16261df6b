// Whether a plan can run, and every reason why not. An infeasible plan is a result, not an error.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// One condition that a plan fails.
struct Refusal {
  std::string rule;     // the rule's stable name, such as "ulysses-heads"
  std::string message;  // one sentence with the numbers of this plan
};

struct Feasibility {
  std::vector<Refusal> refusals;

  [[nodiscard]] bool legal() const { return refusals.empty(); }
};

}  // namespace trireme
