#include "sim/program/builder.h"

#include <fmt/format.h>

#include "sim/program/layout_rules.h"
#include "sim/program/lifetimes.h"

namespace trireme::program {

namespace {

// Room for a transformer step without reallocation; larger programs grow.
constexpr std::size_t kExpectedTensors = 224;
constexpr std::size_t kExpectedOps = 224;
constexpr std::size_t kExpectedOperands = 1024;
constexpr std::size_t kExpectedNodes = 32;

/// A group without its axes of one rank, so that the same ranks are one communicator whatever they
/// are called; a group of one rank as it is.
AxisMask wide_axes(const Mesh& mesh, AxisMask group) {
  AxisMask wide = 0;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if (mesh.size(axis) > 1) {
      wide = static_cast<AxisMask>(wide | (group & axis_bit(axis)));
    }
  }
  return wide == 0 ? static_cast<AxisMask>(group & mesh.all_axes()) : wide;
}

/// Most names are the same literal.
bool same_text(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.data() == b.data() || a == b);
}

bool same_symbol(const char* a, const char* b) {
  return a == b || std::string_view(a) == b;
}

bool same_shape(const Shape& a, const Shape& b) {
  bool same = a.rank() == b.rank();
  for (int dim = 0; same && dim < a.rank(); ++dim) {
    same = a[dim].size == b[dim].size && same_symbol(a[dim].symbol, b[dim].symbol);
  }
  return same;
}

/// Whether two tensors are declared alike, whatever was derived of them.
bool same_declaration(const Tensor& a, const Tensor& b) {
  return same_text(a.name, b.name) && same_text(a.part, b.part) && a.role == b.role &&
         a.component == b.component && a.type == b.type && a.storage == b.storage &&
         a.place == b.place && a.resident == b.resident && a.varies == b.varies &&
         a.pad_multiple == b.pad_multiple && a.base == b.base && a.slice == b.slice &&
         a.block == b.block && a.layers == b.layers && a.layout == b.layout &&
         same_shape(a.shape, b.shape);
}

}  // namespace

TensorSpec declared_like(const Tensor& like) {
  TensorSpec spec;
  spec.name = like.name;
  spec.part = like.part;
  spec.role = like.role;
  spec.component = like.component;
  spec.type = like.type;
  spec.varies = like.varies;
  spec.shape = like.shape;
  spec.layout = like.layout;
  spec.resident = like.resident;
  spec.pad_multiple = like.pad_multiple;
  spec.block = like.block;
  spec.layers = like.layers;
  spec.place = like.place;
  return spec;
}

Builder::Builder(const Mesh& mesh, std::array<std::int64_t, kIndexCount> extents)
    : pool_(std::make_shared<Pool>()) {
  pool_->mesh = mesh;
  pool_->extents = extents;
  for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
    if (axis >= mesh.axes() || mesh.size(axis) == 1) {
      narrow_axes_ = static_cast<AxisMask>(narrow_axes_ | axis_bit(axis));
    }
  }
  pool_->tensors.reserve(kExpectedTensors);
  pool_->ops.reserve(kExpectedOps);
  pool_->operands.reserve(kExpectedOperands);
  pool_->segments.reserve(kExpectedNodes);
  program_.nodes_.reserve(kExpectedNodes);
}

TensorId Builder::add(Tensor&& tensor) {
  const Mesh& mesh = pool_->mesh;
  const auto split = [](Placement placement) { return !placement.replicated(); };
  if ((tensor.layout.axes_where(split) & narrow_axes_) != 0) {
    tensor.layout = tensor.layout.with(narrow_axes_, Placement::replicate());
  }
  for (TensorId id = redeclared_.next; id < redeclared_.end; ++id) {
    if (same_declaration(pool_->tensors[id], tensor)) {
      redeclared_.next = static_cast<TensorId>(id + 1);
      return id;
    }
  }
  const std::size_t id = pool_->tensors.size();
  if (id >= kNoTensor) {
    throw BuildError("program: too many tensors");
  }
  if (tensor.root == kNoTensor) {
    tensor.root = static_cast<TensorId>(id);
  }
  try {
    const LocalShape local = local_shape(mesh, tensor);
    tensor.local_extents = local.extents;
    tensor.local_elements = local.elements;
  } catch (const std::logic_error&) {
    throw BuildError(fmt::format("tensor '{}': {} does not divide and states no padding",
                                 tensor.name,
                                 shape_in_symbols(mesh, tensor)));
  }
  if (tensor.base != kNoTensor &&
      tensor.local_bytes() > pool_->tensors[tensor.base].local_bytes()) {
    throw BuildError(fmt::format("tensor '{}': it does not fit into the memory of '{}'",
                                 display_name(tensor),
                                 display_name(pool_->tensors[tensor.base])));
  }
  pool_->tensors.push_back(tensor);
  return static_cast<TensorId>(id);
}

TensorId Builder::declare(const TensorSpec& spec) {
  Tensor tensor;
  tensor.name = spec.name;
  tensor.part = spec.part;
  tensor.role = spec.role;
  tensor.component = spec.component;
  tensor.type = spec.type;
  tensor.resident = spec.resident;
  tensor.varies = spec.varies;
  tensor.pad_multiple = spec.pad_multiple;
  tensor.shape = spec.shape;
  tensor.layout = spec.layout;
  tensor.block = spec.block;
  tensor.layers = spec.layers;
  tensor.place = spec.place;
  return add(std::move(tensor));
}

TensorId Builder::declare_view(
    TensorId base, std::string_view name, const Shape& shape, const Slice& slice, IndexMask more) {
  Tensor view = tensor(base);
  view.name = name;
  view.part = {};
  view.base = base;
  view.storage = Storage::view;
  view.slice = slice;
  view.shape = shape;
  view.varies = static_cast<IndexMask>(view.varies | more);
  return add(std::move(view));
}

TensorId Builder::declare_shard_of(TensorId base,
                                   std::string_view part,
                                   AxisMask group,
                                   Placement placement) {
  Tensor shard = tensor(base);
  const AxisMask taken =
      static_cast<AxisMask>(group & (shard.layout.partial_axes() | shard.layout.sharded_axes()));
  if (taken != 0) {
    throw BuildError(
        fmt::format("tensor '{}': its shard '{}' needs a tensor that is whole on "
                    "every rank of the group",
                    display_name(shard),
                    part));
  }
  shard.part = part;
  shard.base = base;
  shard.storage = Storage::view;
  shard.layout = shard.layout.with(group, placement);
  if (shard.pad_multiple == 0) {
    shard.pad_multiple = 1;
  }
  return add(std::move(shard));
}

TensorId Builder::declare_block(TensorId base, AxisMask group, std::int64_t rotation) {
  const Tensor& whole = tensor(base);
  const std::int64_t ranks = mesh().group_size(group);
  const std::int64_t tokens = whole.local_extent(kSequenceDim);
  if (whole.root != base || !whole.block.whole() || tokens % ranks != 0 ||
      (whole.blocks != 1 && whole.blocks != ranks)) {
    throw BuildError(fmt::format(
        "tensor '{}': it cannot be cut into {} blocks of tokens", display_name(whole), ranks));
  }
  pool_->tensors[base].blocks = static_cast<std::int16_t>(ranks);
  Tensor block = whole;
  block.base = base;
  block.storage = Storage::view;
  block.slice = {.dim = kSequenceDim, .first = 0, .extent = tokens / ranks};
  block.block = {group, static_cast<std::int16_t>((rotation % ranks + ranks) % ranks)};
  block.shape = whole.shape.with(kSequenceDim, {whole.shape[kSequenceDim].size / ranks, "S'"});
  return add(std::move(block));
}

TensorId Builder::declare_next_block(TensorId base, std::int64_t rotation) {
  Tensor next = tensor(base);
  ensure(!next.block.whole(), "declare_next_block: the memory of no block");
  const std::int64_t ranks = mesh().group_size(next.block.group);
  next.base = base;
  next.storage = Storage::in_place;
  next.block.rotation = static_cast<std::int16_t>((rotation % ranks + ranks) % ranks);
  return add(std::move(next));
}

TensorId Builder::declare_own_tokens(TensorId base) {
  Tensor own = tensor(base);
  ensure(!own.block.whole() && own.block.rotation == 0, "declare_own_tokens: not the own block");
  const std::int64_t ranks = mesh().group_size(own.block.group);
  own.base = base;
  own.storage = Storage::view;
  own.slice = {};
  own.shape = own.shape.with(kSequenceDim, {own.shape[kSequenceDim].size * ranks, "S"});
  own.layout = own.layout.with(own.block.group, Placement::shard(kSequenceDim));
  own.block = {};
  return add(std::move(own));
}

TensorId Builder::declare_in_place(TensorId base, std::string_view part, const Layout& layout) {
  Tensor successor = tensor(base);
  successor.part = part;
  successor.base = base;
  successor.storage = Storage::in_place;
  successor.layout = layout;
  return add(std::move(successor));
}

void Builder::begin_segment(std::string_view label) {
  Node node;
  node.kind = Node::Kind::run;
  node.segment = static_cast<std::uint16_t>(pool_->segments.size());
  node.end = next_node() + 1;
  node.shift = run_shift_;
  program_.nodes_.push_back(node);
  pool_->segments.push_back({label, static_cast<OpId>(pool_->ops.size()), 0});
  in_segment_ = true;
}

void Builder::open_repeat(Index index, std::int64_t first, std::int64_t step, std::int64_t count) {
  if (depth_ == open_repeats_.size()) {
    throw BuildError("program: repeats nested too deep");
  }
  for (std::size_t i = 0; i < depth_; ++i) {
    if (program_.nodes_[open_repeats_[i]].index == index) {
      throw BuildError(fmt::format("repeat: '{}' is already bound by an enclosing repeat",
                                   kIndexNames[static_cast<std::size_t>(index)]));
    }
  }
  constexpr std::int64_t kMost = 1 << 30;
  const auto in_range = [](std::int64_t value) { return -kMost <= value && value <= kMost; };
  if (step == 0 || !in_range(first) || !in_range(step) || !in_range(count) ||
      !in_range(first + step * (count - 1))) {
    throw BuildError("repeat: a step of zero, or an index beyond 2^30");
  }
  Node node;
  node.kind = Node::Kind::repeat;
  node.index = index;
  node.first = static_cast<std::int32_t>(first);
  node.step = static_cast<std::int32_t>(step);
  node.count = static_cast<std::int32_t>(count);
  open_repeats_[depth_++] = static_cast<std::uint32_t>(program_.nodes_.size());
  program_.nodes_.push_back(node);
  in_segment_ = false;
}

void Builder::close_repeat() {
  in_segment_ = false;
  program_.nodes_[open_repeats_[--depth_]].end = static_cast<std::uint32_t>(program_.nodes_.size());
}

void Builder::append_again(const Passage& passage) {
  const std::uint32_t moved = next_node() - passage.nodes.first;
  for (std::uint32_t i = passage.nodes.first; i < passage.nodes.end; ++i) {
    Node node = program_.nodes_[i];
    node.end += moved;
    if (node.kind == Node::Kind::run) {
      for (std::size_t index = 0; index < kIndexCount; ++index) {
        node.shift[index] += run_shift_[index] - passage.shift[index];
      }
    }
    program_.nodes_.push_back(node);
  }
}

Op& Builder::emit(Function function,
                  std::string_view label,
                  std::initializer_list<Operand> operands) {
  return emit(function, label, std::span(operands.begin(), operands.size()));
}

Op& Builder::emit(Function function, std::string_view label, std::span<const Operand> operands) {
  if (function == Function::collective) {
    throw BuildError(fmt::format("operation '{}': a collective needs a group", label));
  }
  Op& op = append(function, label, operands);
  check_operands(pool_->mesh, pool_->tensors, op, operands);
  if (function != Function::keep && place_of(op, operands) == Place::host) {
    op.on_host = true;
    op.stream = kHostStream;
  }
  return op;
}

/// The one memory that all operands lie in.
Place Builder::place_of(const Op& op, std::span<const Operand> operands) const {
  const Place place = tensor(operands.front().ref.tensor).place;
  for (const Operand& operand : operands) {
    const Tensor& other = tensor(operand.ref.tensor);
    if (other.place != place) {
      throw BuildError(fmt::format("operation '{}': tensor '{}' lies on the {}, others do not",
                                   op.label,
                                   display_name(other),
                                   kPlaceNames[static_cast<std::size_t>(other.place)]));
    }
  }
  return place;
}

Op& Builder::emit_host_copy(std::string_view label, Ref from, Operand to, Completion completion) {
  const bool to_host = tensor(to.ref.tensor).place == Place::host;
  if (tensor(from.tensor).place == tensor(to.ref.tensor).place) {
    throw BuildError(fmt::format("operation '{}': both tensors lie on the {}",
                                 label,
                                 kPlaceNames[static_cast<std::size_t>(tensor(from.tensor).place)]));
  }
  const std::array operands{read(from), to};
  Op& op = append(to_host ? Function::to_host : Function::to_device, label, operands);
  op.stream = to_host ? kToHostStream : kToDeviceStream;
  op.blocking = completion == Completion::blocking;
  check_operands(pool_->mesh, pool_->tensors, op, operands);
  return op;
}

Op& Builder::append(Function function, std::string_view label, std::span<const Operand> operands) {
  if (!in_segment_) {
    throw BuildError(fmt::format("operation '{}': no segment has begun", label));
  }
  Op op;
  op.label = label;
  op.function = function;
  op.phase = phase_;
  op.component = component_;
  op.first_operand = static_cast<std::uint32_t>(pool_->operands.size());
  op.operands = static_cast<std::uint16_t>(operands.size());
  pool_->operands.insert(pool_->operands.end(), operands.begin(), operands.end());
  if (shift_ != decltype(shift_){}) {
    for (Operand& operand : std::span(pool_->operands).last(operands.size())) {
      for (std::size_t i = 0; i < kIndexCount; ++i) {
        if ((tensor(operand.ref.tensor).varies & (1U << i)) != 0) {
          operand.ref.offset[i] = static_cast<std::int16_t>(operand.ref.offset[i] + shift_[i]);
        }
      }
    }
  }
  pool_->ops.push_back(op);
  ++pool_->segments.back().ops;
  return pool_->ops.back();
}

Op& Builder::append_message(Function function,
                            std::string_view label,
                            std::int64_t peer_stage,
                            std::initializer_list<Operand> operands,
                            Stream stream) {
  if (peer_stage < 0 || peer_stage >= mesh().stages() || peer_stage == program_.stage_) {
    throw BuildError(fmt::format("operation '{}': there is no other stage {}", label, peer_stage));
  }
  const std::span<const Operand> all(operands.begin(), operands.size());
  Op& op = append(function, label, all);
  op.collective =
      function == Function::stage_sum ? CollectiveKind::all_reduce : CollectiveKind::send_recv;
  op.group = axis_bit(mesh().stage_axis());
  op.stream = stream;
  const std::int64_t stages = mesh().stages();
  op.stages_on = static_cast<std::int16_t>((peer_stage - program_.stage_ + stages) % stages);
  op.blocking = function != Function::stage_send;
  check_operands(pool_->mesh, pool_->tensors, op, all);
  return op;
}

Op& Builder::emit_stage_send(std::string_view label, std::int64_t peer_stage, Ref x, bool forward) {
  return append_message(Function::stage_send,
                        label,
                        peer_stage,
                        {read(x)},
                        forward ? kSendForwardStream : kSendBackwardStream);
}

Op& Builder::emit_stage_receive(std::string_view label,
                                std::int64_t peer_stage,
                                Ref x,
                                bool forward) {
  return append_message(Function::stage_receive,
                        label,
                        peer_stage,
                        {write(x)},
                        forward ? kReceiveForwardStream : kReceiveBackwardStream);
}

Op& Builder::emit_stage_sum(std::string_view label, std::int64_t peer_stage, Ref x) {
  return append_message(
      Function::stage_sum, label, peer_stage, {read(x), update(x)}, kStageSumStream);
}

Op& Builder::append_collective(CollectiveKind kind,
                               std::string_view label,
                               AxisMask group,
                               std::span<const Operand> from,
                               std::span<const Operand> to,
                               std::int64_t shift) {
  if (from.size() != to.size() || from.empty()) {
    throw BuildError(fmt::format("operation '{}': needs one output per input", label));
  }
  joined_.assign(from.begin(), from.end());
  joined_.insert(joined_.end(), to.begin(), to.end());
  const std::span<const Operand> operands(joined_);
  Op& op = append(Function::collective, label, operands);
  op.collective = kind;
  op.group = wide_axes(mesh(), group);
  op.stream = communicator_stream(op.group);
  op.shift = static_cast<std::int16_t>(shift);
  const Layout in = tensor(from[0].ref.tensor).layout;
  const Layout out = tensor(to[0].ref.tensor).layout;
  for (int axis = 0; axis < mesh().axes(); ++axis) {
    if ((group & axis_bit(axis)) == 0 || mesh().size(axis) == 1) {
      continue;
    }
    op.concat_dim = in[axis].sharded() ? static_cast<std::int8_t>(in[axis].dim()) : op.concat_dim;
    op.split_dim = out[axis].sharded() ? static_cast<std::int8_t>(out[axis].dim()) : op.split_dim;
    if (in[axis].partial()) {
      op.reduction = in[axis] == Placement::partial_max() ? Reduction::max : Reduction::sum;
    }
  }
  check_operands(pool_->mesh, pool_->tensors, op, operands);
  if (place_of(op, operands) == Place::host) {
    throw BuildError(fmt::format("operation '{}': a collective of the host", label));
  }
  return op;
}

Op& Builder::emit_collective(CollectiveKind kind,
                             std::string_view label,
                             AxisMask group,
                             std::span<const Operand> from,
                             std::span<const Operand> to) {
  return append_collective(kind, label, group, from, to, 1);
}

Op& Builder::emit_hop(std::string_view label,
                      AxisMask group,
                      Ref from,
                      Ref to,
                      std::int64_t shift,
                      Completion completion) {
  const std::array in{read(from)};
  const std::array out{write(to)};
  return emit_hop(label, group, in, out, shift, completion);
}

Op& Builder::emit_hop(std::string_view label,
                      AxisMask group,
                      std::span<const Operand> from,
                      std::span<const Operand> to,
                      std::int64_t shift,
                      Completion completion) {
  const std::int64_t ranks = mesh().group_size(group);
  if (shift % ranks == 0 || shift <= -ranks || shift >= ranks) {
    throw BuildError(
        fmt::format("operation '{}': a hop of {} in a ring of {} reaches no other rank once",
                    label,
                    shift,
                    ranks));
  }
  Op& op = append_collective(CollectiveKind::send_recv, label, group, from, to, shift);
  op.blocking = completion == Completion::blocking;
  return op;
}

Op& Builder::emit_collective(CollectiveKind kind,
                             std::string_view label,
                             AxisMask group,
                             Ref from,
                             Ref to,
                             Completion completion) {
  const std::array in{read(from)};
  const std::array out{write(to)};
  Op& op = emit_collective(kind, label, group, in, out);
  op.blocking = completion == Completion::blocking;
  return op;
}

TensorId Builder::declare_result(Ref like, std::string_view name, const Layout& layout) {
  Tensor result = tensor(like.tensor);
  result.name = name;
  result.part = {};
  result.storage = Storage::own;
  result.root = kNoTensor;
  result.base = kNoTensor;
  result.resident = false;
  result.blocks = 1;
  result.layout = layout;
  return add(std::move(result));
}

namespace {

/// A result is the same instance as the input it was made from.
Ref same_instance(TensorId result, Ref input) {
  Ref ref = input;
  ref.tensor = result;
  return ref;
}

}  // namespace

Ref Builder::all_gather(Ref from, AxisMask group, std::string_view result, Completion completion) {
  if (mesh().group_size(group) == 1) {
    return from;
  }
  const Layout whole = tensor(from.tensor).layout.with(group, Placement::replicate());
  const Ref to = same_instance(declare_result(from, result, whole), from);
  emit_collective(CollectiveKind::all_gather, result, group, from, to, completion);
  return to;
}

Ref Builder::reduce_scatter(
    Ref from, AxisMask group, int dim, std::string_view result, Completion completion) {
  if (mesh().group_size(group) == 1) {
    return from;
  }
  const Layout shard = tensor(from.tensor).layout.with(group, Placement::shard(dim));
  const Ref to = same_instance(declare_result(from, result, shard), from);
  emit_collective(CollectiveKind::reduce_scatter, result, group, from, to, completion);
  return to;
}

Ref Builder::all_reduce_in_place(Ref from,
                                 AxisMask group,
                                 std::string_view result,
                                 Completion completion) {
  if (mesh().group_size(group) == 1) {
    return from;
  }
  const Layout whole = tensor(from.tensor).layout.with(group, Placement::replicate());
  const Ref to = same_instance(declare_in_place(from.tensor, result, whole), from);
  emit_collective(CollectiveKind::all_reduce, result, group, from, to, completion);
  return to;
}

Ref Builder::all_to_all(Ref from, AxisMask group, int split_dim, std::string_view result) {
  if (mesh().group_size(group) == 1) {
    return from;
  }
  const Layout exchanged = tensor(from.tensor).layout.with(group, Placement::shard(split_dim));
  const Ref to = same_instance(declare_result(from, result, exchanged), from);
  emit_collective(CollectiveKind::all_to_all, result, group, from, to);
  return to;
}

void Builder::keep(std::initializer_list<Ref> held, std::string_view source) {
  keep(std::span(held.begin(), held.size()), source);
}

void Builder::keep(std::span<const Ref> held, std::string_view source) {
  std::array<Operand, 16> operands{};
  for (std::size_t first = 0; first < held.size(); first += operands.size()) {
    const std::size_t count = std::min(operands.size(), held.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      operands[i] = {held[first + i], Access::hold};
    }
    emit(Function::keep, "keep", std::span<const Operand>(operands.data(), count)).source = source;
  }
}

Program Builder::close() && {
  ensure(depth_ == 0, "program: a repeat is still open");
  derive_lifetimes(*pool_, program_.nodes_, program_.repeat_deaths_);
  program_.pool_ = std::move(pool_);
  return std::move(program_);
}

}  // namespace trireme::program
