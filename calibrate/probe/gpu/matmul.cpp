#include "calibrate/probe/gpu/matmul.h"

#include <array>

#include <fmt/format.h>

#include "calibrate/probe/gpu/check.h"

namespace trireme::calibrate::gpu {

namespace {

// Source: cublas, cublasSetWorkspace(): 32 MiB is recommended for Hopper
constexpr Bytes kWorkspace(32 << 20);
constexpr std::uint32_t kAlignment = 256;  // of cudaMalloc

cudaDataType_t type_of(ElementType type) {
  switch (type) {
    case ElementType::bf16:
      return CUDA_R_16BF;
    case ElementType::fp16:
      return CUDA_R_16F;
    case ElementType::fp32:
      return CUDA_R_32F;
    default:
      throw PointRefused(fmt::format("products of {} operands are not measured", name(type)));
  }
}

ElementType result_type(const GemmPoint& point) {
  return point.fp32_accumulation ? ElementType::fp32 : point.type;
}

template <class Value>
void set(cublasLtMatmulDesc_t operation,
         cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference,
         cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

cublasOperation_t operation_of(const StoredMatrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

class Preference {
 public:
  Preference() {
    check(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
  }

  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }

  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  [[nodiscard]] cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

Bytes bytes_of_matrix(const StoredMatrix& matrix, ElementType type) {
  return bytes_of(Elements(matrix.rows * matrix.columns), type);
}

}  // namespace

BlasHandle::BlasHandle() : workspace_(kWorkspace) {
  check(cublasLtCreate(&handle_), "cublasLtCreate");
}

BlasHandle::~BlasHandle() {
  cublasLtDestroy(handle_);
}

GemmBuffers::GemmBuffers(const GemmPoint& point)
    : a(bytes_of_matrix(gemm_layout(point).a, point.type)),
      b(bytes_of_matrix(gemm_layout(point).b, point.type)),
      d(bytes_of_matrix(gemm_layout(point).d, result_type(point))) {}

Bytes gemm_buffer_bytes(const GemmPoint& point) {
  const GemmLayout layout = gemm_layout(point);
  return bytes_of_matrix(layout.a, point.type) + bytes_of_matrix(layout.b, point.type) +
         bytes_of_matrix(layout.d, result_type(point));
}

void Matmul::Destroy::operator()(cublasLtMatmulDesc_t operation) const {
  cublasLtMatmulDescDestroy(operation);
}

void Matmul::Destroy::operator()(cublasLtMatrixLayout_t layout) const {
  cublasLtMatrixLayoutDestroy(layout);
}

Matmul::Layout Matmul::layout_of(const StoredMatrix& matrix, ElementType type) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout,
                                   type_of(type),
                                   static_cast<std::uint64_t>(matrix.rows),
                                   static_cast<std::uint64_t>(matrix.columns),
                                   matrix.leading_dimension),
        "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

Matmul::Matmul(const BlasHandle& handle, const GemmPoint& point)
    : handle_(handle), beta_(point.fp32_accumulation ? 1.0F : 0.0F) {
  const GemmLayout layout = gemm_layout(point);
  cublasLtMatmulDesc_t operation = nullptr;
  check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  operation_.reset(operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(layout.a));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(layout.b));
  a_ = layout_of(layout.a, point.type);
  b_ = layout_of(layout.b, point.type);
  d_ = layout_of(layout.d, result_type(point));

  const Preference preference;
  set(preference.get(),
      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(kWorkspace.value()));
  set(preference.get(),
      CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE) |
          static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference.get(), attribute, kAlignment);
  }
  std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle.get(),
                                                               operation,
                                                               a_.get(),
                                                               b_.get(),
                                                               d_.get(),
                                                               d_.get(),
                                                               preference.get(),
                                                               static_cast<int>(results.size()),
                                                               results.data(),
                                                               &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
    throw PointRefused("cublasLt has no algorithm for it");
  }
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  check(results.front().state, "cublasLtMatmulAlgoGetHeuristic");
  algorithm_ = results.front().algo;
}

void Matmul::execute(const Stream& stream, const GemmBuffers& buffers) const {
  constexpr float kAlpha = 1;
  check(cublasLtMatmul(handle_.get(),
                       operation_.get(),
                       &kAlpha,
                       buffers.a.get(),
                       a_.get(),
                       buffers.b.get(),
                       b_.get(),
                       &beta_,
                       buffers.d.get(),
                       d_.get(),
                       buffers.d.get(),
                       d_.get(),
                       &algorithm_,
                       handle_.workspace().get(),
                       static_cast<std::size_t>(handle_.workspace().amount().value()),
                       stream.get()),
        "cublasLtMatmul");
}

}  // namespace trireme::calibrate::gpu
