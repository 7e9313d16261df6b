// The kernels of our own: patterns and their checks, and those that memory bounds.
//
// Every function launches on `stream` and returns; a launch that fails throws Error (device). bf16
// data is passed as void*.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

#include "sim/units/units.h"

namespace trireme::calibrate::gpu {

/// Keeps a stream busy with one thread for that long.
void hold(cudaStream_t stream, Seconds time);

/// Does nothing, once.
void launch_empty(cudaStream_t stream);

/// uniform_value(seed, i) for each i.
void fill_bf16(cudaStream_t stream, void* data, std::int64_t count, std::uint64_t seed);
void fill_fp32(cudaStream_t stream, float* data, std::int64_t count, std::uint64_t seed);

// What collectives carry (pattern.h). Element i of the buffer is index `first_index` + i.
void fill_moved_bits(cudaStream_t stream,
                     void* data,
                     std::int64_t count,
                     std::int64_t source,
                     std::int64_t first_index);
void fill_summands(
    cudaStream_t stream, void* data, std::int64_t count, std::int64_t source, std::int64_t ranks);

/// Adds to `wrong` how many of the elements are not what rank `source` held.
void check_moved_bits(cudaStream_t stream,
                      const void* data,
                      std::int64_t count,
                      std::int64_t source,
                      std::int64_t first_index,
                      std::uint64_t* wrong);

/// The same for sums over `ranks` ranks.
void check_sums(cudaStream_t stream,
                const void* data,
                std::int64_t count,
                std::int64_t ranks,
                std::int64_t first_index,
                std::uint64_t* wrong);

/// y = x / rms(x) weight over rows of `width` bf16 elements, one pass over x; keeps 1 / rms.
/// `width` is a multiple of 8 and at most kMostNormWidth.
void rms_norm(cudaStream_t stream,
              const void* x,
              const void* weight,
              void* y,
              float* inverse_rms,
              std::int64_t rows,
              std::int64_t width);

/// dx from dy, x and 1 / rms in one pass; `weight_partials`, [norm_partials(device), width] fp32,
/// take the weight's gradient, which a second kernel sums into `weight_gradient` (fp32).
void rms_norm_backward(cudaStream_t stream,
                       const void* gradient,
                       const void* x,
                       const void* weight,
                       const float* inverse_rms,
                       void* x_gradient,
                       float* weight_partials,
                       float* weight_gradient,
                       std::int64_t rows,
                       std::int64_t width,
                       int multiprocessors);

inline constexpr std::int64_t kMostNormWidth = 8192;

[[nodiscard]] constexpr std::int64_t norm_partials(int multiprocessors) {
  return 2L * multiprocessors;
}

/// y = gelu(x), and dx = dy gelu'(x); tanh form.
void gelu(cudaStream_t stream, const void* x, void* y, std::int64_t count);
void gelu_backward(
    cudaStream_t stream, const void* gradient, const void* x, void* x_gradient, std::int64_t count);

/// y = silu(gate) up, and both gradients; `width` elements of gate stand before as many of up in
/// each row of x.
void swiglu(cudaStream_t stream, const void* x, void* y, std::int64_t rows, std::int64_t width);
void swiglu_backward(cudaStream_t stream,
                     const void* gradient,
                     const void* x,
                     void* x_gradient,
                     std::int64_t rows,
                     std::int64_t width);

/// sum = a + b.
void add(cudaStream_t stream, const void* a, const void* b, void* sum, std::int64_t count);

/// [rows, parts, width] to [parts, rows, width] with `width` bf16 elements, a multiple of 8: what
/// stands around an all-to-all of heads.
void exchange_axes(cudaStream_t stream,
                   const void* from,
                   void* to,
                   std::int64_t rows,
                   std::int64_t parts,
                   std::int64_t width);

/// Copies with `blocks` blocks, as many as a communication kernel takes.
void copy_with_blocks(cudaStream_t stream, const void* from, void* to, Bytes amount, int blocks);

struct AdamStep {
  float learning_rate = 1e-4F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;
  float correction1 = 1;  // 1 - beta1^t
  float correction2 = 1;  // 1 - beta2^t
};

/// AdamW on fp32 parameters, moments and gradients, with a bf16 copy of the parameters.
void adamw(cudaStream_t stream,
           float* parameters,
           float* first_moments,
           float* second_moments,
           const float* gradients,
           void* working_copy,
           std::int64_t count,
           const AdamStep& step);

/// Negative log-likelihoods of `targets` under rows of `width` bf16 logits, which are replaced by
/// their gradient times 1 / rows.
void cross_entropy(cudaStream_t stream,
                   void* logits,
                   const std::int32_t* targets,
                   float* losses,
                   std::int64_t rows,
                   std::int64_t width);

}  // namespace trireme::calibrate::gpu
