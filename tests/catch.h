// The one include for Catch2, v2 (Debian 12) and v3 (Ubuntu 24.04). Tests use the names of v3.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)

#include <catch2/catch_all.hpp>

using Catch::Approx;

#else

#include <catch2/catch.hpp>

namespace Catch {

inline std::uint32_t getSeed() {
  return rngSeed();
}

namespace Matchers {

inline auto ContainsSubstring(const std::string& text) {
  return Contains(text);
}

}  // namespace Matchers
}  // namespace Catch

#endif

namespace trireme::test {

/// Marks the running test case as skipped and says why; the caller returns at once after it. A
/// program that ran nothing but skipped cases exits with 77, which ctest shows as skipped.
void skip(const std::string& reason);

}  // namespace trireme::test
