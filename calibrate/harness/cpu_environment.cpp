#include "calibrate/harness/cpu_environment.h"

#include <array>
#include <ctime>
#include <fstream>
#include <string>
#include <unistd.h>

#include <fmt/format.h>

#include "sim/core/version.h"

namespace trireme::calibrate {

namespace {

/// The first value of a key in /proc/cpuinfo; empty when there is none.
std::string cpu_info(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return {};
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::gmtime_r(&now, &fields);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &fields);
  return {text.data(), length};
}

Environment cpu_environment(const Placement& placement, const std::string& mpi) {
  Environment found;
  found.date = utc_now();
  found.source = "measured";
  found.hosts = static_cast<std::int64_t>(placement.hosts.size());
  for (const std::string& host : placement.hosts) {
    found.host_names += (found.host_names.empty() ? "" : " ") + host;
  }
  found.device = cpu_info("model name");
  if (found.device.empty()) {
    found.device = "CPU";
  }
  found.devices_per_host = placement.ranks_per_host;
  found.processors = 1;  // a rank computes on one core
  const std::int64_t memory = ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE);
  found.device_memory = Bytes(memory / placement.ranks_per_host);
  if (const std::string clock = cpu_info("cpu MHz"); !clock.empty()) {
    found.clocks = fmt::format("core {} MHz", clock);
  }
  found.mpi = mpi;
  found.compiler = __VERSION__;
  found.commit = version_commit();
  return found;
}

}  // namespace trireme::calibrate
