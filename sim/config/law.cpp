#include "sim/config/law.h"

#include <string_view>

#include <fmt/core.h>

#include "sim/config/coefficient_reader.h"
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
  const CoefficientReader coefficient(law.coefficients);
  law.law = {
      .constant = coefficient(map, "constant", parse_signed_seconds),
      .per_peak_gibibyte = coefficient(map, "per_peak_gibibyte", parse_signed_seconds),
      .per_sent_gibibyte = coefficient(map, "per_sent_gibibyte", parse_signed_seconds),
      .per_kilotoken = coefficient(map, "per_kilotoken", parse_signed_seconds),
      .per_kilotoken_squared = coefficient(map, "per_kilotoken_squared", parse_signed_seconds)};
  return law;
}

}  // namespace trireme::config
