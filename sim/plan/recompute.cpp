#include "sim/plan/recompute.h"

namespace trireme::plan {

Ref normed_again(
    Step& step, Parameters& parameters, const NormParameters& norm, Ref x, Ref normed) {
  if (!step.plan.recompute_modules.layernorm) {
    return normed;
  }
  const InRecompute scope(step);
  const program::Tensor& before = step.b.tensor(normed.tensor);
  const Ref again = step.value(before.name, before.shape, before.layout);
  emit_norm(step, parameters, norm, x, again);
  return again;
}

}  // namespace trireme::plan
