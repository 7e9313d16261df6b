// Memory that a framework holds beside what its operations need: one row a buffer.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/plan/parameters.h"
#include "sim/plan/schedule.h"
#include "sim/plan/step.h"

namespace trireme::plan {

/// A buffer that a framework holds from its first step on.
struct FrameworkBuffer {
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  bool (*there)(const Plan& plan, const Stage& stage);
  void (*declare)(Step& step, const Parameters& parameters);
};

[[nodiscard]] std::span<const FrameworkBuffer> framework_buffers();

/// Declares those of the plan's framework; all parameters of the model are declared before.
void declare_framework_buffers(Step& step, const Parameters& parameters, const Stage& stage);

/// What the memory of the plan's framework has beyond what is modelled, in sentences.
[[nodiscard]] std::vector<std::string> remarks_on_framework(const Plan& plan);

/// Where Megatron Core adds to the gradient of `weight` itself, autograd is handed an empty one in
/// its place: it comes into being with the product, while `held` are still there.
void emit_weight_gradient_placeholder(Step& step,
                                      const Parameters& parameters,
                                      ParameterId weight,
                                      std::initializer_list<Ref> held);

}  // namespace trireme::plan
