// Where a text begins, and places in it for located errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sim/core/error.h"

namespace trireme::calibrate {

/// The text without the mark that editors of some systems put before it.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text);

/// Line and column (1-based, in characters) of a byte of a text, with the line as far as it is
/// shown. A byte behind the end stands at the end.
[[nodiscard]] SourceLocation place_of_byte(const std::string& file,
                                           std::string_view text,
                                           std::size_t byte);

}  // namespace trireme::calibrate
