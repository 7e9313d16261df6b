#include "calibrate/probe/gpu/gemm_probe.h"

#include <cmath>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "calibrate/probe/gpu/check.h"
#include "calibrate/probe/gpu/host_copy.h"
#include "calibrate/probe/gpu/kernels.h"
#include "calibrate/probe/pattern.h"

namespace trireme::calibrate::gpu {

namespace {

constexpr std::int64_t kMostSets = 8;
constexpr std::int64_t kComparedElements = 64;
/// Half a unit of bf16 is 2^-9 of a number; twice that, as sums are rounded twice where the
/// library splits them.
constexpr double kResultTolerance = 1.0 / 256;
/// Of the root of the summed squares of the terms: what adding in fp32 in any order can lose.
constexpr double kSumTolerance = 1.0 / 512;

/// Element of op(matrix) at `row` and `column`, of what fill_gemm() wrote.
double element(const StoredMatrix& matrix,
               std::uint64_t seed,
               std::int64_t row,
               std::int64_t column) {
  const std::int64_t index = matrix.transposed ? column + row * matrix.leading_dimension
                                               : row + column * matrix.leading_dimension;
  return static_cast<double>(uniform_value(seed, static_cast<std::uint64_t>(index)));
}

class GemmTrial final : public Trial {
 public:
  GemmTrial(Device& device, const BlasHandle& handle, const GemmPoint& point)
      : device_(device), point_(point), matmul_(handle, point) {
    const std::int64_t sets = rotated_sets(gemm_buffer_bytes(point), device.cache(), kMostSets);
    for (std::int64_t set = 0; set < sets; ++set) {
      fill_gemm(device.stream(), buffers_.emplace_back(point), static_cast<std::uint64_t>(set));
    }
    device.stream().wait();
  }

  void verify() override {
    matmul_.execute(device_.stream(), buffers_.front());
    device_.stream().wait();
    verify_gemm(point_, buffers_.front());
  }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    return device_.time(times, [&](std::int64_t number) {
      matmul_.execute(device_.stream(),
                      buffers_[static_cast<std::size_t>(number) % buffers_.size()]);
    });
  }

 private:
  Device& device_;
  GemmPoint point_;
  Matmul matmul_;
  std::vector<GemmBuffers> buffers_;
};

}  // namespace

void fill_gemm(const Stream& stream, const GemmBuffers& buffers, std::uint64_t set) {
  const auto elements = [](const Buffer& buffer) {
    return buffer.amount().value() / width(ElementType::bf16);
  };
  fill_bf16(stream.get(), buffers.a.get(), elements(buffers.a), 2 * set);
  fill_bf16(stream.get(), buffers.b.get(), elements(buffers.b), 2 * set + 1);
  check(cudaMemsetAsync(
            buffers.d.get(), 0, static_cast<std::size_t>(buffers.d.amount().value()), stream.get()),
        "cudaMemsetAsync");
}

void verify_gemm(const GemmPoint& point, const GemmBuffers& buffers) {
  const GemmLayout layout = gemm_layout(point);
  for (std::int64_t i = 0; i < kComparedElements; ++i) {
    // The corners, and places in between that share no divisor with tile sizes.
    const std::int64_t row = i % 2 == 0 ? i * (layout.m - 1) / (kComparedElements - 2)
                                        : layout.m - 1 - i * 37 % layout.m;
    const std::int64_t column =
        i % 3 == 0 ? layout.n - 1 - i * (layout.n - 1) / kComparedElements : i * 61 % layout.n;
    double sum = 0;
    double squares = 0;
    for (std::int64_t k = 0; k < layout.k; ++k) {
      const double term = element(layout.a, 0, row, k) * element(layout.b, 1, k, column);
      sum += term;
      squares += term * term;
    }
    const std::int64_t at = row + column * layout.d.leading_dimension;
    const double got = static_cast<double>(
        point.fp32_accumulation ? read_rows<float>(buffers.d.get(), at, 1, 1, 1).front()
                                : read_bf16_rows(buffers.d.get(), at, 1, 1, 1).front());
    const double allowed = kResultTolerance * std::abs(sum) + kSumTolerance * std::sqrt(squares);
    if (!(std::abs(got - sum) <= allowed)) {
      throw WrongResult(fmt::format(
          "{}: element ({}, {}) is {}, not {}", in_words(Point(point)), column, row, got, sum));
    }
  }
}

GemmProbe::GemmProbe(Device& device, std::string_view name, std::vector<GemmPoint> points)
    : device_(device), name_(name), points_(std::move(points)) {}

std::vector<Point> GemmProbe::points() const {
  return {points_.begin(), points_.end()};
}

void GemmProbe::start(MemoryStages& stages) {
  handle_ = std::make_unique<BlasHandle>();
  stages.note("cublaslt", memory_state().used());
}

std::unique_ptr<Trial> GemmProbe::prepare(const Point& point) {
  return std::make_unique<GemmTrial>(device_, *handle_, std::get<GemmPoint>(point));
}

}  // namespace trireme::calibrate::gpu
