#include "sim/plan/legality.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "sim/config/words.h"
#include "sim/plan/attention_context.h"

namespace trireme::plan {

using config::Framework;

namespace {

std::string unless_divides(std::string_view what, std::int64_t value, std::int64_t divisor) {
  return value % divisor == 0
             ? std::string()
             : fmt::format("{} ({}) is not a multiple of {}", what, value, divisor);
}

RuleAnswer broken(std::string why) {
  return {std::move(why), {}, {}};
}

/// S % divisor = 0, or that as a condition when S is not decided.
RuleAnswer sequence_multiple(const Degrees& degrees, std::int64_t divisor) {
  if (!degrees.sequence) {
    return divisor == 1 ? RuleAnswer{} : RuleAnswer{{}, fmt::format("S % {} = 0", divisor), {}};
  }
  return broken(unless_divides("the sequence", *degrees.sequence, divisor));
}

RuleAnswer query_heads_divide(const Degrees& degrees) {
  return broken(unless_divides("the number of query heads", degrees.query_heads, degrees.degree));
}

/// The first a % P ranks hold one head more.
RuleAnswer uneven_query_heads(const Degrees& degrees) {
  const std::int64_t more = degrees.query_heads % degrees.degree;
  if (more == 0 || degrees.query_heads < degrees.degree) {
    return query_heads_divide(degrees);
  }
  const std::int64_t fewer = degrees.query_heads / degrees.degree;
  return {
      {},
      {},
      fmt::format(
          "uneven heads: {} on {} ranks, {} on {}", fewer + 1, more, fewer, degrees.degree - more)};
}

RuleAnswer kv_heads_divide(const Degrees& degrees) {
  return broken(unless_divides("the number of key/value heads", degrees.kv_heads, degrees.degree));
}

RuleAnswer kv_heads_divide_or_repeat(const Degrees& degrees) {
  if (degrees.repeats_all_heads) {
    RuleAnswer answer;
    answer.kv_repeat = degrees.query_heads / degrees.kv_heads;
    return answer;
  }
  if (degrees.degree % degrees.kv_heads != 0) {
    return kv_heads_divide(degrees);
  }
  RuleAnswer answer;
  answer.kv_repeat = degrees.degree / degrees.kv_heads;
  return answer;
}

RuleAnswer uneven_kv_heads(const Degrees& degrees) {
  return degrees.kv_heads == degrees.query_heads ? RuleAnswer{} : kv_heads_divide(degrees);
}

RuleAnswer sequence_divides(const Degrees& degrees) {
  return sequence_multiple(degrees, degrees.degree);
}

RuleAnswer halves(const Degrees& degrees) {
  return degrees.degree == 1 ? RuleAnswer{} : sequence_multiple(degrees, 2 * degrees.degree);
}

RuleAnswer halves_of_tensor_ranks(const Degrees& degrees) {
  return sequence_multiple(degrees,
                           (degrees.degree == 1 ? 1 : 2 * degrees.degree) * degrees.tensor);
}

/// Heads of one tensor-parallel rank. Key/value heads are never fewer than one: with t > g several
/// ranks compute with one head.
std::int64_t local_heads(std::int64_t heads, const Degrees& degrees) {
  return std::max<std::int64_t>(heads / degrees.tensor, 1);
}

RuleAnswer local_heads_divide(std::string_view what, std::int64_t heads, const Degrees& degrees) {
  const std::int64_t local = local_heads(heads, degrees);
  if (local % degrees.degree == 0) {
    return {};
  }
  return broken(
      degrees.tensor == 1
          ? unless_divides(fmt::format("the number of {} heads", what), heads, degrees.degree)
          : fmt::format(
                "the {} heads of a tensor-parallel rank ({} of {}) are not a multiple of {}",
                what,
                local,
                heads,
                degrees.degree));
}

RuleAnswer local_query_heads_divide(const Degrees& degrees) {
  return local_heads_divide("query", degrees.query_heads, degrees);
}

RuleAnswer local_kv_heads_divide(const Degrees& degrees) {
  return local_heads_divide("key/value", degrees.kv_heads, degrees);
}

/// The exchange runs over the inner of two levels, the ring over the outer; a level of one is one
/// of the other stacks.
RuleAnswer two_levels(const Degrees& degrees) {
  if (degrees.degree == 1) {
    return {};
  }
  const std::int64_t query_heads = local_heads(degrees.query_heads, degrees);
  const std::int64_t kv_heads = local_heads(degrees.kv_heads, degrees);
  std::vector<std::string> sizes;
  bool composite = false;
  for (std::int64_t inner = 2; inner < degrees.degree; ++inner) {
    if (degrees.degree % inner == 0) {
      composite = true;
      if (query_heads % inner == 0 && kv_heads % inner == 0) {
        sizes.push_back(fmt::format("{} x {}", inner, degrees.degree / inner));
      }
    }
  }
  if (!composite) {
    return broken(fmt::format("{} is not a product of two sizes above 1", degrees.degree));
  }
  if (sizes.empty()) {
    return broken(
        fmt::format("no size of the exchange that divides {} divides {} query and {} key/value "
                    "heads of a rank",
                    degrees.degree,
                    query_heads,
                    kv_heads));
  }
  return {{}, {}, fmt::format("hierarchical sizes {}", fmt::join(sizes, ", "))};
}

RuleAnswer tensor_query_heads_divide(const Degrees& degrees) {
  return broken(unless_divides("the number of query heads", degrees.query_heads, degrees.tensor));
}

RuleAnswer tensor_kv_heads_divide(const Degrees& degrees) {
  if (degrees.kv_heads % degrees.tensor == 0) {
    return {};
  }
  if (degrees.tensor % degrees.kv_heads != 0) {
    return broken(
        unless_divides("the number of key/value heads", degrees.kv_heads, degrees.tensor));
  }
  return {{},
          {},
          fmt::format("QKV gathered: {} key/value heads over {} tensor-parallel ranks",
                      degrees.kv_heads,
                      degrees.tensor)};
}

RuleAnswer tensor_mlp_width_divides(const Degrees& degrees) {
  return broken(unless_divides("the MLP width", degrees.mlp_width, degrees.tensor));
}

/// Megatron pads the vocabulary to equal parts of whole blocks of 128 rows.
/// Source: megatron-lm, megatron/training/arguments.py, --make-vocab-size-divisible-by
RuleAnswer tensor_vocabulary_padded(const Degrees& degrees) {
  constexpr std::int64_t kRowsOfABlock = 128;
  const std::int64_t multiple = kRowsOfABlock * degrees.tensor;
  const std::int64_t rest = degrees.vocabulary % multiple;
  if (rest == 0) {
    return {};
  }
  return {{},
          {},
          fmt::format("vocabulary padded from {} to {} rows",
                      degrees.vocabulary,
                      degrees.vocabulary - rest + multiple)};
}

/// What is left of the sequence after the context-parallel split; that it divides is another rule's
/// matter.
RuleAnswer tensor_sequence_divides(const Degrees& degrees) {
  if (!degrees.tensor_shards_sequence || degrees.tensor == 1) {
    return {};
  }
  if (!degrees.sequence || degrees.degree == 1) {
    return sequence_multiple(degrees, degrees.degree * degrees.tensor);
  }
  return *degrees.sequence % degrees.degree == 0
             ? broken(unless_divides("the sequence of a context-parallel rank",
                                     *degrees.sequence / degrees.degree,
                                     degrees.tensor))
             : RuleAnswer{};
}

// One row per rule.

constexpr LegalityRule kGpus{"degrees-multiply", "GPUs % (P t) = 0", "megatron-lm", gpus_divide};
constexpr LegalityRule kQueryHeads{"ulysses-query-heads",
                                   "Ulysses never splits a head: a % P = 0",
                                   "jacobs2023-ulysses",
                                   query_heads_divide};
constexpr LegalityRule kUnevenQueryHeads{"ulysses-uneven-heads",
                                         "a % P = 0, or a > P and some ranks hold a head more",
                                         "deepspeed",
                                         uneven_query_heads};
constexpr LegalityRule kKvHeads{"ulysses-kv-heads",
                                "key/value heads divide, or are repeated before the exchange: "
                                "g % P = 0 or P % g = 0",
                                "deepspeed",
                                kv_heads_divide_or_repeat};
constexpr LegalityRule kWholeKvHeads{
    "ulysses-whole-kv-heads",
    "key/value heads are not repeated (a release that repeats them allows "
    "more): g % P = 0",
    "prime-rl",
    kv_heads_divide};
constexpr LegalityRule kUnevenKvHeads{"ulysses-uneven-kv-heads",
                                      "uneven exchanges take one number of heads for queries, keys "
                                      "and values: g = a, or g % P = 0",
                                      "deepspeed",
                                      uneven_kv_heads};
constexpr LegalityRule kSequence{
    "sequence-divides", "sequence shards are equal: S % P = 0", "deepspeed", sequence_divides};
constexpr LegalityRule kHalves{"context-parallel-halves",
                               "context parallelism balances causal halves: S % (2 cp) = 0",
                               "megatron-lm",
                               halves};
constexpr LegalityRule kTensorHalves{"context-parallel-tensor-halves",
                                     "each half is split over tensor-parallel ranks: "
                                     "S % (2 cp t) = 0",
                                     "torchtitan",
                                     halves_of_tensor_ranks};
constexpr LegalityRule kContextQueryHeads{"context-query-heads",
                                          "the exchange splits a rank's query heads: "
                                          "(a / t) % cp = 0",
                                          "transformer-engine",
                                          local_query_heads_divide};
constexpr LegalityRule kContextKvHeads{"context-kv-heads",
                                       "and its key/value heads: (g / t) % cp = 0",
                                       "transformer-engine",
                                       local_kv_heads_divide};
constexpr LegalityRule kTwoLevels{
    "context-two-levels",
    "hierarchical sizes multiply to cp, and the first splits a rank's "
    "heads",
    "megatron-lm",
    two_levels};
constexpr LegalityRule kTensorQueryHeads{"tensor-query-heads",
                                         "tensor parallelism splits heads: a % t = 0",
                                         "megatron-lm",
                                         tensor_query_heads_divide};
constexpr LegalityRule kTensorKvHeads{
    "tensor-kv-heads", "g % t = 0 or t % g = 0", "megatron-lm", tensor_kv_heads_divide};
constexpr LegalityRule kTensorMlpWidth{"tensor-mlp-width",
                                       "tensor parallelism splits the MLP: f % t = 0",
                                       "megatron-lm",
                                       tensor_mlp_width_divides};
constexpr LegalityRule kTensorVocabulary{"tensor-vocabulary",
                                         "V is padded to a multiple of 128 t",
                                         "megatron-lm",
                                         tensor_vocabulary_padded};
constexpr LegalityRule kTensorSequence{"tensor-sequence",
                                       "with Megatron's sequence parallelism (S / cp) % t = 0",
                                       "megatron-lm",
                                       tensor_sequence_divides};

constexpr std::array kRules = {&kGpus,
                               &kQueryHeads,
                               &kUnevenQueryHeads,
                               &kKvHeads,
                               &kWholeKvHeads,
                               &kUnevenKvHeads,
                               &kSequence,
                               &kHalves,
                               &kTensorHalves,
                               &kContextQueryHeads,
                               &kContextKvHeads,
                               &kTwoLevels,
                               &kTensorQueryHeads,
                               &kTensorKvHeads,
                               &kTensorMlpWidth,
                               &kTensorVocabulary,
                               &kTensorSequence};

// One row per stack: cost-model, legality differs by framework.

constexpr std::array kRepeatingUlysses = {&kGpus, &kQueryHeads, &kKvHeads, &kSequence};
constexpr std::array kUnevenUlysses = {&kGpus, &kUnevenQueryHeads, &kUnevenKvHeads, &kSequence};
constexpr std::array kWholeUlysses = {&kGpus, &kQueryHeads, &kWholeKvHeads, &kSequence};
constexpr std::array kMegatronTensor = {&kGpus,
                                        &kTensorQueryHeads,
                                        &kTensorKvHeads,
                                        &kTensorMlpWidth,
                                        &kTensorVocabulary,
                                        &kTensorSequence};
constexpr std::array kMegatronExchange = {&kGpus,
                                          &kTensorQueryHeads,
                                          &kTensorKvHeads,
                                          &kTensorMlpWidth,
                                          &kContextQueryHeads,
                                          &kContextKvHeads,
                                          &kHalves,
                                          &kTensorSequence};
constexpr std::array kMegatronRing = {
    &kGpus, &kTensorQueryHeads, &kTensorKvHeads, &kTensorMlpWidth, &kHalves, &kTensorSequence};
constexpr std::array kMegatronTwoLevels = {&kGpus,
                                           &kTensorQueryHeads,
                                           &kTensorKvHeads,
                                           &kTensorMlpWidth,
                                           &kTwoLevels,
                                           &kHalves,
                                           &kTensorSequence};
constexpr std::array kPytorchContext = {&kGpus, &kTensorHalves};

constexpr std::array kStacks = {
    LegalityStack{"deepspeed",
                  "DeepSpeed ALST (Hugging Face)",
                  SplitKind::ulysses,
                  false,
                  true,
                  kRepeatingUlysses},
    LegalityStack{"deepspeed_legacy",
                  "DeepSpeed legacy DistributedAttention",
                  SplitKind::ulysses,
                  false,
                  true,
                  kUnevenUlysses},
    LegalityStack{"megatron a2a",
                  "Megatron / TransformerEngine a2a",
                  SplitKind::context_parallel,
                  true,
                  true,
                  kMegatronExchange},
    LegalityStack{"megatron p2p, all_gather",
                  "Megatron / TransformerEngine p2p, all_gather",
                  SplitKind::context_parallel,
                  true,
                  false,
                  kMegatronRing},
    LegalityStack{"megatron a2a+p2p",
                  "Megatron / TransformerEngine a2a+p2p",
                  SplitKind::context_parallel,
                  true,
                  false,
                  kMegatronTwoLevels},
    LegalityStack{"megatron tensor_parallel",
                  "Megatron tensor parallel",
                  SplitKind::tensor_parallel,
                  true,
                  true,
                  kMegatronTensor},
    LegalityStack{"pytorch, torchtitan",
                  "PyTorch / torchtitan context parallel",
                  SplitKind::context_parallel,
                  true,
                  false,
                  kPytorchContext},
    LegalityStack{"verl", "verl Ulysses", SplitKind::ulysses, false, true, kRepeatingUlysses},
    LegalityStack{"prime_rl", "prime-rl", SplitKind::ulysses, false, true, kWholeUlysses},
};

/// The rules of an exchange of heads under a framework. One that has none of its own is given those
/// of the closed forms: whole heads, key/value heads repeated where they are too few.
std::span<const LegalityRule* const> exchange_rules(Framework framework) {
  switch (framework) {
    case Framework::deepspeed_legacy:
      return kUnevenUlysses;
    case Framework::megatron:
      return kMegatronExchange;
    case Framework::prime_rl:
      return kWholeUlysses;
    default:
      return kRepeatingUlysses;
  }
}

bool exchanges_heads(const Plan& plan) {
  return plan.ulysses_degree() > 1;
}

/// Ranks beside the tensor-parallel ones that split a sequence: Megatron's context parallelism.
std::int64_t context_degree(const Plan& plan) {
  return plan.ulysses_degree() * plan.ring_degree;
}

bool splits_attention(const Plan& plan) {
  return plan.attention == AttentionLowering::megatron && plan.group_degree > 1;
}

bool splits_features(const Plan& plan) {
  return plan.mlp == MlpLowering::megatron && plan.group_degree > 1;
}

Degrees degrees_of(const Plan& plan) {
  Degrees degrees;
  degrees.query_heads = plan.model.heads;
  degrees.kv_heads = plan.model.kv_heads;
  degrees.mlp_width = plan.model.dense_layers() > 0 ? plan.model.mlp_width : 0;
  degrees.vocabulary = plan.model.vocabulary;
  degrees.tensor_shards_sequence = plan.sequence_sharded;
  degrees.sequence = plan.sequence;
  degrees.repeats_all_heads = plan.kv_repeat == config::KvRepeat::all_heads;
  return degrees;
}

void refuse_broken(const LegalityRule& rule, const Degrees& degrees, Feasibility& feasibility) {
  std::string message = rule.check(degrees).broken;
  if (!message.empty()) {
    feasibility.refusals.push_back({std::string(rule.name), std::move(message)});
  }
}

/// Heads are exchanged inside a ring and beside tensor parallelism by Megatron alone, whatever
/// the framework: only its rules say how.
void check_exchange(const Plan& plan, Feasibility& feasibility) {
  Degrees degrees = degrees_of(plan);
  degrees.degree = plan.ulysses_degree();
  if (splits_attention(plan)) {
    degrees.tensor = plan.group_degree;
    refuse_broken(kContextQueryHeads, degrees, feasibility);
    refuse_broken(kContextKvHeads, degrees, feasibility);
    return;
  }
  for (const LegalityRule* const rule : exchange_rules(plan.framework)) {
    refuse_broken(*rule, degrees, feasibility);
  }
}

/// Equal parts for all ranks that hold parts of the sequence, and what the order asks of them.
void check_context(const Plan& plan, Feasibility& feasibility) {
  using config::RingImplementation;
  using config::RingOrder;
  const std::int64_t context = context_degree(plan);
  Degrees degrees = degrees_of(plan);
  degrees.degree = context;
  const bool pytorch =
      plan.framework == Framework::pytorch || plan.framework == Framework::torchtitan;
  if (plan.framework == Framework::megatron) {
    refuse_broken(kHalves, degrees, feasibility);
  } else if (pytorch && plan.ring_degree > 1) {
    degrees.tensor = splits_attention(plan) ? plan.group_degree : 1;
    refuse_broken(kTensorHalves, degrees, feasibility);
  } else {
    refuse_broken(kSequence, degrees, feasibility);
    degrees.degree = plan.ring_degree;
    if (plan.ring_degree > 1 && plan.order == RingOrder::zigzag) {
      refuse_broken(kHalves, degrees, feasibility);
    }
  }
  if (plan.ring_degree > 1 && plan.causal) {
    const bool zigzag_only = plan.ring == RingImplementation::transformer_engine;
    const bool any = plan.ring == RingImplementation::ring_flash_attention;
    if ((zigzag_only && plan.order != RingOrder::zigzag) ||
        (!any && plan.order == RingOrder::striped)) {
      feasibility.refusals.push_back(
          {"ring-order",
           fmt::format("{} does not hold causal tokens in {} order",
                       context_lowering(plan.ring).name,
                       config::word_for(config::kRingOrderWords, plan.order))});
    }
  }
}

void check_tensor_parallel(const Plan& plan, Feasibility& feasibility) {
  Degrees degrees = degrees_of(plan);
  degrees.tensor = plan.group_degree;
  degrees.degree = splits_attention(plan) ? context_degree(plan) : 1;
  if (!splits_attention(plan)) {  // the hybrid's MLP alone
    refuse_broken(kTensorMlpWidth, degrees, feasibility);
    return;
  }
  for (const LegalityRule* const rule : kMegatronTensor) {
    refuse_broken(*rule, degrees, feasibility);
  }
}

void not_modelled(Feasibility& feasibility, std::string_view what) {
  feasibility.refusals.push_back({"not-modelled", fmt::format("{} is not modelled yet", what)});
}

/// What the rules allow and no lowering does yet.
void check_heads_modelled(const Plan& plan, Feasibility& feasibility) {
  const std::int64_t degree = splits_attention(plan) ? plan.group_degree : plan.ulysses_degree();
  const std::int64_t groups = plan.model.kv_heads;
  if (exchanges_heads(plan) && !splits_attention(plan)) {
    if (plan.framework == Framework::deepspeed_legacy && plan.model.heads > degree &&
        plan.model.heads % degree != 0) {
      feasibility.refusals.push_back(
          {"not-modelled",
           fmt::format("{} query heads over {} ranks are uneven, which is not modelled yet",
                       plan.model.heads,
                       degree)});
    }
  }
  const std::int64_t rows = (plan.model.heads + 2 * groups) * plan.model.head_dim;
  if (splits_attention(plan) && degree % groups == 0 && rows % degree != 0) {
    feasibility.refusals.push_back(
        {"tensor-qkv-rows",
         fmt::format("{} rows of queries, keys and values are not a multiple of {} tensor-parallel "
                     "ranks",
                     rows,
                     degree)});
  }
}

/// What a model may have beyond a plain transformer.
struct ModelFeature {
  std::string_view name;
  bool (*has)(const config::ModelSpec& model, std::int64_t sequence);
};

constexpr std::array kFeaturesNotModelled = {
    ModelFeature{"a sliding window shorter than the sequence",
                 [](const config::ModelSpec& model, std::int64_t sequence) {
                   return model.sliding_window && model.sliding_window->tokens < sequence;
                 }},
    ModelFeature{"normalisation of queries and keys",
                 [](const config::ModelSpec& model, std::int64_t) { return model.qk_norm; }},
    ModelFeature{"attention with learned sinks",
                 [](const config::ModelSpec& model, std::int64_t) { return model.sinks; }},
    ModelFeature{"attention with softcapped scores",
                 [](const config::ModelSpec& model, std::int64_t) { return model.score_softcap; }},
    ModelFeature{"attention with ALiBi",
                 [](const config::ModelSpec& model, std::int64_t) { return model.alibi; }},
    ModelFeature{"a softcap of the logits",
                 [](const config::ModelSpec& model, std::int64_t) { return model.logit_softcap; }},
    ModelFeature{"a norm behind the embedding",
                 [](const config::ModelSpec& model, std::int64_t) { return model.embedding_norm; }},
    ModelFeature{
        "a layer with other than two norms",
        [](const config::ModelSpec& model, std::int64_t) { return model.norms_per_layer != 2; }},
    ModelFeature{
        "a layer whose attention and MLP run on one input",
        [](const config::ModelSpec& model, std::int64_t) { return model.parallel_blocks; }},
    ModelFeature{"an MLP with ReLU",
                 [](const config::ModelSpec& model, std::int64_t) {
                   return model.mlp_kind == config::MlpKind::relu;
                 }},
    ModelFeature{"an MLP with GEGLU",
                 [](const config::ModelSpec& model, std::int64_t) {
                   return model.mlp_kind == config::MlpKind::geglu;
                 }},
};

}  // namespace

RuleAnswer gpus_divide(const Degrees& degrees) {
  const std::int64_t ranks = degrees.degree * degrees.tensor;
  if (!degrees.gpus || *degrees.gpus % ranks == 0) {
    return {};
  }
  return broken(
      degrees.degree == 1 || degrees.tensor == 1
          ? fmt::format("{} GPUs are not a multiple of the degree {}", *degrees.gpus, ranks)
          : fmt::format("{} GPUs are not a multiple of {} x {} tensor-parallel",
                        *degrees.gpus,
                        degrees.degree,
                        degrees.tensor));
}

std::span<const LegalityStack> legality_stacks() {
  return kStacks;
}

std::span<const LegalityRule* const> legality_rules() {
  return kRules;
}

namespace {

/// Source: nanotron, src/nanotron/parallel/pipeline_parallel/engine.py,
/// OneForwardOneBackwardPipelineEngine: micro batches for all stages but one; megatron-lm,
/// megatron/training/arguments.py: without overlapped messages the interleaved schedule needs more
/// than two stages; megatron/core/pipeline_parallel/schedules.py: micro batches are a multiple of
/// the stages
void check_pipeline(const Plan& plan, Feasibility& feasibility) {
  if (plan.pipeline_degree == 1) {
    return;
  }
  const auto refuse = [&](std::string_view rule, std::string why) {
    feasibility.refusals.push_back({std::string(rule), std::move(why)});
  };
  std::int64_t layers = 0;
  for (std::int64_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    layers += plan.layers_of_chunk(chunk);
  }
  if (plan.framework == config::Framework::nanotron &&
      plan.micro_batches < plan.pipeline_degree - 1) {
    refuse("nanotron-pipeline",
           fmt::format("nanotron's schedule takes a micro batch for each stage but one, {}, and "
                       "there are {}",
                       plan.pipeline_degree - 1,
                       plan.micro_batches));
  }
  if (plan.model.layers < plan.chunks() && plan.working_stages == 0) {
    refuse("pipeline-layers",
           fmt::format("{} layers are fewer than the {} parts of the pipeline",
                       plan.model.layers,
                       plan.chunks()));
  } else if (layers != plan.model.layers) {
    refuse(
        "pipeline-layers",
        fmt::format("pipeline.split has {} layers, the model has {}", layers, plan.model.layers));
  }
  if (plan.schedule != PipelineSchedule::interleaved) {
    return;
  }
  if (plan.pipeline_degree <= 2) {
    refuse("interleaved-stages",
           fmt::format("the interleaved schedule takes more than 2 stages, the plan has {}",
                       plan.pipeline_degree));
  }
  if (plan.micro_batches % plan.pipeline_degree != 0) {
    refuse("interleaved-micro-batches",
           fmt::format("the interleaved schedule takes micro batches in groups of {}, one for each "
                       "stage, and there are {}",
                       plan.pipeline_degree,
                       plan.micro_batches));
  }
}

}  // namespace

void check_rules(const Plan& plan, Feasibility& feasibility) {
  if (exchanges_heads(plan)) {
    check_exchange(plan, feasibility);
  }
  if (plan.ring_degree > 1 || (exchanges_heads(plan) && splits_attention(plan))) {
    check_context(plan, feasibility);
  }
  if (splits_features(plan) || splits_attention(plan)) {
    check_tensor_parallel(plan, feasibility);
  }
  if (plan.attention == AttentionLowering::sequence_gather && plan.group_degree > 1) {
    Degrees degrees = degrees_of(plan);
    degrees.degree = plan.group_degree;
    refuse_broken(kSequence, degrees, feasibility);
  }
  check_heads_modelled(plan, feasibility);
  check_pipeline(plan, feasibility);
  check_latent(plan, feasibility);
  check_experts(plan, feasibility);
  if (plan.loss == config::LossKind::vocabulary_parallel && plan.model.vocabulary > 0 &&
      !plan.vocabulary_parallel()) {
    feasibility.refusals.push_back(
        {"vocabulary-parallel-loss", "the plan splits no MLP, so its head is whole"});
  }
  if (plan.loss == config::LossKind::chunked && plan.model.vocabulary > 0 &&
      plan.vocabulary_parallel()) {
    not_modelled(feasibility, "the chunked loss of a split vocabulary");
  }
}

namespace {

void check_offload(const config::PlanSpec& spec, Feasibility& feasibility) {
  const auto refuse = [&](std::string_view rule, std::string why) {
    feasibility.refusals.push_back({std::string(rule), std::move(why)});
  };
  // Source: megatron-lm, megatron/core/transformer/transformer_config.py, cpu_offloading
  if (spec.recompute.offload_to_host && spec.framework == Framework::megatron) {
    refuse("offload-recompute",
           "Megatron Core offloads activations of layers that do not run again, which is not "
           "modelled; of those that do it offloads nothing");
  }
  // Source: deepspeed, ops/adam/cpu_adam.py: main weights and moments of DeepSpeedCPUAdam
  if (spec.offload.optimizer && spec.optimizer.recipe != config::OptimizerRecipe::bf16_fp32_main) {
    not_modelled(feasibility, "an optimizer on the host by another recipe than bf16-fp32-main");
  }
  if (!spec.offload.parameters) {
    return;
  }
  // Source: deepspeed, runtime/zero/config.py, offload_param: "Valid only with stage 3"
  if (spec.zero.stage.value != 3) {
    refuse("offload-parameters",
           fmt::format("offload.parameters: shards of ZeRO-3 come from the host, and the stage "
                       "is {}",
                       spec.zero.stage.value));
  }
  if (!spec.offload.optimizer) {
    not_modelled(feasibility, "parameters on the host with an optimizer on the GPU");
  }
  if (spec.zero.hpz_partition_size) {
    not_modelled(feasibility, "hpz_partition_size with parameters on the host");
  }
}

}  // namespace

void check_modelled(const config::PlanSpec& spec, Feasibility& feasibility) {
  if (spec.tensor_parallel > 1 && spec.sequence_gather > 1) {
    not_modelled(feasibility, "tensor-parallel attention together with sequence_gather");
  }
  if (spec.recompute.modules.mlp_activation && spec.framework == Framework::megatron) {
    feasibility.refusals.push_back(
        {"recompute-activation",
         "Megatron Core recomputes the activation of experts alone (moe_act)"});
  }
  if (spec.recompute.granularity == config::Recompute::selective &&
      spec.framework == Framework::torchtitan) {
    not_modelled(feasibility, "torchtitan's recomputation by operation");
  }
  check_offload(spec, feasibility);
  if (spec.attention == config::AttentionKernel::unfused) {
    not_modelled(feasibility, "unfused attention");
  }
  if (spec.zero.reshard == config::Reshard::framework &&
      (spec.framework == Framework::deepspeed || spec.framework == Framework::deepspeed_legacy)) {
    not_modelled(feasibility, "DeepSpeed's re-gather rule by reuse distance");
  }
}

void check_modelled(const config::ModelSpec& model,
                    std::int64_t sequence,
                    Feasibility& feasibility) {
  for (const ModelFeature& feature : kFeaturesNotModelled) {
    if (feature.has(model, sequence)) {
      not_modelled(feasibility, feature.name);
    }
  }
}

}  // namespace trireme::plan
