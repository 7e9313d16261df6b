#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/core/xml_text.h"
#include "sim/report/validation.h"

namespace trireme::report {

using ledger::FactVerdict;
using ledger::ValidationResult;
using ledger::ValidationRow;

namespace {

// Of the drawing, in pixels.
constexpr double kWidth = 900;
constexpr double kLeft = 230;
constexpr double kRight = 24;
constexpr double kTop = 58;
constexpr double kRowHeight = 30;
constexpr double kAxisHeight = 44;
constexpr double kRadius = 4.5;

/// The axis ends at this ratio and its inverse; what lies beyond is drawn at its end.
constexpr double kFarthest = 2;
constexpr std::array<double, 7> kTicks = {0.5, 0.7, 0.9, 1, 1.1, 1.4, 2};

/// Okabe and Ito's palette, which colour-blind readers can tell apart, by Topic.
constexpr std::array<std::string_view, ledger::kTopicNames.size()> kColours = {
    "#0072B2", "#E69F00", "#56B4E9", "#999999", "#009E73", "#CC79A7"};

double place(double ratio) {
  const double inside = std::clamp(ratio, 1 / kFarthest, kFarthest);
  const double middle = (kLeft + kWidth - kRight) / 2;
  return middle + (kWidth - kRight - kLeft) / 2 * std::log(inside) / std::log(kFarthest);
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                     x,
                     y,
                     anchor,
                     xml_escaped(text));
}

/// Filled within the tolerance, hollow beyond it.
std::string dot(double x, double y, std::string_view colour, bool filled, std::string_view title) {
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" stroke=\"{}\" "
      "stroke-width=\"1.5\"><title>{}</title></circle>\n",
      x,
      y,
      kRadius,
      filled ? colour : std::string_view("white"),
      colour,
      xml_escaped(title));
}

std::string axis(double bottom) {
  std::string text;
  for (const double tick : kTicks) {
    const double x = place(tick);
    text += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"{}\"/>\n",
                        x,
                        kTop - 8,
                        bottom,
                        tick == 1 ? "#666" : "#ddd");
    text += text_at(x, bottom + 16, "middle", fmt::format("{:g}", tick));
  }
  return text + text_at((kLeft + kWidth - kRight) / 2,
                        bottom + 34,
                        "middle",
                        "predicted over expected, logarithmic; what lies beyond stands at the end");
}

std::string legend() {
  std::string text;
  double x = kLeft;
  for (std::size_t topic = 0; topic < kColours.size(); ++topic) {
    text += dot(x, 22, kColours[topic], true, ledger::kTopicNames[topic]);
    text += text_at(x + 10, 26, "start", ledger::kTopicNames[topic]);
    x += 110;
  }
  text += dot(x, 22, "#444", false, "beyond its tolerance");
  return text + text_at(x + 10, 26, "start", "beyond its tolerance");
}

}  // namespace

std::string accuracy_figure(const ValidationResult& result) {
  std::map<std::string, std::vector<const ValidationRow*>> by_source;
  for (const ValidationRow& row : result.rows) {
    if (row.stated.of_table) {
      continue;
    }
    const bool states_a_value = row.stated.expected.relation == ledger::Relation::equal;
    if (row.predicted && states_a_value && *row.predicted > 0) {
      by_source[row.stated.source].push_back(&row);
    }
  }
  const double bottom = kTop + kRowHeight * static_cast<double>(by_source.size());
  std::string body = legend() + axis(bottom);
  double y = kTop + kRowHeight / 2;
  for (const auto& [source, rows] : by_source) {
    body += text_at(kLeft - 16, y + 4, "end", source);
    for (const ValidationRow* const row : rows) {
      body += dot(place(1 + row->error),
                  y,
                  kColours[static_cast<std::size_t>(row->stated.topic)],
                  row->verdict == FactVerdict::pass,
                  fmt::format("{}: {}", row->stated.id, error_text(*row)));
    }
    y += kRowHeight;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>Predicted over expected, a row per source</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      kWidth,
      bottom + kAxisHeight,
      body);
}

}  // namespace trireme::report
