// Coefficients that are known come back from noisy measurements within their intervals.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "calibrate/fit/model_fit.h"
#include "calibrate/fit/predict.h"
#include "calibrate/fit/robust_fit.h"
#include "sim/cost/collectives.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

constexpr int kTrials = 200;
constexpr double kNoise = 0.05;
constexpr std::size_t kDraws = 200;

/// A form, the coefficients behind the measurements, and the points of them.
struct Case {
  Form form;
  std::vector<double> truth;
  std::vector<Point> points;
  std::vector<double> groups;
};

/// All-gathers of 2, 4 and 8 ranks over 4 KiB to 1 GiB.
Case node_collective() {
  Case found;
  // a0, 1 / beta, c, a1, 1 / gamma
  found.truth = {5e-6, 1 / 400e9, 6e-6, 1e-6, 1 / 900e9};
  found.form.start = {1e-6, 1e-11, 1e-5, 1e-6, 1e-11};
  found.form.apply = [](std::span<const double> c, cost::MachineCosts& machine) {
    machine.collectives.all_gather =
        cost::NodeCollectiveCosts{.start = Seconds(c[0]),
                                  .per_rank = Seconds(c[3]),
                                  .link_rate = BytesPerSecond(1 / c[1]),
                                  .ramp_per_root_megabyte = Seconds(c[2]),
                                  .local_rate = BytesPerSecond(1 / c[4])};
  };
  for (const std::int64_t ranks : {2, 4, 8}) {
    for (std::int64_t payload = 4096; payload <= std::int64_t{1} << 30; payload *= 2) {
      found.points.emplace_back(CollectivePoint{.collective = CollectiveKind::all_gather,
                                                .method = "nccl",
                                                .ranks = ranks,
                                                .ranks_per_node = ranks,
                                                .type = ElementType::bf16,
                                                .payload = Bytes(payload)});
      found.groups.push_back(static_cast<double>(payload));
    }
  }
  return found;
}

/// Products of 36 pairs of n and k, four m each: bound by work or by bytes.
Case matrix_product() {
  Case found;
  // t0, 1 / P, k0 / P, 1 / bw
  found.truth = {3e-6, 1 / 750e12, 130 / 750e12, 1 / 2.6e12};
  found.form.start = {1e-6, 1e-15, 1e-13, 1e-12};
  found.form.apply = [](std::span<const double> c, cost::MachineCosts& machine) {
    cost::GemmCosts costs;
    costs.start = Seconds(c[0]);
    costs.rate = FlopsPerSecond(1 / c[1]);
    costs.inner_overhead = c[1] > 0 ? c[2] / c[1] : 0;
    costs.bandwidth = BytesPerSecond(1 / c[3]);
    machine.gemm = costs;
  };
  for (const std::int64_t n : {256, 512, 1024, 4096, 8192, 16384}) {
    for (const std::int64_t k : {256, 512, 1024, 4096, 8192, 16384}) {
      for (const std::int64_t m : {64, 512, 4096, 32768}) {
        GemmPoint point;
        point.m = m;
        point.n = n;
        point.k = k;
        found.points.emplace_back(point);
        found.groups.push_back(static_cast<double>(n) * 1e6 + static_cast<double>(k));
      }
    }
  }
  return found;
}

/// Attention over 2K to 32K tokens at two numbers of heads, causal and not.
Case attention() {
  Case found;
  // t0, 1 / E, tau / E
  found.truth = {13e-6, 1 / 660e12, 300 / 660e12};
  found.form.start = {1e-5, 1e-15, 1e-13};
  found.form.apply = [](std::span<const double> c, cost::MachineCosts& machine) {
    cost::AttentionKernelCosts kernel;
    kernel.start = Seconds(c[0]);
    kernel.head_dim_count = 1;
    kernel.head_dims[0].head_dim = 128;
    cost::AttentionPassCosts pass;
    pass.rate = FlopsPerSecond(1 / c[1]);
    pass.tile_overhead = c[1] > 0 ? c[2] / c[1] : 0;
    kernel.head_dims[0].forward = pass;
    machine.attention.cudnn = kernel;
    machine.streaming_multiprocessors = 132;
  };
  for (std::int64_t tokens = 2048; tokens <= 32768; tokens += tokens / 2) {
    for (const std::int64_t heads : {8, 32}) {
      for (const bool causal : {false, true}) {
        AttentionPoint point;
        point.kernel = "cudnn";
        point.query_tokens = Tokens(tokens);
        point.key_tokens = Tokens(tokens);
        point.heads = heads;
        point.kv_heads = heads;
        point.head_dim = 128;
        point.causal = causal;
        found.points.emplace_back(point);
        found.groups.push_back(static_cast<double>(tokens));
      }
    }
  }
  return found;
}

/// In how many trials each coefficient lies within the interval that is printed for it.
std::vector<int> recovered(const Case& truth, std::uint64_t seed) {
  Surroundings surroundings;
  surroundings.nic_rate = BytesPerSecond(0);
  truth.form.apply(truth.truth, surroundings.machine);
  std::vector<int> inside(truth.truth.size(), 0);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, kNoise);
  for (int trial = 0; trial < kTrials; ++trial) {
    Samples samples;
    for (std::size_t i = 0; i < truth.points.size(); ++i) {
      const Seconds exact = *predict(truth.points[i], surroundings.machine, surroundings.nic_rate);
      const Seconds measured = std::exp(noise(random)) * exact;
      samples.add({truth.points[i], {measured, measured, measured, 0, true}, ""},
                  truth.groups[i],
                  truth.groups[i]);
    }
    const std::vector<double> found = robust_fit(truth.form, surroundings, samples);
    const auto draws = bootstrap(truth.form, surroundings, samples, found, seed + 1, kDraws);
    for (std::size_t j = 0; j < found.size(); ++j) {
      std::vector<double> drawn;
      for (const std::vector<double>& draw : draws) {
        drawn.push_back(draw[j]);
      }
      inside[j] += std::min(found[j], quantile(drawn, kLowDraw)) <= truth.truth[j] &&
                           truth.truth[j] <= std::max(found[j], quantile(drawn, kHighDraw))
                       ? 1
                       : 0;
    }
  }
  return inside;
}

TEST_CASE("known coefficients lie within their intervals in nine of ten trials",
          "[property][calibrate]") {
  const std::uint64_t seed = std::uint64_t{1000003} * Catch::getSeed() + 17;
  const auto [name, truth] =
      GENERATE(table<std::string, Case (*)()>({{"node collective", node_collective},
                                               {"product", matrix_product},
                                               {"attention", attention}}));
  const std::vector<int> inside = recovered(truth(), seed);
  for (std::size_t j = 0; j < inside.size(); ++j) {
    CAPTURE(seed, name, j, inside[j]);
    CHECK(inside[j] >= kTrials * 9 / 10);
  }
}

TEST_CASE("exact measurements give exact coefficients", "[property][calibrate]") {
  const auto [name, make] =
      GENERATE(table<std::string, Case (*)()>({{"node collective", node_collective},
                                               {"product", matrix_product},
                                               {"attention", attention}}));
  const Case truth = make();
  Surroundings surroundings;
  surroundings.nic_rate = BytesPerSecond(0);
  truth.form.apply(truth.truth, surroundings.machine);
  Samples samples;
  for (std::size_t i = 0; i < truth.points.size(); ++i) {
    Seconds exact = *predict(truth.points[i], surroundings.machine, surroundings.nic_rate);
    if (i % 10 == 3) {
      exact = 3 * exact;  // an outlier, which must not matter much
    }
    samples.add(
        {truth.points[i], {exact, exact, exact, 0, true}, ""}, truth.groups[i], truth.groups[i]);
  }
  const std::vector<double> found = robust_fit(truth.form, surroundings, samples);
  for (std::size_t j = 0; j < found.size(); ++j) {
    CAPTURE(name, j);
    CHECK(found[j] / truth.truth[j] == Approx(1).epsilon(0.3));
  }
}

TEST_CASE("what is held out does not depend on the order of the rows", "[property][calibrate]") {
  const Case truth = matrix_product();
  Surroundings surroundings;
  truth.form.apply(truth.truth, surroundings.machine);
  Samples in_order;
  Samples reversed;
  const std::size_t count = truth.points.size();
  const auto add = [&](std::size_t row, Samples& samples) {
    // coefficients that no fit can find exactly: what is left out moves the others
    const double wave = 1 + 0.05 * std::sin(static_cast<double>(row));
    const Seconds seconds =
        wave * *predict(truth.points[row], surroundings.machine, surroundings.nic_rate);
    samples.add(
        {truth.points[row], {seconds, seconds, seconds, 0, true}, ""}, truth.groups[row], 1);
  };
  for (std::size_t row = 0; row < count; ++row) {
    add(row, in_order);
    add(count - 1 - row, reversed);
  }
  const HeldOut one = hold_out(truth.form, surroundings, in_order, nullptr);
  const HeldOut other = hold_out(truth.form, surroundings, reversed, nullptr);
  for (std::size_t row = 0; row < count; ++row) {
    CAPTURE(row);
    // sums in another order, through a few steps of the fit
    CHECK(one.seconds[row] == Approx(other.seconds[count - 1 - row]).epsilon(1e-6));
  }
}

}  // namespace
}  // namespace trireme::calibrate
