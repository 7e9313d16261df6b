// What this build offers on GPUs.
#pragma once

#include "calibrate/probe/gpu_machine.h"

namespace trireme::calibrate::gpu {

[[nodiscard]] const GpuSupport& support();

}  // namespace trireme::calibrate::gpu
