#include "sim/config/yaml_reader.h"

#include <ctime>
#include <memory>
#include <string>

#include "tests/catch.h"

namespace trireme::config {
namespace {

using Catch::Matchers::ContainsSubstring;

Node read(const std::string& text) {
  return read_yaml(std::make_shared<const SourceText>("a.yaml", text));
}

std::string place(const SourceLocation& where) {
  return to_text(where);
}

/// "line:column: message" of the Error that reading gives; "" for none.
std::string refusal(const std::string& text) {
  try {
    static_cast<void>(read(text));
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return to_text(error.where()) + ": " + error.message();
  }
}

TEST_CASE("text, lists and maps are read as they are written", "[config]") {
  const Node root = read("a: 010\nb: [yes, .inf, \"2.27\"]\nc:\n  d: ~\n  e: 1 # two\n");
  REQUIRE(root.is_map());
  CHECK(root.find("a")->text == "010");
  REQUIRE(root.find("b")->items.size() == 3);
  CHECK(root.find("b")->items[0].text == "yes");
  CHECK(root.find("b")->items[1].text == ".inf");
  CHECK(root.find("b")->items[2].text == "2.27");
  CHECK(root.find("c")->find("d")->kind == NodeKind::empty);
  CHECK(root.find("c")->find("e")->text == "1");
  CHECK(root.find("f") == nullptr);
}

TEST_CASE("everything knows its place, in characters from 1", "[config]") {
  const Node root = read("a: 1\n\xC3\xA9\xC3\xA9: {b: 2}\nc:\n  d: 3\ne:\n  - 4\nf:\n");
  CHECK(place(root.find("a")->where()) == "a.yaml:1:4");
  const Node* flow = root.find("\xC3\xA9\xC3\xA9");
  CHECK(place(flow->where()) == "a.yaml:2:5");
  CHECK(place(flow->find("b")->where()) == "a.yaml:2:9");
  CHECK(place(root.find("c")->where()) == "a.yaml:3:1");  // a block map stands at its key
  CHECK(place(root.find("c")->find("d")->where()) == "a.yaml:4:6");
  CHECK(place(root.find("e")->where()) == "a.yaml:5:1");  // and so does a block list
  CHECK(place(root.find("e")->items[0].where()) == "a.yaml:6:5");
  CHECK(place(root.find("f")->where()) == "a.yaml:7:1");
  CHECK(root.find("c")->find("d")->where().source_line == "  d: 3");
}

TEST_CASE("a line break of two characters belongs to no line", "[config]") {
  const Node root = read("a: 1\r\nb: 2\r\n");
  CHECK(root.find("a")->text == "1");
  CHECK(place(root.find("b")->where()) == "a.yaml:2:4");
  CHECK(root.find("b")->where().source_line == "b: 2");
}

TEST_CASE("of a long line only the neighbourhood is kept", "[config]") {
  const Node root = read("{a: " + std::string(100'000, 'x') + ", b: 5}");
  const SourceLocation where = root.find("b")->where();
  // "{a: ", the x, ", b: " stand before it.
  CHECK(where.column == 4 + 100'000 + 5 + 1);
  CHECK(where.source_line.size() < 1000);
  CHECK(where.source_line.ends_with(", b: 5}"));
  CHECK(where.source_line_skip + static_cast<int>(where.source_line.size()) == 100'000 + 11);
}

TEST_CASE("what is left out of YAML is refused where it stands", "[config]") {
  CHECK(refusal("a: 1\na: 2") == "a.yaml:2:1: the key 'a' is here a second time");
  CHECK(refusal("a: {b: 1, b: 2}") == "a.yaml:1:11: the key 'b' is here a second time");
  CHECK(refusal("a: &x 1") == "a.yaml:1:4: anchors (&name) are not accepted");
  CHECK(refusal("a: &x {b: 1}") == "a.yaml:1:4: anchors (&name) are not accepted");
  CHECK(refusal("a: !!str 1") == "a.yaml:1:4: tags (tag:yaml.org,2002:str) are not accepted");
  CHECK(refusal("a: !mine {b: 1}") == "a.yaml:1:4: tags (!mine) are not accepted");
  CHECK(refusal("<<: {a: 1}") == "a.yaml:1:1: merge keys (<<) are not accepted");
  CHECK(refusal("a: 1\n---\nb: 2") == "a.yaml:2:1: a second document starts here");
  CHECK(refusal("a: 1\n...\nb: 2") == "a.yaml:3:1: a second document starts here");
  CHECK(refusal("? [a]\n: 1") == "a.yaml:1:3: a key must be text");
  CHECK(refusal("? {a: 1}\n: 1") == "a.yaml:1:3: a key must be text");
  CHECK(refusal("# nothing") == "a.yaml: the file holds no YAML document");
  CHECK(refusal("a: [1") == "a.yaml:1:6: not valid YAML: end of sequence flow not found");
  CHECK(refusal("a: \x01") == "a.yaml:1:4: a control character (0x01)");
  CHECK(refusal("a: \x04") == "a.yaml:1:4: a control character (0x04)");
  CHECK(refusal("a: \"\\x1b[31m\"") == "a.yaml:1:4: a control character in this text");
  CHECK(refusal("a: \"\\0\"") == "a.yaml:1:4: a control character in this text");
  CHECK(refusal("a: b\xE2\x80\xAE") == "a.yaml:1:4: a control character in this text");  // U+202E
  CHECK(refusal("a: \"one\\n\\ttwo\"").empty());
}

TEST_CASE("nesting is read to 100 levels", "[config]") {
  const auto nest = [](int depth) {
    const auto count = static_cast<std::size_t>(depth);
    return std::string(count, '[') + std::string(count, ']');
  };
  CHECK(refusal(nest(100)).empty());
  CHECK(refusal(nest(101)) == "a.yaml:1:101: nested deeper than 100 levels");
}

TEST_CASE("hostile input is refused within a second", "[config]") {
  constexpr std::size_t kMost = 1 << 20;
  const auto repeated = [](const std::string& text) {
    std::string all;
    while (all.size() + text.size() <= kMost) {
      all += text;
    }
    return all;
  };
  std::string indented;  // a block nest of 1,400 levels, as deep as a megabyte can hold
  for (std::size_t level = 0; indented.size() < kMost - 3000; ++level) {
    indented += std::string(level, ' ') + "a:\n";
  }
  const std::string input = GENERATE_COPY(std::string(10'000, '['),
                                          repeated("["),
                                          repeated("{"),
                                          repeated("{a: "),
                                          repeated("- "),
                                          repeated("? "),
                                          repeated("[a: "),
                                          repeated("'"),
                                          repeated("\""),
                                          repeated("a: b: "),
                                          repeated("&a "),
                                          repeated("\n "),
                                          repeated("a\n"),
                                          "a: &a [x]\nb: [" + repeated("*a,").substr(100) + "]",
                                          indented);
  const std::clock_t start = std::clock();  // of this process alone: others may hold the cores
  CAPTURE(input.substr(0, 20));
  const std::string refused = refusal(input);
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 5);
  CHECK((!refused.empty() || input[0] == 'a' || input[0] == '\n' || input[0] == '\''));
}

TEST_CASE("two files merge key by key and keep their places", "[config]") {
  const Node base = read("a: {b: 1, c: 2}\nd: [1, 2]\n");
  const Node overrides =
      read_yaml(std::make_shared<const SourceText>("o.yaml", "a: {c: 3, e: 4}\nd: [9]\n"));
  const Node both = merged(base, overrides);
  CHECK(both.find("a")->find("b")->text == "1");
  CHECK(both.find("a")->find("c")->text == "3");
  CHECK(both.find("a")->find("e")->text == "4");
  CHECK(both.find("d")->items.size() == 1);
  CHECK(place(both.find("a")->find("b")->where()) == "a.yaml:1:8");
  CHECK(place(both.find("a")->find("c")->where()) == "o.yaml:1:8");
}

}  // namespace
}  // namespace trireme::config
