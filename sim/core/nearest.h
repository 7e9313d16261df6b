// The hint of an error about a word: the nearest accepted word, or all of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Insertions, deletions and replacements that turn `a` into `b`, or nullopt above 2.
[[nodiscard]] std::optional<int> small_edit_distance(std::string_view a, std::string_view b);

/// The known word nearest to `word`: the same but for case, or at most 2 edits away and less than
/// half rewritten. The first of equals; nullopt when none is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 std::span<const std::string> known);

/// "did you mean 'sequence'?", or "accepted: a, b, c" when nothing is near.
[[nodiscard]] std::string hint_near(std::string_view word, std::span<const std::string> known);

}  // namespace trireme
