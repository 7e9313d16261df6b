// The layers of a model, forward and backward: which run again whole before they go backward, and
// what of each is gathered ahead.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
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

  /// The layer of a unit whose input what runs again starts from.
  [[nodiscard]] std::int64_t input_layer() const { return again == Again::last ? size - 1 : 0; }
};

/// `layers` consecutive layers of a stage from `first` on, in order; runs without units are left
/// out. A plan's choice of layers that run again counts from the first of them. Where the stage's
/// first `dense` layers have a plain MLP and the others experts, all layers of a run are alike, but
/// for a single unit of both kinds.
[[nodiscard]] std::vector<LayerRun> layer_runs(const Plan& plan,
                                               std::int64_t first,
                                               std::int64_t layers,
                                               std::int64_t dense);

/// Layers of which the forward pass runs twice.
[[nodiscard]] std::int64_t recomputed_layers(const Plan& plan);

/// Layers of a stage that are alike.
struct LayerKind {
  std::int64_t first = 0;  // in the stage's own numbering
  std::int64_t count = 0;
  const MlpLoweringInfo* mlp = nullptr;
  MlpParameters mlp_parameters;
};

/// The parameters of a stage's layers. Those with a plain MLP come first, those with experts after
/// them; attention is the same in all.
struct LayerParameters {
  AttentionParameters attention;
  std::vector<LayerKind> kinds;

  /// The first layer with experts where there is one of each kind; else 0.
  [[nodiscard]] std::int64_t experts_from() const {
    return kinds.size() > 1 ? kinds.back().first : 0;
  }
};

/// `layers` layers, of which the first `dense` have a plain MLP.
[[nodiscard]] LayerParameters declare_layers(Step& step,
                                             Parameters& parameters,
                                             std::int64_t layers,
                                             std::int64_t dense);

/// Calls `visit` for each kind of layers, with Parameters set to them.
template <class Kinds, class Visit>
void for_each_kind(Parameters& parameters, Kinds& kinds, Visit visit) {
  for (auto& kind : kinds) {
    if (kinds.size() > 1) {
      parameters.set_layers(
          {static_cast<std::int16_t>(kind.first), static_cast<std::int16_t>(kind.count)});
    }
    visit(kind);
  }
  parameters.set_layers({});
}

/// Emits `body` for every layer, kind by kind.
template <class Body>
void for_each_layer(Step& step, Parameters& parameters, const LayerParameters& layers, Body body) {
  for_each_kind(parameters, layers.kinds, [&](const LayerKind& kind) {
    step.b.repeat(program::Index::layer, kind.first, 1, kind.count, body);
  });
}

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
  void use(TensorId residual, TensorId d_residual);

  /// The first block of the forward pass.
  [[nodiscard]] NextUse first_forward() const {
    return runs_.empty() ? NextUse{} : attention_next(Phase::forward);
  }

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

  /// What the passes of layers of one kind have in common.
  struct Kind {
    const LayerKind* of = nullptr;
    Tensors saved;  // by a forward pass that does not run again
    std::array<program::Builder::Declarations, 5> declared;
  };

  /// The kind of a unit's layer `i`, in every unit of the run.
  [[nodiscard]] std::size_t kind_number(const LayerRun& run, std::int64_t i) const;

  [[nodiscard]] Kind& kind_of(const LayerRun& run, std::int64_t i) {
    return kinds_[kind_number(run, i)];
  }

  [[nodiscard]] const Kind& kind_of(const LayerRun& run, std::int64_t i) const {
    return kinds_[kind_number(run, i)];
  }

  [[nodiscard]] NextUse attention_next(Phase phase, std::int64_t layers_on = 0) const;
  [[nodiscard]] static NextUse mlp_next(const Kind& kind, Phase phase, std::int64_t layers_on = 0);
  /// The first block of the backward pass of a run whose last layer is `layers_on` from here.
  [[nodiscard]] NextUse enters_backward(const LayerRun& run, std::int64_t layers_on) const;

  void emit_unit_forward(const LayerRun& run, const NextUse* after);
  /// `ahead`: from the unit's first layer to the one whose input the next unit starts from.
  void emit_unit_backward(const LayerRun& run,
                          const NextUse& after,
                          std::optional<std::int64_t> ahead);
  void offload_input();
  /// What comes from the host as a unit begins: its own input, and the next unit's.
  void fetch_inputs(const LayerRun& run, std::optional<std::int64_t> ahead);
  void fetch_input(std::int64_t layers_on);
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
  const AttentionParameters& attention_parameters_;
  std::vector<Kind> kinds_;
  TensorId residual_ = program::kNoTensor;
  TensorId d_residual_ = program::kNoTensor;
  TensorId again_ = program::kNoTensor;  // the residual stream of layers that run again
  // Inputs of units that run again, where a plan offloads them.
  TensorId on_host_ = program::kNoTensor;
  TensorId from_host_ = program::kNoTensor;
  bool fetched_ = false;  // the next unit's
};

}  // namespace trireme::plan
