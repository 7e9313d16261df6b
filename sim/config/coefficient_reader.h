// Coefficients with their provenance, as profiles, laws and tables of overheads write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "sim/config/map_reader.h"
#include "sim/config/profile_spec.h"

namespace trireme::config {

/// Reads coefficients out of maps and keeps the provenance of each.
class CoefficientReader {
 public:
  explicit CoefficientReader(std::vector<CoefficientSpec>& coefficients)
      : coefficients_(&coefficients) {}

  /// `key: {value: 6.6 us, spread: [6.1 us, 7.0 us], samples: 180, source: fit_forms}`; spread and
  /// samples where they are known.
  template <class Parse>
  auto operator()(const MapReader& map, std::string_view key, const Parse& parse) const {
    const MapReader coefficient(
        map.node(key), map.path_of(key), {"value", "spread", "samples", "source", "date"});
    const auto value = coefficient.required("value", parse);
    CoefficientSpec spec;
    spec.key = map.path_of(key);
    spec.value = coefficient.node("value").text;
    spec.where = coefficient.node("value").where();
    spec.source = coefficient.required("source", parse_word);
    spec.samples = coefficient.maybe("samples", count_between(1, kMostSamples));
    spec.date = coefficient.maybe("date", parse_word).value_or("");
    if (const Node* spread = coefficient.find("spread")) {
      const auto bounds = coefficient.items("spread");
      if (bounds.size() != 2) {
        refuse(spread->where(),
               fmt::format("spread: expected two values, found {}", bounds.size()),
               "write it as [low, high]");
      }
      if (!(parse_node(bounds[0], "spread", parse) <= value &&
            value <= parse_node(bounds[1], "spread", parse))) {
        refuse(spread->where(),
               fmt::format("spread: the value {} is not between its bounds", spec.value),
               "write it as [low, high]");
      }
      spec.spread_low = bounds[0].text;
      spec.spread_high = bounds[1].text;
    }
    coefficients_->push_back(std::move(spec));
    return value;
  }

  /// The same; empty when the key is missing.
  template <class Parse>
  auto maybe(const MapReader& map, std::string_view key, const Parse& parse) const {
    using Value = std::invoke_result_t<const Parse&, std::string_view>;
    return map.find(key) == nullptr ? std::optional<Value>()
                                    : std::optional<Value>((*this)(map, key, parse));
  }

 private:
  static constexpr std::int64_t kMostSamples = 1'000'000'000;

  std::vector<CoefficientSpec>* coefficients_;
};

}  // namespace trireme::config
