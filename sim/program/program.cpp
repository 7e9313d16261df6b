#include "sim/program/program.h"

namespace trireme::program {

Program::IndexRange Program::resident_range(const Tensor& tensor, Index index) const {
  if ((tensor.varies & index_bit(index)) == 0) {
    return {};
  }
  if (index == Index::layer && tensor.layers.count > 0) {
    return {tensor.layers.first, tensor.layers.count};
  }
  return {0, extent(index)};
}

std::int64_t Program::resident_instances(const Tensor& tensor) const {
  std::int64_t instances = 1;
  for (std::size_t i = 0; i < kIndexCount; ++i) {
    instances *= resident_range(tensor, static_cast<Index>(i)).count;
  }
  return instances;
}

}  // namespace trireme::program
