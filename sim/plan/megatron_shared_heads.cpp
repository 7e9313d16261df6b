#include "sim/plan/megatron_shared_heads.h"

namespace trireme::plan {

using program::Function;
using program::read;
using program::write;

bool shares_key_value_heads(const Plan& plan) {
  return plan.attention == AttentionLowering::megatron && plan.model.kv_heads < plan.group_degree;
}

Shape projected_rows_shape(const Step& step) {
  const ModelShape& model = step.plan.model;
  return {step.batch(),
          step.sequence(),
          {(model.heads + 2 * model.kv_heads) * model.head_dim, "(a+2g)d"}};
}

QueryKeyValue take_own_heads(Step& step, Ref rows) {
  program::Builder& b = step.b;
  const Shape shape = projected_rows_shape(step);
  // Ranks' parts arrive one behind the other and are put side by side.
  const Ref received =
      step.buffer("receive buffer of the qkv gather", shape, Step::whole_sequences());
  b.emit_collective(CollectiveKind::all_gather, "qkv, gathered", kGroup, rows, received);
  const Ref gathered = step.value("qkv, gathered", shape, Step::whole_sequences());
  b.emit(Function::copy, "join the features of every rank", {read(received), write(gathered)});
  const Ref packed = b.declare_view(gathered.tensor, "qkv of every head", packed_qkv_shape(step));
  const program::Dim groups{step.plan.group_degree, "g'"};
  const program::Dim queries{step.plan.model.heads / step.plan.group_degree, "a/g'"};
  const Layout own = Step::feature_shards();
  const Shape keys{step.batch(), step.sequence(), groups, step.head_dim()};
  const QueryKeyValue heads{
      step.value("q", {step.batch(), step.sequence(), groups, queries, step.head_dim()}, own),
      step.value("k", keys, own),
      step.value("v", keys, own)};
  b.emit(Function::take_heads,
         "take own heads",
         {read(packed), write(heads.q), write(heads.k), write(heads.v)});
  return heads;
}

QueryKeyValue declare_own_gradients(Step& step, const QueryKeyValue& heads) {
  const auto like = [&](Ref head, std::string_view name) -> Ref {
    const program::Tensor tensor = step.b.tensor(head.tensor);
    return step.value(name, tensor.shape, tensor.layout);
  };
  return {like(heads.q, "q gradient"), like(heads.k, "k gradient"), like(heads.v, "v gradient")};
}

Ref gradient_of_rows(Step& step, const QueryKeyValue& gradients) {
  program::Builder& b = step.b;
  const Shape shape = projected_rows_shape(step);
  const Ref partial = step.value("qkv gradient of every head", shape, Step::partial_sums());
  const Ref packed =
      b.declare_view(partial.tensor, "qkv gradient of every head, packed", packed_qkv_shape(step));
  b.emit(Function::return_heads,
         "return gradients of own heads",
         {read(gradients.q), read(gradients.k), read(gradients.v), write(packed)});
  const Ref sent = step.buffer("send buffer of the qkv scatter", shape, Step::partial_sums());
  b.emit(Function::copy, "part the features by rank", {read(partial), write(sent)});
  const Ref rows = step.value("qkv gradient", shape, Step::feature_shards());
  b.emit_collective(CollectiveKind::reduce_scatter, "qkv gradient, summed", kGroup, sent, rows);
  return rows;
}

}  // namespace trireme::plan
