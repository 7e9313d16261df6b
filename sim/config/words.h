// The words of a study and what they mean: read with one_of, printed with word_for.
#pragma once

#include <span>
#include <stdexcept>
#include <string_view>

#include "sim/config/map_reader.h"
#include "sim/config/model_spec.h"
#include "sim/config/study_spec.h"
#include "sim/units/units.h"

namespace trireme::config {

inline constexpr Choice<BiasKind> kBiasWords[] = {
    {"none", BiasKind::none}, {"qkv", BiasKind::qkv}, {"all", BiasKind::all}};
inline constexpr Choice<MlpKind> kMlpWords[] = {{"gelu", MlpKind::gelu},
                                                {"swiglu", MlpKind::swiglu},
                                                {"relu", MlpKind::relu},
                                                {"geglu", MlpKind::geglu}};
inline constexpr Choice<NormKind> kNormWords[] = {{"layernorm", NormKind::layernorm},
                                                  {"rmsnorm", NormKind::rmsnorm}};
inline constexpr Choice<RouterScore> kRouterWords[] = {{"softmax", RouterScore::softmax},
                                                       {"sigmoid", RouterScore::sigmoid}};
inline constexpr Choice<Recompute> kRecomputeWords[] = {
    {"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}};
inline constexpr Choice<OptimizerRecipe> kOptimizerRecipeWords[] = {
    {"bf16-fp32-main", OptimizerRecipe::bf16_fp32_main},
    {"precision-aware", OptimizerRecipe::precision_aware},
    {"adam-8bit", OptimizerRecipe::adam_8bit},
    {"bf16", OptimizerRecipe::bf16}};
inline constexpr Choice<LossKind> kLossWords[] = {
    {"eager", LossKind::eager},
    {"chunked", LossKind::chunked},
    {"fused", LossKind::fused},
    {"vocabulary_parallel", LossKind::vocabulary_parallel}};
inline constexpr Choice<AttentionKernel> kAttentionWords[] = {
    {"flash2", AttentionKernel::flash2},
    {"flash3", AttentionKernel::flash3},
    {"cudnn", AttentionKernel::cudnn},
    {"unfused", AttentionKernel::unfused}};
inline constexpr Choice<Allocator> kAllocatorWords[] = {
    {"native", Allocator::native}, {"expandable_segments", Allocator::expandable_segments}};
inline constexpr Choice<TransformerImpl> kTransformerImplWords[] = {
    {"transformer_engine", TransformerImpl::transformer_engine}, {"local", TransformerImpl::local}};
inline constexpr Choice<ExchangeKind> kExchangeWords[] = {{"packed", ExchangeKind::packed},
                                                          {"separate", ExchangeKind::separate}};
inline constexpr Choice<KvRepeat> kKvRepeatWords[] = {{"minimal", KvRepeat::minimal},
                                                      {"all_heads", KvRepeat::all_heads}};
inline constexpr Choice<RingImplementation> kRingWords[] = {
    {"transformer_engine", RingImplementation::transformer_engine},
    {"ring_flash_attention", RingImplementation::ring_flash_attention},
    {"pytorch", RingImplementation::pytorch},
    {"all_gather", RingImplementation::all_gather}};
inline constexpr Choice<RingOrder> kRingOrderWords[] = {{"contiguous", RingOrder::contiguous},
                                                        {"zigzag", RingOrder::zigzag},
                                                        {"striped", RingOrder::striped}};
inline constexpr Choice<ContextCommunication> kContextWords[] = {
    {"p2p", ContextCommunication::p2p},
    {"all_gather", ContextCommunication::all_gather},
    {"a2a", ContextCommunication::a2a},
    {"a2a+p2p", ContextCommunication::a2a_p2p}};
inline constexpr Choice<GradientReduce> kReduceWords[] = {
    {"reduce_scatter", GradientReduce::reduce_scatter}, {"all_reduce", GradientReduce::all_reduce}};
inline constexpr Choice<Reshard> kReshardWords[] = {
    {"true", Reshard::after_forward}, {"false", Reshard::keep}, {"framework", Reshard::framework}};
inline constexpr Choice<ZeroScope> kZeroScopeWords[] = {{"all", ZeroScope::all},
                                                        {"attention", ZeroScope::attention}};
inline constexpr Choice<PipelineScheduleKind> kPipelineScheduleWords[] = {
    {"1f1b", PipelineScheduleKind::one_forward_one_backward},
    {"interleaved", PipelineScheduleKind::interleaved}};
inline constexpr Choice<RankGroup> kRankGroupWords[] = {{"tensor", RankGroup::tensor},
                                                        {"sequence", RankGroup::sequence},
                                                        {"exchange", RankGroup::exchange},
                                                        {"ring", RankGroup::ring},
                                                        {"data", RankGroup::data},
                                                        {"pipeline", RankGroup::pipeline}};
inline constexpr Choice<PipelineSplit> kPipelineSplitWords[] = {{"count", PipelineSplit::count},
                                                                {"cost", PipelineSplit::cost}};
inline constexpr Choice<ElementType> kGradientTypeWords[] = {
    {"fp32", ElementType::fp32}, {"bf16", ElementType::bf16}, {"fp16", ElementType::fp16}};
inline constexpr Choice<TensorParallelOverlap> kTensorParallelOverlapWords[] = {
    {"none", TensorParallelOverlap::none},
    {"bulk", TensorParallelOverlap::bulk},
    {"ring_exchange", TensorParallelOverlap::ring_exchange}};
inline constexpr Choice<JitterDistribution> kJitterWords[] = {
    {"log_normal", JitterDistribution::log_normal},
    {"exponential", JitterDistribution::exponential}};
inline constexpr Choice<Framework> kFrameworkWords[] = {
    {"generic", Framework::generic},
    {"megatron", Framework::megatron},
    {"deepspeed", Framework::deepspeed},
    {"deepspeed_legacy", Framework::deepspeed_legacy},
    {"pytorch", Framework::pytorch},
    {"torchtitan", Framework::torchtitan},
    {"nanotron", Framework::nanotron},
    {"huggingface", Framework::huggingface},
    {"verl", Framework::verl},
    {"prime_rl", Framework::prime_rl}};

/// The word of `choices` that means `value`.
template <class T, std::size_t N>
constexpr std::string_view word_for(const Choice<T> (&choices)[N], T value) {
  for (const Choice<T>& choice : choices) {
    if (choice.value == value) {
      return choice.word;
    }
  }
  throw std::logic_error("word_for: a value without a word");
}

/// A parser of the words of a table.
template <class T, std::size_t N>
auto word_of(const Choice<T> (&choices)[N]) {
  return one_of(std::span<const Choice<T>>(choices));
}

}  // namespace trireme::config
