// Data parallelism over a spine that is oversubscribed, by both engines.
#include <string>

#include <fmt/format.h>

#include "sim/study/evaluate.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::study {
namespace {

/// Eight groups of four ranks, one of each GPU of a node, whose sums of gradients leave the node's
/// leaf switch.
config::StudySpec study_with(double oversubscription,
                             const std::string& fabric,
                             const std::string& more = "") {
  return test::study_of(
             fmt::format("version: 1\nmodel: {{use: ulysses-study-8-layer, layers: 2}}\n"
                         "cluster: {{use: h100-8x-nvlink, nodes: 4, fabric: {{kind: {}, "
                         "oversubscription: {}, nodes_per_leaf: 1}}}}\n"
                         "workload: {{sequence: 8K, global_batch: 4}}\nplans:\n"
                         "  - {{name: tp, tensor_parallel: {{degree: 8, sequence: true}}, "
                         "data_parallel: 4, overlap: {{gradients: false}}}}\n{}",
                         fabric,
                         oversubscription,
                         more))
      .base();
}

ledger::ReaderSteps steps(const config::StudySpec& study) {
  const ledger::PlanResult result = evaluate(study, study.plans.front(), ledger::Engine::both);
  REQUIRE(result.numbers.has_value());
  REQUIRE(result.numbers->by_reader.event.has_value());
  return result.numbers->by_reader;
}

double event_step(const config::StudySpec& study) {
  return steps(study).event->step.value();
}

double analytic_step(const config::StudySpec& study) {
  return steps(study).analytic->step.value();
}

TEST_CASE("spine: a step is slower by what the closed form says, and by the groups beside it",
          "[unit]") {
  const std::string alone = "what_if: {contention: off}\n";
  // Each group alone: equal, and slower only where a ring's one NIC is more than the spine has.
  for (const double oversubscription : {1.0, 4.0, 64.0}) {
    CAPTURE(oversubscription);
    const config::StudySpec study = study_with(oversubscription, "leaf_spine", alone);
    CHECK(event_step(study) == Approx(analytic_step(study)).epsilon(1e-12));
  }
  const double wide = event_step(study_with(1, "leaf_spine"));
  CHECK(wide == Approx(analytic_step(study_with(1, "leaf_spine"))).epsilon(1e-12));
  CHECK(analytic_step(study_with(4, "leaf_spine")) == Approx(wide).epsilon(1e-12));
  CHECK(analytic_step(study_with(64, "leaf_spine")) > 1.01 * wide);
  // The eight groups of a node cross its leaf switch together.
  CHECK(event_step(study_with(4, "leaf_spine")) > 1.01 * wide);
  // On rails each has a leaf switch of its own.
  const config::StudySpec rails = study_with(4, "rail_optimised");
  CHECK(event_step(rails) == Approx(analytic_step(rails)).epsilon(1e-12));
  CHECK(analytic_step(rails) > 1.01 * wide);
}

TEST_CASE("spine: eight groups beside each other take eight times one group's part", "[unit]") {
  const auto communication = [](const config::StudySpec& study) {
    return steps(study).event->exposed_by_collective[ledger::index(CollectiveKind::all_reduce)];
  };
  // So narrow that every sum of gradients is bound by the spine, alone and together.
  const config::StudySpec narrow = study_with(4096, "leaf_spine");
  config::StudySpec alone = narrow;
  alone.what_if.contention = false;
  const double together = communication(narrow).value();
  CHECK(together > 4 * communication(alone).value());
  CHECK(together <= 8.001 * communication(alone).value());
}

}  // namespace
}  // namespace trireme::study
