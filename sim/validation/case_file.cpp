#include "sim/validation/case_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "sim/config/bounds.h"
#include "sim/config/embedded_files.h"
#include "sim/config/map_reader.h"
#include "sim/config/study_reader.h"
#include "sim/config/words.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::validation {

using config::MapReader;
using config::Node;
using config::refuse;
using ledger::Dimension;
using ledger::Expectation;
using ledger::Relation;
using ledger::Role;

namespace {

constexpr std::string_view kCaseFolder = "tests/validation/cases/";
constexpr config::Choice<Role> kRoleWords[] = {
    {"judged", Role::judged}, {"fitted", Role::fitted}, {"reported", Role::reported}};

const Quantity* parse_quantity(std::string_view text) {
  std::vector<std::string> names;
  for (const Quantity& quantity : quantity_table()) {
    if (quantity.name == text) {
      return &quantity;
    }
    names.emplace_back(quantity.name);
  }
  throw BadText(in_quotes(text) + " is no quantity", hint_near(text, names));
}

double parse_amount(Dimension dimension, std::string_view text) {
  switch (dimension) {
    case Dimension::bytes:
      return static_cast<double>(parse_bytes(text).value());
    case Dimension::seconds:
      return parse_seconds(text).value();
    case Dimension::flops_per_second:
      return parse_flops_per_second(text).value();
    case Dimension::tokens:
      return static_cast<double>(parse_tokens(text).value());
    case Dimension::number:
      return parse_non_negative_number(text);
  }
  throw std::logic_error("parse_amount: an unknown dimension");
}

/// A parser of the names of an enumeration.
template <class Enum, std::size_t N>
auto word_in(const std::array<std::string_view, N>& names) {
  return [&names](std::string_view text) {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) {
      const std::vector<std::string> known(names.begin(), names.end());
      throw BadText(in_quotes(text) + " is not known here", hint_near(text, known));
    }
    return static_cast<Enum>(found - names.begin());
  };
}

template <class Parse>
auto list_of(const MapReader& map, std::string_view key, Parse parse) {
  std::vector<std::invoke_result_t<Parse&, std::string_view>> values;
  for (const Node& item : map.items(key)) {
    values.push_back(config::parse_node(item, key, parse));
  }
  return values;
}

std::string parse_sequence_text(std::string_view text) {
  static_cast<void>(config::parse_sequence(text));
  return std::string(text);
}

void refuse_keys(const MapReader& map, std::initializer_list<const char*> keys, const char* why) {
  for (const char* const key : keys) {
    if (const Node* const node = map.find(key)) {
      refuse(node->where(), fmt::format("{}: {}", key, why), "leave the key out");
    }
  }
}

Selection read_selection(const MapReader& map, const Quantity& quantity) {
  if (!quantity.selects_bytes) {
    refuse_keys(map, {"phases", "traffic", "components"}, "narrows sent_bytes only");
  }
  if (!quantity.selects_items) {
    refuse_keys(map, {"items"}, "narrows peak_memory only");
  }
  return {list_of(map, "phases", word_in<Phase>(kPhaseNames)),
          list_of(map, "traffic", word_in<Traffic>(kTrafficNames)),
          list_of(map, "components", word_in<Component>(kComponentNames)),
          list_of(map, "items", word_in<MemoryItem>(kMemoryItemNames))};
}

Expectation read_expectation(const MapReader& map, Dimension dimension) {
  struct Form {
    const char* key;
    Relation relation;
  };

  constexpr Form kForms[] = {{"expected", Relation::equal},
                             {"at_least", Relation::at_least},
                             {"at_most", Relation::at_most}};
  const Form* form = nullptr;
  for (const Form& candidate : kForms) {
    const Node* const node = map.find(candidate.key);
    if (node == nullptr) {
      continue;
    }
    if (form != nullptr) {
      refuse(node->where(),
             fmt::format("{}: '{}' is there already", candidate.key, form->key),
             "keep one of them");
    }
    form = &candidate;
  }
  if (form == nullptr) {
    refuse(map.where(),
           "a case needs one of 'expected', 'at_least' and 'at_most'",
           "write it as 'expected: 6.39 GiB'");
  }
  Expectation expected;
  expected.relation = form->relation;
  expected.value =
      map.required(form->key, [&](std::string_view text) { return parse_amount(dimension, text); });
  if (form->relation != Relation::equal) {
    refuse_keys(map, {"tolerance"}, "a bound has none");
    return expected;
  }
  expected.tolerance = map.required("tolerance", [&](std::string_view text) {
    if (text == "exact") {
      return 0.0;
    }
    if (text == "set") {
      return std::numeric_limits<double>::infinity();
    }
    return text.ends_with('%') ? expected.value * parse_percentage(text)
                               : parse_amount(dimension, text);
  });
  expected.tolerance_text = map.node("tolerance").text;
  return expected;
}

/// The second plan of a case, under the key that says what is done with it.
void read_other_plan(const MapReader& map, ValidationCase& one) {
  struct Form {
    const char* key;
    Against against;
  };

  constexpr Form kForms[] = {{"relative_to", Against::ratio},
                             {"minus", Against::difference},
                             {"less_than", Against::saving}};
  if (one.quantity->of_plan == nullptr && one.quantity->of_memory == nullptr) {
    refuse_keys(map, {"relative_to", "minus", "less_than"}, "a crossover is 'between' two plans");
    one.other_plan = map.required("between", parse_word);
    return;
  }
  refuse_keys(map, {"between"}, "only a crossover is between two plans");
  for (const Form& form : kForms) {
    const auto plan = map.maybe(form.key, parse_word);
    if (!plan) {
      continue;
    }
    if (one.against != Against::nothing) {
      refuse(map.node(form.key).where(),
             fmt::format("{}: a second plan is there already", form.key),
             "keep one of them");
    }
    one.against = form.against;
    one.other_plan = *plan;
  }
}

std::vector<std::string> read_sequences(const MapReader& map, const config::StudySpec& study) {
  const Node* const written = map.find("sequence");
  if (written == nullptr) {
    return {to_text(study.workload.sequence.value)};
  }
  if (written->is_list()) {
    return list_of(map, "sequence", parse_sequence_text);
  }
  return {map.required("sequence", parse_sequence_text)};
}

void check_plan(const MapReader& map, std::string_view key, const config::StudySpec& study) {
  const Node* const node = map.find(key);
  if (node == nullptr) {
    return;
  }
  std::vector<std::string> names;
  for (const config::PlanSpec& plan : study.plans) {
    names.push_back(plan.name);
  }
  if (std::find(names.begin(), names.end(), node->text) == names.end()) {
    refuse(node->where(),
           fmt::format("{}: the study has no plan {}", key, in_quotes(node->text)),
           hint_near(node->text, names));
  }
}

/// Unit of the value: a ratio and a saving have none.
Dimension dimension_of(const ValidationCase& one) {
  return one.against == Against::ratio || one.against == Against::saving ? Dimension::number
                                                                         : one.quantity->dimension;
}

/// A case with the keys that it leaves to the whole file. A bound takes no tolerance.
Node completed(const Node& written, const Node& common) {
  Node item = written;
  const bool bound = written.find("at_most") != nullptr || written.find("at_least") != nullptr;
  for (const config::Entry& entry : common.entries) {
    if (item.find(entry.key) == nullptr && !(bound && entry.key == "tolerance")) {
      item.set(entry.key, entry.key_position, entry.value);
    }
  }
  return item;
}

/// A row of a table as the case that it stands for.
Node case_of_row(const Node& row, std::span<const Node> columns, const Node& common) {
  if (!row.is_list() || row.items.size() != columns.size()) {
    refuse(row.where(),
           fmt::format("rows: a row needs a value for each of the {} columns", columns.size()),
           "write it as '[ulysses-8, 8, 36.7 GiB]'");
  }
  Node item = config::make_map(row.position);
  const Node* const shared = common.find("with");
  Node with = shared == nullptr ? config::make_map(row.position) : *shared;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Node& column = columns[i];
    Node& target = column.text.find('.') == std::string::npos ? item : with;
    target.set(column.text, column.position, row.items[i]);
  }
  item.set("with", row.position, with);
  for (const char* const form : {"expected", "at_least", "at_most"}) {
    if (const Node* const value = item.find(form);
        value != nullptr && item.find("printed") == nullptr) {
      item.set("printed", row.position, config::make_text(value->text, value->position));
    }
  }
  return completed(item, common);
}

std::vector<Node> cases_of_tables(const MapReader& map) {
  std::vector<Node> cases;
  for (const Node& written : map.items("tables")) {
    const MapReader table(written, "tables", {"common", "columns", "rows"});
    const Node* const common = table.find("common");
    const Node nothing = config::make_map(written.position);
    for (const Node& row : table.items("rows")) {
      cases.push_back(
          case_of_row(row, table.items("columns"), common == nullptr ? nothing : *common));
    }
  }
  return cases;
}

/// The map under `key`; of a list, such as that of plans, the one with that name.
Node* child_map(Node& parent, std::string_view key) {
  if (parent.is_list()) {
    const auto named = [&](const Node& item) {
      const Node* const name = item.is_map() ? item.find("name") : nullptr;
      return name != nullptr && name->text == key;
    };
    const auto found = std::find_if(parent.items.begin(), parent.items.end(), named);
    return found == parent.items.end() ? nullptr : &*found;
  }
  return parent.find(key);
}

/// Sets the key `path` ("cluster.nodes", "plans.p.ulysses") of a study.
void set_at(Node& root, const config::Entry& entry) {
  Node* map = &root;
  std::string_view path = entry.key;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    map = child_map(*map, path.substr(0, dot));
    const bool inner = map != nullptr && (map->is_map() || map->is_list());
    if (!inner) {
      refuse(entry.key_where(),
             fmt::format("with: the study has no map for {}", in_quotes(entry.key)),
             "name a key of the study, such as workload.micro_batch");
    }
    path.remove_prefix(dot + 1);
  }
  if (!map->is_map()) {
    refuse(entry.key_where(),
           fmt::format("with: {} names a list of the study", in_quotes(entry.key)),
           "name a key of one of its items, such as plans.p.ulysses");
  }
  map->set(path, entry.key_position, entry.value);
}

/// `file` and `source` are those of the whole file.
ValidationCase read_case(const Node& node,
                         const config::StudySpec& study,
                         const std::string& file,
                         const std::string& source,
                         const std::string& peer_name) {
  const MapReader map(
      node, "cases", {"name",        "where",           "fact",       "printed",   "quantity",
                      "phases",      "traffic",         "components", "items",     "plan",
                      "relative_to", "minus",           "less_than",  "between",   "sequence",
                      "expected",    "at_least",        "at_most",    "tolerance", "reason",
                      "assumptions", "known_deviation", "role",       "with",      "group",
                      "peer"});
  ValidationCase one;
  one.location = map.where();
  ledger::StatedFact& stated = one.stated;
  stated.id = fmt::format("{}/{}", file, map.required("name", parse_word));
  stated.source = source;
  stated.where = map.required("where", parse_word);
  stated.fact = map.required("fact", parse_word);
  stated.printed = map.required("printed", parse_word);
  one.quantity = map.required("quantity", parse_quantity);
  stated.quantity = one.quantity->name;
  stated.topic = one.quantity->topic;
  one.selection = read_selection(map, *one.quantity);
  if (one.quantity->of_set != nullptr) {
    refuse_keys(map,
                {"plan", "relative_to", "minus", "less_than", "between", "sequence", "with"},
                "a set of runs has none");
  } else {
    one.plan = map.required("plan", parse_word);
    read_other_plan(map, one);
    for (const char* const key : {"plan", "relative_to", "minus", "less_than", "between"}) {
      check_plan(map, key, study);
    }
    one.sequences = read_sequences(map, study);
    if (const Node* const with = map.find("with")) {
      one.with = with->entries;
      for (const config::Entry& entry : one.with) {
        if (entry.key == "workload.sequence") {
          refuse(entry.key_where(),
                 "with: the sequence has a key of its own",
                 "write 'sequence: 64K'");
        }
      }
    }
  }
  stated.dimension = dimension_of(one);
  stated.expected = read_expectation(map, stated.dimension);
  stated.group = map.maybe("group", parse_word).value_or("");
  stated.peer_name = peer_name;
  stated.peer = map.maybe(
      "peer", [&](std::string_view text) { return parse_amount(stated.dimension, text); });
  if (stated.peer && peer_name.empty()) {
    refuse(map.node("peer").where(), "peer: the file names no peer", "add 'peer: its name' to it");
  }
  stated.reason = map.required("reason", parse_word);
  stated.assumptions = list_of(map, "assumptions", parse_word);
  stated.known_deviation = map.maybe("known_deviation", parse_word);
  stated.role = map.optional("role", config::word_of(kRoleWords), "judged");
  return one;
}

Node read_built_in(const config::EmbeddedFile& file) {
  return config::read_yaml(
      std::make_shared<const config::SourceText>(std::string(file.path), std::string(file.text)));
}

/// A built-in file by its path from the root of the source tree.
Node read_built_in(const std::string& path) {
  for (const config::EmbeddedFile& file : config::embedded_files()) {
    if (file.path == path) {
      return read_built_in(file);
    }
  }
  throw std::logic_error("validation: no built-in file is named " + path);
}

Node read_study_node(const MapReader& map, StudyFiles studies) {
  const Node& written = map.node("study");
  if (written.is_map()) {
    return written;
  }
  const std::filesystem::path folder = std::filesystem::path(map.where().file).parent_path();
  const std::filesystem::path file =
      (folder / map.required("study", parse_word)).lexically_normal();
  return studies == StudyFiles::built_in ? read_built_in(file.string())
                                         : config::read_yaml_file(file, written.where());
}

}  // namespace

CaseFile read_cases(const Node& root, const config::Library& library, StudyFiles studies) {
  const MapReader map(
      root, "", {"version", "source", "study", "common", "peer", "tables", "cases"});
  static_cast<void>(map.required("version", config::parse_version));
  const std::string name = std::filesystem::path(map.where().file).stem().string();
  const std::string source = map.required("source", parse_word);
  CaseFile file;
  file.study = read_study_node(map, studies);
  const config::StudySpec study = config::read_study(file.study, library);
  std::set<std::string> ids;
  const std::string peer = map.maybe("peer", parse_word).value_or("");
  const Node* const common = map.find("common");
  const auto add = [&](const Node& written, bool of_table) {
    const Node item = common == nullptr ? written : completed(written, *common);
    file.cases.push_back(read_case(item, study, name, source, peer));
    file.cases.back().stated.of_table = of_table;
    if (!ids.insert(file.cases.back().stated.id).second) {
      refuse(item.where(),
             fmt::format("a second case is named {}", in_quotes(item.find("name")->text)),
             "give each case of a file a name of its own");
    }
  };
  for (const Node& row : cases_of_tables(map)) {
    add(row, true);
  }
  for (const Node& written : map.items("cases")) {
    add(written, false);
  }
  if (file.cases.empty()) {
    refuse(map.where(), "the file has no cases", "add a list under 'cases'");
  }
  return file;
}

std::vector<CaseFile> built_in_cases(const config::Library& library) {
  std::vector<CaseFile> files;
  for (const config::EmbeddedFile& file : config::embedded_files()) {
    if (file.path.starts_with(kCaseFolder)) {
      files.push_back(read_cases(read_built_in(file), library, StudyFiles::built_in));
    }
  }
  return files;
}

config::StudySpec study_at(const CaseFile& file,
                           const ValidationCase& asked,
                           const std::string& sequence,
                           const config::Library& library) {
  Node root = file.study;
  for (const config::Entry& entry : asked.with) {
    set_at(root, entry);
  }
  Node* const workload = root.find("workload");
  ensure(workload != nullptr, "study_at: a study without workload was read");
  const config::Position position = workload->position;
  workload->set("sequence", position, config::make_text(sequence, position));
  return config::read_study(root, library);
}

}  // namespace trireme::validation
