// Waits that end in time, without a GPU; collectives of one rank, with one.
#include <chrono>
#include <string>

#include "calibrate/probe/gpu/nccl_communicator.h"
#include "calibrate/probe/gpu/nccl_watch.h"
#include "sim/engine/execute/transport.h"
#include "tests/catch.h"
#include "tests/gpu/gpu.h"

namespace trireme::calibrate::gpu {
namespace {

using Catch::Matchers::ContainsSubstring;
using engine::RankFailure;

/// A link that knows of a lost rank after some questions.
class LosingLink final : public RankLink {
 public:
  explicit LosingLink(int polls) : polls_left_(polls) {}

  [[nodiscard]] std::int64_t rank() const override { return 0; }

  [[nodiscard]] std::int64_t ranks() const override { return 2; }

  [[nodiscard]] std::vector<std::string> exchange(const std::string& message) override {
    return {message, message};
  }

  void poll() override {
    if (polls_left_-- == 0) {
      throw RankFailure(1, "rank 1 on elsewhere ended");
    }
  }

  void fail(const std::string& /*reason*/) noexcept override {}

 private:
  int polls_left_;
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const RankFailure& failure) {
    return failure.what();
  }
  return "nothing was thrown";
}

TEST_CASE("a call that is done is waited for", "[gpu][calibrate]") {
  SingleRank link;
  CallWatch watch(link, std::chrono::seconds(10));
  int asked = 0;
  watch.await("ncclAllGather", [&] { return CallState{.done = ++asked == 3, .failure = {}}; });
  CHECK(asked == 3);
}

TEST_CASE("a call that never ends is given up with rank, host and call", "[gpu][calibrate]") {
  SingleRank link;
  CallWatch watch(link, std::chrono::milliseconds(30));
  const auto start = std::chrono::steady_clock::now();
  const std::string message =
      message_of([&] { watch.await("ncclAllReduce", [] { return CallState{}; }); });
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(30));
  CHECK_THAT(message, ContainsSubstring("rank 0 on "));
  CHECK_THAT(message, ContainsSubstring(": ncclAllReduce: did not end within 0.03 s"));
}

TEST_CASE("a call that fails says why", "[gpu][calibrate]") {
  SingleRank link;
  CallWatch watch(link, std::chrono::seconds(10));
  const std::string message = message_of([&] {
    watch.await("ncclCommSplit",
                [] { return CallState{.done = true, .failure = "remote process exited"}; });
  });
  CHECK_THAT(message, ContainsSubstring(": ncclCommSplit: remote process exited"));
}

TEST_CASE("a rank that is lost while another waits is named", "[gpu][calibrate]") {
  LosingLink link(1);
  CallWatch watch(link, std::chrono::seconds(10));
  CHECK(message_of([&] { watch.await("ncclSend", [] { return CallState{}; }); }) ==
        "rank 1 on elsewhere ended");
}

TEST_CASE("without a GPU a communicator says what is missing", "[gpu][calibrate]") {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    test::skip("there is a GPU");
    return;
  }
  SingleRank link;
  CallWatch watch(link, std::chrono::seconds(30));
  const std::string message =
      message_of([&] { static_cast<void>(Communicator::of_all_ranks(watch)); });
  CHECK_THAT(message, ContainsSubstring("rank 0 on "));
  CHECK_THAT(message, ContainsSubstring(": ncclCommInitRankConfig: "));
}

// 64 bytes over 4 ranks.
TEST_CASE("inputs and outputs of collectives", "[gpu][calibrate]") {
  const auto extents = [](CollectiveKind kind) {
    const CollectiveExtents both = collective_extents(kind, Bytes(64), 4);
    return std::pair(both.sent.value(), both.received.value());
  };
  CHECK(extents(CollectiveKind::all_gather) == std::pair<std::int64_t, std::int64_t>(16, 64));
  CHECK(extents(CollectiveKind::reduce_scatter) == std::pair<std::int64_t, std::int64_t>(64, 16));
  CHECK(extents(CollectiveKind::all_to_all) == std::pair<std::int64_t, std::int64_t>(64, 64));
  CHECK(extents(CollectiveKind::all_reduce) == std::pair<std::int64_t, std::int64_t>(64, 64));
  CHECK(extents(CollectiveKind::send_recv) == std::pair<std::int64_t, std::int64_t>(64, 64));
}

TEST_CASE("collectives of one rank are copies, and right", "[gpu][calibrate]") {
  if (!test::has_gpu()) {
    return;
  }
  Device device(0);
  SingleRank link;
  CallWatch watch(link, std::chrono::seconds(60));
  const std::unique_ptr<Communicator> all = Communicator::of_all_ranks(watch);
  const std::unique_ptr<Communicator> part = all->split(0, CopyBy::multiprocessors);
  REQUIRE(part->ranks() == 1);
  const Bytes payload(1 << 20);
  const Buffer input(payload);
  const Buffer output(payload);
  for (const CollectiveKind kind : {CollectiveKind::all_to_all,
                                    CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_reduce,
                                    CollectiveKind::send_recv}) {
    CAPTURE(trireme::name(kind));
    fill_input(*part, kind, payload, input.get(), device.stream());
    REQUIRE(cudaMemsetAsync(output.get(), 0x55, 1 << 20, device.stream().get()) == cudaSuccess);
    issue_collective(*part, kind, false, payload, input.get(), output.get(), device.stream());
    Event end;
    end.record(device.stream());
    part->await(end, "a collective of one rank");
    CHECK(count_wrong(*part, kind, payload, output.get(), device.stream()) == 0);
    // The check sees what is wrong.
    REQUIRE(cudaMemsetAsync(output.get(), 0x55, 2, device.stream().get()) == cudaSuccess);
    CHECK(count_wrong(*part, kind, payload, output.get(), device.stream()) == 1);
  }
}

}  // namespace
}  // namespace trireme::calibrate::gpu
