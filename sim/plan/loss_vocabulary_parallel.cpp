// Losses over logits that are split along the vocabulary: Megatron's own in fp32 with three
// all-reduces, and TransformerEngine's fused one in place with one all-gather.
#include "sim/plan/framework_buffers.h"
#include "sim/plan/head.h"
#include "sim/plan/megatron_regions.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;
using program::write;

Shape logits_shape(const Step& step) {
  return {step.batch(), step.sequence(), {step.plan.model.vocabulary, "V"}};
}

Ref per_token(Step& step, std::string_view name, const Layout& layout) {
  return step.micro_batch_value(name, {step.batch(), step.sequence()}, layout, ElementType::fp32);
}

/// The head's input at every token, in the framework's buffer where it has one.
Ref gathered_input(Step& step, Ref normed, std::string_view name, program::Completion completion) {
  if (step.head_input == program::kNoTensor) {
    return every_token(step, normed, name, completion, step.gathered_inputs);
  }
  step.b.emit_collective(
      CollectiveKind::all_gather, name, kGroup, normed, step.head_input, completion);
  return step.head_input;
}

struct Logits {
  Ref input;  // of the head, at every token
  Ref logits;
};

/// Logits of every token for this rank's part of the vocabulary.
Logits emit_logits(Step& step, Parameters& parameters, const HeadParameters& head, Ref normed) {
  parameters.gather(head.unit, head.norm_goes_back());
  const Ref input =
      gathered_input(step, normed, "head input, gathered", program::Completion::blocking);
  TensorId logits = program::kNoTensor;
  {
    const InComponent scope(step, Component::loss);
    program::TensorSpec spec;
    spec.name = "logits";
    spec.component = Component::loss;
    spec.varies = program::kPerMicroBatch;
    spec.shape = logits_shape(step);
    spec.layout = Step::feature_shards();
    spec.pad_multiple = step.b.tensor(parameters.working(head.weight.weight).tensor).pad_multiple;
    logits = step.b.declare(spec);
  }
  emit_linear(step, parameters, head.weight, "head", input, logits);
  return {input, logits};
}

/// The head's backward pass given the gradient of its logits.
void emit_head_backward(Step& step,
                        Parameters& parameters,
                        const HeadParameters& head,
                        Ref normed,
                        Ref forward_input,
                        Ref d_logits,
                        Ref d_normed) {
  program::Builder& b = step.b;
  b.set_phase(Phase::backward);
  b.set_component(Component::head);
  parameters.gather(head.unit);
  const Ref input =
      step.plan.gathers_again
          ? gathered_input(
                step, normed, "head input, gathered again", behind_gradient_products(step))
          : forward_input;
  Ref whole_gradient = d_normed;
  if (b.mesh().group_size(kGroup) == 1) {
    emit_input_gradient(step, parameters, head.weight, "head, input gradient", d_logits, d_normed);
  } else {
    const Ref partial = step.micro_batch_value(
        "head input gradient, partial", step.hidden_shape(), Step::partial_sums());
    emit_input_gradient(step, parameters, head.weight, "head, input gradient", d_logits, partial);
    whole_gradient = partial;
    emit_sum_into(step, partial, d_normed, "head input gradient", behind_gradient_products(step));
  }
  emit_weight_gradient(step, parameters, head.weight, "head, weight gradient", d_logits, input);
  emit_weight_gradient_placeholder(
      step, parameters, head.weight.weight, {d_logits, whole_gradient});
}

TensorId logits_like(Step& step, Ref logits, std::string_view name, ElementType type) {
  const program::Tensor like = step.b.tensor(logits.tensor);
  program::TensorSpec spec;
  spec.name = name;
  spec.component = Component::loss;
  spec.type = type;
  spec.varies = like.varies;
  spec.shape = like.shape;
  spec.layout = like.layout;
  spec.pad_multiple = like.pad_multiple;
  return step.b.declare(spec);
}

void emit_unfused(Step& step,
                  Parameters& parameters,
                  const HeadParameters& head,
                  Ref normed,
                  Ref d_normed,
                  TensorId loss) {
  program::Builder& b = step.b;
  const Layout whole = Step::whole_sequences();
  const Layout maxima = whole.with(kGroup, Placement::partial_max());
  const Ref labels = load_labels(step, whole);
  const auto [input, logits] = emit_logits(step, parameters, head, normed);
  b.set_component(Component::loss);
  const Ref whole_logits = logits_like(step, logits, "logits in fp32", ElementType::fp32);
  b.emit(Function::cast, "logits to fp32", {read(logits), write(whole_logits)});
  const Ref partial_max = per_token(step, "largest logit", maxima);
  b.emit(Function::logits_max, "largest logit", {read(whole_logits), write(partial_max)});
  const Ref max = b.all_reduce_in_place(partial_max, kGroup, "over the vocabulary");
  Ref exponentials = whole_logits;
  if (step.plan.modules.softmax_beside_logits) {
    exponentials = logits_like(step, logits, "softmax", ElementType::fp32);
    b.emit(Function::copy, "logits beside themselves", {read(whole_logits), write(exponentials)});
  }
  const Ref partial_target = per_token(step, "target logit", Step::partial_sums());
  const Ref partial_sum = per_token(step, "sum of exponentials", Step::partial_sums());
  b.emit(
      Function::softmax_statistics,
      "softmax statistics",
      {read(labels), read(max), update(exponentials), write(partial_sum), write(partial_target)});
  const Ref target = b.all_reduce_in_place(partial_target, kGroup, "over the vocabulary");
  const Ref sum = b.all_reduce_in_place(partial_sum, kGroup, "over the vocabulary");
  b.emit(Function::parallel_cross_entropy,
         "cross entropy",
         {read(sum), read(target), update(exponentials), update(loss)})
      .scale = loss_scale(step.plan);
  if (step.plan.modules.softmax_beside_logits) {
    b.keep({whole_logits}, "nanotron, LlamaForTraining.forward: the logits are a local variable");
  }

  b.set_phase(Phase::backward);
  const Ref d_logits_fp32 =
      b.declare_in_place(exponentials.tensor, "gradient", b.tensor(exponentials.tensor).layout);
  b.emit(Function::parallel_cross_entropy_backward,
         "cross entropy backward",
         {read(exponentials), read(labels), write(d_logits_fp32)})
      .scale = loss_scale(step.plan);
  const Ref d_logits = logits_like(step, logits, "logits gradient", ElementType::bf16);
  b.emit(Function::cast, "logits gradient to bf16", {read(d_logits_fp32), write(d_logits)});
  emit_head_backward(step, parameters, head, normed, input, d_logits, d_normed);
}

void emit_fused(Step& step,
                Parameters& parameters,
                const HeadParameters& head,
                Ref normed,
                Ref d_normed,
                TensorId loss) {
  program::Builder& b = step.b;
  const Ref labels = load_labels(step, Step::whole_sequences());
  const auto [input, logits] = emit_logits(step, parameters, head, normed);
  b.set_component(Component::loss);
  // Largest logit, sum of exponentials and target logit of each shard of the vocabulary.
  const program::Dim statistics{3 * step.plan.group_degree, "3P"};
  const Ref shard_statistics = step.micro_batch_value("softmax statistics",
                                                      {step.batch(), step.sequence(), statistics},
                                                      Step::feature_shards(),
                                                      ElementType::fp32);
  b.emit(Function::shard_statistics,
         "softmax statistics of the shard",
         {read(logits), read(labels), write(shard_statistics)});
  const Ref all = b.all_gather(shard_statistics, kGroup, "softmax statistics, gathered");
  const Ref d_logits =
      b.declare_in_place(logits.tensor, "gradient", b.tensor(logits.tensor).layout);
  b.emit(Function::cross_entropy_in_place,
         "cross entropy",
         {read(logits), read(labels), read(all), write(d_logits), update(loss)})
      .scale = loss_scale(step.plan);
  emit_head_backward(step, parameters, head, normed, input, d_logits, d_normed);
}

}  // namespace

const LossLoweringInfo kLossVocabularyParallel = {
    "vocabulary_parallel",
    "split logits in fp32; three all-reduces of one number per token",
    "megatron-lm",
    emit_unfused};

const LossLoweringInfo kLossVocabularyParallelFused = {
    "fused, vocabulary-parallel",
    "split logits whose gradient replaces them; one all-gather of three numbers per token",
    "transformer-engine",
    emit_fused};

}  // namespace trireme::plan
