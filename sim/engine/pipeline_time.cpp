// Analytic seconds of a pipeline: the stages' clocks, which messages between them join.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/core/error.h"
#include "sim/engine/analytic.h"
#include "sim/engine/segment_times.h"

namespace trireme::engine {

using program::Function;
using program::Node;
using program::Op;
using program::Program;
using program::Segment;

namespace {

/// Where a stage meets another, and what it does alone up to the next such place.
struct Item {
  enum class Kind : std::uint8_t { start, send, receive, sum, meeting };

  Kind kind = Kind::start;
  std::uint16_t peer = 0;     // of a message
  std::uint32_t channel = 0;  // of a message
  Seconds seconds;            // of the message or the meeting
  Seconds then;               // of the work after it
};

/// Items from `first` to `end`, `count` times over.
struct Loop {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::int32_t count = 1;
};

/// Messages of one direction that a stage sends.
std::uint32_t channel_of(std::int64_t sender, bool forward) {
  return static_cast<std::uint32_t>(2 * sender + (forward ? 1 : 0));
}

/// One stage's step as loops over items.
class Stage {
 public:
  Stage(const Program& program, const Machine& machine, const SegmentTimes& times)
      : program_(program), machine_(machine), times_(times) {
    find_meetings();
    items_.emplace_back();
    list(0, static_cast<std::uint32_t>(program.nodes().size()), true);
    end_loop(1);
  }

  [[nodiscard]] std::span<const Item> items() const { return items_; }

  [[nodiscard]] std::span<const Loop> loops() const { return loops_; }

  /// Whether the machine's profile knows all messages.
  [[nodiscard]] bool known() const { return known_; }

  [[nodiscard]] const Program& program() const { return program_; }

  [[nodiscard]] const SegmentTimes& times() const { return times_; }

 private:
  /// The operation of a segment that joins this stage with others; none in most.
  [[nodiscard]] const Op* meeting_of(const Segment& segment) const {
    const program::Mesh& mesh = program_.mesh();
    for (const Op& op : program_.ops().subspan(segment.first_op, segment.ops)) {
      if (program::communicates(op) && (op.group & program::axis_bit(mesh.stage_axis())) != 0) {
        return &op;
      }
    }
    return nullptr;
  }

  void find_meetings() {
    for (const Segment& segment : program_.segments()) {
      meeting_.push_back(meeting_of(segment));
    }
    meets_.resize(program_.nodes().size());
    for (std::size_t i = program_.nodes().size(); i-- > 0;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        meets_[i] = meeting_[node.segment] != nullptr;
        continue;
      }
      for (std::size_t inner = i + 1; inner < node.end && !meets_[i]; ++inner) {
        meets_[i] = meets_[inner];
      }
    }
  }

  /// Lists nodes [first, last): the outermost repeats that meet others as loops, what is repeated
  /// inside of them one by one.
  void list(std::uint32_t first, std::uint32_t last, bool outermost) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        list_segment(node.segment, 1);
        ++i;
        continue;
      }
      if (!meets_[i]) {
        list_work(i + 1, node.end, node.count);
      } else if (outermost && node.count > 1) {
        end_loop(1);
        list(i + 1, node.end, false);
        end_loop(node.count);
      } else {
        for (std::int32_t k = 0; k < node.count; ++k) {
          list(i + 1, node.end, outermost);
        }
      }
      i = node.end;
    }
  }

  void list_work(std::uint32_t first, std::uint32_t last, std::int64_t times) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        list_segment(node.segment, times);
        ++i;
      } else {
        list_work(i + 1, node.end, times * node.count);
        i = node.end;
      }
    }
  }

  void list_segment(std::uint16_t number, std::int64_t count) {
    const Op* const op = meeting_[number];
    if (op == nullptr) {
      if (items_.size() == loops_end()) {
        items_.emplace_back();  // work before the first meeting of a loop
      }
      items_.back().then += static_cast<double>(count) * times_.segment[number].length;
      return;
    }
    Item item;
    if (!program::crosses_stages(*op)) {
      item.kind = Item::Kind::meeting;
      item.seconds = times_.segment[number].length;
    } else {
      item.kind = op->function == Function::stage_send      ? Item::Kind::send
                  : op->function == Function::stage_receive ? Item::Kind::receive
                                                            : Item::Kind::sum;
      const std::int64_t peer = program_.peer_stage(*op);
      const bool receives = item.kind == Item::Kind::receive;
      item.peer = static_cast<std::uint16_t>(peer);
      item.channel = channel_of(receives ? peer : program_.stage(),
                                op->stream == program::kSendForwardStream ||
                                    op->stream == program::kReceiveForwardStream);
      const std::optional<Seconds> seconds = op_time(program_, *op, machine_);
      known_ = known_ && seconds;
      item.seconds = seconds.value_or(Seconds(0));
    }
    items_.push_back(item);
  }

  [[nodiscard]] std::uint32_t loops_end() const { return loops_.empty() ? 0 : loops_.back().end; }

  void end_loop(std::int32_t count) {
    const auto end = static_cast<std::uint32_t>(items_.size());
    if (end > loops_end()) {
      loops_.push_back({loops_end(), end, count});
    }
  }

  const Program& program_;
  const Machine& machine_;
  const SegmentTimes& times_;
  std::vector<const Op*> meeting_;  // by segment
  std::vector<bool> meets_;         // by node: whether it, or a node inside, joins stages
  std::vector<Item> items_;
  std::vector<Loop> loops_;
  bool known_ = true;
};

/// Messages of one direction from one stage to the one that receives them.
struct Channel {
  std::vector<Seconds> sent;  // when the sender had come to each
  std::size_t received = 0;
  Seconds free;  // end of the last
};

class Clock {
 public:
  explicit Clock(std::span<const Stage> stages)
      : stages_(stages), at_(stages.size()), channels_(2 * stages.size()) {}

  /// Of the stage that ends last.
  ledger::TimeLedger run(const Machine& machine) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        moved = advance(stage) || moved;
      }
      moved = meet() || moved;
    }
    return conclude(machine);
  }

 private:
  /// How far a stage has come.
  struct Place {
    std::size_t loop = 0;
    std::int32_t iteration = 0;
    std::uint32_t item = 0;
    Seconds now;
    Seconds bubble;
    Seconds in_messages;
  };

  [[nodiscard]] const Item* next(std::size_t stage) const {
    const Place& at = at_[stage];
    return at.loop < stages_[stage].loops().size() ? &stages_[stage].items()[at.item] : nullptr;
  }

  void step_on(std::size_t stage) {
    Place& at = at_[stage];
    const auto loops = stages_[stage].loops();
    const Loop& loop = loops[at.loop];
    if (++at.item < loop.end) {
      return;
    }
    if (++at.iteration < loop.count) {
      at.item = loop.first;
    } else {
      at.iteration = 0;
      ++at.loop;
    }
  }

  /// Goes on until a stage has to wait for another; returns whether it has moved.
  bool advance(std::size_t stage) {
    Place& at = at_[stage];
    bool moved = false;
    for (const Item* item = next(stage); item != nullptr; item = next(stage)) {
      switch (item->kind) {
        case Item::Kind::start:
          break;
        case Item::Kind::send:
          channels_[item->channel].sent.push_back(at.now);
          break;
        case Item::Kind::receive: {
          Channel& from = channels_[item->channel];
          if (from.received == from.sent.size()) {
            return moved;
          }
          // The one before has ended: this stage has received it.
          const Seconds start = std::max(at.now, from.sent[from.received]);
          ++from.received;
          at.bubble += start - at.now;
          at.in_messages += item->seconds;
          at.now = start + item->seconds;
          from.free = at.now;
          break;
        }
        case Item::Kind::sum:
          if (!sum(stage, *item)) {
            return moved;
          }
          moved = true;
          continue;
        case Item::Kind::meeting:
          return moved;
      }
      at.now += item->then;
      step_on(stage);
      moved = true;
    }
    return moved;
  }

  /// Two stages exchange a sum once both have come to it.
  bool sum(std::size_t stage, const Item& item) {
    const Item* const other = next(item.peer);
    if (other == nullptr || other->kind != Item::Kind::sum || other->peer != stage) {
      return false;
    }
    const Seconds start = std::max(at_[stage].now, at_[item.peer].now);
    for (const std::size_t end : {stage, static_cast<std::size_t>(item.peer)}) {
      Place& at = at_[end];
      at.bubble += start - at.now;
      at.in_messages += item.seconds;
      at.now = start + item.seconds + next(end)->then;
      step_on(end);
    }
    return true;
  }

  /// A collective over all stages, once they have come to it.
  bool meet() {
    Seconds start;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const Item* const item = next(stage);
      if (item == nullptr || item->kind != Item::Kind::meeting) {
        return false;
      }
      start = std::max(start, at_[stage].now);
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const Item& item = *next(stage);
      Place& at = at_[stage];
      at.bubble += start - at.now;
      at.now = start + item.seconds + item.then;
      step_on(stage);
    }
    return true;
  }

  ledger::TimeLedger conclude(const Machine& machine) {
    std::size_t last = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      ensure(next(stage) == nullptr, "pipeline: stages wait for each other");
      Place& at = at_[stage];
      const auto sender = static_cast<std::int64_t>(stage);
      const Seconds end = std::max({at.now,
                                    channels_[channel_of(sender, true)].free,
                                    channels_[channel_of(sender, false)].free});
      at.in_messages += end - at.now;
      at.now = end;
      last = at.now > at_[last].now ? stage : last;
    }
    const Place& at = at_[last];
    ledger::TimeLedger ledger =
        sum_of_segments(stages_[last].program(), stages_[last].times(), machine);
    ledger.step = at.now;
    ledger.pipeline_bubble = at.bubble;
    ledger.exposed_communication += at.in_messages;
    return ledger;
  }

  std::span<const Stage> stages_;
  std::vector<Place> at_;
  std::vector<Channel> channels_;  // by channel_of
};

}  // namespace

std::optional<ledger::TimeLedger> read_time(std::span<const Program> stages,
                                            const Machine& machine) {
  if (stages.size() == 1) {
    return read_time(stages.front(), machine);
  }
  std::vector<std::optional<SegmentTimes>> known(stages.size());
  std::vector<Stage> timed;
  timed.reserve(stages.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::size_t first = 0;
    while (!stages[first].shares_segments_with(stages[stage])) {
      ++first;
    }
    if (first == stage) {
      known[first] = segment_times(stages[stage], machine);
    }
    if (!known[first]) {
      return std::nullopt;
    }
    if (!timed.emplace_back(stages[stage], machine, *known[first]).known()) {
      return std::nullopt;
    }
  }
  return Clock(timed).run(machine);
}

}  // namespace trireme::engine
