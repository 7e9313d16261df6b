#include "calibrate/probe/gpu/nvml.h"

#include <array>
#include <cstddef>
#include <dlfcn.h>

#include <fmt/format.h>

namespace trireme::calibrate::gpu {

namespace {

// The part of nvml.h that is used: the header does not come with every toolkit, and the library
// keeps its interface stable. Every function returns 0 for success.
using NvmlDevice = void*;
using Init = int (*)();
using Shutdown = int (*)();
using HandleByPciBusId = int (*)(const char*, NvmlDevice*);
using Clock = int (*)(NvmlDevice, int, unsigned*);
using Unsigned = int (*)(NvmlDevice, unsigned*);
using Temperature = int (*)(NvmlDevice, int, unsigned*);
using Version = int (*)(char*, unsigned);

constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;
constexpr int kGpuTemperature = 0;

}  // namespace

class Monitor::Library {
 public:
  explicit Library(const std::string& pci_address)
      : handle_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
    if (handle_ == nullptr) {
      return;
    }
    const auto init = find<Init>("nvmlInit_v2");
    const auto by_address = find<HandleByPciBusId>("nvmlDeviceGetHandleByPciBusId_v2");
    initialised_ = init != nullptr && init() == 0;
    if (initialised_ && by_address != nullptr && by_address(pci_address.c_str(), &device_) != 0) {
      device_ = nullptr;
    }
  }

  ~Library() {
    if (initialised_) {
      const auto shutdown = find<Shutdown>("nvmlShutdown");
      if (shutdown != nullptr) {
        shutdown();
      }
    }
    if (handle_ != nullptr) {
      dlclose(handle_);
    }
  }

  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] std::optional<DeviceState> read() const {
    if (device_ == nullptr) {
      return std::nullopt;
    }
    const auto clock = find<Clock>("nvmlDeviceGetClockInfo");
    const auto temperature = find<Temperature>("nvmlDeviceGetTemperature");
    DeviceState state;
    state.sm_clock_mhz = value(clock, kSmClock);
    state.memory_clock_mhz = value(clock, kMemoryClock);
    state.power_milliwatts = value(find<Unsigned>("nvmlDeviceGetPowerUsage"));
    state.power_limit_milliwatts = value(find<Unsigned>("nvmlDeviceGetEnforcedPowerLimit"));
    state.temperature_celsius = value(temperature, kGpuTemperature);
    return state;
  }

  [[nodiscard]] std::string driver_version() const {
    if (!initialised_) {
      return {};
    }
    std::array<char, 80> text{};
    const auto version = find<Version>("nvmlSystemGetDriverVersion");
    if (version == nullptr || version(text.data(), static_cast<unsigned>(text.size())) != 0) {
      return {};
    }
    text.back() = '\0';
    return text.data();
  }

 private:
  template <class Function>
  [[nodiscard]] Function find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(handle_, name));
  }

  [[nodiscard]] std::int64_t value(Clock function, int which) const {
    unsigned result = 0;
    return function != nullptr && function(device_, which, &result) == 0 ? result : 0;
  }

  [[nodiscard]] std::int64_t value(Unsigned function) const {
    unsigned result = 0;
    return function != nullptr && function(device_, &result) == 0 ? result : 0;
  }

  void* handle_;
  bool initialised_ = false;
  NvmlDevice device_ = nullptr;
};

Monitor::Monitor(const std::string& pci_address)
    : library_(std::make_unique<Library>(pci_address)) {}

Monitor::~Monitor() = default;

std::optional<DeviceState> Monitor::read() const {
  return library_->read();
}

std::string Monitor::driver_version() const {
  return library_->driver_version();
}

std::string clocks_in_words(const std::optional<DeviceState>& state) {
  if (!state || state->sm_clock_mhz == 0) {
    return {};
  }
  return fmt::format("SM {} MHz, memory {} MHz", state->sm_clock_mhz, state->memory_clock_mhz);
}

std::string power_in_words(const std::optional<DeviceState>& state) {
  if (!state || state->power_milliwatts == 0) {
    return {};
  }
  return fmt::format("draw {} W, limit {} W, {} C",
                     state->power_milliwatts / 1000,
                     state->power_limit_milliwatts / 1000,
                     state->temperature_celsius);
}

}  // namespace trireme::calibrate::gpu
