// Who meets whom in the collectives of a schedule.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/engine/event/rank_classes.h"
#include "sim/engine/event/schedule.h"

namespace trireme::engine {

inline constexpr std::uint32_t kNoMeeting = std::numeric_limits<std::uint32_t>::max();

/// The classes of ranks that meet in the collectives of each communicator. Groups whose ranks are
/// of the same classes are one meeting.
class Meetings {
 public:
  Meetings(const Schedule& schedule, const RankClasses& classes);

  [[nodiscard]] std::uint32_t size() const {
    return static_cast<std::uint32_t>(first_member_.size() - 1);
  }

  /// The meeting of a class on a communicator's stream; kNoMeeting on other streams.
  [[nodiscard]] std::uint32_t of(std::uint32_t who, StreamSlot slot) const {
    return meeting_of_[who * slots_ + slot];
  }

  /// Ascending, each once.
  [[nodiscard]] std::span<const std::uint32_t> members(std::uint32_t meeting) const {
    return std::span(members_).subspan(first_member_[meeting],
                                       first_member_[meeting + 1] - first_member_[meeting]);
  }

  /// The class at a class' place in another stage.
  [[nodiscard]] std::uint32_t peer(std::uint32_t who, std::int64_t stage) const {
    return peers_[who * stages_ + static_cast<std::size_t>(stage)];
  }

  /// As `peer`, as a list of one.
  [[nodiscard]] std::span<const std::uint32_t> peer_at(std::uint32_t who,
                                                       std::int64_t stage) const {
    return std::span(peers_).subspan(who * stages_ + static_cast<std::size_t>(stage), 1);
  }

  /// Hops of one distance on one communicator.
  struct Ring {
    StreamSlot slot = 0;
    std::int64_t shift = 1;

    friend bool operator==(const Ring&, const Ring&) = default;
  };

  [[nodiscard]] std::span<const Ring> rings() const { return rings_; }

  /// The number of the ring around which an operation on a stream hops.
  [[nodiscard]] std::uint32_t ring_of(StreamSlot slot, const program::Op& hop) const;

  /// The classes that a class' arrival at a hop lets go on: itself and its neighbours on the ring.
  [[nodiscard]] std::span<const std::uint32_t> neighbours(std::uint32_t who,
                                                          std::uint32_t ring) const {
    const std::size_t place = who * rings_.size() + ring;
    return std::span(neighbours_)
        .subspan(first_neighbour_[place], first_neighbour_[place + 1] - first_neighbour_[place]);
  }

  /// Of how many classes a class and its ring neighbours are.
  [[nodiscard]] std::uint8_t ring_partners(std::uint32_t who, std::uint32_t ring) const {
    return ring_partners_[who * rings_.size() + ring];
  }

 private:
  void meet(StreamSlot slot,
            program::AxisMask group,
            const RankClasses& classes,
            const program::Mesh& mesh);
  void find_rings(const Schedule& schedule);
  void find_partners(const Schedule& schedule, const RankClasses& classes);

  std::size_t slots_;
  std::size_t stages_;
  std::vector<std::uint32_t> peers_;  // by class and stage
  std::vector<std::uint32_t> meeting_of_;
  std::vector<std::uint32_t> first_member_{0};
  std::vector<std::uint32_t> members_;
  std::vector<Ring> rings_;
  std::vector<std::uint32_t> first_neighbour_;  // by class and ring
  std::vector<std::uint32_t> neighbours_;
  std::vector<std::uint8_t> ring_partners_;
};

}  // namespace trireme::engine
