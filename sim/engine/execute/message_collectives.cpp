#include "sim/engine/execute/message_collectives.h"

#include <algorithm>
#include <cstddef>

#include "sim/cost/collective_bytes.h"

namespace trireme::engine {

namespace {

std::int64_t rank_at(const MessageGroup& group, std::int64_t position) {
  return group.ranks[static_cast<std::size_t>(position)];
}

/// The position `steps` further around the ring; `steps` may be negative, not below -2 rings.
std::int64_t around(const MessageGroup& group, std::int64_t position, std::int64_t steps) {
  return (position + steps + 2 * group.size()) % group.size();
}

void book(Carrier& carrier, std::int64_t peer, Bytes sent, Bytes received) {
  const std::int64_t node = carrier.transport.rank() / carrier.gpus_per_node;
  const bool off_node = peer / carrier.gpus_per_node != node;
  carrier.count.ledger.book(carrier.account, sent, off_node ? sent : Bytes(0), received);
}

Bytes wire_bytes(const Carrier& carrier, std::span<const double> message) {
  return bytes_of(Elements(static_cast<std::int64_t>(message.size())), carrier.type);
}

// Both ends know that a chunk is empty, so that no message is needed for it.

void send(Carrier& carrier, std::int64_t to, std::span<const double> message) {
  if (message.empty()) {
    return;
  }
  carrier.transport.send(to, message);
  const Bytes sent = wire_bytes(carrier, message);
  carrier.count.sent_to[to] += sent;
  book(carrier, to, sent, Bytes(0));
}

void receive(Carrier& carrier, std::int64_t from, std::span<double> message) {
  if (message.empty()) {
    return;
  }
  carrier.transport.receive(from, message);
  const Bytes received = wire_bytes(carrier, message);
  carrier.count.received_from[from] += received;
  book(carrier, from, Bytes(0), received);
}

/// Chunk `index` of `values` cut for the group, as the byte formulas cut a payload.
template <class Value>
std::span<Value> chunk(const MessageGroup& group, std::span<Value> values, std::int64_t index) {
  const std::size_t ranks = group.ranks.size();
  const auto before = static_cast<std::size_t>(index);
  // The chunks before it are of values.size() / ranks elements, the first ones of one more.
  const std::size_t first =
      before * (values.size() / ranks) + std::min(before, values.size() % ranks);
  const Elements elements =
      cost::chunk_elements(Elements(static_cast<std::int64_t>(values.size())), group.size(), index);
  return values.subspan(first, static_cast<std::size_t>(elements.value()));
}

void combine_into(std::span<double> values, std::span<const double> others, Combine combine) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = combine == Combine::sum ? others[i] + values[i] : std::max(others[i], values[i]);
  }
}

/// n - 1 steps around the ring, after which the rank's own chunk holds the sum; the other chunks
/// hold partial sums. Each chunk travels from its successor to its owner.
void ring_reduce(Carrier& carrier,
                 const MessageGroup& group,
                 std::span<double> values,
                 Combine combine) {
  const std::int64_t position = group.position;
  const std::int64_t successor = rank_at(group, around(group, position, 1));
  const std::int64_t predecessor = rank_at(group, around(group, position, -1));
  std::vector<double> incoming;
  for (std::int64_t step = 1; step < group.size(); ++step) {
    send(carrier, successor, chunk(group, values, around(group, position, -step)));
    const std::span<double> own = chunk(group, values, around(group, position, -step - 1));
    incoming.resize(own.size());
    receive(carrier, predecessor, incoming);
    combine_into(own, incoming, combine);
  }
}

/// n - 1 steps around the ring, before which the rank holds its own chunk and after which it holds
/// all.
void ring_gather(Carrier& carrier, const MessageGroup& group, std::span<double> values) {
  const std::int64_t position = group.position;
  const std::int64_t successor = rank_at(group, around(group, position, 1));
  const std::int64_t predecessor = rank_at(group, around(group, position, -1));
  for (std::int64_t step = 0; step + 1 < group.size(); ++step) {
    send(carrier, successor, chunk(group, values, around(group, position, -step)));
    receive(carrier, predecessor, chunk(group, values, around(group, position, -step - 1)));
  }
}

void check(const Carrier& carrier, const MessageGroup& group) {
  ensure(group.position >= 0 && group.position < group.size() &&
             rank_at(group, group.position) == carrier.transport.rank(),
         "collective: the rank does not stand at its position of the group");
}

}  // namespace

void all_gather(Carrier& carrier,
                const MessageGroup& group,
                std::span<const double> shard,
                std::span<double> gathered) {
  check(carrier, group);
  ensure(gathered.size() == shard.size() * group.ranks.size(),
         "all_gather: the whole is not a shard for each rank");
  std::copy(shard.begin(), shard.end(), chunk(group, gathered, group.position).begin());
  ring_gather(carrier, group, gathered);
}

void reduce_scatter(Carrier& carrier,
                    const MessageGroup& group,
                    std::span<const double> whole,
                    std::span<double> shard,
                    Combine combine) {
  check(carrier, group);
  ensure(whole.size() == shard.size() * group.ranks.size(),
         "reduce_scatter: the whole is not a shard for each rank");
  std::vector<double> sums(whole.begin(), whole.end());
  ring_reduce(carrier, group, sums, combine);
  const std::span<const double> own = chunk(group, std::span(sums), group.position);
  std::copy(own.begin(), own.end(), shard.begin());
}

void all_reduce(Carrier& carrier,
                const MessageGroup& group,
                std::span<double> values,
                Combine combine) {
  check(carrier, group);
  ring_reduce(carrier, group, values, combine);
  ring_gather(carrier, group, values);
}

void all_to_all(Carrier& carrier,
                const MessageGroup& group,
                std::span<const double> from,
                std::span<double> to) {
  check(carrier, group);
  ensure(from.size() == to.size() && from.size() % group.ranks.size() == 0,
         "all_to_all: what is sent or received is not a chunk for each rank");
  const std::span<const double> kept = chunk(group, from, group.position);
  std::copy(kept.begin(), kept.end(), chunk(group, to, group.position).begin());
  for (std::int64_t step = 1; step < group.size(); ++step) {
    const std::int64_t destination = around(group, group.position, step);
    const std::int64_t source = around(group, group.position, -step);
    send(carrier, rank_at(group, destination), chunk(group, from, destination));
    receive(carrier, rank_at(group, source), chunk(group, to, source));
  }
}

void send_message(Carrier& carrier, std::int64_t peer, std::span<const double> message) {
  send(carrier, peer, message);
}

void receive_message(Carrier& carrier, std::int64_t peer, std::span<double> message) {
  receive(carrier, peer, message);
}

void hop(Carrier& carrier,
         const MessageGroup& group,
         std::int64_t shift,
         std::span<const double> from,
         std::span<double> to) {
  check(carrier, group);
  ensure(from.size() == to.size() && shift % group.size() != 0,
         "hop: blocks of different sizes, or a rank that sends to itself");
  send(carrier, rank_at(group, around(group, group.position, shift)), from);
  receive(carrier, rank_at(group, around(group, group.position, -shift)), to);
}

}  // namespace trireme::engine
