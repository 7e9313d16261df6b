// Where and when something was measured: what else the numbers depend on.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/units/units.h"

namespace trireme::calibrate {

/// Whether a device had been busy for seconds when it was measured: its clock follows its power.
enum class Load : std::uint8_t { not_stated, burst, sustained };
inline constexpr std::array<std::string_view, 3> kLoadNames = {"not_stated", "burst", "sustained"};

/// A row of environments.csv. A text that is empty and a number that is zero are not known.
struct Environment {
  std::string key;     // what the rows of measurements name
  std::string date;    // UTC: "2026-11-30T13:25:29Z", or a day alone
  std::string source;  // "measured", or the log or publication that the rows come from
  std::int64_t hosts = 1;
  std::string host_names;  // space-separated
  std::string device;      // "NVIDIA H200", or a processor's name
  std::int64_t devices_per_host = 0;
  std::int64_t processors = 0;  // of one device: streaming multiprocessors, cores of a rank's CPU
  Bytes device_memory;          // that one rank can use
  std::string clocks;           // "SM 1980 MHz, memory 3201 MHz"
  std::string power;            // "draw 310 W, limit 700 W"
  Load load = Load::not_stated;
  std::string driver;
  std::string cuda;
  std::string nccl;
  std::string cudnn;
  std::string mpi;
  std::string compiler;
  std::string commit;  // of trireme-calibrate
};

}  // namespace trireme::calibrate
