// Bytes sent and received, collective by collective.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/engine/collective_payload.h"
#include "sim/engine/placement.h"
#include "sim/engine/shared_readings.h"
#include "sim/engine/sizes.h"
#include "sim/engine/work.h"

namespace trireme::engine {

using ledger::ByteAccount;
using ledger::ByteEntry;
using ledger::ByteLedger;
using program::Function;
using program::Op;
using program::Program;
using program::Tensor;

namespace {

/// Calls `visit(op, pair, account, bytes of one execution, times)` for every tensor of every
/// collective.
template <class Visit>
void for_each_transfer(const Program& program,
                       std::int64_t gpus_per_node,
                       std::int64_t rank,
                       Visit visit) {
  program::for_each_op(program, [&](program::OpId, const Op& op, std::int64_t times) {
    if (!program::communicates(op)) {
      return;
    }
    for (std::size_t pair = 0; pair < payloads(op); ++pair) {
      const Tensor& tensor = program.tensor(program.operands(op)[pair].ref.tensor);
      const ByteAccount account = byte_account(op, tensor);
      visit(op, pair, account, bytes_of_rank(program, op, pair, gpus_per_node, rank), times);
    }
  });
}

bool divides(const Program& program, const Op& op) {
  const std::int64_t ranks = program.mesh().group_size(op.group);
  for (std::size_t pair = 0; pair < op.operands / 2U; ++pair) {
    if (collective_payload(program, op, pair).value() % (ranks * ranks) != 0) {
      return false;
    }
  }
  return true;
}

/// Whether the ranks of other stages take part.
bool joins_stages(const Program& program, const Op& op) {
  const int axis = program.mesh().stage_axis();
  return axis != program::Mesh::kNoAxis && (op.group & program::axis_bit(axis)) != 0;
}

/// A collective, and how often it runs in a step.
struct Transfer {
  const Op* op;
  std::int64_t times;
};

/// What no rank sends more than for a tensor of a collective over `ranks`.
Elements at_most_sent(CollectiveKind kind, Elements payload, std::int64_t ranks) {
  const Elements least_chunk(payload.value() / ranks);
  switch (kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return payload - least_chunk;
    case CollectiveKind::all_reduce:
      return 2 * (payload - least_chunk);
    case CollectiveKind::all_to_all:
    case CollectiveKind::send_recv:
      break;
  }
  return payload;
}

/// The rank of a program that sends most in the collectives that do not divide; ties: the first.
std::int64_t largest_of_uneven(const Program& program,
                               std::span<const Transfer> uneven,
                               std::int64_t gpus_per_node) {
  const program::Mesh& mesh = program.mesh();
  Bytes at_most;
  for (const Transfer& collective : uneven) {
    const Op& op = *collective.op;
    for (std::size_t pair = 0; pair < op.operands / 2U; ++pair) {
      const Elements sent = at_most_sent(
          op.collective, collective_payload(program, op, pair), mesh.group_size(op.group));
      at_most += collective.times *
                 bytes_of(sent, program.tensor(program.operands(op)[pair].ref.tensor).type);
    }
  }
  std::int64_t largest = 0;
  Bytes most(-1);
  const std::int64_t places = uneven.empty() ? 1 : mesh.ranks() / mesh.stages();
  for (std::int64_t place = 0; place < places && most < at_most; ++place) {
    const std::int64_t rank = mesh.rank_of_stage(place, program.stage());
    Bytes sent;
    for (const Transfer& collective : uneven) {
      const Op& op = *collective.op;
      const cost::Group group = engine::place(mesh, op.group, gpus_per_node);
      const std::int64_t position = mesh.position(rank, op.group);
      for (std::size_t pair = 0; pair < op.operands / 2U; ++pair) {
        sent += collective.times * collective_bytes(program, op, pair, group, position).sent;
      }
    }
    if (sent > most) {
      most = sent;
      largest = rank;
    }
  }
  return largest;
}

/// Books what a rank sends and receives for all tensors of an operation.
void book(const Program& program,
          const Transfer& transfer,
          std::int64_t gpus_per_node,
          std::int64_t rank,
          ByteLedger& ledger) {
  const Op& op = *transfer.op;
  for (std::size_t pair = 0; pair < payloads(op); ++pair) {
    const cost::CollectiveBytes bytes = bytes_of_rank(program, op, pair, gpus_per_node, rank);
    ledger.book(byte_account(op, program.tensor(program.operands(op)[pair].ref.tensor)),
                transfer.times * bytes.sent,
                transfer.times * bytes.sent_off_node,
                transfer.times * bytes.received);
  }
}

/// Books what goes between a rank's GPU and its host.
void book_host_copy(const Program& program, const Transfer& copy, ByteLedger& ledger) {
  ledger.book_host_copy(copy.op->function == Function::to_host,
                        copy.times * host_copied_bytes(program, *copy.op));
}

/// What the ranks of a program send to each other, and to those of other stages; and to hosts.
struct Transfers {
  std::vector<Transfer> host_copies;
  std::vector<Transfer> inside;
  std::vector<Transfer> between_stages;
  std::vector<Transfer> uneven;  // of both
  std::int64_t place = -1;       // of the rank whose bytes inside are known
  ByteLedger bytes_inside;
};

Transfers transfers_of(const Program& program, std::span<const std::int64_t> executions) {
  constexpr std::size_t kExpected = 64;
  Transfers transfers;
  transfers.inside.reserve(kExpected);
  for_each_op_once(program, executions, [&](const Op& op, std::int64_t times) {
    if (program::crosses_host_link(op)) {
      transfers.host_copies.push_back({&op, times});
    }
    if (!program::communicates(op)) {
      return;
    }
    (joins_stages(program, op) ? transfers.between_stages : transfers.inside)
        .push_back({&op, times});
    if (op.function == Function::collective && !divides(program, op)) {
      transfers.uneven.push_back({&op, times});
    }
  });
  return transfers;
}

std::string group_name(const program::Mesh& mesh, program::AxisMask group) {
  std::string name;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    if ((group & program::axis_bit(axis)) != 0 && mesh.size(axis) > 1) {
      name += name.empty() ? "" : " x ";
      name += mesh.axis(axis).name;
    }
  }
  return name;
}

std::string_view payload_word(const Op& op) {
  if (op.function == Function::stage_send || op.function == Function::stage_receive) {
    return "message";
  }
  switch (op.collective) {
    case CollectiveKind::all_gather:
      return "gathered";
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_reduce:
      return "reduced";
    case CollectiveKind::all_to_all:
      return "exchanged";
    case CollectiveKind::send_recv:
      return "block";
  }
  return "";
}

}  // namespace

ByteLedger read_bytes(const Program& program, std::int64_t gpus_per_node, std::int64_t rank) {
  ByteLedger ledger;
  const std::vector<std::int64_t> executions = program::executions(program);
  for_each_op_once(program, executions, [&](const Op& op, std::int64_t times) {
    if (program::communicates(op)) {
      book(program, {&op, times}, gpus_per_node, rank, ledger);
    } else if (program::crosses_host_link(op)) {
      book_host_copy(program, {&op, times}, ledger);
    }
  });
  return ledger;
}

std::int64_t largest_sender(const Program& program, std::int64_t gpus_per_node) {
  const std::vector<std::int64_t> executions = program::executions(program);
  return largest_of_uneven(program, transfers_of(program, executions).uneven, gpus_per_node);
}

std::vector<StageBytes> read_bytes(std::span<const Program> stages, std::int64_t gpus_per_node) {
  const SharedReadings readings(stages);
  std::vector<Transfers> transfers(stages.size());
  std::vector<StageBytes> all;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const Program& program = stages[stage];
    const std::size_t first = readings.first_like(stage);
    Transfers& known = transfers[first];
    if (first == stage) {
      known = transfers_of(program, readings.executions(stage));
    }
    StageBytes& read = all.emplace_back();
    const program::Mesh& mesh = program.mesh();
    read.rank =
        mesh.in_stage(largest_of_uneven(program, known.uneven, gpus_per_node), program.stage());
    if (const std::int64_t place = mesh.in_stage(read.rank, 0); place != known.place) {
      known.place = place;
      known.bytes_inside = {};
      for (const Transfer& transfer : known.inside) {
        book(program, transfer, gpus_per_node, read.rank, known.bytes_inside);
      }
      for (const Transfer& copy : known.host_copies) {
        book_host_copy(program, copy, known.bytes_inside);
      }
    }
    read.bytes = known.bytes_inside;
    for (const Transfer& transfer : known.between_stages) {
      book(program, transfer, gpus_per_node, read.rank, read.bytes);
    }
  }
  return all;
}

std::vector<ByteEntry> byte_entries(const Program& program,
                                    std::int64_t gpus_per_node,
                                    std::int64_t rank) {
  std::vector<ByteEntry> entries;
  for_each_transfer(
      program,
      gpus_per_node,
      rank,
      [&](const Op& op,
          std::size_t pair,
          const ByteAccount& account,
          const cost::CollectiveBytes& bytes,
          std::int64_t times) {
        const Tensor& tensor = program.tensor(program.operands(op)[pair].ref.tensor);
        ByteEntry entry;
        entry.account = account;
        entry.operation = op.label;
        entry.tensor = program::display_name(tensor);
        entry.group = group_name(program.mesh(), op.group);
        entry.ranks = program::crosses_stages(op) ? 2 : program.mesh().group_size(op.group);
        entry.count = times;
        entry.payload = payload_word(op);
        entry.payload_bytes = bytes_of(collective_payload(program, op, pair), tensor.type);
        entry.sent = times * bytes.sent;
        entry.received = times * bytes.received;
        entries.push_back(std::move(entry));
      });
  return entries;
}

}  // namespace trireme::engine
