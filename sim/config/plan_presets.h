// The named plans of the field as compositions: what `use:` in a plan may say.
//
//   - {name: a, use: hybrid}                 # its degree: the GPUs of one node
//   - {name: b, use: hybrid, degree: 4}
//   - {name: c, use: ulysses, degree: 4, ulysses: {exchange: separate}}
//
// The keys of the plan are laid over those of the preset, map by map.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/config/node.h"

namespace trireme::config {

struct PlanPreset {
  std::string_view name;
  std::string_view description;
  std::string_view yaml;  // the keys that it sets; DEGREE stands for the plan's `degree`
  bool has_degree;
};

/// All presets, in the order in which they are listed.
[[nodiscard]] std::span<const PlanPreset> plan_presets();

/// The map of keys of `preset`; locations in it name the preset.
[[nodiscard]] Node plan_preset_keys(const PlanPreset& preset, std::int64_t degree);

}  // namespace trireme::config
