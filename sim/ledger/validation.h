// Published and measured facts against predictions: what each source states, and how far off
// trireme is.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::ledger {

/// The unit in which a fact is stated.
enum class Dimension : std::uint8_t { bytes, seconds, flops_per_second, tokens, number };
inline constexpr std::array<std::string_view, 5> kDimensionNames = {
    "bytes", "seconds", "flops_per_second", "tokens", "number"};

/// Under which heading errors are counted.
enum class Topic : std::uint8_t {
  bytes_sent,
  peak_memory,
  memory_walls,  // what ran and what did not: bounds, whose errors say little
  operations,
  step_time,
  set_of_runs
};
inline constexpr std::array<std::string_view, 6> kTopicNames = {
    "bytes sent", "peak memory", "memory walls", "operations", "step time", "sets of runs"};

enum class Relation : std::uint8_t { equal, at_least, at_most };
inline constexpr std::array<std::string_view, 3> kRelationNames = {"equal", "at_least", "at_most"};

/// What a case is evidence of: accuracy; nothing, as its value went into a profile or a framework's
/// overheads; or, reported, of a measurement that its own source contradicts.
enum class Role : std::uint8_t { judged, fitted, reported };
inline constexpr std::array<std::string_view, 3> kRoleNames = {"judged", "fitted", "reported"};

struct Expectation {
  Relation relation = Relation::equal;
  double value = 0;
  double tolerance = 0;        // absolute, in the unit of `value`; 0 for exact and for bounds
  std::string tolerance_text;  // as written

  /// Whether the set of runs that it belongs to has the bound.
  [[nodiscard]] bool with_its_set() const {
    return tolerance == std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] bool exact() const { return relation == Relation::equal && tolerance == 0; }
};

/// What a source says, and how a prediction of it is judged.
struct StatedFact {
  std::string id;      // "file/case"
  std::string source;  // key in docs/bibliography.md
  std::string where;   // in the source
  std::string fact;
  std::string printed;
  std::string_view quantity;
  Topic topic = Topic::bytes_sent;
  Dimension dimension = Dimension::number;
  Expectation expected;
  std::string reason;  // why the tolerance is that wide
  std::vector<std::string> assumptions;
  std::optional<std::string> known_deviation;  // why it is missed
  Role role = Role::judged;
  std::string group;           // of runs that could replace each other; empty: in no group
  std::optional<double> peer;  // what another predictor says, in base units
  std::string peer_name;       // who that is
  bool of_table = false;       // one of many rows: documents list their set alone
};

enum class FactVerdict : std::uint8_t {
  pass,
  fail,
  known_deviation,  // missed, with a cause: no failure, but an error that counts
  stale_deviation   // a known deviation that is within its tolerance now: a failure
};
inline constexpr std::array<std::string_view, 4> kFactVerdictNames = {
    "pass", "fail", "known_deviation", "stale_deviation"};

struct ValidationRow {
  StatedFact stated;
  std::optional<double> predicted;  // in base units
  std::string problem;              // why nothing is predicted
  double error = 0;                 // relative to what is expected; of a bound that is kept, 0
  FactVerdict verdict = FactVerdict::fail;
  /// Of a measured step that one plan takes: measured over predicted seconds, and the kind of run.
  std::optional<double> slower_than_predicted;
  std::string_view kind;

  [[nodiscard]] bool failed() const {
    return verdict == FactVerdict::fail || verdict == FactVerdict::stale_deviation;
  }
};

struct ValidationResult {
  std::vector<ValidationRow> rows;  // in the order of the case files
};

}  // namespace trireme::ledger
