// Compression of what is large as text.
#pragma once

#include <string>
#include <string_view>

namespace trireme::report {

/// `text` in gzip's format (RFC 1952), without a name or a time: the same for the same text. Throws
/// std::runtime_error when memory does not suffice.
[[nodiscard]] std::string gzip(std::string_view text);

}  // namespace trireme::report
