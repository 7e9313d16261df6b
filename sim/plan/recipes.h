// How the modules of frameworks are made, as far as it decides what is in memory: one row each.
#pragma once

#include <span>
#include <string_view>

#include "sim/plan/plan.h"
#include "sim/plan/step.h"

namespace trireme::plan {

struct RecipeInfo {
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  Modules modules;
};

/// Rows of frameworks whose modules keep more than fused kernels need.
[[nodiscard]] std::span<const RecipeInfo> recipe_table();

/// The modules of a plan's framework, with the rest of the plan known.
[[nodiscard]] Modules modules_of(const Plan& plan);

/// Emits what a module writes for its backward pass beside what the operation of the program does;
/// `source` says which. Not a tensor where `there` is false.
[[nodiscard]] Ref also_kept(Step& step,
                            bool there,
                            std::string_view name,
                            const Shape& shape,
                            const Layout& layout,
                            ElementType type,
                            std::string_view source);

/// What a norm of the layer's input keeps where it is computed in parts.
[[nodiscard]] Ref norm_parts(Step& step);

/// The backward pass of the module has used `kept`; nothing where it is not a tensor.
void use_kept(Step& step, Ref kept);

}  // namespace trireme::plan
