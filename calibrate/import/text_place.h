// Places in a text for located errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sim/core/error.h"

namespace trireme::calibrate {

/// Line and column (1-based, in characters) of a byte of a text, with the line as far as it is
/// shown. A byte behind the end stands at the end.
[[nodiscard]] SourceLocation place_of_byte(const std::string& file,
                                           std::string_view text,
                                           std::size_t byte);

}  // namespace trireme::calibrate
