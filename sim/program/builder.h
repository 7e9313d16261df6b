// Builds step programs, and refuses what does not fit together.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/program/program.h"

namespace trireme::program {

/// A program that contradicts itself: the lowering that emitted it is wrong. The message names the
/// operation and the tensor.
class BuildError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

struct TensorSpec {
  std::string_view name;
  std::string_view part;
  Role role = Role::activation;
  Component component = Component::attention;
  ElementType type = ElementType::bf16;
  IndexMask varies = kPerStep;
  Shape shape;
  Layout layout;
  bool resident = false;
  std::int16_t pad_multiple = 0;
  Block block;
  LayerRange layers;
  Place place = Place::device;
};

/// What declares a tensor like `like`, for what differs to be changed.
[[nodiscard]] TensorSpec declared_like(const Tensor& like);

/// Whether the compute stream waits for a collective at once, or only where its result is needed.
enum class Completion : std::uint8_t { blocking, asynchronous };

/// Emits operations in the order in which a rank issues them. Groups of one rank cost nothing:
/// their placements read as replicated, and a collective over them returns its input.
class Builder {
 public:
  /// `extents`: the number of micro batches, layers and chunks of the step.
  Builder(const Mesh& mesh, std::array<std::int64_t, kIndexCount> extents);

  /// Which stage of a pipeline the program is of, and which layer of the model each of its is.
  void set_stage(std::int64_t stage, std::vector<std::int64_t> layers_of_model) {
    program_.stage_ = stage;
    program_.layers_of_model_ = std::move(layers_of_model);
  }

  [[nodiscard]] const Mesh& mesh() const { return pool_->mesh; }

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return pool_->tensors[id]; }

  /// States in which order the ranks of a ring hold the tokens.
  void set_token_order(const TokenOrder& order) { pool_->token_order = order; }

  /// Declares a tensor; its memory is allocated where it is first written.
  TensorId declare(const TensorSpec& spec);

  /// Declares another shape of `base`, or a slice of it, which may vary over `more` indices.
  TensorId declare_view(TensorId base,
                        std::string_view name,
                        const Shape& shape,
                        const Slice& slice = {},
                        IndexMask more = 0);

  /// Declares the part of `base`, which is replicated over `group`, that each rank of the group
  /// owns when it is sharded as `shard`: a slice in place, without communication.
  TensorId declare_shard_of(TensorId base, std::string_view part, AxisMask group, Placement shard);

  /// Declares the block of `base` along the sequence that each rank of `group` holds at `rotation`
  /// (see Block): a slice in place. `base` owns its memory and holds every token.
  TensorId declare_block(TensorId base, AxisMask group, std::int64_t rotation);

  /// Declares what `base` becomes when an operation overwrites it under another layout or meaning.
  TensorId declare_in_place(TensorId base, std::string_view part, const Layout& layout);

  /// Declares the block at `rotation` that a hop receives into the memory of `base`, a block that
  /// nobody needs any more: two buffers take turns.
  TensorId declare_next_block(TensorId base, std::int64_t rotation);

  /// Declares the own block `base` (rotation 0) as what it is, the rank's own tokens.
  TensorId declare_own_tokens(TensorId base);

  /// How many instances of `index` the step has.
  [[nodiscard]] std::int64_t extent(Index index) const {
    return pool_->extents[static_cast<std::size_t>(index)];
  }

  /// What later operations are booked under.
  void set_phase(Phase phase) { phase_ = phase; }

  void set_component(Component component) { component_ = component; }

  [[nodiscard]] Phase phase() const { return phase_; }

  [[nodiscard]] Component component() const { return component_; }

  /// Starts a new straight run of operations.
  void begin_segment(std::string_view label);

  /// Repeats what `body` emits for index = first, first + step, ...; nothing for a count of zero.
  template <class Body>
  void repeat(Index index, std::int64_t first, std::int64_t step, std::int64_t count, Body body) {
    if (count > 0) {
      open_repeat(index, first, step, count);
      body();
      close_repeat();
    }
  }

  /// Whether iterations at the ends of a loop are emitted on their own, and which one `body` emits.
  struct Ends {
    bool first = false;
    bool last = false;
  };

  /// As `repeat`, with the first and the last iteration emitted on their own where `peeled` says
  /// so: `body(at)` learns which it emits. What it declares the same each time is one tensor, so
  /// that memory of all iterations is listed together.
  template <class Body>
  void repeat_with_ends(Index index,
                        std::int64_t first,
                        std::int64_t step,
                        std::int64_t count,
                        Ends peeled,
                        Body body) {
    const TensorId begin = next_declaration();
    TensorId end = begin;
    const auto emit_some = [&](std::int64_t from, std::int64_t some, Ends at) {
      repeat(index, first + from * step, step, some, [&] {
        if (end == begin) {
          body(at);
          end = next_declaration();
        } else {
          const Redeclared outer = redeclared_;
          redeclared_ = {begin, end};
          body(at);
          redeclared_ = outer;
        }
      });
    };
    if (count == 1 && (peeled.first || peeled.last)) {
      emit_some(0, 1, peeled);
      return;
    }
    const std::int64_t front = peeled.first ? 1 : 0;
    const std::int64_t back = peeled.last ? 1 : 0;
    emit_some(0, front, {true, false});
    emit_some(front, count - front - back, {});
    emit_some(count - back, back, {false, true});
  }

  /// As `repeat`, with the first `front` and the last `back` iterations emitted on their own:
  /// `body(position)` learns whether it is emitted for the front, the middle or the back, and
  /// may differ there.
  enum class Position : std::uint8_t { front, middle, back };

  template <class Body>
  void repeat_peeled(Index index,
                     std::int64_t first,
                     std::int64_t step,
                     std::int64_t count,
                     std::int64_t front,
                     std::int64_t back,
                     Body body) {
    front = std::min(front, count);
    back = std::min(back, count - front);
    for (std::int64_t i = 0; i < front; ++i) {
      repeat(index, first + i * step, step, 1, [&] { body(Position::front); });
    }
    const std::int64_t middle = count - front - back;
    repeat(index, first + front * step, step, middle, [&] { body(Position::middle); });
    for (std::int64_t i = front + middle; i < count; ++i) {
      repeat(index, first + i * step, step, 1, [&] { body(Position::back); });
    }
  }

  /// What bodies under one of these declare alike is one tensor, so that memory of all is listed
  /// together.
  struct Declarations {
    TensorId begin = kNoTensor;
    TensorId end = kNoTensor;
  };

  template <class Body>
  void declare_alike(Declarations& known, Body body) {
    if (known.begin == kNoTensor) {
      known.begin = next_declaration();
      body();
      known.end = next_declaration();
      return;
    }
    const Redeclared outer = redeclared_;
    redeclared_ = {known.begin, known.end};
    body();
    redeclared_ = outer;
    if (outer.next != kNoTensor) {
      redeclared_.next = std::max(outer.next, std::min(known.end, outer.end));
    }
  }

  /// Emits what `body` does for the instances `shift` further along `index`: one iteration of a
  /// repeat that takes several steps.
  template <class Body>
  void shifted(Index index, std::int64_t shift, Body body) {
    std::int16_t& now = shift_[static_cast<std::size_t>(index)];
    const std::int16_t outer = now;
    now = static_cast<std::int16_t>(outer + shift);
    body();
    now = outer;
  }

  /// Runs what `body` emits for the instances `shift` further along `index`. It is emitted the
  /// first time; from then on the same operations run again.
  template <class Body>
  void pass(Passage& known, Index index, std::int64_t shift, Body body) {
    const auto outer = run_shift_;
    run_shift_[static_cast<std::size_t>(index)] += static_cast<std::int32_t>(shift);
    in_segment_ = false;
    if (known.nodes.empty()) {
      known.shift = run_shift_;
      known.nodes.first = next_node();
      body();
      known.nodes.end = next_node();
    } else {
      append_again(known);
    }
    in_segment_ = false;
    run_shift_ = outer;
  }

  /// The number of the node that comes next.
  [[nodiscard]] std::uint32_t next_node() const {
    return static_cast<std::uint32_t>(program_.nodes_.size());
  }

  /// Emits one operation with the operands that function_table() lists. Returns it for attributes
  /// to be set.
  Op& emit(Function function, std::string_view label, std::initializer_list<Operand> operands);
  Op& emit(Function function, std::string_view label, std::span<const Operand> operands);

  /// Emits a copy between the GPU and its host: into the memory that `to` lies in, which is the
  /// other one than that of `from`. `to` is written, or a tensor that is there is updated.
  Op& emit_host_copy(std::string_view label,
                     Ref from,
                     Operand to,
                     Completion completion = Completion::blocking);

  /// Emits a collective that carries `from[i]` into `to[i]`, coalesced into one call.
  Op& emit_collective(CollectiveKind kind,
                      std::string_view label,
                      AxisMask group,
                      std::span<const Operand> from,
                      std::span<const Operand> to);

  /// Emits a collective that carries `from` into `to`.
  Op& emit_collective(CollectiveKind kind,
                      std::string_view label,
                      AxisMask group,
                      Ref from,
                      Ref to,
                      Completion completion = Completion::blocking);

  /// Collectives over one tensor, whose result they declare: same element type, indices and
  /// component. Over a group of one rank nothing is emitted and the input itself is returned.
  Ref all_gather(Ref from,
                 AxisMask group,
                 std::string_view result,
                 Completion completion = Completion::blocking);
  Ref reduce_scatter(Ref from,
                     AxisMask group,
                     int dim,
                     std::string_view result,
                     Completion completion = Completion::blocking);
  Ref all_reduce_in_place(Ref from,
                          AxisMask group,
                          std::string_view result,
                          Completion completion = Completion::blocking);
  /// Splits `split_dim`, which is whole, and joins the dimension that is sharded over the group.
  Ref all_to_all(Ref from, AxisMask group, int split_dim, std::string_view result);

  /// One hop around the ring of `group`: position p sends `from` to p + shift, and receives what
  /// p - shift sends into `to`.
  Op& emit_hop(std::string_view label,
               AxisMask group,
               Ref from,
               Ref to,
               std::int64_t shift = 1,
               Completion completion = Completion::blocking);

  /// The same for several blocks in one message: `from[i]` arrives in `to[i]`.
  Op& emit_hop(std::string_view label,
               AxisMask group,
               std::span<const Operand> from,
               std::span<const Operand> to,
               std::int64_t shift,
               Completion completion);

  /// Messages between stages: `x` goes to, comes from, or is summed with that of `peer_stage`.
  /// `forward`: towards the loss. Sending holds nothing up, receiving holds up the computation.
  Op& emit_stage_send(std::string_view label, std::int64_t peer_stage, Ref x, bool forward);
  Op& emit_stage_receive(std::string_view label, std::int64_t peer_stage, Ref x, bool forward);
  Op& emit_stage_sum(std::string_view label, std::int64_t peer_stage, Ref x);

  /// Keeps `held` alive up to here, as a framework does; `source` says which and where.
  void keep(std::initializer_list<Ref> held, std::string_view source);
  void keep(std::span<const Ref> held, std::string_view source);

  /// Derives lifetimes and hands the program over. Throws BuildError where it contradicts itself.
  [[nodiscard]] Program close() &&;

 private:
  Op& append_message(Function function,
                     std::string_view label,
                     std::int64_t peer_stage,
                     std::initializer_list<Operand> operands,
                     Stream stream);
  [[nodiscard]] Place place_of(const Op& op, std::span<const Operand> operands) const;
  void open_repeat(Index index, std::int64_t first, std::int64_t step, std::int64_t count);
  void close_repeat();
  void append_again(const Passage& passage);
  TensorId add(Tensor&& tensor);
  Op& append(Function function, std::string_view label, std::span<const Operand> operands);
  Op& append_collective(CollectiveKind kind,
                        std::string_view label,
                        AxisMask group,
                        std::span<const Operand> from,
                        std::span<const Operand> to,
                        std::int64_t shift);
  /// Declares a tensor like `like` under another layout, as a collective's result.
  TensorId declare_result(Ref like, std::string_view name, const Layout& layout);

  /// Tensors that a body emitted before may declare again: those from `next` on, in order.
  struct Redeclared {
    TensorId next = kNoTensor;
    TensorId end = kNoTensor;
  };

  [[nodiscard]] TensorId next_declaration() const {
    return redeclared_.next == kNoTensor ? static_cast<TensorId>(pool_->tensors.size())
                                         : redeclared_.next;
  }

  std::shared_ptr<Pool> pool_;
  AxisMask narrow_axes_ = 0;  // of one rank, or that the mesh does not have
  Program program_;
  std::array<std::uint32_t, 8> open_repeats_{};
  std::size_t depth_ = 0;
  bool in_segment_ = false;      // operations go to the last segment
  std::vector<Operand> joined_;  // of a collective: from, then to
  Redeclared redeclared_;
  std::array<std::int16_t, kIndexCount> shift_{};      // of operands
  std::array<std::int32_t, kIndexCount> run_shift_{};  // of runs
  Phase phase_ = Phase::forward;
  Component component_ = Component::attention;
};

constexpr Operand read(Ref ref) {
  return {ref, Access::read};
}

constexpr Operand write(Ref ref) {
  return {ref, Access::write};
}

constexpr Operand update(Ref ref) {
  return {ref, Access::update};
}

}  // namespace trireme::program
