#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "calibrate/fit/form_fits.h"
#include "calibrate/fit/predict.h"

namespace trireme::calibrate {

namespace {

std::function<double(std::span<const double>)> quotient(std::size_t above, std::size_t below) {
  return
      [above, below](std::span<const double> c) { return c[below] > 0 ? c[above] / c[below] : 0; };
}

std::string indented(const std::string& text, int spaces) {
  std::string result;
  bool at_line_start = true;
  for (const char character : text) {
    if (at_line_start && character != '\n') {
      result.append(static_cast<std::size_t>(spaces), ' ');
    }
    result += character;
    at_line_start = character == '\n';
  }
  return result;
}

double product_of(const GemmPoint& point) {
  return static_cast<double>(point.m) * static_cast<double>(point.n) * static_cast<double>(point.k);
}

/// The numbers of a list as one number that no other list is likely to share.
double mixed(std::initializer_list<std::int64_t> values) {
  double sum = 0;
  for (const std::int64_t value : values) {
    sum = sum * 1048576.0 + static_cast<double>(value);
  }
  return sum;
}

/// How much longer products take that add to an fp32 output: the middle of measured over predicted,
/// both without the start.
void fit_accumulation(const std::vector<Measurement>& rows, Fitting& fitting, ModelFit& fit) {
  std::vector<double> factors;
  cost::MachineCosts& machine = fitting.surroundings.machine;
  for (const Measurement& row : rows) {
    GemmPoint point = std::get<GemmPoint>(row.point);
    if (point.fp32_accumulation) {
      point.fp32_accumulation = false;
      const double busy =
          (*predict(point, machine, BytesPerSecond(0)) - machine.gemm->start).value();
      factors.push_back((row.timing.median - machine.gemm->start).value() / busy);
    }
  }
  if (factors.size() < kRowsPerCoefficient) {
    fit.notes.emplace_back(
        "products that add to an fp32 output were not measured: taken to last "
        "as long as others");
    return;
  }
  machine.gemm->fp32_accumulation = quantile(factors, 0.5);
  fit.estimates.push_back(
      median_estimate("fp32_accumulation", factors, number_text, fitting.origin.seed));
  fit.yaml += coefficient_line(fit.estimates.back(), fitting.origin);
}

/// Kernels that last longer are looked at for a lower clock. Source: fit_forms, section 3,
/// "Sustained factor phi on E (kernel > 10 ms ...)"
constexpr Seconds kLongKernel(10e-3);

std::string head_dim_path(std::int64_t head_dim, Pass pass) {
  return fmt::format("{} {}", head_dim, pass == Pass::forward ? "forward" : "backward");
}

/// The curves of one kernel: head dimension and pass, in ascending order.
using PassKeys = std::vector<std::pair<std::int64_t, Pass>>;

PassKeys pass_keys(const std::vector<Measurement>& rows) {
  std::map<std::pair<std::int64_t, Pass>, std::set<std::int64_t>> lengths;
  for (const Measurement& row : rows) {
    const auto& point = std::get<AttentionPoint>(row.point);
    lengths[{point.head_dim, point.pass}].insert(point.query_tokens.value());
  }
  PassKeys keys;
  for (const auto& [key, different] : lengths) {
    if (different.size() >= kRowsPerCoefficient) {  // else E and tau cannot be told apart
      keys.push_back(key);
    }
  }
  return keys;
}

/// Where the pass of a row stands among the keys; the number of keys when it is not there.
std::size_t place_of(const PassKeys& keys, const AttentionPoint& point) {
  return static_cast<std::size_t>(
      std::find(keys.begin(), keys.end(), std::pair(point.head_dim, point.pass)) - keys.begin());
}

cost::AttentionKernelCosts kernel_costs(const PassKeys& keys, std::span<const double> c) {
  cost::AttentionKernelCosts kernel;
  kernel.start = Seconds(c[0]);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i].first != keys[i - 1].first) {
      kernel.head_dims.at(kernel.head_dim_count++).head_dim = keys[i].first;
    }
    cost::AttentionPassCosts pass;
    pass.rate = FlopsPerSecond(1 / c[1 + 2 * i]);
    pass.tile_overhead = c[1 + 2 * i] > 0 ? c[2 + 2 * i] / c[1 + 2 * i] : 0;
    cost::AttentionHeadDimCosts& row = kernel.head_dims.at(kernel.head_dim_count - 1);
    (keys[i].second == Pass::forward ? row.forward : row.backward) = pass;
  }
  return kernel;
}

/// The share of its rate that a kernel keeps when it lasts long, by head dimension.
std::map<std::int64_t, Estimate> fit_sustained(const std::vector<Measurement>& long_rows,
                                               const Fitting& fitting,
                                               cost::AttentionKernelCosts& kernel) {
  std::map<std::int64_t, std::vector<double>> shares;
  for (const Measurement& row : long_rows) {
    const auto& point = std::get<AttentionPoint>(row.point);
    const auto predicted =
        predict(row.point, fitting.surroundings.machine, fitting.surroundings.nic_rate);
    if (predicted) {
      shares[point.head_dim].push_back(
          std::min(1.0, ratio(*predicted - kernel.start, row.timing.median - kernel.start)));
    }
  }
  std::map<std::int64_t, Estimate> found;
  for (std::size_t i = 0; i < kernel.head_dim_count; ++i) {
    const std::int64_t head_dim = kernel.head_dims.at(i).head_dim;
    const std::vector<double>& of_head_dim = shares[head_dim];
    if (of_head_dim.size() < kRowsPerCoefficient) {
      continue;
    }
    found[head_dim] = median_estimate("sustained", of_head_dim, number_text, fitting.origin.seed);
    kernel.head_dims.at(i).sustained = quantile(of_head_dim, 0.5);
    kernel.sustained_after = kLongKernel;
  }
  return found;
}

/// The map of a kernel in a profile, out of the estimates of its fit.
std::string kernel_yaml(const PassKeys& keys,
                        const std::vector<Estimate>& estimates,
                        const std::map<std::int64_t, Estimate>& sustained,
                        const Origin& origin) {
  std::string text = "form: A1\n" + coefficient_line(estimates[0], origin);
  if (!sustained.empty()) {
    text += coefficient_line({"sustained_after", seconds_text(kLongKernel.value()), "", "", 0},
                             {"fit_forms", "", 0});
  }
  text += "head_dims:\n";
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i].first != keys[i - 1].first) {
      text += fmt::format("  - head_dim: {}\n", keys[i].first);
      const auto share = sustained.find(keys[i].first);
      if (share != sustained.end()) {
        text += "    " + coefficient_line(share->second, origin);
      }
    }
    Estimate pass_rate = estimates[1 + 2 * i];
    Estimate overhead = estimates[2 + 2 * i];
    pass_rate.key =
        std::string("E");  // an assigned literal is a false alarm of GCC 12's -Wrestrict
    overhead.key = std::string("tau");
    text += keys[i].second == Pass::forward ? "    forward:\n" : "    backward:\n";
    text += indented(coefficient_line(pass_rate, origin) + coefficient_line(overhead, origin), 6);
  }
  return text;
}

FitJob kernel_job(const std::string& kernel,
                  const PassKeys& keys,
                  const std::vector<Measurement>& rows) {
  FitJob job;
  job.section = "attention";
  job.name = kernel;
  job.form_name = "A1";
  job.extent = "tokens";
  job.form.start = {least_seconds(rows)};
  for (const auto& key : keys) {
    // the inverse of the best rate that a row reached, and 128 key rows of it
    double best = std::numeric_limits<double>::infinity();
    for (const Measurement& row : rows) {
      const auto& point = std::get<AttentionPoint>(row.point);
      if (std::pair(point.head_dim, point.pass) == key) {
        const double work = 4.0 * static_cast<double>(point.sequences) *
                            static_cast<double>(point.heads) * static_cast<double>(point.head_dim) *
                            static_cast<double>(point.query_tokens.value()) *
                            static_cast<double>(point.key_tokens.value());
        best = std::min(best, row.timing.median.value() / work);
      }
    }
    job.form.start.insert(job.form.start.end(), {best, 128 * best});
  }
  for (const Measurement& row : rows) {
    const auto& point = std::get<AttentionPoint>(row.point);
    if (place_of(keys, point) < keys.size()) {
      const auto tokens = static_cast<double>(point.query_tokens.value());
      job.samples.add(row, tokens, tokens);
      job.curves.push_back(fmt::format(
          "{}{}", head_dim_path(point.head_dim, point.pass), point.causal ? " causal" : ""));
    }
  }
  job.form.apply = [keys, kernel](std::span<const double> c, cost::MachineCosts& machine) {
    *attention_kernel(machine.attention, kernel) = kernel_costs(keys, c);
  };
  job.readings.push_back({"t0", plain(0), seconds_text});
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string path = head_dim_path(keys[i].first, keys[i].second);
    job.readings.push_back({path + " E", rate(1 + 2 * i), flop_rate_text});
    job.readings.push_back({path + " tau", quotient(2 + 2 * i, 1 + 2 * i), number_text});
  }
  return job;
}

/// Why a kernel cannot be fitted; empty when it can.
std::string obstacle(const std::string& kernel, const PassKeys& keys, Fitting& fitting) {
  cost::MachineCosts& machine = fitting.surroundings.machine;
  std::set<std::int64_t> head_dims;
  for (const auto& key : keys) {
    head_dims.insert(key.first);
  }
  if (attention_kernel(machine.attention, kernel) == nullptr) {
    return "a profile has no such kernel; --kernel says whose place it takes: flash2, flash3 or "
           "cudnn";
  }
  if (!machine.streaming_multiprocessors) {
    return "how many multiprocessors the device has is not known: --multiprocessors";
  }
  if (keys.empty()) {
    return "no head dimension has two lengths";
  }
  if (head_dims.size() > cost::AttentionKernelCosts::kMostHeadDims) {
    return fmt::format("{} head dimensions, and a profile holds {}",
                       head_dims.size(),
                       cost::AttentionKernelCosts::kMostHeadDims);
  }
  return "";
}

/// From this share on, long kernels keep the rate of the others.
constexpr double kKeepsItsRate = 0.98;

bool keeps_its_rate(const cost::AttentionKernelCosts& kernel) {
  return std::all_of(kernel.head_dims.begin(), kernel.head_dims.end(), [](const auto& row) {
    return row.sustained >= kKeepsItsRate;
  });
}

void fit_kernel(const std::string& kernel, const std::vector<Measurement>& rows, Fitting& fitting) {
  const PassKeys keys = pass_keys(rows);
  const std::string why_not = obstacle(kernel, keys, fitting);
  if (!why_not.empty()) {
    ModelFit absent;
    absent.section = "attention";
    absent.name = kernel;
    absent.form = "A1";
    absent.absent = why_not;
    fitting.models.push_back(std::move(absent));
    return;
  }
  // Long kernels may run at a lower clock: the rate comes from the others where there are any.
  std::vector<Measurement> short_rows;
  std::vector<Measurement> long_rows;
  for (const Measurement& row : rows) {
    (row.timing.median > kLongKernel ? long_rows : short_rows).push_back(row);
  }
  const std::size_t coefficients = 1 + 2 * keys.size();
  const bool apart = !long_rows.empty() && pass_keys(short_rows) == keys &&
                     short_rows.size() >= kRowsPerCoefficient * coefficients;
  ModelFit fit = fit_model(
      kernel_job(kernel, keys, apart ? short_rows : rows), fitting.surroundings, fitting.origin);
  std::map<std::int64_t, Estimate> sustained;
  if (apart && fit.absent.empty()) {
    auto& costs = *attention_kernel(fitting.surroundings.machine.attention, kernel);
    sustained = fit_sustained(long_rows, fitting, *costs);
    if (keeps_its_rate(*costs)) {
      fit = fit_model(kernel_job(kernel, keys, rows), fitting.surroundings, fitting.origin);
      fit.notes.emplace_back("kernels of more than 10 ms keep the rate of shorter ones");
      sustained.clear();
    }
  } else if (fit.absent.empty()) {
    fit.notes.emplace_back(
        "no kernels of more than 10 ms beside shorter ones: a lower clock in long kernels is not "
        "known");
  }
  if (fit.absent.empty()) {
    fit.yaml = kernel_yaml(keys, fit.estimates, sustained, fitting.origin);
    for (const auto& [head_dim, estimate] : sustained) {
      fit.estimates.push_back(estimate);
      fit.estimates.back().key = fmt::format("{} sustained", head_dim);
    }
  }
  fitting.models.push_back(std::move(fit));
}

}  // namespace

void fit_gemm(const std::vector<Measurement>& rows, Fitting& fitting) {
  FitJob job;
  job.section = "gemm";
  job.form_name = "G1";
  job.extent = "m n k";
  double per_product = std::numeric_limits<double>::infinity();
  double per_byte = std::numeric_limits<double>::infinity();
  for (const Measurement& row : rows) {
    const auto& point = std::get<GemmPoint>(row.point);
    if (point.fp32_accumulation) {
      continue;
    }
    const double seconds = row.timing.median.value();
    const auto m = static_cast<double>(point.m);
    const auto n = static_cast<double>(point.n);
    const auto k = static_cast<double>(point.k);
    per_product = std::min(per_product, seconds / (2 * product_of(point)));
    per_byte = std::min(
        per_byte, seconds / (static_cast<double>(width(point.type)) * (m * k + k * n + m * n)));
    job.samples.add(row, mixed({point.n, point.k}), product_of(point));
    job.curves.push_back(point.m >= 1024 ? "m >= 1024" : "m < 1024");
  }
  if (job.samples.size() == 0) {
    return;
  }
  // t0, 1 / P, k0 / P, 1 / bw
  job.form.start = {least_seconds(rows), per_product, 100 * per_product, per_byte};
  job.form.apply = [](std::span<const double> c, cost::MachineCosts& machine) {
    cost::GemmCosts costs;
    costs.start = Seconds(c[0]);
    costs.rate = FlopsPerSecond(1 / c[1]);
    costs.inner_overhead = c[1] > 0 ? c[2] / c[1] : 0;
    costs.bandwidth = BytesPerSecond(1 / c[3]);
    machine.gemm = costs;
  };
  job.readings = {{"t0", plain(0), seconds_text},
                  {"P", rate(1), flop_rate_text},
                  {"k0", quotient(2, 1), number_text},
                  {"bw", rate(3), rate_text}};
  ModelFit fit = fit_model(job, fitting.surroundings, fitting.origin);
  if (fit.absent.empty()) {
    fit_accumulation(rows, fitting, fit);
  }
  fitting.models.push_back(std::move(fit));
}

void fit_attention(const std::vector<Measurement>& rows, Fitting& fitting) {
  std::map<std::string, std::vector<Measurement>> kernels;
  for (const Measurement& row : rows) {
    kernels[std::get<AttentionPoint>(row.point).kernel].push_back(row);
  }
  for (const auto& [kernel, of_kernel] : kernels) {
    fit_kernel(kernel, of_kernel, fitting);
  }
}

void fit_launch(const std::vector<Measurement>& rows, Fitting& fitting) {
  if (rows.empty()) {
    return;
  }
  std::vector<double> medians;
  for (const Measurement& row : rows) {
    medians.push_back(row.timing.median.value());
  }
  ModelFit fit;
  fit.section = "kernel_launch";
  fit.estimates.push_back(
      median_estimate("kernel_launch", medians, seconds_text, fitting.origin.seed));
  fit.yaml = coefficient_line(fit.estimates.back(), fitting.origin);
  fitting.surroundings.machine.kernel_launch = Seconds(quantile(medians, 0.5));
  fitting.models.push_back(std::move(fit));
}

void fit_memory_bound(const std::vector<Measurement>& all, Fitting& fitting) {
  constexpr std::array<const char*, cost::kPointwiseClasses> kKeys = {
      "norm_forward", "norm_backward", "pointwise", "copy", "adam", "cross_entropy"};
  cost::MachineCosts& machine = fitting.surroundings.machine;
  const double peak = machine.pointwise.memory_peak.value();
  std::vector<Measurement> rows;  // what the form is of: no cache held them
  std::array<std::size_t, cost::kPointwiseClasses> counts{};
  for (const Measurement& row : all) {
    const auto& point = std::get<MemoryBoundPoint>(row.point);
    if (static_cast<double>(point.moved.value()) / row.timing.median.value() <= peak) {
      rows.push_back(row);
      ++counts.at(static_cast<std::size_t>(point.kind));
    }
  }
  FitJob job;
  job.section = "pointwise";
  job.form_name = "P1";
  job.extent = "moved [bytes]";
  std::vector<std::size_t> classes;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts.at(i) >= kRowsPerCoefficient) {
      classes.push_back(i);
    }
  }
  for (const Measurement& row : rows) {
    const auto& point = std::get<MemoryBoundPoint>(row.point);
    const auto kind = static_cast<std::size_t>(point.kind);
    const auto moved = static_cast<double>(point.moved.value());
    if (counts.at(kind) >= kRowsPerCoefficient) {
      job.samples.add(row, moved, moved);
      job.curves.push_back(fmt::format("{} {}", kKeys.at(kind), point.kernel));
    }
  }
  if (job.samples.size() == 0) {
    return;
  }
  const bool launch_known = machine.kernel_launch.has_value();
  const std::size_t first = launch_known ? 0 : 1;
  if (!launch_known) {
    job.form.start.push_back(least_seconds(rows));
  }
  job.form.start.resize(first + classes.size(), 1.0);  // 1 / eff
  job.form.apply = [classes, first](std::span<const double> c, cost::MachineCosts& costs) {
    if (first > 0) {
      costs.kernel_launch = Seconds(c[0]);
    }
    for (std::size_t i = 0; i < classes.size(); ++i) {
      costs.pointwise.efficiency.at(classes[i]) = 1 / c[first + i];
    }
  };
  for (std::size_t i = 0; i < classes.size(); ++i) {
    job.readings.push_back({kKeys.at(classes[i]), rate(first + i), number_text, 1.0});
  }
  if (!launch_known) {
    job.readings.push_back({"kernel_launch", plain(0), seconds_text});
  }
  ModelFit fit = fit_model(job, fitting.surroundings, fitting.origin);
  if (fit.absent.empty()) {
    fit.yaml = fmt::format(
        "form: P1\n{}",
        coefficient_line({"memory_bandwidth", rate_text(peak), "", "", 0}, {"datasheet", "", 0}));
    for (const Estimate& estimate : fit.estimates) {
      if (estimate.key == "kernel_launch") {
        ModelFit launch;
        launch.section = estimate.key;
        launch.estimates.push_back(estimate);
        launch.yaml = coefficient_line(estimate, fitting.origin);
        launch.notes.emplace_back("not measured alone: the start of memory-bound kernels");
        fitting.models.push_back(std::move(launch));
      } else {
        fit.yaml += coefficient_line(estimate, fitting.origin);
      }
    }
    if (rows.size() < all.size()) {
      fit.notes.push_back(fmt::format("{} rows above the memory's peak left out: a cache held them",
                                      all.size() - rows.size()));
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts.at(i) < kRowsPerCoefficient) {
        fit.notes.push_back(fmt::format("{}: {} rows, unknown", kKeys.at(i), counts.at(i)));
      }
    }
  }
  fitting.models.push_back(std::move(fit));
}

}  // namespace trireme::calibrate
