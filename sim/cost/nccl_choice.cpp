#include "sim/cost/nccl_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trireme::cost {

namespace {

/// Sizes below this have no correction of trees: their table begins here.
constexpr std::int64_t kFirstCorrectedBytes = 64;

std::size_t of(NcclProtocol protocol) {
  return static_cast<std::size_t>(protocol);
}

std::size_t row(const NcclCommunicator& communicator) {
  return communicator.nodes <= 2 ? static_cast<std::size_t>(communicator.nodes - 1) : 2;
}

std::int64_t ranks_per_node(const NcclCommunicator& communicator) {
  return communicator.ranks / communicator.nodes;
}

double floor_log2(std::int64_t value) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(value)) - 1);
}

/// What the links of one GPU have.
double link_total(const NcclCommunicator& communicator, const NcclTuning& tuning) {
  const NcclArchitecture& gpu = tuning.architecture;
  return communicator.nvswitch ? static_cast<double>(gpu.nvlinks) * gpu.nvlink.value()
                               : communicator.pcie.value();
}

double steps_of(NcclCollective collective, std::int64_t ranks) {
  return static_cast<double>((collective == NcclCollective::all_reduce ? 2 : 1) * (ranks - 1));
}

/// The bandwidth of a channel of NVLS: each GPU leads one, which crosses its links twice and those
/// of the others once.
double nvls_channel(const NcclCommunicator& communicator, const NcclTuning& tuning) {
  const double each =
      link_total(communicator, tuning) / static_cast<double>(ranks_per_node(communicator) + 1);
  for (const BytesPerSecond speed : tuning.architecture.speeds_in_node) {
    if (speed.value() <= each) {
      return speed.value();
    }
  }
  return 0;
}

double ring_bandwidth(NcclProtocol protocol,
                      const NcclCommunicator& communicator,
                      const NcclTuning& tuning) {
  const NcclChannels channels = nccl_channels(communicator, tuning);
  const auto count = static_cast<double>(channels.count);
  const double bus = count * channels.bandwidth.value();
  const NcclArchitecture& gpu = tuning.architecture;
  switch (protocol) {
    case NcclProtocol::ll: {
      const auto& most = communicator.nodes == 1 ? gpu.ll_most : tuning.ll_most_over_nodes;
      return std::min(most[row(communicator)].value(), bus * tuning.ring.ll_factor);
    }
    case NcclProtocol::ll128: {
      const double factor = ranks_per_node(communicator) == 1
                                ? tuning.ring.ll128_factor_one_gpu_per_node
                                : tuning.ring.ll128_factor;
      return std::min(bus * factor, count * gpu.ring_ll128_channel[row(communicator)].value());
    }
    case NcclProtocol::simple:
      return bus;
  }
  return 0;
}

double tree_bandwidth(NcclProtocol protocol,
                      const NcclCommunicator& communicator,
                      const NcclTuning& tuning) {
  const NcclChannels channels = nccl_channels(communicator, tuning);
  const auto count = static_cast<double>(channels.count);
  const NcclArchitecture& gpu = tuning.architecture;
  const std::size_t nodes = row(communicator);
  const double bus = std::min(count * channels.bandwidth.value() * tuning.tree.factor,
                              count * gpu.tree_channel[nodes].value());
  switch (protocol) {
    case NcclProtocol::ll: {
      const auto& most = communicator.nodes == 1 ? gpu.ll_most : tuning.ll_most_over_nodes;
      return std::min(bus * tuning.tree.ll_factor, most[nodes].value());
    }
    case NcclProtocol::ll128:
      return std::min(bus * (communicator.nodes == 1 ? tuning.tree.ll128_factor_one_node
                                                     : tuning.tree.ll128_factor),
                      count * gpu.tree_ll128_channel[nodes].value());
    case NcclProtocol::simple:
      return bus;
  }
  return 0;
}

double nvls_bandwidth(NcclCollective collective,
                      bool tree,
                      const NcclCommunicator& communicator,
                      const NcclTuning& tuning) {
  const auto heads = static_cast<double>(ranks_per_node(communicator));
  const double inside = nvls_channel(communicator, tuning);
  const double outside = communicator.nodes == 1 ? inside : communicator.nic.value();
  const double own_part_left_out = (heads - 1) / heads;
  const bool reduces_all = collective == NcclCollective::all_reduce;
  const bool two_nodes = communicator.nodes <= 2;
  switch (tuning.nvls.form) {
    case NcclNvlsForm::least:
    case NcclNvlsForm::least_by_collective: {
      const bool own_part = reduces_all || tuning.nvls.form == NcclNvlsForm::least;
      const double halved = tree && !two_nodes ? outside / 2 : outside;
      return heads * std::min(own_part ? inside : inside * own_part_left_out, halved);
    }
    case NcclNvlsForm::efficiency: {
      // A channel's part of the heads is left out, as NCCL does; an all-reduce streams both ways.
      const double one = inside * *tuning.architecture.nvls_efficiency * own_part_left_out;
      const double both = reduces_all ? 2 * one : one * own_part_left_out;
      const double network = communicator.nodes == 1 ? both
                             : tree && two_nodes     ? 2 * outside
                                                     : outside;
      double channel = std::min(both, network);
      if (tree && tuning.architecture.nvls_tree_channel) {
        channel =
            std::min(channel, (*tuning.architecture.nvls_tree_channel)[row(communicator)].value());
      }
      return heads * channel;
    }
  }
  return 0;
}

/// Latency of a step between nodes.
Seconds network_step(const NcclLatencies& own,
                     NcclProtocol protocol,
                     const NcclCommunicator& communicator,
                     const NcclTuning& tuning) {
  const bool as_tree =
      ranks_per_node(communicator) == 1 && tuning.ring.tree_latency_with_one_gpu_per_node;
  return (as_tree ? tuning.tree.latency : own).network[of(protocol)];
}

Seconds ring_latency(NcclCollective collective,
                     Bytes amount,
                     NcclProtocol protocol,
                     const NcclCommunicator& communicator,
                     const NcclTuning& tuning) {
  const NcclRing& ring = tuning.ring;
  const std::size_t p = of(protocol);
  Seconds hop = communicator.nvswitch ? ring.latency.nvlink[p] : ring.latency.pcie[p];
  if (communicator.nodes > 1) {
    hop = std::max(hop, ring.network_overhead[p]);
  }
  const double steps = steps_of(collective, communicator.ranks);
  const double crossings = steps_of(collective, communicator.nodes);
  Seconds latency = ring.latency.base[p] + (steps - crossings) * hop +
                    crossings * network_step(ring.latency, protocol, communicator, tuning);
  const std::int64_t pieces = nccl_channels(communicator, tuning).count * communicator.ranks;
  if (protocol == NcclProtocol::simple && communicator.nodes > 1 &&
      collective == NcclCollective::all_reduce &&
      amount.value() / pieces >= ring.plateau_from.value()) {
    latency = (tuning.architecture.before_ampere ? ring.plateau_factor_before_ampere
                                                 : ring.plateau_factor_from_ampere) *
              latency;
  }
  return latency;
}

Seconds tree_latency(NcclProtocol protocol,
                     const NcclCommunicator& communicator,
                     const NcclTuning& tuning) {
  const NcclLatencies& latency = tuning.tree.latency;
  const Seconds hop = (communicator.nvswitch ? latency.nvlink : latency.pcie)[of(protocol)];
  const auto inner_hops = static_cast<double>(ranks_per_node(communicator) - 1);
  return latency.base[of(protocol)] +
         2 * (inner_hops * hop + floor_log2(communicator.nodes) * latency.network[of(protocol)]);
}

double correction(Bytes amount, NcclProtocol protocol, const NcclTree& tree) {
  if (amount.value() < kFirstCorrectedBytes) {
    return 1;
  }
  const auto step = static_cast<std::size_t>(floor_log2(amount.value() / kFirstCorrectedBytes));
  const std::vector<double>& table = tree.correction[of(protocol)];
  return step < table.size() ? table[step] : 1;
}

std::optional<Seconds> time_at(Bytes amount, Seconds latency, double bandwidth) {
  if (!(bandwidth > 0)) {
    return std::nullopt;
  }
  return latency + amount / BytesPerSecond(bandwidth);
}

std::optional<Seconds> nvls_time(NcclCollective collective,
                                 Bytes amount,
                                 bool tree,
                                 const NcclCommunicator& communicator,
                                 const NcclTuning& tuning) {
  const bool possible = communicator.nvswitch && tuning.architecture.nvls_efficiency.has_value() &&
                        ranks_per_node(communicator) > 1;
  // Over nodes NVLS alone needs switches that add (SHARP); trees connect its nodes.
  if (!possible || tree != (communicator.nodes > 1) ||
      (tree && collective != NcclCollective::all_reduce)) {
    return std::nullopt;
  }
  const bool reduces_all = collective == NcclCollective::all_reduce;
  const double turns =
      reduces_all ? tuning.nvls.all_reduce_factor.value_or(static_cast<double>(communicator.ranks) /
                                                           steps_of(collective, communicator.ranks))
                  : 1;
  const Seconds latency = tree ? tuning.nvls.tree_latency + 2 * floor_log2(communicator.nodes) *
                                                                tuning.nvls.tree_network_latency
                               : tuning.nvls.latency;
  return time_at(amount, latency, turns * nvls_bandwidth(collective, tree, communicator, tuning));
}

}  // namespace

NcclChannels nccl_channels(const NcclCommunicator& communicator, const NcclTuning& tuning) {
  const NcclArchitecture& gpu = tuning.architecture;
  const bool over_nodes = communicator.nodes > 1;
  const double total = link_total(communicator, tuning);
  NcclChannels best;
  for (const BytesPerSecond speed : over_nodes ? gpu.speeds_between_nodes : gpu.speeds_in_node) {
    if (over_nodes && speed > communicator.nic) {
      continue;
    }
    if (best.count > 0 && ratio(speed, best.bandwidth) <= tuning.slowest_tried) {
      break;
    }
    auto count = static_cast<std::int64_t>(total / speed.value());
    if (over_nodes) {
      count = std::min(count, communicator.nics_per_node);
    }
    if (static_cast<double>(count) * speed.value() >
        static_cast<double>(best.count) * best.bandwidth.value()) {
      best = {count, speed};
    }
  }
  const NcclDoubling& doubling = tuning.doubling;
  const bool many = gpu.after_ampere && best.count > doubling.after_ampere_channels;
  if (best.bandwidth >= (many ? doubling.after_ampere_from : doubling.from)) {
    return {2 * best.count, BytesPerSecond(best.bandwidth.value() / 2)};
  }
  return best;
}

std::optional<Seconds> nccl_time(NcclCollective collective,
                                 Bytes amount,
                                 NcclAlgorithm algorithm,
                                 NcclProtocol protocol,
                                 const NcclCommunicator& communicator,
                                 const NcclTuning& tuning) {
  const auto ranks = static_cast<double>(communicator.ranks);
  const bool reduces_all = collective == NcclCollective::all_reduce;
  const bool simple = protocol == NcclProtocol::simple;
  switch (algorithm) {
    case NcclAlgorithm::ring:
      return time_at(amount,
                     ring_latency(collective, amount, protocol, communicator, tuning),
                     ring_bandwidth(protocol, communicator, tuning) * ranks /
                         steps_of(collective, communicator.ranks));
    case NcclAlgorithm::tree:
      if (!reduces_all) {
        return std::nullopt;
      }
      return time_at(amount,
                     tree_latency(protocol, communicator, tuning),
                     tree_bandwidth(protocol, communicator, tuning) / 2 *
                         correction(amount, protocol, tuning.tree));
    case NcclAlgorithm::nvls:
    case NcclAlgorithm::nvls_tree:
      return simple ? nvls_time(collective,
                                amount,
                                algorithm == NcclAlgorithm::nvls_tree,
                                communicator,
                                tuning)
                    : std::nullopt;
    case NcclAlgorithm::pat: {
      if (!tuning.pat || !simple || reduces_all || communicator.nodes != communicator.ranks) {
        return std::nullopt;
      }
      const Seconds step = network_step(tuning.ring.latency, protocol, communicator, tuning);
      const Seconds latency = tuning.pat->base_latency +
                              floor_log2(communicator.nodes) / tuning.pat->log_divisor * step +
                              ranks * tuning.pat->per_rank;
      return time_at(
          amount, latency, ring_bandwidth(protocol, communicator, tuning) * tuning.pat->factor);
    }
  }
  return std::nullopt;
}

NcclChoice nccl_choice(NcclCollective collective,
                       Bytes amount,
                       const NcclCommunicator& communicator,
                       const NcclTuning& tuning) {
  ensure(communicator.ranks > 1, "nccl_choice: a collective of one rank");
  std::optional<NcclChoice> best;
  for (std::size_t a = 0; a < kNcclAlgorithmNames.size(); ++a) {
    for (std::size_t p = 0; p < kNcclProtocols; ++p) {
      const NcclChoice way{static_cast<NcclAlgorithm>(a), static_cast<NcclProtocol>(p), {}};
      const auto expected =
          nccl_time(collective, amount, way.algorithm, way.protocol, communicator, tuning);
      if (expected && (!best || *expected < best->expected)) {
        best = NcclChoice{way.algorithm, way.protocol, *expected};
      }
    }
  }
  ensure(best.has_value(), "nccl_choice: no way at all");
  return *best;
}

}  // namespace trireme::cost
