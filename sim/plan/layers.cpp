#include "sim/plan/layers.h"

#include <algorithm>

namespace trireme::plan {

using program::Index;

namespace {

/// `run` cut where layers with experts begin; units that have both kinds stand alone.
std::vector<LayerRun> by_kind(const LayerRun& run, std::int64_t with_experts) {
  const std::int64_t end = run.first + run.size * run.units;
  if (with_experts <= run.first || with_experts >= end) {
    return {run};
  }
  const std::int64_t before = (with_experts - run.first) / run.size;
  const std::int64_t both = (with_experts - run.first) % run.size == 0 ? 0 : 1;
  const auto units = [&](std::int64_t first, std::int64_t count) {
    return LayerRun{run.first + first * run.size, run.size, count, run.again};
  };
  return {units(0, before), units(before, both), units(before + both, run.units - before - both)};
}

}  // namespace

std::vector<LayerRun> layer_runs(const Plan& plan,
                                 std::int64_t first,
                                 std::int64_t layers,
                                 std::int64_t dense) {
  using Again = LayerRun::Again;
  const std::int64_t number = plan.recompute_number;
  std::vector<LayerRun> runs;
  const auto add = [&](LayerRun run) {
    if (run.units <= 0 || run.size <= 0) {
      return;
    }
    run.first += first;
    for (const LayerRun& part : by_kind(run, dense)) {
      if (part.units > 0) {
        runs.push_back(part);
      }
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
    for (const LayerRun& run : layer_runs(plan, 0, plan.layers_of_chunk(chunk), 0)) {
      const std::int64_t of_unit = run.again == LayerRun::Again::all    ? run.size
                                   : run.again == LayerRun::Again::last ? 1
                                                                        : 0;
      layers += run.units * of_unit;
    }
  }
  return layers;
}

LayerParameters declare_layers(Step& step,
                               Parameters& parameters,
                               std::int64_t layers,
                               std::int64_t dense) {
  LayerParameters all;
  if (layers == 0) {
    return all;
  }
  step.b.set_component(Component::attention);
  all.attention = attention_lowering(step.plan).declare(step, parameters);
  if (dense > 0) {
    all.kinds.push_back({0, dense, &mlp_lowering(step.plan.mlp), {}});
  }
  if (dense < layers) {
    all.kinds.push_back({dense, layers - dense, &kMlpExperts, {}});
  }
  step.b.set_component(Component::mlp);
  for_each_kind(parameters, all.kinds, [&](LayerKind& kind) {
    kind.mlp_parameters = kind.mlp->declare(step, parameters);
  });
  return all;
}

Layers::Layers(Step& step,
               Parameters& parameters,
               const LayerParameters& of_layer,
               std::int64_t first,
               std::int64_t layers)
    : step_(step),
      parameters_(parameters),
      attention_(attention_lowering(step.plan)),
      runs_(layer_runs(step.plan, first, layers, of_layer.experts_from())),
      attention_parameters_(of_layer.attention) {
  for (const LayerKind& kind : of_layer.kinds) {
    kinds_.push_back({&kind, {}, {}});
  }
}

void Layers::use(TensorId residual, TensorId d_residual) {
  residual_ = residual;
  d_residual_ = d_residual;
  if (!step_.plan.offload_activations) {
    return;
  }
  program::TensorSpec spec = program::declared_like(step_.b.tensor(residual));
  spec.part = "from the host";
  from_host_ = step_.b.declare(spec);
  spec.part = "on the host";
  spec.place = program::Place::host;
  on_host_ = step_.b.declare(spec);
}

/// A layer's input goes to the host before the layer runs.
/// Source: arctic-training, monkey_patches.py, CheckpointFunctionWithCPUOffload: a blocking copy;
///   deepspeed, runtime/activation_checkpointing/checkpointing.py, cpu_checkpointing
void Layers::offload_input() {
  if (step_.plan.offload_activations) {
    step_.b.set_component(Component::attention);
    step_.b.emit_host_copy(
        "copy the input to the host", residual_, program::write(on_host_), host_copies(step_.plan));
  }
}

void Layers::fetch_input(std::int64_t layers_on) {
  const auto shift = static_cast<int>(layers_on);
  step_.b.set_phase(Phase::backward);
  step_.b.set_component(Component::attention);
  step_.b.emit_host_copy("copy the input to the GPU",
                         Ref(on_host_).at(Index::layer, shift),
                         program::write(Ref(from_host_).at(Index::layer, shift)),
                         host_copies(step_.plan));
}

void Layers::fetch_inputs(const LayerRun& run, std::optional<std::int64_t> ahead) {
  if (step_.plan.offload_activations && run.again != LayerRun::Again::nothing && !fetched_) {
    fetch_input(run.input_layer());
  }
  fetched_ = ahead.has_value();
  if (ahead) {
    fetch_input(*ahead);
  }
}

std::size_t Layers::kind_number(const LayerRun& run, std::int64_t i) const {
  return kinds_.size() > 1 && run.first + i >= kinds_.back().of->first ? 1 : 0;
}

NextUse Layers::attention_next(Phase phase, std::int64_t layers_on) const {
  return {&attention_parameters_.unit, phase, Component::attention, static_cast<int>(layers_on)};
}

NextUse Layers::mlp_next(const Kind& kind, Phase phase, std::int64_t layers_on) {
  return {&kind.of->mlp_parameters.unit, phase, Component::mlp, static_cast<int>(layers_on)};
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
  return mlp_next(kind_of(run, run.size - 1), Phase::backward, layers_on);
}

NextUse Layers::first_backward(int layers_on) const {
  return runs_.empty() ? NextUse{} : enters_backward(runs_.back(), layers_on);
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
    Kind& kind = kind_of(run, i);
    step_.b.shifted(Index::layer, i, [&] {
      emit_alike(kind, again ? Body::forward_unsaved : Body::forward, [&] {
        step_.b.set_phase(Phase::forward);
        step_.b.begin_segment("layer forward");
        if (again && i == run.input_layer()) {
          offload_input();
        }
        step_.runs_again = again;
        const Tensors left =
            emit_blocks(kind,
                        residual_,
                        Ref(residual_).at(Index::layer, 1),
                        after != nullptr && last ? *after : attention_next(Phase::forward, 1));
        step_.runs_again = false;
        if (!again) {
          kind.saved = left;
        }
      });
    });
  }
}

/// Both blocks of a layer. `next` is the work after them.
Layers::Tensors Layers::emit_blocks(const Kind& kind, Ref x, Ref out, const NextUse& next) {
  program::Builder& b = step_.b;
  Tensors left;
  b.set_component(Component::attention);
  parameters_.gather(attention_parameters_.unit, mlp_next(kind, b.phase()));
  const Ref between =
      step_.value("residual stream between blocks", step_.hidden_shape(), step_.between_blocks());
  left.attention = attention_.forward(step_, parameters_, attention_parameters_, x, between);
  b.set_component(Component::mlp);
  parameters_.gather(kind.of->mlp_parameters.unit, next);
  left.mlp = kind.of->mlp->forward(step_, parameters_, kind.of->mlp_parameters, between, out);
  return left;
}

void Layers::emit_backward(const NextUse& after) {
  const bool fetches_ahead = step_.plan.offload_activations && step_.plan.overlap_offload;
  // From the first layer of a unit of `run` to the input of one that ends before it.
  const auto ahead = [&](const LayerRun& next) -> std::optional<std::int64_t> {
    return fetches_ahead && next.again != LayerRun::Again::nothing
               ? std::optional(next.input_layer() - next.size)
               : std::nullopt;
  };
  fetched_ = false;
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
    const bool ends = run + 1 == runs_.rend();
    step_.b.repeat_with_ends(Index::layer,
                             run->first + run->size * (run->units - 1),
                             -run->size,
                             run->units,
                             {step_.plan.overlap_gradients || fetches_ahead,
                              step_.plan.overlap_parameters || fetches_ahead},
                             [&](program::Builder::Ends at) {
                               if (!at.last) {
                                 emit_unit_backward(*run, enters_backward(*run, -1), ahead(*run));
                               } else if (ends) {
                                 emit_unit_backward(*run, after, std::nullopt);
                               } else {
                                 const LayerRun& next = *(run + 1);
                                 emit_unit_backward(*run, enters_backward(next, -1), ahead(next));
                               }
                             });
  }
}

void Layers::emit_unit_backward(const LayerRun& run,
                                const NextUse& after,
                                std::optional<std::int64_t> ahead) {
  bool begun = false;
  const auto begin_segment = [&](std::string_view label) {
    step_.b.begin_segment(label);
    if (!begun) {
      begun = true;
      fetch_inputs(run, ahead);
    }
  };
  const bool all = run.again == LayerRun::Again::all;
  std::vector<Tensors> saved;
  for (std::int64_t i = 0; i < run.size; ++i) {
    saved.push_back(kind_of(run, i).saved);
  }
  std::int64_t now = run.size;  // the layer above the unit was the last to go backward
  const auto at_layer = [&](std::int64_t i, auto emit) {
    parameters_.move_layer(static_cast<int>(i - now));
    now = i;
    step_.b.shifted(Index::layer, i, emit);
  };
  const auto run_again = [&](std::int64_t i, bool first, const NextUse& next) {
    at_layer(
        i, [&] { saved[static_cast<std::size_t>(i)] = emit_again(kind_of(run, i), first, next); });
  };
  for (std::int64_t i = 0; all && i < run.size; ++i) {
    begin_segment(i + 1 < run.size ? "layer again" : "layer backward");
    run_again(i, i == 0, i + 1 < run.size ? attention_next(Phase::recompute, 1) : NextUse{});
  }
  for (std::int64_t i = run.size - 1; i >= 0; --i) {
    const bool last = i + 1 == run.size;
    const bool alone = run.again == LayerRun::Again::last && last;
    if (!all || !last) {
      begin_segment("layer backward");
    }
    if (alone) {
      run_again(i, true, {});
    }
    at_layer(i, [&] {
      NextUse next = i > 0 ? mlp_next(kind_of(run, i - 1), Phase::backward, -1) : after;
      next.after_recompute = i > 0 ? all : after.after_recompute;
      emit_layer_backward(kind_of(run, i), saved[static_cast<std::size_t>(i)], all || alone, next);
    });
  }
}

/// The forward pass of a layer before its backward pass. `next` is the work after it: none where
/// the same layer goes backward.
Layers::Tensors Layers::emit_again(Kind& kind, bool first_of_unit, const NextUse& next) {
  Tensors left;
  program::Builder& b = step_.b;
  b.set_phase(Phase::recompute);
  b.set_component(Component::mlp);
  if (again_ == program::kNoTensor) {  // one stream through both kinds of layers
    again_ =
        step_.value("residual stream, recomputed", step_.hidden_shape(), step_.between_blocks());
  }
  emit_alike(kind, Body::again, [&] {
    const TensorId input = step_.plan.offload_activations ? from_host_ : residual_;
    const Ref x = first_of_unit ? Ref(input) : Ref(again_);
    const Ref out = Ref(again_).at(Index::layer, 1);
    left = emit_blocks(kind, x, out, next);
    if (next.unit == nullptr) {
      b.keep({out}, "pytorch, torch/utils/checkpoint.py: the recomputed output is not used");
    }
  });
  return left;
}

void Layers::emit_layer_backward(Kind& kind,
                                 const Tensors& saved,
                                 bool again,
                                 const NextUse& next) {
  emit_alike(kind, again ? Body::backward_of_again : Body::backward, [&] {
    program::Builder& b = step_.b;
    b.set_phase(Phase::backward);
    b.set_component(Component::mlp);
    parameters_.set_after_recompute(again);
    NextUse attention = attention_next(Phase::backward);
    attention.after_recompute = again;
    parameters_.gather(kind.of->mlp_parameters.unit, attention);
    const Ref d_between = step_.value(
        "residual stream gradient between blocks", step_.hidden_shape(), step_.between_blocks());
    kind.of->mlp->backward(step_,
                           parameters_,
                           kind.of->mlp_parameters,
                           saved.mlp,
                           Ref(d_residual_).at(Index::layer, 1),
                           d_between);
    parameters_.finish_backward(kind.of->mlp_parameters.unit);
    b.set_component(Component::attention);
    parameters_.gather(attention_parameters_.unit, next);
    attention_.backward(
        step_, parameters_, attention_parameters_, saved.attention, d_between, d_residual_);
    parameters_.finish_backward(attention_parameters_.unit);
    parameters_.set_after_recompute(false);
  });
}

}  // namespace trireme::plan
