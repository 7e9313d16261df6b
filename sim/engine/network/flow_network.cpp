#include "sim/engine/network/flow_network.h"

#include <algorithm>
#include <limits>

namespace trireme::engine {

namespace {

/// Shares that differ by rounding only are one share, and flows whose ends the clock can hardly
/// tell apart end together.
constexpr double kRounding = 1e-12;

}  // namespace

LinkId FlowNetwork::add_link(BytesPerSecond capacity) {
  ensure(capacity.value() > 0, "flow network: a link without capacity");
  links_.push_back({.capacity = capacity.value()});
  return static_cast<LinkId>(links_.size() - 1);
}

FlowId FlowNetwork::start(std::span<const LinkId> path, Bytes amount) {
  Flow flow;
  flow.first_hop = static_cast<std::uint32_t>(hops_.size());
  flow.hops = static_cast<std::uint32_t>(path.size());
  flow.left = static_cast<double>(amount.value());
  hops_.insert(hops_.end(), path.begin(), path.end());
  flows_.push_back(flow);
  active_.push_back(static_cast<FlowId>(flows_.size() - 1));
  shared_ = false;
  return active_.back();
}

void FlowNetwork::list_flows_by_link() {
  for (Link& link : links_) {
    link.left = link.capacity;
    link.unfixed = 0;
  }
  for (const FlowId flow : active_) {
    for (const LinkId link : path(flows_[flow])) {
      ++links_[link].unfixed;
    }
  }
  std::uint32_t next = 0;
  filling_.clear();
  for (LinkId id = 0; id < links_.size(); ++id) {
    links_[id].first_flow = next;
    next += links_[id].unfixed;
    if (links_[id].unfixed > 0) {
      filling_.push_back(id);
    }
  }
  flow_of_link_.resize(next);
  for (const FlowId flow : active_) {
    for (const LinkId link : path(flows_[flow])) {
      flow_of_link_[links_[link].first_flow++] = flow;
    }
  }
}

void FlowNetwork::fix(FlowId id, double rate) {
  if (fixed_[id] != 0) {
    return;
  }
  fixed_[id] = 1;
  flows_[id].rate = rate;
  for (const LinkId link : path(flows_[id])) {
    links_[link].left -= rate;
    --links_[link].unfixed;
  }
}

void FlowNetwork::share() {
  if (shared_) {
    return;
  }
  shared_ = true;
  list_flows_by_link();
  fixed_.assign(flows_.size(), 0);
  for (const FlowId flow : active_) {
    if (flows_[flow].hops == 0) {
      flows_[flow].rate = std::numeric_limits<double>::infinity();
    }
  }
  std::vector<LinkId> bottlenecks;
  while (!filling_.empty()) {
    double least = std::numeric_limits<double>::infinity();
    for (const LinkId id : filling_) {
      least = std::min(least, links_[id].left / links_[id].unfixed);
    }
    bottlenecks.clear();
    for (const LinkId id : filling_) {
      if (links_[id].left / links_[id].unfixed <= least * (1 + kRounding)) {
        bottlenecks.push_back(id);
      }
    }
    for (const LinkId id : bottlenecks) {
      // `first_flow` was moved to the end of the link's flows when they were listed.
      const std::uint32_t end = links_[id].first_flow;
      const std::uint32_t begin = id == 0 ? 0 : links_[id - 1].first_flow;
      for (std::uint32_t i = begin; i < end; ++i) {
        fix(flow_of_link_[i], least);
      }
    }
    std::erase_if(filling_, [this](LinkId id) { return links_[id].unfixed == 0; });
  }
}

std::optional<Seconds> FlowNetwork::next_end() {
  if (active_.empty()) {
    return std::nullopt;
  }
  share();
  double soonest = std::numeric_limits<double>::infinity();
  for (const FlowId flow : active_) {
    soonest = std::min(soonest, flows_[flow].left / flows_[flow].rate);
  }
  return Seconds(now_ + soonest);
}

std::span<const FlowId> FlowNetwork::advance(Seconds time) {
  share();
  ended_.clear();
  const double passed = time.value() - now_;
  ensure(passed >= 0, "flow network: time goes forward");
  for (const FlowId id : active_) {
    Flow& flow = flows_[id];
    const double carried = flow.rate * passed;
    const double indistinct = std::max(flow.left, flow.rate * time.value()) * kRounding;
    if (flow.hops == 0 || flow.left - carried <= indistinct) {
      flow.left = 0;
      ended_.push_back(id);
    } else {
      flow.left -= carried;
    }
  }
  now_ = time.value();
  if (!ended_.empty()) {
    std::erase_if(active_, [this](FlowId id) { return flows_[id].left == 0; });
    shared_ = false;
  }
  return ended_;
}

BytesPerSecond FlowNetwork::rate(FlowId flow) {
  share();
  return BytesPerSecond(flows_[flow].rate);
}

}  // namespace trireme::engine
