// Held-out errors of fits to published measurements, where those are at hand beside the repository:
// no worse than fit_forms states for the same forms.
#include "calibrate/fit/fit.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/fit/report.h"
#include "calibrate/import/import_file.h"
#include "calibrate/import/nccl_tests.h"
#include "sim/config/cluster.h"
#include "sim/config/library.h"
#include "sim/core/files.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

namespace fs = std::filesystem;

const fs::path kReference = fs::path(TRIREME_SOURCE_DIR) / ".." / "shared" / "reference";

MeasurementSet imported(const std::vector<fs::path>& files) {
  MeasurementSet set;
  for (const fs::path& file : files) {
    ImportedFile read =
        import_text(read_text_file(file, {}, kLargestLog), file.string(), Statements{});
    set.measurements.insert(
        set.measurements.end(), read.log.measurements.begin(), read.log.measurements.end());
    set.environments.insert(
        set.environments.end(), read.log.environments.begin(), read.log.environments.end());
  }
  return set;
}

FitOptions options_for(const std::string& gpu) {
  FitOptions options;
  options.gpu = config::read_gpu(config::make_text(gpu, {}), config::Library({}));
  return options;
}

struct Gpu {
  std::string preset;
  std::string device;
  std::string file;  // in the names of the tables
};

std::vector<Gpu> gpus() {
  return {{"a100-sxm-80", "NVIDIA A100-SXM4-80GB", "a100"},
          {"h100-sxm", "NVIDIA H100 80GB HBM3", "h100"},
          {"h200-sxm", "NVIDIA H200", "h200"},
          {"b200-sxm", "NVIDIA B200", "b200"}};
}

using Pairs = std::vector<std::pair<double, double>>;

/// The rows of one device and library, of 16-bit elements: libraries differ by up to a factor of
/// two at single sizes.
MeasurementSet of_library(const MeasurementSet& all, const Environment& environment) {
  MeasurementSet set;
  set.environments = {environment};
  for (const Measurement& row : all.measurements) {
    if (row.environment == environment.key &&
        std::get<CollectivePoint>(row.point).type == ElementType::fp16) {
      set.measurements.push_back(row);
    }
  }
  return set;
}

TEST_CASE("collectives inside a node are held out as well as fit_forms says", "[validation]") {
  const fs::path file = kReference / "nccl" / "nccl_aiconfigurator.csv";
  if (!fs::exists(file)) {
    test::skip("the measurements of collectives are not at hand");
    return;
  }
  std::vector<FitResult> fits;
  const MeasurementSet all = imported({file});
  for (const Environment& environment : all.environments) {
    for (const Gpu& gpu : gpus()) {
      if (environment.device == gpu.device) {
        fits.push_back(fit_profile(of_library(all, environment), options_for(gpu.preset)));
      }
    }
  }
  REQUIRE(fits.size() == 5);
  // the cluster whose logs go on to 16 GB
  const fs::path logs = kReference / "nccl" / "logs";
  fits.push_back(fit_profile(imported({logs / "h100_n1_g4_h002_multi5.txt",
                                       logs / "h100_n1_g4_h007_multi5.txt",
                                       logs / "h100_n1_g8_h002_multi5.txt"}),
                             options_for("h100-sxm")));
  Pairs small;  // 4 KB to 1 MB
  Pairs large;  // to 512 MB
  Pairs small_with_table;
  Pairs large_with_table;
  for (const FitResult& result : fits) {
    REQUIRE(result.models.size() >= 4);
    for (const ModelFit& model : result.models) {
      CAPTURE(model.title());
      REQUIRE(model.absent.empty());
      if (model.form == "C2") {  // point-to-point: a form of its own
        continue;
      }
      for (const PointFit& point : model.points) {
        if (point.extent < 4096 || point.extent > 512 * 1048576.0) {
          continue;
        }
        const bool is_small = point.extent < 1e6;
        (is_small ? small : large).emplace_back(point.held_out.value(), point.measured.value());
        (is_small ? small_with_table : large_with_table)
            .emplace_back(point.tabulated, point.measured.value());
      }
    }
  }
  // Section 1: C1 joint over n, and with a table of residuals; 1 MiB counts as large.
  CHECK(summarise(small).median <= 0.049);
  CHECK(summarise(large).median <= 0.042);
  CHECK(summarise(small_with_table).median <= 0.027);
  CHECK(summarise(large_with_table).median <= 0.026);
}

/// Held-out products, and what section 4 states for as many of each GPU.
struct HeldOutProducts {
  Pairs pairs;
  double stated = 0;  // sum over products of the median stated for their GPU

  [[nodiscard]] double stated_median() const { return stated / static_cast<double>(pairs.size()); }
};

/// Held-out errors of the products of all tables at hand that `keep` keeps. `stated`: the median
/// errors by GPU, in the order of gpus(). A random part of each table is at hand, and so another
/// mixture of GPUs than behind the median of all.
template <class Keep>
HeldOutProducts products_held_out(Keep keep, const std::array<double, 4>& stated) {
  HeldOutProducts held_out;
  for (std::size_t i = 0; i < gpus().size(); ++i) {
    const Gpu gpu = gpus()[i];
    for (const std::string stack : {"vllm", "trtllm", "sglang"}) {
      const fs::path file =
          kReference / "kernels" / ("gemm_aiconfigurator_" + gpu.file + "_sxm_" + stack + ".csv");
      if (!fs::exists(file)) {
        continue;
      }
      MeasurementSet set = imported({file});
      std::erase_if(set.measurements, [&](const Measurement& row) {
        const auto& point = std::get<GemmPoint>(row.point);
        return point.type != ElementType::bf16 || !keep(point);
      });
      FitOptions options = options_for(gpu.preset);
      options.least_width = 256;
      const FitResult result = fit_profile(set, options);
      REQUIRE(result.models.size() == 1);
      REQUIRE(result.models.front().absent.empty());
      for (const PointFit& point : result.models.front().points) {
        held_out.pairs.emplace_back(point.held_out.value(), point.measured.value());
        held_out.stated += stated.at(i);
      }
    }
  }
  return held_out;
}

TEST_CASE("matrix products are held out as well as fit_forms says", "[validation]") {
  const HeldOutProducts tall = products_held_out(
      [](const GemmPoint& point) { return point.m >= 1024; }, {0.044, 0.041, 0.045, 0.053});
  const HeldOutProducts flat = products_held_out(
      [](const GemmPoint& point) { return point.m < 1024; }, {0.098, 0.074, 0.081, 0.106});
  if (tall.pairs.empty()) {
    test::skip("the measurements of matrix products are not at hand");
    return;
  }
  CHECK(summarise(tall.pairs).median <= tall.stated_median());
  CHECK(summarise(flat.pairs).median <= flat.stated_median());
}

TEST_CASE("attention is held out as well as fit_forms says", "[validation]") {
  struct Table {
    Gpu gpu;
    std::string kernel;
    std::int64_t multiprocessors;
  };

  const std::vector<Table> tables = {{gpus()[0], "vllm_flash_attn (vllm 0.14.0)", 108},
                                     {gpus()[1], "vllm_flash_attn_fa3 (vllm 0.24.0)", 132},
                                     {gpus()[1], "fa3 (sglang 0.5.14)", 132},
                                     {gpus()[2], "vllm_flash_attn_fa3 (vllm 0.24.0)", 132},
                                     {gpus()[3], "torch_flow (trtllm 1.3.0rc20)", 148}};
  Pairs all;
  for (const Table& table : tables) {
    const fs::path file =
        kReference / "kernels" / ("attn_aiconfigurator_" + table.gpu.file + "_sxm.csv");
    if (!fs::exists(file)) {
      test::skip("the measurements of attention are not at hand");
      return;
    }
    MeasurementSet set = imported({file});
    std::erase_if(set.measurements, [&](const Measurement& row) {
      const auto& point = std::get<AttentionPoint>(row.point);
      return point.type != ElementType::bf16 || point.kernel != table.kernel;
    });
    FitOptions options = options_for(table.gpu.preset);
    options.multiprocessors = table.multiprocessors;
    options.least_tokens = Tokens(2048);
    options.kernels[table.kernel] = "flash3";
    const FitResult result = fit_profile(set, options);
    REQUIRE(result.models.size() == 1);
    CAPTURE(table.kernel, result.models.front().absent);
    REQUIRE(result.models.front().absent.empty());
    for (const PointFit& point : result.models.front().points) {
      all.emplace_back(point.held_out.value(), point.measured.value());
    }
  }
  // Section 3: A1 at 2,048 tokens and more, lengths held out: 6.0 %
  CHECK(summarise(all).median <= 0.06);
}

}  // namespace
}  // namespace trireme::calibrate
