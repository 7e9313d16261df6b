#include "calibrate/fit/fit.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "calibrate/fit/comparison.h"
#include "calibrate/fit/predict.h"
#include "calibrate/fit/report.h"
#include "calibrate/fit/residual_tables.h"
#include "calibrate/fit/robust_fit.h"
#include "calibrate/measurement/measurement_file.h"
#include "sim/config/cluster.h"
#include "sim/config/library.h"
#include "sim/config/profile.h"
#include "sim/config/yaml_reader.h"
#include "sim/core/error.h"
#include "sim/cost/collectives.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

using Catch::Matchers::ContainsSubstring;

const BytesPerSecond kNic(50e9);

config::ProfileSpec read_profile_text(const std::string& text) {
  return config::read_profile(
      config::read_yaml(std::make_shared<const config::SourceText>("p.yaml", text)), "p");
}

cost::MachineCosts public_costs() {
  const auto file = std::filesystem::path(TRIREME_SOURCE_DIR) / "topologies" / "profiles" /
                    "h100-sxm-public.yaml";
  cost::MachineCosts costs = config::read_profile(config::read_yaml_file(file), "p").costs;
  costs.collectives.all_reduce_nvls.reset();
  costs.residuals = {};
  costs.attention.cudnn = costs.attention.flash3;
  return costs;
}

FitOptions options() {
  FitOptions options;
  options.gpu = config::read_gpu(config::make_text("h100-sxm", {}), config::Library({}));
  options.nic_rate = kNic;
  return options;
}

Environment environment(const std::string& key, const std::string& device) {
  Environment result;
  result.key = key;
  result.date = "2026-11-30T10:00:00Z";
  result.source = "measured";
  result.device = device;
  result.processors = 132;
  result.nccl = "2.29.2";
  return result;
}

/// Exactly what the machine would take, as measurements.
class Bench {
 public:
  Bench() { set_.environments.push_back(environment("here", "NVIDIA H100")); }

  void add(const Point& point, double factor = 1, const std::string& where = "here") {
    const Seconds time = factor * *predict(point, costs_, kNic);
    set_.measurements.push_back({point, {time, time, time, 9, true}, where});
  }

  void add_collectives(CollectiveKind kind, std::int64_t ranks, std::int64_t per_node) {
    for (std::int64_t payload = 4096; payload <= std::int64_t{1} << 32; payload *= 4) {
      add(CollectivePoint{kind, "nccl", ranks, per_node, ElementType::bf16, Bytes(payload)});
    }
  }

  void add_everything() {
    for (const std::int64_t ranks : {2, 4, 8}) {
      for (const CollectiveKind kind : {CollectiveKind::all_to_all,
                                        CollectiveKind::all_gather,
                                        CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce,
                                        CollectiveKind::send_recv}) {
        add_collectives(kind, ranks, ranks);
      }
    }
    for (const auto& [ranks, per_node] :
         {std::pair<std::int64_t, std::int64_t>{2, 1}, {16, 8}, {32, 8}, {80, 8}}) {
      for (const CollectiveKind kind : {CollectiveKind::all_to_all,
                                        CollectiveKind::all_gather,
                                        CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce,
                                        CollectiveKind::send_recv}) {
        add_collectives(kind, ranks, per_node);
      }
    }
    for (const std::int64_t n : {512, 2048, 8192}) {
      for (const std::int64_t k : {512, 2048, 8192}) {
        for (const std::int64_t m : {128, 4096, 16384}) {
          add(GemmPoint{m, n, k, GemmPass::forward, ElementType::bf16, false});
        }
        add(GemmPoint{4096, n, k, GemmPass::weight_gradient, ElementType::bf16, true});
      }
    }
    for (std::int64_t tokens = 1024; tokens <= 16384; tokens *= 2) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        for (const bool causal : {false, true}) {
          AttentionPoint point;
          point.kernel = "cudnn";
          point.pass = pass;
          point.query_tokens = Tokens(tokens);
          point.key_tokens = Tokens(tokens);
          point.heads = 8;
          point.kv_heads = 8;
          point.head_dim = 128;
          point.causal = causal;
          add(point);
        }
      }
    }
    for (std::int64_t moved = 1 << 24; moved <= 1 << 30; moved *= 4) {
      add(MemoryBoundPoint{cost::PointwiseClass::copy, "copy", Bytes(moved)});
      add(MemoryBoundPoint{cost::PointwiseClass::adam, "adam", Bytes(moved)});
    }
    add(LaunchPoint{"empty"});
    add(LaunchPoint{"empty"});
  }

  MeasurementSet set_;
  cost::MachineCosts costs_ = public_costs();
};

const ModelFit& model_named(const FitResult& result, const std::string& title) {
  for (const ModelFit& model : result.models) {
    if (model.title() == title) {
      return model;
    }
  }
  FAIL("no model " + title);
  return result.models.front();
}

TEST_CASE("exact measurements give the machine back, through its profile file", "[calibrate]") {
  Bench bench;
  bench.add_everything();
  const FitResult result = fit_profile(bench.set_, options());
  const config::ProfileSpec profile = read_profile_text(result.profile);
  CHECK(profile.gpu.value == "h100-sxm");
  CHECK(profile.date == "2026-11-30");
  CHECK(profile.nccl == "2.29.2");
  // every measured point, among them M2's fourth-power mean and C2's channels
  for (const Measurement& row : bench.set_.measurements) {
    CAPTURE(in_words(row.point));
    const auto predicted = predict(row.point, profile.costs, kNic);
    REQUIRE(predicted.has_value());
    CHECK(ratio(*predicted, row.timing.median) == Approx(1).epsilon(0.02));
  }
  const cost::MachineCosts& fitted = profile.costs;
  CHECK(fitted.streaming_multiprocessors == 132);
  CHECK(fitted.collectives.all_to_all->link_rate.value() == Approx(373e9).epsilon(0.01));
  CHECK(fitted.gemm->rate.value() == Approx(public_costs().gemm->rate.value()).epsilon(0.01));
  CHECK(fitted.gemm->fp32_accumulation == Approx(1.045).epsilon(0.01));
  CHECK(fitted.multi_node.all_to_all->nic_efficiency == Approx(0.92).epsilon(0.01));
  CHECK(fitted.multi_node.ring->reduce_scatter_step->value() ==
        Approx(public_costs().multi_node.ring->reduce_scatter_step->value()).epsilon(0.02));
  CHECK(fitted.multi_node.send_recv->crowded->ranks == 80);
  CHECK(*fitted.pointwise.efficiency[3] == Approx(0.75).epsilon(0.01));
  // norms were not measured: unknown, and said so
  CHECK_FALSE(fitted.pointwise.efficiency[0].has_value());
  CHECK_THAT(report_text(result), ContainsSubstring("norm_forward: 0 rows, unknown"));
  for (const config::CoefficientSpec& coefficient : profile.coefficients) {
    CAPTURE(coefficient.key);
    CHECK_FALSE(coefficient.source.empty());
  }
  for (const ModelFit& model : result.models) {
    CAPTURE(model.title());
    CHECK(model.absent.empty());
    CHECK(outliers(model).empty());
  }
}

TEST_CASE("intervals, samples, source and date stand beside each coefficient", "[calibrate]") {
  Bench bench;
  for (const std::int64_t ranks : {2, 4, 8}) {
    bench.add_collectives(CollectiveKind::all_gather, ranks, ranks);
  }
  FitOptions chosen = options();
  chosen.source = "a \"quoted\" log: 1";
  const FitResult result = fit_profile(bench.set_, chosen);
  const config::ProfileSpec profile = read_profile_text(result.profile);
  REQUIRE(profile.coefficients.size() == 6);  // the multiprocessors, and five of C1
  const config::CoefficientSpec& start = profile.coefficients[1];
  CHECK(start.key == "collectives.all_gather.a0");
  CHECK(start.samples == 33);  // 11 payloads of 2, 4 and 8 ranks
  CHECK(start.source == "a \"quoted\" log: 1");
  CHECK(start.date == "2026-11-30");
  CHECK_FALSE(start.spread_low.empty());
  // the same seed gives the same file
  CHECK(fit_profile(bench.set_, chosen).profile == result.profile);
}

TEST_CASE("too few rows leave a form unknown, and nothing at all is an error", "[calibrate]") {
  Bench bench;
  for (const std::int64_t ranks : {2, 4, 8}) {
    bench.add_collectives(CollectiveKind::all_gather, ranks, ranks);
  }
  bench.add(
      CollectivePoint{CollectiveKind::all_to_all, "nccl", 8, 8, ElementType::bf16, Bytes(1 << 30)});
  const FitResult result = fit_profile(bench.set_, options());
  CHECK(model_named(result, "collectives.all_to_all").absent ==
        "1 rows, and 3 coefficients need 6");
  CHECK_FALSE(read_profile_text(result.profile).costs.collectives.all_to_all.has_value());
  Bench empty;
  CHECK_THROWS_WITH(fit_profile(empty.set_, options()),
                    Catch::Matchers::Contains("no measurements"));
}

TEST_CASE("attention is fitted to long kernels too where short ones are too few", "[calibrate]") {
  Bench bench;
  for (const std::int64_t tokens : {1024, 2048, 1 << 17, 3 << 16, 1 << 18}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      bench.add(AttentionPoint{.kernel = "cudnn",
                               .pass = pass,
                               .query_tokens = Tokens(tokens),
                               .key_tokens = Tokens(tokens),
                               .heads = 8,
                               .kv_heads = 8,
                               .head_dim = 128,
                               .causal = true});
    }
  }
  // Of the 10 rows that 5 coefficients need, 4 are below 10 ms.
  const FitResult result = fit_profile(bench.set_, options());
  CHECK(model_named(result, "attention.cudnn").absent.empty());
  const cost::MachineCosts fitted = read_profile_text(result.profile).costs;
  for (const Measurement& row : bench.set_.measurements) {
    CAPTURE(in_words(row.point));
    // Long kernels keep 0.95 of the rate, which one rate for all cannot show.
    CHECK(ratio(*predict(row.point, fitted, kNic), row.timing.median) == Approx(1).epsilon(0.06));
  }
}

TEST_CASE("a fabric below half of its line rate is refused unless it is accepted", "[calibrate]") {
  Bench bench;
  for (const std::int64_t ranks : {2, 4, 8}) {
    for (std::int64_t payload = 4096; payload <= std::int64_t{1} << 32; payload *= 4) {
      // all-gathers at 402 GB/s of 450 GB/s, three times slower
      bench.add(
          CollectivePoint{
              CollectiveKind::all_gather, "nccl", ranks, ranks, ElementType::bf16, Bytes(payload)},
          3);
    }
  }
  CHECK_THROWS_WITH(fit_profile(bench.set_, options()),
                    Catch::Matchers::Contains("all_gather inside a node reached") &&
                        Catch::Matchers::Contains("of the line rate 450 GB/s"));
  FitOptions accepted = options();
  accepted.accept_slow_fabric = true;
  const FitResult result = fit_profile(bench.set_, accepted);
  REQUIRE(result.achieved.size() == 1);
  CHECK(result.achieved.front().share() > 0.2);
  CHECK(result.achieved.front().share() < 0.35);
  CHECK_THAT(report_text(result), ContainsSubstring("best share of the line rate"));
}

TEST_CASE("rows that exclude each other are reported", "[calibrate]") {
  Bench bench;
  for (const std::int64_t ranks : {2, 4, 8}) {
    bench.add_collectives(CollectiveKind::all_gather, ranks, ranks);
  }
  const CollectivePoint twice{
      CollectiveKind::all_gather, "nccl", 8, 8, ElementType::bf16, Bytes(1 << 28)};
  bench.set_.environments.push_back(environment("there", "NVIDIA H100"));
  bench.add(twice, 1.5, "there");
  bench.add({CollectivePoint{
                CollectiveKind::all_gather, "nccl", 8, 8, ElementType::bf16, Bytes(1 << 30)}},
            1.05,
            "there");
  const FitResult result = fit_profile(bench.set_, options());
  // 50 % apart contradicts, 5 % does not
  REQUIRE(result.contradictions.size() == 1);
  CHECK(result.contradictions.front().point == in_words(twice));
  CHECK(ratio(result.contradictions.front().other, result.contradictions.front().one) ==
        Approx(1.5));
  CHECK(result.contradictions.front().other_environment == "there");
  CHECK(outliers(model_named(result, "collectives.all_gather")).size() == 1);
}

TEST_CASE("what was measured under lasting load takes the place of bursts", "[calibrate]") {
  Bench bench;
  bench.set_.environments.front().load = Load::burst;
  bench.set_.environments.push_back(environment("long", "NVIDIA H100"));
  bench.set_.environments.back().load = Load::sustained;
  for (const std::int64_t width : {2048, 4096, 8192, 16384}) {
    for (const std::int64_t rows : {4096, 16384}) {
      const GemmPoint point{rows, width, width, GemmPass::forward, ElementType::bf16, false};
      bench.add(point, 0.8);
      bench.add(point, 1, "long");
    }
  }
  const FitResult result = fit_profile(bench.set_, options());
  CHECK(result.contradictions.empty());
  CHECK_THAT(report_text(result), ContainsSubstring("8 rows left out: short bursts"));
  const cost::MachineCosts fitted = read_profile_text(result.profile).costs;
  CHECK(ratio(fitted.gemm->rate, bench.costs_.gemm->rate) == Approx(1).epsilon(0.01));
}

TEST_CASE("what a cache held says nothing of a class", "[calibrate]") {
  Bench bench;
  for (std::int64_t moved = 1 << 24; moved <= 1 << 30; moved *= 4) {
    bench.add(MemoryBoundPoint{cost::PointwiseClass::copy, "copy", Bytes(moved)});
    bench.add(MemoryBoundPoint{cost::PointwiseClass::adam, "adam", Bytes(moved)}, 0.1);
  }
  bench.add(LaunchPoint{"empty"});
  const FitResult result = fit_profile(bench.set_, options());
  const ModelFit& pointwise = model_named(result, "pointwise");
  REQUIRE(pointwise.estimates.size() == 1);
  CHECK(pointwise.estimates.front().key == "copy");
  CHECK(pointwise.estimates.front().samples == 4);
  CHECK_THAT(report_text(result), ContainsSubstring("4 rows above the memory's peak left out"));
  CHECK_THAT(report_text(result), ContainsSubstring("adam: 0 rows, unknown"));
}

TEST_CASE("a rate that rows leave open is unknown, not infinite", "[calibrate]") {
  Bench bench;
  // products so narrow that memory alone bounds them, and messages that show no link
  for (const std::int64_t width : {1024, 4096, 16384, 65536}) {
    for (const std::int64_t rows : {1, 2}) {
      bench.add(GemmPoint{rows, width, width, GemmPass::forward, ElementType::bf16, false});
    }
  }
  for (std::int64_t payload = 4; payload <= 4096; payload *= 2) {
    const CollectivePoint point{
        CollectiveKind::send_recv, "nccl", 2, 2, ElementType::bf16, Bytes(payload)};
    const Seconds time(16e-6);
    bench.set_.measurements.push_back({point, {time, time, time, 9, true}, "here"});
  }
  bench.add(LaunchPoint{"empty"});
  const FitResult result = fit_profile(bench.set_, options());
  CHECK_THAT(model_named(result, "collectives.send_recv").absent,
             ContainsSubstring("cannot be told from these rows"));
  const config::ProfileSpec profile = read_profile_text(result.profile);
  CHECK_FALSE(profile.costs.collectives.send_recv.has_value());
  for (const config::CoefficientSpec& coefficient : profile.coefficients) {
    CAPTURE(coefficient.key);
    CHECK(coefficient.value.find("inf") == std::string::npos);
    CHECK(coefficient.value.find("nan") == std::string::npos);
  }
}

TEST_CASE("an attention kernel that was not measured cannot be renamed", "[calibrate]") {
  Bench bench;
  bench.add_everything();
  FitOptions wrong = options();
  wrong.kernels["cudn"] = "flash2";
  CHECK_THROWS_WITH(fit_profile(bench.set_, wrong), Catch::Matchers::Contains("'cudn'"));
  wrong.kernels = {{"cudnn", "flash4"}};
  CHECK_THROWS_WITH(fit_profile(bench.set_, wrong), Catch::Matchers::Contains("'flash4'"));
}

TEST_CASE("a quantile between two infinities is infinite", "[calibrate]") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(quantile({1, 2, infinity, infinity}, 0.9) == infinity);
  CHECK(quantile({1, 2, 3}, 0.25) == Approx(1.5));
}

TEST_CASE("rows of several devices are not mixed", "[calibrate]") {
  Bench bench;
  for (const std::int64_t ranks : {2, 4, 8}) {
    bench.add_collectives(CollectiveKind::all_gather, ranks, ranks);
  }
  bench.set_.environments.push_back(environment("there", "NVIDIA H200"));
  bench.add(LaunchPoint{"empty"}, 1, "there");
  CHECK_THROWS_WITH(fit_profile(bench.set_, options()),
                    Catch::Matchers::Contains("'NVIDIA H100', 'NVIDIA H200'"));
  FitOptions one = options();
  one.device = "NVIDIA H100";
  CHECK(fit_profile(bench.set_, one).models.size() == 1);
  one.device = "NVIDIA H300";
  CHECK_THROWS_WITH(fit_profile(bench.set_, one), Catch::Matchers::Contains("NVIDIA H300"));
}

TEST_CASE("rows over nodes need the rate of a NIC", "[calibrate]") {
  Bench bench;
  bench.add_collectives(CollectiveKind::all_to_all, 16, 8);
  FitOptions unknown = options();
  unknown.nic_rate = BytesPerSecond(0);
  CHECK_THROWS_WITH(fit_profile(bench.set_, unknown), Catch::Matchers::Contains("NIC"));
}

TEST_CASE("a table of residuals takes what is measured beyond the closed form", "[calibrate]") {
  cost::MachineCosts machine = public_costs();
  std::vector<TimedCollective> rows;
  const auto point = [](std::int64_t payload) {
    return CollectivePoint{
        CollectiveKind::all_gather, "nccl", 8, 8, ElementType::bf16, Bytes(payload)};
  };
  const auto closed_form = [&](std::int64_t payload) {
    return *predict(point(payload), machine, kNic);
  };
  rows.push_back({point(1 << 20), 1.2 * closed_form(1 << 20)});
  rows.push_back({point(1 << 20), 1.2 * closed_form(1 << 20)});
  rows.push_back({point(1 << 22), 0.9 * closed_form(1 << 22)});
  rows.push_back({point(1 << 24), 1.1 * closed_form(1 << 24)});
  const auto tables = residual_tables(rows, machine, kNic);
  REQUIRE(tables.size() == 1);
  REQUIRE(tables[0].table.size() == 4);
  CHECK(tables[0].table[0].factor == Approx(1.2));
  CHECK(tables[0].table[1].factor == Approx(0.9));
  CHECK(tables[0].table[2].factor == Approx(1.1));
  CHECK(tables[0].table[3].payload == Bytes(1 << 26));
  CHECK(tables[0].table[3].factor == 1.0);
  machine.residuals.all_gather = tables;
  // more bytes are never faster, between the rows and beyond them
  Seconds before(0);
  for (double payload = 1 << 18; payload < 1 << 28; payload *= 1.1) {
    const Seconds here = closed_form(std::llround(payload));
    CAPTURE(payload);
    CHECK(here >= before);
    before = here;
  }
  CHECK(residuals_yaml(machine.residuals) ==
        "residuals:\n  all_gather:\n    - ranks: 8\n      ranks_per_node: 8\n"
        "      payloads: [1 MiB, 4 MiB, 16 MiB, 64 MiB]\n      factors: [1.2, 0.9, 1.1, 1]\n");
}

TEST_CASE("times that fall are evened out", "[calibrate]") {
  const cost::MachineCosts machine = public_costs();
  std::vector<TimedCollective> rows;
  for (const auto& [payload, micros] :
       {std::pair<std::int64_t, double>{4096, 20}, {16384, 15}, {65536, 10}, {262144, 30}}) {
    rows.push_back({{CollectiveKind::all_gather, "nccl", 8, 8, ElementType::bf16, Bytes(payload)},
                    Seconds(micros * 1e-6)});
  }
  cost::MachineCosts corrected = machine;
  corrected.residuals.all_gather = residual_tables(rows, machine, kNic);
  Seconds before(0);
  for (double payload = 1024; payload < 1 << 24; payload *= 1.07) {
    const auto here = cost::all_gather_time(Bytes(std::llround(payload)), {8, 8}, kNic, corrected);
    CAPTURE(payload);
    CHECK(*here >= before);
    before = *here;
  }
  // the middle of 20, 15 and 10 us in logarithms is 14.4 us
  CHECK(cost::all_gather_time(Bytes(4096), {8, 8}, kNic, corrected)->value() ==
        Approx(std::cbrt(20.0 * 15 * 10) * 1e-6).epsilon(1e-4));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_CASE("measured points stand beside predictions in a table and a figure", "[calibrate]") {
  Bench bench;
  bench.add_collectives(CollectiveKind::all_gather, 4, 4);
  bench.add_collectives(CollectiveKind::all_gather, 8, 8);
  bench.add(GemmPoint{4096, 4096, 4096, GemmPass::forward, ElementType::bf16, false}, 2);
  const std::vector<Panel> panels = compare_with(bench.set_.measurements, bench.costs_, kNic);
  REQUIRE(panels.size() == 2);
  CHECK(panels[0].title == "all_gather inside a node");
  REQUIRE(panels[0].curves.size() == 2);
  CHECK(panels[0].curves[1].name == "8 ranks");
  CHECK(panels[0].curves[1].points.size() == 11);
  const std::string text = comparison_text(panels);
  CHECK_THAT(text, ContainsSubstring("0.0 / 0.0 % (+0.0) of 11 rows"));
  CHECK_THAT(text, ContainsSubstring("50.0 / 50.0 % (-50.0) of 1 rows"));
  const std::string svg = comparison_svg(panels);
  CHECK(svg.rfind("<svg ", 0) == 0);
  CHECK(count_of(svg, "<circle ") == 23);  // a dot for each point
  CHECK(count_of(svg, "<g ") == count_of(svg, "</g>"));
  CHECK(count_of(svg, "<text ") == count_of(svg, "</text>"));
  CHECK_THAT(svg, ContainsSubstring(">payload [bytes]</text>"));
  CHECK_THAT(svg, ContainsSubstring(">all_gather inside a node</text>"));
  // a profile that knows nothing has no figure and says so
  const std::vector<Panel> unknown = compare_with(bench.set_.measurements, {}, kNic);
  CHECK_THAT(comparison_text(unknown),
             ContainsSubstring("22 rows whose seconds the profile does not know"));
  CHECK(count_of(comparison_svg(unknown), "<circle ") == 0);
}

}  // namespace
}  // namespace trireme::calibrate
