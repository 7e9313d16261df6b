#include "sim/config/expert_parallel.h"

#include <fmt/format.h>

#include "sim/config/bounds.h"
#include "sim/config/words.h"
#include "sim/units/text.h"

namespace trireme::config {

namespace {

/// A positive factor; beyond 2^12 experts none has more tokens than all together.
double parse_capacity_factor(std::string_view text) {
  constexpr double kLargest = 4096;
  const double value = parse_non_negative_number(text);
  if (!(value > 0) || value > kLargest) {
    throw BadText(fmt::format("a capacity factor of {} is out of range", text),
                  "accepted: a number above 0, such as 1.25");
  }
  return value;
}

}  // namespace

ExpertParallelSpec read_expert_parallel(const MapReader& plan) {
  ExpertParallelSpec spec;
  const Node* const written = plan.find("expert_parallel");
  if (written == nullptr) {
    spec.degree = {1, plan.where()};
    return spec;
  }
  Node as_map = *written;
  if (written->is_text()) {
    as_map = make_map(written->position);
    as_map.set("degree", written->position, *written);
  }
  const MapReader map(as_map,
                      plan.path_of("expert_parallel"),
                      {"degree", "tensor_parallel", "capacity_factor"},
                      plan.defaults());
  spec.degree = map.required_located("degree", count_within("degree"));
  spec.tensor_parallel = map.maybe_located("tensor_parallel", count_within("degree"));
  spec.capacity_factor = map.maybe("capacity_factor", parse_capacity_factor);
  if (!spec.capacity_factor) {
    map.echo_default("capacity_factor", "none: no token is dropped");
  }
  return spec;
}

}  // namespace trireme::config
