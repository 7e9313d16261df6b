// The routing that verified steps are given.
#include "sim/study/routing.h"

#include <set>

#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme {
namespace {

plan::Plan with_experts(double capacity) {
  plan::Plan plan = test::ulysses(test::llama_8b(3), 2, 12);
  plan.data_degree = 2;
  plan.micro_batches = 2;
  config::Experts experts;
  experts.count = 4;
  experts.per_token = 2;
  experts.dense_layers = 1;
  plan.model.experts = experts;
  plan.expert_capacity = capacity;
  return plan;
}

TEST_CASE("balanced routing gives every expert as many tokens of every rank", "[study]") {
  const study::Routing routing = study::route(with_experts(0), 7, 0);
  REQUIRE(routing.experts.size() == 3);
  CHECK(routing.experts[0].empty());  // a dense layer
  CHECK(routing.experts[1] != routing.experts[2]);
  CHECK(routing.experts[1] == study::route(with_experts(0), 7, 0).experts[1]);
  CHECK(routing.experts[1] != study::route(with_experts(0), 7, 1).experts[1]);
  const std::vector<std::int64_t>& experts = routing.experts[1];
  REQUIRE(experts.size() == 4 * 12 * 2);                // 2 micro batches x 2 sequences
  for (std::size_t source = 0; source < 8; ++source) {  // 6 tokens each
    std::vector<int> count(4, 0);
    for (std::size_t i = 0; i < 12; ++i) {
      ++count[static_cast<std::size_t>(experts[source * 12 + i])];
    }
    CHECK(count == std::vector<int>{3, 3, 3, 3});
  }
  for (std::size_t token = 0; token < experts.size() / 2; ++token) {
    CHECK(experts[2 * token] != experts[2 * token + 1]);
  }
  for (const bool kept : routing.kept[1]) {
    CHECK(kept);
  }
}

TEST_CASE("with a capacity the tokens beyond it are dropped", "[study]") {
  const study::Routing routing = study::route(with_experts(0.5), 7, 0);  // 2 slots of 3 on average
  for (std::size_t source = 0; source < 8; ++source) {
    std::vector<int> kept(4, 0);
    std::vector<int> chosen(4, 0);
    for (std::size_t i = 0; i < 12; ++i) {
      const auto expert = static_cast<std::size_t>(routing.experts[1][source * 12 + i]);
      ++chosen[expert];
      CHECK(routing.kept[1][source * 12 + i] == (chosen[expert] <= 2));
      kept[expert] += routing.kept[1][source * 12 + i] ? 1 : 0;
    }
    for (const int count : kept) {
      CHECK(count <= 2);
    }
  }
}

}  // namespace
}  // namespace trireme
