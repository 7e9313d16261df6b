// Which collectives a framework hides behind products.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

using namespace test;

std::vector<std::string> asynchronous(const plan::Plan& plan) {
  const program::Program program = plan::lower(plan);
  std::vector<std::string> labels;
  for (const program::Op& op : program.ops()) {
    if (op.function == program::Function::collective && !op.blocking) {
      labels.emplace_back(op.label);
    }
  }
  return labels;
}

TEST_CASE("Megatron Core hides two of a block's five collectives", "[plan]") {
  plan::Plan plan = megatron(gelu_model(1, 4096, 32), 8, 4096);
  CHECK(asynchronous(plan).empty());  // generic: nothing overlaps
  plan.framework = config::Framework::megatron;
  CHECK(asynchronous(plan) == std::vector<std::string>{"mlp input, gathered again",
                                                       "mlp input gradient",
                                                       "attention input, gathered again",
                                                       "attention input gradient"});
  plan.sequence_sharded = false;  // no gather; the sums are all-reduces
  CHECK(asynchronous(plan) ==
        std::vector<std::string>{"mlp input gradient", "attention input gradient"});
}

TEST_CASE("Ulysses' exchanges are not hidden", "[plan]") {
  plan::Plan plan = ulysses(gelu_model(1, 4096, 32), 8, 4096);
  plan.framework = config::Framework::deepspeed_legacy;
  CHECK(asynchronous(plan).empty());
}

}  // namespace
}  // namespace trireme
