// Text of unknown origin made safe to print on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

/// The byte length of the UTF-8 character at `at`; 1 for a byte that starts none. Never past the
/// end.
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t at);

/// The number of UTF-8 characters.
[[nodiscard]] std::size_t utf8_count(std::string_view text);

/// The offset of the first byte that is not valid UTF-8, or text.size() if all is valid.
[[nodiscard]] std::size_t utf8_valid_prefix(std::string_view text);

/// `text` with a tab or line break as one space and every other control character (C0, DEL, C1,
/// and the marks that change the direction of writing) and invalid byte as '?': one column for one
/// character, so that carets keep their place.
[[nodiscard]] std::string printable(std::string_view text);

/// printable(text) in single quotes, cut to `characters`.
[[nodiscard]] std::string in_quotes(std::string_view text, std::size_t characters = 60);

}  // namespace trireme
