// Tests that need a GPU, or the libraries of one.
#pragma once

namespace trireme::test {

/// Whether this machine has a GPU; where not, the running test case is marked as skipped with the
/// reason and returns.
[[nodiscard]] bool has_gpu();

}  // namespace trireme::test
