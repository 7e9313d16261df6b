#include "sim/config/map_reader.h"

#include <memory>
#include <string>
#include <vector>

#include "sim/config/yaml_reader.h"
#include "tests/catch.h"

namespace trireme::config {
namespace {

Node read(const std::string& text) {
  return read_yaml(std::make_shared<const SourceText>("a.yaml", text));
}

/// "place: message; hint" of the Error that `action` throws.
template <class Action>
std::string refusal(Action action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    return to_text(error.where()) + ": " + error.message() + "; " + error.hint();
  }
}

TEST_CASE("required, optional and absent keys", "[config]") {
  const Node root = read("nodes: 2\nmemory: 8 KiB\n");
  std::vector<std::string> defaults;
  const MapReader map(root, "cluster", {"nodes", "memory", "causal", "extra"}, &defaults);
  const Located<std::int64_t> nodes = map.required_located("nodes", count_between(1, 8));
  CHECK(nodes.value == 2);
  CHECK(to_text(nodes.where) == "a.yaml:1:8");
  CHECK(map.required("memory", parse_bytes) == Bytes(8192));
  CHECK(map.optional("causal", parse_bool, "true"));
  CHECK(map.optional("causal", parse_bool, "true"));
  CHECK_FALSE(map.maybe("extra", parse_count).has_value());
  CHECK(defaults == std::vector<std::string>{"cluster.causal: true"});  // echoed once
}

TEST_CASE("a misspelt key is reported where it stands, not as missing", "[config]") {
  const Node root = read("ulyses: 8\n");
  CHECK(refusal([&] {
          MapReader(root, "plans.a", {"ulysses", "ring"});
        }) == "a.yaml:1:1: unknown key 'ulyses' in plans.a; did you mean 'ulysses'?");
}

TEST_CASE("a missing key, a missing value and a wrong kind", "[config]") {
  const Node root = read("a:\nb: [1]\nc: {d: 1}\n");
  const MapReader map(root, "", {"a", "b", "c", "e"});
  CHECK(refusal([&] { map.required("e", parse_count); }) ==
        "a.yaml:1:1: missing key 'e'; add 'e: ...'");
  CHECK(refusal([&] { map.required("a", parse_count); }) ==
        "a.yaml:1:1: a: a value is missing; write one behind the colon");
  CHECK(refusal([&] { map.required("b", parse_count); }) ==
        "a.yaml:2:4: b: expected one value, found a list; write one text behind the colon");
  CHECK(refusal([&] { static_cast<void>(map.items("c")); }) ==
        "a.yaml:3:4: c: expected a list, found a map; write it as [a, b]");
  CHECK(refusal([&] { MapReader(*map.find("b"), "b", {"x"}); }) ==
        "a.yaml:2:4: b: expected a map, found a list; write 'key: value' lines; accepted: x");
}

TEST_CASE("values carry their source", "[config]") {
  const Node root = read("a: {value: 79.2 GiB, source: driver}\nb: 1 GiB\nc: {value: 1 GiB}\n");
  const MapReader map(root, "gpu", {"a", "b", "c"});
  const auto sourced = map.sourced("a", parse_bytes);
  CHECK(sourced.value == Bytes(85'040'352'461));
  CHECK(sourced.text == "79.2 GiB");
  CHECK(sourced.source == "driver");
  CHECK(map.sourced("b", parse_bytes).source == "a.yaml:2");  // the user's own value
  CHECK(refusal([&] { static_cast<void>(map.sourced("c", parse_bytes)); }) ==
        "a.yaml:3:4: missing key 'source' in gpu.c; add 'source: ...'");
}

TEST_CASE("a key that was not declared is a bug of ours", "[config]") {
  const Node root = read("a: 1\n");
  const MapReader map(root, "", {"a"});
  CHECK_THROWS_AS(map.find("b"), std::logic_error);
}

}  // namespace
}  // namespace trireme::config
