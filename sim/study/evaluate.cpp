#include "sim/study/evaluate.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <iterator>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include "sim/config/overheads.h"
#include "sim/config/recompute.h"
#include "sim/config/words.h"
#include "sim/core/error.h"
#include "sim/core/nearest.h"
#include "sim/engine/event/schedule.h"
#include "sim/engine/sizes.h"
#include "sim/plan/framework_buffers.h"
#include "sim/plan/legality.h"
#include "sim/plan/lower.h"
#include "sim/plan/plan.h"
#include "sim/study/accuracy.h"
#include "sim/study/device_memory.h"
#include "sim/study/event_limits.h"
#include "sim/study/host_memory.h"
#include "sim/study/levers.h"
#include "sim/study/nccl.h"
#include "sim/study/point.h"
#include "sim/study/rates.h"
#include "sim/study/requirements.h"
#include "sim/study/stages.h"
#include "sim/study/trends.h"
#include "sim/study/what_if.h"

namespace trireme::study {

using ledger::PlanNumbers;
using ledger::PlanResult;
using ledger::StudyResult;
using ledger::Verdict;

namespace {

ledger::StepResult step_result(const ledger::TimeLedger& time,
                               const ledger::FlopLedger& flops,
                               const plan::Plan& plan,
                               const config::GpuSpec& gpu) {
  const std::int64_t gpus = plan.ranks();
  const FlopsPerSecond peak = gpu.peak_dense_bf16;
  ledger::StepResult step;
  step.time = time;
  step.tokens_per_second_per_gpu =
      tokens_per_second_per_gpu(Tokens(plan.step_tokens()), gpus, time.step);
  step.mfu = flop_utilisation(flops.model, gpus, peak, time.step);
  step.mfu_full_attention = flop_utilisation(flops.model_full_attention, gpus, peak, time.step);
  step.hfu = flop_utilisation(flops.executed, 1, peak, time.step);
  step.exposed_fraction = ratio(time.exposed_communication, time.step);
  step.bound_by = bound_by(time);
  return step;
}

/// Asks the readers for the step; puts a sentence into `reasons` where one has not what is asked.
void read_steps(std::span<const program::Program> stages,
                const engine::Machine& machine,
                const config::StudySpec& study,
                ledger::Engine reader,
                ledger::ReaderSteps& steps,
                std::optional<ledger::StepDistribution>& distribution,
                std::vector<std::string>& reasons) {
  if (reader != ledger::Engine::event) {
    if (needs_event_engine(study.what_if)) {
      reasons.emplace_back(
          "the analytic engine has no slow ranks and no jitter: its seconds are left out");
    } else {
      steps.analytic = engine::read_time(stages, machine);
    }
  }
  if (reader != ledger::Engine::analytic) {
    if (std::string refused = too_large(stages, machine, study, EventUse::seconds);
        !refused.empty()) {
      reasons.push_back(std::move(refused));
    } else if (auto step = event_step(engine::Schedule(stages), machine, study.what_if)) {
      steps.event = step->time;
      distribution = std::move(step->distribution);
    }
  }
}

PlanResult evaluate_at(const config::StudySpec& study,
                       const config::PlanSpec& spec,
                       const std::vector<ledger::PointValue>& point,
                       ledger::Engine reader) {
  const config::GpuSpec& gpu = study.cluster.gpu;
  PlanResult result;
  result.plan = spec.name;
  result.point = point;
  result.capacity = gpu.memory_visible;
  result.what_if = sentences(study.what_if);
  const plan::Resolution resolution = plan::resolve(study, spec);
  if (!resolution.feasibility.legal()) {
    for (const Refusal& refusal : resolution.feasibility.refusals) {
      result.reasons.push_back(fmt::format("{}: {}", refusal.rule, refusal.message));
    }
    return result;
  }

  const std::vector<program::Program> stages = plan::lower_stages(resolution.plan);
  const engine::Machine machine = machine_of(study.cluster, spec.framework);
  const StageNumbers sizes = read_stages(stages, machine.gpus_per_node);
  PlanNumbers numbers;
  numbers.bytes = sizes.bytes;
  numbers.memory = sizes.memory;
  numbers.flops = sizes.flops;
  result.rank_class = sizes.rank_class;
  numbers.device = device_memory(stages[sizes.fullest], numbers.memory, study, spec);
  numbers.host = host_memory(stages, study.cluster);
  result.verdict = with_host(
      memory_verdict(numbers.memory.allocated, numbers.device, result.capacity), numbers.host);
  if (result.verdict != Verdict::fits) {
    if (auto changed = next_lever(study, spec, numbers.device)) {
      result.next_lever = std::move(changed->lever);
    }
  }
  for (std::string& remark : remarks_on_host(numbers.host, study, spec)) {
    result.reasons.push_back(std::move(remark));
  }
  const plan::ModelShape& model = resolution.plan.model;
  if (model.learned_positions > 0 && resolution.plan.sequence > model.learned_positions) {
    result.reasons.push_back(
        fmt::format("the model has learned positions for {} tokens: its table is taken to have {} "
                    "rows",
                    model.learned_positions,
                    resolution.plan.sequence));
  }
  for (std::string& remark : plan::remarks_on_experts(resolution.plan)) {
    result.reasons.push_back(std::move(remark));
  }
  for (std::string& remark : plan::remarks_on_framework(resolution.plan)) {
    result.reasons.push_back(std::move(remark));
  }
  std::optional<ledger::StepDistribution> distribution;
  read_steps(stages, machine, study, reader, numbers.by_reader, distribution, result.reasons);
  const std::optional<ledger::TimeLedger>& time =
      reader == ledger::Engine::analytic ? numbers.by_reader.analytic : numbers.by_reader.event;
  if (time) {
    numbers.step = step_result(*time, numbers.flops, resolution.plan, gpu);
    result.band = band_of(study);
    numbers.step->exposed_is_split = reader != ledger::Engine::analytic;
    numbers.step->distribution = std::move(distribution);
    for (std::string& sentence : faster_than_links(stages, machine)) {
      result.reasons.push_back(std::move(sentence));
    }
  } else if (std::string unknown = unknown_kernel(stages, machine); !unknown.empty()) {
    result.reasons.push_back(std::move(unknown));
  }
  result.numbers = std::move(numbers);
  return result;
}

std::string yes_or_no(bool value) {
  return value ? "yes" : "no";
}

/// ", optimizer and parameters on the host".
std::string offload_in_words(const config::OffloadSpec& offload) {
  if (!offload.any()) {
    return {};
  }
  return fmt::format(", {}{}{} on the host",
                     offload.optimizer ? "optimizer" : "",
                     offload.optimizer && offload.parameters ? " and " : "",
                     offload.parameters ? "parameters" : "");
}

std::string options_in_words(const config::PlanSpec& plan, bool has_vocabulary) {
  const cost::FrameworkOverheads overheads = config::framework_overheads(plan.framework);
  constexpr double kMicrosecondsPerSecond = 1e6;
  const std::string added =
      overheads.in_situ == 1 && overheads.host_per_operation == Seconds(0)
          ? ""
          : fmt::format(" (kernels x {:.6g} but attention's, host {:.6g} us an operation)",
                        overheads.in_situ,
                        kMicrosecondsPerSecond * overheads.host_per_operation.value());
  return fmt::format("attention kernel {}, recompute {}{}, {}, framework {}{}",
                     config::word_for(config::kAttentionWords, plan.attention),
                     config::in_words(plan.recompute),
                     offload_in_words(plan.offload),
                     has_vocabulary
                         ? fmt::format("loss {}{}",
                                       config::word_for(config::kLossWords, plan.loss),
                                       plan.logits_type == ElementType::bf16 ? " in bf16" : "")
                         : "loss half the sum of squares (no vocabulary)",
                     config::word_for(config::kFrameworkWords, plan.framework),
                     added);
}

/// What the reader of a table must know besides it: the workload, and each plan's options or, where
/// all plans have the same, those once.
std::vector<std::string> settings_of(const config::StudySpec& study) {
  const config::WorkloadSpec& workload = study.workload;
  std::vector<std::string> settings;
  settings.push_back(fmt::format("micro batch {}, global batch {}, causal attention: {}",
                                 workload.micro_batch.value,
                                 workload.global_batch
                                     ? std::to_string(workload.global_batch->value)
                                     : "one micro batch per data-parallel rank",
                                 yes_or_no(workload.causal)));
  std::vector<std::string> options;
  for (const config::PlanSpec& plan : study.plans) {
    options.push_back(options_in_words(plan, study.model.vocabulary.value > 0));
  }
  if (std::all_of(options.begin(), options.end(), [&](const std::string& o) {
        return o == options.front();
      })) {
    settings.push_back(fmt::format("every plan: {}", options.front()));
    return settings;
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    settings.push_back(fmt::format("{}: {}", study.plans[i].name, options[i]));
  }
  return settings;
}

StudyResult result_without_rows(const config::StudySpec& study, ledger::Engine engine) {
  StudyResult result;
  result.engine = engine;
  result.name = study.name;
  result.file = study.file;
  return result;
}

/// Adds a name to a list such as "h100-sxm-public, h200-sxm-public", once.
void list(std::string& names, const std::string& name) {
  const std::string listed = ", " + names + ", ";
  if (listed.find(", " + name + ", ") == std::string::npos) {
    names += (names.empty() ? "" : ", ") + name;
  }
}

/// What the rows rest on: every model, cluster, profile and setting of the points, in their order.
void describe(const config::StudySpec& study, StudyResult& result) {
  list(result.model, study.model.name);
  list(result.cluster, study.cluster.name);
  list(result.profile, study.cluster.profile.name);
  result.gpus = std::max(result.gpus, study.cluster.gpus());
  for (std::string& setting : settings_of(study)) {
    if (std::find(result.settings.begin(), result.settings.end(), setting) ==
        result.settings.end()) {
      result.settings.push_back(std::move(setting));
    }
  }
}

/// A point of a sweep on its own, or why it ends the sweep.
struct SweptPoint {
  StudyResult result;
  std::exception_ptr error;
};

/// Adds what a point has found to the result of the points before it.
void append(StudyResult&& point, StudyResult& result) {
  list(result.model, point.model);
  list(result.cluster, point.cluster);
  list(result.profile, point.profile);
  result.gpus = std::max(result.gpus, point.gpus);
  for (std::string& setting : point.settings) {
    if (std::find(result.settings.begin(), result.settings.end(), setting) ==
        result.settings.end()) {
      result.settings.push_back(std::move(setting));
    }
  }
  std::move(point.rows.begin(), point.rows.end(), std::back_inserter(result.rows));
  std::move(point.failed.begin(), point.failed.end(), std::back_inserter(result.failed));
}

void add_point(const config::StudySpec& study,
               const config::SweepPoint& swept,
               StudyResult& result) {
  describe(study, result);
  const std::size_t first = result.rows.size();
  const std::vector<ledger::PointValue> point = point_of(study, swept);
  for (const config::PlanSpec& plan : study.plans) {
    result.rows.push_back(evaluate_at(study, plan, point, result.engine));
  }
  check_requirements(study.require, std::span(result.rows).subspan(first), result.failed);
}

}  // namespace

engine::TopologyShape topology_of(const config::ClusterSpec& cluster) {
  engine::TopologyShape shape;
  shape.nodes = cluster.nodes.value;
  shape.gpus_per_node = cluster.gpus_per_node.value;
  shape.link_per_gpu = cluster.pcie_per_gpu.value_or(cluster.gpu.nvlink_one_direction);
  switch (cluster.intra) {
    case config::IntraLinks::nvswitch:
      shape.inside = engine::NodeLinks::nvswitch;
      break;
    case config::IntraLinks::nvlink_mesh:
      shape.inside = engine::NodeLinks::nvlink_mesh;
      break;
    case config::IntraLinks::pcie:
      shape.inside = engine::NodeLinks::pcie;
      break;
  }
  shape.nics_per_node = cluster.nics_per_node;
  shape.nic = static_cast<double>(shape.gpus_per_nic()) * cluster.nic_per_gpu;
  switch (cluster.fabric) {
    case config::FabricKind::flat:
      shape.fabric = engine::Fabric::flat;
      break;
    case config::FabricKind::leaf_spine:
      shape.fabric = engine::Fabric::leaf_spine;
      break;
    case config::FabricKind::rail_optimised:
      shape.fabric = engine::Fabric::rail_optimised;
      break;
  }
  shape.nodes_per_leaf = cluster.nodes_per_leaf;
  shape.oversubscription = cluster.oversubscription;
  shape.relay_to_rail = cluster.pxn;
  return shape;
}

engine::Machine machine_of(const config::ClusterSpec& cluster) {
  engine::Machine machine;
  machine.costs = cluster.profile.costs;
  const auto gpus = static_cast<double>(cluster.gpus_per_node.value);
  machine.host = cost::HostCosts{.link_rate = cluster.host.link_per_gpu,
                                 .work_rate = 1.0 / gpus * cluster.host.work_rate};
  machine.nic_rate = cluster.nic_per_gpu;
  machine.gpus_per_node = cluster.gpus_per_node.value;
  machine.topology = topology_of(cluster);
  machine.nccl = nccl_tuning_of(cluster);
  return machine;
}

engine::Machine machine_of(const config::ClusterSpec& cluster, config::Framework framework) {
  const cost::FrameworkOverheads overheads = config::framework_overheads(framework);
  engine::Machine machine = machine_of(cluster);
  machine.costs = cost::in_situ_costs(std::move(machine.costs), overheads);
  machine.host_per_operation = overheads.host_per_operation;
  return machine;
}

PlanResult evaluate(const config::StudySpec& study,
                    const config::PlanSpec& plan,
                    ledger::Engine engine) {
  return evaluate_at(study, plan, point_of(study, {}), engine);
}

std::vector<PlanResult> evaluate(const config::StudySpec& study) {
  return compare(study).rows;
}

StudyResult compare(const config::StudySpec& study, ledger::Engine engine) {
  StudyResult result = result_without_rows(study, engine);
  add_point(study, {}, result);
  result.too_close = too_close_to_call(result.rows);
  return result;
}

StudyResult sweep(const config::StudyFile& file,
                  const std::string& only_plan,
                  const std::function<void(std::size_t, std::size_t)>& progress,
                  ledger::Engine engine) {
  const auto chosen = [&](config::StudySpec study) {
    return only_plan.empty() ? study : only(study, only_plan);
  };
  StudyResult result = result_without_rows(chosen(file.base()), engine);
  const std::vector<config::SweepPoint>& points = file.points();
  if (points.empty()) {
    add_point(chosen(file.base()), {}, result);
  }
  std::vector<SweptPoint> swept(points.size());
  std::mutex one_at_a_time;
  std::size_t done = 0;
  std::atomic<std::size_t> ends_at = points.size();  // a point whose error ends the sweep
  tbb::parallel_for(std::size_t{0}, points.size(), [&](std::size_t i) {
    if (i > ends_at) {
      return;
    }
    try {
      swept[i].result.engine = engine;
      add_point(chosen(file.at(points[i])), points[i], swept[i].result);
    } catch (const std::exception&) {
      swept[i].error = std::current_exception();
    }
    const std::scoped_lock lock(one_at_a_time);
    if (swept[i].error) {
      ends_at = std::min<std::size_t>(ends_at, i);
    }
    progress(++done, points.size());
  });
  for (SweptPoint& point : swept) {
    if (point.error) {
      std::rethrow_exception(point.error);
    }
    append(std::move(point.result), result);
  }
  result.too_close = too_close_to_call(result.rows);
  result.crossovers = find_crossovers(result.rows);
  result.walls = find_memory_walls(result.rows);
  return result;
}

const config::PlanSpec& find_plan(const config::StudySpec& study, const std::string& name) {
  std::vector<std::string> names;
  for (const config::PlanSpec& plan : study.plans) {
    if (plan.name == name) {
      return plan;
    }
    names.push_back(plan.name);
  }
  throw Error(ErrorKind::command_line,
              SourceLocation{.file = study.file},
              fmt::format("no plan is named '{}'", name),
              hint_near(name, names));
}

config::StudySpec only(const config::StudySpec& study, const std::string& name) {
  config::StudySpec one = study;
  one.plans = {find_plan(study, name)};
  std::erase_if(one.require, [&](const config::RequireSpec& r) { return r.plan != name; });
  return one;
}

}  // namespace trireme::study
