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

/// The layers of a plan in order; runs without units are left out. Where a model has plain layers
/// before those with experts, all layers of a run are alike, but for a single unit of both kinds.
[[nodiscard]] std::vector<LayerRun> layer_runs(const Plan& plan);

/// Layers of which the forward pass runs twice.
[[nodiscard]] std::int64_t recomputed_layers(const Plan& plan);

class Layers {
 public:
  /// `residual` and `d_residual` are the residual stream between layers and its gradient.
  Layers(Step& step, Parameters& parameters);

  void declare();

  void use(TensorId residual, TensorId d_residual) {
    residual_ = residual;
    d_residual_ = d_residual;
  }

  /// Emits `body` for every layer, kind by kind, with Parameters set to the kind's layers.
  template <class Body>
  void for_each(Body body) {
    for_each_kind([&](const Kind& kind) {
      step_.b.repeat(program::Index::layer, kind.first, 1, kind.count, body);
    });
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

  /// Layers that are alike: those with a plain MLP come first, those with experts after them.
  struct Kind {
    std::int64_t first = 0;
    std::int64_t count = 0;
    const MlpLoweringInfo* mlp = nullptr;
    MlpParameters mlp_parameters;
    Tensors saved;  // by a forward pass that does not run again
    std::array<program::Builder::Declarations, 5> declared;
  };

  void add_kind(std::int64_t first, std::int64_t count, const MlpLoweringInfo& mlp);

  template <class Visit>
  void for_each_kind(Visit visit) {
    for (std::size_t i = 0; i < kinds_; ++i) {
      Kind& kind = kind_[i];
      if (kinds_ > 1) {
        parameters_.set_layers(
            {static_cast<std::int16_t>(kind.first), static_cast<std::int16_t>(kind.count)});
      }
      visit(kind);
    }
    parameters_.set_layers({});
  }

  /// The kind of a unit's layer `i`, in every unit of the run.
  [[nodiscard]] std::size_t kind_number(const LayerRun& run, std::int64_t i) const;

  [[nodiscard]] Kind& kind_of(const LayerRun& run, std::int64_t i) {
    return kind_[kind_number(run, i)];
  }

  [[nodiscard]] const Kind& kind_of(const LayerRun& run, std::int64_t i) const {
    return kind_[kind_number(run, i)];
  }

  [[nodiscard]] NextUse attention_next(Phase phase, std::int64_t layers_on = 0) const;
  [[nodiscard]] static NextUse mlp_next(const Kind& kind, Phase phase, std::int64_t layers_on = 0);
  /// The first block of the backward pass of a run whose last layer is `layers_on` from here.
  [[nodiscard]] NextUse enters_backward(const LayerRun& run, std::int64_t layers_on) const;

  void emit_unit_forward(const LayerRun& run, const NextUse* after);
  void emit_unit_backward(const LayerRun& run, const NextUse& after);
  Tensors emit_blocks(const Kind& kind, Ref x, Ref out, const NextUse& next);
  Tensors emit_again(Kind& kind, bool first_of_unit, const NextUse& next);
  void emit_layer_backward(Kind& kind, const Tensors& saved, bool again, const NextUse& next);

  template <class Emit>
  void emit_alike(Kind& kind, Body body, Emit emit) {
    step_.b.declare_alike(kind.declared[static_cast<std::size_t>(body)], emit);
  }

  Step& step_;
  Parameters& parameters_;
  const AttentionLoweringInfo& attention_;
  std::vector<LayerRun> runs_;
  AttentionParameters attention_parameters_;
  std::array<Kind, 2> kind_;
  std::size_t kinds_ = 0;
  TensorId residual_ = program::kNoTensor;
  TensorId d_residual_ = program::kNoTensor;
  TensorId again_ = program::kNoTensor;  // the residual stream of layers that run again
};

}  // namespace trireme::plan
