// Models from Hugging Face: config.json as a model file of trireme.
#pragma once

#include <string>
#include <vector>

#include "sim/config/json_reader.h"
#include "sim/config/node.h"

namespace trireme::config {

/// A model as the map that a model file holds; every value stands where config.json has it.
struct HuggingFaceModel {
  Node node;
  /// What was assumed or left out, as "num_key_value_heads: 32": echoed like other defaults.
  std::vector<std::string> notes;
};

/// Translates a config.json. A `text_config` inside is taken in the place of the whole. Throws
/// Error (input), located: a model_type that is not known, missing keys, values of the wrong kind,
/// two names of one quantity that differ, and architectures that the keys switch to what a model
/// file cannot say.
[[nodiscard]] HuggingFaceModel translate_hugging_face(const JsonValue& config);

/// Every model_type that is known, in the order of the table.
[[nodiscard]] std::vector<std::string> hugging_face_model_types();

}  // namespace trireme::config
