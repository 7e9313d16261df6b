// Bytes of a GPU beyond a program's tensors: what an allocator reserves, and NCCL's buffers.
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/units/units.h"

namespace trireme::cost {

/// Of what an allocator's reserve is a share.
enum class ReserveBase : std::uint8_t { allocated, transient };

/// What an allocator reserves beyond the tensors, as shares of its base.
struct ReserveShare {
  ReserveBase base = ReserveBase::allocated;
  double share = 0;
  double low = 0;
  double high = 0;
};

/// What an allocator has from the driver when a rank's tensors take most.
///
/// EQ reserved-memory: R = A + x B, B = A or A - A0
///   A   allocated                                                          [bytes]
///   A0  resident: allocated at the beginning and at the end of the step    [bytes]
///   x   share: of the base                                                 [1]
///   B   the share's base                                                   [bytes]
/// Source: simumax-b200, reserved over allocated of 17 runs; caching-allocator
/// Valid:  a steady step. Ranks of equal work differ by up to 5 %: only with its spread.
/// Tests:  tests/unit/cost/device_memory_test.cpp
[[nodiscard]] inline Bytes reserved_memory(Bytes allocated,
                                           Bytes resident,
                                           ReserveBase base,
                                           double share) {
  const Bytes of = base == ReserveBase::allocated ? allocated : allocated - resident;
  return allocated + Bytes(std::llround(share * static_cast<double>(of.value())));
}

/// Buffers that NCCL allocates for each connection of a channel.
struct NcclBuffers {
  Bytes receive_per_channel;
  Bytes send_per_channel;
  std::int64_t ring_peers = 0;
  std::int64_t ring_channels = 0;
  std::int64_t peer_channels = 0;
  Bytes network_buffer;
};

/// Buffers of one communicator for rings and trees. Zero for one rank.
///
/// EQ nccl-ring-buffers: M = c m (r + s)
///   c  ring_channels                                                       [1]
///   m  ring_peers                                                          [1]
///   r  receive_per_channel                                                 [bytes]
///   s  send_per_channel                                                    [bytes]
/// Source: nccl, src/init.cc, src/transport/p2p.cc
/// Valid:  NVLink inside a node; measured 0.54 GB for 2 ranks and 0.69 GB for 4 (nccl-issue-964).
///   The multicast buffers of NVLink SHARP are left out.
/// Tests:  tests/unit/cost/device_memory_test.cpp
[[nodiscard]] inline Bytes nccl_ring_buffers(std::int64_t ranks, const NcclBuffers& buffers) {
  if (ranks == 1) {
    return Bytes(0);
  }
  return buffers.ring_channels * buffers.ring_peers *
         (buffers.receive_per_channel + buffers.send_per_channel);
}

/// Buffers of one communicator for messages to `peers` ranks of its node, itself among them.
///
/// EQ nccl-peer-buffers: M = p c (r + s) + [n > p] Q
///   p  peers: ranks of the node that a rank exchanges with                 [ranks]
///   c  peer_channels                                                       [1]
///   r  receive_per_channel                                                 [bytes]
///   s  send_per_channel                                                    [bytes]
///   n  ranks                                                               [ranks]
///   Q  network_buffer: shared by the peers of other nodes                  [bytes]
/// Source: nccl, src/init.cc, src/transport/p2p.cc; nccl-issue-1685
/// Valid:  measured 3.28 GB for 8 H100 of a node, -2 %. A rank is no peer of its own, so that the
///   buffers of 8 - 1 peers would be -14 %: what the rest is was not found out.
/// Tests:  tests/unit/cost/device_memory_test.cpp
[[nodiscard]] inline Bytes nccl_peer_buffers(std::int64_t ranks,
                                             std::int64_t peers,
                                             const NcclBuffers& buffers) {
  if (ranks == 1) {
    return Bytes(0);
  }
  const Bytes inside =
      peers * buffers.peer_channels * (buffers.receive_per_channel + buffers.send_per_channel);
  return ranks > peers ? inside + buffers.network_buffer : inside;
}

}  // namespace trireme::cost
