// The charts of a report, as a browser reads them.
#include <filesystem>
#include <string>

#include <pugixml.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

constexpr double kLetter = 6.3;  // width of a letter at 11 pixels, as the chart takes it

TEST_CASE("every chart of a report is well-formed, and its bars say what they are", "[cli]") {
  const TemporaryFolder folder;
  REQUIRE(run_trireme("report reports/ulysses-vs-megatron/study.yaml -o '" +
                      folder.path().string() + "'")
              .exit_code == 0);
  const std::string report = read_file(folder.path() / "report.md");
  int charts = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".svg") {
      continue;
    }
    ++charts;
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    CHECK(report.find("](" + name + ")") != std::string::npos);
    pugi::xml_document document;
    REQUIRE(document.load_file(entry.path().c_str()));
    const pugi::xml_node svg = document.child("svg");
    int bars = 0;
    int labels = 0;
    for (const pugi::xml_node bar : svg.children("g")) {
      ++bars;
      const std::string title = bar.child_value("title");
      CAPTURE(title);
      CHECK_FALSE(title.empty());
      const pugi::xml_node box = bar.child("rect");
      const double left = box.attribute("x").as_double();
      const double right = left + box.attribute("width").as_double();
      CHECK(right <= svg.attribute("width").as_double() + 0.01);
      if (const pugi::xml_node label = bar.child("text")) {
        ++labels;
        const auto letters = static_cast<double>(std::string(label.child_value()).size());
        const double middle = label.attribute("x").as_double();
        CHECK(middle - kLetter * letters / 2 >= left - 0.1);
        CHECK(middle + kLetter * letters / 2 <= right + 0.1);
      }
    }
    CHECK(bars > 100);
    CHECK(labels > 10);
    bool path_is_named = false;
    for (const pugi::xml_node text : svg.children("text")) {
      const std::string said = text.child_value();
      path_is_named = path_is_named || said.find("of the critical path, ") != std::string::npos;
    }
    CHECK(path_is_named);
  }
  CHECK(charts == 3);
}

}  // namespace
}  // namespace trireme::test
