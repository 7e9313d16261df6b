#include "sim/study/legality.h"

#include <set>
#include <utility>

#include "sim/plan/legality.h"

namespace trireme::study {

namespace {

using plan::LegalityStack;
using plan::SplitKind;

void insert_divisors(std::int64_t number, std::set<std::int64_t>& divisors) {
  for (std::int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      divisors.insert(divisor);
      divisors.insert(number / divisor);
    }
  }
}

ledger::LegalDegree ask(const LegalityStack& stack,
                        const plan::Degrees& degrees,
                        std::int64_t degree) {
  ledger::LegalDegree answer;
  answer.degree = degree;
  for (const plan::LegalityRule* const rule : stack.rules) {
    plan::RuleAnswer said = rule->check(degrees);
    if (!said.broken.empty()) {
      answer.refusals.push_back({std::string(rule->name), std::move(said.broken)});
    }
    if (!said.condition.empty()) {
      answer.conditions.push_back(std::move(said.condition));
    }
    if (!said.remark.empty()) {
      answer.remarks.push_back(std::move(said.remark));
    }
    if (said.kv_repeat > 1) {
      answer.kv_repeat = said.kv_repeat;
    }
  }
  return answer;
}

ledger::LegalStack ask_all(const LegalityStack& stack, const plan::Degrees& base) {
  ledger::LegalStack answer;
  answer.name = stack.name;
  answer.title = stack.title;
  for (const plan::LegalityRule* const rule : stack.rules) {
    answer.rules.push_back({std::string(rule->name),
                            std::string(rule->description),
                            std::string(rule->bibliography_key)});
  }
  const bool tensor_alone = stack.kind == SplitKind::tensor_parallel;
  answer.tensor_parallel = stack.with_tensor_parallel && !tensor_alone ? base.tensor : 1;
  std::set<std::int64_t> asked;
  insert_divisors(*base.gpus, asked);
  if (stack.splits_heads) {
    insert_divisors(base.query_heads, asked);
  }
  for (const std::int64_t degree : asked) {
    plan::Degrees degrees = base;
    degrees.degree = tensor_alone ? 1 : degree;
    degrees.tensor = tensor_alone ? degree : answer.tensor_parallel;
    answer.degrees.push_back(ask(stack, degrees, degree));
  }
  return answer;
}

}  // namespace

ledger::LegalityResult legal_degrees(const config::ModelSpec& model,
                                     std::int64_t gpus,
                                     std::int64_t tensor_parallel,
                                     std::optional<std::int64_t> sequence) {
  ledger::LegalityResult result;
  result.model = model.name;
  result.query_heads = model.heads;
  result.kv_heads = model.kv_heads;
  result.head_dim = model.head_dim;
  result.mlp_width = model.mlp_width;
  result.gpus = gpus;
  result.tensor_parallel = tensor_parallel;
  result.sequence = sequence;
  plan::Degrees degrees;
  degrees.query_heads = model.heads;
  degrees.kv_heads = model.kv_heads;
  degrees.mlp_width = model.mlp_width;
  degrees.vocabulary = model.vocabulary;
  degrees.tensor = tensor_parallel;
  degrees.sequence = sequence;
  degrees.gpus = gpus;
  for (const LegalityStack& stack : plan::legality_stacks()) {
    result.stacks.push_back(ask_all(stack, degrees));
  }
  return result;
}

}  // namespace trireme::study
