#include "calibrate/probe/layer_gemms.h"

#include <algorithm>
#include <utility>

#include "sim/cost/flops.h"
#include "sim/engine/work.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"

namespace trireme::calibrate {

namespace {

GemmPass pass_of(program::Function function) {
  switch (function) {
    case program::Function::gemm_forward:
      return GemmPass::forward;
    case program::Function::gemm_input_gradient:
      return GemmPass::data_gradient;
    default:
      return GemmPass::weight_gradient;
  }
}

struct Product {
  GemmPoint point;
  Flops of_step;
};

void add_products(const program::Program& program, std::vector<Product>& products) {
  program::for_each_op(program, [&](program::OpId, const program::Op& op, std::int64_t times) {
    if (program::info(op.function).family != program::Family::gemm) {
      return;
    }
    const engine::GemmExtents extents = engine::gemm_extents(program, op, engine::Extents::local);
    const GemmPoint point{
        .m = extents.m,
        .n = extents.n,
        .k = extents.k,
        .pass = pass_of(op.function),
        .type = program.tensor(program.operands(op).front().ref.tensor).type,
        .fp32_accumulation = engine::accumulates_in_fp32(program, op),
    };
    const Flops flops = static_cast<double>(times) * engine::executed_flops(program, op);
    const auto same = std::find_if(products.begin(), products.end(), [&](const Product& product) {
      return product.point == point;
    });
    if (same == products.end()) {
      products.push_back({point, flops});
    } else {
      same->of_step += flops;
    }
  });
}

}  // namespace

std::vector<GemmPoint> layer_gemms(const config::StudySpec& study) {
  std::vector<Product> products;
  for (const config::PlanSpec& spec : study.plans) {
    const plan::Resolution resolution = plan::resolve(study, spec);
    if (resolution.feasibility.legal()) {
      for (const program::Program& stage : plan::lower_stages(resolution.plan)) {
        add_products(stage, products);
      }
    }
  }
  std::stable_sort(products.begin(), products.end(), [](const Product& a, const Product& b) {
    return a.of_step > b.of_step;
  });
  std::vector<GemmPoint> points;
  points.reserve(products.size());
  for (const Product& product : products) {
    points.push_back(product.point);
  }
  return points;
}

}  // namespace trireme::calibrate
