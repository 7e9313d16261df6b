#include "sim/engine/network/run_messages.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace trireme::engine {

namespace {

/// A message of one of the collectives, by its number over all of them.
using MessageId = std::uint32_t;

constexpr MessageId kNone = std::numeric_limits<MessageId>::max();

/// One rank's messages in the order of their steps.
struct RankProgress {
  std::uint32_t next = 0;  // in `of_rank`: the first message of a step that is not reached yet
  std::uint32_t end = 0;
  std::uint32_t under_way = 0;  // of the step that it is in
};

struct Start {
  double time = 0;
  MessageId message = 0;
};

/// The soonest on top; of equal times the message that comes first.
bool later(const Start& a, const Start& b) {
  return a.time != b.time ? a.time > b.time : a.message > b.message;
}

class Run {
 public:
  Run(const Topology& topology, std::span<const RunningCollective> collectives)
      : topology_(topology), collectives_(collectives), network_(topology.network()) {
    for (const RunningCollective& collective : collectives) {
      first_message_.push_back(static_cast<MessageId>(messages_));
      first_rank_.push_back(static_cast<std::uint32_t>(ranks_));
      messages_ += collective.messages.size();
      ranks_ += collective.ranks.size();
      ends_.push_back(collective.start);
    }
    waiting_for_.assign(messages_, 0);
    list_messages_of_ranks();
  }

  std::vector<Seconds> run() {
    for (std::size_t c = 0; c < collectives_.size(); ++c) {
      for (std::size_t rank = 0; rank < collectives_[c].ranks.size(); ++rank) {
        enter_step(c, rank, collectives_[c].start);
      }
    }
    while (true) {
      const auto end = network_.next_end();
      if (!starts_.empty() && (!end || starts_.front().time < end->value())) {
        start_until(Seconds(starts_.front().time));
      } else if (end) {
        finish(*end);
      } else {
        return std::move(ends_);
      }
    }
  }

 private:
  void list_messages_of_ranks() {
    std::vector<std::uint32_t> sizes(ranks_ + 1, 0);
    for_each_endpoint([&](MessageId, std::size_t rank) { ++sizes[rank + 1]; });
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      sizes[rank + 1] += sizes[rank];
      progress_.push_back({.next = sizes[rank], .end = sizes[rank + 1], .under_way = 0});
    }
    of_rank_.resize(sizes.back());
    for_each_endpoint([&](MessageId id, std::size_t rank) {
      of_rank_[sizes[rank]++] = id;
      ++waiting_for_[id];
    });
  }

  template <class Visit>
  void for_each_endpoint(const Visit& visit) const {
    for (std::size_t c = 0; c < collectives_.size(); ++c) {
      MessageId id = first_message_[c];
      for (const Message& message : collectives_[c].messages) {
        const std::size_t first = first_rank_[c];
        visit(id, first + static_cast<std::size_t>(message.from));
        if (message.to != message.from) {
          visit(id, first + static_cast<std::size_t>(message.to));
        }
        ++id;
      }
    }
  }

  [[nodiscard]] const Message& message(std::size_t collective, MessageId id) const {
    return collectives_[collective].messages[id - first_message_[collective]];
  }

  [[nodiscard]] std::size_t collective_of(MessageId id) const {
    const auto next = std::upper_bound(first_message_.begin(), first_message_.end(), id);
    return static_cast<std::size_t>(next - first_message_.begin()) - 1;
  }

  /// A rank is through with a step: it comes to all messages of its next one.
  void enter_step(std::size_t c, std::size_t rank, Seconds now) {
    RankProgress& progress = progress_[first_rank_[c] + rank];
    if (progress.next == progress.end) {
      return;
    }
    const std::int32_t step = message(c, of_rank_[progress.next]).step;
    for (; progress.next < progress.end; ++progress.next) {
      const MessageId id = of_rank_[progress.next];
      const Message& next = message(c, id);
      if (next.step != step) {
        return;
      }
      ++progress.under_way;
      if (--waiting_for_[id] == 0) {
        const Seconds latency = next.delivery == Delivery::one_to_one
                                    ? topology_.latency(gpu(c, next.from), gpu(c, next.to))
                                    : topology_.shape().latency_inside;
        starts_.push_back({.time = (now + latency).value(), .message = id});
        std::push_heap(starts_.begin(), starts_.end(), later);
      }
    }
  }

  [[nodiscard]] std::int64_t gpu(std::size_t c, std::int32_t rank) const {
    return collectives_[c].ranks[static_cast<std::size_t>(rank)];
  }

  void start_until(Seconds time) {
    network_.advance(time);
    while (!starts_.empty() && starts_.front().time <= time.value()) {
      const MessageId id = starts_.front().message;
      std::pop_heap(starts_.begin(), starts_.end(), later);
      starts_.pop_back();
      const std::size_t c = collective_of(id);
      links_of(message(c, id), collectives_[c].ranks, topology_, links_);
      const FlowId flow = network_.start(links_, message(c, id).amount);
      if (flow >= message_of_flow_.size()) {
        message_of_flow_.resize(flow + 1, kNone);
      }
      message_of_flow_[flow] = id;
    }
  }

  void finish(Seconds time) {
    for (const FlowId flow : network_.advance(time)) {
      const MessageId id = message_of_flow_[flow];
      const std::size_t c = collective_of(id);
      const Message& ended = message(c, id);
      ends_[c] = time;
      leave(c, static_cast<std::size_t>(ended.from), time);
      if (ended.to != ended.from) {
        leave(c, static_cast<std::size_t>(ended.to), time);
      }
    }
  }

  void leave(std::size_t c, std::size_t rank, Seconds now) {
    if (--progress_[first_rank_[c] + rank].under_way == 0) {
      enter_step(c, rank, now);
    }
  }

  const Topology& topology_;
  std::span<const RunningCollective> collectives_;
  FlowNetwork network_;
  std::size_t messages_ = 0;
  std::size_t ranks_ = 0;
  std::vector<MessageId> first_message_;  // by collective
  std::vector<std::uint32_t> first_rank_;
  std::vector<Seconds> ends_;
  std::vector<RankProgress> progress_;     // by rank over all collectives
  std::vector<MessageId> of_rank_;         // rank by rank
  std::vector<std::uint8_t> waiting_for_;  // by message: ranks that have not come to it
  std::vector<Start> starts_;              // a heap
  std::vector<MessageId> message_of_flow_;
  std::vector<LinkId> links_;
};

}  // namespace

std::vector<Seconds> run_messages(const Topology& topology,
                                  std::span<const RunningCollective> collectives) {
  return Run(topology, collectives).run();
}

Seconds run_alone(const Topology& topology,
                  const Algorithm& algorithm,
                  Bytes payload,
                  PlacedRanks ranks,
                  std::int64_t pieces) {
  const std::vector<Message> messages = algorithm.expand(payload, ranks, topology, pieces);
  const RunningCollective collective{messages, ranks, Seconds(0)};
  return run_messages(topology, std::span(&collective, 1)).front();
}

}  // namespace trireme::engine
