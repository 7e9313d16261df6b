// Waiting for what another rank may never do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "calibrate/harness/rank_link.h"

namespace trireme::calibrate::gpu {

/// Where a call is at.
struct CallState {
  bool done = false;
  std::string failure;  // not empty: it has failed
};

/// Ends the waits of one rank in time, with a message that names rank, host and call.
class CallWatch {
 public:
  /// `limit`: for one call, which NCCL itself never gives up.
  CallWatch(RankLink& link, std::chrono::milliseconds limit);

  /// Asks until the call is done. Throws RankFailure when it has failed, when the limit is over, or
  /// when the link knows of a rank that is lost.
  void await(std::string_view call, const std::function<CallState()>& ask);

  /// The same for a call that has failed already.
  [[noreturn]] void fail(std::string_view call, std::string_view reason);

  [[nodiscard]] RankLink& link() const { return link_; }

 private:
  RankLink& link_;
  std::chrono::milliseconds limit_;
  std::string host_;
};

}  // namespace trireme::calibrate::gpu
