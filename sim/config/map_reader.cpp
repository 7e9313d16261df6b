#include "sim/config/map_reader.h"

#include <algorithm>

#include <fmt/core.h>

namespace trireme::config {

void refuse(const SourceLocation& where, std::string message, std::string hint) {
  throw Error(ErrorKind::input, where, std::move(message), std::move(hint));
}

std::int64_t parse_version(std::string_view text) {
  if (text != "1") {
    throw BadText(fmt::format("{} is not known", in_quotes(text)), "accepted: 1");
  }
  return 1;
}

namespace {

/// What other tools call a key of ours.
struct Synonym {
  std::string_view theirs;
  std::string_view ours;
};

constexpr Synonym kSynonyms[] = {
    {"gradient_checkpointing", "recompute"},
    {"activation_checkpointing", "recompute"},
    {"seq_len", "sequence"},
    {"seq_length", "sequence"},
    {"sequence_length", "sequence"},
    {"micro_batch_size", "micro_batch"},
    {"global_batch_size", "global_batch"},
    {"tensor_model_parallel_size", "tensor_parallel"},
    {"tensor_parallel_size", "tensor_parallel"},
    {"tp", "tensor_parallel"},
    {"context_parallel", "ring"},
    {"context_parallel_size", "ring"},
    {"cp", "ring"},
    {"data_parallel_size", "data_parallel"},
    {"dp", "data_parallel"},
    {"num_layers", "layers"},
    {"num_hidden_layers", "layers"},
    {"hidden_size", "hidden"},
    {"num_attention_heads", "heads"},
    {"num_key_value_heads", "kv_heads"},
    {"intermediate_size", "width"},
    {"ffn_hidden_size", "width"},
    {"vocab_size", "vocabulary"},
};

std::string hint_for_key(const std::string& key, const std::vector<std::string>& keys) {
  for (const Synonym& synonym : kSynonyms) {
    if (synonym.theirs == key && std::find(keys.begin(), keys.end(), synonym.ours) != keys.end()) {
      return fmt::format("did you mean '{}'?", synonym.ours);
    }
  }
  return hint_near(key, keys);
}

}  // namespace

MapReader::MapReader(const Node& map,
                     std::string path,
                     std::vector<std::string> keys,
                     std::vector<std::string>* defaults)
    : map_(&map), path_(std::move(path)), keys_(std::move(keys)), defaults_(defaults) {
  if (!map.is_map()) {
    refuse(map.where(),
           fmt::format("{}: expected a map, found {}",
                       path_.empty() ? "the file" : path_,
                       description(map.kind)),
           "write 'key: value' lines; " + hint_near("", keys_));
  }
  for (const Entry& entry : map.entries) {
    if (std::find(keys_.begin(), keys_.end(), entry.key) == keys_.end()) {
      refuse(entry.key_where(),
             fmt::format("unknown key {}{}", in_quotes(entry.key), in_path()),
             hint_for_key(entry.key, keys_));
    }
  }
}

std::string MapReader::in_path() const {
  return path_.empty() ? "" : " in " + path_;
}

std::string MapReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Node* MapReader::find(std::string_view key) const {
  ensure(std::find(keys_.begin(), keys_.end(), key) != keys_.end(),
         "MapReader: a key was asked for that was not declared");
  const Node* const value = map_->find(key);
  if (value != nullptr && value->kind == NodeKind::empty) {
    refuse(
        value->where(), fmt::format("{}: a value is missing", key), "write one behind the colon");
  }
  return value;
}

const Node& MapReader::node(std::string_view key) const {
  const Node* const value = find(key);
  if (value == nullptr) {
    refuse(where(),
           fmt::format("missing key '{}'{}", key, in_path()),
           fmt::format("add '{}: ...'", key));
  }
  return *value;
}

std::span<const Node> MapReader::items(std::string_view key) const {
  const Node* const value = find(key);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_list()) {
    refuse(value->where(),
           fmt::format("{}: expected a list, found {}", key, description(value->kind)),
           "write it as [a, b]");
  }
  return value->items;
}

void MapReader::echo_default(std::string_view key, std::string_view text) const {
  if (defaults_ == nullptr) {
    return;
  }
  std::string line = fmt::format("{}: {}", path_of(key), text);
  if (std::find(defaults_->begin(), defaults_->end(), line) == defaults_->end()) {
    defaults_->push_back(std::move(line));
  }
}

std::string MapReader::place_of(const Node& node) {
  return fmt::format("{}:{}",
                     node.position.source == nullptr ? "" : node.position.source->file(),
                     node.position.line);
}

}  // namespace trireme::config
