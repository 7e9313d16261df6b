// Clocks, power and temperature of a device, from the driver's management library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace trireme::calibrate::gpu {

struct DeviceState {
  std::int64_t sm_clock_mhz = 0;
  std::int64_t memory_clock_mhz = 0;
  std::int64_t power_milliwatts = 0;
  std::int64_t power_limit_milliwatts = 0;
  std::int64_t temperature_celsius = 0;
};

/// The library comes with the driver and is not there without one, so it is opened while running.
class Monitor {
 public:
  /// Of the device at that PCI address, "0000:1b:00.0". Knows nothing where the library or the
  /// device is missing, which is the case in some containers.
  explicit Monitor(const std::string& pci_address);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  [[nodiscard]] std::optional<DeviceState> read() const;

  /// "570.86.15"; empty when it is not known.
  [[nodiscard]] std::string driver_version() const;

 private:
  class Library;
  std::unique_ptr<Library> library_;
};

/// "SM 1980 MHz, memory 3201 MHz"; empty when not known.
[[nodiscard]] std::string clocks_in_words(const std::optional<DeviceState>& state);

/// "draw 310 W, limit 700 W, 41 C"; empty when not known.
[[nodiscard]] std::string power_in_words(const std::optional<DeviceState>& state);

}  // namespace trireme::calibrate::gpu
