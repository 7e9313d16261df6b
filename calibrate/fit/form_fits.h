// The forms of a profile, fitted one after the other: later ones rest on earlier ones.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/model_fit.h"
#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

/// What the fits of one profile share. Each fit leaves its costs in `surroundings`.
struct Fitting {
  Surroundings surroundings;
  Origin origin;
  std::vector<ModelFit> models;  // in the order of the profile
};

/// C1, C1n and C2 inside a node; M1, M2 and point-to-point over nodes; the residuals of all. `rows`
/// are of more than one rank and more than no bytes.
void fit_collectives(const std::vector<Measurement>& rows, Fitting& fitting);

/// G1.
void fit_gemm(const std::vector<Measurement>& rows, Fitting& fitting);

/// A1, for each kernel of a profile.
void fit_attention(const std::vector<Measurement>& rows, Fitting& fitting);

/// The launch of a kernel, where it was measured.
void fit_launch(const std::vector<Measurement>& rows, Fitting& fitting);

/// P1; with the launch of a kernel where that was not measured.
void fit_memory_bound(const std::vector<Measurement>& rows, Fitting& fitting);

}  // namespace trireme::calibrate
