#include "sim/plan/layers.h"

#include <algorithm>

namespace trireme::plan {

using program::Index;

std::vector<LayerRun> layer_runs(const Plan& plan, std::int64_t first, std::int64_t layers) {
  using Again = LayerRun::Again;
  const std::int64_t number = plan.recompute_number;
  std::vector<LayerRun> runs;
  const auto add = [&](LayerRun run) {
    if (run.units > 0 && run.size > 0) {
      run.first += first;
      runs.push_back(run);
    }
  };
  if (!plan.recompute_layers) {
    add({0, 1, layers, Again::nothing});
    return runs;
  }
  const std::int64_t whole = layers / number * number;
  switch (plan.recompute_choice) {
    case config::LayerChoice::every:
      add({0, number, layers / number, Again::last});
      add({whole, 1, layers - whole, Again::nothing});
      break;
    case config::LayerChoice::block:
      add({0, 1, std::min(number, layers), Again::all});
      add({number, 1, layers - number, Again::nothing});
      break;
    case config::LayerChoice::uniform:
      add({0, number, layers / number, Again::all});
      add({whole, layers - whole, 1, Again::all});
      break;
  }
  return runs;
}

std::int64_t recomputed_layers(const Plan& plan) {
  std::int64_t layers = 0;
  for (std::int64_t chunk = 0; chunk < plan.chunks(); ++chunk) {
    for (const LayerRun& run : layer_runs(plan, 0, plan.layers_of_chunk(chunk))) {
      const std::int64_t of_unit = run.again == LayerRun::Again::all    ? run.size
                                   : run.again == LayerRun::Again::last ? 1
                                                                        : 0;
      layers += run.units * of_unit;
    }
  }
  return layers;
}

LayerParameters declare_layers(Step& step, Parameters& parameters) {
  LayerParameters layer;
  step.b.set_component(Component::attention);
  layer.attention = attention_lowering(step.plan.attention).declare(step, parameters);
  step.b.set_component(Component::mlp);
  layer.mlp = mlp_lowering(step.plan.mlp).declare(step, parameters);
  return layer;
}

Layers::Layers(Step& step,
               Parameters& parameters,
               const LayerParameters& of_layer,
               std::int64_t first,
               std::int64_t layers)
    : step_(step),
      parameters_(parameters),
      attention_(attention_lowering(step.plan.attention)),
      mlp_(mlp_lowering(step.plan.mlp)),
      runs_(layer_runs(step.plan, first, layers)),
      attention_parameters_(of_layer.attention),
      mlp_parameters_(of_layer.mlp) {}

NextUse Layers::attention_next(Phase phase, std::int64_t layers_on) const {
  return {&attention_parameters_.unit, phase, Component::attention, static_cast<int>(layers_on)};
}

NextUse Layers::mlp_next(Phase phase, std::int64_t layers_on) const {
  return {&mlp_parameters_.unit, phase, Component::mlp, static_cast<int>(layers_on)};
}

NextUse Layers::enters_backward(const LayerRun& run, std::int64_t layers_on) const {
  switch (run.again) {
    case LayerRun::Again::all:
      return attention_next(Phase::recompute, layers_on - (run.size - 1));
    case LayerRun::Again::last:
      return attention_next(Phase::recompute, layers_on);
    case LayerRun::Again::nothing:
      break;
  }
  return mlp_next(Phase::backward, layers_on);
}

NextUse Layers::first_backward(int layers_on) const {
  return enters_backward(runs_.back(), layers_on);
}

void Layers::emit_forward(const NextUse& after) {
  for (const LayerRun& run : runs_) {
    const bool ends = &run == &runs_.back();
    step_.b.repeat_with_ends(
        Index::layer,
        run.first,
        run.size,
        run.units,
        {false, ends && step_.plan.overlap_parameters},
        [&](program::Builder::Ends at) { emit_unit_forward(run, at.last ? &after : nullptr); });
  }
}

void Layers::emit_unit_forward(const LayerRun& run, const NextUse* after) {
  for (std::int64_t i = 0; i < run.size; ++i) {
    const bool last = i + 1 == run.size;
    const bool again =
        run.again == LayerRun::Again::all || (run.again == LayerRun::Again::last && last);
    step_.b.shifted(Index::layer, i, [&] {
      emit_alike(again ? Body::forward_unsaved : Body::forward, [&] {
        step_.b.set_phase(Phase::forward);
        step_.b.begin_segment("layer forward");
        step_.runs_again = again;
        const Tensors left =
            emit_blocks(residual_,
                        Ref(residual_).at(Index::layer, 1),
                        after != nullptr && last ? *after : attention_next(Phase::forward, 1));
        step_.runs_again = false;
        if (!again) {
          saved_ = left;
        }
      });
    });
  }
}

/// Both blocks of a layer. `next` is the work after them.
Layers::Tensors Layers::emit_blocks(Ref x, Ref out, const NextUse& next) {
  program::Builder& b = step_.b;
  Tensors left;
  b.set_component(Component::attention);
  parameters_.gather(attention_parameters_.unit, mlp_next(b.phase()));
  const Ref between =
      step_.value("residual stream between blocks", step_.hidden_shape(), step_.between_blocks());
  left.attention = attention_.forward(step_, parameters_, attention_parameters_, x, between);
  b.set_component(Component::mlp);
  parameters_.gather(mlp_parameters_.unit, next);
  left.mlp = mlp_.forward(step_, parameters_, mlp_parameters_, between, out);
  return left;
}

void Layers::emit_backward(const NextUse& after) {
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
    const bool ends = run + 1 == runs_.rend();
    step_.b.repeat_with_ends(Index::layer,
                             run->first + run->size * (run->units - 1),
                             -run->size,
                             run->units,
                             {step_.plan.overlap_gradients, step_.plan.overlap_parameters},
                             [&](program::Builder::Ends at) {
                               if (!at.last) {
                                 emit_unit_backward(*run, enters_backward(*run, -1));
                               } else {
                                 emit_unit_backward(*run,
                                                    ends ? after : enters_backward(*(run + 1), -1));
                               }
                             });
  }
}

void Layers::emit_unit_backward(const LayerRun& run, const NextUse& after) {
  const bool all = run.again == LayerRun::Again::all;
  std::vector<Tensors> saved(static_cast<std::size_t>(run.size), saved_);
  std::int64_t now = run.size;  // the layer above the unit was the last to go backward
  const auto at_layer = [&](std::int64_t i, auto emit) {
    parameters_.move_layer(static_cast<int>(i - now));
    now = i;
    step_.b.shifted(Index::layer, i, emit);
  };
  const auto run_again = [&](std::int64_t i, bool first, const NextUse& next) {
    at_layer(i, [&] { saved[static_cast<std::size_t>(i)] = emit_again(first, next); });
  };
  for (std::int64_t i = 0; all && i < run.size; ++i) {
    step_.b.begin_segment(i + 1 < run.size ? "layer again" : "layer backward");
    run_again(i, i == 0, i + 1 < run.size ? attention_next(Phase::recompute, 1) : NextUse{});
  }
  for (std::int64_t i = run.size - 1; i >= 0; --i) {
    const bool last = i + 1 == run.size;
    const bool alone = run.again == LayerRun::Again::last && last;
    if (!all || !last) {
      step_.b.begin_segment("layer backward");
    }
    if (alone) {
      run_again(i, true, {});
    }
    at_layer(i, [&] {
      NextUse next = i > 0 ? mlp_next(Phase::backward, -1) : after;
      next.after_recompute = i > 0 ? all : after.after_recompute;
      emit_layer_backward(saved[static_cast<std::size_t>(i)], all || alone, next);
    });
  }
}

/// The forward pass of a layer before its backward pass. `next` is the work after it: none where
/// the same layer goes backward.
Layers::Tensors Layers::emit_again(bool first_of_unit, const NextUse& next) {
  Tensors left;
  emit_alike(Body::again, [&] {
    program::Builder& b = step_.b;
    b.set_phase(Phase::recompute);
    b.set_component(Component::mlp);
    const TensorId stream =
        step_.value("residual stream, recomputed", step_.hidden_shape(), step_.between_blocks());
    const Ref x = first_of_unit ? Ref(residual_) : Ref(stream);
    const Ref out = Ref(stream).at(Index::layer, 1);
    left = emit_blocks(x, out, next);
    if (next.unit == nullptr) {
      b.keep({out}, "pytorch, torch/utils/checkpoint.py: the recomputed output is not used");
    }
  });
  return left;
}

void Layers::emit_layer_backward(const Tensors& saved, bool again, const NextUse& next) {
  emit_alike(again ? Body::backward_of_again : Body::backward, [&] {
    program::Builder& b = step_.b;
    b.set_phase(Phase::backward);
    b.set_component(Component::mlp);
    parameters_.set_after_recompute(again);
    NextUse attention = attention_next(Phase::backward);
    attention.after_recompute = again;
    parameters_.gather(mlp_parameters_.unit, attention);
    const Ref d_between = step_.value(
        "residual stream gradient between blocks", step_.hidden_shape(), step_.between_blocks());
    mlp_.backward(step_,
                  parameters_,
                  mlp_parameters_,
                  saved.mlp,
                  Ref(d_residual_).at(Index::layer, 1),
                  d_between);
    parameters_.finish_backward(mlp_parameters_.unit);
    b.set_component(Component::attention);
    parameters_.gather(attention_parameters_.unit, next);
    attention_.backward(
        step_, parameters_, attention_parameters_, saved.attention, d_between, d_residual_);
    parameters_.finish_backward(attention_parameters_.unit);
    parameters_.set_after_recompute(false);
  });
}

}  // namespace trireme::plan
