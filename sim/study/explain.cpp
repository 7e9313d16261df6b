#include "sim/study/explain.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "sim/core/error.h"
#include "sim/cost/collectives.h"
#include "sim/engine/collective_payload.h"
#include "sim/engine/event/critical_path.h"
#include "sim/engine/event/schedule.h"
#include "sim/engine/placement.h"
#include "sim/engine/sizes.h"
#include "sim/engine/work.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/program/ownership.h"
#include "sim/study/evaluate.h"
#include "sim/study/event_limits.h"
#include "sim/study/kernel_terms.h"
#include "sim/study/nccl.h"
#include "sim/study/stages.h"
#include "sim/study/timeline.h"
#include "sim/study/what_if.h"

namespace trireme::study {

using ledger::Term;
using ledger::TermQuantity;
using program::Access;
using program::Family;
using program::Function;
using program::Op;
using program::Operand;
using program::Program;
using program::Segment;
using program::Tensor;
using program::TensorId;

namespace {

const cost::CollectiveInfo& collective_info(CollectiveKind kind) {
  for (const cost::CollectiveInfo& row : cost::collective_table()) {
    if (row.name == name(kind)) {
      return row;
    }
  }
  throw std::logic_error("explain: a collective without a row in collective_table()");
}

/// Whether every chunk of the payload is equal, so that the short formula gives the bytes exactly.
bool is_even(const ledger::ByteEntry& entry) {
  const std::int64_t whole = entry.payload_bytes.value();
  const std::int64_t ranks = entry.ranks;
  const bool exchanged = entry.account.collective == CollectiveKind::all_to_all;
  const std::int64_t chunks = exchanged ? ranks * ranks : ranks;
  const std::int64_t passes = entry.account.collective == CollectiveKind::all_reduce ? 2 : 1;
  return whole % chunks == 0 &&
         entry.count * passes * (whole / chunks) * (ranks - 1) == entry.sent.value();
}

Term operation_term(TermQuantity quantity, const ledger::TimeEntry& entry, const Op& op) {
  Term term;
  term.quantity = quantity;
  term.phase = name(entry.phase);
  term.component = name(entry.component);
  term.operation = entry.operation;
  term.count = entry.count;
  if (program::communicates(op)) {
    term.collective = name(op.collective);
  }
  return term;
}

/// "ring, Simple (NCCL 2.27.7)", of a collective; empty where NCCL has no choice, or none is known.
std::string nccl_choice_in_words(const Program& program,
                                 const Op& op,
                                 const config::ClusterSpec& cluster) {
  if (!program::communicates(op)) {
    return {};
  }
  const cost::Group group = engine::group_of(program, op, cluster.gpus_per_node.value);
  const auto pick = nccl_pick(cluster, op.collective, engine::payload_bytes(program, op), group);
  if (!pick) {
    return {};
  }
  return fmt::format("{}, {} (NCCL {})",
                     name_in(cost::kNcclAlgorithmNames, pick->choice.algorithm),
                     name_in(cost::kNcclProtocolNames, pick->choice.protocol),
                     pick->release);
}

/// FLOPs and seconds of every operation, in program order: first all FLOPs, then all seconds.
void add_operation_terms(const Program& program,
                         const config::ClusterSpec& cluster,
                         const engine::Machine& machine,
                         std::vector<Term>& terms) {
  const std::vector<ledger::TimeEntry> entries = engine::time_entries(program, machine);
  std::vector<const Op*> ops;
  program::for_each_op(program, [&](program::OpId, const Op& op, std::int64_t) {
    if (program::info(op.function).family != Family::bookkeeping) {
      ops.push_back(&op);
    }
  });
  ensure(ops.size() == entries.size(), "explain: time entries do not follow the operations");
  const auto output_name = [&](const Op& op) {
    return program::display_name(program.tensor(program.operands(op).back().ref.tensor));
  };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Family family = program::info(ops[i]->function).family;
    if (family != Family::gemm && family != Family::attention) {
      continue;
    }
    Term term = operation_term(TermQuantity::flops, entries[i], *ops[i]);
    term.tensor = output_name(*ops[i]);
    term.value = entries[i].flops.value();
    explain_flops(program, *ops[i], term);
    terms.push_back(std::move(term));
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i]->function == Function::load_batch) {
      continue;  // hidden ahead of the step
    }
    Term term = operation_term(TermQuantity::seconds, entries[i], *ops[i]);
    term.tensor = output_name(*ops[i]);
    if (engine::op_time(program, *ops[i], machine)) {
      term.value = entries[i].total.value();
    }
    explain_seconds(program, *ops[i], machine, term);
    term.nccl_choice = nccl_choice_in_words(program, *ops[i], cluster);
    terms.push_back(std::move(term));
  }
}

/// The first run of operations of the forward pass that holds attention; empty without one.
std::span<const Op> attention_block(const Program& program) {
  for (const Segment& segment : program.segments()) {
    const auto ops = program.ops().subspan(segment.first_op, segment.ops);
    for (const Op& op : ops) {
      if (op.function == Function::attention_forward && op.phase == Phase::forward) {
        return ops;
      }
    }
  }
  return {};
}

bool is_of_attention(const Op& op) {
  return op.component == Component::attention && op.phase == Phase::forward;
}

bool is_activation(const Tensor& tensor) {
  return tensor.role == program::Role::activation || tensor.role == program::Role::temporary ||
         tensor.role == program::Role::communication_buffer;
}

ledger::OwnerGrid owner_grid(const Program& program, const Tensor& tensor) {
  ledger::OwnerGrid grid;
  grid.tensor = program::display_name(tensor);
  grid.symbols = program::shape_in_symbols(program.mesh(), tensor);
  const bool has_heads = tensor.shape.rank() > program::kFeatureDim + 1;
  grid.columns = has_heads ? "head" : "feature";
  grid.partial = tensor.layout.partial_axes() != 0;
  const program::TokenOrder& order = program.token_order();
  const program::Block& block = tensor.block;
  const bool of_ring = !block.whole() && block.group == order.group;
  const std::int64_t in_block = tensor.shape[program::kSequenceDim].size;
  const std::int64_t tokens = of_ring ? order.ranks * in_block : in_block;
  const std::int64_t columns = tensor.shape[program::kFeatureDim].size;
  grid.owners.resize(static_cast<std::size_t>(tokens));
  for (std::int64_t token = 0; token < tokens; ++token) {
    const bool has_position = block.whole() || of_ring;
    const std::int64_t position = has_position ? order.position(token) : token;
    std::vector<std::vector<std::int64_t>>& row = grid.owners[static_cast<std::size_t>(position)];
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::array<std::int64_t, 3> indices = {0, token % in_block, column};
      std::vector<std::int64_t> owners = program::owners_of(program.mesh(), tensor, indices);
      if (of_ring) {  // position p holds block p - rotation
        std::erase_if(owners, [&](std::int64_t rank) {
          const std::int64_t ahead = program.mesh().position(rank, block.group) - block.rotation;
          return (ahead + order.ranks) % order.ranks != token / in_block;
        });
      }
      row.push_back(std::move(owners));
    }
  }
  return grid;
}

[[noreturn]] void refuse_owner_shape(const OwnerShape& shape,
                                     std::int64_t token_parts,
                                     std::int64_t head_parts) {
  throw Error(
      ErrorKind::command_line,
      SourceLocation{.file = "--owners"},
      token_parts == head_parts
          ? fmt::format("{} tokens x {} heads do not divide by the plan's group of {} ranks",
                        shape.tokens,
                        shape.heads,
                        head_parts)
          : fmt::format("{} tokens x {} heads do not divide into the plan's {} parts of "
                        "tokens and {} of heads",
                        shape.tokens,
                        shape.heads,
                        token_parts,
                        head_parts),
      fmt::format("try --owners {}x{}", token_parts, head_parts));
}

/// The plan on a model of one small layer, on its group alone: the same lowerings, layouts that
/// can be drawn.
plan::Plan small_plan(const plan::Plan& plan, const std::optional<OwnerShape>& wanted) {
  constexpr std::int64_t kLeastTokens = 8;
  constexpr std::int64_t kLeastHeads = 4;
  const std::int64_t token_parts = plan.sequence_multiple();
  const std::int64_t head_parts = plan.group_degree * plan.exchange_degree;
  const OwnerShape shape = wanted.value_or(
      OwnerShape{pad_to(kLeastTokens, token_parts), pad_to(kLeastHeads, head_parts)});
  if (shape.tokens % token_parts != 0 || shape.heads % head_parts != 0) {
    refuse_owner_shape(shape, token_parts, head_parts);
  }
  plan::Plan small = plan;
  small.model.layers = 1;
  small.model.heads = shape.heads;
  small.model.kv_heads = shape.heads;
  small.model.head_dim = 1;
  if (small.model.latent) {
    small.model.latent = config::LatentAttention{.query_rank = plan.model.latent->query_rank > 0,
                                                 .kv_rank = 1,
                                                 .nope_dim = 1,
                                                 .rope_dim = 1,
                                                 .value_dim = 1};
    small.model.head_dim = 2;
  }
  small.model.experts.reset();
  small.expert_degree = 1;
  small.model.hidden = shape.heads;
  small.model.mlp_width = shape.heads;
  small.model.vocabulary = 0;
  small.model.learned_positions = 0;
  small.sequence = shape.tokens;
  small.micro_batch = 1;
  small.micro_batches = 1;
  small.data_degree = 1;
  small.zero_parts = 1;
  small.pipeline_degree = 1;
  small.virtual_stages = 1;
  small.schedule = plan::PipelineSchedule::none;
  small.chunk_layers.clear();
  small.placement.clear();
  small.offload_activations = false;
  small.offload_optimizer = false;
  small.offload_parameters = false;
  return small;
}

}  // namespace

std::vector<Term> sent_terms(const Program& program,
                             std::int64_t gpus_per_node,
                             std::int64_t rank) {
  std::vector<Term> terms;
  for (const ledger::ByteEntry& entry : engine::byte_entries(program, gpus_per_node, rank)) {
    if (entry.sent == Bytes(0) && entry.received > Bytes(0)) {
      continue;  // of a message from another stage
    }
    const cost::CollectiveInfo& info = collective_info(entry.account.collective);
    Term term;
    term.quantity = TermQuantity::sent_bytes;
    term.phase = name(entry.account.phase);
    term.component = name(entry.account.component);
    term.collective = info.name;
    term.traffic = name(entry.account.traffic);
    term.operation = entry.operation;
    term.tensor = entry.tensor;
    term.count = entry.count;
    term.value = entry.sent.value();
    term.equation = info.bytes_equation;
    term.source = info.bibliography_key;
    term.numbers = {{"N", entry.payload_bytes.value()}, {"n", entry.ranks}};
    term.formula = info.bytes_formula;
    if (entry.payload == "message") {  // to another stage
      term.equation = "stage-message-bytes";
      term.source = "narayanan2021";
      term.numbers = {{"N", entry.payload_bytes.value()}};
      term.formula = "N";
    } else if (!is_even(entry)) {
      term.formula = info.uneven_bytes_formula;
      term.numbers.push_back({"rank", rank});
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

std::vector<Term> host_copy_terms(const Program& program) {
  std::vector<Term> terms;
  program::for_each_op(program, [&](program::OpId, const Op& op, std::int64_t times) {
    if (!program::crosses_host_link(op)) {
      return;
    }
    const Bytes copied = engine::host_copied_bytes(program, op);
    Term term;
    term.quantity = TermQuantity::host_copied_bytes;
    term.phase = name(op.phase);
    term.component = name(op.component);
    term.operation = op.label;
    term.tensor = program::display_name(program.tensor(program.operands(op)[0].ref.tensor));
    term.count = times;
    term.value = (times * copied).value();
    term.equation = "host-copied-bytes";
    term.source = "derived";
    term.formula = "b";
    term.numbers = {{"b", copied.value()}};
    terms.push_back(std::move(term));
  });
  return terms;
}

std::vector<Term> tensor_terms(const Program& program) {
  std::vector<Term> terms;
  for (const Tensor& tensor : program.tensors()) {
    if (tensor.storage != program::Storage::own) {
      continue;
    }
    Term term;
    term.quantity = TermQuantity::tensor_bytes;
    term.component = name(tensor.component);
    term.item = name(program::memory_item(tensor));
    term.tensor = fmt::format(
        "{} {}", program::display_name(tensor), program::shape_in_symbols(program.mesh(), tensor));
    term.value = tensor.local_bytes().value();
    term.equation = "tensor-bytes";
    term.formula = "E w";
    term.numbers = {{"E", tensor.local_elements.value()}, {"w", width(tensor.type)}};
    term.source = "derived";
    terms.push_back(std::move(term));
  }
  return terms;
}

std::vector<ledger::ShapeStep> shape_trace(const Program& program) {
  std::vector<ledger::ShapeStep> steps;
  std::vector<bool> seen(program.tensors().size(), false);
  for (const Op& op : attention_block(program)) {
    if (!is_of_attention(op)) {
      continue;
    }
    for (const Operand& operand : program.operands(op)) {
      const TensorId id = operand.ref.tensor;
      const Tensor& tensor = program.tensor(id);
      if (seen[id] || !is_activation(tensor)) {
        continue;
      }
      seen[id] = true;
      ledger::ShapeStep step;
      step.operation = op.label;
      step.collective = op.function == Function::collective && operand.access != Access::read
                            ? name(op.collective)
                            : std::string_view();
      step.tensor = program::display_name(tensor);
      step.symbols = program::shape_in_symbols(program.mesh(), tensor);
      step.numbers = program::shape_in_numbers(program.mesh(), tensor);
      steps.push_back(std::move(step));
    }
  }
  return steps;
}

std::vector<ledger::OwnerChange> owner_changes(const Program& program) {
  std::vector<ledger::OwnerChange> changes;
  for (const Op& op : attention_block(program)) {
    if (!is_of_attention(op) || op.function != Function::collective) {
      continue;
    }
    const auto operands = program.operands(op);
    const std::size_t pairs = op.operands / 2U;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const Tensor& before = program.tensor(operands[pair].ref.tensor);
      const Tensor& after = program.tensor(operands[pairs + pair].ref.tensor);
      if (is_activation(before) && before.shape.rank() > program::kFeatureDim) {
        changes.push_back({op.label,
                           name(op.collective),
                           owner_grid(program, before),
                           owner_grid(program, after)});
      }
    }
  }
  return changes;
}

namespace {

/// What would shorten the step; a reason where the event engine does not say so.
void add_critical_path(const config::StudySpec& study,
                       const std::vector<Program>& stages,
                       const engine::Machine& machine,
                       ledger::Explanation& explanation) {
  std::string refused = too_large(stages, machine, study, EventUse::critical_path);
  if (!refused.empty()) {
    std::vector<std::string>& reasons = explanation.result.reasons;
    if (std::find(reasons.begin(), reasons.end(), refused) == reasons.end()) {
      reasons.push_back(std::move(refused));
    }
    return;
  }
  const engine::Schedule schedule(stages);
  if (const auto step = event_step(schedule, machine, study.what_if)) {
    explanation.critical_path =
        engine::critical_path(schedule, machine, step->options, kTermsTried);
  }
}

}  // namespace

ledger::Explanation explain(const config::StudySpec& study,
                            const config::PlanSpec& spec,
                            const std::optional<OwnerShape>& shape) {
  ledger::Explanation explanation;
  explanation.study = study.name;
  explanation.profile = study.cluster.profile.name;
  explanation.result = evaluate(study, spec, ledger::Engine::both);
  const plan::Resolution resolution = plan::resolve(study, spec);
  if (!resolution.feasibility.legal()) {
    return explanation;
  }
  const std::vector<Program> stages = plan::lower_stages(resolution.plan);
  const engine::Machine machine = machine_of(study.cluster, spec.framework);
  const StageNumbers sizes = read_stages(stages, machine.gpus_per_node);
  const Program& program = stages[sizes.sender];
  explanation.terms = sent_terms(program, machine.gpus_per_node, sizes.rank);
  const std::vector<Term> tensors = tensor_terms(program);
  explanation.terms.insert(explanation.terms.end(), tensors.begin(), tensors.end());
  const std::vector<Term> copies = host_copy_terms(program);
  explanation.terms.insert(explanation.terms.end(), copies.begin(), copies.end());
  add_operation_terms(program, study.cluster, machine, explanation.terms);
  add_critical_path(study, stages, machine, explanation);
  explanation.memory = engine::memory_entries(stages[sizes.fullest]);
  explanation.shapes = shape_trace(program);
  const plan::Plan small = small_plan(resolution.plan, shape);
  explanation.owners = owner_changes(plan::lower(small));
  explanation.owner_ranks = small.ranks();
  return explanation;
}

}  // namespace trireme::study
