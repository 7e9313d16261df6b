// Ranks that reach each other by MPI.
#pragma once

#include "calibrate/harness/rank_link.h"
#include "sim/engine/execute/mpi_calls.h"

namespace trireme::calibrate {

/// The link of a rank between MPI_Init and MPI_Finalize. Limits are those of the MPI session, which
/// also ends the process when another rank is killed or stopped.
class MpiLink final : public RankLink {
 public:
  /// `mpi` outlives the link.
  explicit MpiLink(engine::MpiCalls& mpi) : mpi_(mpi) {}

  [[nodiscard]] std::int64_t rank() const override { return mpi_.rank(); }

  [[nodiscard]] std::int64_t ranks() const override { return mpi_.ranks(); }

  [[nodiscard]] std::vector<std::string> exchange(const std::string& message) override;

  void poll() override {}  // the session's own watch ends the process

  void fail(const std::string& /*reason*/) noexcept override {}  // what a body throws does that

  [[nodiscard]] engine::MpiCalls& mpi() { return mpi_; }

 private:
  engine::MpiCalls& mpi_;
};

/// "Open MPI v4.1.4": the name and version of the MPI library.
[[nodiscard]] std::string mpi_library();

}  // namespace trireme::calibrate
