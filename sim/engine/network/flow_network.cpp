#include "sim/engine/network/flow_network.h"

#include <algorithm>
#include <tuple>

namespace trireme::engine {

namespace {

/// Shares that differ by rounding only are one share, and flows whose ends the clock can hardly
/// tell apart end together.
constexpr double kRounding = 1e-12;

/// A sum that has shrunk to this part of itself by subtraction is summed anew.
constexpr double kSumAgain = 1e-4;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr std::uint32_t kNoComponent = std::numeric_limits<std::uint32_t>::max();

/// Ends of components that are gone are cleared out when they are more than the others and this.
constexpr std::size_t kEndsKept = 64;

/// Orders heaps: the least level, or the soonest end, and of those the lowest number on top.
constexpr auto kLeastOnTop = [](const auto& a, const auto& b) {
  return std::tie(a.level, a.id) > std::tie(b.level, b.id);
};
constexpr auto kSoonestOnTop = [](const auto& a, const auto& b) {
  return std::tie(a.time, a.component) > std::tie(b.time, b.component);
};

}  // namespace

LinkId FlowNetwork::add_link(BytesPerSecond capacity) {
  ensure(capacity.value() > 0, "flow network: a link without capacity");
  Link link;
  link.capacity = capacity.value();
  links_.push_back(std::move(link));
  return static_cast<LinkId>(links_.size() - 1);
}

FlowId FlowNetwork::start(std::span<const LinkId> path, Bytes amount, BytesPerSecond cap) {
  const FlowId id = new_flow(path.size(), static_cast<double>(amount.value()), cap.value());
  for (std::size_t i = 0; i < path.size(); ++i) {
    hops_[flows_[id].first_hop + i] = {.link = path[i], .place = 0, .load = 1};
  }
  enter_links(id);
  return id;
}

/// A job that has not entered its links yet. One of no time ends before it could load any.
FlowId FlowNetwork::new_job(std::span<const LinkLoad> loads, Seconds alone) {
  const FlowId id = new_flow(alone > Seconds(0) ? loads.size() : 0, alone.value(), 1);
  const Flow& flow = flows_[id];
  for (std::uint32_t i = 0; i < flow.hops; ++i) {
    hops_[flow.first_hop + i] = {
        .link = loads[i].link,
        .place = 0,
        .load = static_cast<double>(loads[i].amount.value()) / alone.value()};
  }
  return id;
}

FlowId FlowNetwork::start_job(std::span<const LinkLoad> loads, Seconds alone) {
  const FlowId id = new_job(loads, alone);
  Flow& flow = flows_[id];
  double fullest = 0;
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    const double capacity = links_[hops_[hop].link].capacity;
    const double load = std::min(hops_[hop].load, capacity);
    hops_[hop].load = load;
    if (load > fullest * capacity) {
      fullest = load / capacity;
      flow.share = 1 / load;
    }
  }
  enter_links(id);
  return id;
}

FlowId FlowNetwork::start_jobs(std::span<const LinkLoad> loads, Seconds alone, double fullest) {
  ensure(fullest > 0, "flow network: jobs that load no link");
  const FlowId id = new_job(loads, alone);
  Flow& flow = flows_[id];
  double most = 0;
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    const double capacity = links_[hops_[hop].link].capacity;
    if (hops_[hop].load > most * capacity) {
      most = hops_[hop].load / capacity;
      flow.share = 1 / (fullest * capacity);
    }
  }
  enter_links(id);
  return id;
}

FlowId FlowNetwork::new_flow(std::size_t hops, double amount, double cap) {
  ensure(amount >= 0 && cap > 0, "flow network: a flow of nothing");
  FlowId id = static_cast<FlowId>(flows_.size());
  if (free_flows_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_flows_.back();
    free_flows_.pop_back();
  }
  Flow flow;
  flow.hops = static_cast<std::uint32_t>(hops);
  if (hops >= free_hops_.size()) {
    free_hops_.resize(hops + 1);
  }
  if (free_hops_[hops].empty()) {
    flow.first_hop = static_cast<std::uint32_t>(hops_.size());
    hops_.resize(hops_.size() + hops);
  } else {
    flow.first_hop = free_hops_[hops].back();
    free_hops_[hops].pop_back();
  }
  flow.component = kNoComponent;
  flow.order = started_++;
  flow.left = amount;
  flow.since = now_;
  flow.cap = cap;
  flows_[id] = flow;
  ++active_;
  return id;
}

void FlowNetwork::enter_links(FlowId id) {
  const Flow& flow = flows_[id];
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    Link& link = links_[hops_[hop].link];
    hops_[hop].place = static_cast<std::uint32_t>(link.flows.size());
    link.flows.push_back({.flow = id, .hop = hop});
    if (!link.changed) {
      link.changed = true;
      changed_links_.push_back(hops_[hop].link);
    }
  }
  if (flow.hops == 0) {
    const std::uint32_t component = new_component();
    components_[component].flows.push_back(id);
    flows_[id].next_rate = flow.cap;
    apply_rates(component);
  }
}

void FlowNetwork::leave_links(FlowId id) {
  const Flow& flow = flows_[id];
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    Link& link = links_[hops_[hop].link];
    const Use last = link.flows.back();
    link.flows[hops_[hop].place] = last;
    hops_[last.hop].place = hops_[hop].place;
    link.flows.pop_back();
    if (!link.changed) {
      link.changed = true;
      changed_links_.push_back(hops_[hop].link);
    }
  }
  free_hops_[flow.hops].push_back(flow.first_hop);
  free_flows_.push_back(id);
  --active_;
}

std::uint32_t FlowNetwork::new_component() {
  if (free_components_.empty()) {
    components_.emplace_back();
    return static_cast<std::uint32_t>(components_.size() - 1);
  }
  const std::uint32_t id = free_components_.back();
  free_components_.pop_back();
  return id;
}

void FlowNetwork::drop_component(std::uint32_t id) {
  ++components_[id].version;
  components_[id].flows.clear();
  free_components_.push_back(id);
}

void FlowNetwork::share() {
  if (changed_links_.empty()) {
    return;
  }
  ++epoch_;
  for (const LinkId seed : changed_links_) {
    links_[seed].changed = false;
    if (links_[seed].seen == epoch_ || links_[seed].flows.empty()) {
      continue;
    }
    const std::uint32_t id = new_component();
    collect(seed, components_[id]);
    for (const FlowId flow : components_[id].flows) {
      // Flows that start only join components, each of them whole: dropped once, it is empty.
      const std::uint32_t old = flows_[flow].component;
      if (old != kNoComponent && !components_[old].flows.empty()) {
        drop_component(old);
      }
    }
    fill(components_[id]);
    apply_rates(id);
  }
  changed_links_.clear();
}

void FlowNetwork::collect(LinkId seed, Component& component) {
  component_links_.assign(1, seed);
  links_[seed].seen = epoch_;
  for (std::size_t next = 0; next < component_links_.size(); ++next) {
    for (const Use& use : links_[component_links_[next]].flows) {
      Flow& flow = flows_[use.flow];
      if (flow.seen == epoch_) {
        continue;
      }
      flow.seen = epoch_;
      component.flows.push_back(use.flow);
      for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
        Link& link = links_[hops_[hop].link];
        if (link.seen != epoch_) {
          link.seen = epoch_;
          component_links_.push_back(hops_[hop].link);
        }
      }
    }
  }
}

double FlowNetwork::level(LinkId id) {
  Link& link = links_[id];
  if (link.weight <= link.summed * kSumAgain) {
    link.left = link.capacity;
    link.weight = 0;
    for (const Use& use : link.flows) {
      const Flow& flow = flows_[use.flow];
      if (flow.fixed) {
        link.left -= hops_[use.hop].load * flow.next_rate;
      } else {
        link.weight += hops_[use.hop].load * flow.share;
      }
    }
    link.summed = link.weight;
  }
  return link.left / link.weight;
}

void FlowNetwork::fix(FlowId id, double rate) {
  Flow& flow = flows_[id];
  if (flow.fixed) {
    return;
  }
  flow.fixed = true;
  flow.next_rate = rate;
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    Link& link = links_[hops_[hop].link];
    link.left -= hops_[hop].load * rate;
    link.weight -= hops_[hop].load * flow.share;
    --link.unfixed;
  }
}

/// Brings the link of the least level to the top. Levels only rise while flows are fixed at or
/// below them, so that an old one is a lower bound.
void FlowNetwork::refresh_least() {
  while (!filling_.empty()) {
    const Filling top = filling_.front();
    if (links_[top.id].unfixed > 0) {
      const double now = std::max(top.level, level(top.id));
      if (now <= top.level) {
        return;
      }
      std::pop_heap(filling_.begin(), filling_.end(), kLeastOnTop);
      filling_.back().level = now;
      std::push_heap(filling_.begin(), filling_.end(), kLeastOnTop);
    } else {
      std::pop_heap(filling_.begin(), filling_.end(), kLeastOnTop);
      filling_.pop_back();
    }
  }
}

void FlowNetwork::fill(const Component& component) {
  capped_.clear();
  for (const FlowId id : component.flows) {
    Flow& flow = flows_[id];
    flow.fixed = false;
    if (flow.cap < kInfinity) {
      capped_.push_back({.level = flow.cap / flow.share, .id = id});
    }
  }
  std::sort(capped_.begin(), capped_.end(), [](const Filling& a, const Filling& b) {
    return std::tie(a.level, a.id) < std::tie(b.level, b.id);
  });
  filling_.clear();
  for (const LinkId id : component_links_) {
    links_[id].unfixed = static_cast<std::uint32_t>(links_[id].flows.size());
    links_[id].summed = kInfinity;  // to be summed
    filling_.push_back({.level = level(id), .id = id});
  }
  std::make_heap(filling_.begin(), filling_.end(), kLeastOnTop);

  auto next_capped = capped_.begin();
  while (true) {
    refresh_least();
    if (filling_.empty()) {
      return;
    }
    const double least = filling_.front().level;
    const double about_least = least * (1 + kRounding);
    if (next_capped != capped_.end() && next_capped->level <= about_least) {
      for (; next_capped != capped_.end() && next_capped->level <= about_least; ++next_capped) {
        fix(next_capped->id, flows_[next_capped->id].cap);
      }
      continue;
    }
    bottlenecks_.clear();
    for (; !filling_.empty() && filling_.front().level <= about_least; refresh_least()) {
      bottlenecks_.push_back(filling_.front().id);
      std::pop_heap(filling_.begin(), filling_.end(), kLeastOnTop);
      filling_.pop_back();
    }
    for (const LinkId link : bottlenecks_) {
      for (const Use& use : links_[link].flows) {
        fix(use.flow, least * flows_[use.flow].share);
      }
    }
  }
}

void FlowNetwork::apply_rates(std::uint32_t id) {
  double soonest = kInfinity;
  for (const FlowId member : components_[id].flows) {
    Flow& flow = flows_[member];
    flow.component = id;
    if (flow.next_rate != flow.rate) {
      flow.left = std::max(0.0, flow.left - flow.rate * (now_ - flow.since));
      flow.since = now_;
      flow.rate = flow.next_rate;
      flow.end = now_ + flow.left / flow.rate;
    }
    soonest = std::min(soonest, flow.end);
  }
  components_[id].soonest = soonest;
  queue_end(id);
}

void FlowNetwork::queue_end(std::uint32_t id) {
  ends_.push_back(
      {.time = components_[id].soonest, .component = id, .version = components_[id].version});
  const std::size_t under_way = components_.size() - free_components_.size();
  if (ends_.size() > 2 * under_way + kEndsKept) {
    std::erase_if(ends_, [this](const End& end) { return is_gone(end); });
    std::make_heap(ends_.begin(), ends_.end(), kSoonestOnTop);
  } else {
    std::push_heap(ends_.begin(), ends_.end(), kSoonestOnTop);
  }
}

std::optional<Seconds> FlowNetwork::next_end() {
  share();
  return next_end_shared();
}

std::optional<Seconds> FlowNetwork::next_end_shared() {
  while (!ends_.empty() && is_gone(ends_.front())) {
    std::pop_heap(ends_.begin(), ends_.end(), kSoonestOnTop);
    ends_.pop_back();
  }
  return ends_.empty() ? std::nullopt : std::optional(Seconds(ends_.front().time));
}

std::span<const FlowId> FlowNetwork::advance(Seconds time) {
  ensure(time.value() >= now_, "flow network: time goes forward");
  ended_.clear();
  share();
  for (auto end = next_end_shared(); end && *end <= time; end = next_end_shared()) {
    now_ = time.value();
    end_flows_of(ends_.front().component);
  }
  now_ = time.value();
  std::sort(ended_.begin(), ended_.end(), [this](FlowId a, FlowId b) {
    return flows_[a].order < flows_[b].order;
  });
  return ended_;
}

void FlowNetwork::end_flows_of(std::uint32_t id) {
  for (const FlowId member : components_[id].flows) {
    Flow& flow = flows_[member];
    flow.component = kNoComponent;
    const double indistinct = kRounding * std::max(now_, flow.end - flow.since);
    if (flow.end <= now_ + indistinct) {
      ended_.push_back(member);
      leave_links(member);
    }
  }
  drop_component(id);
}

BytesPerSecond FlowNetwork::rate(FlowId flow) {
  share();
  return BytesPerSecond(flows_[flow].rate);
}

double FlowNetwork::speed(FlowId job) {
  share();
  return flows_[job].rate;
}

}  // namespace trireme::engine
