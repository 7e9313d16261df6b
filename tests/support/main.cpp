// The main of every test program.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_RUNNER
#endif
#include <iostream>

#include "tests/catch.h"

namespace trireme::test {
namespace {

constexpr int kSkippedExitCode = 77;  // SKIP_RETURN_CODE in cmake/discover_tests.cmake

bool any_skipped = false;

}  // namespace

void skip(const std::string& reason) {
  any_skipped = true;
  std::cout << "skipped: " << reason << '\n';
}

}  // namespace trireme::test

int main(int argc, char** argv) {
  const int failed = Catch::Session().run(argc, argv);
  if (failed == 0 && trireme::test::any_skipped) {
    return trireme::test::kSkippedExitCode;
  }
  return failed;
}
