// The numbers that a verified run is given, and what comes out of them without any plan.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/execute/dense_reference.h"
#include "sim/engine/execute/executor.h"
#include "sim/plan/plan.h"
#include "sim/program/program.h"
#include "sim/study/rank_record.h"
#include "sim/study/small_model.h"

namespace trireme::study {

class Reference {
 public:
  /// `plan` is small already; `seed` decides parameters and batches.
  Reference(const plan::Plan& plan, std::int64_t steps, std::uint64_t seed);

  [[nodiscard]] const engine::ExecutionConstants& constants() const { return constants_; }

  /// Fills one rank's part of a parameter, an optimizer state or an input.
  void fill(const program::Mesh& mesh,
            std::int64_t rank,
            std::int64_t step,
            const engine::InstanceIndex& instance,
            engine::LocalTensor& local) const;

  /// Runs the steps; before that, expected() has nothing to give.
  void run();

  /// The whole of a captured tensor, in logical order.
  [[nodiscard]] std::vector<double> expected(const program::Tensor& tensor,
                                             const Capture& capture) const;

 private:
  [[nodiscard]] std::vector<double> source(const program::Tensor& tensor,
                                           std::int64_t step,
                                           const engine::InstanceIndex& instance) const;

  [[nodiscard]] std::vector<double> of_micro_batch(const std::vector<double>& step,
                                                   const engine::InstanceIndex& instance,
                                                   std::int64_t width) const;

  engine::DenseModel model_;
  program::TokenOrder order_;
  engine::ExecutionConstants constants_;
  engine::DenseValues initial_;
  std::vector<engine::DenseBatch> batches_;
  std::int64_t sequences_ = 1;  // of one micro batch, on all ranks
  bool clip_ = true;
  std::vector<engine::DenseResult> results_;
  std::vector<engine::DenseValues> parameters_;
  std::vector<engine::DenseMoments> moments_;
};

}  // namespace trireme::study
