// What a study finds: one result per plan and point of the sweep, and what a sweep shows as a
// whole.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/ledger/accuracy.h"
#include "sim/ledger/critical_path.h"
#include "sim/ledger/device_memory.h"
#include "sim/ledger/ledger.h"
#include "sim/units/units.h"

namespace trireme::ledger {

/// What most of a step's seconds go to.
enum class Bound : std::uint8_t { attention, matrix_products, memory_bound_kernels, communication };
inline constexpr std::array<std::string_view, 4> kBoundNames = {
    "attention", "matrix_products", "memory_bound_kernels", "communication"};

constexpr std::string_view name(Bound value) {
  return name_in(kBoundNames, value);
}

/// The value of a key at a point: a number where the key's text is one (tokens, counts, bytes and
/// rates in base units), else the text.
struct PointValue {
  std::string key;   // such as "workload.sequence"
  std::string text;  // as the study writes it, such as "128K"
  std::variant<std::int64_t, double, std::string> value;
};

/// Which reader's seconds a result holds: of both, its step is that of the event engine.
enum class Engine : std::uint8_t { analytic, event, both };
inline constexpr std::array<std::string_view, 3> kEngineNames = {"analytic", "event", "both"};

constexpr std::string_view name(Engine value) {
  return name_in(kEngineNames, value);
}

/// Seconds of a step and what follows from them.
struct StepResult {
  TimeLedger time;
  double tokens_per_second_per_gpu = 0;
  double mfu = 0;
  double mfu_full_attention = 0;
  double hfu = 0;
  double exposed_fraction = 0;  // of the step, in which computing waits for communication
  Bound bound_by = Bound::attention;
  bool exposed_is_split = false;                 // by collective, which only the event engine does
  std::optional<StepDistribution> distribution;  // where kernels scatter
};

/// What each reader that was asked says of a step; empty too where it does not know.
struct ReaderSteps {
  std::optional<TimeLedger> analytic;
  std::optional<TimeLedger> event;
};

/// What a legal plan sends, holds, computes and takes.
struct PlanNumbers {
  ByteLedger bytes;  // of the rank that sends most
  MemoryLedger memory;
  DeviceMemory device;
  HostMemory host;
  FlopLedger flops;
  std::optional<StepResult> step;  // empty when the profile does not know a kernel's seconds
  ReaderSteps by_reader;
};

/// One plan at one point: a row of every table.
struct PlanResult {
  std::string plan;
  std::vector<PointValue> point;
  Verdict verdict = Verdict::illegal;
  std::vector<std::string> reasons;  // besides the verdict on memory, which follows from numbers
  std::vector<std::string> what_if;  // is otherwise than cluster and plan are, one sentence each
  std::string rank_class;
  Bytes capacity;                      // of one GPU
  std::optional<PlanNumbers> numbers;  // empty for an illegal plan
  std::optional<AccuracyBand> band;    // of its step; empty where no such run was judged
  std::optional<Seconds> law;          // of the study's law, when it has one
  std::optional<Lever> next_lever;     // of a plan that does not fit, or is tight
};

/// Where the order of two plans' step times changes along the swept key.
struct Crossover {
  std::string below;  // the faster plan before the crossing
  std::string above;  // the faster plan behind it
  std::string key;
  double at = 0;  // interpolated value of the key
};

/// Where a plan stops fitting along the swept key. Between the two it may be tight.
struct MemoryWall {
  std::string plan;
  std::string key;
  std::optional<PointValue> last_that_fits;  // empty when not even the first does
  std::optional<PointValue> first_tight;
  std::optional<PointValue> first_that_does_not;  // empty when all that follow are tight
};

/// A requirement of the study that does not hold: that the plan fits, or does not; or else that
/// less than a part of its step is exposed communication.
struct FailedRequirement {
  std::string plan;
  std::vector<PointValue> point;
  std::optional<bool> fits;
  Verdict verdict = Verdict::illegal;  // of the plan
  double exposed_below = 0;
  std::optional<double> exposed_fraction;  // of the plan; empty when it is not known
};

struct StudyResult {
  std::string name;
  std::string file;
  std::string model;
  std::string cluster;
  std::string profile;
  std::string law;  // of step times, applied beside the profile; empty without one
  Engine engine = Engine::analytic;
  std::int64_t gpus = 1;
  std::vector<std::string> settings;  // of the workload and of the plans, one sentence each
  std::vector<PlanResult> rows;
  std::vector<Crossover> crossovers;
  std::vector<MemoryWall> walls;
  std::vector<TooClose> too_close;
  std::vector<FailedRequirement> failed;

  /// Whether some plan fits somewhere.
  [[nodiscard]] bool any_fits() const {
    for (const PlanResult& row : rows) {
      if (row.verdict == Verdict::fits) {
        return true;
      }
    }
    return false;
  }
};

}  // namespace trireme::ledger
