// The layers of a model, forward and backward: which run again whole before they go backward, and
// what of each is gathered ahead.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/plan/attention.h"
#include "sim/plan/mlp.h"
#include "sim/plan/parameters.h"
#include "sim/plan/step.h"

namespace trireme::plan {

/// Consecutive layers that a loop goes through in units of `size`, `units` times.
struct LayerRun {
  /// What of a unit runs again: nothing, its last layer, or all of its layers before any of them
  /// goes backward, from the unit's input alone.
  enum class Again : std::uint8_t { nothing, last, all };

  std::int64_t first = 0;
  std::int64_t size = 1;
  std::int64_t units = 1;
  Again again = Again::nothing;
};

/// `layers` consecutive layers from `first` on, in order; runs without units are left out. A plan's
/// choice of layers that run again counts from the first of them.
[[nodiscard]] std::vector<LayerRun> layer_runs(const Plan& plan,
                                               std::int64_t first,
                                               std::int64_t layers);

/// Layers of which the forward pass runs twice.
[[nodiscard]] std::int64_t recomputed_layers(const Plan& plan);

/// The parameters of a layer, which all layers of a program have.
struct LayerParameters {
  AttentionParameters attention;
  MlpParameters mlp;
};

[[nodiscard]] LayerParameters declare_layers(Step& step, Parameters& parameters);

/// Consecutive layers that go forward, and backward, one after another: all of a model, or a chunk
/// of a pipeline's stage.
class Layers {
 public:
  /// `of_layer` outlives it.
  Layers(Step& step,
         Parameters& parameters,
         const LayerParameters& of_layer,
         std::int64_t first,
         std::int64_t layers);

  /// The residual stream between layers and its gradient.
  void use(TensorId residual, TensorId d_residual) {
    residual_ = residual;
    d_residual_ = d_residual;
  }

  /// The first block of the forward pass.
  [[nodiscard]] NextUse first_forward() const { return attention_next(Phase::forward); }

  /// The first block of the backward pass, `layers_on` from the current layer to the last.
  [[nodiscard]] NextUse first_backward(int layers_on) const;

  /// Emits every layer's forward pass; `after` is the work behind the last.
  void emit_forward(const NextUse& after);

  /// Emits every layer's backward pass; `after` is the work behind that of the first layer.
  void emit_backward(const NextUse& after);

 private:
  /// What a layer's forward pass leaves for its backward pass.
  struct Tensors {
    AttentionTensors attention;
    MlpTensors mlp;
  };

  /// Bodies that declare alike, whichever layer they are emitted for.
  enum class Body : std::uint8_t { forward, forward_unsaved, again, backward, backward_of_again };

  [[nodiscard]] NextUse attention_next(Phase phase, std::int64_t layers_on = 0) const;
  [[nodiscard]] NextUse mlp_next(Phase phase, std::int64_t layers_on = 0) const;
  /// The first block of the backward pass of a run whose last layer is `layers_on` from here.
  [[nodiscard]] NextUse enters_backward(const LayerRun& run, std::int64_t layers_on) const;

  void emit_unit_forward(const LayerRun& run, const NextUse* after);
  void emit_unit_backward(const LayerRun& run, const NextUse& after);
  Tensors emit_blocks(Ref x, Ref out, const NextUse& next);
  Tensors emit_again(bool first_of_unit, const NextUse& next);
  void emit_layer_backward(const Tensors& saved, bool again, const NextUse& next);

  template <class Emit>
  void emit_alike(Body body, Emit emit) {
    step_.b.declare_alike(declared_[static_cast<std::size_t>(body)], emit);
  }

  Step& step_;
  Parameters& parameters_;
  const AttentionLoweringInfo& attention_;
  const MlpLoweringInfo& mlp_;
  std::vector<LayerRun> runs_;
  const AttentionParameters& attention_parameters_;
  const MlpParameters& mlp_parameters_;
  TensorId residual_ = program::kNoTensor;
  TensorId d_residual_ = program::kNoTensor;
  Tensors saved_;  // by a forward pass that does not run again
  std::array<program::Builder::Declarations, 5> declared_;
};

}  // namespace trireme::plan
