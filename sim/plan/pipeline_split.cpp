#include "sim/plan/pipeline_split.h"

#include <algorithm>
#include <limits>

#include "sim/units/units.h"

namespace trireme::plan {

namespace {

/// EQ layer-flops-per-token: c = 2 (h d (2 a + 2 g) + k h f) + 4 u S a d
///   h  hidden                                                    [1]
///   a  query heads                                               [1]
///   g  key/value heads                                           [1]
///   d  head dimension                                            [1]
///   f  MLP width                                                 [1]
///   k  matrices of the MLP: 3 of SwiGLU, 2 of GELU               [1]
///   S  tokens of a sequence                                      [tokens]
///   u  part of the scores that are computed: 1/2 when causal     [1]
///   c  operations of one layer forward, per token                [1]
/// Source: derived: two operations for each weight and token, four for each score and channel
/// Valid:  norms and biases left out
/// Tests:  tests/unit/plan/pipeline_split_test.cpp
double layer_flops_per_token(const ModelShape& model, std::int64_t sequence, bool causal) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double attention =
      real(model.hidden * model.head_dim) * real(2 * model.heads + 2 * model.kv_heads);
  const double matrices = model.mlp_kind == config::MlpKind::swiglu ? 3 : 2;
  const double mlp = matrices * real(model.hidden) * real(model.mlp_width);
  const double scores = (causal ? 2.0 : 4.0) * real(sequence) * real(model.heads * model.head_dim);
  return 2 * (attention + mlp) + scores;
}

}  // namespace

std::vector<std::int64_t> split_by_count(std::int64_t layers, std::int64_t parts) {
  std::vector<std::int64_t> split;
  for (std::int64_t part = 0; part < parts; ++part) {
    split.push_back(layers / parts + (part < layers % parts ? 1 : 0));
  }
  return split;
}

std::vector<std::int64_t> split_by_cost(const ModelShape& model,
                                        std::int64_t sequence,
                                        bool causal,
                                        std::int64_t parts) {
  if (parts == 1 || model.layers < parts) {
    return split_by_count(model.layers, parts);
  }
  const double layer = layer_flops_per_token(model, sequence, causal);
  const double head = 2 * static_cast<double>(model.hidden) * static_cast<double>(model.vocabulary);
  std::int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t last = 1; last <= model.layers - (parts - 1); ++last) {
    const std::int64_t most = ceil_div(model.layers - last, parts - 1);
    const double cost =
        std::max(static_cast<double>(most) * layer, static_cast<double>(last) * layer + head);
    if (cost <= least) {
      least = cost;
      best = last;
    }
  }
  std::vector<std::int64_t> split = split_by_count(model.layers - best, parts - 1);
  split.push_back(best);
  return split;
}

/// EQ pipeline-cumulated-cost: s > (i + 1) / p (L (4 a d h + 3 h f) + h V)
///   s  cost of the blocks up to and with the one that part i ends with  [1]
///   i  the part, from 0                                                 [1]
///   p  parts                                                            [1]
///   L  layers                                                           [1]
///   a  query heads                                                      [1]
///   d  head dimension                                                   [1]
///   h  hidden                                                           [1]
///   f  MLP width                                                        [1]
///   V  vocabulary: the head's block is the last that costs something    [1]
/// Source: nanotron, src/nanotron/models/base.py, build_model, and models/llama.py,
///   get_block_compute_costs. The cast of the logits and the loss are blocks without a cost behind
///   the head, and go to the parts behind its own, one each, where there are any.
/// Valid:  as there, whatever the MLP and the number of key/value heads are
/// Tests:  tests/unit/plan/pipeline_split_test.cpp
CumulatedSplit split_by_cumulated_cost(const ModelShape& model, std::int64_t parts) {
  constexpr std::int64_t kBlocksBehindHead = 2;
  const std::int64_t layer =
      4 * model.heads * model.head_dim * model.hidden + 3 * model.hidden * model.mlp_width;
  const std::int64_t head = model.vocabulary * model.hidden;
  const double all = static_cast<double>(model.layers * layer + head);
  CumulatedSplit split;
  split.layers.resize(static_cast<std::size_t>(parts));
  std::int64_t part = 0;
  std::int64_t sum = 0;
  const auto passes = [&] {
    const double share = static_cast<double>(part + 1) / static_cast<double>(parts);
    return static_cast<double>(sum) > all * share;
  };
  for (std::int64_t i = 0; i < model.layers; ++i) {
    ++split.layers[static_cast<std::size_t>(part)];
    sum += layer;
    part += passes() ? 1 : 0;
  }
  sum += head;
  split.working = part + 1;
  split.started = std::min(parts, split.working + kBlocksBehindHead);
  return split;
}

}  // namespace trireme::plan
