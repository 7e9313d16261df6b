#include "sim/engine/collective_payload.h"

namespace trireme::engine {

using program::Op;
using program::Program;

namespace {

const program::Tensor& from(const Program& program, const Op& op, std::size_t pair) {
  return program.tensor(program.operands(op)[pair].ref.tensor);
}

const program::Tensor& to(const Program& program, const Op& op, std::size_t pair) {
  return program.tensor(program.operands(op)[op.operands / 2U + pair].ref.tensor);
}

}  // namespace

std::size_t payloads(const Op& op) {
  return program::crosses_stages(op) ? 1U : op.operands / 2U;
}

Elements collective_payload(const Program& program, const Op& op, std::size_t pair) {
  if (program::crosses_stages(op)) {
    return from(program, op, 0).local_elements;
  }
  const std::int64_t ranks = program.mesh().group_size(op.group);
  switch (op.collective) {
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return ranks * from(program, op, pair).local_elements;
    case CollectiveKind::reduce_scatter:
      return ranks * to(program, op, pair).local_elements;
    case CollectiveKind::all_reduce:
    case CollectiveKind::send_recv:
      return from(program, op, pair).local_elements;
  }
  return {};
}

Bytes payload_bytes(const Program& program, const Op& op) {
  Bytes payload;
  for (std::size_t pair = 0; pair < payloads(op); ++pair) {
    payload += bytes_of(collective_payload(program, op, pair), from(program, op, pair).type);
  }
  return payload;
}

ledger::ByteAccount byte_account(const Op& op, const program::Tensor& tensor) {
  const Traffic traffic = program::traffic(tensor);
  return {.phase = op.phase,
          .traffic = traffic,
          .component = traffic == Traffic::activations ? op.component : tensor.component,
          .collective = op.collective};
}

cost::Group group_of(const Program& program, const Op& op, std::int64_t gpus_per_node) {
  return program::crosses_stages(op)
             ? place_message(program.mesh(), program.stage(), program.peer_stage(op), gpus_per_node)
             : place(program.mesh(), op.group, gpus_per_node);
}

cost::CollectiveBytes bytes_of_rank(const Program& program,
                                    const Op& op,
                                    std::size_t pair,
                                    std::int64_t gpus_per_node,
                                    std::int64_t rank) {
  const program::Mesh& mesh = program.mesh();
  if (!program::crosses_stages(op)) {
    return collective_bytes(
        program, op, pair, place(mesh, op.group, gpus_per_node), mesh.position(rank, op.group));
  }
  const std::int64_t own = mesh.in_stage(rank, program.stage());
  const Bytes message = payload_bytes(program, op);
  cost::CollectiveBytes bytes;
  if (op.function != program::Function::stage_receive) {
    bytes.sent = message;
    if (peer_is_off_node(mesh, own, program.peer_stage(op), gpus_per_node)) {
      bytes.sent_off_node = message;
    }
  }
  if (op.function != program::Function::stage_send) {
    bytes.received = message;
  }
  return bytes;
}

cost::CollectiveBytes collective_bytes(const Program& program,
                                       const Op& op,
                                       std::size_t pair,
                                       cost::Group group,
                                       std::int64_t position) {
  const Elements payload = collective_payload(program, op, pair);
  const ElementType type = from(program, op, pair).type;
  switch (op.collective) {
    case CollectiveKind::all_gather:
      return cost::all_gather_bytes(payload, type, group, position);
    case CollectiveKind::reduce_scatter:
      return cost::reduce_scatter_bytes(payload, type, group, position);
    case CollectiveKind::all_reduce:
      return cost::all_reduce_bytes(payload, type, group, position);
    case CollectiveKind::all_to_all:
      return cost::all_to_all_bytes(payload, type, group, position);
    case CollectiveKind::send_recv:
      return cost::ring_hop_bytes(payload, type, group, position, op.shift);
  }
  return {};
}

}  // namespace trireme::engine
