// Where a value of a model, GPU or cluster comes from.
#pragma once

#include <string>

namespace trireme::config {

/// One value as written and its source, for `explain` and for the listing of presets.
struct Provenance {
  std::string key;     // path in the file, such as "peak_dense.bf16"
  std::string value;   // text with its unit
  std::string source;  // key in docs/bibliography.md or words, or the place in the user's file
};

}  // namespace trireme::config
