// JSON as a tree that knows where everything stands. Texts that are not JSON: see
// hugging_face_test.cpp and tests/golden/hugging_face.
#include "sim/config/json_reader.h"

#include <memory>
#include <string>

#include "tests/catch.h"

namespace trireme::config {
namespace {

JsonValue read(const std::string& text) {
  return read_json(std::make_shared<const SourceText>("a.json", text));
}

std::string where(const JsonValue& value) {
  return to_text(value.position.location());
}

TEST_CASE("every kind of value stands where it begins", "[config]") {
  const JsonValue root = read(
      "{\"n\": -1.5e3,\"t\":true , \"z\": null,\n"
      "  \"s\": \"a\\\\\\\"b\\u00e9\", \"\\\"q\": [1,\"x\", {} ]}");
  CHECK(root.kind == JsonKind::object);
  CHECK(where(root) == "a.json:1:1");
  REQUIRE(root.members.size() == 5);
  CHECK(root.find("n")->text == "-1.5e3");
  CHECK(where(*root.find("n")) == "a.json:1:7");
  CHECK(root.find("t")->kind == JsonKind::boolean);
  CHECK(root.find("t")->text == "true");
  CHECK(where(*root.find("t")) == "a.json:1:18");
  CHECK(root.find("z")->kind == JsonKind::null);
  CHECK(where(*root.find("z")) == "a.json:1:30");
  CHECK(root.find("s")->text == "a\\\"b\xC3\xA9");
  CHECK(where(*root.find("s")) == "a.json:2:8");
  const JsonValue* const list = root.find("\"q");
  REQUIRE(list != nullptr);
  CHECK(to_text(root.members[4].key_position.location()) == "a.json:2:24");
  REQUIRE(list->items.size() == 3);
  CHECK(where(*list) == "a.json:2:31");
  CHECK(where(list->items[0]) == "a.json:2:32");
  CHECK(where(list->items[1]) == "a.json:2:34");
  CHECK(where(list->items[2]) == "a.json:2:39");
  CHECK(root.find("m") == nullptr);
}

TEST_CASE("a document may be a single word", "[config]") {
  CHECK(read("17").text == "17");
  CHECK(read(" -0 ").text == "-0");
  CHECK(read("false").text == "false");
  CHECK(read("\"\"").kind == JsonKind::text);
}

TEST_CASE("what is not JSON is refused where it stops being JSON", "[config]") {
  const auto error_at = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(read(text));
    } catch (const Error& error) {
      return to_text(error.where());
    }
    return "accepted";
  };
  CHECK(error_at("{\"a\": 1,}") == "a.json:1:9");
  CHECK(error_at("{\"a\" 1}") == "a.json:1:6");
  CHECK(error_at("{\"a\": 1} x") == "a.json:1:10");
  CHECK(error_at("{\"a\": 01}") == "a.json:1:8");
  CHECK(error_at("{\"a\": 1e999}") != "accepted");
  CHECK(error_at("[\"\x01\"]") != "accepted");
  CHECK(error_at("[Infinity]") == "a.json:1:2");
  CHECK(error_at("") == "a.json:1:1");
  CHECK(error_at("[1") == "a.json:1:3");
}

}  // namespace
}  // namespace trireme::config
