#include "sim/engine/event/link_use.h"

#include <algorithm>
#include <optional>

#include "sim/cost/collectives.h"
#include "sim/engine/collective_payload.h"
#include "sim/engine/placement.h"

namespace trireme::engine {

namespace {

/// What a collective reaches on each of a rank's links; empty where no coefficient says so.
struct LinkRates {
  std::optional<BytesPerSecond> nvlink;
  std::optional<BytesPerSecond> nic;
};

std::optional<BytesPerSecond> rate_inside(const program::Program& program,
                                          const program::Op& op,
                                          cost::Group group,
                                          const cost::MachineCosts& costs) {
  const auto beta = [](const auto& coefficients) {
    return coefficients ? std::optional(coefficients->link_rate) : std::nullopt;
  };
  const ElementType type = program.tensor(program.operands(op)[0].ref.tensor).type;
  const cost::CollectiveCosts& collectives = costs.collectives;
  switch (op.collective) {
    case CollectiveKind::all_to_all:
      return beta(collectives.all_to_all);
    case CollectiveKind::all_gather:
      return beta(collectives.all_gather);
    case CollectiveKind::reduce_scatter:
      return beta(collectives.reduce_scatter);
    case CollectiveKind::all_reduce:
      return cost::reduces_in_switches(type, group, costs) ? collectives.all_reduce_nvls->rate
                                                           : beta(collectives.all_reduce);
    case CollectiveKind::send_recv:
      return beta(collectives.send_recv);
  }
  return std::nullopt;
}

LinkRates rates_over_nodes(const program::Op& op, const Machine& machine) {
  const cost::MultiNodeCosts& outside = machine.costs.multi_node;
  const auto nic = [&](const auto& coefficients) {
    return coefficients ? std::optional(coefficients->nic_efficiency * machine.nic_rate)
                        : std::nullopt;
  };
  LinkRates rates;
  switch (op.collective) {
    case CollectiveKind::all_to_all:
      rates.nic = nic(outside.all_to_all);
      if (machine.costs.collectives.all_to_all) {
        rates.nvlink = machine.costs.collectives.all_to_all->link_rate;
      }
      return rates;
    case CollectiveKind::send_recv:
      rates.nic = nic(outside.send_recv);
      if (machine.costs.collectives.send_recv) {
        rates.nvlink = machine.costs.collectives.send_recv->link_rate;
      }
      return rates;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_reduce:
      rates.nic = nic(outside.ring);
      if (outside.ring) {
        rates.nvlink = outside.ring->nvlink_rate;
      }
      return rates;
  }
  return rates;
}

double part(double bytes, std::optional<BytesPerSecond> rate, Seconds alone) {
  return rate && alone > Seconds(0) ? std::min(1.0, bytes / rate->value() / alone.value()) : 0;
}

}  // namespace

LinkUse link_use(const program::Program& program,
                 const program::Op& op,
                 const Machine& machine,
                 Seconds alone) {
  const cost::Group group = place(program.mesh(), op.group, machine.gpus_per_node);
  const bool over_nodes = group.ranks > group.ranks_per_node;
  const LinkRates rates =
      over_nodes ? rates_over_nodes(op, machine)
                 : LinkRates{rate_inside(program, op, group, machine.costs), std::nullopt};
  Bytes sent;
  Bytes off_node;
  for (std::int64_t position = 0; position < group.ranks_per_node; ++position) {
    for (std::size_t pair = 0; pair < op.operands / 2U; ++pair) {
      const cost::CollectiveBytes bytes = collective_bytes(program, op, pair, group, position);
      sent += bytes.sent;
      off_node += bytes.sent_off_node;
    }
  }
  const auto ranks = static_cast<double>(group.ranks_per_node);
  return {part(static_cast<double>((sent - off_node).value()) / ranks, rates.nvlink, alone),
          part(static_cast<double>(off_node.value()) / ranks, rates.nic, alone)};
}

}  // namespace trireme::engine
