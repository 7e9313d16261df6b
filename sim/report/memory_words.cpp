#include "sim/report/memory_words.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "sim/report/numbers.h"

namespace trireme::report {

std::string words(std::string_view name_with_underscores) {
  std::string text(name_with_underscores);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string range_in_gibibytes(const ledger::DeviceMemory& device) {
  return fmt::format("{}-{}", gibibytes(device.total_low()), gibibytes(device.total_high()));
}

std::string largest_items(const ledger::MemoryLedger& memory) {
  constexpr std::size_t kItemsNamed = 3;
  std::array<std::size_t, kMemoryItemNames.size()> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return memory.by_item[a] > memory.by_item[b];
  });
  std::string largest;
  for (std::size_t i = 0; i < kItemsNamed; ++i) {
    largest += fmt::format("{}{} {} GiB",
                           i == 0 ? "" : ", ",
                           words(kMemoryItemNames[order[i]]),
                           gibibytes(memory.by_item[order[i]]));
  }
  return largest;
}

std::string memory_in_words(const ledger::MemoryLedger& memory,
                            const ledger::DeviceMemory& device,
                            Bytes capacity) {
  return fmt::format(
      "needs {} to {} GiB of {} GiB: {} allocated, {} to {} reserved, {} outside the allocator; "
      "fullest in ({}), where the largest items are {}",
      gibibytes(device.total_low()),
      gibibytes(device.total_high()),
      gibibytes(capacity),
      gibibytes(memory.allocated),
      gibibytes(device.reserved_low),
      gibibytes(device.reserved_high),
      gibibytes(device.outside_allocator()),
      memory.instant,
      largest_items(memory));
}

std::string host_in_words(const ledger::HostMemory& host) {
  return fmt::format("needs {} GiB of a node's host memory of {} GiB",
                     gibibytes(host.per_node),
                     gibibytes(*host.capacity));
}

std::string in_words(const ledger::Lever& lever) {
  const auto then = [&]() -> std::string_view {
    switch (lever.verdict) {
      case ledger::Verdict::fits:
        return "and the plan fits";
      case ledger::Verdict::tight:
        return "and the plan is tight";
      case ledger::Verdict::does_not_fit:
      case ledger::Verdict::illegal:
        return "which is not enough";
    }
    return "";
  };
  return fmt::format(
      "next lever: '{}' saves {} GiB, {}", lever.change, gibibytes(lever.saves), then());
}

std::string wall_sentence(const ledger::MemoryWall& wall) {
  std::string text = fmt::format("memory wall of {}: ", wall.plan);
  if (wall.last_that_fits) {
    text += fmt::format("{} {} fits", wall.key, wall.last_that_fits->text);
    if (wall.first_tight) {
      text += fmt::format(", {} is tight", wall.first_tight->text);
    }
    return wall.first_that_does_not
               ? text + fmt::format(", {} does not", wall.first_that_does_not->text)
               : text;
  }
  const std::string& first =
      wall.first_tight ? wall.first_tight->text : wall.first_that_does_not->text;
  text += fmt::format("not even {} {} fits", wall.key, first);
  if (wall.first_tight) {
    text += ", which is tight";
    if (wall.first_that_does_not) {
      text += fmt::format("; {} does not", wall.first_that_does_not->text);
    }
  }
  return text;
}

}  // namespace trireme::report
