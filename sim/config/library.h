// Presets and files by name: models, GPUs, clusters, profiles and what a GPU holds beyond tensors.
//
// A reference in a file is one of: the name of a preset, the name of a file (with a '/' or ending
// in .yaml or .yml; relative to the file that names it), an inline map, or `{use: preset-or-file,
// ...}` whose other keys are laid over what `use` names. A model may also be `{hf: config.json,
// ...}`: the configuration of a model of Hugging Face in the place of a model file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/hugging_face.h"
#include "sim/config/node.h"

namespace trireme::config {

/// Where presets are looked up besides those in the binary, which it overrides name by name.
struct DataSource {
  std::optional<std::filesystem::path> directory;
};

enum class PresetKind : std::uint8_t { model, gpu, cluster, profile, memory };

/// A reference followed to its end.
struct Resolved {
  Node node;         // a map, the overrides laid over it
  std::string name;  // of the preset or file; the given fallback for an inline map
  std::vector<std::string> overridden;  // top-level keys laid over what `use` or `hf` names
  std::vector<std::string> notes;       // what a config.json left to assume
};

/// Whether a reference is to a file rather than to a preset.
[[nodiscard]] bool names_a_file(std::string_view text);

/// Finds presets and keeps each file that it has read. May be used by several threads at once.
class Library {
 public:
  explicit Library(DataSource data);

  /// Names of all presets of a kind, sorted.
  [[nodiscard]] std::vector<std::string> names(PresetKind kind) const;

  /// Follows `reference`. Throws Error (input) where the name stands, with the nearest preset or
  /// all of them, and for a file that cannot be read or that is built on itself.
  [[nodiscard]] Resolved resolve(PresetKind kind,
                                 const Node& reference,
                                 std::string_view inline_name) const;

 private:
  using File = std::shared_ptr<const Node>;

  [[nodiscard]] Resolved follow(PresetKind kind,
                                const Node& reference,
                                std::string_view inline_name,
                                int depth) const;
  [[nodiscard]] Resolved follow_base(PresetKind kind,
                                     const Node& reference,
                                     std::string_view inline_name,
                                     int depth) const;
  [[nodiscard]] Resolved follow_hugging_face(const Node& name) const;
  [[nodiscard]] File load(PresetKind kind, const Node& name) const;
  [[nodiscard]] File load_file(const std::filesystem::path& path, const Node& name) const;

  DataSource data_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, File> files_;  // by path, or by "embedded:" and path
  mutable std::map<std::string, std::shared_ptr<const HuggingFaceModel>> hugging_face_;  // by path
};

}  // namespace trireme::config
