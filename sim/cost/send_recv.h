// Seconds of point-to-point messages.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cost/machine_costs.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// Seconds of one message between two GPUs of a node, in a communicator of `ranks`. Zero for one
/// rank.
///
/// EQ send-recv-time: T = a + max(min(S / (l r), Q / r), S / min(m r, beta)),
///   l = max(1, floor(m / n))
///   S     message                                                            [bytes]
///   n     ranks of the communicator                                          [ranks]
///   a     costs.start                                                        [seconds]
///   r     costs.channel_rate                                                 [bytes/second]
///   m     costs.channels                                                     [1]
///   l     channels of a small message                                        [1]
///   Q     costs.channel_bytes: beyond l Q channels double with the message  [bytes]
///   beta  costs.link_rate                                                    [bytes/second]
/// Source: fit_forms, section 1 (C2), S / min(ch r, beta) with ch = 2^ceil(log2(S / Q)) between
///   m / n and m. Here its envelope: equal at Q times powers of two, where it was measured, and
///   flat between them, where the original falls by half at each step, so that more bytes are
///   never faster.
/// Valid:  both directions at once, as in a ring; error 1/4 % held out over rank counts.
/// Tests:  tests/unit/cost/send_recv_test.cpp, tests/property/collectives_test.cpp
[[nodiscard]] inline Seconds send_recv_time(Bytes message,
                                            std::int64_t ranks,
                                            const SendRecvCosts& costs) {
  if (ranks == 1) {
    return Seconds(0);
  }
  const std::int64_t least_channels = std::max<std::int64_t>(1, costs.channels / ranks);
  const BytesPerSecond small_rate = static_cast<double>(least_channels) * costs.channel_rate;
  const BytesPerSecond full_rate =
      std::min(static_cast<double>(costs.channels) * costs.channel_rate, costs.link_rate);
  const Seconds ramp = std::min(message / small_rate, costs.channel_bytes / costs.channel_rate);
  return costs.start + std::max(ramp, message / full_rate);
}

/// Seconds of one message to a GPU of another node, in a communicator of `ranks`.
///
/// EQ send-recv-off-node-time: T = S / R, R = eff NIC, at most Rc when n >= nc
///   S    message                                                             [bytes]
///   n    ranks of the communicator                                           [ranks]
///   eff  costs.nic_efficiency                                                [1]
///   NIC  nic_rate: line rate of a GPU's NIC                                  [bytes/second]
///   nc   costs.crowded.ranks, when large communicators were measured         [ranks]
///   Rc   costs.crowded.rate: one channel serves a peer in them               [bytes/second]
/// Source: fit_forms, section 2, "Send/recv across nodes" and "Defaults"
/// Valid:  large messages: no latency was measured. Between 2 nodes and nc ranks the rate falls in
///   steps that are not modelled (25 GB/s on 10 to 40 ranks of H100).
/// Tests:  tests/unit/cost/send_recv_test.cpp, tests/property/collectives_test.cpp
[[nodiscard]] inline Seconds send_recv_off_node_time(Bytes message,
                                                     std::int64_t ranks,
                                                     BytesPerSecond nic_rate,
                                                     const MultiNodeSendRecvCosts& costs) {
  const BytesPerSecond rate = costs.nic_efficiency * nic_rate;
  const bool crowded = costs.crowded && ranks >= costs.crowded->ranks;
  return message / (crowded ? std::min(rate, costs.crowded->rate) : rate);
}

}  // namespace trireme::cost
