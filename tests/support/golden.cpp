#include "tests/support/golden.h"

#include <cstdlib>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {

void check_golden(const std::filesystem::path& name, const std::string& text) {
  const std::filesystem::path path =
      std::filesystem::path(TRIREME_SOURCE_DIR) / "tests" / "golden" / name;
  if (std::getenv("TRIREME_UPDATE_GOLDENS") != nullptr) {
    write_file(path, text);
    return;
  }
  INFO("golden file " << name);
  CHECK(text == read_file(path));
}

}  // namespace trireme::test
