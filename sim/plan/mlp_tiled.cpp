// The MLP with whole weights in tiles of a rank's tokens, of which one at a time is worked on:
// going forward a tile leaves its output alone, and it runs again when its gradient arrives.
// Source: deepspeed, deepspeed/runtime/sequence_parallel/ulysses_sp.py, TiledMLP
#include "sim/plan/chunks.h"
#include "sim/plan/mlp.h"
#include "sim/plan/recompute.h"

namespace trireme::plan {

namespace {

using program::Function;
using program::read;
using program::update;
using program::write;

MlpParameters declare(Step& step, Parameters& parameters) {
  return declare_mlp(step, parameters, false);
}

/// One tile on its way forward.
struct Tile {
  Ref x;  // a part of the normed input
  Ref up;
  Ref activation;
  Ref y;
};

Shape tile_shape(const Step& step, const Shape& whole, std::int64_t local_tokens) {
  return whole.with(program::kSequenceDim, chunk_tokens(step, local_tokens));
}

Ref declare_output(Step& step, std::int64_t local_tokens) {
  return step.chunk_value("mlp output, tile",
                          tile_shape(step, step.hidden_shape(), local_tokens),
                          step.between_blocks());
}

Tile emit_tile(Step& step,
               Parameters& parameters,
               const MlpParameters& block,
               const Chunks& tiles,
               std::int64_t local_tokens,
               Ref normed) {
  const Layout layout = step.between_blocks();
  Tile tile;
  tile.x = chunk_of(step, normed, "mlp input, tile", tiles, local_tokens);
  tile.up = step.chunk_value(
      "mlp up output, tile", tile_shape(step, up_shape(step), local_tokens), layout);
  emit_linear(step, parameters, block.up, "mlp up projection, tile", tile.x, tile.up);
  tile.activation = step.chunk_value(
      "mlp activation, tile", tile_shape(step, activation_shape(step), local_tokens), layout);
  emit_activation(step, tile.up, tile.activation);
  tile.y = declare_output(step, local_tokens);
  emit_linear(step, parameters, block.down, "mlp down projection, tile", tile.activation, tile.y);
  return tile;
}

/// The tiles' outputs side by side.
void emit_join(Step& step, const Chunks& tiles, std::span<const Ref> output, Ref y) {
  for_each_chunk(step, tiles, true, [&](std::int64_t local_tokens, bool first) {
    step.b.begin_segment("join the tiles");
    const Ref part = chunk_of(step, y, "mlp output, part", tiles, local_tokens);
    const Ref tile = output[local_tokens == tiles.sequence ? 0 : 1];
    step.b.emit(Function::copy,
                "join the tiles",
                {read(tile), {part, first ? program::Access::write : program::Access::update}});
  });
}

/// What every tile reads is there until the last of them is done.
void hold_inputs(Step& step, Parameters& parameters, const MlpParameters& block, Ref normed) {
  program::Builder& b = step.b;
  const std::string_view source = "deepspeed, TiledMLP: saved tensors and parameters of the module";
  b.keep({normed, parameters.working(block.up.weight), parameters.working(block.down.weight)},
         source);
  if (block.up.bias) {
    b.keep({parameters.working(*block.up.bias), parameters.working(*block.down.bias)}, source);
  }
}

MlpTensors forward(Step& step, Parameters& parameters, const MlpParameters& block, Ref x, Ref out) {
  program::Builder& b = step.b;
  MlpTensors saved;
  saved.x = x;
  saved.normed = step.value("mlp input, normed", step.hidden_shape(), step.between_blocks());
  emit_norm(step, parameters, block.norm, x, saved.normed);
  const Chunks tiles = mlp_tiles(step.plan);
  std::array<Ref, 2> output;  // of whole tiles, and of a shorter last one
  for_each_chunk(step, tiles, false, [&](std::int64_t local_tokens, bool) {
    b.begin_segment("mlp, tile");
    output[local_tokens == tiles.sequence ? 0 : 1] =
        emit_tile(step, parameters, block, tiles, local_tokens, saved.normed).y;
  });
  const Ref y = step.value("mlp output", step.hidden_shape(), step.between_blocks());
  emit_join(step, tiles, output, y);
  b.begin_segment("mlp, end");
  hold_inputs(step, parameters, block, saved.normed);
  emit_residual_add(step, parameters, {}, x, y, out);
  return saved;
}

/// A tile runs again and goes backward; adds to `d_normed` where its tokens are.
void emit_tile_backward(Step& step,
                        Parameters& parameters,
                        const MlpParameters& block,
                        const Chunks& tiles,
                        std::int64_t local_tokens,
                        Ref normed,
                        Ref dy,
                        Ref d_normed) {
  program::Builder& b = step.b;
  const Layout layout = step.between_blocks();
  Tile tile;
  {
    const InRecompute scope(step);
    tile = emit_tile(step, parameters, block, tiles, local_tokens, normed);
    b.keep({tile.y}, "deepspeed, TiledMLP: the output of a tile that runs again is not used");
  }
  const Ref dy_tile = chunk_of(step, dy, "mlp output gradient, tile", tiles, local_tokens);
  const Ref d_activation = step.chunk_value("mlp activation gradient, tile",
                                            tile_shape(step, activation_shape(step), local_tokens),
                                            layout);
  emit_input_gradient(step,
                      parameters,
                      block.down,
                      "mlp down projection, tile, input gradient",
                      dy_tile,
                      d_activation);
  emit_weight_gradient(step,
                       parameters,
                       block.down,
                       "mlp down projection, tile, weight gradient",
                       dy_tile,
                       tile.activation);
  const Ref d_up = step.chunk_value(
      "mlp up gradient, tile", tile_shape(step, up_shape(step), local_tokens), layout);
  emit_activation_backward(step, d_activation, tile.up, d_up);
  const Ref d_x = step.chunk_value(
      "mlp input gradient, tile", tile_shape(step, step.hidden_shape(), local_tokens), layout);
  emit_input_gradient(
      step, parameters, block.up, "mlp up projection, tile, input gradient", d_up, d_x);
  emit_weight_gradient(
      step, parameters, block.up, "mlp up projection, tile, weight gradient", d_up, tile.x);
  const Ref part = chunk_of(step, d_normed, "mlp input gradient, part", tiles, local_tokens);
  b.emit(Function::accumulate, "add the tile's gradient", {read(d_x), update(part)});
}

void start_gradients(Parameters& parameters, const LinearParameters& linear) {
  parameters.start_gradient(linear.weight);
  if (linear.bias) {
    parameters.start_gradient(*linear.bias);
  }
}

void backward(Step& step,
              Parameters& parameters,
              const MlpParameters& block,
              const MlpTensors& saved,
              Ref dy,
              Ref dx) {
  program::Builder& b = step.b;
  const Ref normed = normed_again(step, parameters, block.norm, saved.x, saved.normed);
  const Ref d_normed = step.value("mlp input gradient", step.hidden_shape(), step.between_blocks());
  b.emit(Function::zero, "zero mlp input gradient", {write(d_normed)});
  start_gradients(parameters, block.up);
  start_gradients(parameters, block.down);
  const Chunks tiles = mlp_tiles(step.plan);
  for_each_chunk(step, tiles, false, [&](std::int64_t local_tokens, bool) {
    b.begin_segment("mlp backward, tile");
    emit_tile_backward(step, parameters, block, tiles, local_tokens, normed, dy, d_normed);
  });
  b.begin_segment("mlp backward, end");
  hold_inputs(step, parameters, block, normed);
  emit_norm_backward(step, parameters, block.norm, d_normed, saved.x, dx);
  b.emit(Function::add, "residual gradient", {update(dx), read(dy)});
}

}  // namespace

const MlpLoweringInfo kMlpTiled = {
    MlpLowering::tiled,
    "tiled",
    "whole weights; one tile of the own tokens at a time, which runs again going backward",
    "bekman2025-alst",
    declare,
    forward,
    backward};

}  // namespace trireme::plan
