// Communicators of NCCL that never block for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nccl.h>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "calibrate/probe/gpu/device.h"
#include "calibrate/probe/gpu/nccl_watch.h"

namespace trireme::calibrate::gpu {

/// Who does the copying of a collective.
enum class CopyBy : std::uint8_t {
  multiprocessors,  // kernels: what frameworks run
  copy_engines      // no kernel, where NCCL can: all-to-all and all-gather inside a node
};

class Communicator {
 public:
  /// Of all ranks of the watch's link, on the current device; called by all of them. The id travels
  /// over the link. Throws RankFailure that names rank, host and call.
  [[nodiscard]] static std::unique_ptr<Communicator> of_all_ranks(CallWatch& watch);

  /// Frees what this rank has without waiting for others.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// The ranks with the same `color`, in their order, with buffers of its own. Called by all ranks.
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, CopyBy copy_by);

  /// Null after a failure.
  [[nodiscard]] ncclComm_t get() const { return communicator_; }

  [[nodiscard]] std::int64_t ranks() const { return ranks_; }

  [[nodiscard]] std::int64_t rank() const { return rank_; }

  /// Waits until a call that returned `result` has been issued. Throws RankFailure, after aborting
  /// what runs on the device: else the memory that it uses could not be freed.
  void issued(ncclResult_t result, std::string_view call);

  /// The same until the event has passed, looking for errors of the communicator meanwhile.
  void await(const Event& event, std::string_view call);

 private:
  Communicator(CallWatch& watch, ncclComm_t communicator, std::int64_t rank, std::int64_t ranks);

  [[nodiscard]] CallState state() const;
  void abort();

  CallWatch& watch_;
  ncclComm_t communicator_;
  std::int64_t rank_;
  std::int64_t ranks_;
};

/// Memory that all ranks of a communicator register as one window, for collectives that read and
/// write each other's memory.
class SymmetricWindow {
 public:
  /// Called by all ranks of `communicator`. Throws PointRefused on all of them when one has not as
  /// much memory or NCCL cannot register it.
  SymmetricWindow(Communicator& communicator, CallWatch& watch, Bytes amount);
  ~SymmetricWindow();
  SymmetricWindow(const SymmetricWindow&) = delete;
  SymmetricWindow& operator=(const SymmetricWindow&) = delete;

  [[nodiscard]] void* get() const { return memory_; }

 private:
  Communicator& communicator_;
  void* memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
};

/// Bytes of one rank's input and output.
struct CollectiveExtents {
  Bytes sent;
  Bytes received;
};

[[nodiscard]] CollectiveExtents collective_extents(CollectiveKind kind,
                                                   Bytes payload,
                                                   std::int64_t ranks);

/// Puts one collective on a stream, out of place, bf16. An all-to-all is grouped sends and receives
/// as frameworks write it, or NCCL's own call when `own_all_to_all`.
void issue_collective(Communicator& communicator,
                      CollectiveKind kind,
                      bool own_all_to_all,
                      Bytes payload,
                      const void* input,
                      void* output,
                      const Stream& stream);

/// Fills the input of a collective on one rank so that every rank can check its output.
void fill_input(const Communicator& communicator,
                CollectiveKind kind,
                Bytes payload,
                void* input,
                const Stream& stream);

/// Elements of the output that are not what they have to be; waits for the stream.
[[nodiscard]] std::uint64_t count_wrong(const Communicator& communicator,
                                        CollectiveKind kind,
                                        Bytes payload,
                                        const void* output,
                                        const Stream& stream);

/// Names of the kernels among what `issue` puts on a stream, which is recorded and not run; "" for
/// one whose name the driver does not tell. Throws Error (device).
[[nodiscard]] std::vector<std::string> recorded_kernels(const Stream& stream,
                                                        const std::function<void()>& issue);

}  // namespace trireme::calibrate::gpu
