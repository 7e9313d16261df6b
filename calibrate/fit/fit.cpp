#include "calibrate/fit/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "calibrate/fit/form_fits.h"
#include "calibrate/fit/kernel_names.h"
#include "calibrate/fit/predict.h"
#include "calibrate/fit/residual_tables.h"
#include "sim/config/profile.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/error.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"
#include "sim/cost/collectives.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

/// Source: fit_forms, section 6: "Refuse calibration whose a2a NIC rate is < 0.5 x line"
constexpr double kLeastShare = 0.5;

template <class Kind>
std::vector<Measurement> only(const std::vector<Measurement>& rows) {
  std::vector<Measurement> found;
  for (const Measurement& row : rows) {
    if (std::holds_alternative<Kind>(row.point)) {
      found.push_back(row);
    }
  }
  return found;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + in_quotes(name);
  }
  return text;
}

[[noreturn]] void refuse(std::string message, std::string hint) {
  throw Error(ErrorKind::input, SourceLocation{.file = "fit"}, std::move(message), std::move(hint));
}

const cost::CollectiveInfo& info_of(CollectiveKind kind) {
  for (const cost::CollectiveInfo& info : cost::collective_table()) {
    if (info.name == name(kind)) {
      return info;
    }
  }
  ensure(false, "fit: a collective without a row");
  return cost::collective_table().front();
}

/// What each rank sends, off its node where there are several.
Bytes sent_by_a_rank(const CollectivePoint& point) {
  const std::int64_t per_node = std::min(point.ranks, point.ranks_per_node);
  std::int64_t payload = point.payload.value();
  if (point.collective == CollectiveKind::all_to_all) {
    payload *= point.ranks;  // the table counts what all ranks hold
  }
  const Elements elements(payload / width(point.type));
  const cost::CollectiveBytes bytes =
      info_of(point.collective).bytes(elements, point.type, {point.ranks, per_node}, 0);
  return point.ranks > per_node ? bytes.sent_off_node : bytes.sent;
}

/// The best of each collective, inside a node and over nodes. A message between two ranks says
/// little about a fabric: one channel may serve it.
std::vector<Achieved> achieved_rates(const std::vector<Measurement>& rows,
                                     const FitOptions& options) {
  std::vector<Achieved> best;
  for (const Measurement& row : rows) {
    const auto& point = std::get<CollectivePoint>(row.point);
    if (point.collective == CollectiveKind::send_recv) {
      continue;
    }
    Achieved here;
    here.collective = point.collective;
    here.over_nodes = point.ranks > point.ranks_per_node;
    here.line = here.over_nodes ? options.nic_rate : options.gpu.nvlink_one_direction;
    here.rate = sent_by_a_rank(point) / row.timing.median;
    here.point = point;
    const auto known = std::find_if(best.begin(), best.end(), [&](const Achieved& other) {
      return other.collective == here.collective && other.over_nodes == here.over_nodes;
    });
    if (known == best.end()) {
      best.push_back(here);
    } else if (here.rate > known->rate) {
      *known = here;
    }
  }
  return best;
}

void check_fabric(const std::vector<Achieved>& achieved, bool accept) {
  for (const Achieved& best : achieved) {
    if (best.share() < kLeastShare && !accept) {
      refuse(fmt::format("{} {} reached {} at best, {:.2f} of the line rate {} ({} bytes on {} "
                         "ranks): a fabric this slow is set up wrong or measured too small",
                         name(best.collective),
                         best.over_nodes ? "over nodes" : "inside a node",
                         rate_text(best.rate.value()),
                         best.share(),
                         rate_text(best.line.value()),
                         best.point.payload.value(),
                         best.point.ranks),
             "measure larger messages, correct the line rate, or confirm it with "
             "--accept-slow-fabric");
    }
  }
}

bool exclude_each_other(const Measurement& a, const Measurement& b) {
  const bool apart = a.timing.upper_quartile < b.timing.lower_quartile ||
                     b.timing.upper_quartile < a.timing.lower_quartile;
  const double difference = std::abs(std::log(ratio(a.timing.median, b.timing.median)));
  return apart && difference > kRobustScale;
}

std::vector<Contradiction> contradictions_in(const std::vector<Measurement>& rows) {
  std::vector<std::pair<std::string, const Measurement*>> by_point;
  by_point.reserve(rows.size());
  for (const Measurement& row : rows) {
    by_point.emplace_back(in_words(row.point), &row);
  }
  std::stable_sort(by_point.begin(), by_point.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  std::vector<Contradiction> found;
  for (std::size_t first = 0; first < by_point.size();) {
    std::size_t end = first + 1;
    const Measurement* slowest = by_point[first].second;
    const Measurement* fastest = slowest;
    for (; end < by_point.size() && by_point[end].first == by_point[first].first; ++end) {
      const Measurement* const row = by_point[end].second;
      slowest = row->timing.median > slowest->timing.median ? row : slowest;
      fastest = row->timing.median < fastest->timing.median ? row : fastest;
    }
    if (exclude_each_other(*fastest, *slowest)) {
      found.push_back({by_point[first].first,
                       fastest->timing.median,
                       slowest->timing.median,
                       fastest->environment,
                       slowest->environment});
    }
    first = end;
  }
  return found;
}

/// The one value that all give that are not empty; else the empty one.
template <class Value, class Get>
Value common(const std::vector<Environment>& environments, Get get) {
  std::set<Value> values;
  for (const Environment& environment : environments) {
    if (get(environment) != Value{}) {
      values.insert(get(environment));
    }
  }
  return values.size() == 1 ? *values.begin() : Value{};
}

/// The environments that rows name, of all in the set.
std::vector<Environment> environments_of(const MeasurementSet& set,
                                         const std::vector<Measurement>& rows) {
  std::set<std::string> named;
  for (const Measurement& row : rows) {
    named.insert(row.environment);
  }
  std::vector<Environment> found;
  for (const Environment& environment : set.environments) {
    if (named.count(environment.key) == 1) {
      found.push_back(environment);
    }
  }
  return found;
}

/// The rows of one device, by its environments. Throws Error (input) when several are left.
std::vector<Measurement> rows_of_device(const MeasurementSet& set, const std::string& chosen) {
  std::map<std::string, std::string> device_of;
  for (const Environment& environment : set.environments) {
    device_of[environment.key] = environment.device;
  }
  std::vector<Measurement> rows;
  std::set<std::string> devices;
  for (const Measurement& row : set.measurements) {
    const std::string& device = device_of[row.environment];
    if (!device.empty()) {
      devices.insert(device);
    }
    if (chosen.empty() || device == chosen) {
      rows.push_back(row);
    }
  }
  const std::vector<std::string> names(devices.begin(), devices.end());
  if (chosen.empty() && devices.size() > 1) {
    refuse("the measurements are of several devices: " + joined(names), "choose one with --device");
  }
  if (rows.empty()) {
    refuse(chosen.empty() ? std::string("there are no measurements")
                          : fmt::format("no measurement is of device {}", in_quotes(chosen)),
           hint_near(chosen, names));
  }
  return rows;
}

std::string indented(const std::string& text, const std::string& by) {
  std::string result;
  bool at_line_start = true;
  for (const char character : text) {
    if (at_line_start) {
      result += by;
    }
    result += character;
    at_line_start = character == '\n';
  }
  return result;
}

std::string profile_text(const std::vector<ModelFit>& models,
                         const cost::MachineCosts& machine,
                         const FitOptions& options,
                         const Origin& origin,
                         const std::vector<Environment>& environments) {
  std::string text = fmt::format(
      "# Fitted by trireme calibrate fit --seed {}. Spreads hold 98 % of the values that "
      "resampled\n"
      "# measurements give. What is absent was not measured: the seconds that need it are "
      "unknown.\n"
      "version: 1\n",
      options.seed);
  const auto add = [](const char* key, const std::string& value) {
    return value.empty() ? std::string() : fmt::format(", {}: {}", key, quoted(value));
  };
  text += fmt::format(
      "device: {{gpu: {}{}{}{}}}\n",
      quoted(options.gpu.name),
      add("nccl", common<std::string>(environments, [](const auto& e) { return e.nccl; })),
      add("driver", common<std::string>(environments, [](const auto& e) { return e.driver; })),
      add("date", origin.date));
  const auto device = common<std::string>(environments, [](const auto& e) { return e.device; });
  if (!device.empty()) {
    text += fmt::format("description: {}\n", quoted(device));
  }
  if (machine.streaming_multiprocessors) {
    const Estimate count{"streaming_multiprocessors",
                         fmt::format("{}", *machine.streaming_multiprocessors),
                         "",
                         "",
                         0};
    text +=
        coefficient_line(count, options.multiprocessors > 0 ? Origin{"datasheet", "", 0} : origin);
  }
  constexpr std::array kSections = {
      "kernel_launch", "gemm", "attention", "pointwise", "collectives", "multi_node"};
  for (const char* const section : kSections) {
    std::string body;
    for (const ModelFit& model : models) {
      if (model.section == section && model.absent.empty()) {
        body += model.name.empty() ? model.yaml
                                   : fmt::format("{}:\n{}", model.name, indented(model.yaml, "  "));
      }
    }
    if (body.empty()) {
      continue;
    }
    text += std::string(section) == "kernel_launch"
                ? body
                : fmt::format("{}:\n{}", section, indented(body, "  "));
  }
  return text;
}

/// Of the device, by its environments or else as stated. Throws Error (input) when the two differ.
std::optional<std::int64_t> multiprocessors_of(const std::vector<Environment>& environments,
                                               const FitOptions& options) {
  const auto measured =
      common<std::int64_t>(environments, [](const auto& e) { return e.processors; });
  if (measured > 0 && options.multiprocessors > 0 && measured != options.multiprocessors) {
    refuse(fmt::format("the device has {} multiprocessors by its environments, and {} are stated",
                       measured,
                       options.multiprocessors),
           "leave --multiprocessors out");
  }
  const std::int64_t count = std::max(measured, options.multiprocessors);
  return count > 0 ? std::optional(count) : std::nullopt;
}

/// Rows that a form is of; the others are counted in a note.
class Chooser {
 public:
  explicit Chooser(std::vector<std::string>& notes) : notes_(notes) {}

  template <class Keep>
  std::vector<Measurement> keep(const std::vector<Measurement>& rows,
                                const std::string& left_out,
                                Keep keeps) {
    std::vector<Measurement> kept;
    for (const Measurement& row : rows) {
      if (keeps(row)) {
        kept.push_back(row);
      }
    }
    if (kept.size() < rows.size()) {
      notes_.push_back(fmt::format("{} rows left out: {}", rows.size() - kept.size(), left_out));
    }
    return kept;
  }

 private:
  std::vector<std::string>& notes_;
};

/// Points that were measured under lasting load: what training is.
std::set<std::string> sustained_points(const MeasurementSet& set,
                                       const std::vector<Measurement>& rows) {
  std::set<std::string> keys;
  for (const Environment& environment : set.environments) {
    if (environment.load == Load::sustained) {
      keys.insert(environment.key);
    }
  }
  std::set<std::string> points;
  for (const Measurement& row : rows) {
    if (keys.count(row.environment) == 1) {
      points.insert(in_words(row.point));
    }
  }
  return points;
}

/// The rows but for bursts of points that were measured under lasting load as well.
std::vector<Measurement> without_bursts(const MeasurementSet& set,
                                        const std::vector<Measurement>& rows,
                                        Chooser& chooser) {
  std::set<std::string> bursts;
  for (const Environment& environment : set.environments) {
    if (environment.load == Load::burst) {
      bursts.insert(environment.key);
    }
  }
  const std::set<std::string> sustained = sustained_points(set, rows);
  return chooser.keep(rows,
                      "short bursts of what was measured under lasting load too",
                      [&](const Measurement& row) {
                        return bursts.count(row.environment) == 0 ||
                               sustained.count(in_words(row.point)) == 0;
                      });
}

/// The tables of residuals of all collectives over the costs of a profile.
cost::ResidualTables all_residuals(const std::vector<Measurement>& collectives,
                                   const cost::MachineCosts& machine,
                                   BytesPerSecond nic_rate) {
  cost::ResidualTables tables;
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    std::vector<TimedCollective> timed;
    for (const Measurement& row : collectives) {
      const auto& point = std::get<CollectivePoint>(row.point);
      if (point.collective == kind && predict(row.point, machine, nic_rate)) {
        timed.push_back({point, row.timing.median});
      }
    }
    tables_of(tables, kind) = residual_tables(timed, machine, nic_rate);
  }
  return tables;
}

/// Throws std::logic_error for a profile that cannot be read: the fault is not the user's.
config::ProfileSpec read_back(const std::string& text) {
  const auto source = std::make_shared<const config::SourceText>("fitted profile", text);
  try {
    return config::read_profile(config::read_yaml(source), "fitted");
  } catch (const Error& error) {
    throw std::logic_error(error.what());
  }
}

/// The element type that most rows have: one set of coefficients is of one type.
template <class Kind>
ElementType usual_type(const std::vector<Measurement>& rows) {
  std::map<ElementType, std::size_t> counts;
  for (const Measurement& row : rows) {
    ++counts[std::get<Kind>(row.point).type];
  }
  ElementType usual = ElementType::bf16;
  std::size_t most = 0;
  for (const auto& [type, count] : counts) {
    if (count > most) {
      most = count;
      usual = type;
    }
  }
  return usual;
}

/// The method that most rows of a kind of collective were measured with.
std::map<CollectiveKind, std::string> usual_methods(const std::vector<Measurement>& rows) {
  std::map<CollectiveKind, std::map<std::string, std::size_t>> counts;
  for (const Measurement& row : rows) {
    const auto& point = std::get<CollectivePoint>(row.point);
    ++counts[point.collective][point.method];
  }
  std::map<CollectiveKind, std::string> usual;
  for (const auto& [kind, methods] : counts) {
    std::size_t most = 0;
    for (const auto& [method, count] : methods) {
      if (count > most) {
        most = count;
        usual[kind] = method;
      }
    }
  }
  return usual;
}

std::vector<Measurement> collective_rows(const std::vector<Measurement>& all,
                                         const FitOptions& options,
                                         Chooser& chooser) {
  std::vector<Measurement> rows = chooser.keep(only<CollectivePoint>(all),
                                               "collectives of one rank or no bytes",
                                               [](const Measurement& row) {
                                                 const auto& point =
                                                     std::get<CollectivePoint>(row.point);
                                                 return point.ranks > 1 && point.payload > Bytes(0);
                                               });
  rows = chooser.keep(
      rows, "all-reduces of 8-bit values, which switches may not add", [](const Measurement& row) {
        const auto& point = std::get<CollectivePoint>(row.point);
        return point.collective != CollectiveKind::all_reduce || width(point.type) > 1;
      });
  const auto methods = usual_methods(rows);
  rows = chooser.keep(
      rows, "collectives by another method than most of their kind", [&](const Measurement& row) {
        const auto& point = std::get<CollectivePoint>(row.point);
        return point.method == methods.at(point.collective);
      });
  const bool over_nodes = std::any_of(rows.begin(), rows.end(), [](const Measurement& row) {
    const auto& point = std::get<CollectivePoint>(row.point);
    return point.ranks > point.ranks_per_node;
  });
  if (over_nodes && options.nic_rate.value() <= 0) {
    refuse("there are collectives over nodes, and the line rate of a NIC is not given",
           "add --nic-rate '400 Gbit/s', one direction, of one GPU's NIC");
  }
  return rows;
}

}  // namespace

FitResult fit_profile(const MeasurementSet& set, const FitOptions& options) {
  FitResult result;
  result.seed = options.seed;
  Chooser chooser(result.notes);
  std::vector<Measurement> rows = without_bursts(set, rows_of_device(set, options.device), chooser);
  rename_kernels(options.kernels, rows);
  const std::vector<Environment> environments = environments_of(set, rows);
  std::set<std::string> libraries;
  for (const Environment& environment : environments) {
    libraries.insert(environment.nccl);
  }
  libraries.erase("");
  if (libraries.size() > 1) {
    result.notes.push_back(
        fmt::format("{} versions of NCCL are fitted together: single sizes may differ by half",
                    libraries.size()));
  }
  Fitting fitting;
  fitting.origin.seed = options.seed;
  std::string source = options.source;
  if (source.empty()) {
    source = common<std::string>(environments, [](const auto& e) { return e.source; });
  }
  fitting.origin.source = quoted(source.empty() ? "measured" : source);
  for (const Environment& environment : environments) {
    fitting.origin.date = std::max(fitting.origin.date, environment.date.substr(0, 10));
  }
  fitting.surroundings.nic_rate = options.nic_rate;
  cost::MachineCosts& machine = fitting.surroundings.machine;
  machine.pointwise.memory_peak = options.gpu.memory_bandwidth;
  machine.streaming_multiprocessors = multiprocessors_of(environments, options);

  const std::vector<Measurement> collectives = collective_rows(rows, options, chooser);
  result.achieved = achieved_rates(collectives, options);
  check_fabric(result.achieved, options.accept_slow_fabric);
  result.contradictions = contradictions_in(rows);

  std::vector<Measurement> gemms = only<GemmPoint>(rows);
  const ElementType gemm_type = usual_type<GemmPoint>(gemms);
  gemms = chooser.keep(
      gemms,
      fmt::format("matrix products of other types than {}", name(gemm_type)),
      [&](const Measurement& row) { return std::get<GemmPoint>(row.point).type == gemm_type; });
  gemms = chooser.keep(gemms,
                       fmt::format("matrix products narrower than {}", options.least_width),
                       [&](const Measurement& row) {
                         const auto& point = std::get<GemmPoint>(row.point);
                         return std::min(point.n, point.k) >= options.least_width;
                       });
  gemms = chooser.keep(gemms,
                       fmt::format("matrix products of fewer than {} rows", options.least_rows),
                       [&](const Measurement& row) {
                         return std::get<GemmPoint>(row.point).m >= options.least_rows;
                       });
  std::vector<Measurement> attention = only<AttentionPoint>(rows);
  const ElementType attention_type = usual_type<AttentionPoint>(attention);
  attention = chooser.keep(attention,
                           fmt::format("attention of other types than {}", name(attention_type)),
                           [&](const Measurement& row) {
                             return std::get<AttentionPoint>(row.point).type == attention_type;
                           });
  attention = chooser.keep(
      attention,
      fmt::format("attention over fewer than {} tokens", options.least_tokens.value()),
      [&](const Measurement& row) {
        return std::get<AttentionPoint>(row.point).query_tokens >= options.least_tokens;
      });
  fit_launch(only<LaunchPoint>(rows), fitting);
  fit_memory_bound(only<MemoryBoundPoint>(rows), fitting);
  fit_gemm(gemms, fitting);
  fit_attention(attention, fitting);
  fit_collectives(collectives, fitting);
  result.models = std::move(fitting.models);
  if (std::none_of(result.models.begin(), result.models.end(), [](const ModelFit& model) {
        return model.absent.empty();
      })) {
    std::string why;
    for (const ModelFit& model : result.models) {
      why += fmt::format("; {}: {}", model.title(), model.absent);
    }
    refuse(fmt::format("nothing can be fitted to {} rows{}", rows.size(), why),
           "measure more points, or import them");
  }
  const std::size_t copies = only<HostCopyPoint>(rows).size();
  const std::size_t interferences = only<InterferencePoint>(rows).size();
  if (copies + interferences + set.memory.size() > 0) {
    result.notes.push_back(
        fmt::format("{} host copies, {} rows of interference and {} of memory are no part of the "
                    "forms fitted here",
                    copies,
                    interferences,
                    set.memory.size()));
  }
  result.profile = profile_text(result.models, machine, options, fitting.origin, environments);
  const cost::MachineCosts written = read_back(result.profile).costs;
  result.profile +=
      residuals_yaml(all_residuals(collectives, written, fitting.surroundings.nic_rate));
  (void)read_back(result.profile);  // nobody sees a broken profile
  return result;
}

}  // namespace trireme::calibrate
