#include "sim/program/program.h"

namespace trireme::program {

std::int64_t Program::resident_instances(const Tensor& tensor) const {
  std::int64_t instances = 1;
  for (std::size_t i = 0; i < kIndexCount; ++i) {
    if ((tensor.varies & (1U << i)) != 0) {
      instances *= extents_[i];
    }
  }
  return instances;
}

}  // namespace trireme::program
