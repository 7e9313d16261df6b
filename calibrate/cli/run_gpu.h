// `trireme-calibrate run` on GPUs: whether there are any, and what is measured on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/cli/invocation.h"
#include "calibrate/probe/gpu_machine.h"

namespace trireme::calibrate {

/// This rank's GPU as --device and --study say; null when the CPUs are measured. All ranks decide
/// the same. Throws Error (command line), (input) for the study, and (device) where --device gpu
/// asks for what is not there.
[[nodiscard]] std::unique_ptr<GpuMachine> take_gpu(const Invocation& call,
                                                   GpuOptions options,
                                                   RankLink& link,
                                                   const Placement& placement);

/// "GPU: CUDA 13.0, ..." or that there is none, with a line's end.
[[nodiscard]] std::string gpu_libraries();

}  // namespace trireme::calibrate
