// Walking over one rank's tokens in chunks: the head and its loss, and the tiled MLP.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/plan/step.h"

namespace trireme::plan {

/// Chunks of one rank's tokens.
struct Chunks {
  std::int64_t sequence = 1;  // tokens of each sequence in a chunk, on one rank
  std::int64_t count = 1;     // chunks, the last of which may be shorter
  std::int64_t last = 1;      // tokens of each sequence in the last chunk

  [[nodiscard]] std::int64_t shorter() const { return last == sequence ? 0 : 1; }
};

/// Tokens of each sequence on one rank between blocks.
[[nodiscard]] std::int64_t local_sequence(const Plan& plan);

/// Chunks of `sequence` tokens of each sequence.
[[nodiscard]] Chunks chunks_of(const Plan& plan, std::int64_t sequence);

/// `parts` chunks, or fewer where they round up.
///
/// EQ token-chunk: C = ceil(T / n), chunks = ceil(T / C)
///   T  tokens of a sequence on one rank                                       [tokens]
///   n  parts asked for                                                        [1]
///   C  tokens of a chunk; the last may be shorter                             [tokens]
/// Source: pytorch, the rule of torch.chunk
/// Valid:  several sequences of a micro batch: the same tokens of each
/// Tests:  tests/unit/plan/tiles_test.cpp
[[nodiscard]] Chunks chunks_in(const Plan& plan, std::int64_t parts);

/// Chunks of the plan's loss; one where it is not chunked.
[[nodiscard]] Chunks loss_chunks(const Plan& plan);

/// Tiles of the plan's MLP; one where it is not tiled.
[[nodiscard]] Chunks mlp_tiles(const Plan& plan);

/// How many tiles `mlp: {tiles: auto}` means.
///
/// EQ mlp-tiles: n = ceil(T / h)
///   T  tokens of a sequence on one rank                                       [tokens]
///   h  model.hidden                                                           [1]
///   n  tiles                                                                  [1]
/// Source: arctic-training, arctic_training/model/tiled_compute.py, tiled_mlp_forward_common
/// Valid:  whole weights on every rank
/// Tests:  tests/unit/plan/tiles_test.cpp
[[nodiscard]] std::int64_t automatic_mlp_tiles(const Plan& plan);

/// How many chunks `loss: {implementation: chunked}` means without a number.
///
/// EQ loss-chunks: n = ceil(4 B T V / 2^30)
///   B  micro batch, T tokens of a sequence on one rank                        [1], [tokens]
///   V  model.vocabulary                                                       [1]
///   n  chunks: fp32 logits of one take about 1 GiB                            [1]
/// Source: arctic-training, arctic_training/trainer/sft_trainer.py; framework torchtitan: 8 chunks,
/// torchtitan, torchtitan/components/loss.py, ChunkedLossWrapper
/// Valid:  whole vocabularies
/// Tests:  tests/unit/plan/tiles_test.cpp
[[nodiscard]] std::int64_t automatic_loss_chunks(const Plan& plan);

/// `local_tokens` of each sequence of `whole`, those of the current chunk.
[[nodiscard]] Ref chunk_of(
    Step& step, Ref whole, std::string_view name, const Chunks& chunks, std::int64_t local_tokens);

/// The sequence's dimension of a tensor that has `local_tokens` on each rank.
[[nodiscard]] program::Dim chunk_tokens(const Step& step, std::int64_t local_tokens);

/// Emits `body(local tokens)` for every chunk, the first on its own where `first_apart`:
/// `body(local tokens, whether it is the first on its own)`.
template <class Body>
void for_each_chunk(Step& step, const Chunks& chunks, bool first_apart, Body body) {
  step.b.repeat_peeled(
      program::Index::chunk,
      0,
      1,
      chunks.count,
      first_apart ? 1 : 0,
      chunks.shorter(),
      [&](program::Builder::Position position) {
        body(position == program::Builder::Position::back ? chunks.last : chunks.sequence,
             position == program::Builder::Position::front);
      });
}

}  // namespace trireme::plan
