#include "sim/study/small_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

#include "sim/core/counter_random.h"
#include "sim/plan/experts.h"
#include "sim/plan/legality.h"
#include "sim/plan/megatron_shared_heads.h"
#include "sim/study/routing.h"

namespace trireme::study {

using plan::AttentionLowering;
using plan::ModelShape;
using plan::Plan;

namespace {

/// Sizes of shrunk models. Those of `least` are odd where rules allow, and heads times head
/// dimension differ from the hidden dimension; those of `larger` are as odd but longer.
struct Sizes {
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t even_head_dim;  // rotary embedding rotates pairs
  std::int64_t odd_head_dim;
  std::int64_t mlp_per_rank;
  std::int64_t tokens_per_rank;
  std::int64_t micro_batch;
  std::int64_t micro_batches;
  std::int64_t vocabulary_remainder;
};

constexpr Sizes kLeast{.layers = 3,
                       .hidden = 13,
                       .even_head_dim = 2,
                       .odd_head_dim = 3,
                       .mlp_per_rank = 3,
                       .tokens_per_rank = 3,
                       .micro_batch = 2,
                       .micro_batches = 3,
                       .vocabulary_remainder = 37};
constexpr Sizes kLarger{.layers = 4,
                        .hidden = 99,
                        .even_head_dim = 8,
                        .odd_head_dim = 9,
                        .mlp_per_rank = 31,
                        .tokens_per_rank = 33,
                        .micro_batch = 2,
                        .micro_batches = 3,
                        .vocabulary_remainder = 101};

/// More ranks than these add nothing: data-parallel replicas are left out beyond them.
constexpr std::int64_t kMostRanks = 64;

/// Fewer with experts: what is exchanged grows with the square of the ranks.
constexpr std::int64_t kMostRanksOfExperts = 16;

std::int64_t most_ranks(const Plan& plan) {
  return plan.model.experts ? kMostRanksOfExperts : kMostRanks;
}

/// As many of the data-parallel ranks that experts are spread over as can be run.
std::int64_t shrunk_expert_data_degree(const Plan& plan) {
  std::int64_t degree = plan.model.experts ? plan.expert_data_degree() : 1;
  while (degree % 2 == 0 && degree * plan.group_degree > most_ranks(plan)) {
    degree /= 2;
  }
  return degree;
}

std::int64_t shrunk_data_degree(const Plan& plan, std::int64_t gpus_per_node) {
  const std::int64_t others = plan.ranks_of_replica() * plan.pipeline_degree;
  const std::int64_t most =
      std::max<std::int64_t>(shrunk_expert_data_degree(plan), most_ranks(plan) / others);
  std::int64_t degree = std::min(plan.data_degree, most);
  const auto fits = [&](std::int64_t data) {
    const std::int64_t ranks = others * data;
    return plan.data_degree % data == 0 && data % shrunk_expert_data_degree(plan) == 0 &&
           (ranks % gpus_per_node == 0 || gpus_per_node % ranks == 0);
  };
  while (degree > 1 && !fits(degree)) {
    --degree;
  }
  return degree;
}

/// As many parts as there may be with several ranks in each, where the plan has several.
std::int64_t shrunk_zero_parts(const Plan& plan, std::int64_t data_degree) {
  std::int64_t parts = std::gcd(plan.zero_parts, data_degree);
  while (parts == data_degree && parts % 2 == 0 && plan.zero_parts < plan.data_degree) {
    parts /= 2;
  }
  return parts;
}

ModelShape shrunk_model(const Plan& plan, const Sizes& sizes) {
  const bool splits_heads = plan.attention != AttentionLowering::sequence_gather;
  const std::int64_t groups = splits_heads ? plan.group_degree * plan.exchange_degree : 1;
  ModelShape model = plan.model;
  model.layers =
      std::max(std::min(model.layers, sizes.layers) / plan.chunks() * plan.chunks(), plan.chunks());
  model.hidden = sizes.hidden;
  const std::int64_t ratio = model.heads / model.kv_heads;
  model.head_dim = model.rotary ? sizes.even_head_dim : sizes.odd_head_dim;
  if (plan::shares_key_value_heads(plan)) {
    // As few heads as the ranks divide, of a dimension with which they divide the rows too.
    std::int64_t fewer = model.kv_heads;
    while (model.kv_heads % fewer != 0 || model.heads / fewer % plan.group_degree != 0) {
      --fewer;
    }
    model.kv_heads /= fewer;
    model.heads = ratio * model.kv_heads;
    const std::int64_t rows = (model.heads + 2 * model.kv_heads) * model.head_dim;
    model.head_dim *= plan.group_degree / std::gcd(rows, plan.group_degree);
  } else {
    const bool two_per_rank = groups <= 2 && model.kv_heads % (2 * groups) == 0;
    const bool repeated = plan.exchanged_kv_heads() != plan.model.kv_heads;
    if (!repeated) {  // else few already, and the number of copies is kept
      model.kv_heads = two_per_rank ? 2 * groups : groups;
    }
    model.heads = ratio * model.kv_heads;
  }
  model.mlp_width = sizes.mlp_per_rank * plan.group_degree;
  if (model.latent) {
    const bool narrow = model.latent->query_rank > 0;
    model.latent = config::LatentAttention{.query_rank = narrow ? sizes.hidden / 2 : 0,
                                           .kv_rank = sizes.hidden / 3,
                                           .nope_dim = sizes.odd_head_dim,
                                           .rope_dim = sizes.even_head_dim,
                                           .value_dim = sizes.odd_head_dim + 1};
    model.head_dim = model.latent->nope_dim + model.latent->rope_dim;
  }
  if (model.vocabulary > 0) {
    // Padded up to 128 times the degree where it is split: the last rank has both kinds of rows.
    constexpr std::int64_t kPadding = 128;
    const std::int64_t full_ranks = plan.vocabulary_parallel() ? plan.group_degree - 1 : 0;
    model.vocabulary = kPadding * full_ranks + sizes.vocabulary_remainder;
  }
  return model;
}

/// Uneven stages stay uneven, and micro batches fill the pipeline.
void shrink_pipeline(const Plan& plan, Plan& small) {
  if (plan.pipeline_degree == 1) {
    return;
  }
  if (!plan.chunk_layers.empty()) {
    std::int64_t fewest = plan.model.layers;
    for (const std::int64_t layers : plan.chunk_layers) {
      fewest = layers > 0 ? std::min(fewest, layers) : fewest;
    }
    small.model.layers = 0;
    for (std::int64_t& layers : small.chunk_layers) {
      layers = layers > fewest ? 2 : std::min<std::int64_t>(layers, 1);
      small.model.layers += layers;
    }
  }
  const std::int64_t filled = plan.schedule == plan::PipelineSchedule::interleaved
                                  ? 2 * plan.pipeline_degree
                                  : plan.pipeline_degree + 2;
  small.micro_batches = std::min(plan.micro_batches, filled);
}

/// Two experts on a rank, if there are as many; a dense layer first, if there is one.
void shrink_experts(const Plan& plan, const Sizes& sizes, Plan& small) {
  config::Experts& experts = *small.model.experts;
  const std::int64_t data = shrunk_expert_data_degree(plan);
  small.expert_degree = plan.expert_degree / plan.expert_data_degree() * data;
  const std::int64_t per_rank = plan.model.experts->count / plan.expert_degree;
  const std::int64_t on_a_rank = std::min<std::int64_t>(per_rank, plan.expert_degree == 1 ? 5 : 2);
  experts.count = small.expert_degree * on_a_rank;
  experts.per_token = std::min<std::int64_t>({experts.per_token, experts.count, 3});
  experts.width = sizes.mlp_per_rank * plan.group_degree;
  experts.shared = std::min<std::int64_t>(experts.shared, 2);
  experts.dense_layers = std::min({experts.dense_layers, std::int64_t{1}, small.model.layers - 1});
}

/// Parts of a pipeline whose layers are all dense stay so, and of one that has both kinds of layers
/// one is dense.
void shrink_dense_parts(const Plan& plan, Plan& small) {
  std::int64_t left = plan.model.experts->dense_layers;
  std::int64_t dense = 0;
  for (std::int64_t chunk = 0; chunk < plan.chunks() && left > 0; ++chunk) {
    const bool all = left >= plan.layers_of_chunk(chunk);
    if (!all && !small.chunk_layers.empty()) {
      std::int64_t& layers = small.chunk_layers[static_cast<std::size_t>(chunk)];
      small.model.layers += 2 - layers;
      layers = 2;
    }
    dense += all ? small.layers_of_chunk(chunk) : 1;
    left -= plan.layers_of_chunk(chunk);
  }
  small.model.experts->dense_layers = std::min(dense, small.model.layers - 1);
}

}  // namespace

Plan shrink(const Plan& plan, ModelSize size, std::int64_t gpus_per_node) {
  if (size == ModelSize::stated) {
    return plan;
  }
  const Sizes& sizes = size == ModelSize::least ? kLeast : kLarger;
  Plan small = plan;
  small.data_degree = shrunk_data_degree(plan, gpus_per_node);
  small.zero_parts = shrunk_zero_parts(plan, small.data_degree);
  small.model = shrunk_model(plan, sizes);
  // A unit of layers that run again, and a layer beyond it.
  small.recompute_number = std::min<std::int64_t>(plan.recompute_number, 2);
  // Of three tokens a chunk of two and one of one.
  small.loss_chunks = std::min<std::int64_t>(plan.loss_chunks, 2);
  small.mlp_tiles = std::min<std::int64_t>(plan.mlp_tiles, 2);
  if (small.model.experts) {
    shrink_experts(plan, sizes, small);
  }
  constexpr Bytes kWorkspace{64};
  small.library_workspaces = std::min(plan.library_workspaces, kWorkspace);
  constexpr std::int64_t kBucket = 100;
  small.reduce_bucket.elements = std::min(plan.reduce_bucket.elements, kBucket);
  small.micro_batch = std::min(plan.micro_batch, sizes.micro_batch);
  small.micro_batches = std::min(plan.micro_batches, sizes.micro_batches);
  shrink_pipeline(plan, small);
  if (plan.pipeline_degree > 1 && small.model.experts) {
    shrink_dense_parts(plan, small);
  }
  // Megatron wants two halves of every context-parallel rank, PyTorch of their tensor ranks too;
  // ranks of a group that does not shard tokens are counted as if it did.
  const std::int64_t context = plan.ranks_of_replica() / plan.group_degree;
  const bool halves = context > 1 || (plan.framework == config::Framework::megatron &&
                                      plan.attention == AttentionLowering::ulysses);
  const std::int64_t tokens = sizes.tokens_per_rank + (halves ? sizes.tokens_per_rank % 2 : 0);
  small.sequence = tokens * plan.ranks_of_replica();
  if (small.model.learned_positions > 0) {
    small.model.learned_positions = small.sequence + 2;  // rows that no token reads
  }
  Feasibility feasibility;
  plan::check_rules(small, feasibility);
  ensure(feasibility.legal(), "shrink: the small plan breaks a rule that the plan keeps");
  return small;
}

std::string in_words(const Plan& plan) {
  const ModelShape& model = plan.model;
  std::string text = fmt::format("{} layers, h {}, {} heads of {}, {} of keys and values, f {}",
                                 model.layers,
                                 model.hidden,
                                 model.heads,
                                 model.head_dim,
                                 model.kv_heads,
                                 model.mlp_width);
  if (model.vocabulary > 0) {
    text += fmt::format(", V {}", model.vocabulary);
  }
  if (plan.pipeline_degree > 1) {
    text += fmt::format(", {} stages", plan.pipeline_degree);
  }
  return text + fmt::format(", S {}, B {}, micro batches {}, ranks {}",
                            plan.sequence,
                            plan.micro_batch * plan.data_degree,
                            plan.micro_batches,
                            plan.ranks());
}

engine::DenseModel dense_model(const Plan& plan) {
  const ModelShape& model = plan.model;
  engine::DenseModel dense;
  dense.layers = model.layers;
  dense.hidden = model.hidden;
  dense.heads = model.heads;
  dense.kv_heads = model.kv_heads;
  dense.head_dim = model.head_dim;
  dense.mlp_width = model.mlp_width;
  dense.vocabulary = model.vocabulary;
  // A longer context needs a longer table, as sim/plan/embedding.cpp declares it.
  dense.position_rows =
      model.learned_positions > 0 ? std::max(model.learned_positions, plan.sequence) : 0;
  dense.swiglu = model.mlp_kind == config::MlpKind::swiglu;
  dense.rmsnorm = model.norm == config::NormKind::rmsnorm;
  dense.rotary = model.rotary;
  dense.qkv_bias = model.qkv_bias;
  dense.output_bias = model.output_bias;
  dense.mlp_bias = model.mlp_bias;
  dense.tied_embeddings = model.tied_embeddings;
  dense.causal = plan.causal;
  if (model.latent) {
    dense.latent = engine::DenseLatent{.query_rank = model.latent->query_rank,
                                       .kv_rank = model.latent->kv_rank,
                                       .nope_dim = model.latent->nope_dim,
                                       .rope_dim = model.latent->rope_dim,
                                       .value_dim = model.latent->value_dim};
  }
  if (model.experts) {
    dense.experts = engine::DenseExperts{.count = model.experts->count,
                                         .per_token = model.experts->per_token,
                                         .width = model.experts->width,
                                         .shared = model.experts->shared,
                                         .dense_layers = model.experts->dense_layers,
                                         .sigmoid = model.experts->score == RouterScore::sigmoid,
                                         .normalised = model.experts->normalised};
  }
  return dense;
}

SmallNumbers::SmallNumbers(const Plan& plan, std::uint64_t seed)
    : plan_(plan),
      model_(dense_model(plan)),
      sequences_(plan.micro_batches * plan.micro_batch * plan.data_degree),
      sequence_(plan.sequence),
      seed_(seed) {}

std::uint64_t SmallNumbers::bits(std::string_view name,
                                 std::int64_t instance,
                                 std::int64_t index) const {
  std::uint64_t state = mixed_bits(seed_);
  for (const char letter : name) {
    state = mixed_bits(state ^ static_cast<std::uint64_t>(static_cast<unsigned char>(letter)));
  }
  state = mixed_bits(state ^ static_cast<std::uint64_t>(instance));
  return mixed_bits(state ^ static_cast<std::uint64_t>(index));
}

double SmallNumbers::normal(std::string_view name,
                            std::int64_t instance,
                            std::int64_t index) const {
  return standard_normal(bits(name, instance, index));
}

engine::DenseValues SmallNumbers::initial_parameters() const {
  engine::DenseValues values = engine::dense_zeros(model_);
  for (const engine::DenseParameter& parameter : engine::dense_parameters(model_)) {
    const bool is_norm_weight = parameter.name.ends_with("norm weight");
    const bool is_weight = parameter.columns > 1;
    const double spread =
        is_weight ? 1.0 / std::sqrt(static_cast<double>(parameter.columns)) : 0.25;
    auto& instances = values.at(parameter.name);
    for (std::size_t instance = 0; instance < instances.size(); ++instance) {
      for (std::size_t i = 0; i < instances[instance].size(); ++i) {
        instances[instance][i] =
            (is_norm_weight ? 1.0 : 0.0) + spread * normal(parameter.name,
                                                           static_cast<std::int64_t>(instance),
                                                           static_cast<std::int64_t>(i));
      }
    }
  }
  return values;
}

engine::DenseBatch SmallNumbers::batch(std::int64_t step) const {
  engine::DenseBatch batch;
  batch.sequences = sequences_;
  batch.sequence = sequence_;
  const std::int64_t tokens = sequences_ * sequence_;
  Routing routing = route(plan_, seed_, step);
  batch.experts = std::move(routing.experts);
  batch.kept = std::move(routing.kept);
  if (model_.vocabulary == 0) {
    batch.input.resize(static_cast<std::size_t>(tokens * model_.hidden));
    for (std::size_t i = 0; i < batch.input.size(); ++i) {
      batch.input[i] = normal("input", step, static_cast<std::int64_t>(i));
    }
    return batch;
  }
  const auto word = [&](std::string_view name, std::int64_t token) {
    return static_cast<std::int64_t>(bits(name, step, token) %
                                     static_cast<std::uint64_t>(model_.vocabulary));
  };
  for (std::int64_t token = 0; token < tokens; ++token) {
    batch.ids.push_back(word("ids", token));
    batch.labels.push_back(word("labels", token));
  }
  return batch;
}

std::vector<double> program_values(const engine::DenseModel& model,
                                   const engine::DenseValues& values,
                                   const std::string& name,
                                   std::int64_t layer) {
  const auto whole = values.find(name);
  if (whole != values.end()) {
    return whole->second.at(static_cast<std::size_t>(layer));
  }
  const bool bias = name.ends_with("bias");
  const bool queries = name.starts_with("query ");
  ensure(queries || name.starts_with("key and value "),
         "verify: a parameter that the reference does not have");
  const std::vector<double>& packed =
      values.at(bias ? "qkv bias" : "qkv weight").at(static_cast<std::size_t>(layer));
  const std::int64_t group_rows = (model.queries_per_group() + 2) * model.head_dim;
  const std::int64_t query_rows = model.queries_per_group() * model.head_dim;
  const std::int64_t columns =
      static_cast<std::int64_t>(packed.size()) / (group_rows * model.kv_heads);
  std::vector<double> rows;
  for (std::int64_t group = 0; group < model.kv_heads; ++group) {
    const std::int64_t first = group * group_rows + (queries ? 0 : query_rows);
    const std::int64_t last = group * group_rows + (queries ? query_rows : group_rows);
    rows.insert(rows.end(), packed.begin() + first * columns, packed.begin() + last * columns);
  }
  return rows;
}

}  // namespace trireme::study
