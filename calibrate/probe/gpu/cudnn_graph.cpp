#include "calibrate/probe/gpu/cudnn_graph.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/units/units.h"

namespace trireme::calibrate::gpu {

namespace {

constexpr std::int64_t kAlignment = 16;  // bytes: what cudaMalloc gives and more

std::string in_words(cudnnStatus_t status, std::string_view call) {
  std::string text = fmt::format("{}: {} ({})", call, cudnnGetErrorString(status), int{status});
  const std::string message = last_cudnn_message();
  return message.empty() ? text : fmt::format("{}: {}", text, message);
}

}  // namespace

CudnnError::CudnnError(cudnnStatus_t status, std::string_view call)
    : std::runtime_error(in_words(status, call)), status_(status) {}

void check(cudnnStatus_t status, std::string_view call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw CudnnError(status, call);
  }
}

std::string last_cudnn_message() {
  std::string text(8192, '\0');  // the reasons of all engines stand in it
  cudnnGetLastErrorString(text.data(), text.size());
  text.resize(std::char_traits<char>::length(text.c_str()));
  return text;
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) {
    cudnnBackendDestroyDescriptor(descriptor_);
  }
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Descriptor::set(cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type,
                     std::int64_t count,
                     const void* values) {
  const cudnnStatus_t status = cudnnBackendSetAttribute(descriptor_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    throw CudnnError(status, fmt::format("cudnnBackendSetAttribute({})", int{name}));
  }
}

void Descriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value) {
  set(name, CUDNN_TYPE_POINTWISE_MODE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value) {
  set(name, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value) {
  set(name, CUDNN_TYPE_HEUR_MODE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

void Descriptor::set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
  set(name, CUDNN_TYPE_INT64, std::ssize(values), values.data());
}

void Descriptor::set_pointers(cudnnBackendAttributeName_t name, std::span<void* const> pointers) {
  set(name, CUDNN_TYPE_VOID_PTR, std::ssize(pointers), pointers.data());
}

void Descriptor::set_descriptors(cudnnBackendAttributeName_t name,
                                 std::span<const cudnnBackendDescriptor_t> descriptors) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(descriptors), descriptors.data());
}

void Descriptor::finalize() {
  check(cudnnBackendFinalize(descriptor_), "cudnnBackendFinalize");
}

std::int64_t Descriptor::int64(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &value),
        "cudnnBackendGetAttribute");
  return value;
}

std::int32_t Descriptor::int32(cudnnBackendAttributeName_t name) const {
  std::int32_t value = 0;
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT32, 1, &count, &value),
        "cudnnBackendGetAttribute");
  return value;
}

Extents packed(const Extents& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

TensorSpec transposed(TensorSpec tensor) {
  std::swap(tensor.dims[2], tensor.dims[3]);
  std::swap(tensor.strides[2], tensor.strides[3]);
  return tensor;
}

GraphBuilder::Tensor GraphBuilder::tensor(const TensorSpec& spec) {
  return tensor(spec, next_id_++);
}

GraphBuilder::Tensor GraphBuilder::tensor(const TensorSpec& spec, Tensor id) {
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, spec.type);
  descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(spec.dims));
  descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(spec.strides));
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  if (spec.by_value) {
    descriptor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  } else if (spec.is_virtual) {
    descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  }
  descriptor.finalize();
  tensors_.emplace_back(id, std::move(descriptor));
  return id;
}

const Descriptor& GraphBuilder::of(Tensor id) const {
  const auto found = std::find_if(
      tensors_.begin(), tensors_.end(), [&](const auto& entry) { return entry.first == id; });
  ensure(found != tensors_.end(), "graph builder: a tensor that was not declared");
  return found->second;
}

Descriptor& GraphBuilder::operation(cudnnBackendDescriptorType_t type) {
  return operations_.emplace_back(type);
}

void GraphBuilder::matmul(Tensor a, Tensor b, Tensor result) {
  Descriptor& setting = settings_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  setting.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  setting.finalize();
  Descriptor& product = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
  product.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
  product.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(result));
  product.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, setting);
  product.finalize();
}

Descriptor& GraphBuilder::pointwise_operation(cudnnPointwiseMode_t mode,
                                              cudnnDataType_t precision,
                                              std::optional<std::int64_t> axis) {
  Descriptor& setting = settings_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  setting.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  setting.set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
  if (axis) {
    setting.set(CUDNN_ATTR_POINTWISE_AXIS, *axis);
  }
  setting.finalize();
  Descriptor& pointwise = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, setting);
  return pointwise;
}

void GraphBuilder::pointwise(cudnnPointwiseMode_t mode,
                             Tensor x,
                             Tensor result,
                             cudnnDataType_t precision) {
  Descriptor& pointwise = pointwise_operation(mode, precision);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(result));
  pointwise.finalize();
}

void GraphBuilder::pointwise(
    cudnnPointwiseMode_t mode, Tensor x, Tensor y, Tensor result, cudnnDataType_t precision) {
  Descriptor& pointwise = pointwise_operation(mode, precision);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(y));
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(result));
  pointwise.finalize();
}

void GraphBuilder::index(Tensor like, std::int64_t axis, Tensor result) {
  Descriptor& pointwise = pointwise_operation(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(like));
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(result));
  pointwise.finalize();
}

void GraphBuilder::select(Tensor x, Tensor otherwise, Tensor keep, Tensor result) {
  Descriptor& pointwise = pointwise_operation(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT);
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(otherwise));
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(keep));
  pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(result));
  pointwise.finalize();
}

void GraphBuilder::reduce(cudnnReduceTensorOp_t kind, Tensor x, Tensor result) {
  Descriptor& setting = settings_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  setting.set(CUDNN_ATTR_REDUCTION_OPERATOR, kind);
  setting.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  setting.finalize();
  Descriptor& reduction = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(result));
  reduction.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, setting);
  reduction.finalize();
}

void GraphBuilder::reshape(Tensor x, Tensor result) {
  Descriptor& reshape = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  reshape.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
  reshape.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(result));
  reshape.finalize();
}

void GraphBuilder::attention_forward(
    Tensor q, Tensor k, Tensor v, Tensor scale, Tensor output, Tensor stats) {
  Descriptor& attention = operation(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  attention.set(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, of(q));
  attention.set(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, of(k));
  attention.set(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, of(v));
  attention.set(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, of(scale));
  attention.set(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, of(output));
  attention.set(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, of(stats));
  attention.finalize();
}

Descriptor GraphBuilder::build() {
  std::vector<cudnnBackendDescriptor_t> operations;
  operations.reserve(operations_.size());
  for (const Descriptor& operation : operations_) {
    operations.push_back(operation.get());
  }
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  graph.finalize();
  return graph;
}

std::vector<Descriptor> GraphBuilder::take_descriptors() {
  std::vector<Descriptor> all = std::move(operations_);
  all.insert(all.end(),
             std::make_move_iterator(settings_.begin()),
             std::make_move_iterator(settings_.end()));
  for (auto& [id, descriptor] : tensors_) {
    all.push_back(std::move(descriptor));
  }
  settings_.clear();
  tensors_.clear();
  operations_.clear();
  return all;
}

namespace {

/// The number of the engine that a configuration is of.
std::int64_t engine_of(const Descriptor& config) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(config.get(),
                                 CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1,
                                 &count,
                                 &handle),
        "cudnnBackendGetAttribute");
  return engine.int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}

}  // namespace

Support find_configs(const Descriptor& graph, const Descriptor* device) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  if (device != nullptr) {
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device);
  }
  heuristics.finalize();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.get(),
                                 CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 0,
                                 &count,
                                 nullptr),
        "cudnnBackendGetAttribute");
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    handles.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  Support support;
  if (count == 0) {
    support.reason = last_cudnn_message();
    return support;
  }
  static_cast<void>(last_cudnn_message());  // what is said from here on is about this graph
  // The fetch is the support check: it may return fewer than were counted, and succeed.
  std::int64_t supported = 0;
  check(cudnnBackendGetAttribute(heuristics.get(),
                                 CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 count,
                                 &supported,
                                 handles.data()),
        "cudnnBackendGetAttribute");
  support.reason = supported == 0 ? last_cudnn_message() : std::string();
  for (std::int64_t i = 0; i < supported; ++i) {
    Descriptor& config = configs[static_cast<std::size_t>(i)];
    const std::int64_t engine = engine_of(config);
    const std::int64_t workspace = config.int64(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
    const std::int32_t shared = config.int32(CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED);
    support.configs.push_back({.descriptor = std::move(config),
                               .engine = engine,
                               .workspace_bytes = workspace,
                               .shared_memory_bytes = shared});
  }
  return support;
}

}  // namespace trireme::calibrate::gpu
