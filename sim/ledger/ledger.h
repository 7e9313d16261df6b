// Ledgers: what readers of a program book, and sums over it. No formula.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/vocabulary.h"
#include "sim/units/units.h"

namespace trireme::ledger {

template <class Value, std::size_t N>
using PerName = std::array<Value, N>;

template <class Value>
using PerPhase = PerName<Value, kPhaseNames.size()>;
template <class Value>
using PerComponent = PerName<Value, kComponentNames.size()>;
template <class Value>
using PerCollective = PerName<Value, kCollectiveNames.size()>;
template <class Value>
using PerTraffic = PerName<Value, kTrafficNames.size()>;
template <class Value>
using PerLink = PerName<Value, kLinkNames.size()>;
template <class Value>
using PerItem = PerName<Value, kMemoryItemNames.size()>;

template <class Enum>
constexpr std::size_t index(Enum value) {
  return static_cast<std::size_t>(value);
}

/// Where a collective's bytes are booked.
struct ByteAccount {
  Phase phase = Phase::forward;
  Traffic traffic = Traffic::activations;
  Component component = Component::attention;
  CollectiveKind collective = CollectiveKind::all_reduce;
};

/// Bytes that one rank sends and receives in a step.
struct ByteLedger {
  Bytes sent;
  Bytes received;
  PerPhase<Bytes> sent_by_phase{};
  PerTraffic<PerComponent<Bytes>> sent_by_traffic{};
  PerCollective<Bytes> sent_by_collective{};
  PerLink<Bytes> sent_by_link{};
  // What copies between the rank's GPU and its host carry: no part of what ranks send each other.
  Bytes to_host;
  Bytes to_device;

  void book_host_copy(bool towards_host, Bytes copied) {
    (towards_host ? to_host : to_device) += copied;
  }

  /// Books `sent`, of which `off_node` leaves the node over its NIC.
  void book(const ByteAccount& account, Bytes sent_bytes, Bytes off_node, Bytes received_bytes) {
    sent += sent_bytes;
    received += received_bytes;
    sent_by_phase[index(account.phase)] += sent_bytes;
    sent_by_traffic[index(account.traffic)][index(account.component)] += sent_bytes;
    sent_by_collective[index(account.collective)] += sent_bytes;
    sent_by_link[index(LinkClass::nvlink)] += sent_bytes - off_node;
    sent_by_link[index(LinkClass::nic)] += off_node;
  }
};

/// One collective's share of one tensor, as `explain` lists it: every total can be taken apart.
struct ByteEntry {
  ByteAccount account;
  std::string_view operation;
  std::string tensor;
  std::string group;         // such as "sequence x data"
  std::int64_t ranks = 1;    // of the group
  std::int64_t count = 1;    // executions in a step
  std::string_view payload;  // what the payload is: "gathered", "reduced", "held by all ranks"
  Bytes payload_bytes;       // of one execution
  Bytes sent;                // in the whole step
  Bytes received;
};

/// Peak memory of one rank in a steady step, and what fills it.
struct MemoryLedger {
  Bytes allocated;
  Bytes resident;  // of it, what is there at the beginning and at the end of the step
  std::string instant;
  PerItem<Bytes> by_item{};
};

/// One tensor's memory at the peak.
struct MemoryEntry {
  MemoryItem item = MemoryItem::temporaries;
  std::string tensor;
  std::string shape_symbols;
  std::string shape_numbers;
  ElementType type = ElementType::bf16;
  std::int64_t instances = 1;
  Bytes bytes;  // of all instances
};

/// Operations of one rank and of the whole model, in a step.
struct FlopLedger {
  /// What a rank's kernels execute: recomputation, padding and redundant work included (HFU).
  Flops executed;
  /// What the model requires over all ranks: causal attention halved, its backward twice (MFU).
  Flops model;
  /// The same with causal attention counted in full, as some publications do.
  Flops model_full_attention;
};

/// Seconds of one rank in a step.
struct TimeLedger {
  Seconds step;
  /// Time in which the compute stream waits for communication; for which of it, only the event
  /// reader says. What waits for the host's own work is under exposed_host_copy. step =
  /// exposed_communication + pipeline_bubble + exposed_host_copy + exposed_launch + compute_busy.
  Seconds exposed_communication;
  PerCollective<Seconds> exposed_by_collective{};
  Seconds pipeline_bubble;  // another stage has not sent yet what this one needs
  Seconds exposed_host_copy;
  Seconds exposed_launch;  // the host has not issued what comes next
  Seconds compute_busy;    // of kernels, with what they lose to collectives beside them
  PerComponent<Seconds> busy_by_component{};
  PerCollective<Seconds> busy_by_collective{};
  Seconds attention;
  Seconds gemm;
  Seconds memory_bound;
  Seconds host_copy;
};

/// One operation's time, as `explain` lists it.
struct TimeEntry {
  Phase phase = Phase::forward;
  Component component = Component::attention;
  std::string_view operation;
  std::string_view function;
  std::int64_t count = 1;
  Seconds each;
  Seconds total;
  Flops flops;  // executed by one rank in the whole step
};

}  // namespace trireme::ledger
