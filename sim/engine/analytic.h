// The analytic reader: closed-form seconds of a step, without a clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/host.h"
#include "sim/cost/machine_costs.h"
#include "sim/cost/nccl_choice.h"
#include "sim/engine/network/least_seconds.h"
#include "sim/engine/network/topology.h"
#include "sim/ledger/ledger.h"
#include "sim/program/program.h"

namespace trireme::engine {

/// The hardware that a program is timed on.
struct Machine {
  cost::MachineCosts costs;
  std::optional<cost::HostCosts> host;  // absent: what goes to the host has unknown seconds
  BytesPerSecond nic_rate;              // of one GPU, one direction, line rate
  Seconds host_per_operation;           // of the framework; a launch takes what it takes at least
  std::int64_t gpus_per_node = 1;
  /// The links; absent where collectives are not to be checked against them.
  std::optional<TopologyShape> topology;
  /// The constants by which NCCL chooses its algorithms; absent where they are not known.
  std::optional<cost::NcclTuning> nccl;
};

/// Host seconds to issue one operation: a launch, or what the framework needs where that is more.
[[nodiscard]] Seconds issue_time(const Machine& machine);

/// Device seconds of one operation, of a collective at least what its links need, of attention in a
/// ring those of the slowest rank; empty when the machine's profile does not know its kernel.
[[nodiscard]] std::optional<Seconds> op_time(const program::Program& program,
                                             const program::Op& op,
                                             const Machine& machine);

/// Device seconds of attention on the rank at a position of its ring.
[[nodiscard]] std::optional<Seconds> attention_op_time(const program::Program& program,
                                                       const program::Op& op,
                                                       const Machine& machine,
                                                       std::int64_t position);

/// Seconds of a step: inside a segment each stream advances and waits for the tensors it needs,
/// streams join at its end, repeats multiply. Empty when a kernel's seconds are unknown.
///
/// EQ analytic-step-time: T = sum over segments N max over streams t
///   t  clock of a stream at the segment's end: an operation starts when its stream is free, its
///      inputs are there and nothing still reads what it overwrites; a blocking one also stops the
///      compute stream. The host is one of the streams: it issues one operation after the other,
///      each before it starts                                                  [seconds]
///   N  executions of the segment in a step                                    [1]
/// Source: derived, docs/decisions/0001-step-program.md
/// Valid:  no contention between streams, no jitter; bounds the event engine from above
/// Tests:  tests/unit/engine/analytic_test.cpp
[[nodiscard]] std::optional<ledger::TimeLedger> read_time(const program::Program& program,
                                                          const Machine& machine);

/// Seconds of a step of all stages of a pipeline, of the rank that ends last; of one program, as
/// above.
///
/// EQ analytic-pipeline-time: s = max(own, peer, channel); T = max over stages of their ends
///   own      the receiving stage's clock: all its segments before, one after the other  [seconds]
///   peer     the sending stage's clock when it sent                                     [seconds]
///   channel  end of the message before from that stage to this                          [seconds]
///   s        start of a message, which holds up the receiver alone                      [seconds]
///   T        result                                                                     [seconds]
/// Source: derived: the recurrence over stages and micro batches in the order of each schedule
/// Valid:  as analytic-step-time; equals the event engine where nothing else overlaps
/// Tests:  tests/unit/plan/pipeline_test.cpp
[[nodiscard]] std::optional<ledger::TimeLedger> read_time(std::span<const program::Program> stages,
                                                          const Machine& machine);

/// Why `read_time` is empty: the first operation whose kernel the profile does not know.
[[nodiscard]] std::string unknown_kernel(const program::Program& program, const Machine& machine);

/// What the links of a collective need, where that is more than the machine's profile promises for
/// it; empty elsewhere.
[[nodiscard]] std::optional<LeastTime> bound_by_links(const program::Program& program,
                                                      const program::Op& op,
                                                      const Machine& machine);

/// A sentence for each kind of collective of which the machine's profile promises less seconds than
/// its links need at least, with the operation that is furthest below; those are timed at what they
/// need.
[[nodiscard]] std::vector<std::string> faster_than_links(const program::Program& program,
                                                         const Machine& machine);

/// The entries behind `read_time`, one per operation, in program order.
[[nodiscard]] std::vector<ledger::TimeEntry> time_entries(const program::Program& program,
                                                          const Machine& machine);

}  // namespace trireme::engine
