// A law of step times, applied to the rows of a study.
#pragma once

#include "sim/config/law.h"
#include "sim/ledger/result.h"

namespace trireme::study {

/// Gives every row that has numbers the seconds of `law` for its peak memory, its bytes sent and
/// its sequence, beside the seconds that a profile gives; a reason where the law gives none above
/// zero.
void apply_law(const config::LawSpec& law, ledger::StudyResult& result);

}  // namespace trireme::study
