#include <algorithm>
#include <cmath>
#include <cuda_bf16.h>
#include <stdexcept>

#include "calibrate/probe/gpu/check.h"
#include "calibrate/probe/gpu/kernels.h"
#include "calibrate/probe/pattern.h"

namespace trireme::calibrate::gpu {

namespace {

using Bf16 = __nv_bfloat16;

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kVector = 8;  // bf16 elements of a 16-byte access
constexpr std::int64_t kMostBlocks = 1 << 20;

struct alignas(16) Vector {
  Bf16 element[kVector];
};

/// Blocks for one thread per item; threads go on by the size of the grid where that is too many.
int blocks_for(std::int64_t items) {
  return static_cast<int>(std::clamp<std::int64_t>(ceil_div(items, kThreads), 1, kMostBlocks));
}

std::int64_t vectors_of(std::int64_t count) {
  return exact_div(count, std::int64_t{kVector});
}

void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

__device__ std::int64_t first_item() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ std::int64_t item_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

__global__ void hold_kernel(std::uint64_t nanoseconds) {
  std::uint64_t start = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

__global__ void empty_kernel() {}

__global__ void fill_bf16_kernel(Bf16* data, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    data[i] = __float2bfloat16(uniform_value(seed, static_cast<std::uint64_t>(i)));
  }
}

__global__ void fill_fp32_kernel(float* data, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    data[i] = uniform_value(seed, static_cast<std::uint64_t>(i));
  }
}

__global__ void fill_moved_bits_kernel(std::uint16_t* data,
                                       std::int64_t count,
                                       std::uint64_t source,
                                       std::uint64_t first_index) {
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    data[i] = moved_bits(source, first_index + static_cast<std::uint64_t>(i));
  }
}

__global__ void check_moved_bits_kernel(const std::uint16_t* data,
                                        std::int64_t count,
                                        std::uint64_t source,
                                        std::uint64_t first_index,
                                        unsigned long long* wrong) {
  unsigned long long found = 0;
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    found += data[i] != moved_bits(source, first_index + static_cast<std::uint64_t>(i)) ? 1 : 0;
  }
  if (found != 0) {
    atomicAdd(wrong, found);
  }
}

__global__ void fill_summands_kernel(Bf16* data,
                                     std::int64_t count,
                                     std::uint64_t source,
                                     std::uint64_t ranks) {
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    data[i] =
        __float2bfloat16(static_cast<float>(summand(source, static_cast<std::uint64_t>(i), ranks)));
  }
}

__global__ void check_sums_kernel(const Bf16* data,
                                  std::int64_t count,
                                  std::uint64_t ranks,
                                  std::uint64_t first_index,
                                  unsigned long long* wrong) {
  unsigned long long found = 0;
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    int sum = 0;
    for (std::uint64_t source = 0; source < ranks; ++source) {
      sum += summand(source, first_index + static_cast<std::uint64_t>(i), ranks);
    }
    found += __bfloat162float(data[i]) != static_cast<float>(sum) ? 1 : 0;
  }
  if (found != 0) {
    atomicAdd(wrong, found);
  }
}

/// The sum over a block of kThreads threads, in every one of them.
__device__ float block_sum(float value) {
  __shared__ float of_warp[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  __syncthreads();  // of_warp may still be read by the call before
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kThreads / kWarp; ++i) {
    sum += of_warp[i];
  }
  return sum;
}

__device__ float block_max(float value) {
  __shared__ float of_warp[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  float largest = of_warp[0];
  for (int i = 1; i < kThreads / kWarp; ++i) {
    largest = fmaxf(largest, of_warp[i]);
  }
  return largest;
}

constexpr float kNormEpsilon = 1e-5F;
/// Vectors of a row that one thread keeps in registers.
constexpr int kNormVectors = static_cast<int>(kMostNormWidth) / (kThreads * kVector);

__global__ void rms_norm_kernel(
    const Vector* x, const Vector* weight, Vector* y, float* inverse_rms, int vectors) {
  const std::int64_t row = blockIdx.x;
  Vector kept[kNormVectors];
  float squares = 0;
  for (int n = 0; n < kNormVectors; ++n) {
    const int column = n * kThreads + static_cast<int>(threadIdx.x);
    if (column < vectors) {
      kept[n] = x[row * vectors + column];
      for (int e = 0; e < kVector; ++e) {
        const float value = __bfloat162float(kept[n].element[e]);
        squares += value * value;
      }
    }
  }
  const float mean = block_sum(squares) / static_cast<float>(vectors * kVector);
  const float inverse = rsqrtf(mean + kNormEpsilon);
  for (int n = 0; n < kNormVectors; ++n) {
    const int column = n * kThreads + static_cast<int>(threadIdx.x);
    if (column < vectors) {
      const Vector scale = weight[column];
      Vector out;
      for (int e = 0; e < kVector; ++e) {
        out.element[e] = __float2bfloat16(__bfloat162float(kept[n].element[e]) * inverse *
                                          __bfloat162float(scale.element[e]));
      }
      y[row * vectors + column] = out;
    }
  }
  if (threadIdx.x == 0) {
    inverse_rms[row] = inverse;
  }
}

/// Each block takes every gridDim.x-th row and adds up the weight's gradient of its rows.
__global__ void rms_norm_backward_kernel(const Vector* gradient,
                                         const Vector* x,
                                         const Vector* weight,
                                         const float* inverse_rms,
                                         Vector* x_gradient,
                                         float* weight_partials,
                                         std::int64_t rows,
                                         int vectors) {
  float weight_sum[kNormVectors][kVector] = {};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float inverse = inverse_rms[row];
    Vector kept_gradient[kNormVectors];
    Vector kept_x[kNormVectors];
    float products = 0;
    for (int n = 0; n < kNormVectors; ++n) {
      const int column = n * kThreads + static_cast<int>(threadIdx.x);
      if (column < vectors) {
        kept_gradient[n] = gradient[row * vectors + column];
        kept_x[n] = x[row * vectors + column];
        const Vector scale = weight[column];
        for (int e = 0; e < kVector; ++e) {
          const float normed = __bfloat162float(kept_x[n].element[e]) * inverse;
          const float dy = __bfloat162float(kept_gradient[n].element[e]);
          products += dy * __bfloat162float(scale.element[e]) * normed;
          weight_sum[n][e] += dy * normed;
        }
      }
    }
    const float mean = block_sum(products) / static_cast<float>(vectors * kVector);
    for (int n = 0; n < kNormVectors; ++n) {
      const int column = n * kThreads + static_cast<int>(threadIdx.x);
      if (column < vectors) {
        const Vector scale = weight[column];
        Vector out;
        for (int e = 0; e < kVector; ++e) {
          const float normed = __bfloat162float(kept_x[n].element[e]) * inverse;
          const float scaled =
              __bfloat162float(kept_gradient[n].element[e]) * __bfloat162float(scale.element[e]);
          out.element[e] = __float2bfloat16(inverse * (scaled - normed * mean));
        }
        x_gradient[row * vectors + column] = out;
      }
    }
  }
  for (int n = 0; n < kNormVectors; ++n) {
    const int column = n * kThreads + static_cast<int>(threadIdx.x);
    if (column < vectors) {
      for (int e = 0; e < kVector; ++e) {
        const std::int64_t row = blockIdx.x;
        weight_partials[(row * vectors + column) * kVector + e] = weight_sum[n][e];
      }
    }
  }
}

__global__ void sum_rows_kernel(const float* partials,
                                float* sums,
                                std::int64_t rows,
                                std::int64_t width) {
  for (std::int64_t i = first_item(); i < width; i += item_stride()) {
    float sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      sum += partials[row * width + i];
    }
    sums[i] = sum;
  }
}

constexpr float kRootTwoOverPi = 0.7978845608F;
constexpr float kGeluCubic = 0.044715F;

__device__ float gelu_of(float x) {
  const float inner = kRootTwoOverPi * (x + kGeluCubic * x * x * x);
  return 0.5F * x * (1 + tanhf(inner));
}

__device__ float gelu_slope(float x) {
  const float inner = kRootTwoOverPi * (x + kGeluCubic * x * x * x);
  const float tanh_inner = tanhf(inner);
  const float inner_slope = kRootTwoOverPi * (1 + 3 * kGeluCubic * x * x);
  return 0.5F * (1 + tanh_inner) + 0.5F * x * (1 - tanh_inner * tanh_inner) * inner_slope;
}

__global__ void gelu_kernel(const Vector* x, Vector* y, std::int64_t vectors) {
  for (std::int64_t i = first_item(); i < vectors; i += item_stride()) {
    const Vector in = x[i];
    Vector out;
    for (int e = 0; e < kVector; ++e) {
      out.element[e] = __float2bfloat16(gelu_of(__bfloat162float(in.element[e])));
    }
    y[i] = out;
  }
}

__global__ void gelu_backward_kernel(const Vector* gradient,
                                     const Vector* x,
                                     Vector* x_gradient,
                                     std::int64_t vectors) {
  for (std::int64_t i = first_item(); i < vectors; i += item_stride()) {
    const Vector in = x[i];
    const Vector dy = gradient[i];
    Vector out;
    for (int e = 0; e < kVector; ++e) {
      out.element[e] = __float2bfloat16(__bfloat162float(dy.element[e]) *
                                        gelu_slope(__bfloat162float(in.element[e])));
    }
    x_gradient[i] = out;
  }
}

__device__ float sigmoid(float x) {
  return 1 / (1 + __expf(-x));
}

__global__ void swiglu_kernel(const Vector* x, Vector* y, std::int64_t rows, std::int64_t vectors) {
  for (std::int64_t i = first_item(); i < rows * vectors; i += item_stride()) {
    const std::int64_t row = i / vectors;
    const std::int64_t column = i % vectors;
    const Vector gate = x[2 * row * vectors + column];
    const Vector up = x[(2 * row + 1) * vectors + column];
    Vector out;
    for (int e = 0; e < kVector; ++e) {
      const float g = __bfloat162float(gate.element[e]);
      out.element[e] = __float2bfloat16(g * sigmoid(g) * __bfloat162float(up.element[e]));
    }
    y[i] = out;
  }
}

__global__ void swiglu_backward_kernel(const Vector* gradient,
                                       const Vector* x,
                                       Vector* x_gradient,
                                       std::int64_t rows,
                                       std::int64_t vectors) {
  for (std::int64_t i = first_item(); i < rows * vectors; i += item_stride()) {
    const std::int64_t row = i / vectors;
    const std::int64_t column = i % vectors;
    const std::int64_t gate_at = 2 * row * vectors + column;
    const std::int64_t up_at = gate_at + vectors;
    const Vector gate = x[gate_at];
    const Vector up = x[up_at];
    const Vector dy = gradient[i];
    Vector gate_gradient;
    Vector up_gradient;
    for (int e = 0; e < kVector; ++e) {
      const float g = __bfloat162float(gate.element[e]);
      const float d = __bfloat162float(dy.element[e]);
      const float s = sigmoid(g);
      gate_gradient.element[e] =
          __float2bfloat16(d * __bfloat162float(up.element[e]) * s * (1 + g * (1 - s)));
      up_gradient.element[e] = __float2bfloat16(d * g * s);
    }
    x_gradient[gate_at] = gate_gradient;
    x_gradient[up_at] = up_gradient;
  }
}

__global__ void add_kernel(const Vector* a, const Vector* b, Vector* sum, std::int64_t vectors) {
  for (std::int64_t i = first_item(); i < vectors; i += item_stride()) {
    const Vector first = a[i];
    const Vector second = b[i];
    Vector out;
    for (int e = 0; e < kVector; ++e) {
      out.element[e] = __float2bfloat16(__bfloat162float(first.element[e]) +
                                        __bfloat162float(second.element[e]));
    }
    sum[i] = out;
  }
}

__global__ void exchange_axes_kernel(
    const uint4* from, uint4* to, std::int64_t rows, std::int64_t parts, std::int64_t vectors) {
  const std::int64_t all = rows * parts * vectors;
  for (std::int64_t i = first_item(); i < all; i += item_stride()) {
    const std::int64_t column = i % vectors;
    const std::int64_t part = i / vectors % parts;
    const std::int64_t row = i / (vectors * parts);
    to[(part * rows + row) * vectors + column] = from[i];
  }
}

__global__ void copy_kernel(const uint4* from, uint4* to, std::int64_t vectors) {
  for (std::int64_t i = first_item(); i < vectors; i += item_stride()) {
    to[i] = from[i];
  }
}

__global__ void adamw_kernel(float4* parameters,
                             float4* first_moments,
                             float4* second_moments,
                             const float4* gradients,
                             uint2* working_copy,
                             std::int64_t vectors,
                             AdamStep step) {
  for (std::int64_t i = first_item(); i < vectors; i += item_stride()) {
    float4 p = parameters[i];
    float4 m = first_moments[i];
    float4 v = second_moments[i];
    const float4 g = gradients[i];
    const auto update = [&](float& parameter, float& first, float& second, float gradient) {
      first = step.beta1 * first + (1 - step.beta1) * gradient;
      second = step.beta2 * second + (1 - step.beta2) * gradient * gradient;
      const float direction =
          first / step.correction1 / (sqrtf(second / step.correction2) + step.epsilon);
      parameter -= step.learning_rate * (direction + step.weight_decay * parameter);
    };
    update(p.x, m.x, v.x, g.x);
    update(p.y, m.y, v.y, g.y);
    update(p.z, m.z, v.z, g.z);
    update(p.w, m.w, v.w, g.w);
    parameters[i] = p;
    first_moments[i] = m;
    second_moments[i] = v;
    __nv_bfloat162 low = __floats2bfloat162_rn(p.x, p.y);
    __nv_bfloat162 high = __floats2bfloat162_rn(p.z, p.w);
    uint2 packed;
    packed.x = *reinterpret_cast<unsigned*>(&low);
    packed.y = *reinterpret_cast<unsigned*>(&high);
    working_copy[i] = packed;
  }
}

/// One block a row: the maximum and the sum of exponentials in one pass, the gradient in a second.
__global__ void cross_entropy_kernel(
    Vector* logits, const std::int32_t* targets, float* losses, std::int64_t vectors, float scale) {
  const std::int64_t row = blockIdx.x;
  Vector* const own = logits + row * vectors;
  const std::int64_t target = targets[row];
  const float target_logit = __bfloat162float(own[target / kVector].element[target % kVector]);
  float largest = -INFINITY;
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    const Vector in = own[i];
    float here = largest;
    for (int e = 0; e < kVector; ++e) {
      here = fmaxf(here, __bfloat162float(in.element[e]));
    }
    sum *= __expf(largest - here);
    for (int e = 0; e < kVector; ++e) {
      sum += __expf(__bfloat162float(in.element[e]) - here);
    }
    largest = here;
  }
  const float row_largest = block_max(largest);
  const float row_sum = block_sum(sum * __expf(largest - row_largest));
  for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    Vector values = own[i];
    for (int e = 0; e < kVector; ++e) {
      float probability = __expf(__bfloat162float(values.element[e]) - row_largest) / row_sum;
      if (i * kVector + e == target) {
        probability -= 1;
      }
      values.element[e] = __float2bfloat16(scale * probability);
    }
    own[i] = values;
  }
  if (threadIdx.x == 0) {
    losses[row] = row_largest + logf(row_sum) - target_logit;
  }
}

Vector* vectors(void* data) {
  return static_cast<Vector*>(data);
}

const Vector* vectors(const void* data) {
  return static_cast<const Vector*>(data);
}

unsigned long long* counter(std::uint64_t* wrong) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  return reinterpret_cast<unsigned long long*>(wrong);
}

int norm_vectors(std::int64_t width) {
  if (width > kMostNormWidth) {
    throw std::logic_error("rms_norm: a row longer than the kernel keeps in registers");
  }
  return static_cast<int>(vectors_of(width));
}

}  // namespace

void hold(cudaStream_t stream, Seconds time) {
  hold_kernel<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(time.value() * 1e9));
  check_launch("hold");
}

void launch_empty(cudaStream_t stream) {
  empty_kernel<<<1, kWarp, 0, stream>>>();
  check_launch("empty");
}

void fill_bf16(cudaStream_t stream, void* data, std::int64_t count, std::uint64_t seed) {
  fill_bf16_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      static_cast<Bf16*>(data), count, seed);
  check_launch("fill_bf16");
}

void fill_fp32(cudaStream_t stream, float* data, std::int64_t count, std::uint64_t seed) {
  fill_fp32_kernel<<<blocks_for(count), kThreads, 0, stream>>>(data, count, seed);
  check_launch("fill_fp32");
}

void fill_moved_bits(cudaStream_t stream,
                     void* data,
                     std::int64_t count,
                     std::int64_t source,
                     std::int64_t first_index) {
  fill_moved_bits_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      static_cast<std::uint16_t*>(data),
      count,
      static_cast<std::uint64_t>(source),
      static_cast<std::uint64_t>(first_index));
  check_launch("fill_moved_bits");
}

void fill_summands(
    cudaStream_t stream, void* data, std::int64_t count, std::int64_t source, std::int64_t ranks) {
  fill_summands_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      static_cast<Bf16*>(data),
      count,
      static_cast<std::uint64_t>(source),
      static_cast<std::uint64_t>(ranks));
  check_launch("fill_summands");
}

void check_moved_bits(cudaStream_t stream,
                      const void* data,
                      std::int64_t count,
                      std::int64_t source,
                      std::int64_t first_index,
                      std::uint64_t* wrong) {
  check_moved_bits_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      static_cast<const std::uint16_t*>(data),
      count,
      static_cast<std::uint64_t>(source),
      static_cast<std::uint64_t>(first_index),
      counter(wrong));
  check_launch("check_moved_bits");
}

void check_sums(cudaStream_t stream,
                const void* data,
                std::int64_t count,
                std::int64_t ranks,
                std::int64_t first_index,
                std::uint64_t* wrong) {
  check_sums_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      static_cast<const Bf16*>(data),
      count,
      static_cast<std::uint64_t>(ranks),
      static_cast<std::uint64_t>(first_index),
      counter(wrong));
  check_launch("check_sums");
}

void rms_norm(cudaStream_t stream,
              const void* x,
              const void* weight,
              void* y,
              float* inverse_rms,
              std::int64_t rows,
              std::int64_t width) {
  rms_norm_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      vectors(x), vectors(weight), vectors(y), inverse_rms, norm_vectors(width));
  check_launch("rms_norm");
}

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
                       int multiprocessors) {
  const std::int64_t partials = norm_partials(multiprocessors);
  rms_norm_backward_kernel<<<static_cast<unsigned>(partials), kThreads, 0, stream>>>(
      vectors(gradient),
      vectors(x),
      vectors(weight),
      inverse_rms,
      vectors(x_gradient),
      weight_partials,
      rows,
      norm_vectors(width));
  check_launch("rms_norm_backward");
  sum_rows_kernel<<<blocks_for(width), kThreads, 0, stream>>>(
      weight_partials, weight_gradient, partials, width);
  check_launch("sum_rows");
}

void gelu(cudaStream_t stream, const void* x, void* y, std::int64_t count) {
  const std::int64_t items = vectors_of(count);
  gelu_kernel<<<blocks_for(items), kThreads, 0, stream>>>(vectors(x), vectors(y), items);
  check_launch("gelu");
}

void gelu_backward(cudaStream_t stream,
                   const void* gradient,
                   const void* x,
                   void* x_gradient,
                   std::int64_t count) {
  const std::int64_t items = vectors_of(count);
  gelu_backward_kernel<<<blocks_for(items), kThreads, 0, stream>>>(
      vectors(gradient), vectors(x), vectors(x_gradient), items);
  check_launch("gelu_backward");
}

void swiglu(cudaStream_t stream, const void* x, void* y, std::int64_t rows, std::int64_t width) {
  const std::int64_t items = vectors_of(width);
  swiglu_kernel<<<blocks_for(rows * items), kThreads, 0, stream>>>(
      vectors(x), vectors(y), rows, items);
  check_launch("swiglu");
}

void swiglu_backward(cudaStream_t stream,
                     const void* gradient,
                     const void* x,
                     void* x_gradient,
                     std::int64_t rows,
                     std::int64_t width) {
  const std::int64_t items = vectors_of(width);
  swiglu_backward_kernel<<<blocks_for(rows * items), kThreads, 0, stream>>>(
      vectors(gradient), vectors(x), vectors(x_gradient), rows, items);
  check_launch("swiglu_backward");
}

void add(cudaStream_t stream, const void* a, const void* b, void* sum, std::int64_t count) {
  const std::int64_t items = vectors_of(count);
  add_kernel<<<blocks_for(items), kThreads, 0, stream>>>(
      vectors(a), vectors(b), vectors(sum), items);
  check_launch("add");
}

void exchange_axes(cudaStream_t stream,
                   const void* from,
                   void* to,
                   std::int64_t rows,
                   std::int64_t parts,
                   std::int64_t width) {
  const std::int64_t items = vectors_of(width);
  exchange_axes_kernel<<<blocks_for(rows * parts * items), kThreads, 0, stream>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), rows, parts, items);
  check_launch("exchange_axes");
}

void copy_with_blocks(cudaStream_t stream, const void* from, void* to, Bytes amount, int blocks) {
  const std::int64_t items = exact_div(amount.value(), static_cast<std::int64_t>(sizeof(uint4)));
  copy_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), items);
  check_launch("copy");
}

void adamw(cudaStream_t stream,
           float* parameters,
           float* first_moments,
           float* second_moments,
           const float* gradients,
           void* working_copy,
           std::int64_t count,
           const AdamStep& step) {
  const std::int64_t items = exact_div(count, std::int64_t{4});
  adamw_kernel<<<blocks_for(items), kThreads, 0, stream>>>(
      reinterpret_cast<float4*>(parameters),
      reinterpret_cast<float4*>(first_moments),
      reinterpret_cast<float4*>(second_moments),
      reinterpret_cast<const float4*>(gradients),
      static_cast<uint2*>(working_copy),
      items,
      step);
  check_launch("adamw");
}

void cross_entropy(cudaStream_t stream,
                   void* logits,
                   const std::int32_t* targets,
                   float* losses,
                   std::int64_t rows,
                   std::int64_t width) {
  cross_entropy_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      vectors(logits), targets, losses, vectors_of(width), 1.0F / static_cast<float>(rows));
  check_launch("cross_entropy");
}

}  // namespace trireme::calibrate::gpu
