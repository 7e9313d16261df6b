// A plan's model shrunk until it can be executed, and the numbers that it is given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/engine/execute/dense_reference.h"
#include "sim/engine/execute/executor.h"
#include "sim/plan/plan.h"

namespace trireme::study {

enum class ModelSize : std::uint8_t {
  least,   // what still has every case: for proving
  larger,  // what takes long enough to be timed
  stated   // what the study says
};

/// `plan` with a small model and workload of the same kind: head ratio, MLP and norm kind, biases,
/// rotary embedding, tying, degrees and options stay; sizes become small and odd where rules allow.
/// Precondition: `plan` is legal; the result is, too.
[[nodiscard]] plan::Plan shrink(const plan::Plan& plan, ModelSize size, std::int64_t gpus_per_node);

/// "3 layers, h 13, 8 heads of 3, 8 of keys and values, f 24, S 24, B 1, ..."
[[nodiscard]] std::string in_words(const plan::Plan& plan);

[[nodiscard]] engine::DenseModel dense_model(const plan::Plan& plan);

/// Numbers that depend on seed, name and logical index alone, whatever the layout.
class SmallNumbers {
 public:
  SmallNumbers(const plan::Plan& plan, std::uint64_t seed);

  /// Weights about as large as initialisations make them, so that nothing saturates.
  [[nodiscard]] engine::DenseValues initial_parameters() const;

  /// The batch of a step, micro batch by micro batch.
  [[nodiscard]] engine::DenseBatch batch(std::int64_t step) const;

 private:
  [[nodiscard]] std::uint64_t bits(std::string_view name,
                                   std::int64_t instance,
                                   std::int64_t index) const;
  [[nodiscard]] double normal(std::string_view name,
                              std::int64_t instance,
                              std::int64_t index) const;

  plan::Plan plan_;
  engine::DenseModel model_;
  std::int64_t sequences_;
  std::int64_t sequence_;
  std::uint64_t seed_;
};

/// The values of a program's parameter: the reference's own, or, where a lowering splits the packed
/// queries, keys and values into two parameters, its rows of those. Throws std::logic_error for a
/// name that the reference does not know.
[[nodiscard]] std::vector<double> program_values(const engine::DenseModel& model,
                                                 const engine::DenseValues& values,
                                                 const std::string& name,
                                                 std::int64_t layer);

}  // namespace trireme::study
