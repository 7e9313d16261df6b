#include "sim/engine/execute/kernel.h"

#include <array>

#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

namespace {

using program::Function;

struct KernelRow {
  Function function;
  Kernel kernel;
};

// One row per function, in the order of the enumeration.
constexpr std::array kKernels = {
    KernelRow{Function::gemm_forward, gemm_forward},
    KernelRow{Function::gemm_input_gradient, gemm_input_gradient},
    KernelRow{Function::gemm_weight_gradient, gemm_weight_gradient},
    KernelRow{Function::grouped_gemm_forward, grouped_gemm_forward},
    KernelRow{Function::grouped_gemm_input_gradient, grouped_gemm_input_gradient},
    KernelRow{Function::grouped_gemm_weight_gradient, grouped_gemm_weight_gradient},
    KernelRow{Function::attention_forward, attention_forward},
    KernelRow{Function::attention_backward, attention_backward},
    KernelRow{Function::merge_log_sum_exp, merge_log_sum_exp},
    KernelRow{Function::correct_output, correct_output},
    KernelRow{Function::merge_attention, merge_attention},
    KernelRow{Function::assemble_keys, assemble_keys},
    KernelRow{Function::assemble_keys_backward, assemble_keys_backward},
    KernelRow{Function::norm_forward, norm_forward},
    KernelRow{Function::norm_backward, norm_backward},
    KernelRow{Function::gelu, gelu},
    KernelRow{Function::gelu_backward, gelu_backward},
    KernelRow{Function::swiglu, swiglu},
    KernelRow{Function::swiglu_backward, swiglu_backward},
    KernelRow{Function::rotary, rotary},
    KernelRow{Function::rotary_backward, rotary_backward},
    KernelRow{Function::add, add},
    KernelRow{Function::bias_gradient, bias_gradient},
    KernelRow{Function::cast, copy},  // every type is executed in double precision
    KernelRow{Function::copy, copy},
    KernelRow{Function::zero, zero},
    KernelRow{Function::accumulate, accumulate},
    KernelRow{Function::place_block, copy},
    KernelRow{Function::sum_blocks, sum_blocks},
    KernelRow{Function::take_heads, take_heads},
    KernelRow{Function::return_heads, return_heads},
    KernelRow{Function::repeat_heads, repeat_heads},
    KernelRow{Function::sum_repeated_heads, sum_repeated_heads},
    KernelRow{Function::select_experts, nullptr},
    KernelRow{Function::expert_weights, expert_weights},
    KernelRow{Function::expert_weights_backward, expert_weights_backward},
    KernelRow{Function::dispatch_tokens, dispatch_tokens},
    KernelRow{Function::dispatch_tokens_backward, dispatch_tokens_backward},
    KernelRow{Function::combine_tokens, combine_tokens},
    KernelRow{Function::combine_tokens_backward, combine_tokens_backward},
    KernelRow{Function::embedding_forward, embedding_forward},
    KernelRow{Function::embedding_backward, embedding_backward},
    KernelRow{Function::logits_max, logits_max},
    KernelRow{Function::softmax_statistics, softmax_statistics},
    KernelRow{Function::shard_statistics, shard_statistics},
    KernelRow{Function::cross_entropy, cross_entropy},
    KernelRow{Function::cross_entropy_backward, cross_entropy_backward},
    KernelRow{Function::cross_entropy_in_place, cross_entropy_in_place},
    KernelRow{Function::parallel_cross_entropy, parallel_cross_entropy},
    KernelRow{Function::parallel_cross_entropy_backward, parallel_cross_entropy_backward},
    KernelRow{Function::half_square_loss, half_square_loss},
    KernelRow{Function::square_sum, square_sum},
    KernelRow{Function::adam, adam},
    KernelRow{Function::load_batch, nullptr},
    KernelRow{Function::to_host, nullptr},
    KernelRow{Function::to_device, nullptr},
    KernelRow{Function::collective, nullptr},
    KernelRow{Function::stage_send, nullptr},
    KernelRow{Function::stage_receive, nullptr},
    KernelRow{Function::stage_sum, nullptr},
    KernelRow{Function::keep, nullptr},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kKernels.size(); ++i) {
    if (static_cast<std::size_t>(kKernels[i].function) != i) {
      return false;
    }
  }
  return true;
}

static_assert(in_order());

}  // namespace

Kernel kernel(Function function) {
  return kKernels.at(static_cast<std::size_t>(function)).kernel;
}

}  // namespace trireme::engine
