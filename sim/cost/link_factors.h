// Coefficients of a machine whose links were faster or slower than they are.
#pragma once

#include <cmath>

#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// What the bandwidth of each kind of link is multiplied with; above zero.
struct LinkFactors {
  double inside = 1;  // NVLink, or PCIe where that joins the GPUs of a node
  double nic = 1;
};

namespace detail {

inline void scale_fill(Seconds& ramp, double factor) {
  ramp = 1 / std::sqrt(factor) * ramp;
}

inline void scale(std::optional<NodeCollectiveCosts>& costs, double factor) {
  if (costs) {
    costs->link_rate = factor * costs->link_rate;
    scale_fill(costs->ramp_per_root_megabyte, factor);
  }
}

}  // namespace detail

/// The coefficients with the bandwidth of the links multiplied; NICs enter the formulas by their
/// line rate, which is the cluster's, so here only what was measured of them as a rate.
///
/// EQ scaled-link: beta' = f beta, c' = c / sqrt(f)
///   f      a factor of LinkFactors                                         [1]
///   beta   link_rate, rate, nvlink_rate: of a link                         [bytes/second]
///   c      ramp_per_root_megabyte: fill of a pipeline, in the best of chunks
///          2 sqrt(h a V / beta) over h hops of latency a            [seconds/sqrt(megabyte)]
///   beta'  result                                                          [bytes/second]
///   c'     result                                                   [seconds/sqrt(megabyte)]
/// Source: derived: V bytes in chunks of m over h hops take (V / m + h) (a + m / beta), which is
///   least at m = sqrt(a beta V / h)
/// Valid:  latencies, channels, copies on a GPU and tables of residuals stay as they were measured
/// Tests:  tests/unit/cost/link_factors_test.cpp
[[nodiscard]] inline MachineCosts with_links(MachineCosts costs, const LinkFactors& factors) {
  CollectiveCosts& inside = costs.collectives;
  for (auto* const collective :
       {&inside.all_to_all, &inside.all_gather, &inside.reduce_scatter, &inside.all_reduce}) {
    detail::scale(*collective, factors.inside);
  }
  if (inside.all_reduce_nvls) {
    inside.all_reduce_nvls->rate = factors.inside * inside.all_reduce_nvls->rate;
    detail::scale_fill(inside.all_reduce_nvls->ramp_per_root_megabyte, factors.inside);
  }
  if (inside.send_recv) {
    inside.send_recv->link_rate = factors.inside * inside.send_recv->link_rate;
  }
  if (costs.multi_node.ring) {
    costs.multi_node.ring->nvlink_rate = factors.inside * costs.multi_node.ring->nvlink_rate;
  }
  if (costs.multi_node.send_recv && costs.multi_node.send_recv->crowded) {
    BytesPerSecond& rate = costs.multi_node.send_recv->crowded->rate;
    rate = factors.nic * rate;
  }
  return costs;
}

}  // namespace trireme::cost
