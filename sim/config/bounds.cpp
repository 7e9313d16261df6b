#include "sim/config/bounds.h"

#include <stdexcept>

#include <fmt/core.h>

#include "sim/config/map_reader.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::config {
namespace {

const Bound& bound_of(std::string_view key) {
  for (const Bound& bound : kBounds) {
    if (bound.key == key) {
      return bound;
    }
  }
  throw std::logic_error("bound_of: a key without a row in kBounds");
}

}  // namespace

std::function<std::int64_t(std::string_view)> count_within(std::string_view key) {
  const Bound& bound = bound_of(key);
  return count_between(bound.lowest, bound.highest);
}

Tokens parse_sequence(std::string_view text) {
  const Tokens tokens = parse_tokens(text);
  const Bound& bound = bound_of("sequence");
  if (tokens.value() < bound.lowest || tokens.value() > bound.highest) {
    throw BadText(fmt::format("{} is out of range", in_quotes(text)),
                  fmt::format("accepted: {} to {} tokens",
                              to_text(Tokens(bound.lowest)),
                              to_text(Tokens(bound.highest))));
  }
  return tokens;
}

}  // namespace trireme::config
