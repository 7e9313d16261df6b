#include "sim/study/law.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/study/point.h"

namespace trireme::study {

void apply_law(const config::LawSpec& law, ledger::StudyResult& result) {
  result.law = law.name;
  for (ledger::PlanResult& row : result.rows) {
    const auto sequence =
        std::find_if(row.point.begin(), row.point.end(), [](const ledger::PointValue& value) {
          return value.key == "workload.sequence";
        });
    ensure(sequence != row.point.end(), "law: a point without a sequence");
    const auto* const tokens = std::get_if<std::int64_t>(&sequence->value);
    ensure(tokens != nullptr, "law: a sequence that is no count");
    if (!row.numbers) {
      continue;
    }
    const Seconds charged = cost::step_law_time(
        row.numbers->memory.allocated, row.numbers->bytes.sent, Tokens(*tokens), law.law);
    if (charged > Seconds(0)) {
      row.law = charged;
    } else {
      row.reasons.push_back(
          fmt::format("law {} gives {:.6g} s, which no step takes: its sizes are outside of those "
                      "that the law was fitted to",
                      law.name,
                      charged.value()));
    }
  }
}

}  // namespace trireme::study
