#include "sim/study/point.h"

#include "sim/units/text.h"

namespace trireme::study {

namespace {

constexpr const char* kSequence = "workload.sequence";

template <class Parse>
auto parsed(Parse parse, const std::string& text)
    -> std::optional<decltype(parse(std::string_view(text)))> {
  try {
    return parse(std::string_view(text));
  } catch (const BadText&) {
    return std::nullopt;
  }
}

}  // namespace

ledger::PointValue point_value(const std::string& key, const std::string& text) {
  if (const auto tokens = parsed(parse_tokens, text)) {  // every count reads as tokens too
    return {key, text, tokens->value()};
  }
  if (const auto number = parsed(parse_number, text)) {
    return {key, text, *number};
  }
  if (const auto bytes = parsed(parse_bytes, text)) {
    return {key, text, bytes->value()};
  }
  if (const auto rate = parsed(parse_bytes_per_second, text)) {
    return {key, text, rate->value()};
  }
  if (const auto rate = parsed(parse_flops_per_second, text)) {
    return {key, text, rate->value()};
  }
  if (const auto time = parsed(parse_seconds, text)) {
    return {key, text, time->value()};
  }
  return {key, text, text};
}

std::vector<ledger::PointValue> point_of(const config::StudySpec& study,
                                         const config::SweepPoint& swept) {
  std::vector<ledger::PointValue> point;
  bool sequence_is_swept = false;
  for (const config::SweepValue& value : swept) {
    sequence_is_swept = sequence_is_swept || value.key == kSequence;
  }
  if (!sequence_is_swept) {
    const Tokens tokens = study.workload.sequence.value;
    point.push_back({kSequence, to_text(tokens), tokens.value()});
  }
  for (const config::SweepValue& value : swept) {
    point.push_back(point_value(value.key, value.text));
  }
  return point;
}

std::optional<double> as_number(const ledger::PointValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.value)) {
    return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&value.value)) {
    return *real;
  }
  return std::nullopt;
}

}  // namespace trireme::study
