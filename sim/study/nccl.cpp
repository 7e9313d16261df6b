#include "sim/study/nccl.h"

#include <utility>

#include "sim/config/nccl_tuning.h"
#include "sim/engine/network/nccl_algorithm.h"
#include "sim/study/evaluate.h"

namespace trireme::study {

std::optional<cost::NcclTuning> nccl_tuning_of(const config::ClusterSpec& cluster) {
  auto spec = config::nccl_tuning(cluster.profile.nccl, cluster.gpu.name);
  return spec ? std::optional(std::move(spec->tuning)) : std::nullopt;
}

std::optional<NcclPick> nccl_pick(const config::ClusterSpec& cluster,
                                  CollectiveKind kind,
                                  Bytes payload,
                                  cost::Group group) {
  const auto spec = config::nccl_tuning(cluster.profile.nccl, cluster.gpu.name);
  if (!spec) {
    return std::nullopt;
  }
  const auto choice =
      engine::nccl_choice_of(kind, payload, group, topology_of(cluster), spec->tuning);
  if (!choice) {
    return std::nullopt;
  }
  return NcclPick{spec->release, spec->source, *choice, engine::expansion_of(choice->algorithm)};
}

}  // namespace trireme::study
