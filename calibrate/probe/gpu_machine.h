// The GPUs of this machine, as far as this program was built for them.
//
// Only the program trireme-calibrate links NVIDIA's libraries: it offers what it has here, and
// everything else asks here.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/harness/probe.h"
#include "calibrate/harness/rank_link.h"
#include "calibrate/measurement/environment.h"
#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

struct GpuOptions {
  /// For one collective, or one step of making a communicator.
  std::chrono::milliseconds call_limit = std::chrono::seconds(60);
  /// Products to measure before those of the grid.
  std::vector<GemmPoint> layers;
  bool few_points = false;  // a selection that takes seconds instead of minutes
};

/// The GPU of one rank.
class GpuMachine {
 public:
  GpuMachine() = default;
  GpuMachine(const GpuMachine&) = delete;
  GpuMachine& operator=(const GpuMachine&) = delete;
  virtual ~GpuMachine() = default;

  /// Puts device, clocks, power, driver and libraries into a record.
  virtual void describe(Environment& environment) const = 0;

  /// What is measured in short bursts, what a fit needs most first. They live as long as this.
  [[nodiscard]] virtual std::vector<std::unique_ptr<Probe>> probes() = 0;

  /// What is measured again under lasting load, when the clock has gone down.
  [[nodiscard]] virtual std::vector<std::unique_ptr<Probe>> sustained_probes() = 0;

  /// Loads the device for seconds and puts its clocks and power under that load into a record.
  virtual void describe_under_load(Environment& environment) = 0;
};

/// What a build with NVIDIA's libraries has.
struct GpuSupport {
  /// "CUDA 13.0, cublasLt 13.1.0, cuDNN 9.19.0, NCCL 2.28.9".
  std::string (*libraries)();
  /// Why no GPU can be used, such as a missing driver; empty when one can.
  std::string (*missing)();
  /// Takes this rank's GPU; called on all ranks. Throws Error (device): two ranks on one GPU.
  std::unique_ptr<GpuMachine> (*open)(RankLink& link,
                                      const Placement& placement,
                                      const GpuOptions& options);
};

/// Called once, before anything is asked for. `support` outlives the program's work.
void offer_gpus(const GpuSupport* support);

/// Null in a program that was built without NVIDIA's libraries.
[[nodiscard]] const GpuSupport* offered_gpus();

}  // namespace trireme::calibrate
