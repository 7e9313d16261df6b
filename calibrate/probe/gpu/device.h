// One GPU: its stream, its memory and its clock.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>
#include <string>

#include "calibrate/harness/probe.h"
#include "sim/units/units.h"

namespace trireme::calibrate::gpu {

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] cudaStream_t get() const { return stream_; }

  /// Waits for everything issued on it.
  void wait() const;

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream);

  /// Whether the stream has passed it.
  [[nodiscard]] bool passed() const;

  /// Waits for this event. Above zero.
  [[nodiscard]] Seconds since(const Event& start) const;

  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Device memory, 256-byte aligned, not initialised.
class Buffer {
 public:
  Buffer() = default;

  /// Throws PointRefused when there is not as much left.
  explicit Buffer(Bytes amount);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  [[nodiscard]] void* get() const { return memory_; }

  [[nodiscard]] Bytes amount() const { return amount_; }

 private:
  void* memory_ = nullptr;
  Bytes amount_;
};

/// Page-locked host memory.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(Bytes amount);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  [[nodiscard]] void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

/// What the driver says about memory.
struct MemoryState {
  Bytes free;
  Bytes total;

  [[nodiscard]] Bytes used() const { return total - free; }
};

[[nodiscard]] MemoryState memory_state();

/// The device of this process, and what every probe on it shares.
class Device {
 public:
  /// Makes device `index` the one of this thread and creates its context. Throws Error (device).
  explicit Device(int index);

  [[nodiscard]] int index() const { return index_; }

  [[nodiscard]] const cudaDeviceProp& properties() const { return properties_; }

  [[nodiscard]] const Stream& stream() const { return stream_; }

  [[nodiscard]] Bytes cache() const { return Bytes(properties_.l2CacheSize); }

  [[nodiscard]] int multiprocessors() const { return properties_.multiProcessorCount; }

  /// Device seconds of one of `times` runs, each issued on stream() by `issue(number)`. The stream
  /// is held while the host issues, so that short kernels follow each other as they do when the
  /// host is ahead; what the host takes is a cost of its own (LaunchPoint).
  [[nodiscard]] Seconds time(std::int64_t times,
                             const std::function<void(std::int64_t number)>& issue);

  /// The same with what is issued before the clock starts, while the stream is held, and with
  /// `await` to wait for the end: work that may hang is waited for with a limit.
  [[nodiscard]] Seconds time(std::int64_t times,
                             const std::function<void(std::int64_t number)>& issue,
                             const std::function<void()>& before,
                             const std::function<void(const Event& end)>& await);

 private:
  int index_;
  cudaDeviceProp properties_{};
  Stream stream_;
  Event start_;
  Event stop_;
};

}  // namespace trireme::calibrate::gpu
