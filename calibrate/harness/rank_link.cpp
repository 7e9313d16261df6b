#include "calibrate/harness/rank_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unistd.h>

namespace trireme::calibrate {

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    return "unknown";
  }
  return name.data();
}

}  // namespace

void barrier(RankLink& link) {
  static_cast<void>(link.exchange({}));
}

std::string broadcast(RankLink& link, std::int64_t rank, const std::string& message) {
  return link.exchange(link.rank() == rank ? message : std::string())
      .at(static_cast<std::size_t>(rank));
}

std::vector<double> largest(RankLink& link, const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::vector<double> most = values;
  for (const std::string& other : link.exchange(bytes)) {
    ensure(other.size() == bytes.size(), "ranks exchange different things");
    std::vector<double> theirs(values.size());
    std::memcpy(theirs.data(), other.data(), other.size());
    for (std::size_t i = 0; i < most.size(); ++i) {
      most[i] = std::max(most[i], theirs[i]);
    }
  }
  return most;
}

Placement find_placement(RankLink& link) {
  const std::vector<std::string> hosts = link.exchange(host_name());
  Placement placement;
  std::vector<std::int64_t> counts;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto found = std::find(placement.hosts.begin(), placement.hosts.end(), hosts[rank]);
    const auto place = static_cast<std::size_t>(found - placement.hosts.begin());
    if (found == placement.hosts.end()) {
      placement.hosts.push_back(hosts[rank]);
      counts.push_back(0);
    } else if (place + 1 != placement.hosts.size()) {
      placement.uniform = false;  // back to a host that was left
    }
    if (static_cast<std::int64_t>(rank) == link.rank()) {
      placement.local_rank = counts[place];
    }
    ++counts[place];
  }
  placement.ranks_per_host = counts.front();
  placement.uniform =
      placement.uniform && std::all_of(counts.begin(), counts.end(), [&](std::int64_t count) {
        return count == counts.front();
      });
  return placement;
}

}  // namespace trireme::calibrate
