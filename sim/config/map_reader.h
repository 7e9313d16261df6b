// Reads the keys of one map with located errors.
//
//   MapReader map(node, "cluster.node", {"gpus", "gpu"}, &defaults);
//   const auto gpus = map.required_located("gpus", count_between(1, 1024));
//   const bool causal = map.optional("causal", parse_bool, "true");  // the default is echoed
//
// The accepted keys are declared first and any other key is refused at once, with the nearest
// accepted one. So a misspelt key is reported where it stands, and not as a missing one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/config/node.h"
#include "sim/core/error.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"
#include "sim/units/units.h"

namespace trireme::config {

/// A value with its provenance: the text of `source:` in `{value: ..., source: ...}`, or the place
/// in the user's file of a value that was written without one.
template <class T>
struct Sourced {
  T value{};
  std::string text;  // as written, with its unit
  std::string source;
  SourceLocation where;
};

/// Throws Error (input) at `where`.
[[noreturn]] void refuse(const SourceLocation& where, std::string message, std::string hint = {});

/// The value of `node`, which must be one text, by a whole-string parser that throws BadText.
/// `name` begins the message.
template <class Parse>
auto parse_node(const Node& node, std::string_view name, Parse&& parse) {
  if (!node.is_text()) {
    refuse(node.where(),
           std::string(name) + ": expected one value, found " + std::string(description(node.kind)),
           "write one text behind the colon");
  }
  try {
    return std::invoke(parse, std::string_view(node.text));
  } catch (const BadText& bad) {
    refuse(node.where(), std::string(name) + ": " + bad.what(), bad.hint());
  }
}

/// A parser of whole numbers from `lowest` to `highest`.
inline auto count_between(std::int64_t lowest, std::int64_t highest) {
  return [=](std::string_view text) {
    const std::int64_t value = parse_count(text);
    if (value < lowest || value > highest) {
      throw BadText(in_quotes(text) + " is out of range",
                    "accepted: a whole number from " + std::to_string(lowest) + " to " +
                        std::to_string(highest));
    }
    return value;
  };
}

/// The version of a file format: only 1 is known. Throws BadText for any other.
[[nodiscard]] std::int64_t parse_version(std::string_view text);

/// A parser of the same text that refuses zero: the value divides, or an amount of nothing makes no
/// sense.
template <class Parse>
auto above_zero(Parse parse) {
  return [parse](std::string_view text) {
    const auto quantity = parse(text);
    if (!(quantity.value() > 0)) {
      throw BadText(in_quotes(text) + " is not above zero", "accepted: an amount above zero");
    }
    return quantity;
  };
}

/// One word of a closed set and what it means.
template <class T>
struct Choice {
  std::string_view word;
  T value;
};

/// A parser of the words of a table that outlives it.
template <class T>
auto one_of(std::span<const Choice<T>> choices) {
  return [choices](std::string_view text) {
    std::vector<std::string> words;
    for (const Choice<T>& choice : choices) {
      if (choice.word == text) {
        return choice.value;
      }
      words.emplace_back(choice.word);
    }
    throw BadText(in_quotes(text) + " is not known here", hint_near(text, words));
  };
}

class MapReader {
 public:
  /// `path` is where the map stands in its file, such as "workload" ("" for the whole file); it
  /// begins the echoed defaults, which are appended to `defaults` unless that is null. Throws Error
  /// at a node that is not a map and at the first key that is not in `keys`. `map` must outlive
  /// the reader.
  MapReader(const Node& map,
            std::string path,
            std::vector<std::string> keys,
            std::vector<std::string>* defaults = nullptr);

  [[nodiscard]] SourceLocation where() const { return map_->where(); }

  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] std::vector<std::string>* defaults() const { return defaults_; }

  /// "workload.sequence" for the key `sequence`.
  [[nodiscard]] std::string path_of(std::string_view key) const;

  /// The value of a key, or nullptr. Throws Error at a key that is there without a value.
  [[nodiscard]] const Node* find(std::string_view key) const;

  /// The value of a key. Throws Error at this map when the key is missing.
  [[nodiscard]] const Node& node(std::string_view key) const;

  /// The items of a list under `key`; empty when the key is missing.
  [[nodiscard]] std::span<const Node> items(std::string_view key) const;

  /// Throws Error where the value stands.
  template <class Parse>
  auto required(std::string_view key, Parse&& parse) const {
    return parse_node(node(key), key, parse);
  }

  template <class Parse>
  auto required_located(std::string_view key, Parse&& parse) const {
    const Node& value = node(key);
    return Located<decltype(parse_node(value, key, parse))>{parse_node(value, key, parse),
                                                            value.where()};
  }

  /// The value, or the one that `default_text` means, which is then echoed as "path.key: text".
  template <class Parse>
  auto optional(std::string_view key, Parse&& parse, std::string_view default_text) const {
    if (const Node* value = find(key)) {
      return parse_node(*value, key, parse);
    }
    echo_default(key, default_text);
    return parse(default_text);
  }

  /// The same; a default stands where the map stands.
  template <class Parse>
  auto optional_located(std::string_view key, Parse&& parse, std::string_view default_text) const {
    auto value = optional(key, parse, default_text);
    const Node* written = find(key);
    return Located<decltype(value)>{std::move(value),
                                    written != nullptr ? written->where() : where()};
  }

  /// The value, or nullopt when the key is missing; nothing is echoed.
  template <class Parse>
  auto maybe(std::string_view key, Parse&& parse) const {
    using Value = std::invoke_result_t<Parse&, std::string_view>;
    const Node* value = find(key);
    return value == nullptr ? std::optional<Value>()
                            : std::optional<Value>(parse_node(*value, key, parse));
  }

  template <class Parse>
  auto maybe_located(std::string_view key, Parse&& parse) const {
    using Value = Located<std::invoke_result_t<Parse&, std::string_view>>;
    return find(key) == nullptr ? std::optional<Value>()
                                : std::optional<Value>(required_located(key, parse));
  }

  /// `key: {value: ..., source: ...}`, or the value alone, whose source is then its place.
  template <class Parse>
  [[nodiscard]] auto sourced(std::string_view key, Parse&& parse) const {
    using Value = std::invoke_result_t<Parse&, std::string_view>;
    const Node& written = node(key);
    if (!written.is_map()) {
      return Sourced<Value>{
          parse_node(written, key, parse), written.text, place_of(written), written.where()};
    }
    const MapReader inner(written, path_of(key), {"value", "source"});
    const Node& value = inner.node("value");
    return Sourced<Value>{parse_node(value, key, parse),
                          value.text,
                          inner.required("source", parse_word),
                          value.where()};
  }

  template <class Parse>
  [[nodiscard]] auto maybe_sourced(std::string_view key, Parse&& parse) const {
    using Value = Sourced<std::invoke_result_t<Parse&, std::string_view>>;
    return find(key) == nullptr ? std::optional<Value>()
                                : std::optional<Value>(sourced(key, parse));
  }

  /// Appends "path.key: text" to the echoed defaults, unless it is there already.
  void echo_default(std::string_view key, std::string_view text) const;

 private:
  /// " in workload", or nothing for the whole file.
  [[nodiscard]] std::string in_path() const;

  /// "file.yaml:12", the provenance of a value without a source.
  static std::string place_of(const Node& node);

  const Node* map_;
  std::string path_;
  std::vector<std::string> keys_;
  std::vector<std::string>* defaults_;
};

}  // namespace trireme::config
