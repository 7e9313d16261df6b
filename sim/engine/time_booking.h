// Where reports look for an operation's seconds.
#pragma once

#include "sim/ledger/ledger.h"
#include "sim/ledger/work.h"
#include "sim/program/op.h"

namespace trireme::engine {

inline ledger::Work work_of(const program::Op& op) {
  if (op.on_host) {
    return ledger::Work::host_copy;
  }
  switch (program::info(op.function).family) {
    case program::Family::attention:
      return ledger::Work::attention;
    case program::Family::gemm:
      return ledger::Work::matrix_product;
    case program::Family::host_copy:
      return ledger::Work::host_copy;
    case program::Family::collective:
      return ledger::work_of(op.collective);
    case program::Family::pointwise:
    case program::Family::optimizer:
    case program::Family::bookkeeping:
      break;
  }
  return ledger::Work::memory_bound;
}

inline void book_time(ledger::TimeLedger& ledger, const program::Op& op, Seconds total) {
  ledger.busy_by_component[ledger::index(op.component)] += total;
  if (op.on_host) {
    ledger.host_copy += total;
    return;
  }
  switch (program::info(op.function).family) {
    case program::Family::gemm:
      ledger.gemm += total;
      return;
    case program::Family::attention:
      ledger.attention += total;
      return;
    case program::Family::pointwise:
    case program::Family::optimizer:
      ledger.memory_bound += total;
      return;
    case program::Family::host_copy:
      ledger.host_copy += total;
      return;
    case program::Family::collective:
      ledger.busy_by_collective[ledger::index(op.collective)] += total;
      return;
    case program::Family::bookkeeping:
      return;
  }
}

}  // namespace trireme::engine
