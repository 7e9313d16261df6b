// Layers of stages: by count, and by cost where the last stage has the head.
#include "sim/plan/pipeline_split.h"

#include <vector>

#include "tests/catch.h"
#include "tests/unit/plan/plans.h"

namespace trireme::plan {
namespace {

using Layers = std::vector<std::int64_t>;

TEST_CASE("layers by count differ by one at most", "[plan][pipeline]") {
  CHECK(split_by_count(32, 4) == Layers{8, 8, 8, 8});
  CHECK(split_by_count(10, 4) == Layers{3, 3, 2, 2});
  CHECK(split_by_count(2, 4) == Layers{1, 1, 0, 0});
}

// h 8, a = g = 2, d 4, f 32 of GELU, S 2: 2 (8 4 8 + 2 8 32) + 2 2 8 = 1,568 for a layer and token.
TEST_CASE("layers by cost leave room for the head", "[plan][pipeline]") {
  ModelShape model = test::gelu_model(12, 8, 2);
  CHECK(split_by_cost(model, 2, true, 4) == Layers{3, 3, 3, 3});
  model.vocabulary = 98;  // 2 8 98 = 1,568: the head is as much as one layer
  // 4 + 4 + 3 and 1 with the head: 4; 3 + 3 + 3 and 3 with it: 4. As many at the end as can be.
  CHECK(split_by_cost(model, 2, true, 4) == Layers{3, 3, 3, 3});
  model.vocabulary = 2 * 98;  // 4 + 3 + 3 and 2 with the head as two layers: 4
  CHECK(split_by_cost(model, 2, true, 4) == Layers{4, 3, 3, 2});
  model.vocabulary = 4 * 98;  // 4 + 4 + 3 and 1 with the head: 5; 3 + 3 + 4 and 2: 6
  CHECK(split_by_cost(model, 2, true, 4) == Layers{4, 4, 3, 1});
}

// h 8, a = g = 2, d 4, f 8: 4 2 4 8 + 3 8 8 = 448 for a layer; V 224: 8 224 = 1,792 for the head,
// four layers. 16 layers and the head are 20.
TEST_CASE("layers by cumulated cost end where a share is passed", "[plan][pipeline]") {
  ModelShape model = test::gelu_model(16, 8, 2);
  model.mlp_width = 8;
  model.vocabulary = 224;
  const CumulatedSplit four = split_by_cumulated_cost(model, 4);  // 5 is not above 5, 6 is
  CHECK(four.layers == Layers{6, 5, 5, 0});
  CHECK(four.working == 4);
  const CumulatedSplit eight = split_by_cumulated_cost(model, 8);  // shares of 2.5
  CHECK(eight.layers == Layers{3, 3, 2, 3, 2, 3, 0, 0});
  CHECK(eight.working == 7);
  CHECK(eight.started == 8);  // the loss is behind the head
  const CumulatedSplit sixteen = split_by_cumulated_cost(model, 16);
  CHECK(sixteen.working == 13);
  CHECK(sixteen.started == 15);
}

}  // namespace
}  // namespace trireme::plan
