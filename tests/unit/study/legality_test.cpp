// Legal degrees of published models, framework by framework.
#include "sim/study/legality.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/model.h"
#include "tests/catch.h"

namespace trireme {
namespace {

using Degrees = std::vector<std::int64_t>;

config::ModelSpec preset(const std::string& name) {
  return config::read_model(config::make_text(name, {}), config::Library(config::DataSource{}));
}

ledger::LegalStack stack_of(const std::string& model,
                            const std::string& stack,
                            std::int64_t gpus,
                            std::int64_t tensor_parallel = 1,
                            std::optional<std::int64_t> sequence = std::nullopt) {
  for (const ledger::LegalStack& row :
       study::legal_degrees(preset(model), gpus, tensor_parallel, sequence).stacks) {
    if (row.name == stack) {
      return row;
    }
  }
  FAIL("no stack is named " << stack);
  return {};
}

Degrees legal(const ledger::LegalStack& stack) {
  Degrees degrees;
  for (const ledger::LegalDegree& degree : stack.degrees) {
    if (degree.legal()) {
      degrees.push_back(degree.degree);
    }
  }
  return degrees;
}

const ledger::LegalDegree& degree_of(const ledger::LegalStack& stack, std::int64_t degree) {
  const auto found = std::find_if(stack.degrees.begin(),
                                  stack.degrees.end(),
                                  [&](const ledger::LegalDegree& d) { return d.degree == degree; });
  REQUIRE(found != stack.degrees.end());
  return *found;
}

TEST_CASE("Qwen2.5-14B under verl: 40 query heads and 8 key/value heads", "[study]") {
  const ledger::LegalStack small = stack_of("qwen2.5-14b", "verl", 64);
  CHECK(legal(small) == Degrees{1, 2, 4, 8});
  const ledger::LegalDegree& refused = degree_of(small, 40);
  REQUIRE(refused.refusals.size() == 1);
  CHECK(refused.refusals.front().rule == "degrees-multiply");
  CHECK(refused.refusals.front().message == "64 GPUs are not a multiple of the degree 40");
  CHECK(degree_of(small, 16).refusals.front().message ==
        "the number of query heads (40) is not a multiple of 16");
  CHECK(degree_of(small, 8).conditions == std::vector<std::string>{"S % 8 = 0"});

  const ledger::LegalStack large = stack_of("qwen2.5-14b", "verl", 80);
  CHECK(legal(large) == Degrees{1, 2, 4, 8, 40});
  CHECK(degree_of(large, 40).kv_repeat == 5);
  CHECK(degree_of(large, 8).kv_repeat == 1);
  // 5 divides 40 query heads and 80 GPUs, and neither divides 8 key/value heads nor is divided.
  CHECK(degree_of(large, 5).refusals.front().rule == "ulysses-kv-heads");
}

TEST_CASE("Qwen2.5-7B under verl: 28 query heads and 4 key/value heads", "[study]") {
  CHECK(legal(stack_of("qwen2.5-7b", "verl", 64)) == Degrees{1, 2, 4});
  // 28 ranks: 4 key/value heads, seven times each.
  const ledger::LegalStack stack = stack_of("qwen2.5-7b", "verl", 56);
  CHECK(legal(stack) == Degrees{1, 2, 4, 28});
  CHECK(degree_of(stack, 28).kv_repeat == 7);
  CHECK(legal(stack_of("qwen2.5-7b", "prime_rl", 56)) == Degrees{1, 2, 4});
}

TEST_CASE("Llama-3.1-70B with 8 tensor-parallel ranks has one key/value head a rank", "[study]") {
  const ledger::LegalStack exchange = stack_of("llama-3.1-70b", "megatron a2a", 64, 8);
  CHECK(exchange.tensor_parallel == 8);
  CHECK(legal(exchange) == Degrees{1});
  const ledger::LegalDegree& two = degree_of(exchange, 2);
  REQUIRE(two.refusals.size() == 1);
  CHECK(two.refusals.front().rule == "context-kv-heads");
  CHECK(two.refusals.front().message ==
        "the key/value heads of a tensor-parallel rank (1 of 8) are not a multiple of 2");
  CHECK(legal(stack_of("llama-3.1-70b", "megatron a2a", 64, 4)) == Degrees{1, 2});
  CHECK(legal(stack_of("llama-3.1-70b", "megatron p2p, all_gather", 64, 8)) == Degrees{1, 2, 4, 8});
  CHECK(legal(stack_of("llama-3.1-70b", "megatron a2a+p2p", 64, 8)) == Degrees{1});
  // Without tensor parallelism the exchange takes 2, 4 or 8 of the ranks.
  const ledger::LegalStack both = stack_of("llama-3.1-70b", "megatron a2a+p2p", 16);
  CHECK(legal(both) == Degrees{1, 4, 8, 16});
  CHECK(degree_of(both, 16).remarks ==
        std::vector<std::string>{"hierarchical sizes 2 x 8, 4 x 4, 8 x 2"});
  CHECK(degree_of(both, 2).refusals.front().message == "2 is not a product of two sizes above 1");
}

TEST_CASE("tensor parallelism splits heads, groups and features", "[study]") {
  // 8 groups over 16 ranks are gathered; 32 heads are not a multiple of 64.
  const ledger::LegalStack stack = stack_of("llama-3.1-8b", "megatron tensor_parallel", 64);
  CHECK(legal(stack) == Degrees{1, 2, 4, 8, 16, 32});
  // 128,256 rows are 62.6 times 128 x 16: 63 times is 129,024.
  CHECK(degree_of(stack, 16).remarks ==
        std::vector<std::string>{"QKV gathered: 8 key/value heads over 16 tensor-parallel ranks",
                                 "vocabulary padded from 128256 to 129024 rows"});
  CHECK(degree_of(stack, 2).remarks.empty());  // 128,256 = 501 x 256
  // An illegal degree of tensor parallelism leaves no degree beside it: 40 % 16 = 8.
  CHECK(legal(stack_of("qwen2.5-14b", "megatron p2p, all_gather", 64, 16)).empty());
}

TEST_CASE("DeepSpeed's legacy attention takes uneven heads", "[study]") {
  // GPT-2 has 12 heads: on 8 ranks 4 have two and 4 have one.
  const ledger::LegalStack stack = stack_of("gpt2", "deepspeed_legacy", 16);
  CHECK(legal(stack) == Degrees{1, 2, 4, 8});
  CHECK(degree_of(stack, 8).remarks ==
        std::vector<std::string>{"uneven heads: 2 on 4 ranks, 1 on 4"});
  CHECK(degree_of(stack, 16).refusals.front().message ==
        "the number of query heads (12) is not a multiple of 16");
  CHECK(legal(stack_of("gpt2", "deepspeed", 16)) == Degrees{1, 2, 4});
}

TEST_CASE("a sequence that is stated is checked, one that is not is a condition", "[study]") {
  const auto conditions = [](const std::string& stack, std::int64_t degree, std::int64_t tensor) {
    return degree_of(stack_of("llama-3.1-8b", stack, 64, tensor), degree).conditions;
  };
  CHECK(conditions("deepspeed", 8, 1) == std::vector<std::string>{"S % 8 = 0"});
  CHECK(conditions("deepspeed", 1, 1).empty());
  CHECK(conditions("megatron p2p, all_gather", 8, 1) == std::vector<std::string>{"S % 16 = 0"});
  CHECK(conditions("megatron p2p, all_gather", 8, 2) ==
        std::vector<std::string>{"S % 16 = 0", "S % 16 = 0"});
  CHECK(conditions("megatron p2p, all_gather", 1, 2) == std::vector<std::string>{"S % 2 = 0"});
  CHECK(conditions("pytorch, torchtitan", 8, 2) == std::vector<std::string>{"S % 32 = 0"});

  const auto at = [](const std::string& stack, std::int64_t sequence) {
    return legal(stack_of("llama-3.1-8b", stack, 8, 1, sequence));
  };
  CHECK(at("deepspeed", 1004) == Degrees{1, 2, 4});              // 1004 = 4 x 251
  CHECK(at("megatron p2p, all_gather", 1004) == Degrees{1, 2});  // 2 cp divides: 4
  CHECK(at("pytorch, torchtitan", 1004) == Degrees{1, 2});
  // 1004 / 2 = 502 tokens over 4 tensor-parallel ranks do not divide.
  const ledger::LegalStack ring = stack_of("llama-3.1-8b", "megatron p2p, all_gather", 8, 4, 1004);
  CHECK(legal(ring) == Degrees{1});
  CHECK(degree_of(ring, 2).refusals.front().message ==
        "the sequence of a context-parallel rank (502) is not a multiple of 4");
}

}  // namespace
}  // namespace trireme
