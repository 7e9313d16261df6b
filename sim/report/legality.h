// Legal degrees, for people and for machines.
#pragma once

#include <string>

#include "sim/ledger/legality.h"

namespace trireme::report {

/// A line per stack with its legal degrees, then each refusal with its rule and numbers.
[[nodiscard]] std::string to_terminal(const ledger::LegalityResult& result, bool color);

/// A row per stack and degree.
[[nodiscard]] std::string to_csv(const ledger::LegalityResult& result);

/// {"schema_version": 1, "command": "legal", ..., "stacks": [{"stack": ..., "legal": [...], ...}]}
[[nodiscard]] std::string to_json(const ledger::LegalityResult& result);

}  // namespace trireme::report
