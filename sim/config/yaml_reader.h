// YAML text -> Node tree. The only user of yaml-cpp.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "sim/config/node.h"
#include "sim/core/error.h"

namespace trireme::config {

/// Deeper nesting is refused: no file of ours needs more than 6 levels.
inline constexpr int kDeepestNesting = 100;

/// Reads one YAML document. Scalars stay the text that was written (`010`, `yes` and `.inf` mean
/// nothing here). Throws Error (input), located, for what is not YAML, control characters, a key
/// written twice, a key that is not text, anchors, aliases and merge keys, tags, nesting beyond
/// kDeepestNesting, a second document, and a file without a document.
[[nodiscard]] Node read_yaml(const std::shared_ptr<const SourceText>& source);

/// The same for a file, read by read_text_file with its caps and refusals.
[[nodiscard]] Node read_yaml_file(const std::filesystem::path& path,
                                  const std::optional<SourceLocation>& named_at = {});

}  // namespace trireme::config
