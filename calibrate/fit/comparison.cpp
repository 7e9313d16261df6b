#include "calibrate/fit/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "calibrate/fit/predict.h"
#include "calibrate/fit/report.h"
#include "sim/core/printable.h"
#include "sim/core/xml_text.h"

namespace trireme::calibrate {

namespace {

/// Where a point is drawn.
struct Place {
  std::string panel;
  std::string extent_name;
  std::string curve;
  double extent = 0;
};

class Placer {
 public:
  Place operator()(const CollectivePoint& point) const {
    const bool outside = point.ranks > point.ranks_per_node;
    return {fmt::format("{} {}", name(point.collective), outside ? "over nodes" : "inside a node"),
            "payload [bytes]",
            outside ? fmt::format("{} ranks, {} per node", point.ranks, point.ranks_per_node)
                    : fmt::format("{} ranks", point.ranks),
            static_cast<double>(point.payload.value())};
  }

  Place operator()(const AttentionPoint& point) const {
    return {
        fmt::format(
            "attention {} {}", point.kernel, point.pass == Pass::forward ? "forward" : "backward"),
        "tokens squared x heads x sequences",
        fmt::format("head dimension {}{}", point.head_dim, point.causal ? ", causal" : ""),
        static_cast<double>(point.query_tokens.value()) *
            static_cast<double>(point.key_tokens.value()) * static_cast<double>(point.heads) *
            static_cast<double>(point.sequences)};
  }

  Place operator()(const GemmPoint& point) const {
    return {
        "matrix products",
        "m x n x k",
        fmt::format("{}{}", name(point.type), point.fp32_accumulation ? " into fp32" : ""),
        static_cast<double>(point.m) * static_cast<double>(point.n) * static_cast<double>(point.k)};
  }

  Place operator()(const MemoryBoundPoint& point) const {
    return {"memory-bound kernels",
            "moved [bytes]",
            point.kernel,
            static_cast<double>(point.moved.value())};
  }

  Place operator()(const LaunchPoint& point) const { return {"launch", "kernel", point.kernel, 1}; }

  Place operator()(const HostCopyPoint& point) const {
    return {"host copies",
            "amount [bytes]",
            point.direction == CopyDirection::host_to_device ? "to the device" : "to the host",
            static_cast<double>(point.amount.value())};
  }

  Place operator()(const InterferencePoint& point) const {
    return {"interference",
            "payload [bytes]",
            point.together ? "together" : "alone",
            static_cast<double>(point.collective.payload.value())};
  }
};

template <class Named>
Named& named(std::vector<Named>& all, const std::string Named::*member, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Named& one) { return one.*member == name; });
  if (found != all.end()) {
    return *found;
  }
  all.emplace_back();
  return all.back();
}

std::vector<std::pair<double, double>> pairs_of(const ComparedCurve& curve) {
  std::vector<std::pair<double, double>> pairs;
  for (const ComparedPoint& point : curve.points) {
    pairs.emplace_back(point.predicted.value(), point.measured.value());
  }
  return pairs;
}

// Of one figure, in pixels.
constexpr double kWidth = 460;
constexpr double kHeight = 330;
constexpr double kLeft = 62;
constexpr double kRight = 14;
constexpr double kTop = 30;
constexpr double kBottom = 46;
constexpr std::size_t kColumns = 2;
constexpr std::size_t kMostLegend = 8;
constexpr std::array<const char*, 8> kColors = {
    "#1b6ca8", "#c8553d", "#3a7d44", "#7a4988", "#b8860b", "#008b8b", "#8b4513", "#555555"};

/// A logarithmic axis over whole decades.
struct Axis {
  int least = 0;  // powers of ten
  int most = 1;
  double from = 0;  // pixels
  double to = 0;

  [[nodiscard]] double place(double value) const {
    return from + (std::log10(value) - least) / (most - least) * (to - from);
  }

  /// Decades between labels, so that at most eight stand on the axis.
  [[nodiscard]] int stride() const { return 1 + (most - least) / 8; }
};

Axis axis_over(double least, double most, double from, double to) {
  Axis axis{static_cast<int>(std::floor(std::log10(least))),
            static_cast<int>(std::ceil(std::log10(most))),
            from,
            to};
  axis.most = std::max(axis.most, axis.least + 1);
  return axis;
}

std::string seconds_label(int power) {
  constexpr std::array<const char*, 4> kUnits = {"ns", "us", "ms", "s"};
  const int unit = std::clamp((power + 9) / 3, 0, 3);
  return fmt::format(
      "{:g} {}", std::pow(10, power + 9 - 3 * unit), kUnits.at(static_cast<std::size_t>(unit)));
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                     x,
                     y,
                     anchor,
                     xml_escaped(text));
}

std::string axes(const Axis& across, const Axis& up, const Panel& panel) {
  std::string text = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
      "stroke=\"#888\"/>\n",
      across.from,
      up.to,
      across.to - across.from,
      up.from - up.to);
  for (int power = across.least; power <= across.most; power += across.stride()) {
    const double x = across.place(std::pow(10, power));
    text +=
        fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#ddd\"/>\n", x, up.from, up.to);
    text += text_at(x, up.from + 15, "middle", fmt::format("1e{}", power));
  }
  for (int power = up.least; power <= up.most; power += up.stride()) {
    const double y = up.place(std::pow(10, power));
    text += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#ddd\"/>\n", across.from, y, across.to);
    text += text_at(across.from - 5, y + 4, "end", seconds_label(power));
  }
  text += text_at((across.from + across.to) / 2, up.from + 33, "middle", panel.extent);
  text += text_at((across.from + across.to) / 2, up.to - 10, "middle", panel.title);
  return text;
}

/// Whether a line through the predictions says something: one prediction for each extent.
bool is_a_line(const ComparedCurve& curve) {
  for (std::size_t i = 1; i < curve.points.size(); ++i) {
    const ComparedPoint& before = curve.points[i - 1];
    const ComparedPoint& here = curve.points[i];
    if (here.extent == before.extent && here.predicted != before.predicted) {
      return false;
    }
  }
  return curve.points.size() > 1;
}

std::string curve_text(const ComparedCurve& curve,
                       const Axis& across,
                       const Axis& up,
                       const char* color) {
  std::string path;
  const bool line = is_a_line(curve);
  std::string dots;
  for (const ComparedPoint& point : curve.points) {
    const double x = across.place(point.extent);
    const double y = up.place(point.predicted.value());
    path += line ? fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y)
                 : fmt::format("M{:.1f} {:.1f}h6M{:.1f} {:.1f}v6", x - 3, y, x, y - 3);
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/>\n", x, up.place(point.measured.value()));
  }
  return fmt::format(
      "<g fill=\"{0}\" stroke=\"none\" fill-opacity=\"0.6\">\n{1}</g>\n"
      "<path d=\"{2}\" fill=\"none\" stroke=\"{0}\"/>\n",
      color,
      dots,
      path);
}

std::string figure(const Panel& panel) {
  double least_extent = std::numeric_limits<double>::infinity();
  double most_extent = 0;
  double least_time = std::numeric_limits<double>::infinity();
  double most_time = 0;
  for (const ComparedCurve& curve : panel.curves) {
    for (const ComparedPoint& point : curve.points) {
      least_extent = std::min(least_extent, point.extent);
      most_extent = std::max(most_extent, point.extent);
      least_time = std::min({least_time, point.measured.value(), point.predicted.value()});
      most_time = std::max({most_time, point.measured.value(), point.predicted.value()});
    }
  }
  const Axis across = axis_over(least_extent, most_extent, kLeft, kWidth - kRight);
  const Axis up = axis_over(least_time, most_time, kHeight - kBottom, kTop);
  std::string text = axes(across, up, panel);
  for (std::size_t i = 0; i < panel.curves.size(); ++i) {
    const char* const color = kColors.at(i % kColors.size());
    text += curve_text(panel.curves[i], across, up, color);
    if (i < kMostLegend) {
      text += fmt::format(
          "<g fill=\"{}\">{}</g>\n",
          color,
          text_at(
              kLeft + 8, kTop + 14 + 13 * static_cast<double>(i), "start", panel.curves[i].name));
    }
  }
  return text;
}

bool has_points(const Panel& panel) {
  return std::any_of(panel.curves.begin(), panel.curves.end(), [](const ComparedCurve& curve) {
    return !curve.points.empty();
  });
}

}  // namespace

std::vector<Panel> compare_with(const std::vector<Measurement>& rows,
                                const cost::MachineCosts& machine,
                                BytesPerSecond nic_rate) {
  std::vector<Panel> panels;
  for (const Measurement& row : rows) {
    const Place place = std::visit(Placer(), row.point);
    Panel& panel = named(panels, &Panel::title, place.panel);
    panel.title = place.panel;
    panel.extent = place.extent_name;
    const auto predicted = predict(row.point, machine, nic_rate);
    const bool comparable = predicted && std::isfinite(predicted->value()) &&
                            predicted->value() > 0 && place.extent > 0;
    if (!comparable) {
      ++panel.unknown;
      continue;
    }
    ComparedCurve& curve = named(panel.curves, &ComparedCurve::name, place.curve);
    curve.name = place.curve;
    curve.points.push_back({place.extent, row.timing.median, *predicted});
  }
  for (Panel& panel : panels) {
    for (ComparedCurve& curve : panel.curves) {
      std::stable_sort(
          curve.points.begin(),
          curve.points.end(),
          [](const ComparedPoint& a, const ComparedPoint& b) { return a.extent < b.extent; });
    }
  }
  return panels;
}

std::string comparison_text(const std::vector<Panel>& panels) {
  std::string text =
      "measured against predicted: |predicted / measured - 1|, median / 90th percentile (signed "
      "median)\n";
  for (const Panel& panel : panels) {
    text += fmt::format("\n{}\n", printable(panel.title));
    for (const ComparedCurve& curve : panel.curves) {
      text +=
          fmt::format("  {:<32} {}\n", printable(curve.name), in_words(summarise(pairs_of(curve))));
    }
    if (panel.unknown > 0) {
      text += fmt::format("  {} rows whose seconds the profile does not know\n", panel.unknown);
    }
  }
  return text;
}

std::string comparison_svg(const std::vector<Panel>& panels) {
  std::string figures;
  std::size_t drawn = 0;
  for (const Panel& panel : panels) {
    if (!has_points(panel)) {
      continue;
    }
    figures += fmt::format("<g transform=\"translate({:.0f} {:.0f})\">\n{}</g>\n",
                           kWidth * static_cast<double>(drawn % kColumns),
                           kHeight * static_cast<double>(drawn / kColumns),
                           figure(panel));
    ++drawn;
  }
  const double rows = static_cast<double>((drawn + kColumns - 1) / kColumns);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<title>Measured (dots) and predicted (lines, crosses) seconds</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      kWidth * static_cast<double>(std::min(drawn, kColumns)),
      kHeight * rows,
      figures);
}

}  // namespace trireme::calibrate
