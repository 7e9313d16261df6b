// From measurements to a profile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibrate/fit/model_fit.h"
#include "calibrate/measurement/measurement_file.h"
#include "sim/config/cluster_spec.h"
#include "sim/units/units.h"

namespace trireme::calibrate {

struct FitOptions {
  config::GpuSpec gpu;      // whose name the profile bears, and whose line rates bound it
  BytesPerSecond nic_rate;  // of one GPU, one direction; 0: not known
  std::uint64_t seed = 1;   // of the resampling behind intervals
  bool accept_slow_fabric = false;
  /// Of the device, where its environments do not say; 0: not known.
  std::int64_t multiprocessors = 0;
  std::string device;  // rows of environments with this device; empty: there is only one
  std::string source;  // of every coefficient; empty: what the environments say
  /// Kernels of attention that take the place of one of a profile: {"eigen", "flash2"}.
  std::map<std::string, std::string> kernels;
  /// Shorter sequences and narrower products are left out; 0: nothing is.
  Tokens least_tokens;
  std::int64_t least_width = 0;  // of n and k
  std::int64_t least_rows = 0;   // m
};

/// What a fabric carried at best beside its line rate.
struct Achieved {
  CollectiveKind collective = CollectiveKind::all_gather;
  bool over_nodes = false;
  BytesPerSecond rate;
  BytesPerSecond line;
  CollectivePoint point;

  [[nodiscard]] double share() const { return ratio(rate, line); }
};

/// Two measurements of one point that exclude each other.
struct Contradiction {
  std::string point;  // in words
  Seconds one;
  Seconds other;
  std::string one_environment;
  std::string other_environment;
};

struct FitResult {
  std::vector<ModelFit> models;
  std::vector<Achieved> achieved;
  std::vector<Contradiction> contradictions;
  std::vector<std::string> notes;  // what was left out, and why
  std::uint64_t seed = 0;
  /// The profile as a file, which the reader of profiles has accepted.
  std::string profile;
};

/// Fits every form that the measurements allow. Throws Error (input) when there is nothing to fit,
/// when rows are of several devices and none is chosen,
/// when rows over nodes need a NIC's rate that is not known, and for a fabric that reached less
/// than half of its line rate, unless that is accepted. Source: fit_forms, section 6
[[nodiscard]] FitResult fit_profile(const MeasurementSet& set, const FitOptions& options);

}  // namespace trireme::calibrate
