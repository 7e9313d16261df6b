// Where a plan's numbers come from, term by term: what `explain` prints.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/ledger/critical_path.h"
#include "sim/ledger/ledger.h"
#include "sim/ledger/result.h"
#include "sim/units/units.h"

namespace trireme::ledger {

enum class TermQuantity : std::uint8_t {
  sent_bytes,
  tensor_bytes,
  host_copied_bytes,
  flops,
  seconds
};
inline constexpr std::array<std::string_view, 5> kTermQuantityNames = {
    "sent_bytes", "tensor_bytes", "host_copied_bytes", "flops", "seconds"};

constexpr std::string_view name(TermQuantity value) {
  return name_in(kTermQuantityNames, value);
}

/// A number that an equation was given, by the name it has there or a word.
struct TermNumber {
  std::string_view name;
  std::variant<std::int64_t, double> value;
};

/// One term of a total: an equation, the numbers put in and what comes out.
struct Term {
  TermQuantity quantity = TermQuantity::sent_bytes;
  std::string_view phase;  // empty for tensors, which outlive phases
  std::string_view component;
  std::string_view collective;  // empty for what is no collective
  std::string_view traffic;     // what a collective carries; empty for what is no collective
  std::string_view item;        // what a tensor fills memory as; empty for operations
  std::string_view operation;
  std::string tensor;  // what is sent, held or written
  std::int64_t count = 1;
  /// Of one rank: over all `count` executions; of a tensor, one instance (its count is 1).
  /// Empty for seconds that the profile does not know.
  std::variant<std::monostate, std::int64_t, double> value;
  std::string_view equation;  // id, as docs/equations.md lists it
  std::string formula;        // in words of `numbers`
  std::vector<TermNumber> numbers;
  std::string_view source;  // key in docs/bibliography.md
  /// What NCCL picks for a collective's seconds: "ring, Simple (NCCL 2.27.7)". The profile's form
  /// holds for what it picks; empty where there is no choice, or none is known.
  std::string nccl_choice;
};

/// One tensor of the attention block as the program shapes it.
struct ShapeStep {
  std::string_view operation;
  std::string_view collective;  // empty for what is no collective
  std::string tensor;
  std::string symbols;  // "[B, S/8, a, d]"
  std::string numbers;  // "[1, 4096, 32, 128]"
};

/// Which ranks hold which (token, head) of a tensor.
struct OwnerGrid {
  std::string tensor;
  std::string symbols;
  std::string columns;   // what a column counts: "head" or "feature"
  bool partial = false;  // the owners hold parts of a sum
  /// owners[token][column]: rank numbers in ascending order.
  std::vector<std::vector<std::vector<std::int64_t>>> owners;
};

/// One exchange of the attention block on a small shape, before and after.
struct OwnerChange {
  std::string_view operation;
  std::string_view collective;
  OwnerGrid before;
  OwnerGrid after;
};

struct Explanation {
  std::string study;
  std::string profile;
  PlanResult result;  // seconds by both engines, where each has what is asked
  std::optional<CriticalPath> critical_path;
  std::vector<Term> terms;
  std::vector<MemoryEntry> memory;  // at the worst instant, largest first
  std::vector<ShapeStep> shapes;
  std::vector<OwnerChange> owners;
  std::int64_t owner_ranks = 1;
};

}  // namespace trireme::ledger
