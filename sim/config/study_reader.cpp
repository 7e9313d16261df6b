#include "sim/config/study_reader.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "sim/config/bounds.h"
#include "sim/config/cluster.h"
#include "sim/config/expert_parallel.h"
#include "sim/config/loss.h"
#include "sim/config/map_reader.h"
#include "sim/config/memory.h"
#include "sim/config/model.h"
#include "sim/config/pipeline_reader.h"
#include "sim/config/plan_presets.h"
#include "sim/config/recompute.h"
#include "sim/config/what_if.h"
#include "sim/config/words.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::config {
namespace {

using Defaults = std::vector<std::string>;

/// What `defaults` may set for every plan, and a plan for itself.
constexpr std::string_view kSharedOptions[] = {
    "optimizer", "recompute", "loss", "attention", "allocator", "offload", "overlap"};

constexpr Choice<std::string_view> kOptimizerWords[] = {{"adamw", "adamw"}};

std::vector<std::string> with_shared_options(std::initializer_list<std::string_view> keys) {
  std::vector<std::string> all(keys.begin(), keys.end());
  all.insert(all.end(), std::begin(kSharedOptions), std::end(kSharedOptions));
  return all;
}

// --- workload ---

WorkloadSpec read_workload(const MapReader& map) {
  WorkloadSpec workload;
  workload.sequence = map.required_located("sequence", parse_sequence);
  workload.micro_batch = map.optional_located("micro_batch", count_within("micro_batch"), "1");
  workload.global_batch = map.maybe_located("global_batch", count_within("global_batch"));
  if (!workload.global_batch) {
    map.echo_default("global_batch", "one micro batch on each data-parallel rank");
  }
  workload.causal = map.optional("causal", parse_bool, "true");
  return workload;
}

// --- options that plans share ---

OptimizerSpec read_optimizer(const MapReader& map) {
  OptimizerSpec optimizer;
  optimizer.name = map.optional("name", word_of(kOptimizerWords), "adamw");
  optimizer.recipe = map.optional("recipe", word_of(kOptimizerRecipeWords), "bf16-fp32-main");
  optimizer.clip_gradients = map.optional("clip_gradients", parse_bool, "true");
  return optimizer;
}

OverlapSpec read_overlap(const MapReader& map) {
  constexpr Choice<std::optional<bool>> kWords[] = {
      {"true", true}, {"false", false}, {"framework", std::nullopt}};
  OverlapSpec overlap;
  overlap.parameters = map.optional("parameters", word_of(kWords), "framework");
  overlap.gradients = map.optional("gradients", word_of(kWords), "framework");
  overlap.tensor_parallel =
      map.optional("tensor_parallel", word_of(kTensorParallelOverlapWords), "none");
  return overlap;
}

OffloadSpec read_offload(const Node& written, const std::string& path) {
  const MapReader map(written, path, {"optimizer", "parameters", "overlap"});
  OffloadSpec offload;
  offload.optimizer = map.maybe("optimizer", parse_bool).value_or(false);
  offload.parameters = map.maybe("parameters", parse_bool).value_or(false);
  offload.overlap = map.maybe("overlap", parse_bool).value_or(false);
  return offload;
}

/// `options` holds the keys of `defaults` with the plan's own laid over them.
void read_shared_options(const Node& options, Defaults* defaults, PlanSpec& plan) {
  const MapReader map(options, "defaults", with_shared_options({}), defaults);
  const Node nothing = make_map(options.position);
  const auto child = [&](std::string_view key, std::vector<std::string> keys) {
    const Node* const node = map.find(key);
    return MapReader(
        node == nullptr ? nothing : *node, map.path_of(key), std::move(keys), defaults);
  };
  plan.optimizer = read_optimizer(child("optimizer", {"name", "recipe", "clip_gradients"}));
  plan.recompute = read_recompute(map);
  read_loss(child("loss", {"implementation", "chunks", "logits"}), plan);
  plan.attention = map.optional("attention", word_of(kAttentionWords), "flash2");
  plan.allocator = map.optional("allocator", word_of(kAllocatorWords), "native");
  if (const Node* const offload = map.find("offload")) {
    plan.offload = read_offload(*offload, map.path_of("offload"));
  }
  plan.overlap = read_overlap(child("overlap", {"parameters", "gradients", "tensor_parallel"}));
}

// --- plans ---

Located<std::int64_t> degree_one(const MapReader& plan) {
  return {1, plan.where()};
}

/// `key: 8`, `key: {degree: 8, OPTION: ...}`, or 1 when the key is missing. `read_options` is
/// called with the map whenever the key is there.
template <class ReadOptions>
Located<std::int64_t> read_degree(const MapReader& plan,
                                  std::string_view key,
                                  std::initializer_list<std::string_view> options,
                                  const ReadOptions& read_options) {
  const Node* const written = plan.find(key);
  if (written == nullptr) {
    return degree_one(plan);
  }
  Node as_map = *written;
  if (written->is_text()) {
    as_map = make_map(written->position);
    as_map.set("degree", written->position, *written);
  }
  std::vector<std::string> keys{"degree"};
  keys.insert(keys.end(), options.begin(), options.end());
  const MapReader map(as_map, plan.path_of(key), std::move(keys), plan.defaults());
  read_options(map);
  return Located<std::int64_t>{parse_node(map.node("degree"), key, count_within("degree")),
                               map.node("degree").where()};
}

Located<std::int64_t> read_plain_degree(const MapReader& plan, std::string_view key) {
  const auto degree = plan.maybe_located(key, count_within("degree"));
  return degree ? *degree : degree_one(plan);
}

/// `context_parallel: 8`, or with how its ranks exchange keys and values.
void read_context_parallel(const MapReader& plan_map, PlanSpec& plan) {
  plan.context_exchange = degree_one(plan_map);
  plan.context_parallel = read_degree(
      plan_map,
      "context_parallel",
      {"communication", "exchange_degree"},
      [&](const MapReader& context) {
        plan.context_communication =
            context.optional("communication", word_of(kContextWords), "p2p");
        const bool two_levels = plan.context_communication == ContextCommunication::a2a_p2p;
        const Node* const inner = context.find("exchange_degree");
        if (two_levels) {
          plan.context_exchange =
              context.required_located("exchange_degree", count_within("degree"));
        } else if (inner != nullptr) {
          refuse(inner->where(),
                 "exchange_degree: has a meaning for 'communication: a2a+p2p' only",
                 "leave the key out, or state that communication");
        }
      });
}

ZeroSpec read_zero(const MapReader& plan) {
  const Node nothing = make_map(Position{});
  const Node* const written = plan.find("zero");
  const MapReader map(written == nullptr ? nothing : *written,
                      plan.path_of("zero"),
                      {"stage",
                       "reshard_after_forward",
                       "gradient_type",
                       "reduce",
                       "only",
                       "replicate",
                       "hpz_partition_size",
                       "reduce_bucket_size",
                       "param_persistence_threshold",
                       "sub_group_size"},
                      plan.defaults());
  ZeroSpec zero;
  zero.stage = map.optional_located("stage", count_within("stage"), "0");
  if (written == nullptr) {
    zero.stage.where = plan.where();
  }
  zero.gradient_type = map.optional("gradient_type", word_of(kGradientTypeWords), "fp32");
  zero.reduce = map.maybe("reduce", word_of(kReduceWords));
  zero.replicate = map.maybe_located("replicate", count_within("degree"));
  if (zero.replicate && zero.stage.value == 0) {
    refuse(zero.replicate->where,
           "replicate: has a meaning for stages 1 to 3 only",
           "set 'stage' or leave the key out");
  }
  zero.hpz_partition_size = map.maybe_located("hpz_partition_size", count_within("degree"));
  if (zero.replicate && zero.hpz_partition_size) {
    refuse(zero.hpz_partition_size->where,
           "hpz_partition_size: stands for one set of shards, replicate for several",
           "state one of them");
  }
  zero.reduce_bucket_size = map.maybe_located("reduce_bucket_size", count_within("elements"));
  zero.param_persistence_threshold =
      map.maybe_located("param_persistence_threshold", count_within("elements"));
  zero.sub_group_size = map.maybe_located("sub_group_size", count_within("elements"));
  if (zero.stage.value == 3) {
    zero.reshard = map.optional("reshard_after_forward", word_of(kReshardWords), "true");
    zero.only = map.optional("only", word_of(kZeroScopeWords), "all");
    return zero;
  }
  for (const char* const key : {"reshard_after_forward",
                                "only",
                                "hpz_partition_size",
                                "param_persistence_threshold",
                                "sub_group_size"}) {
    if (const Node* const node = map.find(key)) {
      throw Error(ErrorKind::input,
                  node->where(),
                  fmt::format("{}: has a meaning for stage 3 only", key),
                  "set 'stage: 3' or leave the key out",
                  {{zero.stage.where, fmt::format("the stage is {}", zero.stage.value)}});
    }
  }
  return zero;
}

/// Source: megatron-lm, megatron/training/arguments.py: --transformer-impl and its default
TransformerImpl read_transformer_impl(const MapReader& plan, Framework framework) {
  constexpr std::string_view kKey = "transformer_impl";
  if (framework == Framework::megatron) {
    return plan.optional(kKey, word_of(kTransformerImplWords), "transformer_engine");
  }
  if (const Node* const written = plan.find(kKey)) {
    refuse(written->where(),
           fmt::format("{}: an option of framework megatron", kKey),
           "write 'framework: megatron' or leave the key out");
  }
  return TransformerImpl::none;
}

/// Letters, digits and what reads well in a table; no '.', as `plans.NAME.key` names a plan's key.
std::string parse_plan_name(std::string_view text) {
  constexpr std::size_t kLongestName = 40;
  const auto accepted = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-+ ()").find(c) != std::string_view::npos;
  };
  const bool framed_by_spaces = !text.empty() && (text.front() == ' ' || text.back() == ' ');
  if (text.empty() || text.size() > kLongestName || framed_by_spaces ||
      !std::all_of(text.begin(), text.end(), accepted)) {
    throw BadText(fmt::format("{} cannot name a plan", in_quotes(text)),
                  "accepted: up to 40 letters, digits, spaces and _ - + ( )");
  }
  return std::string(text);
}

/// The plan's map with the keys of `use:` below its own, and without `use` and `degree`.
Node with_preset(const Node& written,
                 const MapReader& map,
                 std::int64_t gpus_per_node,
                 PlanSpec& plan) {
  const auto degree = map.maybe_located("degree", count_within("degree"));
  Node own = written;
  std::erase_if(own.entries, [](const Entry& e) { return e.key == "use" || e.key == "degree"; });
  if (map.find("use") == nullptr) {
    if (degree) {
      refuse(degree->where,
             "degree: has a meaning beside 'use' only",
             "give the degree to ulysses, tensor_parallel or another of the plan's keys");
    }
    return own;
  }
  plan.preset = map.required("use", parse_word);
  std::vector<std::string> names;
  for (const PlanPreset& preset : plan_presets()) {
    names.emplace_back(preset.name);
    if (preset.name != plan.preset) {
      continue;
    }
    if (degree && !preset.has_degree) {
      refuse(degree->where,
             fmt::format("degree: the plan preset '{}' has none", preset.name),
             "leave the key out");
    }
    if (!degree && preset.has_degree) {
      map.echo_default("degree", std::to_string(gpus_per_node));
    }
    return merged(plan_preset_keys(preset, degree ? degree->value : gpus_per_node), own);
  }
  refuse(map.node("use").where(),
         fmt::format("use: no plan preset is named {}", in_quotes(plan.preset)),
         hint_near(plan.preset, names));
}

void read_mlp(const MapReader& mlp, PlanSpec& plan) {
  if (const auto degree = mlp.maybe_located("tensor_parallel", count_within("degree"))) {
    plan.mlp_tensor_parallel = *degree;
  }
  plan.mlp_tiles = mlp.maybe_located("tiles", parse_chunks);
  if (mlp.find("tensor_parallel") == nullptr && !plan.mlp_tiles) {
    refuse(mlp.where(), "mlp: nothing is said of it", "add 'tensor_parallel: 8' or 'tiles: auto'");
  }
}

PlanSpec read_plan(const Node& written,
                   const Node& shared,
                   std::int64_t gpus_per_node,
                   Defaults* defaults) {
  const std::vector<std::string> keys = with_shared_options({"name",
                                                             "use",
                                                             "degree",
                                                             "ulysses",
                                                             "sequence_gather",
                                                             "ring",
                                                             "context_parallel",
                                                             "tensor_parallel",
                                                             "mlp",
                                                             "pipeline",
                                                             "placement",
                                                             "expert_parallel",
                                                             "data_parallel",
                                                             "zero",
                                                             "framework",
                                                             "transformer_impl"});
  const MapReader unnamed(written, "plans", keys);
  PlanSpec plan;
  plan.name = unnamed.required("name", parse_plan_name);
  plan.where = unnamed.node("name").where();
  const std::string path = "plans." + plan.name;
  const Node complete =
      with_preset(written, MapReader(written, path, keys, defaults), gpus_per_node, plan);
  const MapReader map(complete, path, keys, defaults);

  plan.ulysses =
      read_degree(map, "ulysses", {"exchange", "kv_repeat"}, [&](const MapReader& ulysses) {
        plan.exchange = ulysses.optional("exchange", word_of(kExchangeWords), "packed");
        plan.kv_repeat = ulysses.optional("kv_repeat", word_of(kKvRepeatWords), "minimal");
      });
  plan.sequence_gather = read_plain_degree(map, "sequence_gather");
  plan.ring = read_degree(map, "ring", {"implementation", "order"}, [&](const MapReader& ring) {
    plan.ring_implementation = ring.maybe("implementation", word_of(kRingWords));
    plan.ring_order = ring.maybe("order", word_of(kRingOrderWords));
  });
  read_context_parallel(map, plan);
  plan.tensor_parallel =
      read_degree(map, "tensor_parallel", {"sequence", "gather_again"}, [&](const MapReader& tp) {
        plan.tensor_parallel_sequence = tp.optional("sequence", parse_bool, "true");
        plan.tensor_parallel_gather_again = tp.maybe("gather_again", parse_bool).value_or(true);
      });
  plan.mlp_tensor_parallel = degree_one(map);
  if (const Node* const mlp = map.find("mlp")) {
    read_mlp(MapReader(*mlp, map.path_of("mlp"), {"tensor_parallel", "tiles"}), plan);
  }
  plan.pipeline = read_pipeline(map);
  plan.placement = read_placement(map);
  plan.experts = read_expert_parallel(map);
  plan.data_parallel = map.maybe_located("data_parallel", count_within("degree"));
  plan.zero = read_zero(map);
  plan.framework = map.optional("framework", word_of(kFrameworkWords), "generic");
  plan.transformer_impl = read_transformer_impl(map, plan.framework);

  Node own_options = make_map(written.position);
  for (const std::string_view key : kSharedOptions) {
    if (const Node* const option = map.find(key)) {
      own_options.set(key, option->position, *option);
    }
  }
  read_shared_options(merged(shared, own_options), defaults, plan);
  return plan;
}

std::vector<PlanSpec> read_plans(const MapReader& root,
                                 std::int64_t gpus_per_node,
                                 Defaults* defaults) {
  const Node& list = root.node("plans");
  const std::span<const Node> items = root.items("plans");
  constexpr std::size_t kMostPlans = 256;  // more than anybody reads in one table
  if (items.empty() || items.size() > kMostPlans) {
    refuse(list.where(),
           items.empty() ? "plans: the list is empty"
                         : fmt::format("plans: {} are more than {}", items.size(), kMostPlans),
           "give plans such as '- {name: sp8, use: megatron-sp}'");
  }
  Node shared = make_map(root.node("plans").position);
  if (const Node* const written = root.find("defaults")) {
    shared = *written;
  }
  const MapReader known_keys_only(shared, "defaults", with_shared_options({}));
  std::vector<PlanSpec> plans;
  for (const Node& item : items) {
    PlanSpec plan = read_plan(item, shared, gpus_per_node, defaults);
    for (const PlanSpec& earlier : plans) {
      if (earlier.name == plan.name) {
        throw Error(ErrorKind::input,
                    plan.where,
                    fmt::format("a second plan is named '{}'", plan.name),
                    "give each plan a name of its own",
                    {{earlier.where, "the first one stands here"}});
      }
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

// --- requirements ---

/// "< 20 %" as 0.2.
double parse_upper_percentage(std::string_view text) {
  constexpr const char* kAccepted = "accepted: an upper bound, such as \"< 20 %\"";
  if (!text.starts_with('<')) {
    throw BadText(fmt::format("{} is not an upper bound", in_quotes(text)), kAccepted);
  }
  text.remove_prefix(1);
  while (text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  return parse_percentage(text);
}

std::vector<RequireSpec> read_requirements(const MapReader& root,
                                           const std::vector<PlanSpec>& plans) {
  std::vector<std::string> names;
  names.reserve(plans.size());
  for (const PlanSpec& plan : plans) {
    names.push_back(plan.name);
  }
  std::vector<RequireSpec> requirements;
  for (const Node& item : root.items("require")) {
    const MapReader map(item, "require", {"plan", "fits", "exposed_communication"});
    RequireSpec requirement;
    requirement.plan = map.required("plan", parse_word);
    requirement.where = map.where();
    if (std::find(names.begin(), names.end(), requirement.plan) == names.end()) {
      refuse(map.node("plan").where(),
             fmt::format("plan: no plan is named {}", in_quotes(requirement.plan)),
             hint_near(requirement.plan, names));
    }
    requirement.fits = map.maybe("fits", parse_bool);
    requirement.exposed_communication_below =
        map.maybe("exposed_communication", parse_upper_percentage);
    if (!requirement.fits && !requirement.exposed_communication_below) {
      refuse(map.where(),
             "require: nothing is required of the plan",
             "add 'fits: true' or 'exposed_communication: \"< 20 %\"'");
    }
    requirements.push_back(std::move(requirement));
  }
  return requirements;
}

// --- products ---

struct Product {
  std::string_view name;
  double value;
  const SourceLocation* where;
  double limit = kLargestProduct;
};

/// Each number is within kBounds; here their products are held below 2^55, in double precision as
/// the exact ones might overflow. Calls `see(product)` for each.
template <class See>
void for_each_product(const StudySpec& study, See see) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const ModelSpec& model = study.model;
  const double query_width = real(model.heads.value) * real(model.head_dim.value);
  const double widest = std::max({real(model.hidden.value),
                                  3 * query_width,
                                  2 * real(model.mlp_width.value),
                                  real(model.vocabulary.value)});
  see(Product{"layers x hidden x the widest of the layers' outputs",
              real(model.layers.value) * real(model.hidden.value) * widest,
              &model.layers.where});
  const double sequence = real(study.workload.sequence.value.value());
  const double micro_batch = real(study.workload.micro_batch.value);
  const double gpus = real(study.cluster.nodes.value) * real(study.cluster.gpus_per_node.value);
  see(Product{"nodes x GPUs of a node", gpus, &study.cluster.nodes.where, kMostGpus});
  const auto& global_batch = study.workload.global_batch;
  const double step_sequences = global_batch ? real(global_batch->value) : micro_batch * gpus;
  see(Product{"sequences of a step x sequence",
              std::max(step_sequences, micro_batch) * sequence,
              &study.workload.sequence.where});
  const double rank_sequences = global_batch ? step_sequences : micro_batch;
  see(Product{"layers x sequences of a rank x sequence x the widest of the layers' outputs",
              real(model.layers.value) * std::max(rank_sequences, micro_batch) * sequence * widest,
              &study.workload.sequence.where});
  for (const PlanSpec& plan : study.plans) {
    const double data_parallel = plan.data_parallel ? real(plan.data_parallel->value) : 1.0;
    see(Product{"the product of the degrees",
                real(plan.ulysses.value) * real(plan.sequence_gather.value) *
                    real(plan.ring.value) * real(plan.context_parallel.value) *
                    real(plan.tensor_parallel.value) * real(plan.mlp_tensor_parallel.value) *
                    real(plan.pipeline.degree.value) * data_parallel,
                &plan.where});
    if (plan.attention == AttentionKernel::unfused) {
      see(Product{"micro_batch x heads x sequence x sequence",
                  micro_batch * real(model.heads.value) * sequence * sequence,
                  &study.workload.sequence.where});
    }
  }
}

void check_products(const StudySpec& study) {
  for_each_product(study, [](const Product& product) {
    if (product.value > product.limit) {
      refuse(*product.where,
             fmt::format(
                 "the numbers are too large together: {} is {:.3g}", product.name, product.value),
             fmt::format("keep this product below {:.3g}", product.limit));
    }
  });
}

/// What `memory` names, or the table that is built in.
MemorySpec read_memory_of(const MapReader& study, const Library& library) {
  constexpr std::string_view kBuiltIn = "public";
  const Node* const written = study.find("memory");
  if (written == nullptr) {
    study.echo_default("memory", kBuiltIn);
  }
  const Resolved resolved =
      library.resolve(PresetKind::memory,
                      written == nullptr ? make_text(std::string(kBuiltIn), Position{}) : *written,
                      "inline");
  return read_memory(resolved.node, resolved.name);
}

/// A title, on one line.
std::string parse_study_name(std::string_view text) {
  if (text.find('\n') != std::string_view::npos) {
    throw BadText("a name of several lines", "accepted: one line");
  }
  return parse_word(text);
}

}  // namespace

bool within_limits(const StudySpec& study) {
  const Bound* const row = std::find_if(
      std::begin(kBounds), std::end(kBounds), [](const Bound& b) { return b.key == "sequence"; });
  bool within = study.workload.sequence.value.value() <= row->highest;
  for_each_product(
      study, [&](const Product& product) { within = within && product.value <= product.limit; });
  return within;
}

SharedParts read_shared_parts(const Node& root, const Library& library) {
  SharedParts parts;
  parts.model = read_model(*root.find("model"), library, &parts.defaults_used);
  parts.cluster = read_cluster(*root.find("cluster"), library, &parts.defaults_used);
  return parts;
}

StudySpec read_study(const Node& root, const Library& library, const SharedParts* shared) {
  StudySpec study;
  Defaults* const defaults = &study.defaults_used;
  const MapReader map(root,
                      "",
                      {"version",
                       "name",
                       "model",
                       "cluster",
                       "memory",
                       "workload",
                       "defaults",
                       "plans",
                       "what_if",
                       "sweep",
                       "require"},
                      defaults);
  map.required("version", parse_version);
  study.file = map.where().file;
  study.name = map.maybe("name", parse_study_name)
                   .value_or(printable(std::filesystem::path(study.file).stem().string()));
  if (shared != nullptr) {
    study.model = shared->model;
    study.cluster = shared->cluster;
    study.defaults_used = shared->defaults_used;
  } else {
    study.model = read_model(map.node("model"), library, defaults);
    study.cluster = read_cluster(map.node("cluster"), library, defaults);
  }
  study.memory = read_memory_of(map, library);
  study.workload = read_workload(MapReader(map.node("workload"),
                                           "workload",
                                           {"sequence", "micro_batch", "global_batch", "causal"},
                                           defaults));
  study.plans = read_plans(map, study.cluster.gpus_per_node.value, defaults);
  study.require = read_requirements(map, study.plans);
  check_products(study);
  if (const Node* const what_if = map.find("what_if")) {
    study.what_if = read_what_if(*what_if, study.cluster, defaults);
    apply_what_if(study);
  }
  return study;
}

}  // namespace trireme::config
