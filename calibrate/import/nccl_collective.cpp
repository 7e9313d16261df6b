#include "calibrate/import/nccl_collective.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trireme::calibrate {

namespace {

// Columns: name, kind, split, bus factor, reduces, root, in place.
// hypercube prints a reduction "" and compares nothing in place, as alltoall of older versions
// does; it is known by name only.
constexpr std::array kCollectives = {
    NcclCollective{"all_reduce", CollectiveKind::all_reduce, false, 2, true, false, true},
    NcclCollective{"all_gather", CollectiveKind::all_gather, true, 1, false, false, true},
    NcclCollective{"reduce_scatter", CollectiveKind::reduce_scatter, true, 1, true, false, true},
    NcclCollective{"alltoall", CollectiveKind::all_to_all, true, 1, false, false, false},
    NcclCollective{"sendrecv", CollectiveKind::send_recv, false, 0, true, false, false},
    NcclCollective{"broadcast", std::nullopt, false, 0, false, true, true},
    NcclCollective{"reduce", std::nullopt, false, 0, true, true, true},
    NcclCollective{"gather", std::nullopt, true, 1, false, true, true},
    NcclCollective{"scatter", std::nullopt, true, 1, false, true, true},
    NcclCollective{"hypercube", std::nullopt, true, 0, false, false, false},
    NcclCollective{"alltoallv", std::nullopt, true, 1, false, false, false},
};

/// The same as a power of ten times a half: wide enough for any count of GPUs that exists.
constexpr double kMostRanks = 1e9;

Interval bus_over_algorithm(const NcclRow& row, const NcclTiming& timing) {
  const Interval algorithm = algorithm_bandwidth(row, timing);
  const Interval bus = timing.bus_bandwidth.range;
  return with_rounding({bus.low / algorithm.high, bus.high / algorithm.low});
}

template <class Use>
void for_each_timing(const NcclRow& row, const Use& use) {
  if (row.out_of_place) {
    use(*row.out_of_place);
  }
  if (row.in_place) {
    use(*row.in_place);
  }
}

/// The ranks whose bus ratio lies in `ratio`: n = c / (c - ratio).
RankRange ranks_of_ratio(const NcclCollective& collective, const Interval& ratio) {
  const double factor = collective.bus_factor;
  RankRange range;
  if (ratio.low >= factor) {
    return {2, 1};  // more than any number of ranks reaches
  }
  const double least = std::ceil(factor / (factor - ratio.low) * (1 - 1e-12));
  range.least = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(least, kMostRanks)));
  if (ratio.high < factor) {
    const double most = std::floor(factor / (factor - ratio.high) * (1 + 1e-12));
    range.most = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(most, kMostRanks)));
  }
  return range;
}

RankRange both(const RankRange& a, const RankRange& b) {
  RankRange range{std::max(a.least, b.least), std::max(a.most, b.most)};
  if (a.most != 0 && b.most != 0) {
    range.most = std::min(a.most, b.most);
  }
  return range;
}

/// The ranks that size, count and type of a row speak of; empty when they speak of none.
RankRange ranks_of_count(const NcclCollective& collective, const NcclRow& row) {
  const std::int64_t element = width(row.type);
  if (row.count <= 0 || row.count > std::numeric_limits<std::int64_t>::max() / element ||
      row.size % (row.count * element) != 0) {
    return {2, 1};
  }
  const std::int64_t parts = row.size / (row.count * element);
  if (!collective.split) {
    return parts == 1 ? RankRange{} : RankRange{2, 1};
  }
  return {parts, parts};
}

}  // namespace

std::span<const NcclCollective> nccl_collectives() {
  return kCollectives;
}

const NcclCollective* find_nccl_collective(std::string_view name) {
  const auto* const found =
      std::find_if(kCollectives.begin(), kCollectives.end(), [&](const NcclCollective& row) {
        return row.name == name;
      });
  return found == kCollectives.end() ? nullptr : found;
}

double bus_ratio(const NcclCollective& collective, std::int64_t ranks) {
  if (collective.bus_factor == 0) {
    return 1;
  }
  return collective.bus_factor * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

bool has_shape_of(const NcclCollective& collective,
                  const NcclRow& row,
                  const std::optional<TableColumns>& columns) {
  const bool reduces = !row.reduction.empty() && row.reduction != "none";
  if (collective.name == "hypercube" || collective.name == "alltoallv" ||
      reduces != collective.reduces) {
    return false;
  }
  // Tables of older versions have the columns that their collective needs: all_gather no reduction,
  // alltoall an empty one.
  const bool blank_reduction = columns && columns->reduction && row.reduction.empty();
  const bool no_reduction_column = columns && !columns->reduction;
  if ((collective.name == "all_gather" && blank_reduction) ||
      (collective.name == "alltoall" && no_reduction_column)) {
    return false;
  }
  if (row.root ? collective.has_root != (*row.root >= 0) : collective.has_root) {
    return false;
  }
  const bool out_of_place_compared =
      row.out_of_place && row.out_of_place->check != DataCheck::not_done;
  if (row.in_place && out_of_place_compared) {
    return row.in_place->check != (collective.in_place ? DataCheck::not_done : DataCheck::right);
  }
  return true;
}

bool count_agrees(const NcclCollective& collective, const NcclRow& row, std::int64_t ranks) {
  const RankRange range = ranks_of_count(collective, row);
  return range.least <= ranks && (range.most == 0 || ranks <= range.most);
}

bool bandwidths_agree(const NcclCollective& collective, const NcclRow& row, std::int64_t ranks) {
  const double ratio = bus_ratio(collective, ranks);
  bool agree = true;
  for_each_timing(row, [&](const NcclTiming& timing) {
    const Interval algorithm = algorithm_bandwidth(row, timing);
    const Interval expected = with_rounding({algorithm.low * ratio, algorithm.high * ratio});
    agree &= !intersection(expected, timing.bus_bandwidth.range).empty();
  });
  return agree;
}

RankRange ranks_by_columns(const NcclCollective& collective, const std::vector<NcclRow>& rows) {
  RankRange range;
  for (const NcclRow& row : rows) {
    range = both(range, ranks_of_count(collective, row));
    for_each_timing(row, [&](const NcclTiming& timing) {
      const Interval ratio = bus_over_algorithm(row, timing);
      if (collective.bus_factor != 0) {
        range = both(range, ranks_of_ratio(collective, ratio));
      } else if (intersection(ratio, {1, 1}).empty()) {
        range = {2, 1};
      }
    });
    if (range.empty()) {
      return {2, 1};
    }
  }
  return range;
}

}  // namespace trireme::calibrate
