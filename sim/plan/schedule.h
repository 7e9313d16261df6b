// In which order a rank runs the forward and backward passes of its micro batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/plan/plan.h"

namespace trireme::plan {

/// Layers that a stage of the pipeline runs one after another: consecutive ones of the model.
struct Chunk {
  std::int64_t number = 0;       // in the order of the model
  std::int64_t first_layer = 0;  // in the stage's own numbering
  std::int64_t layers = 0;
};

/// One part of the model, which a program runs.
struct Stage {
  std::int64_t number = 0;
  std::int64_t stages = 1;
  std::int64_t last = 0;                      // the one with the head
  std::vector<Chunk> chunks;                  // in the order of the model
  std::vector<std::int64_t> layers_of_model;  // by own number

  [[nodiscard]] std::int64_t layers() const {
    return static_cast<std::int64_t>(layers_of_model.size());
  }

  /// Of its own layers, those among the model's first `of_model`: they come first.
  [[nodiscard]] std::int64_t dense_layers(std::int64_t of_model) const {
    return std::lower_bound(layers_of_model.begin(), layers_of_model.end(), of_model) -
           layers_of_model.begin();
  }

  [[nodiscard]] bool has_first_layer() const { return number == 0; }

  [[nodiscard]] bool has_last_layer() const { return number == last; }

  /// Whether the split left it no part of the model.
  [[nodiscard]] bool idle() const { return number > last; }

  /// The stage that has the chunk before or after one of its own.
  [[nodiscard]] std::int64_t previous() const { return (number + stages - 1) % stages; }

  [[nodiscard]] std::int64_t next() const { return (number + 1) % stages; }
};

[[nodiscard]] Stage stage_of(const Plan& plan, std::int64_t number);

/// A micro batch goes forward or backward through one chunk of a stage.
struct Pass {
  bool forward = true;
  std::size_t chunk = 0;         // of the stage's own
  std::int64_t micro_batch = 0;  // further than the round's
};

/// Passes that are repeated for the micro batches first, first + step, ...
struct Round {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 1;
  std::vector<Pass> passes;
};

/// The passes of one stage, every micro batch once forward and once backward through each chunk.
[[nodiscard]] std::vector<Round> schedule_of(const Plan& plan, const Stage& stage);

/// Passes that differ from those of the other micro batches.
struct SpecialPasses {
  bool first_forward = false;   // of the first micro batch
  bool first_backward = false;  // of the first micro batch
  bool last_backward = false;   // of the last micro batch
};

/// As `rounds`, with the micro batches of special passes on their own.
[[nodiscard]] std::vector<Round> with_ends_apart(std::vector<Round> rounds,
                                                 std::int64_t micro_batches,
                                                 const SpecialPasses& special);

/// One way to order passes: a row that `trireme plans` prints.
struct ScheduleInfo {
  PipelineSchedule kind = PipelineSchedule::none;
  std::string_view name;
  std::string_view description;
  std::string_view bibliography_key;
  std::vector<Round> (*rounds)(const Plan& plan, const Stage& stage);
};

[[nodiscard]] std::span<const ScheduleInfo> schedule_table();

extern const ScheduleInfo kScheduleAccumulate;
extern const ScheduleInfo kScheduleOneForwardOneBackward;
extern const ScheduleInfo kScheduleInterleaved;

}  // namespace trireme::plan
