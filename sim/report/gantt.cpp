#include "sim/report/gantt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "sim/core/xml_text.h"
#include "sim/report/numbers.h"

namespace trireme::report {

namespace {

using ledger::Timeline;
using ledger::TimelineSlice;
using ledger::Work;

// Of the drawing, in pixels.
constexpr double kWidth = 1280;
constexpr double kLeft = 170;  // of the rows, right of their names
constexpr double kRight = 20;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kRowHeight = 26;
constexpr double kRowGap = 8;
constexpr double kUnderline = 4;  // of the critical path, below a row's slices
constexpr double kHeadHeight = 64;
constexpr double kLegendHeight = 26;
constexpr double kPanelTitle = 26;
constexpr double kAxisHeight = 34;
constexpr double kLineHeight = 18;
constexpr double kLetterWidth = 6.3;  // of a sans-serif at 11 pixels, on average
constexpr double kLeastDrawn = 0.3;   // narrower slices are joined with those like them
constexpr double kLabelMargin = 6;
constexpr std::string_view kMixedInWords =
    "Slices narrower than a pixel are drawn as one bar, in the colour of what fills most of it, "
    "underlined for their part of the critical path.";

/// Okabe and Ito's palette, which colour-blind readers can tell apart, by Work.
constexpr std::array<std::string_view, ledger::kWorkNames.size()> kColours = {"#E69F00",
                                                                              "#0072B2",
                                                                              "#999999",
                                                                              "#D55E00",
                                                                              "#009E73",
                                                                              "#CC79A7",
                                                                              "#F0E442",
                                                                              "#56B4E9",
                                                                              "#8B6F47"};

std::string_view colour(Work work) {
  return kColours[static_cast<std::size_t>(work)];
}

/// On which of the colours a label is dark.
bool is_light(Work work) {
  return work != Work::matrix_product && work != Work::all_to_all && work != Work::host_copy &&
         work != Work::all_gather;
}

double text_width(std::string_view text) {
  return kLetterWidth * static_cast<double>(text.size());
}

std::string text_at(double x, double y, std::string_view style, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n",
                     x,
                     y,
                     style.empty() ? "" : " ",
                     style,
                     xml_escaped(text));
}

/// "matrix products of mlp", "all-gathers".
std::string of_term(const ledger::CriticalTerm& term) {
  const std::string work =
      term.work == Work::attention ? "attention kernels" : fmt::format("{}s", name(term.work));
  return term.component && term.work != Work::attention
             ? fmt::format("{} of {}", work, name(*term.component))
             : work;
}

/// A part of the step that a panel shows.
struct Window {
  std::string title;
  Seconds start;
  Seconds end;

  [[nodiscard]] double x(Seconds time) const {
    const Seconds inside = std::clamp(time, start, end);
    return kLeft + kPlotWidth * ratio(inside - start, end - start);
  }
};

/// Neighbouring slices of one stream that are drawn as one.
struct Bar {
  explicit Bar(const TimelineSlice& slice)
      : first(&slice),
        end(slice.end),
        critical(slice.critical ? slice.end - slice.start : Seconds(0)) {
    busy[static_cast<std::size_t>(slice.work)] = slice.end - slice.start;
  }

  void join(const Bar& next) {
    end = next.end;
    slices += next.slices;
    critical += next.critical;
    for (std::size_t work = 0; work < busy.size(); ++work) {
      busy[work] += next.busy[work];
    }
  }

  /// What fills most of it.
  [[nodiscard]] Work work() const {
    return static_cast<Work>(std::max_element(busy.begin(), busy.end()) - busy.begin());
  }

  const TimelineSlice* first;
  Seconds end;
  std::size_t slices = 1;
  bool mixed = false;  // slices of different kinds
  Seconds critical;    // of its slices, on the critical path
  std::array<Seconds, ledger::kWorkNames.size()> busy{};
};

/// "12 slices in 1.5 ms: 1 ms of attention, 0.4 ms of all-gather; 1 ms on the critical
/// path".
std::string mixed_title(const Bar& bar) {
  std::string title =
      fmt::format("{} slices in {}:", bar.slices, human(bar.end - bar.first->start));
  std::string_view separator = " ";
  for (std::size_t work = 0; work < bar.busy.size(); ++work) {
    if (bar.busy[work] > Seconds(0)) {
      title +=
          fmt::format("{}{} of {}", separator, human(bar.busy[work]), ledger::kWorkNames[work]);
      separator = ", ";
    }
  }
  if (bar.critical > Seconds(0)) {
    title += fmt::format("; {} on the critical path", human(bar.critical));
  }
  return title;
}

std::string title_of(const Bar& bar) {
  const TimelineSlice& slice = *bar.first;
  if (bar.mixed) {
    return mixed_title(bar);
  }
  if (bar.slices > 1) {
    return fmt::format("{} x {}, {} {}, {}",
                       bar.slices,
                       name(slice.work),
                       name(slice.component),
                       name(slice.phase),
                       human(bar.end - slice.start));
  }
  return fmt::format("{} ({}), {} {}{}{}, {}{}",
                     slice.operation,
                     slice.function,
                     name(slice.component),
                     name(slice.phase),
                     slice.where.empty() ? "" : ", ",
                     slice.where,
                     human(slice.end - slice.start),
                     slice.critical ? ", on the critical path" : "");
}

/// Bars narrower than two pixels that start in one pixel are joined, whatever they are: then there
/// are no more of them than pixels.
std::vector<Bar> joined_in_pixels(const std::vector<Bar>& bars, const Window& window) {
  std::vector<Bar> joined;
  double pixel = -1;
  for (const Bar& bar : bars) {
    const double start = window.x(bar.first->start);
    const bool narrow = window.x(bar.end) - start < 2;
    if (narrow && std::floor(start) == pixel) {
      joined.back().mixed = true;
      joined.back().join(bar);
    } else {
      joined.push_back(bar);
      pixel = narrow ? std::floor(start) : -1;
    }
  }
  return joined;
}

/// The slices of a stream in a window; those too narrow to see are joined with a neighbour of the
/// same kind, on the same side of the critical path.
std::vector<Bar> bars_of(const std::vector<const TimelineSlice*>& slices, const Window& window) {
  std::vector<Bar> bars;
  for (const TimelineSlice* slice : slices) {
    if (slice->end <= window.start || slice->start >= window.end) {
      continue;
    }
    const double width = window.x(slice->end) - window.x(slice->start);
    if (!bars.empty()) {
      Bar& last = bars.back();
      const bool alike = last.first->work == slice->work && last.first->phase == slice->phase &&
                         last.first->critical == slice->critical;
      const bool near = window.x(slice->start) - window.x(last.end) < kLeastDrawn;
      const double last_width = window.x(last.end) - window.x(last.first->start);
      if (alike && near && (width < 2 || last_width < 2)) {
        last.join(Bar(*slice));
        continue;
      }
    }
    bars.emplace_back(*slice);
  }
  return static_cast<double>(bars.size()) > kPlotWidth ? joined_in_pixels(bars, window) : bars;
}

std::string label_of(const Bar& bar, double width) {
  const TimelineSlice& slice = *bar.first;
  const std::string time = human(bar.end - slice.start);
  const std::string what(bar.slices > 1 ? name(bar.work()) : slice.operation);
  const std::array<std::string, 3> candidates = {fmt::format("{}, {}", what, time), what, time};
  for (const std::string& candidate : candidates) {
    if (text_width(candidate) + kLabelMargin <= width) {
      return candidate;
    }
  }
  return {};
}

/// A round step for an axis of `length`, with five to ten ticks.
Seconds tick_of(Seconds length) {
  double tick = 1e-9;
  const auto ticks = [&](double step) { return length.value() / step; };
  while (ticks(tick) > 10) {
    if (ticks(2 * tick) <= 10) {
      return Seconds(2 * tick);
    }
    if (ticks(5 * tick) <= 10) {
      return Seconds(5 * tick);
    }
    tick *= 10;
  }
  return Seconds(tick);
}

class Chart {
 public:
  explicit Chart(const Timeline& timeline) : timeline_(timeline) {
    rows_.resize(timeline.streams.size());
    const std::int64_t rank = timeline.drawn.empty() ? 0 : timeline.drawn.front();
    for (const TimelineSlice& slice : timeline.slices) {
      if (slice.rank == rank && slice.end > slice.start) {
        rows_[slice.stream].push_back(&slice);
      }
    }
  }

  [[nodiscard]] std::string svg() {
    head();
    legend();
    panel({fmt::format("Whole step: {}", human(timeline_.step)), Seconds(0), timeline_.step});
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      if (const std::optional<Window> window = layer_window(phase)) {
        panel(*window);
      }
    }
    path_in_words();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" "
        "font-size=\"11\" role=\"img\">\n"
        "<title>{2}</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
        kWidth,
        y_ + kLineHeight,
        xml_escaped(fmt::format("Timeline of {} in {}", timeline_.plan, timeline_.study)),
        body_);
  }

 private:
  void head() {
    body_ += text_at(kRight,
                     26,
                     "font-size=\"17\" font-weight=\"bold\"",
                     fmt::format("{}: plan {}", timeline_.study, timeline_.plan));
    body_ += text_at(
        kRight,
        46,
        "fill=\"#444444\"",
        fmt::format("sequences of {} tokens, one step by the event engine, {} rank{}{}",
                    with_thousands(static_cast<double>(timeline_.sequence.value())),
                    timeline_.ranks,
                    timeline_.ranks == 1 ? "" : "s",
                    timeline_.drawn.size() == 1
                        ? ", all alike: one is drawn"
                        : fmt::format(" of {} kinds: rank {} is drawn",
                                      timeline_.drawn.size(),
                                      timeline_.drawn.empty() ? 0 : timeline_.drawn.front())));
    y_ = kHeadHeight;
    for (const std::string& said : timeline_.what_if) {
      body_ += text_at(kRight, y_, "fill=\"#444444\"", "what if: " + said);
      y_ += kLineHeight;
    }
  }

  void legend() {
    std::array<bool, ledger::kWorkNames.size()> used{};
    for (const auto& row : rows_) {
      for (const TimelineSlice* slice : row) {
        used[static_cast<std::size_t>(slice->work)] = true;
      }
    }
    double x = kRight;
    const auto entry = [&](std::string_view fill, double height, std::string_view text) {
      body_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"{:.1f}\" fill=\"{}\"/>\n",
          x,
          y_ + (12 - height) / 2,
          height,
          fill);
      body_ += text_at(x + 20, y_ + 10, "", text);
      x += 20 + text_width(text) + 22;
    };
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) {
        entry(kColours[i], 12, ledger::kWorkNames[i]);
      }
    }
    entry("#000000", kUnderline, "critical path");
    y_ += kLegendHeight;
  }

  /// From the first to the last operation of the middle layer in a phase.
  [[nodiscard]] std::optional<Window> layer_window(Phase phase) const {
    const std::int64_t layer = timeline_.layers / 2;
    std::optional<Window> window;
    for (const auto& row : rows_) {
      for (const TimelineSlice* slice : row) {
        if (slice->phase != phase || slice->layer != layer) {
          continue;
        }
        if (!window) {
          window = Window{{}, slice->start, slice->end};
        }
        window->start = std::min(window->start, slice->start);
        window->end = std::max(window->end, slice->end);
      }
    }
    if (window) {
      window->title = fmt::format("Layer {} of {}, {}: {}",
                                  layer,
                                  timeline_.layers,
                                  name(phase),
                                  human(window->end - window->start));
    }
    return window;
  }

  void panel(const Window& window) {
    body_ += text_at(kRight, y_ + 16, "font-size=\"13\" font-weight=\"bold\"", window.title);
    y_ += kPanelTitle;
    bool mixed = false;
    const auto drawn_rows =
        std::count_if(rows_.begin(), rows_.end(), [](const auto& row) { return !row.empty(); });
    axis(window, y_ + static_cast<double>(drawn_rows) * (kRowHeight + kRowGap));
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].empty()) {
        continue;
      }
      body_ += text_at(kRight, y_ + kRowHeight / 2 + 4, "", timeline_.streams[row]);
      for (const Bar& bar : bars_of(rows_[row], window)) {
        draw(bar, window);
        mixed = mixed || bar.mixed;
      }
      y_ += kRowHeight + kRowGap;
    }
    y_ += kAxisHeight;
    if (mixed) {
      body_ += text_at(kRight, y_ - 2, "fill=\"#444444\"", std::string(kMixedInWords));
      y_ += kLineHeight;
    }
  }

  void draw(const Bar& bar, const Window& window) {
    const double x = window.x(bar.first->start);
    const double width = std::max(window.x(bar.end) - x, kLeastDrawn);
    const std::string title = xml_escaped(title_of(bar));
    body_ += fmt::format(
        "<g><title>{}</title><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
        "fill=\"{}\"{}/>",
        title,
        x,
        y_,
        width,
        kRowHeight - kUnderline,
        colour(bar.work()),
        width > 3 ? " stroke=\"#ffffff\" stroke-width=\"0.5\"" : "");
    if (bar.critical > Seconds(0)) {
      const double part = bar.mixed ? ratio(bar.critical, bar.end - bar.first->start) : 1;
      body_ += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"#000000\"/>",
          x,
          y_ + kRowHeight - kUnderline,
          part * width,
          kUnderline);
    }
    const std::string label = label_of(bar, width);
    if (!label.empty()) {
      body_ += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>",
          x + width / 2,
          y_ + kRowHeight / 2 + 2,
          is_light(bar.work()) ? "#000000" : "#ffffff",
          xml_escaped(label));
    }
    body_ += "</g>\n";
  }

  /// Ticks from the top of the rows to `bottom`: below the slices, so that they do not cross them.
  void axis(const Window& window, double bottom) {
    body_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#444444\"/>\n",
        kLeft,
        bottom,
        kLeft + kPlotWidth,
        bottom);
    const Seconds tick = tick_of(window.end - window.start);
    for (int i = 0; static_cast<double>(i) * tick <= window.end - window.start; ++i) {
      const Seconds after = static_cast<double>(i) * tick;
      const double x = window.x(window.start + after);
      body_ += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#cccccc\" "
          "stroke-width=\"0.5\"/>\n",
          x,
          y_,
          bottom + 4);
      body_ += text_at(
          x, bottom + 16, "text-anchor=\"middle\" fill=\"#444444\"", i == 0 ? "0" : human(after));
    }
  }

  void path_in_words() {
    const std::vector<std::string> sentences = critical_sentences(timeline_.critical_path);
    if (sentences.empty()) {
      return;
    }
    body_ += text_at(kRight, y_ + 12, "font-size=\"13\" font-weight=\"bold\"", "Critical path");
    y_ += kLineHeight + 4;
    for (const std::string& sentence : sentences) {
      body_ += text_at(kRight, y_ + 10, "font-size=\"12\"", sentence);
      y_ += kLineHeight;
    }
  }

  const Timeline& timeline_;
  std::vector<std::vector<const TimelineSlice*>> rows_;  // by stream, slices by start
  std::string body_;
  double y_ = 0;  // where the next thing is drawn
};

}  // namespace

std::vector<std::string> critical_sentences(const ledger::CriticalPath& path) {
  std::vector<std::string> sentences;
  for (const ledger::CriticalTerm& term : path.terms) {
    if (!term.step_at_half || !term.step_without) {
      continue;
    }
    sentences.push_back(
        fmt::format("{}: {} of the critical path, {} of the step; in half the time the step takes "
                    "{} ({} less), "
                    "in none {} ({} less)",
                    of_term(term),
                    human(term.on_path),
                    percent(ratio(term.on_path, path.step)),
                    human(*term.step_at_half),
                    percent(ratio(path.step - *term.step_at_half, path.step)),
                    human(*term.step_without),
                    percent(ratio(path.step - *term.step_without, path.step))));
  }
  if (path.launch > Seconds(0)) {
    sentences.push_back(fmt::format("launches of the host: {} of the critical path, {} of the step",
                                    human(path.launch),
                                    percent(ratio(path.launch, path.step))));
  }
  return sentences;
}

std::string to_gantt(const ledger::Timeline& timeline) {
  return Chart(timeline).svg();
}

}  // namespace trireme::report
