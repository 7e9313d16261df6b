#include "sim/study/evaluate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <variant>

#include "sim/report/study_tables.h"
#include "sim/study/explain.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::study {
namespace {

/// One layer of the reference model, S tokens, on 8 H100.
std::string one_layer(const std::string& sequence, const std::string& plans) {
  return "version: 1\n"
         "model: {use: ulysses-study-8-layer, layers: 1}\n"
         "cluster: h100-8x-nvlink\n"
         "workload: {sequence: " +
         sequence + "}\nplans:\n" + plans;
}

TEST_CASE("a legal plan has every number", "[unit]") {
  const config::StudyFile file =
      test::study_of(one_layer("8K", "  - {name: m, tensor_parallel: {degree: 8}}\n"));
  const auto rows = evaluate(file.base());
  REQUIRE(rows.size() == 1);
  const ledger::PlanResult& row = rows.front();
  CHECK(row.plan == "m");
  CHECK(row.verdict == ledger::Verdict::fits);
  CHECK(row.capacity == file.base().cluster.gpu.memory_visible);
  REQUIRE(row.numbers.has_value());
  // N = 8192 x 6144 x 2 bytes = 96 MiB; 5 N 7/8 for attention and again for the MLP: 840 MiB.
  const auto& sent = row.numbers->bytes.sent_by_traffic[ledger::index(Traffic::activations)];
  CHECK(sent[ledger::index(Component::attention)] == Bytes(420 * 1048576LL));
  CHECK(sent[ledger::index(Component::mlp)] == Bytes(420 * 1048576LL));
  REQUIRE(row.numbers->step.has_value());
  const ledger::StepResult& step = *row.numbers->step;
  // 8192 tokens on 8 GPUs: 1024 tokens a GPU and step.
  CHECK(step.tokens_per_second_per_gpu * step.time.step.value() == Approx(1024));
  CHECK(step.mfu < step.mfu_full_attention);
  CHECK(step.mfu < step.hfu);
  CHECK(step.hfu < 1);
}

/// The H100 node with an all-gather whose link rate is `rate`; one layer under Megatron.
config::StudySpec with_all_gather_at(const std::string& rate) {
  return test::study_of(
             "version: 1\n"
             "model: {use: ulysses-study-8-layer, layers: 1}\n"
             "cluster: {use: h100-8x-nvlink, profile: {use: h100-sxm-public, collectives: "
             "{all_gather: {beta: {value: " +
             rate +
             ", source: doctored}, c: {value: 0 us, source: doctored}, gamma: {value: 9000 GB/s, "
             "source: doctored}}}}}\n"
             "workload: {sequence: 8K}\n"
             "plans:\n  - {name: m, use: megatron-sp}\n")
      .base();
}

TEST_CASE("a profile that is faster than the links is reported, and the links' time used",
          "[unit]") {
  for (const ledger::Engine engine : {ledger::Engine::analytic, ledger::Engine::event}) {
    const config::StudySpec as_measured = with_all_gather_at("400 GB/s");
    const config::StudySpec too_fast = with_all_gather_at("4000 GB/s");
    const ledger::PlanResult honest = evaluate(as_measured, as_measured.plans.front(), engine);
    const ledger::PlanResult doctored = evaluate(too_fast, too_fast.plans.front(), engine);
    const auto told = [](const ledger::PlanResult& row) {
      return std::count_if(row.reasons.begin(), row.reasons.end(), [](const std::string& reason) {
        return reason.find("faster than the links allow: all_gather of") != std::string::npos;
      });
    };
    CHECK(told(honest) == 0);
    CHECK(told(doctored) == 1);
    // N = 96 MiB: 84 MiB into a GPU at 450 GB/s, of 5 all-gathers: attention's and the MLP's,
    // forward, backward and for the weights' gradients.
    const auto all_gather = [](const ledger::PlanResult& row) {
      return row.numbers->step->time.busy_by_collective[ledger::index(CollectiveKind::all_gather)];
    };
    const double each = 84 * 1048576 / 450e9;
    const double count = all_gather(doctored).value() / each;
    CHECK(count == Approx(std::round(count)).epsilon(1e-9));
    CHECK(all_gather(doctored) < all_gather(honest));
  }
}

TEST_CASE("explain shows the links' bound where it is used", "[unit]") {
  const config::StudySpec too_fast = with_all_gather_at("4000 GB/s");
  const ledger::Explanation explained = explain(too_fast, too_fast.plans.front(), std::nullopt);
  int bounded = 0;
  for (const ledger::Term& term : explained.terms) {
    if (term.quantity != ledger::TermQuantity::seconds || term.equation != "least-seconds") {
      continue;
    }
    ++bounded;
    CHECK(term.collective == "all_gather");
    // 7/8 of 96 MiB into a GPU at 450 GB/s.
    CHECK(std::get<double>(term.value) ==
          Approx(static_cast<double>(term.count) * 84 * 1048576 / 450e9).epsilon(1e-9));
  }
  CHECK(bounded > 0);
}

TEST_CASE("an illegal plan is a row with reasons and without numbers", "[unit]") {
  const config::StudyFile file = test::study_of(
      one_layer("8K", "  - {name: u, ulysses: 5}\n  - {name: m, use: megatron-sp}\n"));
  const auto rows = evaluate(file.base());
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].verdict == ledger::Verdict::illegal);
  CHECK_FALSE(rows[0].reasons.empty());
  CHECK_FALSE(rows[0].numbers.has_value());
  CHECK(rows[1].verdict == ledger::Verdict::fits);
}

TEST_CASE("a sweep names every model, cluster and profile of its rows", "[unit]") {
  const config::StudyFile file = test::study_of(
      "version: 1\n"
      "model: llama-2-7b\n"
      "cluster: a100-8x-nvlink\n"
      "workload: {sequence: 8K}\n"
      "plans: [{name: m, use: megatron-sp}]\n"
      "sweep: {model: [llama-2-7b, llama-3.1-8b], cluster: [h100-8x-nvlink, h200-8x-nvlink]}\n");
  const ledger::StudyResult result = sweep(file, "", [](std::size_t, std::size_t) {});
  CHECK(result.rows.size() == 4);
  CHECK(result.model == "llama-2-7b, llama-3.1-8b");
  CHECK(result.cluster == "h100-8x-nvlink, h200-8x-nvlink");  // not the base's, which no row has
  CHECK(result.profile == "h100-sxm-public, h200-sxm-public");
}

TEST_CASE("a context beyond the learned positions is said to need a longer table", "[unit]") {
  const auto reasons = [](const std::string& sequence) {
    const config::StudyFile file = test::study_of(
        "version: 1\nmodel: {use: gpt3-175b, layers: 1}\ncluster: h100-8x-nvlink\n"
        "workload: {sequence: " +
        sequence + "}\nplans: [{name: m, use: megatron-sp}]\n");
    return evaluate(file.base()).front().reasons;
  };
  const auto mentions_positions = [](const std::string& reason) {
    return reason.find("learned positions for 2048 tokens") != std::string::npos;
  };
  const auto longer = reasons("4K");
  const auto as_learned = reasons("2K");
  CHECK(std::any_of(longer.begin(), longer.end(), mentions_positions));
  CHECK(std::none_of(as_learned.begin(), as_learned.end(), mentions_positions));
}

TEST_CASE("a plan that does not fit says how much it needs", "[unit]") {
  const config::StudyFile file =
      test::study_of(one_layer("8M", "  - {name: m, use: megatron-sp}\n"));
  const auto rows = evaluate(file.base());
  CHECK(rows.front().verdict == ledger::Verdict::does_not_fit);
  REQUIRE(rows.front().numbers.has_value());
  CHECK(rows.front().numbers->memory.allocated > rows.front().capacity);
  const std::vector<std::string> reasons = report::reasons_of(rows.front());
  REQUIRE_FALSE(reasons.empty());
  CHECK(reasons.front().find("of 79.20 GiB") != std::string::npos);
}

TEST_CASE("a step time that the profile does not know is absent with the reason", "[unit]") {
  // The public profile knows no backward of flash2 at head dimension 256.
  const config::StudyFile file = test::study_of(
      "version: 1\n"
      "model: {use: ulysses-study-8-layer, layers: 1, attention: {heads: 24, kv_heads: 24, "
      "head_dim: 256}}\n"
      "cluster: h100-8x-nvlink\nworkload: {sequence: 8K}\n"
      "plans:\n  - {name: m, use: megatron-sp}\n");
  const auto rows = evaluate(file.base());
  REQUIRE(rows.front().numbers.has_value());
  CHECK_FALSE(rows.front().numbers->step.has_value());
  CHECK(rows.front().reasons.back().find("attention_backward") != std::string::npos);
}

TEST_CASE("a named framework is told that memory is generic", "[unit]") {
  const config::StudyFile file =
      test::study_of(one_layer("8K", "  - {name: m, use: megatron-sp, framework: verl}\n"));
  const auto rows = evaluate(file.base());
  CHECK(std::any_of(rows.front().reasons.begin(), rows.front().reasons.end(), [](const auto& r) {
    return r.find("framework verl") != std::string::npos;
  }));
}

TEST_CASE("a sweep has a row per point and plan, and goes on after an illegal one", "[unit]") {
  const std::string text =
      one_layer("8K", "  - {name: m, use: megatron-sp}\n  - {name: u, use: ulysses}\n") +
      "sweep: {workload.sequence: [8K, 8193, 16K]}\n";
  const config::StudyFile file = test::study_of(text);
  std::size_t called = 0;
  const ledger::StudyResult result = sweep(file, "", [&](std::size_t done, std::size_t all) {
    CHECK(done == ++called);
    CHECK(all == 3);
  });
  CHECK(called == 3);
  REQUIRE(result.rows.size() == 6);
  CHECK(result.rows[0].verdict == ledger::Verdict::fits);
  CHECK(result.rows[2].verdict == ledger::Verdict::illegal);  // 8193 tokens over 8 ranks
  CHECK(result.rows[4].verdict == ledger::Verdict::fits);
  CHECK(result.rows[5].plan == "u");
  CHECK(sweep(file, "u", [](std::size_t, std::size_t) {}).rows.size() == 3);
}

TEST_CASE("a plan that the study has not is refused with the nearest", "[unit]") {
  const config::StudyFile file =
      test::study_of(one_layer("8K", "  - {name: hybrid, use: hybrid}\n"));
  try {
    static_cast<void>(find_plan(file.base(), "hybrd"));
    FAIL("the plan was found");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::command_line);
    CHECK(error.hint() == "did you mean 'hybrid'?");
  }
}

}  // namespace
}  // namespace trireme::study
