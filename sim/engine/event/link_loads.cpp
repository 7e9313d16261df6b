#include "sim/engine/event/link_loads.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sim/cost/collectives.h"
#include "sim/engine/collective_payload.h"
#include "sim/engine/network/nccl_algorithm.h"
#include "sim/engine/placement.h"

namespace trireme::engine {

using program::AxisMask;
using program::Mesh;
using program::Op;

namespace {

/// Faster than anything that a profile says is reached on it.
constexpr BytesPerSecond kFastest{1e300};

AxisMask others(const Mesh& mesh, AxisMask group) {
  return static_cast<AxisMask>(mesh.all_axes() & ~group);
}

/// The ranks of a rank's group, in the group's order.
std::vector<std::int64_t> group_of(const Mesh& mesh, AxisMask group, std::int64_t rank) {
  const std::int64_t place = mesh.position(rank, group);
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(mesh.group_size(group)));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i] = ring_neighbour(mesh, group, rank, static_cast<std::int64_t>(i) - place);
  }
  return ranks;
}

bool is_collective(const Op& op) {
  return op.function == program::Function::collective;
}

cost::LinkRates rates_of(const program::Program& program, const Op& op, const Machine& machine) {
  const cost::Group group = place(program.mesh(), op.group, machine.gpus_per_node);
  const ElementType type = program.tensor(program.operands(op)[0].ref.tensor).type;
  return formulas(op.collective).link_rates(type, group, machine.nic_rate, machine.costs);
}

}  // namespace

TopologyShape links_of_machine(const Machine& machine, std::int64_t ranks) {
  if (machine.topology) {
    return *machine.topology;
  }
  TopologyShape shape;
  shape.gpus_per_node = machine.gpus_per_node;
  shape.nodes = ceil_div(ranks, machine.gpus_per_node);
  shape.link_per_gpu = kFastest;
  shape.nics_per_node = machine.gpus_per_node;
  shape.nic = machine.nic_rate > BytesPerSecond(0) ? machine.nic_rate : kFastest;
  return shape;
}

std::vector<std::uint32_t> alignment_to_pods(std::span<const program::Program> stages,
                                             const TopologyShape& shape) {
  const Mesh& mesh = stages.front().mesh();
  std::vector<std::uint32_t> kind(static_cast<std::size_t>(mesh.ranks()), 0);
  if (shape.pods() == 1) {
    return kind;
  }
  const std::int64_t pod = shape.nodes_per_leaf * shape.gpus_per_node;
  std::vector<AxisMask> groups;
  for (const program::Program& program : stages) {
    for (const Op& op : program.ops()) {
      if (is_collective(op) && std::find(groups.begin(), groups.end(), op.group) == groups.end()) {
        groups.push_back(op.group);
      }
    }
  }
  for (const AxisMask group : groups) {
    const AxisMask outside = others(mesh, group);
    const auto count = static_cast<std::size_t>(mesh.group_size(outside));
    std::vector<std::vector<std::int64_t>> per_pod(count);  // of each group its ranks in each pod
    std::vector<std::int64_t> last_pod(count, -1);
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      const auto at = static_cast<std::size_t>(mesh.position(rank, outside));
      if (last_pod[at] != rank / pod) {  // ranks come pod by pod
        last_pod[at] = rank / pod;
        per_pod[at].push_back(0);
      }
      ++per_pod[at].back();
    }
    std::map<std::vector<std::int64_t>, std::uint32_t> ways_to_lie;
    std::vector<std::uint32_t> lies(count);
    for (std::size_t at = 0; at < count; ++at) {
      std::sort(per_pod[at].begin(), per_pod[at].end());
      lies[at] =
          ways_to_lie
              .try_emplace(std::move(per_pod[at]), static_cast<std::uint32_t>(ways_to_lie.size()))
              .first->second;
    }
    if (ways_to_lie.size() == 1) {
      continue;
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
    for (std::size_t rank = 0; rank < kind.size(); ++rank) {
      const auto at =
          static_cast<std::size_t>(mesh.position(static_cast<std::int64_t>(rank), outside));
      kind[rank] =
          numbers.try_emplace({kind[rank], lies[at]}, static_cast<std::uint32_t>(numbers.size()))
              .first->second;
    }
  }
  return kind;
}

/// Fills the tables of LinkLoads.
class LinkLoads::Finder {
 public:
  Finder(LinkLoads& found,
         const Schedule& schedule,
         const Machine& machine,
         const RankClasses& classes,
         const Meetings& meetings)
      : found_(found),
        schedule_(schedule),
        mesh_(schedule.program().mesh()),
        machine_(machine),
        classes_(classes),
        meetings_(meetings),
        topology_(links_of_machine(machine, schedule.program().mesh().ranks())),
        near_(topology_, classes.first_rank) {}

  void run(std::span<const Seconds> alone) {
    ensure(mesh_.ranks() <= topology_.shape().gpus(), "link loads: more ranks than GPUs");
    find_ways(alone);
    found_.members_ = std::max<std::size_t>(meetings_.size(), classes_.first_rank.size());
    for (std::uint32_t way = 0; way < ways_.size(); ++way) {
      ways_[way].algorithm == nullptr ? add_hops(way) : add_groups(way);
    }
    number_links();
  }

 private:
  /// A link's load by what is in flight in one way for one meeting, or class.
  struct Entry {
    LinkId link = 0;
    std::uint32_t way = 0;
    std::uint32_t member = 0;
    Bytes of_one;  // group: the largest
    Bytes of_all;

    [[nodiscard]] auto key() const { return std::tie(link, way, member); }

    /// What makes links differ.
    [[nodiscard]] std::array<std::int64_t, 3> mark() const {
      return {static_cast<std::int64_t>(way) << 32 | member, of_one.value(), of_all.value()};
    }
  };

  void find_ways(std::span<const Seconds> alone) {
    found_.scale_of_op_.resize(schedule_.ops());
    std::vector<bool> known(schedule_.ops());
    for (const Task& task : schedule_.tasks()) {
      const program::Program& program = schedule_.program_of(task);
      const Op& op = schedule_.op_of(task);
      if (!is_collective(op) || known[task.op]) {
        continue;
      }
      known[task.op] = true;
      const Way way = way_of(task.slot, program, op);
      auto at = std::find(ways_.begin(), ways_.end(), way);
      if (at == ways_.end()) {
        ways_.push_back(way);
        at = ways_.end() - 1;
      }
      Scale& scale = found_.scale_of_op_[task.op];
      scale.way = static_cast<std::uint32_t>(at - ways_.begin());
      if (alone[task.op] > Seconds(0)) {
        const double rate_asked =
            static_cast<double>(payload_bytes(program, op).value()) / alone[task.op].value();
        const cost::LinkRates rates = rates_of(program, op, machine_);
        scale.of[Rate::inside] =
            rate_asked / rates.inside.value_or(topology_.shape().link_per_gpu).value();
        scale.of[Rate::nic] = rate_asked / rates.nic.value_or(kFastest).value();
        scale.of[Rate::spine] = rate_asked;
      }
    }
  }

  [[nodiscard]] Way way_of(StreamSlot slot, const program::Program& program, const Op& op) const {
    if (meets_neighbours(op)) {
      return {slot, nullptr, op.shift};
    }
    const cost::Group group = place(mesh_, op.group, machine_.gpus_per_node);
    const ElementType type = program.tensor(program.operands(op)[0].ref.tensor).type;
    const Algorithm& algorithm =
        sending_algorithm(op.collective,
                          payload_bytes(program, op),
                          group,
                          cost::reduces_in_switches(type, group, machine_.costs),
                          topology_.shape(),
                          machine_.nccl);
    const std::vector<std::int64_t> first = group_of(mesh_, op.group, 0);
    return {
        slot,
        algorithm.applies(first, topology_) ? &algorithm : &usual_algorithm(op.collective, false),
        0};
  }

  void add(std::uint32_t way, std::uint32_t member, const LinkLoad& load) {
    const auto key = std::tuple(load.link, way, member);
    const auto [at, is_new] = place_.try_emplace(key, entries_.size());
    if (is_new) {
      entries_.push_back({load.link, way, member, Bytes(0), Bytes(0)});
    }
    Entry& entry = entries_[at->second];
    entry.of_one = std::max(entry.of_one, load.amount);
    entry.of_all += load.amount;
  }

  /// A payload that all algorithms cut without a remainder.
  [[nodiscard]] Bytes nominal(AxisMask group) const {
    const cost::Group placed = place(mesh_, group, machine_.gpus_per_node);
    return Bytes(placed.ranks * placed.ranks * placed.ranks_per_node);
  }

  void add_groups(std::uint32_t way) {
    const AxisMask group = schedule_.group_of(ways_[way].slot);
    const AxisMask outside = others(mesh_, group);
    payload_.push_back(nominal(group));
    std::vector<bool> seen(static_cast<std::size_t>(mesh_.group_size(outside)));
    for (const std::int64_t rank : near_.list()) {
      if (rank >= mesh_.ranks()) {
        return;  // a GPU of the last node that the plan leaves idle
      }
      const auto number = static_cast<std::size_t>(mesh_.position(rank, outside));
      if (seen[number]) {
        continue;
      }
      seen[number] = true;
      const std::uint32_t meeting = meetings_.of(class_of(rank), ways_[way].slot);
      for (const LinkLoad& load : near_loads(*ways_[way].algorithm,
                                             payload_[way],
                                             group_of(mesh_, group, rank),
                                             topology_,
                                             near_)) {
        add(way, meeting, load);
      }
    }
  }

  void add_hops(std::uint32_t way) {
    const AxisMask group = schedule_.group_of(ways_[way].slot);
    payload_.push_back(Bytes(1));
    const auto send = [&](std::int64_t from, std::int64_t to) {
      const Route route = topology_.route(from, to);
      for (const LinkId link : route.links()) {
        if (near_.has_link(link)) {
          add(way, class_of(from), {link, payload_[way]});
        }
      }
    };
    for (const std::int64_t rank : near_.list()) {
      if (rank >= mesh_.ranks()) {
        return;
      }
      send(rank, ring_neighbour(mesh_, group, rank, ways_[way].shift));
      const std::int64_t before = ring_neighbour(mesh_, group, rank, -ways_[way].shift);
      if (!near_.has(before)) {
        send(before, rank);
      }
    }
  }

  [[nodiscard]] std::uint32_t class_of(std::int64_t rank) const {
    return classes_.class_of_rank[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] Rate rate_of(LinkId link) const {
    switch (topology_.kind(link)) {
      case LinkKind::nvlink:
      case LinkKind::pcie:
        return Rate::inside;
      case LinkKind::nic:
        return Rate::nic;
      case LinkKind::spine:
        return Rate::spine;
    }
    return Rate::spine;
  }

  /// The part of what a rank has of such links that one of them is; of the spine its capacity.
  [[nodiscard]] double part_of_rate(LinkId link) const {
    const double capacity = topology_.capacity(link).value();
    switch (rate_of(link)) {
      case Rate::inside:
        return capacity / topology_.shape().link_per_gpu.value();
      case Rate::nic:
        return capacity / topology_.shape().nic.value() *
               static_cast<double>(topology_.shape().gpus_per_nic());
      case Rate::spine:
        return capacity;
    }
    return capacity;
  }

  /// Makes one link of those that are loaded alike, and sorts loads by who sends.
  void number_links() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.key() < b.key();
    });
    std::vector<std::vector<Load>> by_sender(ways_.size() * found_.members_);
    std::map<std::pair<Rate, std::vector<std::array<std::int64_t, 3>>>, std::uint32_t> numbers;
    for (auto first = entries_.begin(); first != entries_.end();) {
      const LinkId link = first->link;
      const auto end =
          std::find_if(first, entries_.end(), [&](const Entry& e) { return e.link != link; });
      std::vector<std::array<std::int64_t, 3>> marks;
      std::transform(
          first, end, std::back_inserter(marks), [](const Entry& entry) { return entry.mark(); });
      const auto [at, is_new] =
          numbers.try_emplace({rate_of(link), std::move(marks)}, found_.links_);
      if (is_new) {
        ++found_.links_;
        for (auto entry = first; entry != end; ++entry) {
          by_sender[entry->way * found_.members_ + entry->member].push_back(
              {at->second,
               rate_of(link),
               ratio(entry->of_one, payload_[entry->way]) / part_of_rate(link),
               ratio(entry->of_all, entry->of_one)});
        }
      }
      first = end;
    }
    for (const std::vector<Load>& loads : by_sender) {
      found_.ranges_.push_back({static_cast<std::uint32_t>(found_.loads_.size()),
                                static_cast<std::uint32_t>(loads.size())});
      found_.loads_.insert(found_.loads_.end(), loads.begin(), loads.end());
    }
  }

  struct KeyHash {
    std::size_t operator()(const std::tuple<LinkId, std::uint32_t, std::uint32_t>& key) const {
      const auto [link, way, member] = key;
      return (std::size_t{link} * 1'000'003U + way) * 1'000'003U + member;
    }
  };

  LinkLoads& found_;
  const Schedule& schedule_;
  const Mesh& mesh_;
  const Machine& machine_;
  const RankClasses& classes_;
  const Meetings& meetings_;
  Topology topology_;
  NearGpus near_;
  std::vector<Way> ways_;
  std::vector<Bytes> payload_;  // of each way, whose loads are found
  std::vector<Entry> entries_;
  std::unordered_map<std::tuple<LinkId, std::uint32_t, std::uint32_t>, std::size_t, KeyHash> place_;
};

LinkLoads::LinkLoads(const Schedule& schedule,
                     const Machine& machine,
                     const RankClasses& classes,
                     const Meetings& meetings,
                     std::span<const Seconds> alone) {
  Finder(*this, schedule, machine, classes, meetings).run(alone);
}

double LinkLoads::fullest(std::uint32_t member, std::uint32_t op) const {
  double fullest = 0;
  for (const Load& load : loads(member, op)) {
    fullest = std::max(fullest, std::min(1.0, load.bytes * scale_of_op_[op].of[load.rate]));
  }
  return fullest;
}

}  // namespace trireme::engine
