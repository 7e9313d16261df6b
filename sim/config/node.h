// A YAML file as a tree of text, lists and maps, in which everything knows where it was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/error.h"

namespace trireme::config {

/// The text of one file, shared by all nodes that were read from it.
class SourceText {
 public:
  SourceText(std::string file, std::string text);

  [[nodiscard]] const std::string& file() const { return file_; }

  [[nodiscard]] const std::string& text() const { return text_; }

  /// Line (1-based) that holds the byte `offset`.
  [[nodiscard]] int line_at(std::size_t offset) const;

  /// Offset of the first byte of a line (1-based).
  [[nodiscard]] std::size_t line_start(int line) const;

  /// Offset behind the last byte of a line, without its line break.
  [[nodiscard]] std::size_t line_end(int line) const;

 private:
  std::string file_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
};

/// The text of a file, read by read_text_file with its caps and refusals, without a byte order
/// mark.
[[nodiscard]] std::shared_ptr<const SourceText> read_source(
    const std::filesystem::path& path, const std::optional<SourceLocation>& named_at = {});

/// A place in a SourceText: small, as each of many nodes has one.
struct Position {
  std::shared_ptr<const SourceText> source;
  std::size_t offset = 0;
  int line = 0;    // 1-based; 0 for a node that no file holds
  int column = 0;  // 1-based, in characters

  /// With the text around it, for the caret.
  [[nodiscard]] SourceLocation location() const;
};

struct Entry;

/// `empty` is a key without a value, `null` or `~`.
enum class NodeKind : std::uint8_t { empty, text, list, map };

/// One value: its kind, place and content. A block mapping or list that is the value of a key
/// stands where its key stands.
struct Node {
  NodeKind kind = NodeKind::empty;
  Position position;
  std::string text;            // of a text
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in the order written, no key twice

  [[nodiscard]] bool is_text() const { return kind == NodeKind::text; }

  [[nodiscard]] bool is_list() const { return kind == NodeKind::list; }

  [[nodiscard]] bool is_map() const { return kind == NodeKind::map; }

  [[nodiscard]] SourceLocation where() const { return position.location(); }

  /// The value of a key of this map, or nullptr.
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] Node* find(std::string_view key);

  /// Puts `value` under `key`, in place of what stood there or behind the last entry.
  Node& set(std::string_view key, const Position& key_position, Node value);
};

struct Entry {
  std::string key;
  Position key_position;
  Node value;

  [[nodiscard]] SourceLocation key_where() const { return key_position.location(); }
};

/// A text node that stands at `position`.
[[nodiscard]] Node make_text(std::string text, const Position& position);

/// An empty map that stands at `position`.
[[nodiscard]] Node make_map(const Position& position);

/// What a text stands for under a key that also takes a map: `gpu: h100-sxm` is short for
/// `gpu: {use: h100-sxm}` and `ulysses: 8` for `ulysses: {degree: 8}`. Empty for other keys.
[[nodiscard]] std::string_view key_of_text(std::string_view parent);

/// `base` with the entries of the map `overrides` laid over it: maps are merged key by key (a short
/// text as the map that it stands for), anything else replaces what stood there, and so does a
/// value that has a source: `{value: ..., source: ...}` is one thing. Every value keeps the place
/// where it was written.
[[nodiscard]] Node merged(Node base, const Node& overrides);

/// "text", "a list", "a map" or "nothing", as messages name what was found.
[[nodiscard]] std::string_view description(NodeKind kind);

}  // namespace trireme::config
