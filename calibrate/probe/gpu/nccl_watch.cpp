#include "calibrate/probe/gpu/nccl_watch.h"

#include <array>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "sim/engine/execute/transport.h"

namespace trireme::calibrate::gpu {

namespace {

using Clock = std::chrono::steady_clock;

/// How often the other ranks are asked after while a call is waited for.
constexpr auto kAskAfterRanks = std::chrono::milliseconds(50);

std::string own_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

CallWatch::CallWatch(RankLink& link, std::chrono::milliseconds limit)
    : link_(link), limit_(limit), host_(own_host()) {}

void CallWatch::await(std::string_view call, const std::function<CallState()>& ask) {
  const Clock::time_point start = Clock::now();
  Clock::time_point asked = start;
  while (true) {
    const CallState state = ask();
    if (!state.failure.empty()) {
      fail(call, state.failure);
    }
    if (state.done) {
      return;
    }
    const Clock::time_point now = Clock::now();
    if (now - asked >= kAskAfterRanks) {
      link_.poll();
      asked = now;
    }
    if (now - start >= limit_) {
      fail(call,
           fmt::format("did not end within {} s", std::chrono::duration<double>(limit_).count()));
    }
    std::this_thread::yield();
  }
}

void CallWatch::fail(std::string_view call, std::string_view reason) {
  link_.poll();  // a rank that is known to be lost is the cause
  throw engine::RankFailure(
      link_.rank(), fmt::format("rank {} on {}: {}: {}", link_.rank(), host_, call, reason));
}

}  // namespace trireme::calibrate::gpu
