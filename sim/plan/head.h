// The end of the forward pass and the start of the backward pass: final norm, head, loss.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sim/plan/block.h"
#include "sim/plan/chunks.h"
#include "sim/plan/parameters.h"
#include "sim/plan/step.h"

namespace trireme::plan {

struct HeadParameters {
  Unit unit;  // of the head's weight; the embedding's own when tied
  Unit norm_unit;
  NormParameters norm;
  LinearParameters weight;
  bool tied = false;

  /// The work after the head's: the norm's backward pass.
  [[nodiscard]] NextUse norm_goes_back() const {
    return {&norm_unit, Phase::backward, Component::head, 0};
  }
};

/// `embedding_table`: where the program has it; a tied head without it has a copy of its own, as in
/// the last stage of a pipeline.
[[nodiscard]] HeadParameters declare_head(Step& step,
                                          Parameters& parameters,
                                          std::optional<ParameterId> embedding_table);

/// Emits final norm, head, loss and their backward pass: writes dx, the gradient of x, the last
/// residual stream, and adds to `loss`. `next` is the work after them.
void emit_head_and_loss(Step& step,
                        Parameters& parameters,
                        const HeadParameters& head,
                        Ref x,
                        Ref dx,
                        TensorId loss,
                        const NextUse& next);

/// The loss of a model without vocabulary: half the sum of squares of its output.
void emit_half_square_loss(Step& step, Ref x, Ref dx, TensorId loss);

/// One way to compute the loss from the normed output: emits head, loss, and the head's backward
/// pass; writes d_normed.
struct LossLoweringInfo {
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  void (*emit)(Step& step,
               Parameters& parameters,
               const HeadParameters& head,
               Ref normed,
               Ref d_normed,
               TensorId loss);
};

[[nodiscard]] std::span<const LossLoweringInfo> loss_lowerings();

extern const LossLoweringInfo kLossEager;
extern const LossLoweringInfo kLossFusedChunks;
extern const LossLoweringInfo kLossChunked;
extern const LossLoweringInfo kLossInPlace;
extern const LossLoweringInfo kLossVocabularyParallel;
extern const LossLoweringInfo kLossVocabularyParallelFused;

/// The lowering that a plan's loss option means: vocabulary-parallel heads have their own.
[[nodiscard]] const LossLoweringInfo& loss_lowering(const Plan& plan);

/// Chunks in which the fused loss walks over one rank's tokens.
[[nodiscard]] Chunks fused_loss_chunks(const Plan& plan);

/// Labels of the micro batch's tokens, loaded as `layout` places them.
[[nodiscard]] Ref load_labels(Step& step, const Layout& layout);

/// The factor that makes the loss a mean over the step's tokens.
[[nodiscard]] double loss_scale(const Plan& plan);

}  // namespace trireme::plan
