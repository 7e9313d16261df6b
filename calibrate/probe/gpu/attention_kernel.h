// An attention point compiled by cuDNN, with memory to run on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "calibrate/probe/gpu/attention_graph.h"
#include "calibrate/probe/gpu/device.h"

namespace trireme::calibrate::gpu {

/// cuDNN on a device's stream.
class CudnnHandle {
 public:
  explicit CudnnHandle(const Stream& stream);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  [[nodiscard]] cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

/// The tensors of one attention layer; those of the backward pass are empty in a forward point.
struct AttentionBuffers {
  AttentionBuffers(const AttentionPoint& point, Pass pass);

  /// Fills inputs with uniform_value() of seeds that start at `seed`, in the order q, k, v and the
  /// output's gradient.
  void fill(const Stream& stream, std::uint64_t seed);

  Buffer q;
  Buffer k;
  Buffer v;
  Buffer output;
  Buffer stats;
  Buffer output_gradient;
  Buffer q_gradient;
  Buffer k_gradient;
  Buffer v_gradient;
};

/// Device memory of such buffers.
[[nodiscard]] Bytes attention_buffer_bytes(const AttentionPoint& point, Pass pass);

class AttentionKernel {
 public:
  /// Compiles the first configuration that cuDNN has for the point. Throws PointRefused with
  /// cuDNN's reason where it has none.
  explicit AttentionKernel(const AttentionPoint& point);

  [[nodiscard]] Bytes workspace() const { return workspace_; }

  [[nodiscard]] std::int64_t engine() const { return engine_; }

  /// Binds memory. All of it, and this kernel, must live as long as what is returned is used.
  [[nodiscard]] Descriptor bind(const AttentionBuffers& buffers,
                                const Buffer& softmax_sum,
                                const Buffer& q_accumulator,
                                const Buffer& workspace);

  void execute(const CudnnHandle& handle, const Descriptor& bound) const;

 private:
  /// What by-value scalars point to while a pack is bound.
  struct Scalars {
    float scale = 1;
    float minus_infinity = 0;
    float one = 1;
    std::int32_t key_tokens = 0;
    std::int32_t query_tokens = 0;
  };

  AttentionPoint point_;
  AttentionGraph graph_;
  Descriptor config_;
  Descriptor plan_;
  Bytes workspace_;
  std::int64_t engine_ = 0;
  std::unique_ptr<Scalars> scalars_;
};

}  // namespace trireme::calibrate::gpu
