#include "calibrate/probe/gpu/device.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "calibrate/probe/gpu/check.h"
#include "calibrate/probe/gpu/kernels.h"
#include "sim/units/text.h"

namespace trireme::calibrate::gpu {

namespace {

/// How long the stream is held for each run that the host has to issue, and at most: a library's
/// call takes the host some microseconds.
constexpr Seconds kHeldPerRun(20e-6);
constexpr Seconds kMostHeld(10e-3);

}  // namespace

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

void Stream::wait() const {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

Event::Event() {
  check(cudaEventCreate(&event_), "cudaEventCreate");
}

Event::~Event() {
  cudaEventDestroy(event_);
}

void Event::record(const Stream& stream) {
  check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

bool Event::passed() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

Seconds Event::since(const Event& start) const {
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
  constexpr float kTick = 5e-4F;  // the resolution that the runtime documents
  return Seconds(1e-3 * static_cast<double>(std::max(milliseconds, kTick)));
}

Buffer::Buffer(Bytes amount) : amount_(amount) {
  const cudaError_t status = cudaMalloc(&memory_, static_cast<std::size_t>(amount.value()));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the runtime would report it again at the next launch
    throw PointRefused(fmt::format(
        "the device has no {} left, {} are free", to_text(amount), to_text(memory_state().free)));
  }
  check(status, "cudaMalloc");
}

Buffer::~Buffer() {
  cudaFree(memory_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      amount_(std::exchange(other.amount_, Bytes(0))) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(amount_, other.amount_);
  return *this;
}

PinnedBuffer::PinnedBuffer(Bytes amount) {
  const cudaError_t status = cudaMallocHost(&memory_, static_cast<std::size_t>(amount.value()));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw PointRefused(fmt::format("the host cannot lock {} of memory", to_text(amount)));
  }
  check(status, "cudaMallocHost");
}

PinnedBuffer::~PinnedBuffer() {
  cudaFreeHost(memory_);
}

MemoryState memory_state() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {Bytes(static_cast<std::int64_t>(free)), Bytes(static_cast<std::int64_t>(total))};
}

namespace {

int use_device(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
  return index;
}

}  // namespace

Device::Device(int index) : index_(use_device(index)) {
  check(cudaGetDeviceProperties(&properties_, index), "cudaGetDeviceProperties");
}

Seconds Device::time(std::int64_t times, const std::function<void(std::int64_t number)>& issue) {
  return time(
      times, issue, [] {}, [](const Event&) {});
}

Seconds Device::time(std::int64_t times,
                     const std::function<void(std::int64_t number)>& issue,
                     const std::function<void()>& before,
                     const std::function<void(const Event& end)>& await) {
  hold(stream_.get(), std::min(static_cast<double>(times) * kHeldPerRun, kMostHeld));
  before();
  start_.record(stream_);
  for (std::int64_t number = 0; number < times; ++number) {
    issue(number);
  }
  stop_.record(stream_);
  await(stop_);
  return Seconds(stop_.since(start_).value() / static_cast<double>(times));
}

}  // namespace trireme::calibrate::gpu
