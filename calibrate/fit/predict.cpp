#include "calibrate/fit/predict.h"

#include <algorithm>

#include "sim/cost/attention.h"
#include "sim/cost/collectives.h"
#include "sim/cost/gemm.h"
#include "sim/cost/pointwise.h"

namespace trireme::calibrate {

namespace {

using MaybeSeconds = std::optional<Seconds>;

using KernelMember = std::optional<cost::AttentionKernelCosts> cost::AttentionCosts::*;

/// Null for a name that profiles do not have.
KernelMember kernel_member(const std::string& kernel) {
  if (kernel == "flash2") {
    return &cost::AttentionCosts::flash2;
  }
  if (kernel == "flash3") {
    return &cost::AttentionCosts::flash3;
  }
  return kernel == "cudnn" ? &cost::AttentionCosts::cudnn : nullptr;
}

class Predictor {
 public:
  Predictor(const cost::MachineCosts& machine, BytesPerSecond nic_rate)
      : machine_(machine), nic_rate_(nic_rate) {}

  MaybeSeconds operator()(const CollectivePoint& point) const {
    const cost::Group group{point.ranks, std::min(point.ranks, point.ranks_per_node)};
    switch (point.collective) {
      case CollectiveKind::all_to_all:
        return cost::all_to_all_time(point.payload, group, nic_rate_, machine_);
      case CollectiveKind::all_gather:
        return cost::all_gather_time(point.payload, group, nic_rate_, machine_);
      case CollectiveKind::reduce_scatter:
        return cost::reduce_scatter_time(point.payload, group, nic_rate_, machine_);
      case CollectiveKind::all_reduce:
        return cost::all_reduce_time(point.payload, point.type, group, nic_rate_, machine_);
      case CollectiveKind::send_recv:
        return cost::ring_hop_time(point.payload, group, nic_rate_, machine_);
    }
    return std::nullopt;
  }

  MaybeSeconds operator()(const AttentionPoint& point) const {
    const auto member = kernel_member(point.kernel);
    if (member == nullptr || !(machine_.attention.*member) || !machine_.streaming_multiprocessors) {
      return std::nullopt;
    }
    const cost::AttentionShape shape{
        .sequences = point.sequences,
        .query_heads = point.heads,
        .query_tokens = point.query_tokens,
        .key_tokens = point.key_tokens,
        .head_dim = point.head_dim,
        .causal = point.causal,
        .first_query = std::max(Tokens(0), point.key_tokens - point.query_tokens)};
    return cost::attention_time(
        shape,
        point.pass == Pass::forward ? cost::AttentionPass::forward : cost::AttentionPass::backward,
        *(machine_.attention.*member),
        *machine_.streaming_multiprocessors);
  }

  MaybeSeconds operator()(const GemmPoint& point) const {
    if (!machine_.gemm) {
      return std::nullopt;
    }
    return cost::gemm_time(
        point.m, point.n, point.k, point.type, point.fp32_accumulation, *machine_.gemm);
  }

  MaybeSeconds operator()(const MemoryBoundPoint& point) const {
    if (!machine_.kernel_launch) {
      return std::nullopt;
    }
    return cost::pointwise_time(
        point.moved, point.kind, *machine_.kernel_launch, machine_.pointwise);
  }

  MaybeSeconds operator()(const LaunchPoint& /*point*/) const { return machine_.kernel_launch; }

  MaybeSeconds operator()(const HostCopyPoint& /*point*/) const { return std::nullopt; }

  MaybeSeconds operator()(const InterferencePoint& /*point*/) const { return std::nullopt; }

 private:
  const cost::MachineCosts& machine_;
  BytesPerSecond nic_rate_;
};

}  // namespace

std::optional<Seconds> predict(const Point& point,
                               const cost::MachineCosts& machine,
                               BytesPerSecond nic_rate) {
  return std::visit(Predictor(machine, nic_rate), point);
}

std::optional<cost::AttentionKernelCosts>* attention_kernel(cost::AttentionCosts& costs,
                                                            const std::string& kernel) {
  const auto member = kernel_member(kernel);
  return member == nullptr ? nullptr : &(costs.*member);
}

}  // namespace trireme::calibrate
