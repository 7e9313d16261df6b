// What nccl-tests printed: text logs of every version, and the JSON that newer ones write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "calibrate/import/imported.h"

namespace trireme::calibrate {

/// The largest log that is read, and the largest JSON document, whose tree takes more room.
inline constexpr std::int64_t kLargestLog = std::int64_t{64} << 20;
inline constexpr std::int64_t kLargestJson = std::int64_t{16} << 20;

/// Reads every table of a log, whatever launcher, terminal or page it went through. Nothing is
/// repaired: a row that is cut, mixed with other output or at odds with itself is refused where it
/// stands, and so is a table whose collective or ranks neither the log nor `statements` give.
/// `file` names the log in messages and, without its extension, in the keys of environments.
/// Throws Error (input) for more than 100,000 rows.
[[nodiscard]] ImportedLog read_nccl_tests_log(std::string_view text,
                                              const std::string& file,
                                              const Statements& statements);

/// The same of a JSON document of nccl-tests -J. Throws Error (input) where it is no JSON, nested
/// deeper than 16, or not a document of nccl-tests.
[[nodiscard]] ImportedLog read_nccl_tests_json(std::string_view text,
                                               const std::string& file,
                                               const Statements& statements);

/// Whether a file begins as a JSON document does.
[[nodiscard]] bool looks_like_json(std::string_view text);

/// "2.29.2" of the number 22902, as nccl.h packs it; empty for a number that packs none.
[[nodiscard]] std::string nccl_version_text(std::int64_t packed);

}  // namespace trireme::calibrate
