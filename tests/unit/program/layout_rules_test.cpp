#include "sim/program/layout_rules.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/program/builder.h"
#include "tests/catch.h"
#include "tests/unit/program/refusal.h"

namespace trireme::program {
namespace {

// Two ranks; B = 2, S = 4, h = f = 8, V = 8, two groups of two query heads with d = 4.
constexpr std::int64_t kRanks = 2;
const Shape kHidden{{2, "B"}, {4, "S"}, {8, "h"}};
const Shape kWeight{{8, "h"}, {8, "h"}};
const Shape kVector{{8, "h"}};
const Shape kQueries{{2, "B"}, {4, "S"}, {2, "g"}, {2, "a/g"}, {4, "d"}};
const Shape kKeys{{2, "B"}, {4, "S"}, {2, "g"}, {4, "d"}};
const Shape kPerHead{{2, "B"}, {4, "S"}, {2, "g"}, {2, "a/g"}};
const Shape kTokens{{2, "B"}, {4, "S"}};
const Shape kScalar{{1, "1"}};

constexpr Placement kWhole = Placement::replicate();
constexpr Placement kSum = Placement::partial_sum();
constexpr Placement kMax = Placement::partial_max();
constexpr Placement kBatch = Placement::shard(0);
constexpr Placement kSequence = Placement::shard(1);
constexpr Placement kFeatures = Placement::shard(2);
constexpr Placement kRows = Placement::shard(0);     // of a weight: outputs
constexpr Placement kColumns = Placement::shard(1);  // inputs
constexpr Placement kElements = Placement::shard(Placement::kFlat);

struct Part {
  Shape shape;
  Placement placement;
  Access access = Access::read;
};

Part in(const Shape& shape, Placement placement) {
  return {shape, placement, Access::read};
}

Part out(const Shape& shape, Placement placement) {
  return {shape, placement, Access::write};
}

Part inout(const Shape& shape, Placement placement) {
  return {shape, placement, Access::update};
}

/// One combination of placements; `refused` is empty where it is accepted.
struct Case {
  Function function;
  std::vector<Part> parts;
  std::string refused;
};

constexpr const char* kMissingSum =
    "the function is not linear and needs whole values: a reduction is missing";
constexpr const char* kLossMissingSum = "the loss needs whole values: a reduction is missing";

std::string is(int operand, const char* placement, const std::string& why) {
  return fmt::format("tensor 't{}' is {} over 'group': {}", operand, placement, why);
}

// Two source ranks, two experts with two slots each, f = 8, two experts of four for each token.
const Shape kSlots{{2, "R"}, {2, "E"}, {2, "C"}, {8, "h"}};
const Shape kExpertWeight{{2, "E"}, {8, "f"}, {8, "h"}};
const Shape kLogits{{2, "B"}, {4, "S"}, {2, "E"}};
const Shape kChoices{{2, "B"}, {4, "S"}, {2, "k"}};
constexpr Placement kSources = Placement::shard(0);
constexpr Placement kExperts = Placement::shard(1);
constexpr Placement kSlotFeatures = Placement::shard(3);

std::vector<Case> grouped_gemm_cases() {
  const auto product = [](Placement x, Placement weight, Placement y) {
    return std::vector<Part>{in(kSlots, x), in(kExpertWeight, weight), out(kSlots, y)};
  };
  const auto gradient = [](Placement dy, Placement x, Placement weight) {
    return std::vector<Part>{in(kSlots, dy), in(kSlots, x), out(kExpertWeight, weight)};
  };
  const auto f = Function::grouped_gemm_forward;
  const auto i = Function::grouped_gemm_input_gradient;
  const auto w = Function::grouped_gemm_weight_gradient;
  const Placement third = Placement::shard(2);
  return {
      {f, product(kWhole, kWhole, kWhole), ""},
      {f, product(kSources, kWhole, kSources), ""},
      {f, product(kExperts, kRows, kExperts), ""},
      {f, product(kWhole, kColumns, kSlotFeatures), ""},
      {f, product(kSlotFeatures, third, kSum), ""},
      {f,
       product(kSources, kRows, kSources),
       is(0, "sharded along 0", "it does not fit weight 't1', which is sharded along 0")},
      {f, product(kSlotFeatures, third, kWhole), is(2, "replicated", "it should be a partial sum")},
      {i, product(kExperts, kRows, kExperts), ""},
      {i, product(kWhole, third, kSlotFeatures), ""},
      {i, product(kSlotFeatures, kColumns, kSum), ""},
      {i,
       product(kExperts, kWhole, kExperts),
       is(0, "sharded along 1", "it does not fit weight 't1', which is replicated")},
      {w, gradient(kSources, kSources, kSum), ""},
      {w, gradient(kExperts, kExperts, kRows), ""},
      {w, gradient(kSlotFeatures, kWhole, kColumns), ""},
      {w, gradient(kWhole, kSlotFeatures, third), ""},
      {w, gradient(kWhole, kWhole, kWhole), ""},
      {w, gradient(kSources, kSources, kWhole), is(2, "replicated", "it should be a partial sum")},
      {w, gradient(kSources, kExperts, kSum), is(0, "sharded along 0", "it does not fit 't1'")},
  };
}

std::vector<Case> expert_cases() {
  const auto weights = Function::expert_weights;
  const auto d_weights = Function::expert_weights_backward;
  const auto dispatch = Function::dispatch_tokens;
  const auto d_dispatch = Function::dispatch_tokens_backward;
  const auto combine = Function::combine_tokens;
  const auto d_combine = Function::combine_tokens_backward;
  const std::string by_source = is(2, "replicated", "it should be sharded along 0");
  return {
      {Function::select_experts, {in(kLogits, kBatch), out(kChoices, kBatch)}, ""},
      {Function::select_experts,
       {in(kLogits, kSum), out(kChoices, kSum)},
       is(0, "a partial sum", kMissingSum)},
      {weights, {in(kLogits, kSequence), in(kChoices, kSequence), out(kChoices, kSequence)}, ""},
      {weights,
       {in(kLogits, kFeatures), in(kChoices, kWhole), out(kChoices, kWhole)},
       is(0, "sharded along 2", "a router needs whole rows of whole logits")},
      {d_weights,
       {in(kChoices, kBatch), in(kLogits, kBatch), in(kChoices, kBatch), out(kLogits, kBatch)},
       ""},
      {d_weights,
       {in(kChoices, kSum), in(kLogits, kWhole), in(kChoices, kWhole), out(kLogits, kSum)},
       is(0, "a partial sum", "a router needs whole rows of whole logits")},
      {dispatch, {in(kHidden, kSequence), in(kChoices, kSequence), out(kSlots, kSources)}, ""},
      {dispatch, {in(kHidden, kWhole), in(kChoices, kWhole), out(kSlots, kWhole)}, ""},
      {dispatch, {in(kHidden, kSequence), in(kChoices, kSequence), out(kSlots, kWhole)}, by_source},
      {d_dispatch, {in(kSlots, kSources), in(kChoices, kBatch), out(kHidden, kBatch)}, ""},
      {d_dispatch,
       {in(kSlots, kExperts), in(kChoices, kBatch), out(kHidden, kBatch)},
       is(0, "sharded along 1", "it should be sharded along 0")},
      {combine,
       {in(kSlots, kSources), in(kChoices, kBatch), in(kChoices, kBatch), out(kHidden, kBatch)},
       ""},
      {combine,
       {in(kSlots, kSum), in(kChoices, kWhole), in(kChoices, kWhole), out(kHidden, kWhole)},
       is(0, "a partial sum", "it should be replicated")},
      {d_combine,
       {in(kHidden, kBatch),
        in(kSlots, kSources),
        in(kChoices, kBatch),
        in(kChoices, kBatch),
        out(kSlots, kSources),
        out(kChoices, kBatch)},
       ""},
      {d_combine,
       {in(kHidden, kSum),
        in(kSlots, kWhole),
        in(kChoices, kWhole),
        in(kChoices, kWhole),
        out(kSlots, kWhole),
        out(kChoices, kWhole)},
       is(0, "a partial sum", "experts take whole tokens")},
  };
}

std::vector<Case> assembled_key_cases() {
  const Shape shared{{2, "B"}, {4, "S"}, {2, "dr"}};
  const Shape own = kKeys.with(3, {2, "dn"});
  const auto f = Function::assemble_keys;
  const auto b = Function::assemble_keys_backward;
  return {
      {f, {in(own, kBatch), in(shared, kBatch), out(kKeys, kBatch)}, ""},
      {f, {in(own, kFeatures), in(shared, kWhole), out(kKeys, kFeatures)}, ""},
      {f,
       {in(own, kFeatures), in(shared, kFeatures), out(kKeys, kFeatures)},
       is(1, "sharded along 2", "it should be replicated")},
      {b, {in(kKeys, kSequence), out(own, kSequence), out(shared, kSequence)}, ""},
      {b, {in(kKeys, kFeatures), out(own, kFeatures), out(shared, kSum)}, ""},
      {b,
       {in(kKeys, kFeatures), out(own, kFeatures), out(shared, kWhole)},
       is(2, "replicated", "it should be a partial sum")},
  };
}

std::vector<Case> attention_cases() {
  const auto forward = [](Placement q, Placement k, Placement v, Placement o) {
    return std::vector<Part>{
        in(kQueries, q), in(kKeys, k), in(kKeys, v), out(kQueries, o), out(kPerHead, o)};
  };
  const auto backward = [](Placement q, Placement k, Placement dq, Placement dk) {
    return std::vector<Part>{in(kQueries, q),
                             in(kKeys, k),
                             in(kKeys, k),
                             in(kQueries, q),
                             in(kPerHead, q),
                             in(kQueries, q),
                             out(kQueries, dq),
                             out(kKeys, dk),
                             out(kKeys, dk)};
  };
  const auto f = Function::attention_forward;
  const auto b = Function::attention_backward;
  return {
      {f, forward(kWhole, kWhole, kWhole, kWhole), ""},
      {f, forward(kBatch, kBatch, kBatch, kBatch), ""},
      {f, forward(kFeatures, kFeatures, kFeatures, kFeatures), ""},
      {f, forward(kSequence, kWhole, kWhole, kSequence), ""},
      // keys sharded by sequence: a query would not see those of other ranks
      {f,
       forward(kSequence, kSequence, kSequence, kSequence),
       is(1, "sharded along 1", "it should be replicated")},
      {f,
       forward(kWhole, kSequence, kSequence, kWhole),
       is(1, "sharded along 1", "it should be replicated")},
      {f,
       forward(kFeatures, kFeatures, kWhole, kFeatures),
       is(2, "replicated", "it should be sharded along 2")},
      {f, forward(kSum, kSum, kSum, kSum), is(0, "a partial sum", "softmax needs whole values")},
      {f,
       forward(Placement::shard(4), Placement::shard(3), Placement::shard(3), Placement::shard(4)),
       is(0, "sharded along 4", "a score needs every element of a query and its key")},
      {f,
       forward(kFeatures, kFeatures, kFeatures, kWhole),
       is(3, "replicated", "it should be sharded along 2")},
      {b, backward(kWhole, kWhole, kWhole, kWhole), ""},
      {b, backward(kFeatures, kFeatures, kFeatures, kFeatures), ""},
      {b, backward(kSequence, kWhole, kSequence, kSum), ""},
      {b,
       backward(kSequence, kWhole, kSequence, kWhole),
       is(7, "replicated", "it should be a partial sum")},
      {b,
       backward(kSequence, kSequence, kSequence, kSum),
       is(1, "sharded along 1", "it should be replicated")},
  };
}

std::vector<Case> gemm_cases() {
  const auto gemm = [](Placement x, Placement weight, Placement y) {
    return std::vector<Part>{in(kHidden, x), in(kWeight, weight), out(kHidden, y)};
  };
  const auto biased = [](Placement x, Placement weight, Placement bias, Placement y) {
    return std::vector<Part>{
        in(kHidden, x), in(kWeight, weight), in(kVector, bias), out(kHidden, y)};
  };
  const auto gradient = [](Placement dy, Placement x, Placement weight) {
    return std::vector<Part>{in(kHidden, dy), in(kHidden, x), out(kWeight, weight)};
  };
  const auto f = Function::gemm_forward;
  const auto i = Function::gemm_input_gradient;
  const auto w = Function::gemm_weight_gradient;
  return {
      {f, gemm(kWhole, kWhole, kWhole), ""},
      {f, gemm(kSequence, kWhole, kSequence), ""},
      {f, gemm(kBatch, kWhole, kBatch), ""},
      {f, gemm(kSum, kWhole, kSum), ""},  // linear
      {f, gemm(kWhole, kRows, kFeatures), ""},
      {f, gemm(kFeatures, kColumns, kSum), ""},
      {f, biased(kWhole, kRows, kRows, kFeatures), ""},
      {f, biased(kSequence, kWhole, kWhole, kSequence), ""},
      {f,
       gemm(kSequence, kRows, kFeatures),
       is(0, "sharded along 1", "it does not fit weight 't1', which is sharded along 0")},
      {f,
       gemm(kFeatures, kWhole, kWhole),
       is(0, "sharded along 2", "it does not fit weight 't1', which is replicated")},
      {f,
       gemm(kWhole, kElements, kWhole),
       is(0, "replicated", "it does not fit weight 't1', which is sharded by elements")},
      {f, gemm(kFeatures, kColumns, kWhole), is(2, "replicated", "it should be a partial sum")},
      {f,
       biased(kFeatures, kColumns, kWhole, kSum),
       is(3, "a partial sum", "a bias cannot be added before the sum")},
      {f,
       biased(kWhole, kRows, kWhole, kFeatures),
       is(2, "replicated", "it should be sharded along 0")},
      {i, gemm(kFeatures, kRows, kSum), ""},
      {i, gemm(kWhole, kColumns, kFeatures), ""},
      {i, gemm(kSequence, kWhole, kSequence), ""},
      {i, gemm(kFeatures, kRows, kWhole), is(2, "replicated", "it should be a partial sum")},
      {i,
       gemm(kSum, kRows, kSum),
       is(0, "a partial sum", "it does not fit weight 't1', which is sharded along 0")},
      {w, gradient(kWhole, kWhole, kWhole), ""},
      {w, gradient(kSequence, kSequence, kSum), ""},
      {w, gradient(kBatch, kBatch, kSum), ""},
      {w, gradient(kFeatures, kWhole, kRows), ""},
      {w, gradient(kWhole, kFeatures, kColumns), ""},
      {w, gradient(kSum, kWhole, kSum), ""},
      {w,
       gradient(kSequence, kSequence, kWhole),
       is(2, "replicated", "it should be a partial sum")},
      {w,
       gradient(kSequence, kWhole, kSum),
       is(0, "sharded along 1", "it does not fit 't1', which is replicated")},
      {w,
       gradient(kSum, kSum, kSum),
       is(0, "a partial sum", "it does not fit 't1', which is a partial sum")},
  };
}

std::vector<Case> norm_cases() {
  const auto forward = [](Placement x, Placement weight, Placement y) {
    return std::vector<Part>{in(kHidden, x), in(kVector, weight), out(kHidden, y)};
  };
  const auto backward = [](Placement dy, Placement x, Placement dx, Placement dweight) {
    return std::vector<Part>{in(kHidden, dy),
                             in(kHidden, x),
                             in(kVector, kWhole),
                             out(kHidden, dx),
                             out(kVector, dweight),
                             out(kVector, dweight)};
  };
  const auto f = Function::norm_forward;
  const auto b = Function::norm_backward;
  return {
      {f, forward(kWhole, kWhole, kWhole), ""},
      {f, forward(kSequence, kWhole, kSequence), ""},
      {f,
       forward(kSum, kWhole, kSum),
       is(0, "a partial sum", "a norm needs whole rows of whole values")},
      {f,
       forward(kFeatures, kRows, kFeatures),
       is(0, "sharded along 2", "a norm needs whole rows of whole values")},
      {f,
       forward(kWhole, kElements, kWhole),
       is(1, "sharded by elements", "it should be replicated")},
      {b, backward(kWhole, kWhole, kWhole, kWhole), ""},
      {b, backward(kSequence, kSequence, kSequence, kSum), ""},
      {b,
       backward(kSequence, kSequence, kSequence, kWhole),
       is(4, "replicated", "it should be a partial sum")},
      {b,
       backward(kSum, kWhole, kWhole, kWhole),
       is(0, "a partial sum", "it should be replicated")},
  };
}

std::vector<Case> pointwise_cases() {
  std::vector<Case> cases;
  for (const Function function : {Function::gelu, Function::swiglu}) {
    const auto parts = [](Placement x, Placement y) {
      return std::vector<Part>{in(kHidden, x), out(kHidden, y)};
    };
    cases.push_back({function, parts(kFeatures, kFeatures), ""});
    cases.push_back({function, parts(kSequence, kSequence), ""});
    cases.push_back({function, parts(kSum, kSum), is(0, "a partial sum", kMissingSum)});
    cases.push_back(
        {function, parts(kWhole, kFeatures), is(1, "sharded along 2", "it should be replicated")});
  }
  for (const Function function : {Function::gelu_backward, Function::swiglu_backward}) {
    const auto parts = [](Placement dy) {
      return std::vector<Part>{in(kHidden, dy), in(kHidden, kFeatures), out(kHidden, kFeatures)};
    };
    cases.push_back({function, parts(kFeatures), ""});
    cases.push_back({function, parts(kSum), is(0, "a partial sum", kMissingSum)});
  }
  for (const Function function : {Function::rotary, Function::rotary_backward}) {
    cases.push_back({function, {inout(kQueries, kFeatures), inout(kKeys, kFeatures)}, ""});
    cases.push_back({function, {inout(kKeys, kSum)}, ""});  // a rotation is linear
    cases.push_back({function,
                     {inout(kQueries, kFeatures), inout(kKeys, kWhole)},
                     is(1, "replicated", "it should be sharded along 2")});
  }
  for (const Function function : {Function::repeat_heads, Function::sum_repeated_heads}) {
    cases.push_back({function, {in(kKeys, kSum), out(kKeys, kSum)}, ""});
    cases.push_back({function, {in(kKeys, kFeatures), out(kKeys, kFeatures)}, ""});
    cases.push_back({function,
                     {in(kKeys, kSequence), out(kKeys, kFeatures)},
                     is(1, "sharded along 2", "it should be sharded along 1")});
  }
  const auto merged = [](Placement part, Placement whole) {
    return std::vector<Part>{
        in(kQueries, part), in(kPerHead, part), inout(kQueries, whole), inout(kPerHead, whole)};
  };
  const std::vector<Case> merges = {
      {Function::merge_attention, merged(kSequence, kSequence), ""},
      {Function::merge_attention, merged(kSum, kSum), is(0, "a partial sum", kMissingSum)},
      {Function::merge_log_sum_exp, {in(kPerHead, kFeatures), inout(kPerHead, kFeatures)}, ""},
      {Function::merge_log_sum_exp,
       {in(kPerHead, kWhole), inout(kPerHead, kFeatures)},
       is(1, "sharded along 2", "it should be replicated")},
      {Function::correct_output,
       {in(kQueries, kBatch), in(kPerHead, kBatch), in(kPerHead, kBatch), out(kQueries, kBatch)},
       ""},
      {Function::correct_output,
       {in(kQueries, kBatch), in(kPerHead, kBatch), in(kPerHead, kWhole), out(kQueries, kBatch)},
       is(2, "replicated", "it should be sharded along 0")},
  };
  cases.insert(cases.end(), merges.begin(), merges.end());
  for (const Function function : {Function::cast,
                                  Function::copy,
                                  Function::accumulate,
                                  Function::to_host,
                                  Function::to_device}) {
    const auto parts = [](Placement x, Placement y) {
      return std::vector<Part>{in(kHidden, x), inout(kHidden, y)};
    };
    cases.push_back({function, parts(kSum, kSum), ""});
    cases.push_back({function, parts(kElements, kElements), ""});
    cases.push_back(
        {function, parts(kWhole, kSum), is(1, "a partial sum", "it should be replicated")});
  }
  constexpr const char* kNeither =
      "a sum of whole and partial values is neither: a reduction is missing";
  const auto add = Function::add;
  const std::vector<Case> sums = {
      {add, {in(kHidden, kWhole), in(kHidden, kWhole), out(kHidden, kWhole)}, ""},
      {add, {inout(kHidden, kSequence), in(kHidden, kSequence)}, ""},
      {add,
       {in(kHidden, kFeatures),
        in(kHidden, kFeatures),
        in(kVector, kRows),
        out(kHidden, kFeatures)},
       ""},
      {add, {inout(kHidden, kWhole), in(kHidden, kSum)}, is(1, "a partial sum", kNeither)},
      {add,
       {in(kHidden, kSum), in(kHidden, kSum), out(kHidden, kSum)},
       is(0, "a partial sum", kNeither)},
      {add,
       {in(kHidden, kFeatures),
        in(kHidden, kFeatures),
        in(kVector, kWhole),
        out(kHidden, kFeatures)},
       is(2, "replicated", "it should be sharded along 0")},
      {Function::bias_gradient, {in(kHidden, kSequence), out(kVector, kSum)}, ""},
      {Function::bias_gradient, {in(kHidden, kFeatures), out(kVector, kRows)}, ""},
      {Function::bias_gradient, {in(kHidden, kWhole), inout(kVector, kWhole)}, ""},
      {Function::bias_gradient,
       {in(kHidden, kSequence), out(kVector, kWhole)},
       is(1, "replicated", "it should be a partial sum")},
  };
  cases.insert(cases.end(), sums.begin(), sums.end());
  return cases;
}

std::vector<Case> embedding_cases() {
  const auto forward = [](Placement ids, Placement table, Placement x) {
    return std::vector<Part>{in(kTokens, ids), in(kWeight, table), out(kHidden, x)};
  };
  const auto with_positions = [](Placement ids, Placement table, Placement x) {
    return std::vector<Part>{
        in(kTokens, ids), in(kWeight, table), in(kWeight, kWhole), out(kHidden, x)};
  };
  const auto backward = [](Placement ids, Placement dx, Placement table) {
    return std::vector<Part>{in(kTokens, ids), in(kHidden, dx), out(kWeight, table)};
  };
  const auto f = Function::embedding_forward;
  const auto b = Function::embedding_backward;
  return {
      {f, forward(kSequence, kWhole, kSequence), ""},
      {f, forward(kWhole, kRows, kSum), ""},
      {f, with_positions(kSequence, kWhole, kSequence), ""},
      {f, forward(kWhole, kRows, kWhole), is(2, "replicated", "it should be a partial sum")},
      {f,
       forward(kSequence, kRows, kSum),
       is(0, "sharded along 1", "it does not fit table 't1', which is sharded along 0")},
      {f,
       with_positions(kWhole, kRows, kSum),
       is(3, "a partial sum", "positions cannot be added before the sum")},
      {b, backward(kSequence, kSequence, kSum), ""},
      {b, backward(kWhole, kWhole, kRows), ""},
      {b, backward(kWhole, kWhole, kWhole), ""},
      {b,
       backward(kSequence, kSequence, kWhole),
       is(2, "replicated", "it should be a partial sum")},
      {b, backward(kWhole, kSum, kRows), is(1, "a partial sum", "it does not fit the ids")},
  };
}

std::vector<Case> loss_cases() {
  const auto logits_max = [](Placement logits, Placement max) {
    return std::vector<Part>{in(kHidden, logits), out(kTokens, max)};
  };
  const auto statistics = [](Placement max, Placement logits, Placement sum) {
    return std::vector<Part>{in(kTokens, kWhole),
                             in(kTokens, max),
                             inout(kHidden, logits),
                             out(kTokens, sum),
                             out(kTokens, sum)};
  };
  const auto cross_entropy = [](Placement logits, Placement labels, Placement loss) {
    return std::vector<Part>{
        in(kHidden, logits), in(kTokens, labels), out(kHidden, logits), inout(kScalar, loss)};
  };
  const auto backward = [](Placement log_probabilities, Placement labels, Placement dlogits) {
    return std::vector<Part>{
        in(kHidden, log_probabilities), in(kTokens, labels), out(kHidden, dlogits)};
  };
  const auto parallel = [](Placement sum, Placement logits, Placement loss) {
    return std::vector<Part>{
        in(kTokens, sum), in(kTokens, sum), inout(kHidden, logits), inout(kScalar, loss)};
  };
  constexpr const char* kGather = "the loss needs whole rows: a gather is missing";
  const auto in_place = Function::cross_entropy_in_place;
  return {
      {Function::logits_max, logits_max(kWhole, kWhole), ""},
      {Function::logits_max, logits_max(kFeatures, kMax), ""},
      {Function::logits_max,
       logits_max(kFeatures, kSum),
       is(1, "a partial sum", "it should be a partial maximum")},
      {Function::logits_max,
       logits_max(kFeatures, kWhole),
       is(1, "replicated", "it should be a partial maximum")},
      {Function::softmax_statistics, statistics(kWhole, kFeatures, kSum), ""},
      {Function::softmax_statistics,
       statistics(kMax, kFeatures, kSum),
       is(1, "a partial maximum", kLossMissingSum)},
      {Function::softmax_statistics,
       statistics(kWhole, kFeatures, kMax),
       is(3, "a partial maximum", "it should be a partial sum")},
      {Function::shard_statistics,
       {in(kHidden, kFeatures), in(kTokens, kWhole), out(kHidden, kFeatures)},
       ""},
      {Function::shard_statistics,
       {in(kHidden, kSum), in(kTokens, kWhole), out(kHidden, kFeatures)},
       is(0, "a partial sum", kLossMissingSum)},
      {Function::shard_statistics,
       {in(kHidden, kFeatures), in(kTokens, kWhole), out(kHidden, kWhole)},
       is(2, "replicated", "it should be sharded along 2")},
      {Function::cross_entropy, cross_entropy(kWhole, kWhole, kWhole), ""},
      {Function::cross_entropy, cross_entropy(kSequence, kSequence, kSum), ""},
      {Function::cross_entropy,
       cross_entropy(kSum, kWhole, kWhole),
       is(0, "a partial sum", kLossMissingSum)},
      {Function::cross_entropy,
       cross_entropy(kFeatures, kWhole, kWhole),
       is(0, "sharded along 2", kGather)},
      {Function::cross_entropy,
       cross_entropy(kSequence, kSequence, kWhole),
       is(3, "replicated", "it should be a partial sum")},
      {Function::cross_entropy_backward, backward(kSequence, kSequence, kSequence), ""},
      {Function::cross_entropy_backward,
       backward(kSequence, kWhole, kSequence),
       is(1, "replicated", "it should be sharded along 1")},
      {in_place, cross_entropy(kSequence, kSequence, kSum), ""},
      {in_place,
       {in(kHidden, kFeatures),
        in(kTokens, kWhole),
        in(kHidden, kWhole),
        out(kHidden, kFeatures),
        inout(kScalar, kWhole)},
       ""},
      {in_place, cross_entropy(kFeatures, kWhole, kWhole), is(0, "sharded along 2", kGather)},
      {Function::parallel_cross_entropy, parallel(kWhole, kFeatures, kWhole), ""},
      {Function::parallel_cross_entropy,
       parallel(kSum, kFeatures, kWhole),
       is(0, "a partial sum", kLossMissingSum)},
      {Function::parallel_cross_entropy_backward, backward(kFeatures, kWhole, kFeatures), ""},
      {Function::parallel_cross_entropy_backward,
       backward(kFeatures, kWhole, kWhole),
       is(2, "replicated", "it should be sharded along 2")},
      {Function::half_square_loss,
       {in(kHidden, kSequence), out(kHidden, kSequence), inout(kScalar, kSum)},
       ""},
      {Function::half_square_loss,
       {in(kHidden, kSum), out(kHidden, kSum), inout(kScalar, kWhole)},
       is(0, "a partial sum", kLossMissingSum)},
      {Function::half_square_loss,
       {in(kHidden, kFeatures), out(kHidden, kFeatures), inout(kScalar, kWhole)},
       is(0, "sharded along 2", kGather)},
  };
}

std::vector<Case> optimizer_cases() {
  const auto adam = [](Placement gradient, Placement state) {
    return std::vector<Part>{in(kScalar, kWhole),
                             in(kWeight, gradient),
                             inout(kWeight, state),
                             inout(kWeight, state),
                             inout(kWeight, state),
                             inout(kWeight, state)};
  };
  return {
      {Function::square_sum, {in(kWeight, kWhole), inout(kScalar, kWhole)}, ""},
      {Function::square_sum, {in(kWeight, kRows), in(kVector, kWhole), inout(kScalar, kSum)}, ""},
      {Function::square_sum,
       {in(kWeight, kSum), inout(kScalar, kSum)},
       is(0, "a partial sum", "a norm needs whole gradients: a reduction is missing")},
      {Function::square_sum,
       {in(kWeight, kRows), inout(kScalar, kWhole)},
       is(1, "replicated", "gradient 't0' is sharded, so the sum of squares is partial")},
      {Function::adam, adam(kWhole, kWhole), ""},
      {Function::adam, adam(kElements, kElements), ""},
      {Function::adam,
       adam(kSum, kSum),
       is(1, "a partial sum", "the optimizer needs whole gradients: a reduction is missing")},
      {Function::adam,
       adam(kWhole, kElements),
       is(2, "sharded by elements", "it should be replicated")},
  };
}

std::vector<Case> shared_heads_cases() {
  const auto take = [](Placement packed, Placement q, Placement k) {
    return std::vector<Part>{in(kQueries, packed), out(kQueries, q), out(kKeys, k), out(kKeys, k)};
  };
  const auto back = [](Placement q, Placement k, Placement packed) {
    return std::vector<Part>{in(kQueries, q), in(kKeys, k), in(kKeys, k), out(kQueries, packed)};
  };
  const auto t = Function::take_heads;
  const auto r = Function::return_heads;
  return {
      {t, take(kWhole, kFeatures, kFeatures), ""},
      {t, take(kBatch, kBatch, kBatch), ""},
      {t, take(kWhole, kFeatures, kWhole), is(2, "replicated", "it should be sharded along 2")},
      {t,
       take(kSum, kFeatures, kFeatures),
       is(0, "a partial sum", "attention needs whole values: a reduction is missing")},
      {r, back(kFeatures, kFeatures, kSum), ""},
      {r, back(kBatch, kBatch, kBatch), ""},
      {r, back(kFeatures, kFeatures, kWhole), is(3, "replicated", "it should be a partial sum")},
      {r, back(kFeatures, kWhole, kSum), is(1, "replicated", "it should be sharded along 2")},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& cases : {gemm_cases(),
                            attention_cases(),
                            shared_heads_cases(),
                            grouped_gemm_cases(),
                            expert_cases(),
                            assembled_key_cases(),
                            norm_cases(),
                            pointwise_cases(),
                            embedding_cases(),
                            loss_cases(),
                            optimizer_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

constexpr std::array kNames = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"};

Builder two_ranks() {
  Mesh mesh;
  mesh.add_axis("group", kRanks);
  Builder builder(mesh, {1, 1, 1});
  builder.begin_segment("run");
  return builder;
}

std::string emitted(const Case& row) {
  Builder builder = two_ranks();
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < row.parts.size(); ++i) {
    TensorSpec spec;
    spec.name = kNames.at(i);
    spec.shape = row.parts[i].shape;
    spec.layout = Layout().with(axis_bit(0), row.parts[i].placement);
    operands.push_back({builder.declare(spec), row.parts[i].access});
  }
  return refusal([&] { builder.emit(row.function, "op", operands); });
}

TEST_CASE("layouts: combinations that each function accepts and refuses", "[program]") {
  for (const Case& row : all_cases()) {
    const std::string expected =
        row.refused.empty()
            ? "accepted"
            : fmt::format("operation 'op' ({}): {}", info(row.function).name, row.refused);
    CHECK(emitted(row) == expected);
  }
}

TEST_CASE("layouts: every function has an accepted and a refused combination", "[program]") {
  std::set<Function> accepted;
  std::set<Function> refused;
  for (const Case& row : all_cases()) {
    (row.refused.empty() ? accepted : refused).insert(row.function);
  }
  for (const FunctionInfo& row : function_table()) {
    if (row.rule == LayoutRule::any || row.rule == LayoutRule::collective ||
        row.rule == LayoutRule::place_block || row.rule == LayoutRule::sum_blocks) {
      continue;  // any layout fits; collectives and blocks have tests of their own below
    }
    CAPTURE(row.name);
    CHECK(accepted.count(row.function) == 1);
    CHECK(refused.count(row.function) == 1);
  }
}

TEST_CASE("layouts: an axis of one rank shards nothing", "[program]") {
  Mesh mesh;
  mesh.add_axis("group", 1);
  Builder builder(mesh, {1, 1, 1});
  builder.begin_segment("run");
  TensorSpec spec;
  spec.shape = kHidden;
  spec.layout = Layout().with(axis_bit(0), kSum);
  const TensorId x = builder.declare(spec);
  const TensorId y = builder.declare(spec);
  CHECK(builder.tensor(x).layout[0] == kWhole);
  CHECK(refusal([&] { builder.emit(Function::gelu, "op", {read(x), write(y)}); }) == "accepted");
}

TEST_CASE("operands: every function refuses too few of them", "[program]") {
  for (const FunctionInfo& row : function_table()) {
    Builder builder = two_ranks();
    const std::vector<Operand> none;
    const std::string message = refusal([&] { builder.emit(row.function, "op", none); });
    if (row.function == Function::collective) {
      CHECK(message == "operation 'op': a collective needs a group");
      continue;
    }
    CHECK(message ==
          fmt::format("operation 'op' ({}): 0 operands, but it takes {}", row.name, row.operands));
  }
}

TEST_CASE("operands: adam takes five for each parameter", "[program]") {
  Builder builder = two_ranks();
  TensorSpec spec;
  spec.name = "w";
  spec.shape = kWeight;
  const TensorId w = builder.declare(spec);
  const std::vector<Operand> seven(7, update(w));
  CHECK(refusal([&] { builder.emit(Function::adam, "op", seven); }) ==
        "operation 'op' (adam): tensor 'w' is replicated over 'group': each parameter has a "
        "gradient, a master and two moments");
}

TEST_CASE("shapes: a matrix product", "[program]") {
  const Shape wide{{8, "h"}, {16, "f"}};
  const Shape cube{{2, "B"}, {8, "h"}, {8, "h"}};
  const Shape shorter{{2, "B"}, {2, "S"}, {8, "h"}};
  const auto emit = [&](Function function, const Shape& a, const Shape& b, const Shape& c) {
    return emitted({function, {in(a, kWhole), in(b, kWhole), out(c, kWhole)}, ""});
  };
  const auto f = Function::gemm_forward;
  const auto i = Function::gemm_input_gradient;
  const auto w = Function::gemm_weight_gradient;
  // wide is [out 8, in 16]: x must have 16 features
  CHECK(emit(f, kHidden, wide, kHidden) ==
        "operation 'op' (gemm_forward): tensor 't0': its features do not match the weight");
  CHECK(emit(i, kHidden, wide, kHidden) ==
        "operation 'op' (gemm_input_gradient): tensor 't2': its features do not match the weight");
  CHECK(emit(w, kHidden, kHidden, wide) ==
        "operation 'op' (gemm_weight_gradient): tensor 't1': its features do not match the weight");
  CHECK(emit(f, kHidden, cube, kHidden) ==
        "operation 'op' (gemm_forward): tensor 't1': a weight has two dimensions");
  CHECK(emit(f, kHidden, kWeight, shorter) ==
        "operation 'op' (gemm_forward): tensor 't2': its tokens do not match the input");
  CHECK(emit(w, kHidden, shorter, kWeight) ==
        "operation 'op' (gemm_weight_gradient): tensor 't0': its tokens do not match the input");
}

TEST_CASE("shapes: attention", "[program]") {
  const auto emit = [&](const Shape& q, const Shape& k, const Shape& v, const Shape& o) {
    return emitted(
        {Function::attention_forward,
         {in(q, kWhole), in(k, kWhole), in(v, kWhole), out(o, kWhole), out(kPerHead, kWhole)},
         ""});
  };
  const std::string keys = "its sequences, heads or head dimension do not match the queries";
  CHECK(emit(kQueries, kKeys.with(2, {1, "g"}), kKeys, kQueries) ==
        "operation 'op' (attention_forward): tensor 't1': " + keys);
  CHECK(emit(kQueries, kKeys, kKeys.with(1, {2, "S"}), kQueries) ==
        "operation 'op' (attention_forward): tensor 't2': " + keys);
  const Shape wide = kKeys.with(3, {8, "dv"});  // values may have another head dimension
  const std::string values = "it does not have a value for every query";
  CHECK(emit(kQueries, kKeys, wide, kQueries.with(4, {8, "dv"})) == "accepted");
  CHECK(emit(kQueries, kKeys, wide, kQueries) ==
        "operation 'op' (attention_forward): tensor 't3': " + values);
  CHECK(emit(kHidden, kKeys, kKeys, kHidden) ==
        "operation 'op' (attention_forward): tensor 't0': queries have five dimensions");
  CHECK(emit(kQueries, kKeys, kKeys, kKeys) ==
        "operation 'op' (attention_forward): tensor 't3': " + values);
}

/// The message with which a collective from one placement to another is refused.
std::string collective(CollectiveKind kind,
                       Placement from,
                       Placement to,
                       const Shape& to_shape = kHidden,
                       ElementType to_type = ElementType::bf16) {
  Builder builder = two_ranks();
  TensorSpec spec;
  spec.name = "from";
  spec.shape = kHidden;
  spec.layout = Layout().with(axis_bit(0), from);
  const std::array in{read(builder.declare(spec))};
  spec.name = "to";
  spec.shape = to_shape;
  spec.type = to_type;
  spec.layout = Layout().with(axis_bit(0), to);
  const std::array out{write(builder.declare(spec))};
  return refusal([&] { builder.emit_collective(kind, "op", axis_bit(0), in, out); });
}

TEST_CASE("layouts: collectives", "[program]") {
  const auto refused = [](const std::string& why) {
    return "operation 'op' (collective): tensor '" + why;
  };
  using enum CollectiveKind;

  CHECK(collective(all_gather, kSequence, kWhole) == "accepted");
  CHECK(collective(all_gather, kElements, kWhole) == "accepted");
  CHECK(collective(all_gather, kWhole, kWhole) ==
        refused("from' is replicated over 'group': it should be sharded"));
  CHECK(collective(all_gather, kSequence, kFeatures) ==
        refused("to' is sharded along 2 over 'group': it should be replicated"));

  CHECK(collective(reduce_scatter, kSum, kSequence) == "accepted");
  CHECK(collective(reduce_scatter, kWhole, kSequence) ==
        refused("from' is replicated over 'group': it should be a partial sum"));
  CHECK(collective(reduce_scatter, kMax, kSequence) ==
        refused("from' is a partial maximum over 'group': it should be a partial sum"));
  CHECK(collective(reduce_scatter, kSum, kWhole) ==
        refused("to' is replicated over 'group': it should be sharded"));

  CHECK(collective(all_reduce, kSum, kWhole) == "accepted");
  CHECK(collective(all_reduce, kMax, kWhole) == "accepted");
  CHECK(collective(all_reduce, kWhole, kWhole) ==
        refused("from' is replicated over 'group': it should be a partial sum"));
  CHECK(collective(all_reduce, kSum, kSum) ==
        refused("to' is a partial sum over 'group': it should be replicated"));

  CHECK(collective(all_to_all, kSequence, kFeatures) == "accepted");
  CHECK(collective(all_to_all, kSequence, kSequence) ==
        refused("to' is sharded along 1 over 'group': an all-to-all splits another dimension than "
                "it joins"));
  CHECK(collective(all_to_all, kSequence, kWhole) ==
        refused("to' is replicated over 'group': it should be sharded"));
  CHECK(collective(all_to_all, kSum, kFeatures) ==
        refused("from' is a partial sum over 'group': it should be sharded"));

  CHECK(collective(send_recv, kSequence, kSequence) == "accepted");
  CHECK(collective(send_recv, kSequence, kFeatures) ==
        refused("to' is sharded along 2 over 'group': it should be sharded along 1"));

  const std::string unchanged = "a collective changes neither logical shape nor element type";
  CHECK(collective(all_reduce, kSum, kWhole, kVector) == refused("to': " + unchanged));
  CHECK(collective(all_reduce, kSum, kWhole, kHidden, ElementType::fp32) ==
        refused("to': " + unchanged));
}

/// Blocks of one sequence on a ring of two ranks.
class Ring {
 public:
  Ring() : builder(two_ranks()) {}

  TensorId tensor(const Shape& shape, Placement placement, const Block& block = {}) {
    TensorSpec spec;
    spec.name = "t";
    spec.shape = shape;
    spec.layout = Layout().with(axis_bit(0), placement);
    spec.block = block;
    return builder.declare(spec);
  }

  Builder builder;
};

const Shape kBlock{{2, "B"}, {2, "S'"}, {8, "h"}};
constexpr AxisMask kRing = axis_bit(0);

TEST_CASE("blocks: a rank's own tokens are block 0 of every token", "[program]") {
  Ring ring;
  const TensorId own = ring.tensor(kHidden, kSequence);
  const TensorId every = ring.tensor(kHidden, kWhole);
  const auto place = [&](TensorId from, TensorId to) {
    return refusal([&] {
      ring.builder.emit(Function::place_block, "op", {read(from), write(to)});
    });
  };
  CHECK(place(own, ring.builder.declare_block(every, kRing, 0)) == "accepted");
  CHECK(place(own, ring.builder.declare_block(every, kRing, 1)) ==
        "operation 'op' (place_block): tensor 't': it is block 1 of the ring, it should be block 0 "
        "of the ring");
  CHECK(place(own, every) ==
        "operation 'op' (place_block): tensor 't': it is not as large as the first block");
  CHECK(place(ring.tensor(kBlock, kWhole), ring.builder.declare_block(every, kRing, 0)) ==
        "operation 'op' (place_block): tensor 't' is replicated over 'group': it should be sharded "
        "along 1");
}

TEST_CASE("blocks: a hop moves the block by as many ranks", "[program]") {
  Ring ring;
  const TensorId every = ring.tensor(kHidden, kWhole);
  const TensorId zero = ring.builder.declare_block(every, kRing, 0);
  const TensorId one = ring.builder.declare_block(every, kRing, 1);
  CHECK(ring.builder.tensor(every).blocks == 2);
  const auto move = [&](TensorId from, TensorId to, std::int64_t shift) {
    return refusal([&] { ring.builder.emit_hop("op", kRing, from, to, shift); });
  };
  CHECK(move(zero, one, 1) == "accepted");
  CHECK(move(one, zero, 1) == "accepted");  // 1 + 1 is 0 of two
  CHECK(move(one, zero, -1) == "accepted");
  CHECK(move(zero, zero, 1) ==
        "operation 'op' (collective): tensor 't': it is block 0 of the ring, it should be block 1 "
        "of the ring");
  CHECK(move(zero, every, 1) ==
        "operation 'op' (collective): tensor 't': a collective changes neither logical shape nor "
        "element type");
  for (const std::int64_t nowhere : {0, 2, -3}) {
    CHECK(move(zero, one, nowhere) ==
          fmt::format("operation 'op': a hop of {} in a ring of 2 reaches no other rank once",
                      nowhere));
  }
}

TEST_CASE("blocks: operands of one product are the same block", "[program]") {
  Ring ring;
  TensorSpec weight;
  weight.name = "weight";
  weight.role = Role::parameter;
  weight.shape = kWeight;
  const TensorId w = ring.builder.declare(weight);
  const TensorId x = ring.tensor(kHidden, kWhole);
  const TensorId y = ring.tensor(kHidden, kWhole);
  const auto multiply = [&](std::int64_t from, std::int64_t to) {
    const TensorId in = ring.builder.declare_block(x, kRing, from);
    const TensorId out = ring.builder.declare_block(y, kRing, to);
    return refusal([&] {
      ring.builder.emit(Function::gemm_forward, "op", {read(in), read(w), write(out)});
    });
  };
  CHECK(multiply(1, 1) == "accepted");
  CHECK(multiply(0, 1) ==
        "operation 'op' (gemm_forward): tensor 't': it is block 1 of the ring, it should be block "
        "0 of the ring");
}

TEST_CASE("blocks: parts of the own block add up to the own tokens", "[program]") {
  Ring ring;
  const TensorId sum = ring.tensor(kHidden, kSequence);
  const auto add = [&](const Block& first, const Block& second, Placement placement) {
    const TensorId a = ring.tensor(kBlock, kSum, first);
    const TensorId b = ring.tensor(kBlock, placement, second);
    return refusal([&] {
      ring.builder.emit(Function::sum_blocks, "op", {read(a), read(b), write(sum)});
    });
  };
  CHECK(add({kRing, 0}, {kRing, 0}, kSum) == "accepted");
  CHECK(add({kRing, 0}, {kRing, 1}, kSum) ==
        "operation 'op' (sum_blocks): tensor 't': it is block 1 of the ring, it should be block 0 "
        "of the ring");
  CHECK(add({kRing, 0}, {kRing, 0}, kWhole) ==
        "operation 'op' (sum_blocks): tensor 't' is replicated over 'group': it should be a "
        "partial sum");
}

TEST_CASE("blocks: only whole tokens that divide are cut", "[program]") {
  Ring ring;
  const std::string refused = "tensor 't': it cannot be cut into 2 blocks of tokens";
  const auto cut = [&](TensorId tensor) {
    return refusal([&] { static_cast<void>(ring.builder.declare_block(tensor, kRing, 0)); });
  };
  CHECK(cut(ring.tensor({{2, "B"}, {3, "S"}, {8, "h"}}, kWhole)) == refused);
  const TensorId every = ring.tensor(kHidden, kWhole);
  CHECK(cut(ring.builder.declare_block(every, kRing, 0)) == refused);
}

TEST_CASE("layouts: tensors of one collective that are split differently", "[program]") {
  // Queries are exchanged from the sequence to the heads, keys by mistake to the batch.
  Builder builder = two_ranks();
  TensorSpec spec;
  spec.shape = kHidden;
  spec.layout = Layout().with(axis_bit(0), kSequence);
  spec.name = "q";
  const TensorId q = builder.declare(spec);
  spec.name = "k";
  const TensorId k = builder.declare(spec);
  spec.name = "q by head";
  spec.layout = Layout().with(axis_bit(0), kFeatures);
  const TensorId q_by_head = builder.declare(spec);
  spec.name = "k by batch";
  spec.layout = Layout().with(axis_bit(0), kBatch);
  const TensorId k_by_batch = builder.declare(spec);
  const std::array from{read(q), read(k)};
  const std::array to{write(q_by_head), write(k_by_batch)};
  CHECK(refusal([&] {
          builder.emit_collective(CollectiveKind::all_to_all, "op", axis_bit(0), from, to);
        }) ==
        "operation 'op' (collective): tensor 'k by batch' is sharded along 0 over 'group': it "
        "should be sharded along 2");
}

TEST_CASE("layouts: a collective leaves the axes outside its group alone", "[program]") {
  Mesh mesh;
  mesh.add_axis("sequence", 2);
  mesh.add_axis("data", 2);
  Builder builder(mesh, {1, 1, 1});
  builder.begin_segment("run");
  TensorSpec spec;
  spec.shape = kHidden;
  spec.name = "from";
  spec.layout = Layout().with(axis_bit(0), kSequence).with(axis_bit(1), kBatch);
  const std::array in{read(builder.declare(spec))};
  spec.name = "to";
  spec.layout = Layout();
  const std::array out{write(builder.declare(spec))};
  CHECK(refusal([&] {
          builder.emit_collective(CollectiveKind::all_gather, "op", axis_bit(0), in, out);
        }) ==
        "operation 'op' (collective): tensor 'to' is replicated over 'data': it should be sharded "
        "along 0");
}

}  // namespace
}  // namespace trireme::program
