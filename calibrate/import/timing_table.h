// Tables of timings as CSV with a header: what publications and spreadsheets hold.
//
// A table is of one of three kinds, by the columns that it has; others are not read. Fields may
// stand in double quotes, in which "" is a quote.
//   collectives  collective, n_gpus, gpus_per_node, size_bytes, dtype, oop_time_us
//   attention    kernel, dtype, pass, causal, head_dim, heads, kv_heads, batch, seq, time_ms
//   products     dtype, m, n, k, time_us
// gpu and nccl_version, where they are, name the device and the library; oop_algbw_GBps and
// oop_busbw_GBps are checked against time and ranks, and wrong says whether the result was. Sizes
// are as nccl-tests counts them: gathered or reduced as a whole, of an all-to-all what one rank
// holds.
#pragma once

#include <string>
#include <string_view>

#include "calibrate/import/imported.h"

namespace trireme::calibrate {

/// Whether the first line has most of the columns of a table of timings.
[[nodiscard]] bool looks_like_timing_table(std::string_view text);

/// Reads a table. A row that is no measurement (no time, an unknown type, a pass of its own) is
/// refused with its line. Each device and library version is an environment of its own. Throws
/// Error (input) for a header that lacks a column or has one twice.
[[nodiscard]] ImportedLog read_timing_table(std::string_view text,
                                            const std::string& file,
                                            const Statements& statements);

}  // namespace trireme::calibrate
