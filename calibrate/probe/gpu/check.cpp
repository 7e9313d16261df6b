#include "calibrate/probe/gpu/check.h"

#include <fmt/format.h>

#include "sim/core/error.h"

namespace trireme::calibrate::gpu {

void check(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) {
    throw Error(ErrorKind::device, {}, fmt::format("{}: {}", call, cudaGetErrorString(status)));
  }
}

void check(cublasStatus_t status, std::string_view call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(
        ErrorKind::device, {}, fmt::format("{}: {}", call, cublasLtGetStatusString(status)));
  }
}

}  // namespace trireme::calibrate::gpu
