// Whatever the bytes, reading YAML gives a tree or an Error of kind input.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "sim/config/node.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(data, data + bytes);
  try {
    static_cast<void>(trireme::config::read_yaml(
        std::make_shared<trireme::config::SourceText>("fuzz.yaml", text)));
  } catch (const trireme::Error& error) {
    if (error.kind() != trireme::ErrorKind::input) {
      std::abort();
    }
  }
  return 0;
}
