// A timeline as a trace that Perfetto and Chrome open.
#pragma once

#include <string>

#include "sim/ledger/timeline.h"

namespace trireme::report {

/// Trace Event Format (JSON object form): one process per drawn rank, one thread per stream, a
/// slice per task in microseconds with nanosecond steps, arrows from what was waited for to what
/// waited and, in a collective, from the rank that came last to those that had come, and a counter
/// of allocated memory. Events are in order of time. Source: perfetto,
/// docs/getting-started/other-formats.md and its JSON importer
[[nodiscard]] std::string to_trace(const ledger::Timeline& timeline);

}  // namespace trireme::report
