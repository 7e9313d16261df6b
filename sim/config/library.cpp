#include "sim/config/library.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "sim/config/embedded_files.h"
#include "sim/config/json_reader.h"
#include "sim/config/map_reader.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"

namespace trireme::config {
namespace {

constexpr std::string_view kExtension = ".yaml";

struct KindRow {
  PresetKind kind;
  std::string_view word;
  std::string_view folder;
};

constexpr KindRow kKinds[] = {{PresetKind::model, "model", "models/"},
                              {PresetKind::gpu, "GPU", "topologies/gpus/"},
                              {PresetKind::cluster, "cluster", "topologies/clusters/"},
                              {PresetKind::profile, "profile", "topologies/profiles/"},
                              {PresetKind::memory, "memory table", "topologies/memory/"}};

const KindRow& row_of(PresetKind kind) {
  const KindRow& row = kKinds[static_cast<std::size_t>(kind)];
  ensure(row.kind == kind, "Library: kKinds is out of order");
  return row;
}

const EmbeddedFile* find_embedded(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == path) {
      return &file;
    }
  }
  return nullptr;
}

/// "gpt3-175b" of "models/gpt3-175b.yaml" in the folder "models/"; empty for a file elsewhere.
std::string_view name_in_folder(std::string_view path, std::string_view folder) {
  if (!path.starts_with(folder) || !path.ends_with(kExtension)) {
    return {};
  }
  path.remove_prefix(folder.size());
  path.remove_suffix(kExtension.size());
  return path.find('/') == std::string_view::npos ? path : std::string_view{};
}

std::string preset_path(const KindRow& row, std::string_view name) {
  return fmt::format("{}{}{}", row.folder, name, kExtension);
}

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// The file that a text names: relative to the file in which it stands.
std::filesystem::path path_of_file(const Node& name) {
  const std::filesystem::path written(name.text);
  const bool in_a_file = name.position.source != nullptr && written.is_relative();
  return in_a_file ? std::filesystem::path(name.position.source->file()).parent_path() / written
                   : written;
}

/// What stands under `hf` of a model; nullptr of anything else.
const Node* hugging_face_of(PresetKind kind, const Node& reference) {
  return kind == PresetKind::model ? reference.find("hf") : nullptr;
}

/// Whether a study could name the preset in that file: a YAML file whose name YAML can hold.
bool is_preset(const std::filesystem::path& path) {
  const std::string name = path.stem().string();
  return path.extension() == kExtension && is_file(path) && printable(name) == name;
}

}  // namespace

bool names_a_file(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(kExtension) ||
         text.ends_with(".yml");
}

Library::Library(DataSource data) : data_(std::move(data)) {}

std::vector<std::string> Library::names(PresetKind kind) const {
  const KindRow& row = row_of(kind);
  std::vector<std::string> found;
  for (const EmbeddedFile& file : embedded_files()) {
    if (const std::string_view name = name_in_folder(file.path, row.folder); !name.empty()) {
      found.emplace_back(name);
    }
  }
  if (data_.directory) {
    std::error_code missing;  // a data directory may hold some kinds only
    for (const auto& entry :
         std::filesystem::directory_iterator(*data_.directory / row.folder, missing)) {
      if (is_preset(entry.path())) {
        found.push_back(entry.path().stem().string());
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Resolved Library::resolve(PresetKind kind,
                          const Node& reference,
                          std::string_view inline_name) const {
  return follow(kind, reference, inline_name, 0);
}

Resolved Library::follow(PresetKind kind,
                         const Node& reference,
                         std::string_view inline_name,
                         int depth) const {
  constexpr int kLongestChain = 8;
  const KindRow& row = row_of(kind);
  if (depth > kLongestChain) {
    refuse(reference.where(),
           fmt::format("{}: more than {} files are built on one another", row.word, kLongestChain),
           "does a file name itself in 'use'?");
  }
  if (reference.is_text()) {
    Resolved resolved = follow(kind, *load(kind, reference), inline_name, depth + 1);
    resolved.name = names_a_file(reference.text)
                        ? std::filesystem::path(reference.text).stem().string()
                        : reference.text;
    return resolved;
  }
  if (!reference.is_map()) {
    refuse(reference.where(),
           fmt::format(
               "{}: expected a name or a map, found {}", row.word, description(reference.kind)),
           hint_near("", names(kind)));
  }
  const bool has_base = reference.find("use") != nullptr || hugging_face_of(kind, reference);
  if (!has_base) {
    return {reference, std::string(inline_name), {}, {}};
  }
  Resolved resolved = follow_base(kind, reference, inline_name, depth);
  Node overrides = reference;
  std::erase_if(overrides.entries,
                [](const Entry& entry) { return entry.key == "use" || entry.key == "hf"; });
  for (const Entry& entry : overrides.entries) {
    resolved.overridden.push_back(entry.key);
  }
  resolved.node = merged(std::move(resolved.node), overrides);
  return resolved;
}

Resolved Library::follow_base(PresetKind kind,
                              const Node& reference,
                              std::string_view inline_name,
                              int depth) const {
  const Node* const use = reference.find("use");
  const Node* const hugging_face = hugging_face_of(kind, reference);
  if (use != nullptr && hugging_face != nullptr) {
    throw Error(ErrorKind::input,
                hugging_face->where(),
                "'use' and 'hf' both name what the model is built on",
                "remove one of the two",
                {{use->where(), "'use' stands here"}});
  }
  const Node& name = use != nullptr ? *use : *hugging_face;
  if (!name.is_text()) {
    refuse(
        name.where(),
        fmt::format(
            "{}: expected a name, found {}", use != nullptr ? "use" : "hf", description(name.kind)),
        use != nullptr ? hint_near("", names(kind)) : "write the path of a config.json");
  }
  return use != nullptr ? follow(kind, name, inline_name, depth) : follow_hugging_face(name);
}

Resolved Library::follow_hugging_face(const Node& name) const {
  const std::filesystem::path path = path_of_file(name);
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<const HuggingFaceModel>& model = hugging_face_[path.string()];
  if (model == nullptr) {
    model = std::make_shared<const HuggingFaceModel>(
        translate_hugging_face(read_json(read_source(path, name.where()))));
  }
  // Every model's file is named config.json: the folder tells them apart.
  const bool by_folder =
      path.stem() == "config" && path.has_parent_path() && path.parent_path().has_filename();
  return {model->node,
          printable((by_folder ? path.parent_path().filename() : path.stem()).string()),
          {},
          model->notes};
}

Library::File Library::load(PresetKind kind, const Node& name) const {
  const KindRow& row = row_of(kind);
  if (names_a_file(name.text)) {
    return load_file(path_of_file(name), name);
  }
  const std::string path = preset_path(row, name.text);
  if (data_.directory && is_file(*data_.directory / path)) {
    return load_file(*data_.directory / path, name);
  }
  const EmbeddedFile* const embedded = find_embedded(path);
  if (embedded == nullptr) {
    refuse(name.where(),
           fmt::format("no {} is named {}", row.word, in_quotes(name.text)),
           hint_near(name.text, names(kind)));
  }
  const std::scoped_lock lock(mutex_);
  File& file = files_["embedded:" + path];
  if (file == nullptr) {
    file = std::make_shared<const Node>(
        read_yaml(std::make_shared<const SourceText>(path, std::string(embedded->text))));
  }
  return file;
}

Library::File Library::load_file(const std::filesystem::path& path, const Node& name) const {
  const std::scoped_lock lock(mutex_);
  File& file = files_[path.string()];
  if (file == nullptr) {
    file = std::make_shared<const Node>(read_yaml_file(path, name.where()));
  }
  return file;
}

}  // namespace trireme::config
