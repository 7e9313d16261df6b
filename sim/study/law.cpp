#include "sim/study/law.h"

#include <algorithm>

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
    if (row.numbers) {
      row.law = cost::step_law_time(
          row.numbers->memory.allocated, row.numbers->bytes.sent, Tokens(*tokens), law.law);
    }
  }
}

}  // namespace trireme::study
