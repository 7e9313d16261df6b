#include "sim/study/explain.h"

#include <map>
#include <string>
#include <vector>

#include "sim/core/error.h"
#include "sim/study/evaluate.h"
#include "tests/catch.h"
#include "tests/support/study_text.h"

namespace trireme::study {
namespace {

constexpr std::int64_t kMiB = 1048576;

/// Cost-model's goldens: one block of hidden 4096, 32 heads, 32,768 tokens, 8 ranks.
ledger::Explanation explain_golden(const std::string& plan) {
  const config::StudyFile file = test::study_of(
      "version: 1\n"
      "model:\n"
      "  layers: 1\n  hidden: 4096\n"
      "  attention: {heads: 32, kv_heads: 32, head_dim: 128, bias: none, rotary: false}\n"
      "  mlp: {kind: gelu, width: 16384}\n  norm: layernorm\n  vocabulary: none\n"
      "cluster: h100-8x-nvlink\nworkload: {sequence: 32K}\n"
      "plans:\n  - {name: p, " +
      plan + "}\n");
  return explain(file.base(), file.base().plans.front(), std::nullopt);
}

std::int64_t whole(const ledger::Term& term) {
  return std::get<std::int64_t>(term.value);
}

double as_double(const ledger::TermNumber& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number.value);
}

std::map<std::string, double> numbers_of(const ledger::Term& term) {
  std::map<std::string, double> numbers;
  for (const ledger::TermNumber& number : term.numbers) {
    numbers[std::string(number.name)] = as_double(number);
  }
  return numbers;
}

TEST_CASE("terms of sent bytes sum to the row's total, and follow from their numbers", "[unit]") {
  for (const char* plan :
       {"tensor_parallel: {degree: 8}",
        "ulysses: 8, zero: {stage: 3}",
        "ulysses: 2, zero: {stage: 3, replicate: 2}",
        "ulysses: 2, zero: {stage: 3, hpz_partition_size: 4}",
        "ulysses: 8, mlp: {tensor_parallel: 8}, zero: {stage: 3, only: attention}",
        "sequence_gather: 8",
        "ulysses: 2, ring: 4",
        "ring: {degree: 8, implementation: pytorch, order: contiguous}",
        "tensor_parallel: 2, context_parallel: {degree: 4, communication: all_gather}"}) {
    CAPTURE(plan);
    const ledger::Explanation explanation = explain_golden(plan);
    REQUIRE(explanation.result.numbers.has_value());
    std::int64_t sum = 0;
    for (const ledger::Term& term : explanation.terms) {
      if (term.quantity != ledger::TermQuantity::sent_bytes) {
        continue;
      }
      sum += whole(term);
      auto numbers = numbers_of(term);
      const auto count = static_cast<double>(term.count);
      const double shared = numbers["N"] * (numbers["n"] - 1) / numbers["n"];
      const auto value = static_cast<double>(whole(term));
      if (term.formula == "N (n - 1) / n") {
        CHECK(value == count * shared);
      } else if (term.formula == "2 N (n - 1) / n") {
        CHECK(value == count * 2 * shared);
      } else if (term.formula == "N (n - 1) / n^2") {
        CHECK(value == count * shared / numbers["n"]);
      } else if (term.collective == "send_recv") {
        CHECK(value == count * numbers["N"]);
      } else {  // only the norm of clipping does not divide
        CHECK(term.component == "clipping");
      }
    }
    CHECK(Bytes(sum) == explanation.result.numbers->bytes.sent);
  }
}

TEST_CASE("goldens of one attention block in explain's terms", "[unit]") {
  const auto sent =
      [](const ledger::Explanation& explanation, std::string_view phase, std::string_view traffic) {
        std::int64_t sum = 0;
        for (const ledger::Term& term : explanation.terms) {
          if (term.quantity == ledger::TermQuantity::sent_bytes && term.component == "attention" &&
              term.phase == phase && term.traffic == traffic) {
            sum += whole(term);
          }
        }
        return sum / kMiB;
      };
  const ledger::Explanation megatron = explain_golden("tensor_parallel: {degree: 8}");
  CHECK(sent(megatron, "forward", "activations") == 448);   // 2 x 224
  CHECK(sent(megatron, "backward", "activations") == 672);  // 3 x 224
  const ledger::Explanation ulysses = explain_golden("ulysses: 8, zero: {stage: 0}");
  CHECK(sent(ulysses, "forward", "activations") == 112);  // 4 x 28
  CHECK(sent(ulysses, "backward", "activations") == 112);
  CHECK(sent(ulysses, "backward", "gradients") + sent(ulysses, "optimizer", "gradients") == 448);
  const ledger::Explanation zero3 = explain_golden("ulysses: 8, zero: {stage: 3}");
  CHECK(sent(zero3, "forward", "parameters") == 112);
  CHECK(sent(zero3, "backward", "gradients") == 224);
}

TEST_CASE("terms of tensors say what one instance holds", "[unit]") {
  const ledger::Explanation megatron = explain_golden("tensor_parallel: {degree: 8}");
  std::map<std::string, std::int64_t> bytes;
  for (const ledger::Term& term : megatron.terms) {
    if (term.quantity == ledger::TermQuantity::tensor_bytes) {
      CHECK(term.count == 1);
      auto numbers = numbers_of(term);
      CHECK(static_cast<double>(whole(term)) == numbers["E"] * numbers["w"]);
      bytes[term.tensor] = whole(term);
    }
  }
  CHECK(bytes.at("attention input, normed [B, S/8, h]") == 32 * kMiB);
  CHECK(bytes.at("attention input, gathered [B, S, h]") == 256 * kMiB);
}

TEST_CASE("terms of FLOPs and seconds sum to the ledgers", "[unit]") {
  const ledger::Explanation explanation = explain_golden("tensor_parallel: {degree: 8}");
  REQUIRE(explanation.result.numbers.has_value());
  REQUIRE(explanation.result.numbers->step.has_value());
  double flops = 0;
  double seconds = 0;
  for (const ledger::Term& term : explanation.terms) {
    if (term.quantity == ledger::TermQuantity::flops) {
      flops += std::get<double>(term.value);
      auto numbers = numbers_of(term);
      if (term.equation == "gemm-flops") {
        CHECK(std::get<double>(term.value) ==
              static_cast<double>(term.count) * 2 * numbers["m"] * numbers["n"] * numbers["k"]);
      }
    } else if (term.quantity == ledger::TermQuantity::seconds) {
      seconds += std::get<double>(term.value);
      CHECK_FALSE(term.equation.empty());
      CHECK_FALSE(term.source.empty());
    }
  }
  CHECK(flops == Approx(explanation.result.numbers->flops.executed.value()).epsilon(1e-12));
  // Every collective is waited for, so that the parts follow one another.
  CHECK(seconds == Approx(explanation.result.numbers->step->time.step.value()).epsilon(1e-9));
}

TEST_CASE("memory at the worst instant sums to the peak", "[unit]") {
  const ledger::Explanation explanation = explain_golden("ulysses: 8, zero: {stage: 3}");
  Bytes sum;
  for (const ledger::MemoryEntry& entry : explanation.memory) {
    sum += entry.bytes;
  }
  CHECK(sum == explanation.result.numbers->memory.allocated);
}

TEST_CASE("the shape trace shows the exchange of tokens for heads", "[unit]") {
  const ledger::Explanation explanation = explain_golden("ulysses: 8, zero: {stage: 0}");
  std::vector<std::string> exchanged;
  bool attention_output = false;
  for (const ledger::ShapeStep& step : explanation.shapes) {
    if (step.collective == "all_to_all") {
      exchanged.push_back(step.symbols);
    }
    if (step.tensor == "attention output") {
      attention_output = true;
      CHECK(step.symbols == "[B, S, a/8, d]");
      CHECK(step.numbers == "[1, 32768, 4, 128]");
    }
  }
  CHECK(attention_output);
  REQUIRE(exchanged.size() == 2);
  CHECK(exchanged[0] == "[B, S, g/8, a/g+2, d]");  // Q, K and V in one exchange
  CHECK(exchanged[1] == "[B, S/8, a, d]");
}

TEST_CASE("owners change from tokens to heads and back", "[unit]") {
  const ledger::Explanation explanation = explain_golden("ulysses: 8, zero: {stage: 0}");
  REQUIRE(explanation.owners.size() == 2);
  CHECK(explanation.owner_ranks == 8);
  const ledger::OwnerChange& change = explanation.owners.front();
  REQUIRE(change.before.owners.size() == 8);
  REQUIRE(change.before.owners.front().size() == 8);
  for (std::size_t token = 0; token < 8; ++token) {
    for (std::size_t head = 0; head < 8; ++head) {
      // One token a rank before; one head a rank after.
      CHECK(change.before.owners[token][head] ==
            std::vector<std::int64_t>{static_cast<std::int64_t>(token)});
      CHECK(change.after.owners[token][head] ==
            std::vector<std::int64_t>{static_cast<std::int64_t>(head)});
    }
  }
  CHECK(explanation.owners.back().after.owners == change.before.owners);
}

TEST_CASE("a hop moves every block of a ring to the next rank", "[unit]") {
  for (const char* implementation : {"transformer_engine", "ring_flash_attention"}) {
    CAPTURE(implementation);
    const ledger::Explanation explanation = explain_golden(
        "ring: {degree: 4, implementation: " + std::string(implementation) + "}, data_parallel: 2");
    REQUIRE(explanation.owners.size() == 3);  // forward
    // Eight tokens in zigzag order: rank r has tokens r and 7 - r.
    for (std::size_t hop = 0; hop < explanation.owners.size(); ++hop) {
      const ledger::OwnerChange& change = explanation.owners[hop];
      REQUIRE(change.before.owners.size() == 8);
      for (std::size_t token = 0; token < 8; ++token) {
        const std::size_t rank = token < 4 ? token : 7 - token;
        const auto after = [&](std::size_t hops) {
          return std::vector{static_cast<std::int64_t>((rank + hops) % 4)};
        };
        CHECK(change.before.owners[token].front() == after(hop));
        CHECK(change.after.owners[token].front() == after(hop + 1));
      }
    }
  }
}

TEST_CASE("owners of a shape that the group does not divide are refused", "[unit]") {
  const config::StudyFile file = test::study_of(
      "version: 1\nmodel: ulysses-study-8-layer\ncluster: h100-8x-nvlink\n"
      "workload: {sequence: 8K}\nplans:\n  - {name: u, use: ulysses}\n");
  CHECK_THROWS_AS(explain(file.base(), file.base().plans.front(), OwnerShape{12, 8}), Error);
  const auto drawn = explain(file.base(), file.base().plans.front(), OwnerShape{16, 8});
  CHECK(drawn.owners.front().before.owners.size() == 16);
}

TEST_CASE("an illegal plan is explained by its row alone", "[unit]") {
  const ledger::Explanation explanation = explain_golden("ulysses: 3");
  CHECK(explanation.result.verdict == ledger::Verdict::illegal);
  CHECK(explanation.terms.empty());
}

}  // namespace
}  // namespace trireme::study
