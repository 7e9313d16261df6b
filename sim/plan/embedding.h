// The token embedding, and the learned position embedding of models that have one.
#pragma once

#include <optional>

#include "sim/plan/block.h"
#include "sim/plan/parameters.h"
#include "sim/plan/step.h"

namespace trireme::plan {

struct EmbeddingParameters {
  Unit unit;
  ParameterId table = 0;
  std::optional<ParameterId> positions;
};

struct EmbeddingTensors {
  Ref ids;
  Ref position_ids;  // with learned positions
};

/// Where the embedding table and the head weight are split: rows over the group, padded as Megatron
/// does, when the vocabulary is parallel; else whole on every rank.
[[nodiscard]] ParameterId declare_vocabulary_weight(Step& step,
                                                    Parameters& parameters,
                                                    std::string_view name,
                                                    Component component);

[[nodiscard]] EmbeddingParameters declare_embedding(Step& step, Parameters& parameters);

/// Loads the batch and writes x, the first residual stream. `next` is the work after it.
[[nodiscard]] EmbeddingTensors emit_embedding(Step& step,
                                              Parameters& parameters,
                                              const EmbeddingParameters& embedding,
                                              Ref x,
                                              const NextUse& next);

/// Gradients of the embeddings given that of x.
void emit_embedding_backward(Step& step,
                             Parameters& parameters,
                             const EmbeddingParameters& embedding,
                             const EmbeddingTensors& saved,
                             Ref dx);

}  // namespace trireme::plan
