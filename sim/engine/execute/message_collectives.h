// Collectives built from messages, and the count of every byte that they put on the wire.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/engine/execute/transport.h"
#include "sim/ledger/ledger.h"
#include "sim/units/units.h"

namespace trireme::engine {

/// The ranks of a group in order of position, and this rank's place among them.
struct MessageGroup {
  std::vector<std::int64_t> ranks;
  std::int64_t position = 0;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(ranks.size()); }
};

/// What one rank has sent and received, counted message by message: elements times the width of the
/// tensor's declared type, whatever the transport carries.
struct WireCount {
  ledger::ByteLedger ledger;
  std::map<std::int64_t, Bytes> sent_to;
  std::map<std::int64_t, Bytes> received_from;
};

/// Carries one tensor of one collective: where its messages are booked, and as which type.
struct Carrier {
  Transport& transport;
  WireCount& count;
  ledger::ByteAccount account;
  ElementType type = ElementType::bf16;
  std::int64_t gpus_per_node = 1;
};

enum class Combine : std::uint8_t { sum, max };

// Buffers hold one chunk per rank, in order of position. `chunks` of reduce_scatter, all_gather and
// all_to_all are equal; all_reduce cuts its buffer into chunks as cost::chunk_elements does.

/// Ring: `gathered` becomes the shards of all ranks.
void all_gather(Carrier& carrier,
                const MessageGroup& group,
                std::span<const double> shard,
                std::span<double> gathered);

/// Ring: `shard` becomes this rank's chunk of the sum over ranks.
void reduce_scatter(Carrier& carrier,
                    const MessageGroup& group,
                    std::span<const double> whole,
                    std::span<double> shard,
                    Combine combine);

/// Ring reduce-scatter and all-gather: every rank's `values` become the sum over ranks.
void all_reduce(Carrier& carrier,
                const MessageGroup& group,
                std::span<double> values,
                Combine combine);

/// Pairwise exchange: chunk i of `from` goes to position i.
void all_to_all(Carrier& carrier,
                const MessageGroup& group,
                std::span<const double> from,
                std::span<double> to);

/// One message to, or from, `peer`.
void send_message(Carrier& carrier, std::int64_t peer, std::span<const double> message);
void receive_message(Carrier& carrier, std::int64_t peer, std::span<double> message);

/// One hop of a ring: `from` goes to position + shift, `to` comes from position - shift.
void hop(Carrier& carrier,
         const MessageGroup& group,
         std::int64_t shift,
         std::span<const double> from,
         std::span<double> to);

}  // namespace trireme::engine
