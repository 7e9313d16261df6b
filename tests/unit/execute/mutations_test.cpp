// Deliberate faults in programs and in the network: each is refused by the builder or caught by
// verify, with a message that names plan, operation and tensor.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/plan/lower.h"
#include "sim/plan/step.h"
#include "sim/program/builder.h"
#include "sim/study/verify.h"
#include "tests/catch.h"
#include "tests/support/program_editor.h"

namespace trireme {
namespace {

using plan::AttentionLowering;
using plan::MlpLowering;
using plan::Plan;
using program::AxisMask;
using program::Operand;
using program::OpId;
using program::Placement;
using program::Program;
using program::ProgramEditor;
using program::TensorId;

Plan small_plan(const char* name) {
  Plan plan;
  plan.name = name;
  plan.group_degree = 2;
  plan.model.layers = 2;
  plan.model.hidden = 7;
  plan.model.heads = 4;
  plan.model.kv_heads = 2;
  plan.model.head_dim = 4;
  plan.model.mlp_width = 6;
  plan.model.vocabulary = 37;
  plan.sequence = 6;
  plan.micro_batches = 2;
  return plan;
}

Plan ulysses() {
  return small_plan("uly");
}

Plan ulysses_zero(std::int64_t stage) {
  Plan plan = small_plan("uly-zero");
  plan.zero_stage = stage;
  return plan;
}

Plan megatron() {
  Plan plan = small_plan("meg");
  plan.attention = AttentionLowering::megatron;
  plan.mlp = MlpLowering::megatron;
  plan.loss = config::LossKind::vocabulary_parallel;
  plan.model.vocabulary = 128 + 37;
  return plan;
}

Plan data_parallel() {
  Plan plan = small_plan("dp");
  plan.group_degree = 1;
  plan.data_degree = 2;
  return plan;
}

/// A program of `plan` that is executed with a fault, while its ledgers are those without.
struct Fault {
  const char* what;
  Plan plan;
  std::function<Program(ProgramEditor&&)> inject;
  std::vector<std::string> says;  // together, in one message
};

ledger::PlanVerification executed_with(const Plan& plan,
                                       const study::Lowering& lowering,
                                       const study::RunRanks& run) {
  study::VerifyOptions options;
  return study::verify_small_plan(plan, plan.ranks(), options, run, lowering);
}

bool says_all(const std::string& message, const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(), [&](const std::string& word) {
    return message.find(word) != std::string::npos;
  });
}

void check_caught(const Fault& fault) {
  const ledger::PlanVerification result = executed_with(
      fault.plan,
      [&](const Plan& plan, std::int64_t stage) {
        return fault.inject(ProgramEditor(plan::lower_stage(plan, stage)));
      },
      study::thread_ranks(std::chrono::seconds(3)));
  CAPTURE(fault.what, fault.says, result.messages);
  CHECK(result.verdict == ledger::VerificationVerdict::differs);
  std::vector<std::string> words = fault.says;
  words.push_back("plan '" + fault.plan.name + "'");
  CHECK(std::any_of(result.messages.begin(),
                    result.messages.end(),
                    [&](const std::string& message) { return says_all(message, words); }));
}

/// Operation `op` of the phase is left out.
std::function<Program(ProgramEditor&&)> without(const char* op, Phase phase) {
  return [=](ProgramEditor&& editor) {
    editor.remove_op(editor.find(op, phase));
    return std::move(editor).checked();
  };
}

/// Operands `a` and `b` of an operation change places.
std::function<Program(ProgramEditor&&)> swapped(const char* op,
                                                Phase phase,
                                                std::size_t a,
                                                std::size_t b) {
  return [=](ProgramEditor&& editor) {
    const OpId id = editor.find(op, phase);
    std::swap(editor.operand(id, a).ref, editor.operand(id, b).ref);
    return std::move(editor).checked();
  };
}

/// Changes attributes of an operation.
std::function<Program(ProgramEditor&&)> changed(const char* op,
                                                Phase phase,
                                                const std::function<void(program::Op&)>& change) {
  return [=](ProgramEditor&& editor) {
    change(editor.op(editor.find(op, phase)));
    return std::move(editor).checked();
  };
}

std::vector<Fault> faults_in_collectives() {
  std::vector<Fault> faults;
  faults.push_back(
      {"a reduce-scatter is dropped",
       megatron(),
       without("attention block output", Phase::forward),
       {"'attention output projection'", "'attention block output, partial", "never used"}});
  faults.push_back({"a reduce-scatter is dropped, and its partial input used",
                    megatron(),
                    [](ProgramEditor&& editor) {
                      editor.remove_op(editor.find("attention block output", Phase::forward));
                      editor.redirect(editor.tensor_id("attention block output"),
                                      editor.tensor_id("attention block output, partial"));
                      return std::move(editor).checked();
                    },
                    {"'residual addition'", "'attention block output, partial'"}});
  faults.push_back({"an exchange splits the wrong dimension",
                    ulysses(),
                    changed("qkv, exchanged",
                            Phase::forward,
                            [](program::Op& op) { op.split_dim = program::kBatchDim; }),
                    {"'qkv, exchanged'"}});
  faults.push_back({"a reduce-scatter scatters the wrong dimension",
                    megatron(),
                    [](ProgramEditor&& editor) {
                      const TensorId output = editor.tensor_id("attention block output");
                      editor.tensor(output).layout = editor.tensor(output).layout.with(
                          plan::kGroup, Placement::shard(program::kFeatureDim));
                      return std::move(editor).checked();
                    },
                    {"'attention block output'"}});
  faults.push_back({"the sum of gradients is missing",
                    ulysses(),
                    [](ProgramEditor&& editor) {
                      editor.remove_op(editor.find("reduce gradients", Phase::backward));
                      editor.redirect(editor.tensor_id("qkv weight", "gradient, summed"),
                                      editor.tensor_id("qkv weight", "gradient"));
                      return std::move(editor).checked();
                    },
                    {"'squares of gradients'", "gradient"}});
  faults.push_back({"the sum of gradients is missing, and their layout denies it",
                    data_parallel(),
                    [](ProgramEditor&& editor) {
                      const TensorId gradient = editor.tensor_id("qkv weight", "gradient");
                      editor.tensor(gradient).layout = program::Layout();
                      return std::move(editor).checked();
                    },
                    {"'qkv projection, weight gradient'", "'qkv weight (gradient)'"}});
  faults.push_back({"a sum of gradients takes the largest instead",
                    ulysses(),
                    changed("reduce gradients",
                            Phase::backward,
                            [](program::Op& op) { op.reduction = program::Reduction::max; }),
                    {"'reduce gradients'", "'attention norm weight (gradient)'", "maximum"}});
  faults.push_back({"a gather counted once is done twice",
                    ulysses_zero(3),
                    [](ProgramEditor&& editor) {
                      editor.repeat_op(editor.find("gather parameters", Phase::forward));
                      return std::move(editor).unchecked();
                    },
                    {"'gather parameters'", "the ledger has"}});
  faults.push_back({"updated shards are not gathered: the others' are stale",
                    ulysses_zero(1),
                    without("gather updated parameters", Phase::optimizer),
                    {"'adam'", "'qkv weight'", "differs from the reference"}});
  faults.push_back({"the norm is not summed over ranks",
                    ulysses_zero(2),
                    [](ProgramEditor&& editor) {
                      const OpId sum = editor.find("summed over ranks", Phase::optimizer);
                      const TensorId partial = editor.operand(sum, 0).ref.tensor;
                      const TensorId whole = editor.operand(sum, 1).ref.tensor;
                      editor.remove_op(sum);
                      editor.redirect(whole, partial);
                      return std::move(editor).checked();
                    },
                    {"'adam'", "'gradient norm, squared'"}});
  faults.push_back(
      {"a collective runs over another group",
       data_parallel(),
       changed(
           "reduce gradients", Phase::backward, [](program::Op& op) { op.group = plan::kGroup; }),
       {"'reduce gradients'", "gradient"}});
  return faults;
}

std::vector<Fault> faults_in_products() {
  std::vector<Fault> faults;
  faults.push_back({"keys and values change places",
                    ulysses(),
                    swapped("attention", Phase::forward, 1, 2),
                    {"'residual addition'", "'residual stream'", "differs from the reference"}});
  faults.push_back({"keys of one head are the values of another: the views are swapped",
                    megatron(),
                    [](ProgramEditor&& editor) {
                      std::swap(editor.tensor(editor.tensor_id("k gradient")).slice,
                                editor.tensor(editor.tensor_id("v gradient")).slice);
                      return std::move(editor).checked();
                    },
                    {"'adam'", "'qkv weight", "differs from the reference"}});
  faults.push_back(
      {"queries attend to what follows",
       ulysses(),
       changed("attention", Phase::forward, [](program::Op& op) { op.causal = false; }),
       {"'residual stream'", "differs from the reference"}});
  faults.push_back(
      {"the backward pass of attention is not causal",
       ulysses(),
       changed("attention backward", Phase::backward, [](program::Op& op) { op.causal = false; }),
       {"'adam'", "'qkv weight", "differs from the reference"}});
  faults.push_back({"keys are not rotated",
                    ulysses(),
                    without("rotary embedding of k", Phase::forward),
                    {"'residual stream'", "differs from the reference"}});
  faults.push_back({"gradients of queries are not rotated back",
                    ulysses(),
                    without("rotary embedding of q, backward", Phase::backward),
                    {"'adam'", "'qkv weight", "differs from the reference"}});
  faults.push_back({"a gradient does not pass around a block",
                    megatron(),
                    without("residual gradient", Phase::backward),
                    {"'residual stream gradient'", "differs from the reference"}});
  faults.push_back({"a block reads what the block before it read",
                    ulysses(),
                    [](ProgramEditor&& editor) {
                      const OpId first = editor.find("norm", Phase::forward);
                      OpId second = first + 1;
                      while (editor.op(second).label != "norm") {
                        ++second;
                      }
                      editor.operand(second, 0) = editor.operand(first, 0);
                      return std::move(editor).checked();
                    },
                    {"'residual stream'", "differs from the reference"}});
  faults.push_back({"a layer writes where it read",
                    ulysses(),
                    [](ProgramEditor&& editor) {
                      const TensorId stream = editor.tensor_id("residual stream");
                      for (OpId id = 0; id < editor.program().ops().size(); ++id) {
                        for (std::size_t i = 0; i < editor.op(id).operands; ++i) {
                          Operand& used = editor.operand(id, i);
                          if (used.ref.tensor == stream && used.access == program::Access::write) {
                            used.ref.offset = {};
                          }
                        }
                      }
                      return std::move(editor).checked();
                    },
                    {"'residual addition'", "'residual stream[", "written twice"}});
  faults.push_back(
      {"a bias is added before the sum",
       [] {
         Plan plan = megatron();
         plan.model.qkv_bias = true;
         plan.model.output_bias = true;
         return plan;
       }(),
       [](ProgramEditor&& editor) {
         const OpId product = editor.find("attention output projection", Phase::forward);
         editor.add_operand(product, program::read(editor.tensor_id("attention output bias")), 2);
         return std::move(editor).checked();
       },
       {"'attention output projection'", "'attention block output, partial'"}});
  faults.push_back(
      {"the loss is not a mean over micro batches",
       ulysses(),
       changed("cross entropy, chunk", Phase::forward, [](program::Op& op) { op.scale *= 2; }),
       {"'loss'", "differs from the reference"}});
  faults.push_back({"a chunk of the loss is left out",
                    ulysses(),
                    [](ProgramEditor&& editor) {
                      editor.set_count(editor.find("cross entropy, chunk", Phase::forward), 1);
                      return std::move(editor).unchecked();
                    },
                    {"'loss'", "differs from the reference"}});
  faults.push_back({"the table gets no gradient",
                    ulysses(),
                    without("embedding backward", Phase::backward),
                    {"'residual gradient'", "'residual stream gradient["}});
  return faults;
}

std::vector<Fault> faults_in_the_optimizer() {
  std::vector<Fault> faults;
  faults.push_back({"gradients are not zeroed",
                    ulysses(),
                    without("zero gradients", Phase::optimizer),
                    {"weight gradient'", "weight (gradient)'"}});
  faults.push_back({"a parameter is not updated",
                    ulysses(),
                    [](ProgramEditor&& editor) {
                      const OpId adam = editor.find("adam", Phase::optimizer);
                      editor.remove_operands(adam, 1, 5);  // behind the norm: the first parameter
                      return std::move(editor).checked();
                    },
                    {"'adam'", "'attention norm weight'"}});
  faults.push_back({"gradients are not clipped",
                    ulysses(),
                    [](ProgramEditor&& editor) {
                      editor.remove_operands(editor.find("adam", Phase::optimizer), 0, 1);
                      return std::move(editor).checked();
                    },
                    {"'adam'", "differs from the reference"}});
  faults.push_back({"the norm leaves gradients out",
                    ulysses(),
                    without("squares of gradients", Phase::optimizer),
                    {"'adam'", "differs from the reference"}});
  faults.push_back({"moments change places",
                    ulysses(),
                    swapped("adam", Phase::optimizer, 3, 4),
                    {"'adam'", "moment)'", "differs from the reference"}});
  return faults;
}

std::vector<Fault> faults_in_memory() {
  std::vector<Fault> faults;
  faults.push_back({"a tensor is freed early",
                    ulysses(),
                    [](ProgramEditor&& editor) {
                      editor.move_death(editor.tensor_id("attention input, normed"),
                                        editor.find("qkv projection", Phase::forward),
                                        0);
                      return std::move(editor).unchecked();
                    },
                    {"'qkv projection, weight gradient'", "'attention input, normed"}});
  faults.push_back({"a tensor is freed late",
                    ulysses(),
                    [](ProgramEditor&& editor) {
                      const TensorId late = editor.tensor_id("mlp input, normed");
                      const OpId last = editor.find("residual gradient", Phase::backward);
                      // Held until the attention block's backward pass, where memory is fullest.
                      OpId to = last + 1;
                      while (editor.op(to).label != "residual gradient") {
                        ++to;
                      }
                      editor.move_death(late, to, 0);
                      return std::move(editor).unchecked();
                    },
                    {"operation '", "'mlp input, normed'", "held", "in the ledger"}});
  faults.push_back({"a tensor is never freed",
                    megatron(),
                    [](ProgramEditor&& editor) {
                      editor.remove_death(editor.tensor_id("mlp activation"));
                      return std::move(editor).unchecked();
                    },
                    {"'swiglu'", "'mlp activation", "born twice"}});
  faults.push_back(
      {"a buffer is wider than declared",
       ulysses(),
       [](ProgramEditor&& editor) {
         for (const char* name : {"send buffer of the exchange to heads", "qkv, exchanged"}) {
           editor.tensor(editor.tensor_id(name)).type = ElementType::fp32;
         }
         return std::move(editor).checked();
       },
       {"'qkv, exchanged'", "'send buffer of the exchange to heads'", "the ledger has"}});
  return faults;
}

/// Passes messages on and spoils one.
class FaultyTransport : public engine::Transport {
 public:
  using Spoil = std::function<bool(std::vector<double>& message)>;  // false: the message is lost

  FaultyTransport(engine::Transport& network, Spoil spoil)
      : network_(network), spoil_(std::move(spoil)) {}

  [[nodiscard]] std::int64_t rank() const override { return network_.rank(); }

  [[nodiscard]] std::int64_t ranks() const override { return network_.ranks(); }

  void send(std::int64_t to, std::span<const double> message) override {
    constexpr int kSpoiled = 5;
    std::vector<double> copy(message.begin(), message.end());
    if (++sent_ != kSpoiled || rank() != 0 || spoil_(copy)) {
      network_.send(to, copy);
    }
  }

  void receive(std::int64_t from, std::span<double> message) override {
    network_.receive(from, message);
  }

 private:
  engine::Transport& network_;
  Spoil spoil_;
  int sent_ = 0;
};

ledger::PlanVerification with_faulty_network(const Plan& plan,
                                             const FaultyTransport::Spoil& spoil) {
  const study::RunRanks threads = study::thread_ranks(std::chrono::milliseconds(500));
  return executed_with(
      plan, plan::lower_stage, [&](std::int64_t ranks, const study::RankBody& body) {
        return threads(ranks, [&](std::int64_t rank, engine::Transport& network) {
          FaultyTransport faulty(network, spoil);
          body(rank, faulty);
        });
      });
}

}  // namespace

TEST_CASE("the programs that faults are put into are right", "[execute][mutations]") {
  for (const Plan& plan : {ulysses(),
                           ulysses_zero(1),
                           ulysses_zero(2),
                           ulysses_zero(3),
                           megatron(),
                           data_parallel()}) {
    const ledger::PlanVerification result =
        executed_with(plan, plan::lower_stage, study::thread_ranks());
    CAPTURE(plan.name, result.messages);
    CHECK(result.verdict == ledger::VerificationVerdict::equal);
  }
}

TEST_CASE("faults in collectives are caught", "[execute][mutations]") {
  for (const Fault& fault : faults_in_collectives()) {
    check_caught(fault);
  }
}

TEST_CASE("faults in products and losses are caught", "[execute][mutations]") {
  for (const Fault& fault : faults_in_products()) {
    check_caught(fault);
  }
}

TEST_CASE("faults in the optimizer are caught", "[execute][mutations]") {
  for (const Fault& fault : faults_in_the_optimizer()) {
    check_caught(fault);
  }
}

TEST_CASE("faults in memory are caught", "[execute][mutations]") {
  for (const Fault& fault : faults_in_memory()) {
    check_caught(fault);
  }
}

TEST_CASE("faults of the network are caught", "[execute][mutations]") {
  SECTION("one number of one message is wrong") {
    const ledger::PlanVerification result =
        with_faulty_network(ulysses(), [](std::vector<double>& message) {
          message[0] += 1e-6;
          return true;
        });
    REQUIRE(result.verdict == ledger::VerificationVerdict::differs);
    CHECK(says_all(result.messages.front(), {"plan 'uly'", "operation '", "differs"}));
  }
  SECTION("a message is lost") {
    const ledger::PlanVerification result =
        with_faulty_network(ulysses(), [](std::vector<double>&) { return false; });
    REQUIRE(result.verdict == ledger::VerificationVerdict::differs);
    CHECK(says_all(result.messages.front(), {"plan 'uly'", "rank"}));
  }
  SECTION("a message is cut short") {
    const ledger::PlanVerification result =
        with_faulty_network(ulysses(), [](std::vector<double>& message) {
          message.pop_back();
          return true;
        });
    REQUIRE(result.verdict == ledger::VerificationVerdict::differs);
    CHECK(says_all(result.messages.front(), {"plan 'uly'", "operation '", "elements"}));
  }
}

}  // namespace trireme
