// What a collective sends and receives, per rank: exact integers, no hardware.
//
// The bytes are those of the ideal algorithm, whatever a library picks. A payload that does not
// divide by the group is cut into chunks of whole elements, so that ranks may differ by an element
// per chunk; over the group, bytes sent equal bytes received, also of the part that leaves a node.
#pragma once

#include <cstdint>
#include <span>

#include "sim/units/units.h"

namespace trireme::cost {

/// The ranks of one collective and how many of them share a node. Ranks of a node are neighbours
/// in the group's order; `ranks` is a multiple of `ranks_per_node`.
struct Group {
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 1;
};

/// Bytes of one rank; the off-node parts are included in the totals.
struct CollectiveBytes {
  Bytes sent = Bytes(0);
  Bytes received = Bytes(0);
  Bytes sent_off_node = Bytes(0);
  Bytes received_off_node = Bytes(0);

  friend bool operator==(const CollectiveBytes&, const CollectiveBytes&) = default;
};

/// Elements in chunk `index` of `total` elements cut into `count` chunks. Pure; `count` >= 1.
///
/// EQ chunk-elements: E = floor(T / n) + (i < T mod n ? 1 : 0)
///   T  total: elements of the payload                             [elements]
///   n  count: chunks                                              [1]
///   i  index: of the chunk, from 0                                [1]
///   E  result: the first T mod n chunks hold one element more     [elements]
/// Source: pytorch, the rule of torch.tensor_split
/// Valid:  whole elements; a framework that pads instead states the padded payload
/// Tests:  tests/unit/cost/collective_bytes_test.cpp
[[nodiscard]] constexpr Elements chunk_elements(Elements total,
                                                std::int64_t count,
                                                std::int64_t index) {
  return Elements(total.value() / count + (index < total.value() % count ? 1 : 0));
}

/// All-gather of `gathered` elements (the whole, as every rank holds it afterwards).
/// `position` is the rank's place in the group, from 0. Throws std::logic_error on an empty group.
[[nodiscard]] CollectiveBytes all_gather_bytes(Elements gathered,
                                               ElementType type,
                                               Group group,
                                               std::int64_t position);

/// Reduce-scatter of `reduced` elements (the whole, as every rank holds it before).
[[nodiscard]] CollectiveBytes reduce_scatter_bytes(Elements reduced,
                                                   ElementType type,
                                                   Group group,
                                                   std::int64_t position);

/// All-reduce of `reduced` elements, as a reduce-scatter and an all-gather on one ring.
[[nodiscard]] CollectiveBytes all_reduce_bytes(Elements reduced,
                                               ElementType type,
                                               Group group,
                                               std::int64_t position);

/// All-to-all of `exchanged` elements over all ranks (each holds one chunk and keeps a chunk of
/// it).
[[nodiscard]] CollectiveBytes all_to_all_bytes(Elements exchanged,
                                               ElementType type,
                                               Group group,
                                               std::int64_t position);

/// One hop of a ring: a block of `block` elements goes to the rank `shift` positions further on,
/// and one comes from as far back. Nothing in a group of one rank.
[[nodiscard]] CollectiveBytes ring_hop_bytes(
    Elements block, ElementType type, Group group, std::int64_t position, std::int64_t shift);

/// All-to-all with a count of its own for every peer: what `position` sends to and receives from
/// each rank of the group (its own entry stays on the rank). Both spans have `group.ranks` entries.
[[nodiscard]] CollectiveBytes uneven_all_to_all_bytes(std::span<const Elements> to_peer,
                                                      std::span<const Elements> from_peer,
                                                      ElementType type,
                                                      Group group,
                                                      std::int64_t position);

}  // namespace trireme::cost
