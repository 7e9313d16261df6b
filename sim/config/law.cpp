#include "sim/config/law.h"

#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "sim/config/map_reader.h"
#include "sim/units/text.h"

namespace trireme::config {

namespace {

/// Beyond any step: eleven days.
constexpr Seconds kMostCharged{1e6};

/// Seconds that may be negative: "-1.2 ms".
Seconds parse_signed_seconds(std::string_view text) {
  const bool negative = text.starts_with('-');
  const Seconds amount = parse_seconds(negative ? text.substr(1) : text);
  if (amount > kMostCharged) {
    throw BadText(fmt::format("'{}' is out of range", text), "accepted: -1e6 s to 1e6 s");
  }
  return negative ? -amount : amount;
}

Seconds read_coefficient(const MapReader& map, std::string_view key, LawSpec& law) {
  const MapReader coefficient(
      map.node(key), map.path_of(key), {"value", "spread", "samples", "source", "date"});
  const Seconds value = coefficient.required("value", parse_signed_seconds);
  CoefficientSpec spec;
  spec.key = map.path_of(key);
  spec.value = coefficient.node("value").text;
  spec.where = coefficient.node("value").where();
  spec.source = coefficient.required("source", parse_word);
  spec.samples = coefficient.maybe("samples", parse_count);
  spec.date = coefficient.maybe("date", parse_word).value_or("");
  if (const Node* spread = coefficient.find("spread")) {
    const auto bounds = coefficient.items("spread");
    if (bounds.size() != 2 || parse_node(bounds[0], "spread", parse_signed_seconds) > value ||
        parse_node(bounds[1], "spread", parse_signed_seconds) < value) {
      refuse(spread->where(),
             fmt::format("spread: the value {} is not between two bounds", spec.value),
             "write it as [low, high]");
    }
    spec.spread_low = bounds[0].text;
    spec.spread_high = bounds[1].text;
  }
  law.coefficients.push_back(std::move(spec));
  return value;
}

}  // namespace

LawSpec read_law(const Node& root, const std::string& name) {
  const MapReader file(root, "", {"version", "description", "step_law"});
  file.required("version", parse_version);
  LawSpec law;
  law.name = name;
  law.file = file.where().file;
  law.description = file.maybe("description", parse_word).value_or("");
  const MapReader map(file.node("step_law"),
                      "step_law",
                      {"constant",
                       "per_peak_gibibyte",
                       "per_sent_gibibyte",
                       "per_kilotoken",
                       "per_kilotoken_squared"});
  law.law = {.constant = read_coefficient(map, "constant", law),
             .per_peak_gibibyte = read_coefficient(map, "per_peak_gibibyte", law),
             .per_sent_gibibyte = read_coefficient(map, "per_sent_gibibyte", law),
             .per_kilotoken = read_coefficient(map, "per_kilotoken", law),
             .per_kilotoken_squared = read_coefficient(map, "per_kilotoken_squared", law)};
  return law;
}

}  // namespace trireme::config
