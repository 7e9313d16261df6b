#include "sim/config/study_file.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "sim/config/map_reader.h"
#include "sim/config/study_reader.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"

namespace trireme::config {
namespace {

// --- the points of a sweep ---

SweepValue sweep_value(const Entry& entry, const Node& value) {
  if (!value.is_text()) {
    refuse(value.where(),
           fmt::format(
               "{}: expected one value, found {}", printable(entry.key), description(value.kind)),
           "a swept value is written as one text, such as 32K");
  }
  return {entry.key, value.text, entry.key_position, value.position};
}

void refuse_too_many_keys(const Node& point) {
  if (point.entries.size() > kMostSweptKeys) {
    refuse(point.where(),
           fmt::format("sweep: {} keys are more than {}", point.entries.size(), kMostSweptKeys),
           "sweep fewer keys together");
  }
}

void refuse_too_many(const SourceLocation& where, double points) {
  if (points > static_cast<double>(kMostSweepPoints)) {
    refuse(where,
           fmt::format("sweep: {:.6g} points are more than {}", points, kMostSweepPoints),
           "sweep fewer keys or values");
  }
}

/// All combinations of the values of each key; the first key varies slowest.
std::vector<SweepPoint> grid_points(const Node& sweep) {
  refuse_too_many_keys(sweep);
  double count = 1;
  for (const Entry& entry : sweep.entries) {
    if (!entry.value.is_list() || entry.value.items.empty()) {
      refuse(entry.value.where(),
             fmt::format("{}: expected a list of values", printable(entry.key)),
             "write it as [32K, 64K]");
    }
    count *= static_cast<double>(entry.value.items.size());
  }
  refuse_too_many(sweep.where(), count);
  std::vector<SweepPoint> points(static_cast<std::size_t>(count));
  std::size_t repeats = points.size();  // of each value in a row, as later keys vary faster
  for (const Entry& entry : sweep.entries) {
    const std::vector<Node>& values = entry.value.items;
    repeats /= values.size();
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i].push_back(sweep_value(entry, values[i / repeats % values.size()]));
    }
  }
  return points;
}

std::vector<SweepPoint> row_points(const Node& sweep) {
  refuse_too_many(sweep.where(), static_cast<double>(sweep.items.size()));
  std::vector<SweepPoint> points;
  for (const Node& row : sweep.items) {
    if (!row.is_map() || row.entries.empty()) {
      refuse(row.where(),
             fmt::format("sweep: expected a map of keys, found {}", description(row.kind)),
             "write a row as {workload.sequence: 32K, cluster.nodes: 2}");
    }
    refuse_too_many_keys(row);
    SweepPoint point;
    for (const Entry& entry : row.entries) {
      point.push_back(sweep_value(entry, entry.value));
    }
    points.push_back(std::move(point));
  }
  return points;
}

std::vector<SweepPoint> read_points(const Node& sweep) {
  const bool empty = sweep.entries.empty() && sweep.items.empty();
  if (empty || !(sweep.is_map() || sweep.is_list())) {
    refuse(sweep.where(),
           "sweep: expected a map of lists or a list of maps",
           "write it as {workload.sequence: [32K, 64K]}");
  }
  return sweep.is_map() ? grid_points(sweep) : row_points(sweep);
}

// --- a point put into the tree ---

std::vector<std::string> split_key(std::string_view key) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= key.size();) {
    const std::size_t dot = std::min(key.find('.', at), key.size());
    words.emplace_back(key.substr(at, dot - at));
    at = dot + 1;
  }
  return words;
}

[[noreturn]] void refuse_key(const SweepValue& value, std::string problem, std::string hint) {
  refuse(value.key_position.location(),
         fmt::format("sweep: {} {}", in_quotes(value.key), problem),
         std::move(hint));
}

Node& find_plan(Node& root, const SweepValue& value, const std::string& name) {
  std::vector<std::string> names;
  if (Node* const plans = root.find("plans")) {
    for (Node& plan : plans->items) {
      const Node* const plan_name = plan.find("name");
      if (plan_name == nullptr || !plan_name->is_text()) {
        continue;
      }
      if (plan_name->text == name) {
        return plan;
      }
      names.push_back(plan_name->text);
    }
  }
  refuse_key(value, fmt::format("names no plan {}", in_quotes(name)), hint_near(name, names));
}

/// The item of a list whose place, from 0, is a word of the key.
Node& list_item(Node& list, const std::string& place, const SweepValue& value) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (place == std::to_string(i)) {
      return list.items[i];
    }
  }
  refuse_key(value,
             fmt::format("names no item {} of the list", in_quotes(place)),
             fmt::format("items are numbered from 0; there are {}", list.items.size()));
}

/// The map, or the list, under `key` of `parent`; a map is made where there is none.
Node& child_map(Node& parent, const std::string& key, const SweepValue& value) {
  Node* const child = parent.find(key);
  if (child != nullptr && (child->is_map() || child->is_list())) {
    return *child;
  }
  Node map = make_map(value.key_position);
  const std::string_view text_key = key_of_text(key);
  if (child != nullptr && child->is_text() && !text_key.empty()) {
    map.position = child->position;
    map.set(text_key, child->position, *child);
  }
  return parent.set(key, value.key_position, std::move(map));
}

void put(Node& root, const SweepValue& value) {
  static const std::vector<std::string> kRoots = {
      "model", "cluster", "workload", "defaults", "plans", "what_if"};
  std::vector<std::string> words = split_key(value.key);
  if (std::find(kRoots.begin(), kRoots.end(), words.front()) == kRoots.end()) {
    refuse_key(value, "cannot be swept", hint_near(words.front(), kRoots));
  }
  constexpr std::size_t kLongestKey = 8;  // more levels than a study has
  if (words.size() > kLongestKey) {
    refuse_key(value, "names no key of a study", "write it as workload.sequence");
  }
  Node* parent = &root;
  std::size_t next = 0;
  if (words.front() == "plans") {
    if (words.size() < 3) {
      refuse_key(value, "names no key of a plan", "write it as plans.NAME.ulysses");
    }
    if (words.size() == 3 && words.back() == "name") {
      refuse_key(value, "cannot be swept", "a plan's name tells its rows apart: give another plan");
    }
    parent = &find_plan(root, value, words[1]);
    next = 2;
  }
  for (; next + 1 < words.size(); ++next) {
    parent = parent->is_list() ? &list_item(*parent, words[next], value)
                               : &child_map(*parent, words[next], value);
  }
  const std::string& last = words.back();
  if (parent->is_list()) {
    refuse_key(value, "names no key of a list's item", "write it as what_if.slow_ranks.0.factor");
  }
  Node* const written = parent->find(last);
  const Node text = make_text(value.text, value.position);
  if (written != nullptr && written->is_map() && key_of_text(last) == "degree") {
    written->set("degree", value.key_position, text);
  } else {
    parent->set(last, value.key_position, text);
  }
}

}  // namespace

StudyFile StudyFile::read(const std::filesystem::path& path, DataSource data) {
  return {read_yaml_file(path), std::make_shared<const Library>(std::move(data))};
}

StudyFile StudyFile::parse(const std::shared_ptr<const SourceText>& source, DataSource data) {
  return {read_yaml(source), std::make_shared<const Library>(std::move(data))};
}

StudyFile::StudyFile(const Node& root, std::shared_ptr<const Library> library)
    : library_(std::move(library)), root_(root) {
  std::erase_if(root_.entries, [](const Entry& entry) { return entry.key == "sweep"; });
  base_ = read_study(root_, *library_);
  const Node* const sweep = root.find("sweep");
  if (sweep == nullptr) {
    return;
  }
  base_.sweep = read_points(*sweep);
  shared_ = std::make_shared<const SharedParts>(read_shared_parts(root_, *library_));
  std::set<std::string> tried;
  for (const SweepPoint& point : base_.sweep) {
    if (tried.size() >= kMostSweptKeys) {
      break;
    }
    const std::size_t tried_before = tried.size();
    for (const SweepValue& value : point) {
      tried.insert(value.key);
    }
    if (tried.size() > tried_before) {
      // A swept key that the study does not know is found here, not in the middle of the sweep.
      static_cast<void>(at(point));
    }
  }
}

StudySpec StudyFile::at(const SweepPoint& point) const {
  Node root = root_;
  for (const SweepValue& value : point) {
    put(root, value);
  }
  const bool shares = std::none_of(point.begin(), point.end(), [](const SweepValue& value) {
    const std::string part = value.key.substr(0, value.key.find('.'));
    return part == "model" || part == "cluster";
  });
  return read_study(root, *library_, shares ? shared_.get() : nullptr);
}

}  // namespace trireme::config
