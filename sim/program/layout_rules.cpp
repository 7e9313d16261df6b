#include "sim/program/layout_rules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/program/builder.h"

namespace trireme::program {

namespace {

constexpr Placement kReplicate = Placement::replicate();
constexpr Placement kPartial = Placement::partial_sum();
constexpr Placement kFeatureShard = Placement::shard(kFeatureDim);
constexpr Placement kRowShard = Placement::shard(0);     // of a weight [out, in]: outputs
constexpr Placement kColumnShard = Placement::shard(1);  // inputs

constexpr bool shards_tokens(Placement placement) {
  return placement.sharded() && placement.dim() < kTokenDims;
}

std::string describe(Placement placement) {
  if (placement.replicated()) {
    return "replicated";
  }
  if (placement.partial()) {
    return placement == Placement::partial_max() ? "a partial maximum" : "a partial sum";
  }
  return placement.dim() == Placement::kFlat ? "sharded by elements"
                                             : fmt::format("sharded along {}", placement.dim());
}

/// The operands of one operation, seen along one mesh axis.
class AlongAxis {
 public:
  AlongAxis(const Mesh& mesh,
            std::span<const Tensor> tensors,
            const Op& op,
            std::span<const Operand> operands,
            int axis)
      : mesh_(mesh), tensors_(tensors), op_(op), operands_(operands), axis_(axis) {}

  [[nodiscard]] std::size_t count() const { return operands_.size(); }

  [[nodiscard]] const Tensor& tensor(std::size_t i) const {
    return tensors_[operands_[i].ref.tensor];
  }

  [[nodiscard]] Placement operator[](std::size_t i) const { return tensor(i).layout[axis_]; }

  [[nodiscard]] Access access(std::size_t i) const { return operands_[i].access; }

  [[nodiscard]] const Op& op() const { return op_; }

  [[nodiscard]] bool in_group() const { return (op_.group & axis_bit(axis_)) != 0; }

  /// Whether the operand is a block of tokens by the rank's number along this axis.
  [[nodiscard]] bool cuts_blocks(std::size_t i) const {
    return (tensor(i).block.group & axis_bit(axis_)) != 0;
  }

  [[noreturn]] void refuse(std::size_t operand, const std::string& why) const {
    throw BuildError(fmt::format("operation '{}' ({}): tensor '{}' is {} over '{}': {}",
                                 op_.label,
                                 info(op_.function).name,
                                 display_name(tensor(operand)),
                                 describe((*this)[operand]),
                                 mesh_.axis(axis_).name,
                                 why));
  }

  void expect(std::size_t operand, Placement wanted) const {
    if ((*this)[operand] != wanted) {
      refuse(operand, "it should be " + describe(wanted));
    }
  }

 private:
  const Mesh& mesh_;
  std::span<const Tensor> tensors_;
  const Op& op_;
  std::span<const Operand> operands_;
  int axis_;
};

/// y = x · weightᵀ for a weight [out, in]; `out` and `in` are its sharded dimensions.
std::optional<Placement> product(Placement x, Placement weight, Placement out, Placement in) {
  if (weight == kReplicate && (x == kReplicate || x == kPartial || shards_tokens(x))) {
    return x;
  }
  if (weight == out && x == kReplicate) {
    return kFeatureShard;
  }
  if (weight == in && x == kFeatureShard) {
    return kPartial;
  }
  return std::nullopt;
}

void check_gemm(const AlongAxis& axis, Placement out, Placement in) {
  const auto result = product(axis[0], axis[1], out, in);
  if (!result) {
    axis.refuse(0,
                fmt::format("it does not fit weight '{}', which is {}",
                            display_name(axis.tensor(1)),
                            describe(axis[1])));
  }
  const std::size_t y = axis.count() - 1;
  axis.expect(y, *result);
  if (y == 3) {  // a bias is added once: to whole results, sharded as the outputs are
    if (*result == kPartial) {
      axis.refuse(y, "a bias cannot be added before the sum");
    }
    axis.expect(2, *result == kFeatureShard ? kRowShard : kReplicate);
  }
}

/// dweight = dyᵀ · x: tokens are summed, so token shards leave a partial sum.
void check_weight_gradient(const AlongAxis& axis) {
  const Placement dy = axis[0];
  const Placement x = axis[1];
  Placement expected = kReplicate;
  const bool tokens_split = shards_tokens(dy) && dy == x;
  const bool one_is_partial =
      (dy == kPartial && x == kReplicate) || (dy == kReplicate && x == kPartial);
  if (tokens_split || one_is_partial) {
    expected = kPartial;
  } else if (dy == kFeatureShard && x == kReplicate) {
    expected = kRowShard;
  } else if (dy == kReplicate && x == kFeatureShard) {
    expected = kColumnShard;
  } else if (dy != kReplicate || x != kReplicate) {
    axis.refuse(
        0,
        fmt::format(
            "it does not fit '{}', which is {}", display_name(axis.tensor(1)), describe(axis[1])));
  }
  axis.expect(2, expected);
}

/// Queries may be sharded by batch, sequence or head; keys and values only by batch and head,
/// since a query needs those of every token.
void check_attention_inputs(const AlongAxis& axis) {
  const Placement q = axis[0];
  if (q.sharded() && q.dim() > kFeatureDim) {
    axis.refuse(0, "a score needs every element of a query and its key");
  }
  for (const std::size_t i : {1U, 2U}) {
    if (q == Placement::shard(kSequenceDim)) {
      axis.expect(i, kReplicate);
    } else {
      axis.expect(i, q);
    }
  }
  if (q.partial()) {
    axis.refuse(0, "softmax needs whole values");
  }
}

void check_attention_forward(const AlongAxis& axis) {
  check_attention_inputs(axis);
  axis.expect(3, axis[0]);
  axis.expect(4, axis[0]);
}

void check_attention_backward(const AlongAxis& axis) {
  check_attention_inputs(axis);
  for (const std::size_t i : {3U, 4U, 5U, 6U}) {
    axis.expect(i, axis[0]);
  }
  const bool own_queries_only = axis[0] == Placement::shard(kSequenceDim);
  axis.expect(7, own_queries_only ? kPartial : axis[1]);
  axis.expect(8, own_queries_only ? kPartial : axis[2]);
}

void check_whole_features(const AlongAxis& axis, std::size_t operand) {
  if (axis[operand] != kReplicate && !shards_tokens(axis[operand])) {
    axis.refuse(operand, "a norm needs whole rows of whole values");
  }
}

void check_norm_forward(const AlongAxis& axis) {
  check_whole_features(axis, 0);
  const std::size_t y = axis.count() - 1;
  for (std::size_t i = 1; i < y; ++i) {
    axis.expect(i, kReplicate);
  }
  axis.expect(y, axis[0]);
}

void check_norm_backward(const AlongAxis& axis) {
  check_whole_features(axis, 1);
  axis.expect(0, axis[1]);
  axis.expect(2, kReplicate);
  axis.expect(3, axis[1]);
  for (std::size_t i = 4; i < axis.count(); ++i) {
    axis.expect(i, axis[1] == kReplicate ? kReplicate : kPartial);
  }
}

void check_alike(const AlongAxis& axis, bool linear) {
  for (std::size_t i = 0; i < axis.count(); ++i) {
    if (!linear && axis[i].partial()) {
      axis.refuse(i, "the function is not linear and needs whole values: a reduction is missing");
    }
    axis.expect(i, axis[0]);
  }
}

void check_bias_add(const AlongAxis& axis) {
  const bool updates = axis.access(0) == Access::update;
  const std::size_t bias = axis.count() > 2 && (updates || axis.count() > 3) ? 2 : axis.count();
  for (std::size_t i = 0; i < axis.count(); ++i) {
    if (axis[i].partial()) {
      axis.refuse(i, "a sum of whole and partial values is neither: a reduction is missing");
    }
    if (i == bias) {
      axis.expect(i, axis[0] == kFeatureShard ? kRowShard : kReplicate);
    } else {
      axis.expect(i, axis[0]);
    }
  }
}

void check_bias_gradient(const AlongAxis& axis) {
  const Placement dy = axis[0];
  if (shards_tokens(dy) || dy == kPartial) {
    axis.expect(1, kPartial);
  } else {
    axis.expect(1, dy == kFeatureShard ? kRowShard : kReplicate);
  }
}

constexpr Placement kTokenShard = Placement::shard(kSequenceDim);

/// From a rank's own tokens to their block of a tensor that holds every token.
void check_place_block(const AlongAxis& axis) {
  if (!axis.cuts_blocks(1)) {
    axis.expect(1, axis[0]);
    return;
  }
  axis.expect(0, kTokenShard);
  axis.expect(1, kReplicate);
}

/// From every rank's part of the own block's sum to the own tokens.
void check_sum_blocks(const AlongAxis& axis) {
  const std::size_t sum = axis.count() - 1;
  for (std::size_t i = 0; i < sum; ++i) {
    axis.expect(i, axis.cuts_blocks(0) ? kPartial : axis[sum]);
  }
  if (axis.cuts_blocks(0)) {
    axis.expect(sum, kTokenShard);
  }
}

/// From the packed heads of every rank to each rank's own.
void check_take_heads(const AlongAxis& axis) {
  if (axis[0].partial()) {
    axis.refuse(0, "attention needs whole values: a reduction is missing");
  }
  const bool takes = axis[0] == kReplicate && axis[1] == kFeatureShard;
  for (std::size_t i = 1; i < axis.count(); ++i) {
    axis.expect(i, takes ? kFeatureShard : axis[0]);
  }
}

/// From each rank's heads to their part of a sum: ranks that share heads add to the same.
void check_return_heads(const AlongAxis& axis) {
  const bool returns = axis[0] == kFeatureShard;
  for (std::size_t i = 1; i < 3; ++i) {
    axis.expect(i, axis[0]);
  }
  axis.expect(3, returns ? kPartial : axis[0]);
}

constexpr Placement kSourceShard = Placement::shard(kSourceDim);
constexpr Placement kExpertShard = Placement::shard(kExpertDim);
constexpr Placement kSlotFeatureShard = Placement::shard(kSlotFeatureDim);
constexpr Placement kWeightsOfExperts = Placement::shard(0);  // of a weight [expert, out, in]

/// y = x · weightᵀ, expert by expert; `out` and `in` are the weight's sharded dimensions.
void check_grouped_gemm(const AlongAxis& axis, Placement out, Placement in) {
  const Placement x = axis[0];
  const Placement weight = axis[1];
  if (weight == kReplicate && (x == kReplicate || x == kSourceShard)) {
    axis.expect(2, x);
  } else if (weight == kWeightsOfExperts && x == kExpertShard) {
    axis.expect(2, x);
  } else if (weight == out && x == kReplicate) {
    axis.expect(2, kSlotFeatureShard);
  } else if (weight == in && x == kSlotFeatureShard) {
    axis.expect(2, kPartial);
  } else {
    axis.refuse(0,
                fmt::format("it does not fit weight '{}', which is {}",
                            display_name(axis.tensor(1)),
                            describe(weight)));
  }
}

/// dweight = dyᵀ · x, expert by expert: source ranks are summed.
void check_grouped_weight_gradient(const AlongAxis& axis) {
  const Placement dy = axis[0];
  const Placement x = axis[1];
  if (dy == kSourceShard && x == kSourceShard) {
    axis.expect(2, kPartial);
  } else if (dy == kExpertShard && x == kExpertShard) {
    axis.expect(2, kWeightsOfExperts);
  } else if (dy == kSlotFeatureShard && x == kReplicate) {
    axis.expect(2, kColumnShard);  // dimension 1 of [expert, out, in]: outputs
  } else if (dy == kReplicate && x == kSlotFeatureShard) {
    axis.expect(2, Placement::shard(2));
  } else if (dy == kReplicate && x == kReplicate) {
    axis.expect(2, kReplicate);
  } else {
    axis.refuse(0, fmt::format("it does not fit '{}'", display_name(axis.tensor(1))));
  }
}

/// Weights of experts: per token, like the logits; gradients of weights may be partial sums.
void check_expert_weights(const AlongAxis& axis) {
  for (std::size_t i = 0; i < axis.count(); ++i) {
    if (axis[i].partial() || (axis[i].sharded() && !shards_tokens(axis[i]))) {
      axis.refuse(i, "a router needs whole rows of whole logits");
    }
    axis.expect(i, axis[0]);
  }
}

/// Where tokens by expert are, given where the tokens are: with the rank that they come from.
void expect_slots(const AlongAxis& axis, std::size_t slots, Placement tokens) {
  if (tokens != kReplicate && !shards_tokens(tokens)) {
    axis.refuse(0, "experts take whole tokens");
  }
  const bool by_source = axis[slots].sharded() && axis[slots].dim() == kSourceDim;
  if (!shards_tokens(tokens) || !by_source) {  // in whatever order axes split the sources
    axis.expect(slots, shards_tokens(tokens) ? kSourceShard : kReplicate);
  }
}

/// From tokens to slots by expert.
void check_dispatch(const AlongAxis& axis) {
  const Placement tokens = axis[0];
  if (axis.count() == 3) {
    axis.expect(1, tokens);
    return expect_slots(axis, 2, tokens);
  }
  expect_slots(axis, 1, tokens);  // the gradient of a combination
  axis.expect(2, tokens);
  axis.expect(3, tokens);
  expect_slots(axis, 4, tokens);
  axis.expect(5, tokens);
}

/// From slots by expert to tokens.
void check_combine(const AlongAxis& axis) {
  const std::size_t last = axis.count() - 1;
  for (std::size_t i = 1; i <= last; ++i) {
    axis.expect(i, axis[last]);
  }
  expect_slots(axis, 0, axis[last]);
}

/// Keys are placed as each head's part; the part that heads share is whole where heads are split.
void check_assemble_keys(const AlongAxis& axis) {
  const Placement heads = axis[0];
  axis.expect(2, heads);
  axis.expect(1, heads == kFeatureShard ? kReplicate : heads);
  if (heads.partial() || (heads.sharded() && heads.dim() > kFeatureDim)) {
    axis.refuse(0, "keys are put together from whole heads");
  }
}

void check_assemble_keys_backward(const AlongAxis& axis) {
  const Placement heads = axis[0];
  axis.expect(1, heads);
  axis.expect(2, heads == kFeatureShard ? kPartial : heads);
}

void check_embedding_forward(const AlongAxis& axis) {
  const Placement ids = axis[0];
  const Placement table = axis[1];
  const std::size_t x = axis.count() - 1;
  if (x == 3) {
    axis.expect(2, kReplicate);
    if (axis[x].partial()) {
      axis.refuse(x, "positions cannot be added before the sum");
    }
  }
  if (ids == kReplicate && table == kRowShard) {
    axis.expect(x, kPartial);
  } else if ((ids == kReplicate || shards_tokens(ids)) && table == kReplicate) {
    axis.expect(x, ids);
  } else {
    axis.refuse(0,
                fmt::format("it does not fit table '{}', which is {}",
                            display_name(axis.tensor(1)),
                            describe(table)));
  }
}

void check_embedding_backward(const AlongAxis& axis) {
  const Placement ids = axis[0];
  const Placement dx = axis[1];
  for (std::size_t i = 2; i < axis.count(); ++i) {
    if (shards_tokens(dx) && dx == ids) {
      axis.expect(i, kPartial);
    } else if (ids == kReplicate && dx == kReplicate) {
      if (axis[i] != kRowShard) {  // each shard of the table takes the rows it owns
        axis.expect(i, kReplicate);
      }
    } else {
      axis.refuse(1, "it does not fit the ids");
    }
  }
}

/// Whether a function needs whole rows of logits: it sums over the vocabulary in one go.
bool needs_whole_rows(const AlongAxis& axis) {
  switch (axis.op().function) {
    case Function::cross_entropy:
    case Function::half_square_loss:
      return true;
    case Function::cross_entropy_in_place:
      return axis.count() < 5;  // the statistics of every shard are absent
    default:
      return false;
  }
}

/// The operand of a loss with a vocabulary (or feature) dimension.
std::size_t wide_operand(const AlongAxis& axis) {
  for (std::size_t i = 0; i < axis.count(); ++i) {
    if (axis.tensor(i).shape.rank() > kTokenDims) {
      return i;
    }
  }
  axis.refuse(0, "a loss needs logits");
}

/// One operand of a loss over logits placed as `tokens` says.
void check_loss_operand(const AlongAxis& axis, std::size_t i, Placement tokens) {
  const Placement over_shard =
      axis.op().function == Function::logits_max ? Placement::partial_max() : kPartial;
  const bool produced = axis.access(i) != Access::read;
  const int rank = axis.tensor(i).shape.rank();
  if (!produced && axis[i].partial()) {
    axis.refuse(i, "the loss needs whole values: a reduction is missing");
  }
  if (rank == 1) {  // the loss itself: a sum over tokens
    axis.expect(i, shards_tokens(tokens) ? kPartial : kReplicate);
  } else if (rank == kTokenDims && tokens == kFeatureShard) {
    axis.expect(i, produced ? over_shard : kReplicate);
  } else if (rank > kTokenDims && !produced && axis[i] == kReplicate && tokens == kFeatureShard) {
    return;  // statistics of every shard, gathered
  } else {
    axis.expect(i, tokens);
  }
}

/// Per-token values are placed as the tokens are; what is summed over the vocabulary or over the
/// tokens is partial where those are sharded.
void check_loss(const AlongAxis& axis) {
  const std::size_t wide = wide_operand(axis);
  const Placement tokens = axis[wide];
  if (tokens.partial()) {
    axis.refuse(wide, "the loss needs whole values: a reduction is missing");
  }
  if (tokens.sharded() &&
      (tokens.dim() > kFeatureDim || (tokens == kFeatureShard && needs_whole_rows(axis)))) {
    axis.refuse(wide, "the loss needs whole rows: a gather is missing");
  }
  for (std::size_t i = 0; i < axis.count(); ++i) {
    check_loss_operand(axis, i, tokens);
  }
}

/// Where the norm is partial, ranks add up what each of them holds; a gradient that is whole there
/// counts on the first of them only.
void check_square_sum(const AlongAxis& axis) {
  const std::size_t norm = axis.count() - 1;
  for (std::size_t i = 0; i < norm; ++i) {
    if (axis[i].partial()) {
      axis.refuse(i, "a norm needs whole gradients: a reduction is missing");
    }
    if (axis[i].sharded() && axis[norm] != kPartial) {
      axis.refuse(norm,
                  fmt::format("gradient '{}' is sharded, so the sum of squares is partial",
                              display_name(axis.tensor(i))));
    }
  }
}

/// Operands: the norm (when clipping), then gradient, master, two moments and parameter of each.
void check_adam(const AlongAxis& axis) {
  constexpr std::size_t kPerParameter = 5;
  const std::size_t first = axis.count() % kPerParameter;
  if (first > 1) {
    axis.refuse(axis.count() - 1, "each parameter has a gradient, a master and two moments");
  }
  if (first == 1) {
    axis.expect(0, kReplicate);
  }
  for (std::size_t i = first; i < axis.count(); ++i) {
    const std::size_t gradient = i - (i - first) % kPerParameter;
    if (axis[i].partial()) {
      axis.refuse(i, "the optimizer needs whole gradients: a reduction is missing");
    }
    axis.expect(i, axis[gradient]);
  }
}

void expect_shard(const AlongAxis& axis, std::size_t operand, int dim) {
  if (dim < 0) {
    axis.refuse(operand, "it should be sharded");
  }
  if (!axis[operand].sharded() || axis[operand].dim() != dim) {
    axis.refuse(operand, "it should be " + describe(Placement::shard(dim)));
  }
}

void check_collective(const AlongAxis& axis) {
  const Op& op = axis.op();
  const std::size_t pairs = axis.count() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::size_t to = pairs + i;
    if (!axis.in_group()) {
      axis.expect(to, axis[i]);
      continue;
    }
    switch (op.collective) {
      case CollectiveKind::all_gather:
        expect_shard(axis, i, op.concat_dim);
        axis.expect(to, kReplicate);
        break;
      case CollectiveKind::reduce_scatter:
        axis.expect(i, kPartial);
        expect_shard(axis, to, op.split_dim);
        break;
      case CollectiveKind::all_reduce:
        axis.expect(i, op.reduction == Reduction::max ? Placement::partial_max() : kPartial);
        axis.expect(to, kReplicate);
        break;
      case CollectiveKind::all_to_all:
        expect_shard(axis, i, op.concat_dim);
        expect_shard(axis, to, op.split_dim);
        if (op.split_dim == op.concat_dim) {
          axis.refuse(to, "an all-to-all splits another dimension than it joins");
        }
        break;
      case CollectiveKind::send_recv:
        axis.expect(to, axis[i]);
        break;
    }
  }
}

/// Along the axis of stages programs differ: only a norm is partial there, over parameters that are
/// other ones in each stage.
void check_stage_axis(const AlongAxis& axis, LayoutRule rule) {
  if (rule == LayoutRule::collective && axis.in_group()) {
    return check_collective(axis);
  }
  for (std::size_t i = 0; i < axis.count(); ++i) {
    if (axis[i].sharded()) {
      axis.refuse(i, "stages of a pipeline shard nothing between them");
    }
  }
}

void check_axis(const AlongAxis& axis, LayoutRule rule) {
  switch (rule) {
    case LayoutRule::gemm_forward:
      return check_gemm(axis, kRowShard, kColumnShard);
    case LayoutRule::gemm_input_gradient:
      return check_gemm(axis, kColumnShard, kRowShard);
    case LayoutRule::gemm_weight_gradient:
      return check_weight_gradient(axis);
    case LayoutRule::grouped_gemm_forward:
      return check_grouped_gemm(axis, Placement::shard(1), Placement::shard(2));
    case LayoutRule::grouped_gemm_input_gradient:
      return check_grouped_gemm(axis, Placement::shard(2), Placement::shard(1));
    case LayoutRule::grouped_gemm_weight_gradient:
      return check_grouped_weight_gradient(axis);
    case LayoutRule::assemble_keys:
      return check_assemble_keys(axis);
    case LayoutRule::assemble_keys_backward:
      return check_assemble_keys_backward(axis);
    case LayoutRule::expert_weights:
      return check_expert_weights(axis);
    case LayoutRule::dispatch:
      return check_dispatch(axis);
    case LayoutRule::combine:
      return check_combine(axis);
    case LayoutRule::attention_forward:
      return check_attention_forward(axis);
    case LayoutRule::attention_backward:
      return check_attention_backward(axis);
    case LayoutRule::norm_forward:
      return check_norm_forward(axis);
    case LayoutRule::norm_backward:
      return check_norm_backward(axis);
    case LayoutRule::same:
      return check_alike(axis, false);
    case LayoutRule::linear:
      return check_alike(axis, true);
    case LayoutRule::bias_add:
      return check_bias_add(axis);
    case LayoutRule::bias_gradient:
      return check_bias_gradient(axis);
    case LayoutRule::place_block:
      return check_place_block(axis);
    case LayoutRule::sum_blocks:
      return check_sum_blocks(axis);
    case LayoutRule::take_heads:
      return check_take_heads(axis);
    case LayoutRule::return_heads:
      return check_return_heads(axis);
    case LayoutRule::embedding_forward:
      return check_embedding_forward(axis);
    case LayoutRule::embedding_backward:
      return check_embedding_backward(axis);
    case LayoutRule::loss:
      return check_loss(axis);
    case LayoutRule::square_sum:
      return check_square_sum(axis);
    case LayoutRule::adam:
      return check_adam(axis);
    case LayoutRule::collective:
      return check_collective(axis);
    case LayoutRule::any:
      return;
  }
}

[[noreturn]] void refuse_shape(const Op& op, const Tensor& tensor, std::string_view why) {
  throw BuildError(fmt::format("operation '{}' ({}): tensor '{}': {}",
                               op.label,
                               info(op.function).name,
                               display_name(tensor),
                               why));
}

std::int64_t product_of(const Shape& shape, int first, int last) {
  std::int64_t count = 1;
  for (int dim = first; dim < last; ++dim) {
    count *= shape[dim].size;
  }
  return count;
}

std::int64_t token_count(const Shape& shape) {
  return product_of(shape, 0, kTokenDims);
}

std::int64_t feature_count(const Shape& shape) {
  return product_of(shape, kFeatureDim, shape.rank());
}

/// `from` is [tokens, ...], `weight` is [out, in], `to` is [tokens, ...].
void check_gemm_shapes(
    const Op& op, const Tensor& from, const Tensor& weight, const Tensor& to, int from_dim) {
  if (weight.shape.rank() != 2) {
    refuse_shape(op, weight, "a weight has two dimensions");
  }
  if (feature_count(from.shape) != weight.shape[from_dim].size) {
    refuse_shape(op, from, "its features do not match the weight");
  }
  if (feature_count(to.shape) != weight.shape[1 - from_dim].size) {
    refuse_shape(op, to, "its features do not match the weight");
  }
  if (token_count(from.shape) != token_count(to.shape)) {
    refuse_shape(op, to, "its tokens do not match the input");
  }
}

/// `from` and `to` are [source rank, expert, slot, features...], `weight` is [expert, out, in].
void check_grouped_gemm_shapes(
    const Op& op, const Tensor& from, const Tensor& weight, const Tensor& to, int from_dim) {
  if (weight.shape.rank() != 3 || weight.shape[0].size != from.shape[kExpertDim].size) {
    refuse_shape(op, weight, "it needs a matrix for each expert of the input");
  }
  for (const auto& [tensor, dim] : {std::pair(&from, from_dim), std::pair(&to, 3 - from_dim)}) {
    if (product_of(tensor->shape, kSlotFeatureDim, tensor->shape.rank()) !=
        weight.shape[dim].size) {
      refuse_shape(op, *tensor, "its features do not match the weights");
    }
  }
  if (product_of(from.shape, 0, kSlotFeatureDim) != product_of(to.shape, 0, kSlotFeatureDim)) {
    refuse_shape(op, to, "its slots do not match the input");
  }
}

/// Queries are [batch, sequence, groups, heads per group, head dim], keys [batch, sequence, groups,
/// head dim]; values and outputs may have another head dimension.
void check_attention_shapes(
    const Op& op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o) {
  if (q.shape.rank() != 5) {
    refuse_shape(op, q, "queries have five dimensions");
  }
  for (const Tensor* keys : {&k, &v}) {
    if (keys->shape.rank() != 4 || keys->shape[kBatchDim].size != q.shape[kBatchDim].size ||
        keys->shape[kSequenceDim].size != k.shape[kSequenceDim].size ||
        keys->shape[2].size != q.shape[2].size ||
        (keys == &k && keys->shape[3].size != q.shape[4].size)) {
      refuse_shape(op, *keys, "its sequences, heads or head dimension do not match the queries");
    }
  }
  if (o.shape.elements() * k.shape[3].size != q.shape.elements() * v.shape[3].size) {
    refuse_shape(op, o, "it does not have a value for every query");
  }
}

void check_shapes(std::span<const Tensor> tensors,
                  const Op& op,
                  std::span<const Operand> operands) {
  const auto tensor = [&](std::size_t i) -> const Tensor& {
    return tensors[operands[i].ref.tensor];
  };
  switch (info(op.function).rule) {
    case LayoutRule::gemm_forward:
      return check_gemm_shapes(op, tensor(0), tensor(1), tensor(operands.size() - 1), 1);
    case LayoutRule::gemm_input_gradient:
      return check_gemm_shapes(op, tensor(0), tensor(1), tensor(2), 0);
    case LayoutRule::gemm_weight_gradient:
      check_gemm_shapes(op, tensor(1), tensor(2), tensor(0), 1);
      return;
    case LayoutRule::grouped_gemm_forward:
      return check_grouped_gemm_shapes(op, tensor(0), tensor(1), tensor(2), 2);
    case LayoutRule::grouped_gemm_input_gradient:
      return check_grouped_gemm_shapes(op, tensor(0), tensor(1), tensor(2), 1);
    case LayoutRule::grouped_gemm_weight_gradient:
      return check_grouped_gemm_shapes(op, tensor(1), tensor(2), tensor(0), 2);
    case LayoutRule::attention_forward:
    case LayoutRule::attention_backward:
      return check_attention_shapes(op, tensor(0), tensor(1), tensor(2), tensor(3));
    case LayoutRule::place_block:
    case LayoutRule::sum_blocks:
      for (std::size_t i = 1; i < operands.size(); ++i) {
        if (tensor(i).local_elements != tensor(0).local_elements) {
          refuse_shape(op, tensor(i), "it is not as large as the first block");
        }
      }
      return;
    case LayoutRule::collective:
      for (std::size_t i = 0; i < operands.size() / 2; ++i) {
        const Tensor& from = tensor(i);
        const Tensor& to = tensor(operands.size() / 2 + i);
        if (from.shape.elements() != to.shape.elements() || from.type != to.type) {
          refuse_shape(op, to, "a collective changes neither logical shape nor element type");
        }
      }
      return;
    default:
      return;
  }
}

std::string describe(const Block& block) {
  return block.whole() ? "every token" : fmt::format("block {} of the ring", block.rotation);
}

/// Operands speak of the same tokens: they are the same block, which only a hop changes. Weights
/// and their gradients have no tokens.
void check_blocks(const Mesh& mesh,
                  std::span<const Tensor> tensors,
                  const Op& op,
                  std::span<const Operand> operands) {
  const auto tensor = [&](std::size_t i) -> const Tensor& {
    return tensors[operands[i].ref.tensor];
  };
  const auto expect = [&](std::size_t i, const Block& wanted) {
    if (tensor(i).block != wanted) {
      refuse_shape(
          op,
          tensor(i),
          fmt::format("it is {}, it should be {}", describe(tensor(i).block), describe(wanted)));
    }
  };
  const std::size_t last = operands.size() - 1;
  switch (op.function) {
    case Function::keep:
      return;
    case Function::place_block:
      expect(0, {});
      return expect(1, {tensor(1).block.group, 0});
    case Function::sum_blocks:
      for (std::size_t i = 0; i < last; ++i) {
        expect(i, {tensor(0).block.group, 0});
      }
      return expect(last, {});
    case Function::attention_forward:
    case Function::attention_backward:  // own queries meet the keys of any block
      for (std::size_t i = 0; i < std::min<std::size_t>(operands.size(), 9); ++i) {
        const bool of_keys = i == 1 || i == 2 || i > 6;
        expect(i, of_keys ? tensor(1).block : Block{});
      }
      return;
    case Function::collective:
      for (std::size_t i = 0; i < operands.size() / 2; ++i) {
        Block wanted = tensor(i).block;
        if (!wanted.whole() && op.collective == CollectiveKind::send_recv) {
          const std::int64_t ranks = mesh.group_size(op.group);
          wanted.rotation =
              static_cast<std::int16_t>(((wanted.rotation + op.shift) % ranks + ranks) % ranks);
        }
        expect(operands.size() / 2 + i, wanted);
      }
      return;
    default:
      break;
  }
  const auto has_tokens = [&](std::size_t i) {
    return tensor(i).role != Role::parameter && tensor(i).role != Role::gradient;
  };
  std::size_t first = 0;
  while (first < last && !has_tokens(first)) {
    ++first;
  }
  for (std::size_t i = first; i <= last; ++i) {
    if (has_tokens(i)) {
      expect(i, tensor(first).block);
    }
  }
}

}  // namespace

void check_operands(const Mesh& mesh,
                    std::span<const Tensor> tensors,
                    const Op& op,
                    std::span<const Operand> operands) {
  const FunctionInfo& row = info(op.function);
  if (operands.size() < row.least_operands || operands.size() > row.most_operands) {
    throw BuildError(fmt::format("operation '{}' ({}): {} operands, but it takes {}",
                                 op.label,
                                 row.name,
                                 operands.size(),
                                 row.operands));
  }
  check_shapes(tensors, op, operands);
  const LayoutRule rule = info(op.function).rule;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if (mesh.size(axis) > 1 && axis == mesh.stage_axis()) {
      check_stage_axis(AlongAxis(mesh, tensors, op, operands, axis), rule);
    } else if (mesh.size(axis) > 1) {
      check_axis(AlongAxis(mesh, tensors, op, operands, axis), rule);
    }
  }
  check_blocks(mesh, tensors, op, operands);
}

}  // namespace trireme::program
