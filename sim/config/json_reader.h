// JSON text -> a tree in which everything knows where it was written. The configuration files of
// other tools are read with it; trireme's own are YAML.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/node.h"

namespace trireme::config {

enum class JsonKind : std::uint8_t { null, boolean, number, text, array, object };

struct JsonMember;

struct JsonValue {
  JsonKind kind = JsonKind::null;
  Position position;
  std::string text;                 // of a text; as written of a number or a boolean
  std::vector<JsonValue> items;     // of an array
  std::vector<JsonMember> members;  // of an object, in the order written, no key twice

  /// The value of a key of this object, or nullptr.
  [[nodiscard]] const JsonValue* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  Position key_position;
  JsonValue value;
};

/// "a number", "an object", ..., as messages name what was found.
[[nodiscard]] std::string_view description(JsonKind kind);

/// Reads one JSON document. Throws Error (input), located, for what is not JSON (NaN, Infinity and
/// comments are not), a key written twice, and nesting beyond kDeepestNesting of yaml_reader.h.
[[nodiscard]] JsonValue read_json(const std::shared_ptr<const SourceText>& source);

}  // namespace trireme::config
