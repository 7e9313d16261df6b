// Bytes sent and received, collective by collective.
#include <string>
#include <string_view>
#include <utility>

#include "sim/engine/collective_payload.h"
#include "sim/engine/placement.h"
#include "sim/engine/sizes.h"

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
  for_each_transfer(
      program,
      gpus_per_node,
      rank,
      [&](const Op&,
          std::size_t,
          const ByteAccount& account,
          const cost::CollectiveBytes& bytes,
          std::int64_t times) {
        ledger.book(
            account, times * bytes.sent, times * bytes.sent_off_node, times * bytes.received);
      });
  return ledger;
}

std::int64_t largest_sender(const Program& program, std::int64_t gpus_per_node) {
  struct Uneven {
    const Op* op;
    std::int64_t times;
  };

  std::vector<Uneven> uneven;  // the other collectives send alike on every rank
  program::for_each_op(program, [&](program::OpId, const Op& op, std::int64_t times) {
    if (op.function == Function::collective && !divides(program, op)) {
      uneven.push_back({&op, times});
    }
  });
  std::int64_t largest = 0;
  Bytes most(-1);
  const program::Mesh& mesh = program.mesh();
  const std::int64_t ranks = uneven.empty() ? 1 : mesh.ranks();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (mesh.stage_of(rank) != program.stage() && ranks > 1) {
      continue;
    }
    Bytes sent;
    for (const Uneven& collective : uneven) {
      const Op& op = *collective.op;
      const cost::Group group = place(program.mesh(), op.group, gpus_per_node);
      const std::int64_t position = program.mesh().position(rank, op.group);
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
