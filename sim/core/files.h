// Files read with a cap and written whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sim/core/error.h"

namespace trireme {

/// The largest text file that is read: 1 MiB, as a study or a preset is a few KiB.
inline constexpr std::int64_t kLargestTextFile = std::int64_t{1} << 20;

/// The text of a file. Throws Error (input) for a missing file, a directory, an empty file, more
/// than `largest` bytes (without reading more), a NUL byte and text that is not UTF-8. The error
/// stands at `named_at`, where the file's name was written, or else at the file.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         const std::optional<SourceLocation>& named_at = {},
                                         std::int64_t largest = kLargestTextFile);

/// Writes `text` to a temporary file beside `path` and renames it, so that `path` holds the old or
/// the new text and never a part. A link is followed; a device or pipe is written to directly.
/// Throws Error (command_line) with the system's reason; nothing is left behind.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace trireme
