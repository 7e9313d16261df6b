#include "sim/cost/device_memory.h"

#include "tests/catch.h"

namespace trireme::cost {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

NcclBuffers buffers() {
  return {.receive_per_channel = Bytes(10 * kMiB),
          .send_per_channel = Bytes(2 * kMiB),
          .ring_peers = 2,
          .ring_channels = 24,
          .peer_channels = 32,
          .network_buffer = Bytes(512 * kMiB)};
}

TEST_CASE("a reserve is a share of all that is allocated, or of what is not resident", "[unit]") {
  // 1000 + 4 % of 1000; 1000 + 4 % of (1000 - 250).
  CHECK(reserved_memory(Bytes(1000), Bytes(250), ReserveBase::allocated, 0.04) == Bytes(1040));
  CHECK(reserved_memory(Bytes(1000), Bytes(250), ReserveBase::transient, 0.04) == Bytes(1030));
}

TEST_CASE("buffers of NCCL: 12 MiB for each channel of each peer", "[unit]") {
  CHECK(nccl_ring_buffers(1, buffers()) == Bytes(0));
  CHECK(nccl_ring_buffers(8, buffers()) == Bytes(24 * 2 * 12 * kMiB));
  CHECK(nccl_peer_buffers(1, 1, buffers()) == Bytes(0));
  CHECK(nccl_peer_buffers(4, 4, buffers()) == Bytes(4 * 32 * 12 * kMiB));
  // 16 ranks of 2 nodes: the peers of the other node share one buffer.
  CHECK(nccl_peer_buffers(16, 8, buffers()) == Bytes((8 * 32 * 12 + 512) * kMiB));
}

}  // namespace
}  // namespace trireme::cost
