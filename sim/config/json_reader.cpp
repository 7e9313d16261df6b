#include "sim/config/json_reader.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "sim/config/locator.h"
#include "sim/config/map_reader.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/printable.h"

namespace trireme::config {
namespace {

/// Hands the parser one byte after the other and notes how many it has taken: the parser's events
/// carry no place.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}

  reference operator*() const { return *at_; }

  CountingIterator& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }

  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }

  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* taken_;
};

bool belongs_to_a_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.';
}

/// Builds the tree from the parser's events.
class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TreeBuilder(std::shared_ptr<const SourceText> source)
      : source_(std::move(source)), locator_(source_) {}

  /// Counts the bytes that the parser has taken.
  std::size_t* taken() { return &taken_; }

  bool null() override { return add_word(JsonKind::null); }

  bool boolean(bool /*value*/) override { return add_word(JsonKind::boolean); }

  bool number_integer(number_integer_t /*value*/) override { return add_word(JsonKind::number); }

  bool number_unsigned(number_unsigned_t /*value*/) override { return add_word(JsonKind::number); }

  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return add_word(JsonKind::number);
  }

  bool string(string_t& value) override {
    JsonValue text;
    text.kind = JsonKind::text;
    text.position = locator_.at(start_of_text());
    text.text = std::move(value);
    return add(std::move(text));
  }

  bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none

  bool start_object(std::size_t /*size*/) override { return open(JsonKind::object); }

  bool start_array(std::size_t /*size*/) override { return open(JsonKind::array); }

  bool end_object() override { return close(); }

  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Frame& frame = frames_.back();
    const Position position = locator_.at(start_of_text());
    if (!frame.keys.insert(name).second) {
      const auto& members = frame.value.members;
      const auto first = std::find_if(
          members.begin(), members.end(), [&](const JsonMember& m) { return m.key == name; });
      throw Error(ErrorKind::input,
                  position.location(),
                  fmt::format("the key {} is here a second time", in_quotes(name)),
                  "remove one of the two",
                  {{first->key_position.location(), "it was first given here"}});
    }
    frame.value.members.push_back({std::move(name), position, {}});
    return true;
  }

  bool parse_error(std::size_t /*position*/,
                   const std::string& last_token,
                   const nlohmann::json::exception& error) override {
    // The parser's own text names a byte and a state of its grammar; the place says more.
    if (std::string_view(error.what()).find("unexpected end of input") != std::string_view::npos) {
      refuse(locator_.at(taken_).location(),
             "not valid JSON: the text ends too early",
             "is the file cut off?");
    }
    std::size_t at = taken_ == 0 ? 0 : taken_ - 1;
    const bool one_too_far = at > 0 && !last_token.empty() &&
                             belongs_to_a_word(last_token.back()) &&
                             !belongs_to_a_word(source_->text()[at]);
    at -= one_too_far ? 1 : 0;  // a number ends where something else begins
    refuse(locator_.at(at).location(),
           "not valid JSON here",
           "check the brackets, quotes and commas up to this place");
  }

  /// The finished document.
  [[nodiscard]] JsonValue take() { return std::move(root_); }

 private:
  struct Frame {
    JsonValue value;
    std::unordered_set<std::string> keys;
  };

  /// Offset of the quote that opens the text whose closing quote was just taken: the last one that
  /// no backslash escapes.
  [[nodiscard]] std::size_t start_of_text() const {
    const std::string& text = source_->text();
    std::size_t at = taken_ - 1;
    while (at > 0) {
      --at;
      std::size_t backslashes = 0;
      while (backslashes < at && text[at - 1 - backslashes] == '\\') {
        ++backslashes;
      }
      if (text[at] == '"' && backslashes % 2 == 0) {
        break;
      }
    }
    return at;
  }

  /// A number, true, false or null. Of a number one byte more may have been taken.
  bool add_word(JsonKind kind) {
    const std::string& text = source_->text();
    std::size_t end = taken_;
    if (end > 0 && !belongs_to_a_word(text[end - 1])) {
      --end;
    }
    std::size_t start = end;
    while (start > 0 && belongs_to_a_word(text[start - 1])) {
      --start;
    }
    JsonValue word;
    word.kind = kind;
    word.position = locator_.at(start);
    word.text = text.substr(start, end - start);
    return add(std::move(word));
  }

  bool open(JsonKind kind) {
    const Position position = locator_.at(taken_ - 1);
    if (frames_.size() >= static_cast<std::size_t>(kDeepestNesting)) {
      refuse(position.location(),
             fmt::format("nested deeper than {} levels", kDeepestNesting),
             "no configuration needs more than a few");
    }
    Frame frame;
    frame.value.kind = kind;
    frame.value.position = position;
    frames_.push_back(std::move(frame));
    return true;
  }

  bool close() {
    JsonValue value = std::move(frames_.back().value);
    frames_.pop_back();
    return add(std::move(value));
  }

  bool add(JsonValue value) {
    if (frames_.empty()) {
      root_ = std::move(value);
    } else if (frames_.back().value.kind == JsonKind::array) {
      frames_.back().value.items.push_back(std::move(value));
    } else {
      frames_.back().value.members.back().value = std::move(value);
    }
    return true;
  }

  std::shared_ptr<const SourceText> source_;
  Locator locator_;
  std::size_t taken_ = 0;
  std::vector<Frame> frames_;
  JsonValue root_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) {
      return &member.value;
    }
  }
  return nullptr;
}

std::string_view description(JsonKind kind) {
  switch (kind) {
    case JsonKind::null:
      return "null";
    case JsonKind::boolean:
      return "true or false";
    case JsonKind::number:
      return "a number";
    case JsonKind::text:
      return "a text";
    case JsonKind::array:
      return "a list";
    case JsonKind::object:
      return "an object";
  }
  return "";
}

JsonValue read_json(const std::shared_ptr<const SourceText>& source) {
  TreeBuilder builder(source);
  const std::string& text = source->text();
  nlohmann::json::sax_parse(CountingIterator(text.data(), builder.taken()),
                            CountingIterator(text.data() + text.size(), builder.taken()),
                            &builder);
  return builder.take();
}

}  // namespace trireme::config
