// Failed calls of NVIDIA's libraries as errors that name the call.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <string_view>

namespace trireme::calibrate::gpu {

/// Throws Error (device): "cudaMalloc: out of memory".
void check(cudaError_t status, std::string_view call);

/// The same for cublasLt.
void check(cublasStatus_t status, std::string_view call);

}  // namespace trireme::calibrate::gpu
