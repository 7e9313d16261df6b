// What measurements say beyond the closed forms of collectives.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/cost/collective_bytes.h"
#include "sim/units/units.h"

namespace trireme::cost {

/// Measured seconds over those of the closed form, at one payload.
struct Residual {
  Bytes payload;  // as the collective's function in collectives.h takes it
  double factor = 1;
};

/// The residuals of one group shape, in ascending order of payload. The last factor is 1, one step
/// beyond the largest measured payload: there the closed form stands alone again.
struct GroupResiduals {
  Group group;
  std::vector<Residual> table;
};

/// By collective; a group shape that was not measured has no table.
struct ResidualTables {
  std::vector<GroupResiduals> all_to_all;
  std::vector<GroupResiduals> all_gather;
  std::vector<GroupResiduals> reduce_scatter;
  std::vector<GroupResiduals> all_reduce;
  std::vector<GroupResiduals> send_recv;
};

/// The factor on the closed form's seconds for a payload on ranks of `group`; 1 where nothing was
/// measured. Smaller payloads than the smallest measured take its factor: there a collective takes
/// its latency, whatever it carries.
///
/// EQ collective-residual: r = r_i^(1 - u) r_j^u,  u = ln(S / S_i) / ln(S_j / S_i)
///   r    factor on the seconds of the closed form                            [1]
///   S    payload                                                             [bytes]
///   S_i, r_i  the last row of the table that is not above S                  [bytes, 1]
///   S_j, r_j  the row after it                                               [bytes, 1]
/// Source: fit_forms, section 1 ("C1 x log-log table of residuals")
/// Valid:  the measured group shapes only; held-out error 2.7 % (median) at 4 KB to 1 MB and 2.6 %
///   at 1 MB to 512 MB, where the closed form alone has 4 to 5 %. Nothing is extrapolated: the
///   table ends with 1.
/// Tests:  tests/unit/cost/residuals_test.cpp
[[nodiscard]] inline double residual_factor(const std::vector<GroupResiduals>& tables,
                                            Group group,
                                            Bytes payload) {
  const auto of_group = std::find_if(tables.begin(), tables.end(), [&](const GroupResiduals& g) {
    return g.group.ranks == group.ranks && g.group.ranks_per_node == group.ranks_per_node;
  });
  if (of_group == tables.end() || of_group->table.empty()) {
    return 1;
  }
  const std::vector<Residual>& table = of_group->table;
  if (payload <= table.front().payload) {
    return table.front().factor;
  }
  if (payload >= table.back().payload) {
    return table.back().factor;
  }
  const auto above =
      std::upper_bound(table.begin(), table.end(), payload, [](Bytes value, const Residual& row) {
        return value < row.payload;
      });
  const auto below = above - 1;
  const double share =
      std::log(ratio(payload, below->payload)) / std::log(ratio(above->payload, below->payload));
  return std::pow(below->factor, 1 - share) * std::pow(above->factor, share);
}

}  // namespace trireme::cost
