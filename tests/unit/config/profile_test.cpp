#include "sim/config/profile.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/config/yaml_reader.h"
#include "sim/cost/attention.h"
#include "sim/cost/gemm.h"
#include "sim/cost/pointwise.h"
#include "tests/catch.h"

namespace trireme::config {
namespace {

namespace fs = std::filesystem;

const fs::path kProfiles = fs::path(TRIREME_SOURCE_DIR) / "topologies" / "profiles";

std::string read(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

ProfileSpec read_text(const std::string& text) {
  return read_profile(read_yaml(std::make_shared<const SourceText>("p.yaml", text)), "p");
}

ProfileSpec public_profile(const std::string& name) {
  return read_profile(read_yaml_file(kProfiles / (name + ".yaml")), name);
}

/// The public H100 profile with one piece of its text replaced, which must stand there.
std::string h100_with(const std::string& from, const std::string& to) {
  std::string text = read(kProfiles / "h100-sxm-public.yaml");
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Line of the first occurrence of `piece`, 1-based.
int line_of(const std::string& text, const std::string& piece) {
  const auto at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
}

void check_refused(const std::string& text, const std::string& at, const std::string& message) {
  CAPTURE(at, message);
  try {
    read_text(text);
    FAIL("the profile was accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(error.where().file == "p.yaml");
    CHECK(error.where().line == line_of(text, at));
    CHECK_THAT(error.message(), Catch::Matchers::ContainsSubstring(message));
  }
}

TEST_CASE("the public H100 profile holds the fitted coefficients", "[config]") {
  const ProfileSpec profile = public_profile("h100-sxm-public");
  CHECK(profile.gpu.value == "h100-sxm");
  CHECK(profile.nccl == "2.29.2");
  const cost::MachineCosts& costs = profile.costs;
  CHECK(costs.streaming_multiprocessors == 132);
  CHECK(costs.kernel_launch->value() == Approx(2.5e-6));
  CHECK(costs.gemm->rate == FlopsPerSecond(730.1e12));
  CHECK(costs.collectives.all_to_all->start.value() == Approx(6.695e-6));
  CHECK(costs.collectives.all_to_all->link_rate == BytesPerSecond(373.1e9));
  REQUIRE(costs.collectives.all_reduce_nvls.has_value());
  CHECK(costs.collectives.all_reduce_nvls->least_ranks == 8);
  CHECK(costs.multi_node.ring->reduce_scatter_step->value() == Approx(8.226e-6));
  REQUIRE(costs.attention.flash2.has_value());
  CHECK(costs.attention.flash2->head_dim_count == 3);
  CHECK(costs.attention.flash2->head_dims[1].forward->rate == FlopsPerSecond(367.2e12));
  CHECK_FALSE(costs.attention.flash2->head_dims[2].backward.has_value());
  CHECK(costs.attention.cudnn.has_value());
  CHECK_FALSE(costs.residuals.all_to_all.empty());

  const auto beta = std::find_if(
      profile.coefficients.begin(), profile.coefficients.end(), [](const CoefficientSpec& spec) {
        return spec.key == "collectives.all_to_all.beta";
      });
  REQUIRE(beta != profile.coefficients.end());
  CHECK(beta->value == "373.1 GB/s");
  CHECK(beta->spread_low == "341.2 GB/s");
  CHECK(beta->spread_high == "413.9 GB/s");
  CHECK(beta->samples == 126);
  CHECK(beta->source == "aiconfigurator");
}

TEST_CASE("samples are read where they are known", "[config]") {
  const std::string text = h100_with("{value: 132, source", "{value: 132, samples: 180, source");
  CHECK(read_text(text).coefficients.front().samples == 180);
}

TEST_CASE("what kernels and collectives lose to each other is read where it is known", "[config]") {
  const std::string head =
      "version: 1\n"
      "device: {gpu: h100-sxm}\n";
  const std::string multiprocessors =
      "streaming_multiprocessors: {value: 132, source: datasheet}\n";
  const std::string interference =
      "interference:\n"
      "  form: I1\n"
      "  channels: {value: 32, source: nccl}\n"
      "  memory: {value: 0.16, spread: [0, 0.29], source: lee2025-overlap}\n"
      "  collective: {value: 0.1, source: measured}\n";
  const auto read = read_text(head + multiprocessors + interference).costs.interference;
  REQUIRE(read.has_value());
  CHECK(read->channels == 32);
  CHECK(read->memory == 0.16);
  CHECK(read->collective == 0.1);
  CHECK_FALSE(read_text(head + multiprocessors).costs.interference.has_value());
  CHECK_THROWS_WITH(read_text(head + interference),
                    Catch::Contains("does not state streaming_multiprocessors"));
}

TEST_CASE("what was not measured may be left out", "[config]") {
  const ProfileSpec profile = read_text(
      "version: 1\n"
      "device: {gpu: h100-sxm}\n"
      "collectives:\n"
      "  all_gather:\n"
      "    form: C1\n"
      "    ranks: [2, 2]\n"
      "    a0: {value: 5 us, source: measured, date: 2026-11-30}\n"
      "    a1: {value: 1 us, source: measured}\n"
      "    beta: {value: 400 GB/s, source: measured}\n"
      "    c: {value: 0 us, source: measured}\n"
      "    gamma: {value: none, spread: [100 GB/s, none], source: measured}\n"
      "residuals:\n"
      "  all_gather:\n"
      "    - {ranks: 2, ranks_per_node: 2, payloads: [4 KiB, 64 KiB], factors: [1.5, 1]}\n");
  const cost::MachineCosts& costs = profile.costs;
  CHECK_FALSE(costs.gemm.has_value());
  CHECK_FALSE(costs.kernel_launch.has_value());
  CHECK_FALSE(costs.pointwise.efficiency[0].has_value());
  CHECK_FALSE(costs.collectives.all_to_all.has_value());
  CHECK_FALSE(costs.multi_node.ring.has_value());
  REQUIRE(costs.collectives.all_gather.has_value());
  // no cost of the own chunk: 1 / gamma is 0
  CHECK(Bytes(1'000'000) / costs.collectives.all_gather->local_rate == Seconds(0));
  CHECK(profile.coefficients.front().date == "2026-11-30");
  REQUIRE(costs.residuals.all_gather.size() == 1);
  CHECK(costs.residuals.all_gather[0].group.ranks == 2);
  CHECK(costs.residuals.all_gather[0].table[0].payload == Bytes(4096));
  CHECK(costs.residuals.all_gather[0].table[0].factor == 1.5);
  CHECK(costs.residuals.all_to_all.empty());
}

TEST_CASE("a wrong table of residuals is refused where it is wrong", "[config]") {
  const auto with_table = [](const std::string& row) {
    return "version: 1\ndevice: {gpu: g}\nresiduals:\n  all_to_all:\n    - {" + row + "}\n";
  };
  const auto refused = [&](const std::string& row, const std::string& message) {
    const std::string text = with_table(row);
    check_refused(text, row.substr(0, 8), message);
  };
  refused("ranks: 8, ranks_per_node: 3, payloads: [1 KiB], factors: [1]", "not a multiple");
  refused("ranks: 8, ranks_per_node: 8, payloads: [1 KiB], factors: [1.1]", "must be 1");
  refused("ranks: 8, ranks_per_node: 8, payloads: [1 KiB], factors: [1.1, 1]",
          "1 payloads and 2 factors");
  refused("ranks: 8, ranks_per_node: 8, payloads: [2 KiB, 1 KiB], factors: [1.1, 1]",
          "ascending order");
  refused("ranks: 8, ranks_per_node: 8, payloads: [1 KiB, 2 KiB], factors: [0, 1]",
          "not above zero");
  refused("ranks: 1, ranks_per_node: 1, payloads: [1 KiB], factors: [1]", "out of range");
}

TEST_CASE("a wrong profile is refused where it is wrong", "[config]") {
  SECTION("unknown form") {
    const std::string text = h100_with("form: C1\n", "form: C9\n");
    check_refused(text, "form: C9", "'C9' is not known here");
  }
  SECTION("missing coefficient") {
    const std::string text = h100_with(
        "    a1: {value: 127.8 ns, spread: [0 s, 296.1 ns], samples: 126, source: "
        "\"aiconfigurator\"}\n",
        "");
    check_refused(text, "  all_to_all:", "missing key 'a1' in collectives.all_to_all");
  }
  SECTION("missing source") {
    const std::string text = h100_with(
        "{value: 127.8 ns, spread: [0 s, 296.1 ns], samples: 126, source: \"aiconfigurator\"}",
        "{value: 127.8 ns}");
    check_refused(text, "a1: {value: 127.8 ns}", "missing key 'source'");
  }
  SECTION("negative value") {
    const std::string text = h100_with("value: 127.8 ns", "value: -127.8 ns");
    check_refused(text, "-127.8 ns", "value");
  }
  SECTION("a rate of zero divides") {
    const std::string text = h100_with("value: 2.629 TB/s", "value: 0 GB/s");
    check_refused(text, "value: 0 GB/s", "'0 GB/s' is not above zero");
  }
  SECTION("an efficiency above one") {
    const std::string text = h100_with("norm_backward: {value: 0.33", "norm_backward: {value: 1.5");
    check_refused(text, "value: 1.5", "'1.5' is not an efficiency");
  }
  SECTION("a spread beside its value") {
    const std::string text = h100_with("[341.2 GB/s, 413.9 GB/s]", "[374 GB/s, 413.9 GB/s]");
    check_refused(text, "[374 GB/s", "373.1 GB/s is not between its bounds");
  }
  SECTION("unknown key") {
    const std::string text = h100_with("    gamma: {value: 2.629", "    gama: {value: 2.629");
    check_refused(text, "gama:", "unknown key 'gama' in collectives.all_to_all");
  }
  SECTION("a range of ranks the wrong way round") {
    const std::string text = h100_with("ranks: [2, 8]", "ranks: [8, 2]");
    check_refused(text, "[8, 2]", "the smaller number first");
  }
  SECTION("head dimensions out of order") {
    const std::string text = h100_with("head_dim: 128", "head_dim: 32");
    check_refused(text, "head_dim: 32", "ascending order");
  }
  SECTION("another version") {
    const std::string text = h100_with("version: 1\n", "version: 2\n");
    check_refused(text, "version: 2", "version");
  }
  SECTION("no GPU") {
    const std::string text = h100_with("{gpu: h100-sxm, nccl", "{nccl");
    check_refused(text, "device: {nccl", "missing key 'gpu' in device");
  }
}

TEST_CASE("a cluster of another GPU is refused at its profile key", "[config]") {
  const ProfileSpec profile = public_profile("h100-sxm-public");
  const SourceLocation key{.file = "cluster.yaml", .line = 7, .column = 3, .source_line = ""};
  CHECK_NOTHROW(check_profile_gpu(profile, "h100-sxm", key));
  try {
    check_profile_gpu(profile, "h200-sxm", key);
    FAIL("the profile was accepted");
  } catch (const Error& error) {
    CHECK(error.where().file == "cluster.yaml");
    CHECK(error.where().line == 7);
    CHECK(error.message() ==
          "profile 'h100-sxm-public' was measured on 'h100-sxm', the cluster's GPU is 'h200-sxm'");
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("h100-sxm-public.yaml"));
  }
}

/// Keys of docs/bibliography.md: the first word of each item, in backquotes.
std::set<std::string> bibliography_keys() {
  std::set<std::string> keys;
  std::istringstream lines(read(fs::path(TRIREME_SOURCE_DIR) / "docs" / "bibliography.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("- `", 0) == 0) {
      keys.insert(line.substr(3, line.find('`', 3) - 3));
    }
  }
  return keys;
}

TEST_CASE("every public profile is complete and cites the bibliography", "[config]") {
  const auto keys = bibliography_keys();
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kProfiles)) {
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const ProfileSpec profile = public_profile(name);
    ++files;
    CHECK(profile.coefficients.size() > 40);
    for (const CoefficientSpec& coefficient : profile.coefficients) {
      CAPTURE(coefficient.key, coefficient.source);
      CHECK(keys.count(coefficient.source) == 1);
      CHECK(coefficient.where.line > 0);
    }
  }
  CHECK(files == 4);
}

TEST_CASE("kernels of every public profile take longer for more work", "[config]") {
  for (const auto& entry : fs::directory_iterator(kProfiles)) {
    const ProfileSpec profile = public_profile(entry.path().stem().string());
    const cost::MachineCosts& costs = profile.costs;
    CAPTURE(profile.name);
    Seconds product(0);
    Seconds pass(0);
    for (std::int64_t size = 128; size <= 1 << 18; size *= 2) {
      CAPTURE(size);
      const Seconds next_product =
          cost::gemm_time(size, 4096, 4096, ElementType::bf16, false, *costs.gemm);
      CHECK(next_product > product);
      product = next_product;
      const auto next_pass = cost::pointwise_time(Bytes(size * 4096),
                                                  cost::PointwiseClass::norm_backward,
                                                  *costs.kernel_launch,
                                                  costs.pointwise);
      REQUIRE(next_pass.has_value());
      CHECK(*next_pass > pass);
      CHECK(*next_pass > Bytes(size * 4096) / costs.pointwise.memory_peak);
      pass = *next_pass;
      for (const auto& kernel :
           {costs.attention.flash2, costs.attention.flash3, costs.attention.cudnn}) {
        if (!kernel) {
          continue;
        }
        const cost::AttentionShape shape{.sequences = 1,
                                         .query_heads = 8,
                                         .query_tokens = Tokens(size),
                                         .key_tokens = Tokens(size),
                                         .head_dim = 128,
                                         .causal = true};
        const auto now = cost::attention_time(
            shape, cost::AttentionPass::forward, *kernel, *costs.streaming_multiprocessors);
        cost::AttentionShape longer = shape;
        longer.query_tokens = Tokens(2 * size);
        longer.key_tokens = Tokens(2 * size);
        const auto then = cost::attention_time(
            longer, cost::AttentionPass::forward, *kernel, *costs.streaming_multiprocessors);
        REQUIRE(now.has_value());
        CHECK(*then > *now);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::config
