#include "calibrate/probe/gpu/support.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cublasLt.h>
#include <cudnn.h>
#include <map>
#include <nccl.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "calibrate/probe/gpu/attention_probe.h"
#include "calibrate/probe/gpu/check.h"
#include "calibrate/probe/gpu/collective_probe.h"
#include "calibrate/probe/gpu/device.h"
#include "calibrate/probe/gpu/gemm_probe.h"
#include "calibrate/probe/gpu/host_copy_probe.h"
#include "calibrate/probe/gpu/interference_probe.h"
#include "calibrate/probe/gpu/launch_probe.h"
#include "calibrate/probe/gpu/memory_bound_probe.h"
#include "calibrate/probe/gpu/nvml.h"
#include "calibrate/probe/gpu_points.h"
#include "sim/core/error.h"

namespace trireme::calibrate::gpu {

namespace {

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Of versions that count 10000 for the first number and 100 for the second.
std::string five_digits(std::int64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string cudnn_version() {
  return five_digits(static_cast<std::int64_t>(cudnnGetVersion()));
}

std::string blas_version() {
  return five_digits(static_cast<std::int64_t>(cublasLtGetVersion()));
}

std::string nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? five_digits(version) : "unknown";
}

/// The settings of NCCL in the process's environment, which change what is measured.
std::string nccl_settings() {
  std::string settings;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).starts_with("NCCL_")) {
      settings += fmt::format(" {}", *variable);
    }
  }
  return settings;
}

std::string libraries() {
  return fmt::format("CUDA {}, cublasLt {}, cuDNN {}, NCCL {}",
                     cuda_version(CUDART_VERSION),
                     blas_version(),
                     cudnn_version(),
                     nccl_version());
}

std::string missing() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    return "no NVIDIA driver is installed";
  }
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    return cudaGetErrorString(status);
  }
  return devices == 0 ? "the driver knows of no device" : "";
}

int visible_devices() {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  return devices;
}

/// The device of a rank: of those that it sees, the one of its place on the host. A launcher may
/// show each rank only its own.
int device_of(const Placement& placement) {
  const int devices = visible_devices();
  if (devices == 1) {
    return 0;
  }
  if (placement.local_rank >= devices) {
    throw Error(
        ErrorKind::device,
        {},
        fmt::format("{} ranks on a host that shows {} GPUs", placement.ranks_per_host, devices),
        "start one rank for each GPU");
  }
  return static_cast<int>(placement.local_rank);
}

std::string pci_address(int device) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device),
        "cudaDeviceGetPCIBusId");
  return text.data();
}

/// Throws Error (device) when two ranks have the same GPU.
void refuse_shared(RankLink& link, const std::string& address) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    host.front() = '\0';
  }
  const std::vector<std::string> all = link.exchange(fmt::format("{} of {}", address, host.data()));
  std::map<std::string, std::size_t> owners;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto [owner, is_new] = owners.emplace(all[rank], rank);
    if (!is_new) {
      throw Error(
          ErrorKind::device,
          {},
          fmt::format("ranks {} and {} have the same GPU, {}", owner->second, rank, all[rank]),
          "start one rank for each GPU");
    }
  }
}

GemmPoint load_product() {
  constexpr std::int64_t kEdge = 8192;
  return {.m = kEdge, .n = kEdge, .k = kEdge, .pass = GemmPass::forward};
}

std::vector<GemmPoint> without_repeats(std::vector<GemmPoint> first,
                                       const std::vector<GemmPoint>& then) {
  for (const GemmPoint& point : then) {
    if (std::find(first.begin(), first.end(), point) == first.end()) {
      first.push_back(point);
    }
  }
  return first;
}

class Session final : public GpuMachine {
 public:
  Session(RankLink& link, const Placement& placement, const GpuOptions& options)
      : options_(options),
        device_(device_of(placement)),
        monitor_(pci_address(device_.index())),
        watch_(link, options.call_limit),
        communicators_(watch_, placement.ranks_per_host) {
    refuse_shared(link, pci_address(device_.index()));
  }

  void describe(Environment& environment) const override {
    int driver = 0;
    int runtime = 0;
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    environment.device = device_.properties().name;
    environment.devices_per_host = visible_devices();
    environment.processors = device_.multiprocessors();
    environment.device_memory = memory_state().total;
    environment.driver = fmt::format("{}{}for CUDA {}",
                                     monitor_.driver_version(),
                                     monitor_.driver_version().empty() ? "" : ", ",
                                     cuda_version(driver));
    environment.cuda = fmt::format("{}, cublasLt {}", cuda_version(runtime), blas_version());
    environment.nccl = nccl_version() + nccl_settings();
    environment.cudnn = cudnn_version();
    describe_state(environment);
  }

  std::vector<std::unique_ptr<Probe>> probes() override {
    std::vector<std::unique_ptr<Probe>> probes;
    probes.push_back(std::make_unique<LaunchProbe>(device_));
    probes.push_back(std::make_unique<GemmProbe>(
        device_, "gemm", chosen(without_repeats(options_.layers, gemm_grid()))));
    probes.push_back(
        std::make_unique<AttentionProbe>(device_, "attention", chosen(attention_points(true))));
    probes.push_back(std::make_unique<MemoryBoundProbe>(device_));
    probes.push_back(std::make_unique<CollectiveProbe>(device_, communicators_));
    probes.push_back(std::make_unique<HostCopyProbe>(device_));
    probes.push_back(std::make_unique<InterferenceProbe>(device_, communicators_));
    return probes;
  }

  std::vector<std::unique_ptr<Probe>> sustained_probes() override {
    std::vector<GemmPoint> products = {load_product()};
    for (std::size_t i = 0; i < std::min<std::size_t>(options_.layers.size(), 3); ++i) {
      products.push_back(options_.layers[i]);
    }
    std::vector<AttentionPoint> attentions;
    for (const AttentionPoint& point : attention_points(false)) {
      const bool long_enough = point.query_tokens >= Tokens(16 << 10);
      if (long_enough && point.causal && point.head_dim == 128 && point.kv_heads < point.heads) {
        attentions.push_back(point);
      }
    }
    std::vector<std::unique_ptr<Probe>> probes;
    probes.push_back(std::make_unique<GemmProbe>(device_, "gemm", chosen(products)));
    probes.push_back(std::make_unique<AttentionProbe>(device_, "attention", chosen(attentions)));
    return probes;
  }

  void describe_under_load(Environment& environment) override {
    using Clock = std::chrono::steady_clock;
    constexpr auto kLoad = std::chrono::seconds(3);  // until the clock has followed the power
    constexpr int kProductsAhead = 20;
    const BlasHandle handle;
    const Matmul product(handle, load_product());
    const GemmBuffers buffers(load_product());
    fill_gemm(device_.stream(), buffers, 0);
    const Clock::time_point start = Clock::now();
    while (Clock::now() - start < kLoad) {
      for (int i = 0; i < kProductsAhead; ++i) {
        product.execute(device_.stream(), buffers);
      }
      describe_state(environment);  // while they run
      device_.stream().wait();
    }
  }

 private:
  void describe_state(Environment& environment) const {
    const std::optional<DeviceState> state = monitor_.read();
    environment.clocks = clocks_in_words(state);
    environment.power = power_in_words(state);
  }

  /// All points, or the first few.
  template <class Points>
  [[nodiscard]] Points chosen(Points points) const {
    constexpr std::size_t kFew = 6;
    if (options_.few_points && points.size() > kFew) {
      points.resize(kFew);
    }
    return points;
  }

  GpuOptions options_;
  Device device_;
  Monitor monitor_;
  CallWatch watch_;
  CommunicatorSet communicators_;
};

std::unique_ptr<GpuMachine> open(RankLink& link,
                                 const Placement& placement,
                                 const GpuOptions& options) {
  return std::make_unique<Session>(link, placement, options);
}

}  // namespace

const GpuSupport& support() {
  static const GpuSupport all{.libraries = libraries, .missing = missing, .open = open};
  return all;
}

}  // namespace trireme::calibrate::gpu
