// The chart as a browser reads it: parsed as XML, its bars, titles and labels.
#include "sim/report/gantt.h"

#include <algorithm>
#include <string>
#include <vector>

#include <pugixml.hpp>

#include "tests/catch.h"

namespace trireme::report {
namespace {

constexpr double kLetter = 6.3;  // width of a letter at 11 pixels, as the chart takes it

/// One layer: attention and an all-to-all that the end waits for, and a gather behind them. The
/// plan's name needs to be escaped.
ledger::Timeline timeline() {
  ledger::Timeline drawn;
  drawn.study = "s & t";
  drawn.plan = "a<b>";
  drawn.sequence = Tokens(8192);
  drawn.ranks = 8;
  drawn.streams = {"compute", "communicator sequence"};
  drawn.drawn = {0};
  drawn.step = Seconds(0.010);
  drawn.layers = 1;
  const auto add = [&](std::size_t stream,
                       std::string_view operation,
                       ledger::Work work,
                       double start,
                       double end,
                       bool critical) {
    ledger::TimelineSlice slice;
    slice.stream = stream;
    slice.operation = operation;
    slice.function = "f";
    slice.work = work;
    slice.layer = 0;
    slice.critical = critical;
    slice.start = Seconds(start);
    slice.end = Seconds(end);
    drawn.slices.push_back(slice);
  };
  add(0, "attention", ledger::Work::attention, 0, 0.006, true);
  add(1, "weights of the next", ledger::Work::all_gather, 0.001, 0.002, false);
  add(1, "exchange", ledger::Work::all_to_all, 0.006, 0.008, true);
  add(0, "product", ledger::Work::matrix_product, 0.008, 0.010, true);
  ledger::CriticalTerm term;
  term.work = ledger::Work::attention;
  term.component = Component::attention;
  term.on_path = Seconds(0.006);
  term.step_at_half = Seconds(0.007);
  term.step_without = Seconds(0.004);
  drawn.critical_path.step = drawn.step;
  drawn.critical_path.terms = {term};
  return drawn;
}

pugi::xml_document parsed(const std::string& svg) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_string(svg.c_str());
  INFO(result.description());
  REQUIRE(result);
  return document;
}

std::vector<pugi::xml_node> bars(const pugi::xml_document& document) {
  std::vector<pugi::xml_node> found;
  for (const pugi::xml_node bar : document.child("svg").children("g")) {
    found.push_back(bar);
  }
  return found;
}

TEST_CASE("gantt: well-formed SVG that names plan and study", "[unit]") {
  const pugi::xml_document document = parsed(to_gantt(timeline()));
  const pugi::xml_node svg = document.child("svg");
  CHECK(std::string(svg.attribute("xmlns").value()) == "http://www.w3.org/2000/svg");
  CHECK(svg.attribute("width").as_double() > 0);
  CHECK(svg.attribute("height").as_double() > 0);
  CHECK(std::string(svg.child_value("title")) == "Timeline of a<b> in s & t");
}

TEST_CASE("gantt: every bar has a title, lies in the drawing and holds its label", "[unit]") {
  const pugi::xml_document document = parsed(to_gantt(timeline()));
  const double width = document.child("svg").attribute("width").as_double();
  const double height = document.child("svg").attribute("height").as_double();
  const std::vector<pugi::xml_node> all = bars(document);
  REQUIRE(all.size() == 8);  // four slices in the step, and again in the layer's forward
  int labels = 0;
  for (const pugi::xml_node bar : all) {
    const std::string title = bar.child_value("title");
    CAPTURE(title);
    CHECK_FALSE(title.empty());
    const pugi::xml_node box = bar.child("rect");
    const double left = box.attribute("x").as_double();
    const double right = left + box.attribute("width").as_double();
    CHECK(left >= 0);
    CHECK(right <= width + 0.01);
    CHECK(box.attribute("y").as_double() + box.attribute("height").as_double() <= height);
    const pugi::xml_node label = bar.child("text");
    if (label) {
      ++labels;
      const double half =
          kLetter * static_cast<double>(std::string(label.child_value()).size()) / 2;
      const double middle = label.attribute("x").as_double();
      CHECK(middle - half >= left - 0.1);
      CHECK(middle + half <= right + 0.1);
    }
  }
  CHECK(labels >= 4);
}

TEST_CASE("gantt: bars are as long as their slices", "[unit]") {
  const std::vector<double> expected = {6, 2, 1, 2};  // of 10 ms: both rows of the compute stream
  const pugi::xml_document document = parsed(to_gantt(timeline()));
  const std::vector<pugi::xml_node> all = bars(document);
  REQUIRE(all.size() == 8);
  const double per_millisecond = all[0].child("rect").attribute("width").as_double() / 6;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(all[i].child("rect").attribute("width").as_double() ==
          Approx(expected[i] * per_millisecond).margin(0.02));
  }
}

TEST_CASE("gantt: the critical path is underlined and named", "[unit]") {
  const pugi::xml_document document = parsed(to_gantt(timeline()));
  int underlined = 0;
  for (const pugi::xml_node bar : bars(document)) {
    const std::string title = bar.child_value("title");
    const bool critical = title.find("on the critical path") != std::string::npos;
    const pugi::xml_node line = bar.child("rect").next_sibling("rect");
    CHECK(static_cast<bool>(line) == critical);
    underlined += critical ? 1 : 0;
  }
  CHECK(underlined == 6);  // all but the gather, in both panels
  const std::vector<std::string> sentences = critical_sentences(timeline().critical_path);
  REQUIRE(sentences.size() == 1);
  CHECK(sentences[0] ==
        "attention kernels: 6 ms of the critical path, 60.0 % of the step; in half the time the "
        "step takes 7 ms (30.0 % less), in none 4 ms (60.0 % less)");
  bool said = false;
  for (const pugi::xml_node text : document.child("svg").children("text")) {
    said = said || sentences[0] == text.child_value();
  }
  CHECK(said);
}

TEST_CASE("gantt: what is otherwise is said, and the same timeline gives the same chart",
          "[unit]") {
  ledger::Timeline otherwise = timeline();
  otherwise.what_if = {"nothing overlaps"};
  const std::string svg = to_gantt(otherwise);
  CHECK(svg.find(">what if: nothing overlaps<") != std::string::npos);
  CHECK(to_gantt(otherwise) == svg);
  CHECK(to_gantt(timeline()).find("what if") == std::string::npos);
  CHECK(bars(parsed(svg)).size() == 8);
}

TEST_CASE("gantt: ten thousand slices too narrow to see are few bars", "[unit]") {
  ledger::Timeline many = timeline();
  many.slices.clear();
  many.step = Seconds(1);
  for (int i = 0; i < 10'000; ++i) {
    ledger::TimelineSlice slice;
    slice.operation = "norm";
    slice.function = "f";
    slice.start = Seconds(i * 1e-4);
    slice.end = Seconds((i + 1) * 1e-4);
    many.slices.push_back(slice);
  }
  const pugi::xml_document document = parsed(to_gantt(many));
  const std::vector<pugi::xml_node> all = bars(document);
  REQUIRE_FALSE(all.empty());
  CHECK(all.size() < 10);
  CHECK(std::string(all.front().child_value("title")).find("x memory-bound kernel") !=
        std::string::npos);
}

TEST_CASE("gantt: a row has no more bars than pixels, and they sum to its slices", "[unit]") {
  constexpr int kSlices = 60'000;
  ledger::Timeline many = timeline();
  many.slices.clear();
  many.layers = 2;
  many.step = Seconds(1);
  double critical = 0;
  for (int i = 0; i < kSlices; ++i) {  // no two neighbours are alike
    ledger::TimelineSlice slice;
    slice.operation = "product";
    slice.function = "f";
    slice.work = i % 3 == 0 ? ledger::Work::attention : ledger::Work::matrix_product;
    slice.critical = i % 2 == 0;
    slice.start = Seconds(i / static_cast<double>(kSlices));
    slice.end = Seconds((i + 1) / static_cast<double>(kSlices));
    critical += slice.critical ? (slice.end - slice.start).value() : 0;
    many.slices.push_back(slice);
  }
  const std::string svg = to_gantt(many);
  CHECK(svg.size() < 1'000'000);
  const pugi::xml_document document = parsed(svg);
  const double pixels = 1280 - 170 - 20;  // beside the rows' names
  const std::vector<pugi::xml_node> all = bars(document);
  CHECK(all.size() > 500);
  CHECK(static_cast<double>(all.size()) <= pixels);
  int slices = 0;
  double underlined = 0;
  for (const pugi::xml_node bar : all) {
    const std::string title = bar.child_value("title");
    CAPTURE(title);
    slices += std::stoi(title);
    CHECK(title.find(" of attention, ") != std::string::npos);
    CHECK(title.find(" of matrix product; ") != std::string::npos);
    CHECK(title.find(" on the critical path") != std::string::npos);
    CHECK(std::string(bar.child("rect").attribute("fill").value()) == "#0072B2");  // the longer
    underlined += bar.child("rect").next_sibling("rect").attribute("width").as_double();
  }
  CHECK(slices == kSlices);
  CHECK(underlined / pixels == Approx(critical).epsilon(0.01));
  CHECK(svg.find("Slices narrower than a pixel") != std::string::npos);
  CHECK(to_gantt(timeline()).find("Slices narrower than a pixel") == std::string::npos);
}

}  // namespace
}  // namespace trireme::report
