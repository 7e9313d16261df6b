#include "sim/core/nearest.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace trireme {
namespace {

constexpr int kLargestDistance = 2;

/// ASCII only: keys and names are ASCII, and the result must not depend on the locale.
std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return lower;
}

}  // namespace

std::optional<int> small_edit_distance(std::string_view a, std::string_view b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  const std::size_t longer = std::max(a.size(), b.size());
  if (longer - shorter > static_cast<std::size_t>(kLargestDistance)) {
    return std::nullopt;  // also what keeps a huge word from costing anything
  }
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = static_cast<int>(j);
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  if (row.back() > kLargestDistance) {
    return std::nullopt;
  }
  return row.back();
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  std::optional<std::string> best;
  int best_distance = kLargestDistance + 1;
  for (const std::string& candidate : known) {
    const std::optional<int> distance =
        small_edit_distance(lower_case(word), lower_case(candidate));
    const auto shorter = std::min(word.size(), candidate.size());
    const bool mostly_kept = distance && 2 * static_cast<std::size_t>(*distance) < shorter;
    if (distance && (*distance == 0 || mostly_kept) && *distance < best_distance) {
      best_distance = *distance;
      best = candidate;
    }
  }
  return best;
}

std::string hint_near(std::string_view word, std::span<const std::string> known) {
  if (const std::optional<std::string> near = nearest(word, known)) {
    return fmt::format("did you mean '{}'?", *near);
  }
  if (known.empty()) {
    return "nothing is accepted here";
  }
  return fmt::format("accepted: {}", fmt::join(known, ", "));
}

}  // namespace trireme
