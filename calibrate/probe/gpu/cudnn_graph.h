// Operation graphs of cuDNN's backend interface, with descriptors that free themselves.
#pragma once

#include <array>
#include <cstdint>
#include <cudnn.h>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::calibrate::gpu {

/// A failed call of cuDNN, with what the library says about it.
class CudnnError : public std::runtime_error {
 public:
  CudnnError(cudnnStatus_t status, std::string_view call);

  [[nodiscard]] cudnnStatus_t status() const { return status_; }

  /// Whether cuDNN has no kernel for what was asked, as opposed to one that failed.
  [[nodiscard]] bool not_supported() const {
    return CUDNN_STATUS_CATEGORY(status_) == CUDNN_STATUS_NOT_SUPPORTED;
  }

 private:
  cudnnStatus_t status_;
};

/// Throws CudnnError.
void check(cudnnStatus_t status, std::string_view call);

/// Whatever cuDNN last complained about on this thread, and forgets it; may be empty.
[[nodiscard]] std::string last_cudnn_message();

/// A backend descriptor. Attributes are set, then it is finalised, then it is read and used.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return descriptor_; }

  void set(cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type,
           std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value);
  void set(cudnnBackendAttributeName_t name, bool value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value);
  void set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value);
  void set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value);
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values);
  void set_pointers(cudnnBackendAttributeName_t name, std::span<void* const> pointers);
  void set_descriptors(cudnnBackendAttributeName_t name,
                       std::span<const cudnnBackendDescriptor_t> descriptors);

  void finalize();

  [[nodiscard]] std::int64_t int64(cudnnBackendAttributeName_t name) const;
  [[nodiscard]] std::int32_t int32(cudnnBackendAttributeName_t name) const;

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

using Extents = std::array<std::int64_t, 4>;

struct TensorSpec {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Extents dims{1, 1, 1, 1};
  Extents strides{1, 1, 1, 1};  // in elements
  bool is_virtual = true;       // an intermediate, without memory
  bool by_value = false;        // a scalar that the host passes
};

/// Strides of a tensor whose last dimension is innermost.
[[nodiscard]] Extents packed(const Extents& dims);

/// The same memory with the last two dimensions exchanged.
[[nodiscard]] TensorSpec transposed(TensorSpec tensor);

/// Builds an operation graph. Tensors are known by their unique ids.
class GraphBuilder {
 public:
  using Tensor = std::int64_t;

  /// An intermediate.
  Tensor tensor(const TensorSpec& spec);

  /// A tensor under the id by which memory is bound to it.
  Tensor tensor(const TensorSpec& spec, Tensor id);

  void matmul(Tensor a, Tensor b, Tensor result);
  void pointwise(cudnnPointwiseMode_t mode,
                 Tensor x,
                 Tensor result,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT);
  void pointwise(cudnnPointwiseMode_t mode,
                 Tensor x,
                 Tensor y,
                 Tensor result,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT);
  /// The place of each element along a dimension.
  void index(Tensor like, std::int64_t axis, Tensor result);
  /// x where `keep` is true, else `otherwise`.
  void select(Tensor x, Tensor otherwise, Tensor keep, Tensor result);
  void reduce(cudnnReduceTensorOp_t operation, Tensor x, Tensor result);
  void reshape(Tensor x, Tensor result);
  /// cuDNN's single operation for attention forward without a mask.
  void attention_forward(Tensor q, Tensor k, Tensor v, Tensor scale, Tensor output, Tensor stats);

  /// The finalised operation graph of what was added.
  [[nodiscard]] Descriptor build();

  [[nodiscard]] std::size_t operations() const { return operations_.size(); }

  /// Keeps what a graph refers to; it must live as long as the graph and its plans.
  [[nodiscard]] std::vector<Descriptor> take_descriptors();

 private:
  [[nodiscard]] const Descriptor& of(Tensor id) const;
  Descriptor& operation(cudnnBackendDescriptorType_t type);
  Descriptor& pointwise_operation(cudnnPointwiseMode_t mode,
                                  cudnnDataType_t precision,
                                  std::optional<std::int64_t> axis = std::nullopt);

  Tensor next_id_ = 1000;  // above the ids that callers choose
  std::vector<std::pair<Tensor, Descriptor>> tensors_;
  std::vector<Descriptor> settings_;  // of operations
  std::vector<Descriptor> operations_;
};

/// One way in which cuDNN can run a graph, before it is compiled.
struct EngineConfig {
  Descriptor descriptor;
  std::int64_t engine = 0;  // specific to a version: recorded, never chosen by
  std::int64_t workspace_bytes = 0;
  std::int32_t shared_memory_bytes = 0;
};

struct Support {
  std::vector<EngineConfig> configs;  // the first is what frameworks run
  std::string reason;                 // when there is none
};

/// The configurations that cuDNN's heuristics find for a device and whose support check passes.
/// `device`: a DEVICEPROP descriptor; null for the current device.
[[nodiscard]] Support find_configs(const Descriptor& graph, const Descriptor* device);

}  // namespace trireme::calibrate::gpu
