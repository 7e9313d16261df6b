#include "calibrate/probe/gpu_machine.h"

namespace trireme::calibrate {

namespace {

const GpuSupport*& offered() {
  static const GpuSupport* support = nullptr;
  return support;
}

}  // namespace

void offer_gpus(const GpuSupport* support) {
  offered() = support;
}

const GpuSupport* offered_gpus() {
  return offered();
}

}  // namespace trireme::calibrate
