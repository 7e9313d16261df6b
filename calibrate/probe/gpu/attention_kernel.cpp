#include "calibrate/probe/gpu/attention_kernel.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "calibrate/probe/gpu/kernels.h"
#include "sim/core/error.h"

namespace trireme::calibrate::gpu {

namespace {

std::int64_t query_elements(const AttentionPoint& point) {
  return point.sequences * point.query_tokens.value() * point.heads * point.head_dim;
}

std::int64_t key_elements(const AttentionPoint& point) {
  return point.sequences * point.key_tokens.value() * point.kv_heads * point.head_dim;
}

Bytes query_bytes(const AttentionPoint& point) {
  return bytes_of(Elements(query_elements(point)), ElementType::bf16);
}

Bytes key_bytes(const AttentionPoint& point) {
  return bytes_of(Elements(key_elements(point)), ElementType::bf16);
}

Bytes stats_bytes(const AttentionPoint& point) {
  return bytes_of(Elements(point.sequences * point.heads * point.query_tokens.value()),
                  ElementType::fp32);
}

Buffer of_backward(Pass pass, Bytes amount) {
  return pass == Pass::backward ? Buffer(amount) : Buffer();
}

/// The first configuration, or why there is none.
EngineConfig first_config(const AttentionGraph& graph) {
  Support support = find_configs(graph.graph, nullptr);
  if (support.configs.empty()) {
    throw PointRefused(fmt::format(
        "cuDNN {} has no kernel for it: {}", cudnnGetVersion(), support.reason.substr(0, 400)));
  }
  return std::move(support.configs.front());
}

}  // namespace

CudnnHandle::CudnnHandle(const Stream& stream) {
  check(cudnnCreate(&handle_), "cudnnCreate");
  check(cudnnSetStream(handle_, stream.get()), "cudnnSetStream");
}

CudnnHandle::~CudnnHandle() {
  cudnnDestroy(handle_);
}

AttentionBuffers::AttentionBuffers(const AttentionPoint& point, Pass pass)
    : q(query_bytes(point)),
      k(key_bytes(point)),
      v(key_bytes(point)),
      output(query_bytes(point)),
      stats(stats_bytes(point)),
      output_gradient(of_backward(pass, query_bytes(point))),
      q_gradient(of_backward(pass, query_bytes(point))),
      k_gradient(of_backward(pass, key_bytes(point))),
      v_gradient(of_backward(pass, key_bytes(point))) {}

void AttentionBuffers::fill(const Stream& stream, std::uint64_t seed) {
  for (const Buffer* buffer : {&q, &k, &v, &output_gradient}) {
    const std::int64_t elements = buffer->amount().value() / width(ElementType::bf16);
    if (elements > 0) {
      fill_bf16(stream.get(), buffer->get(), elements, seed);
    }
    ++seed;
  }
}

Bytes attention_buffer_bytes(const AttentionPoint& point, Pass pass) {
  const std::int64_t copies = pass == Pass::backward ? 2 : 1;
  return 2 * copies * (query_bytes(point) + key_bytes(point)) + stats_bytes(point);
}

AttentionKernel::AttentionKernel(const AttentionPoint& point)
    : point_(point),
      graph_(build_attention(point)),
      config_(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
      plan_(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
      scalars_(std::make_unique<Scalars>()) {
  EngineConfig config = first_config(graph_);
  engine_ = config.engine;
  config_ = std::move(config.descriptor);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config_);
  plan_.finalize();
  workspace_ = Bytes(plan_.int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  scalars_->scale = static_cast<float>(1 / std::sqrt(static_cast<double>(point.head_dim)));
  scalars_->minus_infinity = -std::numeric_limits<float>::infinity();
  scalars_->key_tokens = static_cast<std::int32_t>(point.key_tokens.value());
  scalars_->query_tokens = static_cast<std::int32_t>(point.query_tokens.value());
}

Descriptor AttentionKernel::bind(const AttentionBuffers& buffers,
                                 const Buffer& softmax_sum,
                                 const Buffer& q_accumulator,
                                 const Buffer& workspace) {
  namespace id = attention_id;
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  const auto add = [&](std::int64_t tensor, void* pointer) {
    ids.push_back(tensor);
    pointers.push_back(pointer);
  };
  add(id::q, buffers.q.get());
  add(id::k, buffers.k.get());
  add(id::v, buffers.v.get());
  add(id::output, buffers.output.get());
  add(id::stats, buffers.stats.get());
  add(id::scale, &scalars_->scale);
  if (point_.causal) {
    add(id::minus_infinity, &scalars_->minus_infinity);
    if (point_.query_tokens != point_.key_tokens) {
      add(id::key_tokens, &scalars_->key_tokens);
      add(id::query_tokens, &scalars_->query_tokens);
    }
  }
  if (point_.pass == Pass::backward) {
    add(id::output_gradient, buffers.output_gradient.get());
    add(id::q_gradient, buffers.q_gradient.get());
    add(id::k_gradient, buffers.k_gradient.get());
    add(id::v_gradient, buffers.v_gradient.get());
    add(id::softmax_sum, softmax_sum.get());
    add(id::q_accumulator, q_accumulator.get());
    add(id::one, &scalars_->one);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(ids));
  pack.set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  void* const scratch = workspace.get();
  pack.set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span<void* const>(&scratch, 1));
  pack.finalize();
  return pack;
}

void AttentionKernel::execute(const CudnnHandle& handle, const Descriptor& bound) const {
  const cudnnStatus_t status = cudnnBackendExecute(handle.get(), plan_.get(), bound.get());
  if (status != CUDNN_STATUS_SUCCESS) {
    throw Error(ErrorKind::device, {}, CudnnError(status, "cudnnBackendExecute").what());
  }
}

}  // namespace trireme::calibrate::gpu
