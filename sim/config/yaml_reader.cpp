#include "sim/config/yaml_reader.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "sim/config/locator.h"
#include "sim/core/files.h"
#include "sim/core/printable.h"
#include "sim/units/units.h"

namespace trireme::config {
namespace {

[[noreturn]] void fail(const Position& at, std::string message, std::string hint = {}) {
  throw Error(ErrorKind::input, at.location(), std::move(message), std::move(hint));
}

/// Builds the tree from yaml-cpp's events and refuses what conventions leave out of YAML.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::shared_ptr<const SourceText> source) : locator_(std::move(source)) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      fail(at(mark), "a second document starts here", "keep one document in a file");
    }
  }

  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Position position = at(mark);
    refuse_anchor(position, anchor);
    if (key_expected()) {
      fail(position, "a key is missing before ':'", "write it as 'key: value'");
    }
    Node node;
    node.position = value_of_key() ? frames_.back().key_position : position;
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    fail(at(mark), "aliases (*name) are not accepted", "write the value out");
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    const Position position = at(mark);
    refuse_anchor(position, anchor);
    refuse_tag(position, tag);
    refuse_harmful_text(position, value);
    if (!key_expected()) {
      add(make_text(value, position));
      return;
    }
    Frame& frame = frames_.back();
    if (value == "<<") {
      fail(position, "merge keys (<<) are not accepted", "write the keys out");
    }
    if (!frame.keys.insert(value).second) {
      const std::vector<Entry>& entries = frame.node.entries;
      const auto first = std::find_if(
          entries.begin(), entries.end(), [&](const Entry& e) { return e.key == value; });
      throw Error(ErrorKind::input,
                  position.location(),
                  fmt::format("the key {} is here a second time", in_quotes(value)),
                  "remove one of the two",
                  {{first->key_where(), "it was first given here"}});
    }
    frame.key = value;
    frame.key_position = position;
    frame.has_key = true;
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(NodeKind::list, at(mark), tag, anchor, style);
  }

  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(NodeKind::map, at(mark), tag, anchor, style);
  }

  void OnMapEnd() override { close(); }

  [[nodiscard]] Position at(const YAML::Mark& mark) {
    return locator_.at(mark.pos < 0 ? 0 : static_cast<std::size_t>(mark.pos));
  }

  /// The finished document.
  [[nodiscard]] Node take() { return std::move(root_); }

 private:
  struct Frame {
    Node node;
    std::unordered_set<std::string> keys;
    std::string key;
    Position key_position;
    bool has_key = false;
  };

  [[nodiscard]] bool key_expected() const {
    return !frames_.empty() && frames_.back().node.is_map() && !frames_.back().has_key;
  }

  [[nodiscard]] bool value_of_key() const { return !frames_.empty() && frames_.back().has_key; }

  static void refuse_anchor(const Position& position, YAML::anchor_t anchor) {
    if (anchor != 0) {
      fail(position, "anchors (&name) are not accepted", "write the value out where it is used");
    }
  }

  static void refuse_tag(const Position& position, const std::string& tag) {
    // yaml-cpp says "?" for a plain and "!" for a quoted scalar without a tag.
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(position, fmt::format("tags ({}) are not accepted", tag), "leave the tag out");
    }
  }

  /// A quoted text can spell what would act on a terminal, such as "\x1b".
  static void refuse_harmful_text(const Position& position, const std::string& text) {
    std::string one_line = text;
    for (char& c : one_line) {
      c = c == '\t' || c == '\n' || c == '\r' ? ' ' : c;
    }
    if (printable(text) != one_line) {
      fail(position, "a control character in this text", "remove it");
    }
  }

  void open(NodeKind kind,
            const Position& position,
            const std::string& tag,
            YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    refuse_anchor(position, anchor);
    refuse_tag(position, tag);
    if (key_expected()) {
      fail(position, "a key must be text", "write it as 'key: value'");
    }
    if (frames_.size() >= static_cast<std::size_t>(kDeepestNesting)) {
      fail(position,
           fmt::format("nested deeper than {} levels", kDeepestNesting),
           "no file of trireme needs more than a few");
    }
    Frame frame;
    frame.node.kind = kind;
    const bool block_value_of_key = style == YAML::EmitterStyle::Block && value_of_key();
    frame.node.position = block_value_of_key ? frames_.back().key_position : position;
    frames_.push_back(std::move(frame));
  }

  void close() {
    Node node = std::move(frames_.back().node);
    frames_.pop_back();
    add(std::move(node));
  }

  void add(Node node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.is_list()) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    frame.node.entries.push_back(Entry{std::move(frame.key), frame.key_position, std::move(node)});
    frame.has_key = false;
  }

  Locator locator_;
  std::vector<Frame> frames_;
  Node root_;
  int documents_ = 0;
};

/// Control characters have no place in YAML, and yaml-cpp takes some of them for its own signs.
void refuse_control_characters(const SourceText& source, Locator& locator) {
  const std::string& text = source.text();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool allowed = byte >= 0x20 || byte == '\t' || byte == '\n' || byte == '\r';
    if (!allowed || byte == 0x7F) {
      fail(locator.at(i), fmt::format("a control character (0x{:02x})", byte), "remove it");
    }
  }
}

}  // namespace

Node read_yaml(const std::shared_ptr<const SourceText>& source) {
  Locator locator(source);
  refuse_control_characters(*source, locator);
  TreeBuilder builder(source);
  std::istringstream stream(source->text());
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      throw Error(ErrorKind::input,
                  SourceLocation{.file = source->file()},
                  "the file holds no YAML document",
                  "write 'key: value' lines");
    }
    parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& bad) {
    fail(builder.at(bad.mark),
         fmt::format("not valid YAML: {}", bad.msg),
         "check the brackets, quotes and indentation up to this place");
  }
  return builder.take();
}

Node read_yaml_file(const std::filesystem::path& path,
                    const std::optional<SourceLocation>& named_at) {
  return read_yaml(read_source(path, named_at));
}

}  // namespace trireme::config
