#include "sim/study/kernel_terms.h"

#include "sim/cost/attention.h"
#include "sim/cost/collectives.h"
#include "sim/cost/gemm.h"
#include "sim/cost/pointwise.h"
#include "sim/engine/collective_payload.h"
#include "sim/engine/placement.h"
#include "sim/engine/work.h"

namespace trireme::study {

using engine::Extents;
using engine::Machine;
using ledger::Term;
using program::Family;
using program::Function;
using program::Op;
using program::Program;

namespace {

constexpr std::string_view kFits = "fit_forms";

void set_equation(Term& term,
                  std::string_view equation,
                  std::string_view formula,
                  std::string_view source) {
  term.equation = equation;
  term.formula = formula;
  term.source = source;
}

void add(Term& term, std::string_view name, std::int64_t value) {
  term.numbers.push_back({name, value});
}

void add(Term& term, std::string_view name, double value) {
  term.numbers.push_back({name, value});
}

void add(Term& term, std::string_view name, Seconds value) {
  add(term, name, value.value());
}

void add(Term& term, std::string_view name, BytesPerSecond value) {
  add(term, name, value.value());
}

void add(Term& term, std::string_view name, FlopsPerSecond value) {
  add(term, name, value.value());
}

/// A coefficient that the profile may not know: then there is no number.
template <class Value>
void add(Term& term, std::string_view name, const std::optional<Value>& value) {
  if (value) {
    add(term, name, *value);
  }
}

void add_gemm_extents(Term& term, const Program& program, const Op& op) {
  const engine::GemmExtents extents = engine::gemm_extents(program, op, Extents::local);
  add(term, "m", extents.m);
  add(term, "n", extents.n);
  add(term, "k", extents.k);
  if (extents.groups > 1) {
    add(term, "g", extents.groups);
  }
}

bool is_grouped(const Program& program, const Op& op) {
  return engine::gemm_extents(program, op, Extents::local).groups > 1;
}

void add_attention_shape(Term& term, const cost::AttentionShape& shape) {
  add(term, "B", shape.sequences);
  add(term, "a", shape.query_heads);
  add(term, "d", shape.head_dim);
  if (cost::value_dim(shape) != shape.head_dim) {
    add(term, "v", cost::value_dim(shape));
  }
  add(term, "Sq", shape.query_tokens.value());
  add(term, "Skv", shape.key_tokens.value());
  if (shape.causal) {
    add(term, "q0", shape.first_query.value());
  }
}

void explain_gemm_seconds(const Program& program,
                          const Op& op,
                          const std::optional<cost::GemmCosts>& costs,
                          Term& term) {
  set_equation(term,
               "gemm-time",
               is_grouped(program, op)
                   ? "t0 + g x max(2 m n (k + k0) / P, e (m k + k n + m n) / bw)"
                   : "t0 + x max(2 m n (k + k0) / P, e (m k + k n + m n) / bw)",
               kFits);
  add_gemm_extents(term, program, op);
  if (!costs) {
    return;
  }
  add(term, "t0", costs->start);
  add(term, "P", costs->rate);
  add(term, "k0", costs->inner_overhead);
  add(term, "bw", costs->bandwidth);
  add(term, "x", engine::accumulates_in_fp32(program, op) ? costs->fp32_accumulation : 1.0);
}

/// What the last rank of a ring computes, which is never faster than another.
engine::AttentionKernels kernels_of_last(const Program& program, const Op& op) {
  const program::AxisMask ring = engine::ring_of_attention(program, op);
  return engine::attention_kernels(
      program, op, Extents::local, program.mesh().group_size(ring) - 1);
}

void explain_attention_seconds(const Program& program,
                               const Op& op,
                               const cost::AttentionCosts& costs,
                               Term& term) {
  set_equation(
      term, "attention-time", "t0 + k w (max(B, SMs b) + tiles tau / 128) / (E phi)", kFits);
  const engine::AttentionKernels kernels = kernels_of_last(program, op);
  const cost::AttentionShape& shape = kernels.shape[0];
  add_attention_shape(term, shape);
  if (kernels.count > 1) {
    term.formula = "sum over kernels " + std::string(term.formula);
    add(term, "kernels", static_cast<std::int64_t>(kernels.count));
  }
  const auto& kernel = engine::attention_kernel_costs(costs, op.attention);
  const cost::AttentionHeadDimCosts* row = kernel ? cost::rates_of(*kernel, shape) : nullptr;
  if (row == nullptr) {
    return;
  }
  const bool forward = op.function == Function::attention_forward;
  const auto& pass = forward ? row->forward : row->backward;
  if (!pass) {
    return;
  }
  add(term, "k", forward ? 1.0 : cost::attention_backward_work(shape));
  add(term, "t0", kernel->start);
  add(term, "E", pass->rate);
  add(term, "tau", pass->tile_overhead);
  add(term, "phi", row->sustained);
}

void add_node_costs(Term& term, const std::optional<cost::NodeCollectiveCosts>& costs) {
  if (!costs) {
    return;
  }
  add(term, "a0", costs->start);
  add(term, "a1", costs->per_rank);
  add(term, "beta", costs->link_rate);
  add(term, "c", costs->ramp_per_root_megabyte);
  add(term, "gamma", costs->local_rate);
}

void explain_ring_over_nodes(const Op& op,
                             const std::optional<cost::MultiNodeRingCosts>& ring,
                             Term& term) {
  set_equation(term,
               "multi-node-ring-time",
               "k as (n - 1) + V / B, B^-4 = (p eff NIC)^-4 + beta_nvl^-4",
               kFits);
  add(term, "k", std::int64_t{op.collective == CollectiveKind::all_reduce ? 2 : 1});
  if (!ring) {
    return;
  }
  add(term,
      "as",
      op.collective == CollectiveKind::all_gather       ? ring->all_gather_step
      : op.collective == CollectiveKind::reduce_scatter ? ring->reduce_scatter_step
                                                        : ring->all_reduce_step);
  add(term, "eff", ring->nic_efficiency);
  add(term, "beta_nvl", ring->nvlink_rate);
}

const std::optional<cost::NodeCollectiveCosts>& node_costs(const cost::CollectiveCosts& costs,
                                                           CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_to_all:
      return costs.all_to_all;
    case CollectiveKind::all_gather:
      return costs.all_gather;
    case CollectiveKind::reduce_scatter:
      return costs.reduce_scatter;
    default:
      return costs.all_reduce;
  }
}

const std::vector<cost::GroupResiduals>& residuals_of(const cost::ResidualTables& tables,
                                                      CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_to_all:
      return tables.all_to_all;
    case CollectiveKind::all_gather:
      return tables.all_gather;
    case CollectiveKind::reduce_scatter:
      return tables.reduce_scatter;
    case CollectiveKind::all_reduce:
      return tables.all_reduce;
    case CollectiveKind::send_recv:
      return tables.send_recv;
  }
  return tables.send_recv;
}

/// The factor on the closed form's seconds, where the profile holds one for this group shape.
void explain_residual(const Op& op,
                      cost::Group group,
                      ElementType type,
                      Bytes payload,
                      const cost::ResidualTables& tables,
                      Term& term) {
  if (op.collective == CollectiveKind::all_reduce && !cost::switch_reduces(type)) {
    return;
  }
  const bool exchange = op.collective == CollectiveKind::all_to_all;
  const Bytes held = exchange ? Bytes(ceil_div(payload.value(), group.ranks)) : payload;
  const double factor = cost::residual_factor(residuals_of(tables, op.collective), group, held);
  if (factor != 1) {
    term.formula = "r (" + term.formula + ")";
    add(term, "r", factor);
  }
}

void explain_send_recv(bool spans_nodes, const cost::MachineCosts& costs, Term& term) {
  if (spans_nodes) {
    set_equation(term, "send-recv-off-node-time", "N / R, R = eff NIC", kFits);
    if (costs.multi_node.send_recv) {
      add(term, "eff", costs.multi_node.send_recv->nic_efficiency);
    }
    return;
  }
  set_equation(term, "send-recv-time", "a + max(min(N / (l r), Q / r), N / min(m r, beta))", kFits);
}

void explain_collective_seconds(const Program& program,
                                const Op& op,
                                const Machine& machine,
                                Term& term) {
  const cost::Group group = engine::group_of(program, op, machine.gpus_per_node);
  const bool spans_nodes = group.ranks > group.ranks_per_node;
  const ElementType type = program.tensor(program.operands(op)[0].ref.tensor).type;
  const Bytes payload = engine::payload_bytes(program, op);
  add(term, "N", payload.value());
  add(term, "n", group.ranks);
  if (const auto least = engine::bound_by_links(program, op, machine)) {
    set_equation(term, "least-seconds", "V / C", "derived");
    add(term, "V", least->crossing_bytes);
    add(term, "C", least->capacity);
    return;
  }
  if (spans_nodes) {
    add(term, "p", group.ranks_per_node);
    add(term, "NIC", machine.nic_rate);
  }
  if (op.collective == CollectiveKind::send_recv) {
    explain_send_recv(spans_nodes, machine.costs, term);
  } else if (spans_nodes && op.collective == CollectiveKind::all_to_all) {
    set_equation(term,
                 "multi-node-all-to-all-time",
                 "a0 + ar (n - p) + max(S (n - p) / n / (eff NIC), C), S = N / n",
                 kFits);
    if (const auto& exchange = machine.costs.multi_node.all_to_all) {
      add(term, "a0", exchange->start);
      add(term, "ar", exchange->per_remote_rank);
      add(term, "eff", exchange->nic_efficiency);
    }
  } else if (spans_nodes) {
    explain_ring_over_nodes(op, machine.costs.multi_node.ring, term);
  } else if (op.collective == CollectiveKind::all_reduce &&
             cost::reduces_in_switches(type, group, machine.costs)) {
    const cost::SwitchReduceCosts& costs = *machine.costs.collectives.all_reduce_nvls;
    set_equation(term, "switch-all-reduce-time", "a + N / beta_n + c sqrt(N)", kFits);
    add(term, "a", costs.start);
    add(term, "beta_n", costs.rate);
    add(term, "c", costs.ramp_per_root_megabyte);
  } else {
    set_equation(term,
                 "node-collective-time",
                 "a0 + a1 (n - 1) + V / beta + c sqrt(V) + (S / n) / gamma",
                 kFits);
    add_node_costs(term, node_costs(machine.costs.collectives, op.collective));
  }
  explain_residual(op, group, type, payload, machine.costs.residuals, term);
}

}  // namespace

void explain_flops(const Program& program, const Op& op, Term& term) {
  if (program::info(op.function).family == Family::gemm) {
    set_equation(
        term, "gemm-flops", is_grouped(program, op) ? "g 2 m n k" : "2 m n k", "narayanan2021");
    add_gemm_extents(term, program, op);
    return;
  }
  const cost::AttentionShape shape = engine::attention_shape(program, op, Extents::local);
  const bool forward = op.function == Function::attention_forward;
  if (engine::ring_of_attention(program, op) != 0) {
    const double times = forward ? 1.0 : cost::attention_backward_work(shape);
    const double of_pair = 4 * times * static_cast<double>(shape.sequences * shape.query_heads) *
                           static_cast<double>(shape.head_dim);
    set_equation(term,
                 "ring-attention-work",
                 "k 4 B a d A, A pairs of a query and a key, mean over ranks",
                 "ring-flash-attention");
    add(term, "B", shape.sequences);
    add(term, "a", shape.query_heads);
    add(term, "d", shape.head_dim);
    add(term, "A", engine::executed_flops(program, op).value() / of_pair);
    add(term, "k", times);
    return;
  }
  const bool equal = cost::value_dim(shape) == shape.head_dim;
  set_equation(term,
               "attention-flops",
               shape.causal
                   ? equal ? "k 4 B a d Sq (q0 + Sq / 2)" : "k 2 B a (d + v) Sq (q0 + Sq / 2)"
               : equal ? "k 4 B a d Sq Skv"
                       : "k 2 B a (d + v) Sq Skv",
               "dao2023-flash2");
  add_attention_shape(term, shape);
  add(term, "k", forward ? 1.0 : cost::attention_backward_work(shape));
}

void explain_seconds(const Program& program, const Op& op, const Machine& machine, Term& term) {
  if (op.on_host) {
    set_equation(term, "host-work-time", "M / rho", "ren2021-zero-offload");
    add(term, "M", engine::moved_bytes(program, op).value());
    add(term, "rho", machine.host->work_rate);
    return;
  }
  switch (program::info(op.function).family) {
    case Family::gemm:
      explain_gemm_seconds(program, op, machine.costs.gemm, term);
      return;
    case Family::attention:
      explain_attention_seconds(program, op, machine.costs.attention, term);
      return;
    case Family::pointwise:
    case Family::optimizer:
      set_equation(term, "pointwise-time", "t0 + M / (eff HBM)", kFits);
      add(term, "M", engine::moved_bytes(program, op).value());
      add(term, "t0", machine.costs.kernel_launch);
      add(term, "HBM", machine.costs.pointwise.memory_peak);
      return;
    case Family::collective:
      explain_collective_seconds(program, op, machine, term);
      return;
    case Family::host_copy:
      set_equation(term, "host-copy-time", "M / beta", "derived");
      add(term, "M", engine::host_copied_bytes(program, op).value());
      add(term, "beta", machine.host->link_rate);
      return;
    case Family::bookkeeping:
      return;
  }
}

}  // namespace trireme::study
