#include "calibrate/probe/gemm_layout.h"

#include <stdexcept>

namespace trireme::calibrate {

namespace {

StoredMatrix stored(std::int64_t rows, std::int64_t columns, bool transposed = false) {
  return {.rows = rows, .columns = columns, .leading_dimension = rows, .transposed = transposed};
}

}  // namespace

GemmLayout gemm_layout(const GemmPoint& point) {
  // Column-major, the weight is in x out, x is in x T and dy is out x T in every pass.
  GemmLayout layout{.m = point.n, .n = point.m, .k = point.k, .a = {}, .b = {}, .d = {}};
  layout.d = stored(layout.m, layout.n);
  switch (point.pass) {
    case GemmPass::forward:
      layout.a = stored(layout.k, layout.m, true);
      layout.b = stored(layout.k, layout.n);
      return layout;
    case GemmPass::data_gradient:
      layout.a = stored(layout.m, layout.k);
      layout.b = stored(layout.k, layout.n);
      return layout;
    case GemmPass::weight_gradient:
      layout.a = stored(layout.m, layout.k);
      layout.b = stored(layout.n, layout.k, true);
      return layout;
  }
  throw std::logic_error("gemm_layout: not a pass");
}

}  // namespace trireme::calibrate
