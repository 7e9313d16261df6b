#include "sim/config/recompute.h"

#include <fmt/format.h>

#include "sim/config/bounds.h"
#include "sim/config/words.h"

namespace trireme::config {

namespace {

/// Source: megatron-lm, megatron/core/transformer/transformer_config.py, recompute_modules, whose
/// words these are but for moe_act
constexpr Choice<bool RecomputeModules::*> kModuleWords[] = {
    {"core_attn", &RecomputeModules::core_attention},
    {"layernorm", &RecomputeModules::layernorm},
    {"mlp", &RecomputeModules::mlp},
    {"mlp_act", &RecomputeModules::mlp_activation}};

constexpr Choice<LayerChoice> kMethodWords[] = {{"block", LayerChoice::block},
                                                {"uniform", LayerChoice::uniform}};

/// Megatron Core's, where no module is named.
constexpr RecomputeModules kCoreAttention{.core_attention = true};

/// Refuses `key`, which says something about `what`.
void refuse_key(const MapReader& map, std::string_view key, std::string_view what) {
  if (const Node* const node = map.find(key)) {
    refuse(node->where(),
           fmt::format("{}: has a meaning for granularity {} only", key, what),
           fmt::format("set 'granularity: {}' or leave the key out", what));
  }
}

RecomputeModules read_modules(const MapReader& map) {
  if (map.find("modules") == nullptr) {
    map.echo_default("modules", "[core_attn]");
    return kCoreAttention;
  }
  RecomputeModules modules;
  for (const Node& item : map.items("modules")) {
    bool& chosen = modules.*parse_node(item, "modules", word_of(kModuleWords));
    if (chosen) {
      refuse(item.where(), "modules: the module is named twice", "leave one of them out");
    }
    chosen = true;
  }
  if (!modules.any()) {
    refuse(map.node("modules").where(),
           "modules: the list is empty",
           "name core_attn, layernorm, mlp or mlp_act, or write 'recompute: none'");
  }
  return modules;
}

void read_layers(const MapReader& map, RecomputeSpec& recompute) {
  const auto method = map.maybe("method", word_of(kMethodWords));
  if (const auto every = map.maybe_located("every", count_within("layers"))) {
    if (method) {
      refuse(every->where,
             "every: the layers are chosen by 'method' already",
             "keep one of the two keys");
    }
    recompute.number = every->value;
  }
  if (method) {
    recompute.layers = *method;
    recompute.number = map.required("num_layers", count_within("layers"));
  } else if (const Node* const number = map.find("num_layers")) {
    refuse(number->where(),
           "num_layers: has a meaning beside 'method' only",
           "add 'method: block' or 'method: uniform', or write 'every: 2'");
  }
}

}  // namespace

RecomputeSpec read_recompute(const MapReader& options) {
  const Node* const node = options.find("recompute");
  RecomputeSpec recompute;
  if (node == nullptr || !node->is_map()) {
    recompute.granularity = options.optional("recompute", word_of(kRecomputeWords), "none");
    if (recompute.granularity == Recompute::selective) {
      recompute.modules = kCoreAttention;
    }
    return recompute;
  }
  const MapReader map(*node,
                      options.path_of("recompute"),
                      {"granularity", "modules", "every", "method", "num_layers", "offload"},
                      options.defaults());
  recompute.granularity = map.optional("granularity", word_of(kRecomputeWords), "full");
  if (recompute.granularity == Recompute::selective) {
    recompute.modules = read_modules(map);
  } else {
    refuse_key(map, "modules", "selective");
  }
  if (recompute.granularity == Recompute::full) {
    read_layers(map, recompute);
    constexpr Choice<bool> kOffloadWords[] = {{"host", true}, {"none", false}};
    recompute.offload_to_host = map.optional("offload", word_of(kOffloadWords), "none");
  } else {
    for (const char* const key : {"every", "method", "num_layers", "offload"}) {
      refuse_key(map, key, "full");
    }
  }
  return recompute;
}

std::string in_words(const RecomputeSpec& recompute) {
  std::string text(word_for(kRecomputeWords, recompute.granularity));
  std::string separator = " of ";
  for (const auto& module : kModuleWords) {
    if (recompute.modules.*module.value) {
      text += separator + std::string(module.word);
      separator = ", ";
    }
  }
  if (recompute.layers != LayerChoice::every) {
    text += fmt::format(" {} {}", word_for(kMethodWords, recompute.layers), recompute.number);
  } else if (recompute.number > 1) {
    text += fmt::format(" every {} layers", recompute.number);
  }
  return text + (recompute.offload_to_host ? " with offload to the host" : "");
}

}  // namespace trireme::config
