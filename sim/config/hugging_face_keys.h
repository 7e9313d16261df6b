// The keys of a config.json of Hugging Face. Included by hugging_face*.cpp alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "sim/config/json_reader.h"
#include "sim/config/map_reader.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::config {

/// The names of one quantity, the most common first.
using Names = std::span<const std::string_view>;

inline constexpr std::string_view kHidden[] = {"hidden_size", "n_embd", "n_embed", "d_model"};
inline constexpr std::string_view kLayers[] = {"num_hidden_layers", "n_layer", "num_layers"};
inline constexpr std::string_view kHeads[] = {"num_attention_heads", "n_head"};
inline constexpr std::string_view kKvHeads[] = {"num_key_value_heads"};
inline constexpr std::string_view kFalconKvHeads[] = {"num_kv_heads", "n_head_kv"};
inline constexpr std::string_view kGroups[] = {"multi_query_group_num"};
inline constexpr std::string_view kHeadDim[] = {"head_dim"};
inline constexpr std::string_view kChannels[] = {"kv_channels"};
inline constexpr std::string_view kWidth[] = {
    "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"};
inline constexpr std::string_view kVocabulary[] = {"vocab_size"};
inline constexpr std::string_view kPaddedVocabulary[] = {"padded_vocab_size"};
inline constexpr std::string_view kPositions[] = {"n_positions", "max_position_embeddings"};
inline constexpr std::string_view kActivation[] = {
    "hidden_activation", "hidden_act", "activation_function", "activation"};
inline constexpr std::string_view kExperts[] = {
    "num_experts", "num_local_experts", "n_routed_experts"};
inline constexpr std::string_view kExpertsPerToken[] = {"num_experts_per_tok", "experts_per_token"};
inline constexpr std::string_view kWindowPattern[] = {"sliding_window_pattern",
                                                      "_sliding_window_pattern"};

/// A whole number of config.json, or derived from it.
struct Count {
  std::int64_t value = 0;
  Position position;
};

/// Reads the keys of config.json. It has many that are of no concern here, so that, unlike in a
/// file of trireme, a key that is not known is no error; one that is missing is looked for among
/// them.
class ConfigReader {
 public:
  ConfigReader(const JsonValue& config, std::vector<std::string>& notes)
      : config_(config), notes_(notes) {}

  [[nodiscard]] const Position& position() const { return config_.position; }

  /// The value under one of the names; null counts as missing. Refuses two names that differ.
  [[nodiscard]] const JsonValue* find(Names names) const {
    const JsonValue* found = nullptr;
    std::string_view found_name;
    for (const std::string_view name : names) {
      const JsonValue* const value = config_.find(name);
      if (value == nullptr || value->kind == JsonKind::null) {
        continue;
      }
      if (found == nullptr) {
        found = value;
        found_name = name;
      } else if (found->text != value->text || found->kind != value->kind) {
        throw Error(ErrorKind::input,
                    value->position.location(),
                    fmt::format("{} and {} name one quantity and differ", found_name, name),
                    "remove one of the two",
                    {{found->position.location(), fmt::format("{} stands here", found_name)}});
      }
    }
    return found;
  }

  [[nodiscard]] const JsonValue* find(std::string_view name) const { return find(Names(&name, 1)); }

  /// Whether the key is there, be it with null.
  [[nodiscard]] bool has(std::string_view name) const { return config_.find(name) != nullptr; }

  [[nodiscard]] std::optional<Count> maybe_count(Names names) const {
    const JsonValue* const value = find(names);
    return value == nullptr ? std::optional<Count>() : Count{whole_number(*value), value->position};
  }

  [[nodiscard]] Count count(Names names) const {
    const auto found = maybe_count(names);
    if (!found) {
      refuse_missing(names);
    }
    return *found;
  }

  [[nodiscard]] Count count(std::string_view name) const { return count(Names(&name, 1)); }

  /// The number, or `otherwise`, which is then noted.
  [[nodiscard]] Count count_or(Names names, std::int64_t otherwise) const {
    if (const auto found = maybe_count(names)) {
      return *found;
    }
    note(names.front(), std::to_string(otherwise));
    return {otherwise, config_.position};
  }

  /// The truth value, or `otherwise`; not noted, as most are of rare options.
  [[nodiscard]] bool flag_or(std::string_view name, bool otherwise) const {
    const JsonValue* const value = find(name);
    if (value == nullptr) {
      return otherwise;
    }
    if (value->kind != JsonKind::boolean) {
      refuse(value->position.location(),
             fmt::format("{}: expected true or false, found {}", name, description(value->kind)),
             "write true or false");
    }
    return value->text == "true";
  }

  [[nodiscard]] std::optional<std::pair<std::string, Position>> maybe_text(Names names) const {
    const JsonValue* const value = find(names);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (value->kind != JsonKind::text) {
      refuse(value->position.location(),
             fmt::format("{}: expected a text, found {}", names.front(), description(value->kind)),
             "write a text in quotes");
    }
    return std::pair(value->text, value->position);
  }

  /// Where a key stands, or the whole file when it is not there.
  [[nodiscard]] Position where(std::string_view name) const {
    const JsonValue* const value = config_.find(name);
    return value == nullptr ? config_.position : value->position;
  }

  void note(std::string_view key, std::string_view text) const {
    notes_.push_back(fmt::format("{}: {}", key, text));
  }

  [[noreturn]] void refuse_missing(Names names) const {
    std::vector<std::string> present;
    for (const JsonMember& member : config_.members) {
      present.push_back(member.key);
    }
    for (const std::string_view name : names) {
      if (const auto near = nearest(name, present); near && *near != name) {
        const auto twin = std::find_if(config_.members.begin(),
                                       config_.members.end(),
                                       [&](const JsonMember& m) { return m.key == *near; });
        refuse(twin->key_position.location(),
               fmt::format("missing key '{}', but {} stands here", name, in_quotes(*near)),
               fmt::format("did you mean '{}'?", name));
      }
    }
    refuse(config_.position.location(),
           fmt::format("missing key '{}'", names.front()),
           names.size() == 1
               ? std::string("add it to config.json")
               : fmt::format("accepted: {}", fmt::join(names.begin(), names.end(), ", ")));
  }

 private:
  static std::int64_t whole_number(const JsonValue& value) {
    if (value.kind != JsonKind::number) {
      refuse(value.position.location(),
             fmt::format("expected a whole number, found {}", description(value.kind)),
             "write a whole number without quotes");
    }
    // Beyond every bound of a model file, and small enough for sums and products of a few.
    constexpr std::int64_t kLargest = std::int64_t{1} << 30;
    try {
      return count_between(0, kLargest)(value.text);
    } catch (const BadText& bad) {
      refuse(value.position.location(), bad.what(), bad.hint());
    }
  }

  const JsonValue& config_;
  std::vector<std::string>& notes_;
};

}  // namespace trireme::config
