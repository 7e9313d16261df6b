#include "sim/report/legality.h"

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/core/printable.h"
#include "sim/report/csv.h"
#include "sim/report/numbers.h"
#include "sim/report/table.h"

namespace trireme::report {

using ledger::LegalDegree;
using ledger::LegalityResult;
using ledger::LegalStack;
using Json = nlohmann::ordered_json;

namespace {

std::string kv_repeat_text(const LegalDegree& degree) {
  return degree.kv_repeat == 1 ? std::string() : fmt::format("K/V x {}", degree.kv_repeat);
}

/// "8", or "40 (K/V x 5)".
std::string short_text(const LegalDegree& degree) {
  return degree.kv_repeat == 1 ? std::to_string(degree.degree)
                               : fmt::format("{} ({})", degree.degree, kv_repeat_text(degree));
}

std::string legal_list(const LegalStack& stack) {
  std::vector<std::string> degrees;
  for (const LegalDegree& degree : stack.degrees) {
    if (degree.legal()) {
      degrees.push_back(short_text(degree));
    }
  }
  return degrees.empty() ? "none" : fmt::format("{}", fmt::join(degrees, ", "));
}

/// "if S % 16 = 0; uneven heads: ...": what a legal degree asks for and brings with it.
std::string terms_of(const LegalDegree& degree) {
  std::vector<std::string> terms;
  for (const std::string& condition : degree.conditions) {
    terms.push_back("if " + condition);
  }
  if (degree.kv_repeat > 1) {
    terms.push_back(kv_repeat_text(degree));
  }
  terms.insert(terms.end(), degree.remarks.begin(), degree.remarks.end());
  return fmt::format("{}", fmt::join(terms, "; "));
}

std::string title_of(const LegalStack& stack) {
  return stack.tensor_parallel == 1
             ? stack.title
             : fmt::format("{}, tensor parallel {}", stack.title, stack.tensor_parallel);
}

std::string heading(const LegalityResult& result) {
  const auto count = [](std::int64_t value) { return with_thousands(static_cast<double>(value)); };
  return fmt::format(
      "{}: {} query heads, {} key/value heads of {}, MLP width {}; {} GPUs, tensor parallel {}, "
      "sequence {}\n",
      printable(result.model),
      result.query_heads,
      result.kv_heads,
      result.head_dim,
      count(result.mlp_width),
      count(result.gpus),
      result.tensor_parallel,
      result.sequence ? count(*result.sequence) : std::string("not stated"));
}

Json degree_object(const LegalDegree& degree) {
  Json object;
  object["degree"] = degree.degree;
  object["legal"] = degree.legal();
  object["kv_repeat"] = degree.legal() ? Json(degree.kv_repeat) : Json(nullptr);
  object["refusals"] = Json::array();
  for (const Refusal& refusal : degree.refusals) {
    object["refusals"].push_back({{"rule", refusal.rule}, {"message", refusal.message}});
  }
  object["conditions"] = degree.conditions;
  object["remarks"] = degree.remarks;
  return object;
}

Json stack_object(const LegalStack& stack) {
  Json object;
  object["stack"] = stack.name;
  object["title"] = stack.title;
  object["tensor_parallel"] = stack.tensor_parallel;
  object["rules"] = Json::array();
  for (const ledger::LegalRule& rule : stack.rules) {
    object["rules"].push_back(
        {{"rule", rule.name}, {"description", rule.description}, {"source", rule.source}});
  }
  object["legal"] = Json::array();
  object["degrees"] = Json::array();
  for (const LegalDegree& degree : stack.degrees) {
    if (degree.legal()) {
      object["legal"].push_back(degree.degree);
    }
    object["degrees"].push_back(degree_object(degree));
  }
  return object;
}

}  // namespace

std::string to_terminal(const LegalityResult& result, bool color) {
  Table legal;
  legal.columns = {{"stack", Align::left}, {"legal degrees", Align::left}};
  Table each;
  each.columns = {{"stack", Align::left},
                  {"degree", Align::right},
                  {"verdict", Align::left},
                  {"rule", Align::left},
                  {"why, or what with", Align::left}};
  for (const LegalStack& stack : result.stacks) {
    legal.add({title_of(stack), legal_list(stack)});
    for (const LegalDegree& degree : stack.degrees) {
      if (degree.legal()) {
        each.add({stack.name, std::to_string(degree.degree), "legal", "", terms_of(degree)});
      }
      for (const Refusal& refusal : degree.refusals) {
        each.add(
            {stack.name, std::to_string(degree.degree), "refused", refusal.rule, refusal.message});
      }
    }
  }
  return heading(result) + '\n' + to_terminal(legal, color) + '\n' + to_terminal(each, color);
}

std::string to_csv(const LegalityResult& result) {
  std::string text = csv_line({"stack",
                               "tensor_parallel",
                               "degree",
                               "legal",
                               "kv_repeat",
                               "rules_broken",
                               "refusals",
                               "conditions",
                               "remarks"});
  for (const LegalStack& stack : result.stacks) {
    for (const LegalDegree& degree : stack.degrees) {
      std::vector<std::string> rules;
      std::vector<std::string> messages;
      for (const Refusal& refusal : degree.refusals) {
        rules.push_back(refusal.rule);
        messages.push_back(refusal.message);
      }
      text += csv_line({stack.name,
                        std::to_string(stack.tensor_parallel),
                        std::to_string(degree.degree),
                        degree.legal() ? "true" : "false",
                        degree.legal() ? std::to_string(degree.kv_repeat) : std::string(),
                        fmt::format("{}", fmt::join(rules, "; ")),
                        fmt::format("{}", fmt::join(messages, "; ")),
                        fmt::format("{}", fmt::join(degree.conditions, "; ")),
                        fmt::format("{}", fmt::join(degree.remarks, "; "))});
    }
  }
  return text;
}

std::string to_json(const LegalityResult& result) {
  Json document;
  document["schema_version"] = 1;
  document["command"] = "legal";
  document["model"] = result.model;
  document["query_heads"] = result.query_heads;
  document["kv_heads"] = result.kv_heads;
  document["head_dim"] = result.head_dim;
  document["mlp_width"] = result.mlp_width;
  document["gpus"] = result.gpus;
  document["tensor_parallel"] = result.tensor_parallel;
  document["sequence"] = result.sequence ? Json(*result.sequence) : Json(nullptr);
  document["stacks"] = Json::array();
  for (const LegalStack& stack : result.stacks) {
    document["stacks"].push_back(stack_object(stack));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace trireme::report
