#include "sim/cli/commands.h"
#include "sim/cli/listings.h"
#include "sim/config/cluster.h"
#include "sim/config/words.h"

namespace trireme::cli {

ExitCode run_clusters(const Invocation& call) {
  const config::Library library(call.data);
  report::Listing listing;
  listing.command = "clusters";
  listing.columns = {{"name", "cluster"},
                     {"nodes", "nodes"},
                     {"gpus_per_node", "GPUs per node"},
                     {"gpu", "GPU"},
                     {"memory_visible_bytes", "memory"},
                     {"peak_dense_bf16_flops_per_second", "bf16 dense"},
                     {"memory_bandwidth_bytes_per_second", "memory bandwidth"},
                     {"nvlink_one_direction_bytes_per_second", "NVLink, one way"},
                     {"nic_per_gpu_bytes_per_second", "NIC per GPU"},
                     {"fabric", "fabric"},
                     {"profile", "profile"}};
  for (const std::string& name : library.names(config::PresetKind::cluster)) {
    const config::ClusterSpec cluster = config::read_cluster(preset_node(name), library);
    listing.rows.push_back({name,
                            cluster.nodes.value,
                            cluster.gpus_per_node.value,
                            cluster.gpu.name,
                            cluster.gpu.memory_visible,
                            cluster.gpu.peak_dense_bf16,
                            cluster.gpu.memory_bandwidth,
                            cluster.gpu.nvlink_one_direction,
                            cluster.nic_per_gpu,
                            std::string(config::word_for(config::kFabricWords, cluster.fabric)),
                            cluster.profile.name});
  }
  return write_listing(call, listing);
}

}  // namespace trireme::cli
