// The coefficients of one machine: everything that the cost formulas need to know about it.
//
// A profile fills this structure from its YAML file; no coefficient is a literal in code. What a
// profile does not know is absent, and the seconds that would need it are then unknown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "sim/cost/residuals.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// Matrix products of 16-bit operands, form G1 (gemm.h).
struct GemmCosts {
  Seconds start;              // t0
  FlopsPerSecond rate;        // P, sustained
  double inner_overhead = 0;  // k0: start and finish of the loop over k, in elements of k
  BytesPerSecond bandwidth;   // bw
  /// Factor on the time when the output accumulates in fp32; 1 where that was not measured.
  double fp32_accumulation = 1;
};

/// One pass of an attention kernel at one head dimension.
struct AttentionPassCosts {
  FlopsPerSecond rate;       // E: what one whole GPU reaches inside the key loop
  double tile_overhead = 0;  // tau: prologue and epilogue of a tile, in key rows
};

struct AttentionHeadDimCosts {
  std::int64_t head_dim = 0;
  double sustained = 1;  // phi: factor on E in long kernels, where the clock drops
  std::optional<AttentionPassCosts> forward;
  std::optional<AttentionPassCosts> backward;
};

/// One attention kernel, form A1 (attention.h).
struct AttentionKernelCosts {
  static constexpr std::size_t kMostHeadDims = 4;

  Seconds start;  // t0
  /// Kernels that last longer run at the sustained rate; infinite where no long one was measured.
  Seconds sustained_after = Seconds(std::numeric_limits<double>::infinity());
  /// In ascending order; the first `head_dim_count` are filled.
  std::array<AttentionHeadDimCosts, kMostHeadDims> head_dims;
  std::size_t head_dim_count = 0;
};

/// Kernels absent here have unknown seconds on this machine.
struct AttentionCosts {
  std::optional<AttentionKernelCosts> flash2;
  std::optional<AttentionKernelCosts> flash3;
  std::optional<AttentionKernelCosts> cudnn;
};

/// Kernels that are bound by memory, by what they reach of the memory's peak.
enum class PointwiseClass : std::uint8_t {
  norm_forward,
  norm_backward,
  pointwise,
  copy,
  adam,
  cross_entropy
};
inline constexpr std::size_t kPointwiseClasses = 6;

/// Memory-bound kernels, form P1 (pointwise.h).
struct PointwiseCosts {
  BytesPerSecond memory_peak;  // what the efficiencies are fractions of
  /// By class; empty for a class that was not measured.
  std::array<std::optional<double>, kPointwiseClasses> efficiency{};
};

/// One collective inside a node, form C1 (node_collectives.h). An infinite rate: no such cost was
/// seen.
struct NodeCollectiveCosts {
  Seconds start;                   // a0
  Seconds per_rank;                // a1, paid n - 1 times
  BytesPerSecond link_rate;        // beta
  Seconds ramp_per_root_megabyte;  // c: pipeline fill, times the root of the received megabytes
  BytesPerSecond local_rate;       // gamma: copy or reduction of the own chunk
};

/// An all-reduce that the switches compute (NVLS), form C1n (node_collectives.h).
struct SwitchReduceCosts {
  std::int64_t least_ranks = 0;  // applies to groups of least_ranks to most_ranks
  std::int64_t most_ranks = 0;
  Seconds start;                   // a
  BytesPerSecond rate;             // beta_n, of the whole buffer
  Seconds ramp_per_root_megabyte;  // c
};

/// Point-to-point inside a node, form C2 (send_recv.h).
struct SendRecvCosts {
  Seconds start;                // a
  BytesPerSecond channel_rate;  // r, of one channel
  std::int64_t channels = 0;    // ch_max
  Bytes channel_bytes;          // a message takes one more channel for each of these
  BytesPerSecond link_rate;     // beta
};

/// What is absent was not measured inside a node.
struct CollectiveCosts {
  std::optional<NodeCollectiveCosts> all_to_all;
  std::optional<NodeCollectiveCosts> all_gather;
  std::optional<NodeCollectiveCosts> reduce_scatter;
  std::optional<NodeCollectiveCosts> all_reduce;     // ring
  std::optional<SwitchReduceCosts> all_reduce_nvls;  // absent: the switches do not reduce
  std::optional<SendRecvCosts> send_recv;
};

/// All-to-all over several nodes, form M1 (multi_node.h).
struct MultiNodeAllToAllCosts {
  Seconds start;              // a0
  Seconds per_remote_rank;    // a_r
  double nic_efficiency = 0;  // beta_nic as a fraction of the NIC's line rate
};

/// Ring collectives over several nodes, form M2 (multi_node.h).
struct MultiNodeRingCosts {
  std::optional<Seconds> all_gather_step;  // a_s, per rank and collective
  std::optional<Seconds> reduce_scatter_step;
  std::optional<Seconds> all_reduce_step;
  double nic_efficiency = 0;   // beta_nic as a fraction of the NIC's line rate
  BytesPerSecond nvlink_rate;  // beta_nvl
};

/// Point-to-point in a communicator so large that one channel serves a peer.
struct CrowdedSendRecvCosts {
  std::int64_t ranks = 0;  // from this many on
  BytesPerSecond rate;
};

/// Point-to-point between nodes (send_recv.h).
struct MultiNodeSendRecvCosts {
  double nic_efficiency = 0;                    // of the NIC's line rate, in small communicators
  std::optional<CrowdedSendRecvCosts> crowded;  // absent: no large communicator was measured
};

/// What is absent was not measured over nodes.
struct MultiNodeCosts {
  std::optional<MultiNodeAllToAllCosts> all_to_all;
  std::optional<MultiNodeRingCosts> ring;
  std::optional<MultiNodeSendRecvCosts> send_recv;
};

/// What kernels and collectives beside each other on a GPU take from each other (interference.h).
struct InterferenceCosts {
  std::int64_t channels = 0;  // multiprocessors that a collective in flight holds
  double memory = 0;          // part of the memory's rate that a collective in flight takes
  double collective = 0;      // part of its rate that a collective loses beside a kernel
};

/// What is absent was not measured, and the seconds that would need it are unknown.
struct MachineCosts {
  std::optional<std::int64_t> streaming_multiprocessors;
  std::optional<Seconds> kernel_launch;  // host time to launch one kernel on a stream
  std::optional<GemmCosts> gemm;
  AttentionCosts attention;
  PointwiseCosts pointwise;
  CollectiveCosts collectives;
  MultiNodeCosts multi_node;
  std::optional<InterferenceCosts> interference;  // absent: not modelled
  ResidualTables residuals;
};

}  // namespace trireme::cost
