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

/// What a stage does up to where it meets another.
struct Item {
  enum class Kind : std::uint8_t { work, send, receive, sum, meeting };

  Kind kind = Kind::work;
  bool forward = true;   // of a message
  std::size_t peer = 0;  // of a message
  Seconds seconds;       // of a message; else the length of the work
};

/// One stage's step as a row of items, and what its work adds up to.
class Stage {
 public:
  Stage(const Program& program, const Machine& machine, SegmentTimes times)
      : program_(program), machine_(machine), times_(std::move(times)), ledger_(times_.busy) {
    find_meetings();
    list(0, static_cast<std::uint32_t>(program.nodes().size()));
    end_work();
  }

  [[nodiscard]] std::span<const Item> items() const { return items_; }

  [[nodiscard]] const ledger::TimeLedger& ledger() const { return ledger_; }

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
    meets_.resize(program_.nodes().size());
    for (std::size_t i = program_.nodes().size(); i-- > 0;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        meets_[i] = meeting_of(program_.segments()[node.segment]) != nullptr;
        continue;
      }
      for (std::size_t inner = i + 1; inner < node.end; ++inner) {
        meets_[i] = meets_[i] || meets_[inner];
      }
    }
  }

  void list(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        list_segment(node.segment, 1);
        ++i;
        continue;
      }
      if (meets_[i]) {
        for (std::int32_t k = 0; k < node.count; ++k) {
          list(i + 1, node.end);
        }
      } else {
        list_work(i + 1, node.end, node.count);
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
    const auto times = static_cast<double>(count);
    const SegmentTime& time = times_.segment[number];
    ledger_.exposed_communication += times * time.exposed_communication;
    ledger_.exposed_launch += times * time.exposed_launch;
    ledger_.compute_busy += times * time.compute_busy;
    const Op* const op = meeting_of(program_.segments()[number]);
    if (op == nullptr) {
      work_ += times * time.length;
      return;
    }
    end_work();
    Item item;
    if (program::crosses_stages(*op)) {
      item.kind = op->function == Function::stage_send      ? Item::Kind::send
                  : op->function == Function::stage_receive ? Item::Kind::receive
                                                            : Item::Kind::sum;
      item.forward =
          op->stream == program::kSendForwardStream || op->stream == program::kReceiveForwardStream;
      item.peer = static_cast<std::size_t>(op->peer_stage);
      item.seconds = *op_time(program_, *op, machine_);
    } else {
      item.kind = Item::Kind::meeting;
      item.seconds = time.length;
    }
    items_.push_back(item);
  }

  void end_work() {
    if (work_ > Seconds(0)) {
      items_.push_back({Item::Kind::work, true, 0, work_});
      work_ = Seconds(0);
    }
  }

  const Program& program_;
  const Machine& machine_;
  SegmentTimes times_;
  ledger::TimeLedger ledger_;
  std::vector<bool> meets_;  // by node: whether it, or a node inside, joins stages
  std::vector<Item> items_;
  Seconds work_;
};

/// Messages of one direction from one stage.
struct Channel {
  std::vector<Seconds> sent;  // when the sender had come to each
  std::size_t received = 0;
  Seconds free;  // end of the last
};

class Clock {
 public:
  explicit Clock(std::span<const Stage> stages)
      : stages_(stages), now_(stages.size()), place_(stages.size()), channels_(2 * stages.size()) {
    for (const Stage& stage : stages) {
      ledgers_.push_back(stage.ledger());
    }
  }

  ledger::TimeLedger run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        while (advance(stage)) {
          moved = true;
        }
      }
      moved = meet() || moved;
    }
    return conclude();
  }

 private:
  [[nodiscard]] const Item* next(std::size_t stage) const {
    const auto items = stages_[stage].items();
    return place_[stage] < items.size() ? &items[place_[stage]] : nullptr;
  }

  [[nodiscard]] Channel& channel(std::size_t sender, bool forward) {
    return channels_[2 * sender + (forward ? 1 : 0)];
  }

  /// Does a stage's next item; returns false where it has to wait for another stage.
  bool advance(std::size_t stage) {
    const Item* const item = next(stage);
    if (item == nullptr || item->kind == Item::Kind::meeting) {
      return false;
    }
    if (item->kind == Item::Kind::sum) {
      return advance_sum(stage, *item);
    }
    if (item->kind == Item::Kind::work) {
      now_[stage] += item->seconds;
    } else if (item->kind == Item::Kind::send) {
      channel(stage, item->forward).sent.push_back(now_[stage]);
    } else {
      Channel& from = channel(item->peer, item->forward);
      if (from.received == from.sent.size()) {
        return false;
      }
      const Seconds start = std::max({now_[stage], from.sent[from.received], from.free});
      ++from.received;
      ledgers_[stage].pipeline_bubble += start - now_[stage];
      ledgers_[stage].exposed_communication += item->seconds;
      now_[stage] = start + item->seconds;
      from.free = now_[stage];
    }
    ++place_[stage];
    return true;
  }

  /// Two stages exchange a sum once both have come to it.
  bool advance_sum(std::size_t stage, const Item& item) {
    const Item* const other = next(item.peer);
    if (other == nullptr || other->kind != Item::Kind::sum || other->peer != stage) {
      return false;
    }
    const Seconds start = std::max(now_[stage], now_[item.peer]);
    for (const std::size_t end : {stage, item.peer}) {
      ledgers_[end].pipeline_bubble += start - now_[end];
      ledgers_[end].exposed_communication += item.seconds;
      now_[end] = start + item.seconds;
      ++place_[end];
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
      start = std::max(start, now_[stage]);
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      ledgers_[stage].pipeline_bubble += start - now_[stage];
      now_[stage] = start + next(stage)->seconds;
      ++place_[stage];
    }
    return true;
  }

  ledger::TimeLedger conclude() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      ensure(next(stage) == nullptr, "pipeline: stages wait for each other");
      const Seconds end =
          std::max({now_[stage], channel(stage, true).free, channel(stage, false).free});
      ledgers_[stage].exposed_communication += end - now_[stage];
      ledgers_[stage].step = end;
    }
    return *std::max_element(ledgers_.begin(), ledgers_.end(), [](const auto& a, const auto& b) {
      return a.step < b.step;
    });
  }

  std::span<const Stage> stages_;
  std::vector<Seconds> now_;
  std::vector<std::size_t> place_;
  std::vector<Channel> channels_;  // by sender and direction
  std::vector<ledger::TimeLedger> ledgers_;
};

}  // namespace

std::optional<ledger::TimeLedger> read_time(std::span<const Program> stages,
                                            const Machine& machine) {
  if (stages.size() == 1) {
    return read_time(stages.front(), machine);
  }
  std::vector<Stage> timed;
  timed.reserve(stages.size());
  for (const Program& program : stages) {
    std::optional<SegmentTimes> times = segment_times(program, machine);
    if (!times) {
      return std::nullopt;
    }
    timed.emplace_back(program, machine, *std::move(times));
  }
  return Clock(timed).run();
}

}  // namespace trireme::engine
