#include "calibrate/probe/gpu/memory_bound_probe.h"

#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/probe/gpu/check.h"
#include "calibrate/probe/gpu/host_copy.h"
#include "calibrate/probe/gpu/kernels.h"
#include "calibrate/probe/pattern.h"

namespace trireme::calibrate::gpu {

namespace {

constexpr std::int64_t kMostSets = 64;
constexpr std::int64_t kWidth = 4096;    // elements of a row of norms and of SwiGLU's result
constexpr std::int64_t kLogits = 32768;  // of a row of the cross entropy
constexpr std::int64_t kParts = 8;       // ranks of the exchange that a layout change stands beside
constexpr std::int64_t kPartWidth = 512;
constexpr std::int64_t kComparedElements = 256;
/// Half a unit of bf16 is 2^-9 of a number; four times that, as intermediates are fp32.
constexpr double kTolerance = 1.0 / 128;
constexpr double kEpsilon = 1e-5;  // of the norm, and below which differences do not count

double value_of(std::uint64_t seed, std::int64_t index) {
  return static_cast<double>(uniform_value(seed, static_cast<std::uint64_t>(index)));
}

/// A kernel on sets of buffers. Buffer i of set s is filled with uniform_value() of seed 16 s + i.
class MemoryBoundTrial : public Trial {
 public:
  void verify() override {
    launch(sets_.front());
    device_.stream().wait();
    compare(sets_.front());
  }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    return device_.time(times, [&](std::int64_t number) {
      launch(sets_[static_cast<std::size_t>(number) % sets_.size()]);
    });
  }

 protected:
  using Set = std::vector<Buffer>;

  struct Operand {
    std::int64_t elements = 0;
    ElementType type = ElementType::bf16;
    bool zero = false;  // else filled
  };

  MemoryBoundTrial(Device& device, const std::vector<Operand>& operands) : device_(device) {
    Bytes whole;
    for (const Operand& operand : operands) {
      whole += bytes_of(Elements(operand.elements), operand.type);
    }
    const std::int64_t sets = rotated_sets(whole, device.cache(), kMostSets);
    for (std::int64_t set = 0; set < sets; ++set) {
      Set& buffers = sets_.emplace_back();
      for (const Operand& operand : operands) {
        const std::uint64_t seed = 16 * static_cast<std::uint64_t>(set) + buffers.size();
        fill(buffers.emplace_back(bytes_of(Elements(operand.elements), operand.type)),
             operand,
             seed);
      }
    }
    device.stream().wait();
  }

  [[nodiscard]] Device& device() const { return device_; }

  [[nodiscard]] cudaStream_t stream() const { return device_.stream().get(); }

  virtual void launch(const Set& set) = 0;
  virtual void compare(const Set& set) const = 0;

  /// Throws WrongResult unless the bf16 element at `index` is about `expected`.
  static void compare_bf16(const Buffer& buffer, std::int64_t index, double expected) {
    compare_number(
        read_bf16_rows(buffer.get(), index, 1, 1, 1).front(), index, expected, kTolerance);
  }

  static void compare_fp32(const Buffer& buffer,
                           std::int64_t index,
                           double expected,
                           double tolerance) {
    compare_number(
        read_rows<float>(buffer.get(), index, 1, 1, 1).front(), index, expected, tolerance);
  }

 private:
  void fill(const Buffer& buffer, const Operand& operand, std::uint64_t seed) const {
    if (operand.zero) {
      check(cudaMemsetAsync(
                buffer.get(), 0, static_cast<std::size_t>(buffer.amount().value()), stream()),
            "cudaMemsetAsync");
    } else if (operand.type == ElementType::fp32) {
      fill_fp32(stream(), static_cast<float*>(buffer.get()), operand.elements, seed);
    } else {
      fill_bf16(stream(), buffer.get(), operand.elements, seed);
    }
  }

  static void compare_number(float got, std::int64_t index, double expected, double tolerance) {
    const double distance = std::abs(static_cast<double>(got) - expected);
    if (!(distance <= tolerance * std::abs(expected) + kEpsilon)) {
      throw WrongResult(fmt::format("a kernel's element {} is {}, not {}", index, got, expected));
    }
  }

  Device& device_;
  std::vector<Set> sets_;
};

/// Places over `elements`, the last one among them.
std::int64_t sampled(std::int64_t number, std::int64_t elements) {
  return elements - 1 - number * (elements - 1) / kComparedElements;
}

class NormTrial final : public MemoryBoundTrial {
 public:
  NormTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(
            device, {{elements}, {kWidth}, {elements}, {elements / kWidth, ElementType::fp32}}),
        rows_(elements / kWidth) {}

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) {
    return Bytes(4 * elements + 2 * kWidth + 4 * (elements / kWidth));
  }

 protected:
  void launch(const Set& set) override {
    rms_norm(stream(),
             set[0].get(),
             set[1].get(),
             set[2].get(),
             static_cast<float*>(set[3].get()),
             rows_,
             kWidth);
  }

  void compare(const Set& set) const override {
    for (const std::int64_t row : {std::int64_t{0}, rows_ / 2, rows_ - 1}) {
      double squares = 0;
      for (std::int64_t i = 0; i < kWidth; ++i) {
        squares += std::pow(value_of(0, row * kWidth + i), 2);
      }
      const double inverse = 1 / std::sqrt(squares / kWidth + kEpsilon);
      compare_fp32(set[3], row, inverse, kTolerance);
      for (std::int64_t i = 0; i < kWidth; i += 61) {
        compare_bf16(
            set[2], row * kWidth + i, value_of(0, row * kWidth + i) * inverse * value_of(1, i));
      }
    }
  }

 private:
  std::int64_t rows_;
};

class NormBackwardTrial final : public MemoryBoundTrial {
 public:
  NormBackwardTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device,
                         {{elements},
                          {elements},
                          {kWidth},
                          {elements / kWidth, ElementType::fp32},
                          {elements},
                          {norm_partials(device.multiprocessors()) * kWidth, ElementType::fp32},
                          {kWidth, ElementType::fp32}}),
        rows_(elements / kWidth) {}

  static Bytes moved(std::int64_t elements, int multiprocessors) {
    const std::int64_t partials = 4 * norm_partials(multiprocessors) * kWidth;
    return Bytes(6 * elements + 2 * kWidth + 4 * (elements / kWidth) + 2 * partials + 4 * kWidth);
  }

 protected:
  void launch(const Set& set) override {
    rms_norm_backward(stream(),
                      set[0].get(),
                      set[1].get(),
                      set[2].get(),
                      static_cast<const float*>(set[3].get()),
                      set[4].get(),
                      static_cast<float*>(set[5].get()),
                      static_cast<float*>(set[6].get()),
                      rows_,
                      kWidth,
                      device().multiprocessors());
  }

  // The inverse root is not that of x here but the number that fills it: the formula is the same.
  void compare(const Set& set) const override {
    for (const std::int64_t row : {std::int64_t{0}, rows_ / 2, rows_ - 1}) {
      const double inverse = value_of(3, row);
      double mean = 0;
      for (std::int64_t i = 0; i < kWidth; ++i) {
        const std::int64_t at = row * kWidth + i;
        mean += value_of(0, at) * value_of(2, i) * value_of(1, at) * inverse / kWidth;
      }
      for (std::int64_t i = 0; i < kWidth; i += 61) {
        const std::int64_t at = row * kWidth + i;
        compare_bf16(
            set[4],
            at,
            inverse * (value_of(0, at) * value_of(2, i) - value_of(1, at) * inverse * mean));
      }
    }
    for (std::int64_t i = 0; i < kWidth; i += 509) {
      double sum = 0;
      double squares = 0;
      for (std::int64_t row = 0; row < rows_; ++row) {
        const std::int64_t at = row * kWidth + i;
        const double term = value_of(0, at) * value_of(1, at) * value_of(3, row);
        sum += term;
        squares += term * term;
      }
      const float got = read_rows<float>(set[6].get(), i, 1, 1, 1).front();
      if (!(std::abs(static_cast<double>(got) - sum) <=
            kTolerance * std::sqrt(squares) + kEpsilon)) {
        throw WrongResult(fmt::format("a norm weight's gradient is {}, not {}", got, sum));
      }
    }
  }

 private:
  std::int64_t rows_;
};

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  const double tanh_inner = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + tanh_inner) +
         0.5 * x * (1 - tanh_inner * tanh_inner) * root * (1 + 3 * 0.044715 * x * x);
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

class GeluTrial final : public MemoryBoundTrial {
 public:
  GeluTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device, {{elements}, {elements}}), elements_(elements) {}

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) { return Bytes(4 * elements); }

 protected:
  void launch(const Set& set) override { gelu(stream(), set[0].get(), set[1].get(), elements_); }

  void compare(const Set& set) const override {
    for (std::int64_t i = 0; i < kComparedElements; ++i) {
      const std::int64_t at = sampled(i, elements_);
      compare_bf16(set[1], at, gelu_of(value_of(0, at)));
    }
  }

 private:
  std::int64_t elements_;
};

class GeluBackwardTrial final : public MemoryBoundTrial {
 public:
  GeluBackwardTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device, {{elements}, {elements}, {elements}}), elements_(elements) {}

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) { return Bytes(6 * elements); }

 protected:
  void launch(const Set& set) override {
    gelu_backward(stream(), set[0].get(), set[1].get(), set[2].get(), elements_);
  }

  void compare(const Set& set) const override {
    for (std::int64_t i = 0; i < kComparedElements; ++i) {
      const std::int64_t at = sampled(i, elements_);
      compare_bf16(set[2], at, value_of(0, at) * gelu_slope(value_of(1, at)));
    }
  }

 private:
  std::int64_t elements_;
};

class SwigluTrial final : public MemoryBoundTrial {
 public:
  SwigluTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device, {{2 * elements}, {elements}}), elements_(elements) {}

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) { return Bytes(6 * elements); }

 protected:
  void launch(const Set& set) override {
    swiglu(stream(), set[0].get(), set[1].get(), elements_ / kWidth, kWidth);
  }

  void compare(const Set& set) const override {
    for (std::int64_t i = 0; i < kComparedElements; ++i) {
      const std::int64_t at = sampled(i, elements_);
      const std::int64_t gate_at = at / kWidth * 2 * kWidth + at % kWidth;
      const double gate = value_of(0, gate_at);
      compare_bf16(set[1], at, gate * sigmoid(gate) * value_of(0, gate_at + kWidth));
    }
  }

 private:
  std::int64_t elements_;
};

class SwigluBackwardTrial final : public MemoryBoundTrial {
 public:
  SwigluBackwardTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device, {{elements}, {2 * elements}, {2 * elements}}),
        elements_(elements) {}

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) {
    return Bytes(10 * elements);
  }

 protected:
  void launch(const Set& set) override {
    swiglu_backward(stream(), set[0].get(), set[1].get(), set[2].get(), elements_ / kWidth, kWidth);
  }

  void compare(const Set& set) const override {
    for (std::int64_t i = 0; i < kComparedElements; ++i) {
      const std::int64_t at = sampled(i, elements_);
      const std::int64_t gate_at = at / kWidth * 2 * kWidth + at % kWidth;
      const double gate = value_of(1, gate_at);
      const double gradient = value_of(0, at);
      const double s = sigmoid(gate);
      compare_bf16(
          set[2], gate_at, gradient * value_of(1, gate_at + kWidth) * s * (1 + gate * (1 - s)));
      compare_bf16(set[2], gate_at + kWidth, gradient * gate * s);
    }
  }

 private:
  std::int64_t elements_;
};

class AddTrial final : public MemoryBoundTrial {
 public:
  AddTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device, {{elements}, {elements}, {elements}}), elements_(elements) {}

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) { return Bytes(6 * elements); }

 protected:
  void launch(const Set& set) override {
    add(stream(), set[0].get(), set[1].get(), set[2].get(), elements_);
  }

  void compare(const Set& set) const override {
    for (std::int64_t i = 0; i < kComparedElements; ++i) {
      const std::int64_t at = sampled(i, elements_);
      compare_bf16(set[2], at, value_of(0, at) + value_of(1, at));
    }
  }

 private:
  std::int64_t elements_;
};

class CopyTrial final : public MemoryBoundTrial {
 public:
  CopyTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device, {{elements}, {elements}}), elements_(elements) {}

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) { return Bytes(4 * elements); }

 protected:
  void launch(const Set& set) override {
    check(cudaMemcpyAsync(set[1].get(),
                          set[0].get(),
                          static_cast<std::size_t>(2 * elements_),
                          cudaMemcpyDeviceToDevice,
                          stream()),
          "cudaMemcpyAsync");
  }

  void compare(const Set& set) const override {
    for (std::int64_t i = 0; i < kComparedElements; ++i) {
      const std::int64_t at = sampled(i, elements_);
      compare_bf16(set[1], at, value_of(0, at));
    }
  }

 private:
  std::int64_t elements_;
};

class LayoutChangeTrial final : public MemoryBoundTrial {
 public:
  LayoutChangeTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device, {{elements}, {elements}}),
        elements_(elements),
        rows_(elements / (kParts * kPartWidth)) {}

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) { return Bytes(4 * elements); }

 protected:
  void launch(const Set& set) override {
    exchange_axes(stream(), set[0].get(), set[1].get(), rows_, kParts, kPartWidth);
  }

  void compare(const Set& set) const override {
    for (std::int64_t i = 0; i < kComparedElements; ++i) {
      const std::int64_t at = sampled(i, elements_);
      const std::int64_t row = at / (kParts * kPartWidth);
      const std::int64_t part = at / kPartWidth % kParts;
      compare_bf16(set[1], (part * rows_ + row) * kPartWidth + at % kPartWidth, value_of(0, at));
    }
  }

 private:
  std::int64_t elements_;
  std::int64_t rows_;
};

class AdamTrial final : public MemoryBoundTrial {
 public:
  AdamTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device,
                         {{elements, ElementType::fp32},
                          {elements, ElementType::fp32, true},
                          {elements, ElementType::fp32, true},
                          {elements, ElementType::fp32},
                          {elements}}),
        elements_(elements) {
    step_.learning_rate = 1e-2F;
    step_.correction1 = 1 - step_.beta1;
    step_.correction2 = 1 - step_.beta2;
  }

  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) {
    return Bytes((3 * 8 + 4 + 2) * elements);
  }

 protected:
  void launch(const Set& set) override {
    adamw(stream(),
          static_cast<float*>(set[0].get()),
          static_cast<float*>(set[1].get()),
          static_cast<float*>(set[2].get()),
          static_cast<const float*>(set[3].get()),
          set[4].get(),
          elements_,
          step_);
  }

  void compare(const Set& set) const override {
    constexpr double kFp32Tolerance = 1e-5;
    for (std::int64_t i = 0; i < kComparedElements; ++i) {
      const std::int64_t at = sampled(i, elements_);
      const double gradient = value_of(3, at);
      const double first = (1 - static_cast<double>(step_.beta1)) * gradient;
      const double second = (1 - static_cast<double>(step_.beta2)) * gradient * gradient;
      // In the first step the corrected moments are the gradient and its square.
      const double direction = gradient / (std::abs(gradient) + static_cast<double>(step_.epsilon));
      const double before = value_of(0, at);
      const double after =
          before - static_cast<double>(step_.learning_rate) *
                       (direction + static_cast<double>(step_.weight_decay) * before);
      compare_fp32(set[0], at, after, kFp32Tolerance);
      compare_fp32(set[1], at, first, kFp32Tolerance);
      compare_fp32(set[2], at, second, kFp32Tolerance);
      compare_bf16(set[4], at, after);
    }
  }

 private:
  std::int64_t elements_;
  AdamStep step_;
};

class CrossEntropyTrial final : public MemoryBoundTrial {
 public:
  CrossEntropyTrial(Device& device, std::int64_t elements)
      : MemoryBoundTrial(device,
                         {{elements},
                          {elements / kLogits, ElementType::fp32, true},
                          {elements / kLogits, ElementType::fp32}}),
        rows_(elements / kLogits) {}

  /// Logits twice read and once written; targets and losses.
  static Bytes moved(std::int64_t elements, int /*multiprocessors*/) {
    return Bytes(6 * elements + 8 * (elements / kLogits));
  }

 protected:
  // Zeros are the targets: int32 and fp32 agree on them.
  void launch(const Set& set) override {
    cross_entropy(stream(),
                  set[0].get(),
                  static_cast<const std::int32_t*>(set[1].get()),
                  static_cast<float*>(set[2].get()),
                  rows_,
                  kLogits);
  }

  void compare(const Set& set) const override {
    for (const std::int64_t row : {std::int64_t{0}, rows_ - 1}) {
      double sum = 0;
      for (std::int64_t i = 0; i < kLogits; ++i) {
        sum += std::exp(value_of(0, row * kLogits + i));
      }
      compare_fp32(set[2], row, std::log(sum) - value_of(0, row * kLogits), kTolerance);
      const auto gradient = [&](std::int64_t i) {
        const double probability = std::exp(value_of(0, row * kLogits + i)) / sum;
        return (probability - (i == 0 ? 1 : 0)) / static_cast<double>(rows_);
      };
      for (std::int64_t i = 0; i < kLogits; i += 1021) {
        const float got = read_bf16_rows(set[0].get(), row * kLogits + i, 1, 1, 1).front();
        const double expected = gradient(i);
        if (!(std::abs(static_cast<double>(got) - expected) <= kTolerance * std::abs(expected))) {
          throw WrongResult(fmt::format("a logit's gradient is {}, not {}", got, expected));
        }
      }
    }
  }

 private:
  std::int64_t rows_;
};

struct Kernel {
  cost::PointwiseClass kind;
  std::string_view name;
  Bytes (*moved)(std::int64_t elements, int multiprocessors);
  std::unique_ptr<Trial> (*make)(Device& device, std::int64_t elements);
};

template <class T>
std::unique_ptr<Trial> make(Device& device, std::int64_t elements) {
  return std::make_unique<T>(device, elements);
}

template <class T>
constexpr Kernel row(cost::PointwiseClass kind, std::string_view name) {
  return {kind, name, T::moved, make<T>};
}

constexpr std::array kKernels = {
    row<CopyTrial>(cost::PointwiseClass::copy, "device copy"),
    row<LayoutChangeTrial>(cost::PointwiseClass::copy, "layout change"),
    row<AddTrial>(cost::PointwiseClass::pointwise, "add"),
    row<GeluTrial>(cost::PointwiseClass::pointwise, "gelu"),
    row<GeluBackwardTrial>(cost::PointwiseClass::pointwise, "gelu backward"),
    row<SwigluTrial>(cost::PointwiseClass::pointwise, "swiglu"),
    row<SwigluBackwardTrial>(cost::PointwiseClass::pointwise, "swiglu backward"),
    row<NormTrial>(cost::PointwiseClass::norm_forward, "rms norm"),
    row<NormBackwardTrial>(cost::PointwiseClass::norm_backward, "rms norm backward"),
    row<AdamTrial>(cost::PointwiseClass::adam, "adamw"),
    row<CrossEntropyTrial>(cost::PointwiseClass::cross_entropy, "cross entropy"),
};

constexpr std::array<std::int64_t, 5> kElements = {1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28};

}  // namespace

MemoryBoundProbe::MemoryBoundProbe(Device& device) : device_(device) {}

std::vector<Point> MemoryBoundProbe::points() const {
  std::vector<Point> points;
  for (const Kernel& kernel : kKernels) {
    for (const std::int64_t elements : kElements) {
      points.emplace_back(
          MemoryBoundPoint{.kind = kernel.kind,
                           .kernel = std::string(kernel.name),
                           .moved = kernel.moved(elements, device_.multiprocessors())});
    }
  }
  return points;
}

std::unique_ptr<Trial> MemoryBoundProbe::prepare(const Point& any_point) {
  const auto& point = std::get<MemoryBoundPoint>(any_point);
  for (const Kernel& kernel : kKernels) {
    for (const std::int64_t elements : kElements) {
      if (kernel.name == point.kernel &&
          kernel.moved(elements, device_.multiprocessors()) == point.moved) {
        return kernel.make(device_, elements);
      }
    }
  }
  throw std::logic_error("memory bound probe: not one of its points");
}

}  // namespace trireme::calibrate::gpu
