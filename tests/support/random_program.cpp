#include "tests/support/random_program.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/program/builder.h"

namespace trireme::test {

namespace {

using program::Access;
using program::Builder;
using program::Index;
using program::IndexMask;
using program::kIndexCount;
using program::TensorId;
using Position = Builder::Position;

/// Names that outlive every program that was drawn.
std::string_view numbered_name(char kind, std::size_t number) {
  static const auto kNames = [] {
    std::array<std::vector<std::string>, 2> names;
    for (std::size_t i = 0; i < 512; ++i) {
      names[0].push_back(fmt::format("t{}", i));
      names[1].push_back(fmt::format("op{}", i));
    }
    return names;
  }();
  return kNames[kind == 't' ? 0 : 1].at(number);
}

using Positions = unsigned;  // a set of Position
constexpr Positions kFront = 1U << static_cast<unsigned>(Position::front);
constexpr Positions kMiddle = 1U << static_cast<unsigned>(Position::middle);
constexpr Positions kBack = 1U << static_cast<unsigned>(Position::back);
constexpr Positions kAnywhere = kFront | kMiddle | kBack;

/// A reference that an operation makes in some parts of its peeled repeats.
struct Use {
  std::size_t tensor = 0;
  Access access = Access::read;
  std::array<int, kIndexCount> offset{};
  std::array<Positions, kIndexCount> where{kAnywhere, kAnywhere, kAnywhere};
};

struct Slot {
  std::vector<std::size_t> loops;  // around it, outermost first
  std::size_t segment = 0;
  IndexMask bound = 0;
  IndexMask looping = 0;
  std::vector<Use> uses;
};

struct Item {
  bool is_loop = false;
  std::size_t number = 0;  // of the loop, or of the slot
};

struct Loop {
  Index index = Index::layer;
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 1;
  std::int64_t front = 0;
  std::int64_t back = 0;
  std::size_t before = 0;  // slots next to the repeat, bound to the first and to the last value
  std::size_t after = 0;
  std::vector<Item> body;

  [[nodiscard]] std::int64_t last() const { return first + step * (count - 1); }

  [[nodiscard]] bool same_values(const Loop& other) const {
    return index == other.index && count == other.count &&
           std::min(first, last()) == std::min(other.first, other.last()) &&
           (count == 1 || std::abs(step) == std::abs(other.step));
  }
};

struct Draft {
  program::Storage storage = program::Storage::own;
  program::TensorSpec spec;
  std::size_t base = 0;  // of a view or a successor
  IndexMask more = 0;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < kIndexCount; ++i) {
      extents_[i] = between(1, 5);
    }
    mesh_.add_axis("group", between(1, 3));
    draw_block(top_, {}, 0);
    const std::int64_t tensors = between(3, 12);
    for (std::int64_t i = 0; i < tensors; ++i) {
      draw_tensor();
    }
  }

  program::Program build() {
    Builder builder(mesh_, extents_);
    for (const Draft& draft : drafts_) {
      declare(builder, draft);
    }
    position_.fill(Position::middle);
    emit_block(builder, top_);
    return std::move(builder).close();
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

  bool one_in(std::int64_t n) { return between(1, n) == 1; }

  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(from.size()) - 1))];
  }

  // --- the tree of repeats ---

  std::size_t new_slot(const std::vector<std::size_t>& loops, std::size_t segment) {
    Slot slot;
    slot.loops = loops;
    slot.segment = segment;
    for (const std::size_t id : loops) {
      const Loop& loop = loops_[id];
      slot.bound = static_cast<IndexMask>(slot.bound | program::index_bit(loop.index));
      if (loop.count > 1) {
        slot.looping = static_cast<IndexMask>(slot.looping | program::index_bit(loop.index));
      }
    }
    slots_.push_back(slot);
    return slots_.size() - 1;
  }

  void draw_segment(std::vector<Item>& block, const std::vector<std::size_t>& loops) {
    ++segments_;
    const std::int64_t slots = between(1, 3);
    for (std::int64_t i = 0; i < slots; ++i) {
      block.push_back({false, new_slot(loops, segments_)});
    }
  }

  void draw_block(std::vector<Item>& block,
                  const std::vector<std::size_t>& loops,
                  IndexMask bound) {
    draw_segment(block, loops);
    const std::int64_t inner = loops.empty() ? between(1, 3) : between(0, 2);
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto index = static_cast<Index>(between(0, kIndexCount - 1));
      if ((bound & program::index_bit(index)) != 0) {
        continue;
      }
      block.push_back({true, draw_loop(index, loops, bound)});
      draw_segment(block, loops);
    }
  }

  std::size_t draw_loop(Index index, std::vector<std::size_t> loops, IndexMask bound) {
    const std::int64_t extent = extents_[static_cast<std::size_t>(index)];
    Loop loop;
    loop.index = index;
    loop.count = extent;
    if (extent > 2 && one_in(6)) {  // every other value
      loop.step = 2;
      loop.count = ceil_div(extent, 2);
    } else if (extent > 2 && one_in(8)) {  // some of the values
      loop.first = 1;
      loop.count = extent - 2;
    }
    if (one_in(2)) {
      loop.first = loop.last();
      loop.step = -loop.step;
    }
    if (one_in(2)) {
      loop.front = std::min<std::int64_t>(between(0, 2), loop.count);
      loop.back = std::min<std::int64_t>(between(0, 1), loop.count - loop.front);
    }
    const std::size_t id = loops_.size();
    loops_.push_back(loop);
    loops.push_back(id);
    const std::size_t before = new_slot(loops, ++segments_);
    std::vector<Item> body;
    draw_block(body, loops, static_cast<IndexMask>(bound | program::index_bit(index)));
    const std::size_t after = new_slot(loops, ++segments_);
    for (const std::size_t lone : {before, after}) {
      slots_[lone].looping = static_cast<IndexMask>(slots_[lone].looping & ~index_bit(index));
      lone_.push_back(lone);
    }
    loops_[id].before = before;
    loops_[id].after = after;
    loops_[id].body = std::move(body);
    return id;
  }

  // --- tensors and their uses ---

  std::size_t new_tensor(IndexMask varies) {
    static constexpr std::array kTypes = {ElementType::bf16, ElementType::fp32, ElementType::fp8};
    Draft draft;
    draft.spec.name = numbered_name('t', drafts_.size());
    draft.spec.type = kTypes[static_cast<std::size_t>(between(0, 2))];
    draft.spec.varies = varies;
    draft.spec.shape = {{between(1, 40), "m"}, {between(1, 40), "n"}};
    if (one_in(3)) {
      draft.spec.layout = draft.spec.layout.with(
          1, program::Placement::shard(one_in(2) ? 1 : program::Placement::kFlat));
      draft.spec.pad_multiple = static_cast<std::int16_t>(between(1, 8));
    }
    drafts_.push_back(draft);
    return drafts_.size() - 1;
  }

  std::size_t new_relative(std::size_t base, program::Storage storage, IndexMask more) {
    Draft draft = drafts_[base];
    draft.spec.name = numbered_name('t', drafts_.size());
    draft.storage = storage;
    draft.base = base;
    draft.more = more;
    drafts_.push_back(draft);
    return drafts_.size() - 1;
  }

  void use(std::size_t slot, std::size_t tensor, Access access) {
    Use made;
    made.tensor = tensor;
    made.access = access;
    slots_[slot].uses.push_back(made);
  }

  [[nodiscard]] bool is_lone(std::size_t slot) const {
    return std::find(lone_.begin(), lone_.end(), slot) != lone_.end();
  }

  /// What a tensor born in a slot varies over: at least what loops there.
  IndexMask draw_indices(std::size_t slot) {
    const auto some = static_cast<IndexMask>(random_());
    return static_cast<IndexMask>(slots_[slot].looping | (slots_[slot].bound & some));
  }

  /// Whether a slot reaches the same instances of a tensor as the slot it is born in.
  [[nodiscard]] bool reaches_alike(std::size_t birth, std::size_t slot, IndexMask varies) const {
    if ((varies & ~slots_[slot].bound) != 0 || is_lone(slot) != is_lone(birth)) {
      return false;
    }
    for (const std::size_t one : slots_[birth].loops) {
      if ((varies & program::index_bit(loops_[one].index)) == 0) {
        continue;
      }
      for (const std::size_t other : slots_[slot].loops) {
        if (loops_[other].index == loops_[one].index && !loops_[one].same_values(loops_[other])) {
          return false;
        }
      }
    }
    return true;
  }

  std::size_t any_slot() {
    return static_cast<std::size_t>(between(0, static_cast<std::int64_t>(slots_.size()) - 1));
  }

  /// Uses of an instance in program order: some read, some update, some go through a view, one may
  /// overwrite the memory by a successor, and one may only hold it.
  void draw_uses(std::size_t tensor, const std::vector<std::size_t>& where) {
    std::size_t current = tensor;
    for (std::size_t i = 0; i < where.size(); ++i) {
      const std::size_t slot = where[i];
      switch (between(0, 9)) {
        case 0:
          use(slot, current, Access::update);
          break;
        case 1:
          use(slot, current, Access::hold);
          break;
        case 2: {
          const IndexMask more = one_in(2) ? slots_[slot].bound : IndexMask{0};
          const auto added = static_cast<IndexMask>(more & ~drafts_[current].spec.varies);
          use(slot, new_relative(current, program::Storage::view, added), Access::read);
          break;
        }
        case 3:
          if (i + 1 < where.size() &&
              ((slots_[slot].looping & ~drafts_[tensor].spec.varies) == 0 || one_in(10))) {
            use(slot, current, Access::read);
            current = new_relative(current, program::Storage::in_place, 0);
            use(slot, current, Access::write);
            break;
          }
          [[fallthrough]];
        default:
          use(slot, current, Access::read);
      }
    }
  }

  void draw_tensor() {
    switch (between(0, 9)) {
      case 0:
        return draw_local();
      case 1:
      case 2:
        return draw_carried();
      case 3:
      case 4:
      case 5:
        return draw_saved();
      case 6:
        return draw_accumulated();
      case 7:
        return draw_resident();
      case 8:
        return draw_workspace();
      default:
        return one_in(8) ? draw_anything() : draw_saved();
    }
  }

  /// Born and used in one run of operations, at one offset.
  void draw_local() {
    const std::size_t birth = any_slot();
    std::vector<std::size_t> later;
    for (std::size_t slot = birth + 1; slot < slots_.size(); ++slot) {
      if (slots_[slot].segment == slots_[birth].segment) {
        later.push_back(slot);
      }
    }
    if (later.empty()) {
      return;
    }
    const std::size_t tensor = new_tensor(draw_indices(birth));
    use(birth, tensor, Access::write);
    const auto index = static_cast<std::size_t>(between(0, kIndexCount - 1));
    const int shift = static_cast<int>(between(-2, 2));
    slots_[birth].uses.back().offset[index] = shift;
    const std::int64_t uses = between(1, 3);
    for (std::int64_t i = 0; i < uses; ++i) {
      use(pick(later), tensor, one_in(3) ? Access::update : Access::read);
    }
    for (const std::size_t slot : later) {
      for (Use& made : slots_[slot].uses) {
        if (made.tensor == tensor) {
          made.offset[index] = shift;
        }
      }
    }
  }

  /// Written by one repeat and used by later ones, or inside repeats that it does not vary over.
  void draw_saved() {
    const std::size_t birth = any_slot();
    const IndexMask varies = draw_indices(birth);
    std::vector<std::size_t> later;
    for (std::size_t slot = birth + 1; slot < slots_.size(); ++slot) {
      if (reaches_alike(birth, slot, varies)) {
        later.push_back(slot);
      }
    }
    if (later.empty()) {
      return;
    }
    const std::size_t tensor = new_tensor(varies);
    std::vector<std::size_t> where;
    const std::int64_t uses = between(1, 3);
    for (std::int64_t i = 0; i < uses; ++i) {
      where.push_back(pick(later));
    }
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    use(birth, tensor, Access::write);
    draw_uses(tensor, where);
  }

  /// The slots that stand directly in a repeat's body.
  [[nodiscard]] std::vector<std::size_t> direct_slots(const Loop& loop) const {
    std::vector<std::size_t> direct;
    for (const Item& item : loop.body) {
      if (!item.is_loop) {
        direct.push_back(item.number);
      }
    }
    return direct;
  }

  IndexMask outside(const Loop& loop) {
    const auto own = program::index_bit(loop.index);
    const auto some = static_cast<IndexMask>(random_());
    return static_cast<IndexMask>(
        (slots_[loop.before].looping | (slots_[loop.before].bound & some)) & ~own);
  }

  /// An iteration writes what the next one reads; the ends are written before and read after.
  void draw_carried() {
    if (loops_.empty()) {
      return;
    }
    const Loop& loop = pick(loops_);
    const auto direct = direct_slots(loop);
    const auto index = static_cast<std::size_t>(loop.index);
    const std::size_t tensor =
        new_tensor(static_cast<IndexMask>(outside(loop) | program::index_bit(loop.index)));
    Use given;
    given.tensor = tensor;
    given.access = Access::write;
    Use taken;
    taken.tensor = tensor;
    if (loop.front > 0 && one_in(2)) {  // write x[l], read x[l - 1] but in the first iteration
      taken.offset[index] = static_cast<int>(-loop.step);
      taken.where[index] = loop.front > 1 ? kAnywhere : kMiddle | kBack;
      if (loop.front > 1) {
        slots_[loop.before].uses.push_back(given);
        slots_[loop.before].uses.back().offset[index] = static_cast<int>(-loop.step);
      }
    } else {  // write x[l + 1], read x[l]
      slots_[loop.before].uses.push_back(given);
      given.offset[index] = static_cast<int>(loop.step);
    }
    slots_[pick(direct)].uses.push_back(given);
    slots_[pick(direct)].uses.push_back(taken);
    if (!one_in(20)) {
      Use last = given;
      last.access = Access::read;
      slots_[loop.after].uses.push_back(last);
    }
  }

  /// Born in the peeled first iteration, updated in the others, read afterwards.
  void draw_accumulated() {
    std::vector<std::size_t> peeled;
    for (std::size_t id = 0; id < loops_.size(); ++id) {
      if (loops_[id].front == 1) {
        peeled.push_back(id);
      }
    }
    if (peeled.empty()) {
      return;
    }
    const Loop& loop = loops_[pick(peeled)];
    const auto index = static_cast<std::size_t>(loop.index);
    const std::size_t tensor = new_tensor(outside(loop));
    const std::size_t slot = pick(direct_slots(loop));
    use(slot, tensor, Access::write);
    slots_[slot].uses.back().where[index] = kFront;
    use(slot, tensor, Access::update);
    slots_[slot].uses.back().where[index] = kMiddle | kBack;
    use(loop.after, tensor, Access::read);
  }

  void draw_resident() {
    const std::int64_t uses = between(1, 4);
    std::size_t slot = any_slot();
    const std::size_t tensor = new_tensor(draw_indices(slot));
    drafts_[tensor].spec.resident = true;
    static constexpr std::array kAccesses = {Access::read, Access::update, Access::hold};
    for (std::int64_t i = 0; i < uses; ++i) {
      if ((drafts_[tensor].spec.varies & ~slots_[slot].bound) == 0) {
        use(slot, tensor, kAccesses[static_cast<std::size_t>(between(0, 2))]);
      }
      slot = any_slot();
    }
  }

  void draw_workspace() {
    const std::size_t slot = any_slot();
    const std::size_t tensor = new_tensor(draw_indices(slot));
    drafts_[tensor].spec.role = program::Role::workspace;
    use(slot, tensor, Access::write);
  }

  /// Any uses at all: most are refused.
  void draw_anything() {
    const std::size_t birth = any_slot();
    const std::size_t tensor = new_tensor(draw_indices(birth));
    use(birth, tensor, Access::write);
    const std::int64_t uses = between(1, 3);
    for (std::int64_t i = 0; i < uses; ++i) {
      const std::size_t slot = any_slot();
      use(slot, tensor, one_in(4) ? Access::write : Access::read);
      slots_[slot].uses.back().offset[static_cast<std::size_t>(between(0, kIndexCount - 1))] =
          static_cast<int>(between(-1, 1));
    }
  }

  // --- emission ---

  static void declare(Builder& builder, const Draft& draft) {
    const auto base = static_cast<TensorId>(draft.base);
    switch (draft.storage) {
      case program::Storage::own:
        builder.declare(draft.spec);
        return;
      case program::Storage::view:
        builder.declare_view(base, draft.spec.name, draft.spec.shape, {}, draft.more);
        return;
      case program::Storage::in_place:
        builder.declare_in_place(base, draft.spec.name, draft.spec.layout);
        return;
    }
  }

  void emit_slot(Builder& builder, std::size_t number) {
    std::vector<program::Operand> operands;
    std::vector<program::Operand> held;
    for (const Use& made : slots_[number].uses) {
      bool here = true;
      program::Operand operand;
      operand.ref = static_cast<TensorId>(made.tensor);
      operand.access = made.access;
      for (std::size_t i = 0; i < kIndexCount; ++i) {
        here = here && (made.where[i] & (1U << static_cast<unsigned>(position_[i]))) != 0;
        operand.ref = operand.ref.at(static_cast<Index>(i), made.offset[i]);
      }
      if (here) {
        (made.access == Access::hold ? held : operands).push_back(operand);
      }
    }
    builder.set_phase(2 * number < slots_.size() ? Phase::forward : Phase::backward);
    if (!operands.empty()) {
      builder.emit(program::Function::zero, numbered_name('o', number), operands);
    }
    for (const program::Operand& operand : held) {
      builder.keep({operand.ref}, "drawn");
    }
  }

  void emit_lone(Builder& builder, std::size_t slot, Index index, std::int64_t value) {
    if (slots_[slot].uses.empty()) {
      return;
    }
    builder.repeat(index, value, 1, 1, [&] {
      builder.begin_segment("alone");
      emit_slot(builder, slot);
    });
  }

  void emit_block(Builder& builder, const std::vector<Item>& block) {
    bool in_segment = false;
    for (const Item& item : block) {
      if (!item.is_loop) {
        if (!in_segment) {
          builder.begin_segment("run");
        }
        in_segment = true;
        emit_slot(builder, item.number);
        continue;
      }
      in_segment = false;
      const Loop& loop = loops_[item.number];
      emit_lone(builder, loop.before, loop.index, loop.first);
      const auto index = static_cast<std::size_t>(loop.index);
      builder.repeat_peeled(loop.index,
                            loop.first,
                            loop.step,
                            loop.count,
                            loop.front,
                            loop.back,
                            [&](Position position) {
                              position_[index] = position;
                              emit_block(builder, loop.body);
                            });
      position_[index] = Position::middle;
      emit_lone(builder, loop.after, loop.index, loop.last());
    }
  }

  std::mt19937_64 random_;
  program::Mesh mesh_;
  std::array<std::int64_t, kIndexCount> extents_{};
  std::vector<Item> top_;
  std::vector<Loop> loops_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> lone_;
  std::size_t segments_ = 0;
  std::vector<Draft> drafts_;
  std::array<Position, kIndexCount> position_{};
};

}  // namespace

RandomProgram random_program(std::uint64_t seed) {
  RandomProgram drawn;
  try {
    drawn.program = Generator(seed).build();
  } catch (const program::BuildError& refusal) {
    drawn.refusal = refusal.what();
  }
  return drawn;
}

}  // namespace trireme::test
