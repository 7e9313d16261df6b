// What `--version` says of the build. Defined in the library trireme::version, not in core: its
// text changes with every commit.
#pragma once

#include <string_view>

namespace trireme {

/// The release, such as "0.1.0".
[[nodiscard]] std::string_view version_number();

/// The git commit that was built, with "-dirty" when tracked files differed from it; "unknown" when
/// the sources were no git checkout.
[[nodiscard]] std::string_view version_commit();

}  // namespace trireme
