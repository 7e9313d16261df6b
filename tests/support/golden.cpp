#include "tests/support/golden.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/catch.h"

namespace trireme::test {

void check_golden(const std::filesystem::path& name, const std::string& text) {
  const std::filesystem::path path =
      std::filesystem::path(TRIREME_SOURCE_DIR) / "tests" / "golden" / name;
  if (std::getenv("TRIREME_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  INFO("golden file " << name);
  REQUIRE(file.good());
  std::ostringstream expected;
  expected << file.rdbuf();
  CHECK(text == expected.str());
}

}  // namespace trireme::test
