#include "sim/program/lifetimes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/program/builder.h"
#include "sim/program/instances.h"

namespace trireme::program {

namespace {

constexpr std::size_t kMaxDepth = 8;

enum class Overlap { none, some, all };

/// The repeats around one run of a segment, outermost first.
struct Context {
  std::array<std::uint16_t, kMaxDepth> repeats{};
  std::uint8_t depth = 0;
  IndexMask bound = 0;
  IndexMask looping = 0;  // bound by a repeat of more than one iteration
  IndexMask beyond = 0;   // bound by a repeat that leaves the extents
  std::array<std::int32_t, kIndexCount> shift{};
  std::uint32_t start = 0;     // operations of the runs before
  std::int32_t next_run = -1;  // of the same segment
};

/// What holds for some, or all, runs of a segment.
struct SegmentRuns {
  std::int32_t first = -1;
  std::int32_t last = -1;
  std::uint16_t count = 0;
  IndexMask bound = 0xff;  // in all
  IndexMask looping = 0;   // in some
  IndexMask moved = 0;     // in some: beyond the extents, or to other instances
};

/// One reference to a tensor's memory in one run, with the instances it reaches over the whole
/// step.
struct Use {
  Operand operand;
  std::uint32_t operand_index = 0;
  OpId op = 0;
  std::uint32_t number = 0;  // of the reference, the same in all runs
  std::uint16_t run = 0;
  std::array<std::int32_t, kIndexCount> offset{};  // that of the run included
  Instances instances;
  // The repeats that bind the tensor's indices, outermost first, up to the first that does not.
  std::array<std::uint16_t, kMaxDepth> path{};
  std::uint8_t depth = 0;
  /// The repeat at whose end the use is over, for a tensor that does not vary over its index.
  std::int32_t ends_with_repeat = -1;
  std::int64_t instances_per_end = 1;
  /// Order of issue: of the operation, which reads before it writes, or of the repeat's end.
  std::uint32_t position = 0;
};

class LifetimeDeriver {
 public:
  LifetimeDeriver(Pool& pool, std::vector<Node>& nodes)
      : extents_(pool.extents),
        tensors_(pool.tensors),
        ops_(pool.ops),
        operands_(pool.operands),
        segments_(pool.segments),
        nodes_(nodes) {}

  void run() {
    brief_.reserve(tensors_.size());
    for (const Tensor& tensor : tensors_) {
      brief_.push_back({tensor.root, tensor.varies, tensor.storage == Storage::in_place});
    }
    find_contexts();
    sort_uses_by_memory();
    births_.reserve(tensors_.size());
    deaths_.reserve(tensors_.size());
    for (std::size_t root = 0; root < tensors_.size(); ++root) {
      if (tensors_[root].root == root) {
        derive(static_cast<TensorId>(root));
      }
    }
  }

  /// (operation, tensor) pairs, in no particular order.
  struct Event {
    OpId op;
    TensorId tensor;
    std::uint16_t operand;  // of the operation: the last use, for a death
  };

  struct RepeatEvent {
    std::uint32_t node;
    RepeatDeath death;
  };

  std::vector<Event> births_;
  std::vector<Event> deaths_;
  std::vector<RepeatEvent> repeat_deaths_;

 private:
  [[nodiscard]] std::string name_of(const Use& use) const {
    const Tensor& tensor = tensors_[use.operand.ref.tensor];
    std::string text = display_name(tensor);
    for (std::size_t i = 0; i < kIndexCount; ++i) {
      if ((tensor.varies & (1U << i)) != 0) {
        const Range& range = use.instances.range[i];
        text += range.lo == range.hi
                    ? fmt::format("[{} {}]", kIndexNames[i], range.lo)
                    : fmt::format("[{} {}..{}]", kIndexNames[i], range.lo, range.hi);
      }
    }
    return text;
  }

  [[noreturn]] void refuse(const Use& use, const std::string& why) const {
    throw BuildError(
        fmt::format("operation '{}': tensor '{}': {}", ops_[use.op].label, name_of(use), why));
  }

  struct UseIndex {
    OpId op;
    std::uint32_t operand;
  };

  void find_contexts() {
    segment_of_op_.resize(ops_.size());
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      std::fill_n(segment_of_op_.begin() + static_cast<std::ptrdiff_t>(segments_[i].first_op),
                  segments_[i].ops,
                  static_cast<std::uint16_t>(i));
    }
    runs_.resize(segments_.size());
    last_op_.resize(nodes_.size());
    Context open;
    std::array<std::uint32_t, kMaxDepth> ends{};
    for (std::uint32_t i = 0; i <= nodes_.size(); ++i) {
      while (open.depth > 0 && ends[open.depth - 1U] == i) {
        const std::uint16_t closing = open.repeats[--open.depth];
        last_op_[closing] = open.start - 1;
        open.bound = static_cast<IndexMask>(open.bound & ~index_bit(nodes_[closing].index));
        open.looping = static_cast<IndexMask>(open.looping & ~index_bit(nodes_[closing].index));
        open.beyond = static_cast<IndexMask>(open.beyond & ~index_bit(nodes_[closing].index));
      }
      if (i == nodes_.size()) {
        break;
      }
      const Node& node = nodes_[i];
      if (node.kind == Node::Kind::repeat) {
        ends[open.depth] = node.end;
        open.repeats[open.depth++] = static_cast<std::uint16_t>(i);
        open.bound = static_cast<IndexMask>(open.bound | index_bit(node.index));
        if (node.count > 1) {
          open.looping = static_cast<IndexMask>(open.looping | index_bit(node.index));
        }
        const std::int32_t last = node.first + node.step * (node.count - 1);
        if (std::min(node.first, last) < 0 ||
            std::max(node.first, last) >= extents_[static_cast<std::size_t>(node.index)]) {
          open.beyond = static_cast<IndexMask>(open.beyond | index_bit(node.index));
        }
        continue;
      }
      add_run(node, open);
      open.start += segments_[node.segment].ops;
    }
  }

  void add_run(const Node& node, const Context& around) {
    SegmentRuns& runs = runs_[node.segment];
    const auto number = static_cast<std::int32_t>(contexts_.size());
    (runs.count == 0 ? runs.first : contexts_[static_cast<std::size_t>(runs.last)].next_run) =
        number;
    runs.last = number;
    ++runs.count;
    contexts_.push_back(around);
    contexts_.back().shift = node.shift;
    runs.bound = static_cast<IndexMask>(runs.bound & around.bound);
    runs.looping = static_cast<IndexMask>(runs.looping | around.looping);
    runs.moved = static_cast<IndexMask>(runs.moved | around.beyond);
    for (std::size_t i = 0; i < kIndexCount; ++i) {
      if (node.shift[i] != 0) {
        runs.moved = static_cast<IndexMask>(runs.moved | (1U << i));
      }
    }
  }

  /// Groups operands by the memory they refer to, in program order.
  void sort_uses_by_memory() {
    first_use_.assign(tensors_.size() + 1, 0);
    for (const Operand& operand : operands_) {
      ++first_use_[brief_[operand.ref.tensor].root + 1U];
    }
    for (std::size_t i = 1; i < first_use_.size(); ++i) {
      first_use_[i] += first_use_[i - 1];
    }
    uses_.resize(operands_.size());
    std::vector<std::uint32_t> next(first_use_.begin(), first_use_.end() - 1);
    for (OpId op = 0; op < ops_.size(); ++op) {
      const Op& operation = ops_[op];
      for (std::uint32_t i = 0; i < operation.operands; ++i) {
        const std::uint32_t operand = operation.first_operand + i;
        uses_[next[brief_[operands_[operand].ref.tensor].root]++] = {op, operand};
      }
    }
  }

  void derive(TensorId root) {
    const std::uint32_t first = first_use_[root];
    const std::uint32_t last = first_use_[root + 1U];
    if (first == last) {
      return;
    }
    const Tensor& tensor = tensors_[root];
    const std::uint16_t segment = segment_of_op_[uses_[first].op];
    bool simple = tensor.resident || (runs_[segment].looping & ~tensor.varies) == 0;
    const auto& offset = operands_[uses_[first].operand].ref.offset;
    for (std::uint32_t i = first; i < last && simple; ++i) {
      const Operand& operand = operands_[uses_[i].operand];
      const std::uint16_t of_use = segment_of_op_[uses_[i].op];
      const SegmentRuns& runs = runs_[of_use];
      simple = (tensor.resident ? operand.ref.offset == std::array<std::int16_t, kIndexCount>{} &&
                                      (tensor.varies & runs.moved) == 0
                                : of_use == segment && operand.ref.offset == offset) &&
               (brief_[operand.ref.tensor].varies & ~runs.bound) == 0 &&
               !brief_[operand.ref.tensor].in_place;
    }
    if (simple && tensor.resident) {
      return;  // always there, and every reference stays within the extents
    }
    if (simple && derive_within_one_segment(root, first, last)) {
      return;
    }
    derive_across_runs(root, first, last);
  }

  /// Every use stands in one segment and reaches the same instance in each of its runs: the first
  /// is the birth, the last the death. Returns false where something is wrong, for the general case
  /// to say what.
  bool derive_within_one_segment(TensorId root, std::uint32_t first, std::uint32_t last) {
    const Operand& birth = operands_[uses_[first].operand];
    const Operand& death = operands_[uses_[last - 1].operand];
    const bool written_and_read_at_once =
        first + 1 < last && uses_[first + 1].op == uses_[first].op;
    if (birth.access != Access::write || written_and_read_at_once ||
        (death.access == Access::write && tensors_[root].role != Role::workspace)) {
      return false;
    }
    for (std::uint32_t i = first; i < last; ++i) {
      const Operand& one = operands_[uses_[i].operand];
      for (std::uint32_t j = i + 1; j < last && one.access == Access::write; ++j) {
        const Operand& other = operands_[uses_[j].operand];
        if (other.access == Access::write && one.ref.tensor == other.ref.tensor) {
          return false;
        }
      }
    }
    record_birth(uses_[first].op, root);
    record_death(uses_[last - 1], root, ops_[uses_[first].op].phase);
    return true;
  }

  void record_birth(OpId op, TensorId root) {
    ++ops_[op].births;
    births_.push_back({op, root, 0});
  }

  void record_death(const UseIndex& last_use, TensorId root, Phase born) {
    Op& op = ops_[last_use.op];
    ++op.deaths;
    deaths_.push_back(
        {last_use.op, root, static_cast<std::uint16_t>(last_use.operand - op.first_operand)});
    note_saved(last_use.op, root, born);
  }

  void note_saved(OpId last_use, TensorId root, Phase born) {
    if (born <= Phase::recompute && ops_[last_use].phase > born) {
      tensors_[root].saved = true;
    }
  }

  [[nodiscard]] Use make_use(std::uint32_t use_index, std::int32_t run) const {
    Use use;
    use.op = uses_[use_index].op;
    use.operand_index = uses_[use_index].operand;
    use.operand = operands_[use.operand_index];
    use.run = static_cast<std::uint16_t>(run);
    const Context& context = contexts_[use.run];
    const OpId in_run = use.op - segments_[segment_of_op_[use.op]].first_op;
    use.position = 4 * (context.start + in_run) + (use.operand.access == Access::write ? 1 : 0);
    for (std::size_t i = 0; i < kIndexCount; ++i) {
      use.offset[i] = use.operand.ref.offset[i] + context.shift[i];
    }
    const Tensor& memory = tensors_[tensors_[use.operand.ref.tensor].root];
    const IndexMask varies = tensors_[use.operand.ref.tensor].varies;
    if ((varies & ~context.bound) != 0) {
      refuse(use, "no repeat around the operation binds one of its indices");
    }
    for (std::size_t i = 0; i < context.depth; ++i) {
      const std::uint16_t id = context.repeats[i];
      const Node& repeat = nodes_[id];
      const auto index = static_cast<std::size_t>(repeat.index);
      if ((memory.varies & index_bit(repeat.index)) != 0) {
        const std::int32_t begin = repeat.first + use.offset[index];
        const std::int32_t end = begin + repeat.step * (repeat.count - 1);
        use.instances.range[index] = {std::min(begin, end),
                                      std::max(begin, end),
                                      repeat.count == 1 ? 1 : std::abs(repeat.step)};
        if (use.ends_with_repeat < 0) {
          use.path[use.depth++] = id;
        } else {
          use.instances_per_end *= repeat.count;
        }
      } else if (repeat.count > 1 && use.ends_with_repeat < 0 && !memory.resident) {
        use.ends_with_repeat = id;
        use.position = 4 * last_op_[id] + 2;
      }
    }
    return use;
  }

  /// Whether `a` comes before `b` for every instance that both reach.
  [[nodiscard]] bool earlier(const Use& a, const Use& b) const {
    for (std::size_t i = 0; i < std::min(a.depth, b.depth) && a.path[i] == b.path[i]; ++i) {
      const Node& repeat = nodes_[a.path[i]];
      const auto index = static_cast<std::size_t>(repeat.index);
      const std::int32_t shift = a.offset[index] - b.offset[index];
      if (shift != 0) {  // a larger offset meets an instance in an earlier iteration
        return repeat.step > 0 ? shift > 0 : shift < 0;
      }
    }
    return a.position < b.position;
  }

  /// How much of `use` the other uses reach as well. Ranges of different strides are cut into parts
  /// of one.
  template <class Iterator>
  [[nodiscard]] Overlap overlap(const Use& use, Iterator begin, Iterator end) {
    bool touched = false;
    Strides strides{};
    bool one_stride = adopt(strides, use.instances);
    for (Iterator other = begin; other != end; ++other) {
      if (other->instances.contains(use.instances)) {
        return Overlap::all;
      }
      if (!other->instances.disjoint(use.instances)) {
        touched = true;
        one_stride = adopt(strides, other->instances) && one_stride;
      }
    }
    if (!touched) {
      return Overlap::none;
    }
    std::vector<Instances>& left = left_;
    std::vector<Instances>& cuts = cuts_;
    left.clear();
    if (one_stride) {
      left.push_back(use.instances);
    } else {
      refine(use.instances, strides, left);
    }
    for (Iterator other = begin; other != end && !left.empty(); ++other) {
      cuts.clear();
      if (one_stride) {
        cuts.push_back(other->instances);
      } else if (!other->instances.disjoint(use.instances)) {
        refine(other->instances, strides, cuts);
      }
      for (const Instances& cut : cuts) {
        rest_.clear();
        for (const Instances& piece : left) {
          subtract(piece, cut, strides, rest_);
        }
        left.swap(rest_);
      }
    }
    return left.empty() ? Overlap::all : Overlap::some;
  }

  /// Fills `sorted_` with every use in every run, in the order in which they reach an instance.
  void find_uses(std::uint32_t first, std::uint32_t last) {
    found_.clear();
    order_.clear();
    for (std::uint32_t i = first; i < last; ++i) {
      std::int32_t run = runs_[segment_of_op_[uses_[i].op]].first;
      for (; run >= 0; run = contexts_[static_cast<std::size_t>(run)].next_run) {
        order_.push_back(static_cast<std::uint32_t>(found_.size()));
        found_.push_back(make_use(i, run));
        found_.back().number = i - first;
      }
    }
    std::stable_sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return earlier(found_[a], found_[b]);
    });
    sorted_.clear();
    for (const std::uint32_t i : order_) {
      sorted_.push_back(found_[i]);
    }
    times_.assign(last - first, 0);
  }

  /// Whether an event has happened at the use in all runs of its segment.
  bool in_all_runs(const Use& use) {
    return ++times_[use.number] == runs_[segment_of_op_[use.op]].count;
  }

  void check_all_runs(const std::vector<Use>& uses, std::string_view what) {
    for (const Use& use : uses) {
      if (times_[use.number] != 0 && times_[use.number] != runs_[segment_of_op_[use.op]].count) {
        refuse(use, fmt::format("{} in some runs of its segment: emit them apart", what));
      }
    }
    std::fill(times_.begin(), times_.end(), std::uint16_t{0});
  }

  void derive_across_runs(TensorId root, std::uint32_t first, std::uint32_t last) {
    find_uses(first, last);
    const std::vector<Use>& uses = sorted_;
    const Tensor& memory = tensors_[root];
    if (!memory.resident) {  // a resident buffer may be written again and again
      check_single_assignment(uses);
    }
    check_owners(uses);
    if (memory.resident) {
      check_extents(memory, uses);
      return;
    }
    Phase born = Phase::forward;
    for (auto use = uses.begin(); use != uses.end(); ++use) {
      const Overlap known = overlap(*use, uses.begin(), use);
      if (known == Overlap::some) {
        refuse(*use, "some of its instances exist before, some do not: peel the boundary");
      }
      if (known == Overlap::all) {
        continue;
      }
      if (use->operand.access != Access::write) {
        refuse(*use,
               "it is used before any operation writes it: an instance or a peeled "
               "boundary is missing");
      }
      if (use->ends_with_repeat >= 0) {
        refuse(*use,
               fmt::format("it is born inside a repeat over '{}' that it does not vary "
                           "over: index or peel",
                           kIndexNames[static_cast<std::size_t>(
                               nodes_[static_cast<std::size_t>(use->ends_with_repeat)].index)]));
      }
      if (in_all_runs(*use)) {
        record_birth(use->op, root);
        born = ops_[use->op].phase;
      }
    }
    check_all_runs(uses, "it is born");
    for (auto use = uses.begin(); use != uses.end(); ++use) {
      const Overlap later = overlap(*use, use + 1, uses.end());
      if (later == Overlap::some) {
        refuse(*use, "it is the last use of some instances and not of others: peel the boundary");
      }
      if (later == Overlap::all) {
        continue;
      }
      if (use->operand.access == Access::write && memory.role != Role::workspace) {
        refuse(*use, "it is written and never used");
      }
      if (use->ends_with_repeat < 0) {
        if (in_all_runs(*use)) {
          record_death({use->op, use->operand_index}, root, born);
        }
        continue;
      }
      const auto node = static_cast<std::uint32_t>(use->ends_with_repeat);
      ++nodes_[node].deaths;
      repeat_deaths_.push_back({node, {root, use->instances_per_end, use->offset}});
      note_saved(use->op, root, born);
    }
    check_all_runs(uses, "it is used last");
  }

  void check_single_assignment(const std::vector<Use>& uses) const {
    for (auto one = uses.begin(); one != uses.end(); ++one) {
      if (one->operand.access != Access::write) {
        continue;
      }
      const Context& context = contexts_[one->run];
      const TensorId id = one->operand.ref.tensor;
      const auto again = static_cast<IndexMask>(context.looping & ~tensors_[id].varies);
      if (again != 0) {
        refuse(*one,
               fmt::format("it is written inside a repeat over '{}' that it does not vary over: "
                           "index or peel",
                           kIndexNames[static_cast<std::size_t>(std::countr_zero(again))]));
      }
      for (auto other = one + 1; other != uses.end(); ++other) {
        if (other->operand.access == Access::write && other->operand.ref.tensor == id &&
            !one->instances.disjoint(other->instances)) {
          refuse(*other, fmt::format("it is written twice, before by '{}'", ops_[one->op].label));
        }
      }
    }
  }

  /// The tensor whose values memory holds while `id` is valid: itself, or what it is a view of.
  [[nodiscard]] TensorId contents(TensorId id) const {
    while (tensors_[id].storage == Storage::view) {
      id = tensors_[id].base;
    }
    return id;
  }

  /// Memory that in-place successors take over belongs to the last that was written: only it and
  /// its views may be used, and only its own successor may take over.
  void check_owners(const std::vector<Use>& uses) {
    takeovers_.clear();
    for (const Use& use : uses) {
      const TensorId id = use.operand.ref.tensor;
      const bool takes_over =
          tensors_[id].storage == Storage::in_place && use.operand.access == Access::write;
      const TensorId wanted = contents(takes_over ? tensors_[id].base : id);
      TensorId owner = tensors_[id].root;
      for (const Use& takeover : takeovers_) {
        if (!takeover.instances.disjoint(use.instances)) {
          owner = takeover.operand.ref.tensor;
        }
      }
      if (wanted != owner) {
        refuse_owner(use, wanted, owner);
      }
      if (owner != tensors_[id].root) {
        std::vector<Use> to_owner;
        std::copy_if(takeovers_.begin(),
                     takeovers_.end(),
                     std::back_inserter(to_owner),
                     [&](const Use& takeover) { return takeover.operand.ref.tensor == owner; });
        if (overlap(use, to_owner.begin(), to_owner.end()) != Overlap::all) {
          refuse(use, "only some of its instances have been written: peel the boundary");
        }
      }
      if (takes_over) {
        takeovers_.push_back(use);
      }
    }
  }

  [[noreturn]] void refuse_owner(const Use& use, TensorId wanted, TensorId owner) const {
    for (TensorId id = owner; id != tensors_[id].root; id = contents(tensors_[id].base)) {
      if (contents(tensors_[id].base) == wanted) {
        refuse(use, fmt::format("'{}' has taken over its memory", display_name(tensors_[id])));
      }
    }
    refuse(use, "it is used before any operation writes it");
  }

  void check_extents(const Tensor& memory, const std::vector<Use>& uses) const {
    for (const Use& use : uses) {
      for (std::size_t i = 0; i < kIndexCount; ++i) {
        if ((memory.varies & (1U << i)) != 0 &&
            (use.instances.range[i].lo < 0 || use.instances.range[i].hi >= extents_[i])) {
          refuse(use, fmt::format("there are {} instances", extents_[i]));
        }
      }
    }
  }

  std::array<std::int64_t, kIndexCount> extents_;
  std::vector<Tensor>& tensors_;
  std::vector<Op>& ops_;
  const std::vector<Operand>& operands_;
  const std::vector<Segment>& segments_;
  std::vector<Node>& nodes_;

  /// What is asked of a tensor for every reference.
  struct Brief {
    TensorId root = kNoTensor;
    IndexMask varies = kPerStep;
    bool in_place = false;
  };

  std::vector<Brief> brief_;       // by tensor
  std::vector<Context> contexts_;  // of runs, in order
  std::vector<SegmentRuns> runs_;  // by segment
  std::vector<std::uint16_t> segment_of_op_;
  std::vector<std::uint32_t> last_op_;  // of a repeat node: the last operation inside, in order
  std::vector<std::uint32_t> first_use_;
  std::vector<UseIndex> uses_;
  std::vector<Use> found_;
  std::vector<std::uint32_t> order_;
  std::vector<Use> sorted_;
  std::vector<std::uint16_t> times_;  // by number of a reference
  std::vector<Use> takeovers_;
  std::vector<Instances> left_;  // of overlap, which is asked often
  std::vector<Instances> cuts_;
  std::vector<Instances> rest_;
};

}  // namespace

void derive_lifetimes(Pool& pool,
                      std::vector<Node>& nodes,
                      std::vector<RepeatDeath>& repeat_deaths) {
  LifetimeDeriver deriver(pool, nodes);
  deriver.run();

  // Counting sort of the events into one flat array per kind.
  std::uint32_t births = 0;
  std::uint32_t deaths = 0;
  for (Op& op : pool.ops) {
    op.first_birth = births;
    op.first_death = deaths;
    births += op.births;
    deaths += op.deaths;
    op.births = 0;
    op.deaths = 0;
  }
  pool.births.resize(births);
  pool.deaths.resize(deaths);
  pool.death_operands.resize(deaths);
  for (const auto& event : deriver.births_) {
    Op& op = pool.ops[event.op];
    pool.births[op.first_birth + op.births++] = event.tensor;
  }
  for (const auto& event : deriver.deaths_) {
    Op& op = pool.ops[event.op];
    pool.death_operands[op.first_death + op.deaths] = event.operand;
    pool.deaths[op.first_death + op.deaths++] = event.tensor;
  }
  std::uint32_t ended = 0;
  for (Node& node : nodes) {
    node.first_death = ended;
    ended += node.deaths;
    node.deaths = 0;
  }
  repeat_deaths.resize(ended);
  for (const auto& event : deriver.repeat_deaths_) {
    Node& node = nodes[event.node];
    repeat_deaths[node.first_death + node.deaths++] = event.death;
  }
}

}  // namespace trireme::program
