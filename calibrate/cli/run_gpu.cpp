#include "calibrate/cli/run_gpu.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "calibrate/probe/layer_gemms.h"
#include "sim/config/study_file.h"
#include "sim/core/error.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace {

/// Why this rank has no GPU to measure; empty when it has.
std::string why_none() {
  const GpuSupport* const support = offered_gpus();
  return support == nullptr ? "built without NVIDIA's libraries" : support->missing();
}

}  // namespace

std::unique_ptr<GpuMachine> take_gpu(const Invocation& call,
                                     GpuOptions options,
                                     RankLink& link,
                                     const Placement& placement) {
  const std::string device = call.text("device");
  const std::vector<std::string> known = {"auto", "cpu", "gpu"};
  if (!device.empty() && std::find(known.begin(), known.end(), device) == known.end()) {
    refuse(fmt::format("--device: {} is not known", in_quotes(device)), hint_near(device, known));
  }
  if (const std::string study = call.text("study"); !study.empty()) {
    options.layers = layer_gemms(config::StudyFile::read(study, {}).base());
  }
  if (device == "cpu") {
    return nullptr;
  }
  const std::vector<std::string> reasons = link.exchange(why_none());
  for (std::size_t rank = 0; rank < reasons.size(); ++rank) {
    if (reasons[rank].empty()) {
      continue;
    }
    const std::string reason = fmt::format("no GPU on rank {}: {}", rank, printable(reasons[rank]));
    if (device == "gpu") {
      throw Error(ErrorKind::device,
                  SourceLocation{.file = "trireme-calibrate"},
                  reason,
                  "--device cpu measures the processors");
    }
    if (link.rank() == 0) {
      note(reason + "; the processors are measured");
    }
    return nullptr;
  }
  return offered_gpus()->open(link, placement, options);
}

std::string gpu_libraries() {
  const GpuSupport* const support = offered_gpus();
  return support == nullptr ? "GPU: no, built without NVIDIA's libraries\n"
                            : fmt::format("GPU: {}\n", support->libraries());
}

}  // namespace trireme::calibrate
