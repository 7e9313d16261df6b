// What `--version` says of the build.
#pragma once

#include <string_view>

namespace trireme::cli {

/// The release, such as "0.1.0".
[[nodiscard]] std::string_view version_number();

/// The git commit that was built, with "-dirty" when tracked files differed from it; "unknown" when
/// the sources were no git checkout.
[[nodiscard]] std::string_view version_commit();

}  // namespace trireme::cli
