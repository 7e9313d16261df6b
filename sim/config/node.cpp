#include "sim/config/node.h"

#include <algorithm>
#include <utility>

#include "sim/core/files.h"
#include "sim/core/printable.h"

namespace trireme::config {

SourceText::SourceText(std::string file, std::string text)
    : file_(std::move(file)), text_(std::move(text)), line_starts_{0} {
  for (std::size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n', at + 1)) {
    line_starts_.push_back(at + 1);
  }
}

int SourceText::line_at(std::size_t offset) const {
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return static_cast<int>(after - line_starts_.begin());
}

std::size_t SourceText::line_start(int line) const {
  return line_starts_.at(static_cast<std::size_t>(line - 1));
}

std::size_t SourceText::line_end(int line) const {
  const auto next = static_cast<std::size_t>(line);
  std::size_t end = next < line_starts_.size() ? line_starts_[next] - 1 : text_.size();
  if (end > line_start(line) && text_[end - 1] == '\r') {
    --end;
  }
  return end;
}

SourceLocation Position::location() const {
  if (source == nullptr) {
    return {};
  }
  SourceLocation where{.file = source->file(), .line = line, .column = column};
  if (line == 0) {
    return where;
  }
  // Of a long line only the neighbourhood is copied: a file may be one line of a megabyte.
  constexpr std::size_t kBytesAround = 400;
  const std::string_view text = source->text();
  const std::size_t start = source->line_start(line);
  const std::size_t end = source->line_end(line);
  std::size_t from = offset > start + kBytesAround ? offset - kBytesAround : start;
  const auto inside_character = [&](std::size_t at) {
    return at < end && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (inside_character(from)) {
    ++from;
  }
  std::size_t to = std::min(end, offset + kBytesAround);
  while (inside_character(to)) {
    ++to;
  }
  if (from > start) {
    const auto before = static_cast<int>(utf8_count(text.substr(from, offset - from)));
    where.source_line_skip = column - 1 - before;
  }
  where.source_line = text.substr(from, to > from ? to - from : 0);
  return where;
}

const Node* Node::find(std::string_view key) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

Node* Node::find(std::string_view key) {
  return const_cast<Node*>(std::as_const(*this).find(key));  // NOLINT: *this is not const
}

Node& Node::set(std::string_view key, const Position& key_position, Node value) {
  for (Entry& entry : entries) {
    if (entry.key == key) {
      entry.key_position = key_position;
      entry.value = std::move(value);
      return entry.value;
    }
  }
  entries.push_back(Entry{std::string(key), key_position, std::move(value)});
  return entries.back().value;
}

Node make_text(std::string text, const Position& position) {
  Node node;
  node.kind = NodeKind::text;
  node.position = position;
  node.text = std::move(text);
  return node;
}

Node make_map(const Position& position) {
  Node node;
  node.kind = NodeKind::map;
  node.position = position;
  return node;
}

std::string_view key_of_text(std::string_view parent) {
  for (const std::string_view reference : {"model", "cluster", "gpu", "profile"}) {
    if (parent == reference) {
      return "use";
    }
  }
  for (const std::string_view degree : {"ulysses", "tensor_parallel"}) {
    if (parent == degree) {
      return "degree";
    }
  }
  return {};
}

Node merged(Node base, const Node& overrides) {
  if (!base.is_map() || !overrides.is_map() || base.find("value") != nullptr) {
    return overrides;
  }
  for (const Entry& entry : overrides.entries) {
    if (Node* const old = base.find(entry.key)) {
      const std::string_view text_key = key_of_text(entry.key);
      if (old->is_text() && entry.value.is_map() && !text_key.empty()) {
        Node as_map = make_map(old->position);
        as_map.set(text_key, old->position, std::move(*old));
        *old = std::move(as_map);
      } else if (old->is_map() && entry.value.is_text() && text_key == "degree") {
        old->set(text_key, entry.key_position, entry.value);
        continue;
      }
      Node laid_over = merged(std::move(*old), entry.value);
      base.set(entry.key, entry.key_position, std::move(laid_over));
    } else {
      base.set(entry.key, entry.key_position, entry.value);
    }
  }
  return base;
}

std::string_view description(NodeKind kind) {
  switch (kind) {
    case NodeKind::empty:
      return "nothing";
    case NodeKind::text:
      return "text";
    case NodeKind::list:
      return "a list";
    case NodeKind::map:
      return "a map";
  }
  return "";
}

std::shared_ptr<const SourceText> read_source(const std::filesystem::path& path,
                                              const std::optional<SourceLocation>& named_at) {
  std::string text = read_text_file(path, named_at);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) {
    text.erase(0, kByteOrderMark.size());  // else the columns of the first line would be off
  }
  return std::make_shared<const SourceText>(path.string(), std::move(text));
}

}  // namespace trireme::config
