// Reading models, and counting their parameters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/library.h"
#include "sim/config/model_spec.h"
#include "sim/config/node.h"
#include "sim/units/units.h"

namespace trireme::config {

/// Reads `model: NAME | FILE | {use: ..., overrides} | {hf: config.json, overrides} | {inline}`.
/// Defaults used are appended to `defaults` unless that is null. Throws Error (input), located, for
/// unknown and missing keys, numbers out of range, and numbers of heads that do not divide.
[[nodiscard]] ModelSpec read_model(const Node& reference,
                                   const Library& library,
                                   std::vector<std::string>* defaults = nullptr);

/// Whether a norm stands behind the last layer: it belongs to the head, so that a model without
/// vocabulary has none.
[[nodiscard]] bool has_final_norm(const ModelSpec& model);

/// Parameters of the whole model: matrices, biases, norms, embeddings and head; tied embeddings
/// count once, and padding of the vocabulary does not count.
[[nodiscard]] Elements parameter_count(const ModelSpec& model);

/// Whether parameter_count agrees with the published count to the digits that were published.
/// True without a published count.
[[nodiscard]] bool agrees_with_published(const ModelSpec& model);

}  // namespace trireme::config
