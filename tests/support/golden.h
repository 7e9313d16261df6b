// Texts that are compared with a file of the repository, byte by byte.
#pragma once

#include <filesystem>
#include <string>

namespace trireme::test {

/// Fails the running test case unless `text` equals the file tests/golden/`name`. With the
/// environment variable TRIREME_UPDATE_GOLDENS (the target update_goldens sets it) the file is
/// written instead. A test case that calls this has the tag [golden].
void check_golden(const std::filesystem::path& name, const std::string& text);

}  // namespace trireme::test
