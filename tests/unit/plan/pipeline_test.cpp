// Pipelines: what stages send to each other, what they hold, and how long they stand still.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/engine/analytic.h"
#include "sim/engine/event/event.h"
#include "sim/engine/sizes.h"
#include "sim/plan/lower.h"
#include "sim/plan/schedule.h"
#include "sim/plan/step.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"
#include "tests/unit/engine/timed_program.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using plan::PipelineSchedule;
using plan::Plan;
using program::Program;

/// A model without vocabulary, whose stages are alike but for load and loss.
Plan pipeline(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches) {
  Plan plan = test::ulysses(test::gelu_model(2 * stages * chunks, 64, 4), 1, 16);
  plan.pipeline_degree = stages;
  plan.virtual_stages = chunks;
  plan.micro_batches = micro_batches;
  plan.schedule =
      chunks > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_forward_one_backward;
  plan.clip_gradients = false;
  return plan;
}

Bytes messages_of(const Program& stage) {
  const ledger::ByteLedger bytes = engine::read_bytes(stage, test::kOneNode);
  return bytes.sent_by_collective[ledger::index(CollectiveKind::send_recv)];
}

/// What the layers of a stage save of one micro batch for its backward pass.
Bytes saved_by_micro_batch(const Program& stage) {
  Bytes saved;
  for (const program::Tensor& tensor : stage.tensors()) {
    if (tensor.saved && tensor.storage == program::Storage::own &&
        (tensor.varies & program::kPerLayer) != 0) {
      saved += stage.extent(program::Index::layer) * tensor.local_bytes();
    }
  }
  return saved;
}

/// Seconds of a step in which nothing takes time but the layers' kernels, and of those on a rank.
struct LayerStep {
  double step = 0;
  double busy = 0;
  double bubble = 0;
};

bool is_layer_kernel(const program::Op& op) {
  return (op.component == Component::attention || op.component == Component::mlp ||
          op.component == Component::norm) &&
         (op.phase == Phase::forward || op.phase == Phase::backward) && !program::communicates(op);
}

engine::Machine machine_with_messages() {
  engine::Machine machine = engine::machine();
  cost::SendRecvCosts& messages = machine.costs.collectives.send_recv.emplace();
  messages.channels = 1;
  messages.channel_rate = BytesPerSecond(engine::kBytesPerSecond);
  messages.link_rate = BytesPerSecond(engine::kBytesPerSecond);
  machine.gpus_per_node = test::kOneNode;
  cost::AttentionKernelCosts kernel;
  kernel.head_dim_count = 1;
  kernel.head_dims[0].head_dim = 1024;
  kernel.head_dims[0].forward = cost::AttentionPassCosts{FlopsPerSecond(1e9), 100};
  kernel.head_dims[0].backward = cost::AttentionPassCosts{FlopsPerSecond(1e9), 200};
  machine.costs.attention = {kernel, kernel, kernel};
  return machine;
}

LayerStep layer_step(const Plan& plan) {
  const std::vector<Program> stages = plan::lower_stages(plan);
  const engine::Schedule schedule(stages);
  engine::EventOptions options;
  for (const Program& stage : stages) {
    for (const program::Op& op : stage.ops()) {
      options.op_factors.push_back(is_layer_kernel(op) ? 1 : 0);
    }
  }
  const auto result = engine::simulate(schedule, machine_with_messages(), options);
  REQUIRE(result.has_value());
  return {result->time.step.value(),
          result->busy_of_stream[engine::kComputeSlot].value(),
          result->time.pipeline_bubble.value()};
}

}  // namespace

// Narayanan et al., section 2.2: the bubble is (p - 1) / m of the ideal time, and v times less when
// interleaved. Stages are equal, and messages take no time.
TEST_CASE("the bubble of a pipeline is (p - 1) / (m v)", "[plan][pipeline]") {
  const std::int64_t stages = GENERATE(2, 3, 4, 8);
  const std::int64_t micro_batches = GENERATE(1, 2, 8, 16);
  const LayerStep run = layer_step(pipeline(stages, 1, micro_batches));
  const double bubble = static_cast<double>(stages - 1) / static_cast<double>(micro_batches);
  CAPTURE(stages, micro_batches);
  CHECK((run.step - run.busy) / run.busy == Approx(bubble).epsilon(1e-9));
  CHECK(run.bubble <= run.step - run.busy + 1e-12);
}

TEST_CASE("the bubble of an interleaved pipeline is (p - 1) / (m v)", "[plan][pipeline]") {
  const std::int64_t stages = GENERATE(3, 4);
  const std::int64_t chunks = GENERATE(2, 3);
  const std::int64_t groups = GENERATE(1, 2, 4);
  const LayerStep run = layer_step(pipeline(stages, chunks, stages * groups));
  const double bubble =
      static_cast<double>(stages - 1) / static_cast<double>(stages * groups * chunks);
  CAPTURE(stages, chunks, groups);
  CHECK((run.step - run.busy) / run.busy == Approx(bubble).epsilon(1e-9));
}

// B S h e for each micro batch and boundary, each way; over the group where tokens are split, and
// over the context-parallel ranks always.
TEST_CASE("stages send a micro batch's residual stream", "[plan][pipeline]") {
  const std::int64_t micro_batches = 5;
  const std::int64_t whole = 2 * 32 * 64 * 2;  // B S h e
  for (const bool sequence : {false, true}) {
    Plan plan = test::megatron(test::gelu_model(4, 64, 4), 4, 32);
    plan.sequence_sharded = sequence;
    plan.micro_batch = 2;
    plan.micro_batches = micro_batches;
    plan.pipeline_degree = 4;
    plan.schedule = PipelineSchedule::one_forward_one_backward;
    const std::int64_t message = sequence ? whole / 4 : whole;
    for (std::int64_t stage = 0; stage < 4; ++stage) {
      const std::int64_t boundaries = stage == 0 || stage == 3 ? 1 : 2;
      CHECK(messages_of(plan::lower_stage(plan, stage)) ==
            Bytes(boundaries * micro_batches * message));
    }
  }
  for (const bool sequence : {false, true}) {
    Plan plan = test::megatron(test::gelu_model(4, 64, 8), 4, 32);
    plan.sequence_sharded = sequence;
    plan.exchange_degree = 2;
    plan.micro_batch = 2;
    plan.micro_batches = micro_batches;
    plan.pipeline_degree = 2;
    plan.schedule = PipelineSchedule::one_forward_one_backward;
    CHECK(messages_of(plan::lower_stage(plan, 1)) ==
          Bytes(micro_batches * whole / 2 / (sequence ? 4 : 1)));
  }
  Plan plan = test::ulysses(test::gelu_model(4, 64, 4), 4, 32);
  plan.micro_batch = 2;
  plan.micro_batches = micro_batches;
  plan.pipeline_degree = 2;
  plan.schedule = PipelineSchedule::one_forward_one_backward;
  CHECK(messages_of(plan::lower_stage(plan, 0)) == Bytes(micro_batches * whole / 4));
}

TEST_CASE("interleaved stages send v times as much", "[plan][pipeline]") {
  const auto all_messages = [](const Plan& plan) {
    Bytes sent;
    for (const Program& stage : plan::lower_stages(plan)) {
      sent += messages_of(stage);
    }
    return sent.value();
  };
  const std::int64_t message = 16 * 64 * 2;
  // p v - 1 boundaries between chunks, each way.
  CHECK(all_messages(pipeline(4, 1, 8)) == 2 * (4 - 1) * 8 * message);
  CHECK(all_messages(pipeline(4, 3, 8)) == 2 * (4 * 3 - 1) * 8 * message);
}

TEST_CASE("stage i holds min(p - i, m) micro batches", "[plan][pipeline]") {
  const auto peak = [](std::int64_t stage, std::int64_t micro_batches) {
    return engine::read_peak(plan::lower_stage(pipeline(4, 1, micro_batches), stage)).allocated;
  };
  const Bytes each = saved_by_micro_batch(plan::lower_stage(pipeline(4, 1, 8), 1));
  REQUIRE(each > Bytes(0));
  CHECK(peak(1, 8) - peak(2, 8) == each);
  for (const std::int64_t stage : {0, 1, 2}) {
    CAPTURE(stage);
    for (std::int64_t micro_batches = 2; micro_batches <= 8; ++micro_batches) {
      const Bytes more = peak(stage, micro_batches) - peak(stage, micro_batches - 1);
      CHECK(more == (micro_batches <= 4 - stage ? each : Bytes(0)));
    }
  }
}

TEST_CASE("tied embeddings of the first and the last stage are summed", "[plan][pipeline]") {
  Plan plan = pipeline(3, 1, 4);
  plan.model.vocabulary = 50;
  plan.model.tied_embeddings = true;
  for (const std::int64_t stage : {0, 1, 2}) {
    const ledger::ByteLedger bytes =
        engine::read_bytes(plan::lower_stage(plan, stage), test::kOneNode);
    const std::int64_t table = 50 * 64 * 4;  // V h, fp32
    CHECK(bytes.sent_by_collective[ledger::index(CollectiveKind::all_reduce)] ==
          Bytes(stage == 1 ? 0 : table));
  }
}

TEST_CASE("operations and parameters of the stages are those of the model", "[plan][pipeline]") {
  const auto parameters = [](const Program& program) {
    std::int64_t elements = 0;
    for (const program::Tensor& tensor : program.tensors()) {
      if (tensor.role == program::Role::parameter && tensor.resident) {
        elements += program.resident_instances(tensor) * tensor.local_elements.value();
      }
    }
    return elements;
  };
  Plan plan = pipeline(4, 2, 4);
  plan.model.vocabulary = 50;
  plan.chunk_layers = {2, 1, 3, 2, 2, 1, 3, 2};
  std::int64_t elements = 0;
  double flops = 0;
  for (const Program& stage : plan::lower_stages(plan)) {
    elements += parameters(stage);
    flops += engine::read_flops(stage).model.value();
  }
  plan.pipeline_degree = 1;
  plan.virtual_stages = 1;
  plan.schedule = PipelineSchedule::none;
  plan.chunk_layers.clear();
  const Program whole = plan::lower(plan);
  CHECK(elements == parameters(whole));
  CHECK(flops == Approx(engine::read_flops(whole).model.value()).epsilon(1e-12));
}

TEST_CASE("the closed form of a pipeline is the event engine's", "[plan][pipeline]") {
  const std::int64_t chunks = GENERATE(1, 2);
  const std::int64_t micro_batches = GENERATE(3, 9);
  Plan plan = pipeline(3, chunks, micro_batches);
  plan.model.vocabulary = 50;
  plan.model.tied_embeddings = true;
  plan.clip_gradients = true;
  plan.chunk_layers.assign(static_cast<std::size_t>(plan.chunks()), 2);
  plan.chunk_layers[1] = 4;
  plan.model.layers = 2 * plan.chunks() + 2;
  const engine::Machine machine = machine_with_messages();
  const std::vector<Program> stages = plan::lower_stages(plan);
  const auto analytic = engine::read_time(stages, machine);
  const auto event = engine::simulate(engine::Schedule(stages), machine);
  REQUIRE(analytic.has_value());
  REQUIRE(event.has_value());
  CHECK(analytic->step.value() == Approx(event->time.step.value()).epsilon(1e-12));
  CHECK(analytic->pipeline_bubble.value() ==
        Approx(event->time.pipeline_bubble.value()).epsilon(1e-9));
  for (const ledger::TimeLedger* time : {&*analytic, &event->time}) {
    CHECK((time->compute_busy + time->exposed_communication + time->pipeline_bubble +
           time->exposed_host_copy + time->exposed_launch)
              .value() == Approx(time->step.value()).epsilon(1e-9));
  }
}

TEST_CASE("ranks of a stage are one class of the event engine", "[plan][pipeline]") {
  Plan plan = pipeline(4, 1, 6);
  plan.data_degree = 2;
  const std::vector<Program> stages = plan::lower_stages(plan);
  const engine::Schedule schedule(stages);
  const engine::Machine machine = machine_with_messages();
  const auto folded = engine::simulate(schedule, machine);
  engine::EventOptions unfolded;
  unfolded.unfolded = true;
  const auto all = engine::simulate(schedule, machine, unfolded);
  CHECK(folded->classes == 4);
  CHECK(all->classes == 8);
  CHECK(all->time.step.value() == Approx(folded->time.step.value()).epsilon(1e-12));
}

// All ranks sum the norm in one collective, so that stages without experts are in the group of
// those with them.
TEST_CASE("stages without experts sum the norm over the ranks of experts", "[plan][pipeline]") {
  Plan plan = pipeline(3, 1, 2);
  plan.model.experts = config::Experts{};
  plan.model.experts->count = 4;
  plan.model.experts->per_token = 1;
  plan.model.experts->width = 8;
  plan.model.experts->dense_layers = 2;  // the first stage's
  plan.data_degree = 2;
  plan.expert_degree = 2;
  plan.clip_gradients = true;
  const std::vector<Program> stages = plan::lower_stages(plan);
  for (const Program& stage : stages) {
    std::int64_t found = 0;
    for (const program::Op& op : stage.ops()) {
      if (program::communicates(op) && op.component == Component::clipping) {
        CHECK(stage.mesh().group_size(op.group) == 3 * 2);
        ++found;
      }
    }
    CHECK(found == 1);
  }
  CHECK(engine::simulate(engine::Schedule(stages), machine_with_messages()).has_value());
}

TEST_CASE("degrees that do not fit a pipeline are refused, not fallen over", "[plan][pipeline]") {
  const auto rules = [](const std::string& sequence, const std::string& keys, int nodes = 4) {
    const config::StudySpec study = test::study_of(
                                        "version: 1\n"
                                        "model: {use: mixtral-8x7b-v0.1}\n"
                                        "cluster: {use: h100-8x-nvlink, nodes: " +
                                        std::to_string(nodes) +
                                        "}\n"
                                        "workload: {sequence: " +
                                        sequence +
                                        "}\n"
                                        "plans:\n  - {name: p, " +
                                        keys + "}\n")
                                        .base();
    std::vector<std::string> names;
    for (const Refusal& refusal : plan::resolve(study, study.plans.front()).feasibility.refusals) {
      names.push_back(refusal.rule);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(rules("8K", "ulysses: 2, pipeline: 2, expert_parallel: 8").empty());
  // Experts are taken from the ranks of one stage: 32 GPUs in 8 stages are 4.
  CHECK(rules("8K", "pipeline: 8, expert_parallel: 8") == Names{"expert-ranks"});
  CHECK(rules("8K", "pipeline: 8, expert_parallel: 8, placement: [pipeline, data]") ==
        Names{"expert-ranks"});
  // 12 data-parallel and sequence ranks inside a pipeline fill one node and a half.
  CHECK(rules("8K", "ulysses: 4, pipeline: 2", 3) == Names{"groups-fill-nodes"});
  CHECK(rules("8K", "ulysses: 4", 3).empty());
  // A sequence that the ring's ranks do not divide.
  CHECK(rules("6", "ulysses: 2, ring: 2, pipeline: 2") ==
        Names{"sequence-divides", "context-parallel-halves", "not-modelled"});
}

TEST_CASE("a ring and an exchange have places beside a pipeline", "[plan][pipeline]") {
  const config::StudySpec study =
      test::study_of(
          "version: 1\n"
          "model: {use: ulysses-study-8-layer}\n"
          "cluster: {use: h100-8x-nvlink, nodes: 4}\n"
          "workload: {sequence: 8K}\n"
          "plans:\n  - {name: p, tensor_parallel: 2, ulysses: 2, ring: 2, pipeline: 2, "
          "placement: [tensor, pipeline, exchange, data, ring]}\n")
          .base();
  const plan::Resolution resolution = plan::resolve(study, study.plans.front());
  REQUIRE(resolution.feasibility.legal());
  CHECK(resolution.plan.data_degree == 2);
  CHECK(resolution.plan.ranks() == 32);
  const std::vector<Program> stages = plan::lower_stages(resolution.plan);
  const program::Mesh& mesh = stages.front().mesh();
  CHECK(mesh.stride(plan::kGroupAxis) == 1);
  CHECK(mesh.stride(plan::kPipelineAxis) == 2);
  CHECK(mesh.stride(plan::kExchangeAxis) == 4);
  CHECK(mesh.stride(plan::kDataAxis) == 8);
  CHECK(mesh.stride(plan::kRingAxis) == 16);
  CHECK(messages_of(stages[0]) > Bytes(0));
}

}  // namespace trireme
