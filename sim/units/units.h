// Strong types for every dimension that crosses a function boundary in sim/.
//
// Counts are exact 64-bit integers (Bytes, Elements, Tokens); Flops is a double because a training
// step can pass 2^63 operations. Construction is explicit, and only products with a meaning
// compile.
#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace trireme {

/// Guards an invariant of our own code; user input never reaches it.
inline void ensure(bool condition, const char* message) {
  if (!condition) {
    throw std::logic_error(message);
  }
}

template <class Tag, class Rep>
class Quantity {
 public:
  using Representation = Rep;

  constexpr Quantity() = default;

  constexpr explicit Quantity(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }

  // NOLINTNEXTLINE(modernize-use-nullptr): version 14 sees a pointer in the defaulted comparison
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }

  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }

  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }

  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.value_); }

  friend constexpr Quantity operator*(Rep factor, Quantity a) {
    return Quantity(factor * a.value_);
  }

 private:
  Rep value_ = 0;
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Elements = Quantity<struct ElementsTag, std::int64_t>;
using Tokens = Quantity<struct TokensTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return Seconds(static_cast<double>(amount.value()) / rate.value());
}

constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) {
  return Seconds(amount.value() / rate.value());
}

constexpr BytesPerSecond operator/(Bytes amount, Seconds time) {
  return BytesPerSecond(static_cast<double>(amount.value()) / time.value());
}

constexpr FlopsPerSecond operator/(Flops amount, Seconds time) {
  return FlopsPerSecond(amount.value() / time.value());
}

/// The ratio of two amounts of one kind, such as a model FLOP utilisation.
template <class Tag, class Rep>
constexpr double ratio(Quantity<Tag, Rep> a, Quantity<Tag, Rep> b) {
  return static_cast<double>(a.value()) / static_cast<double>(b.value());
}

/// Element types of tensors; bytes are width(type) times elements.
enum class ElementType : std::uint8_t {
  bf16,
  fp16,
  fp32,
  fp64,
  fp8,
  int32,
  int64,
  int8,
  uint8,
  uint32,
  uint64
};

[[nodiscard]] constexpr std::int64_t width(ElementType type) {
  switch (type) {
    case ElementType::fp8:
    case ElementType::int8:
    case ElementType::uint8:
      return 1;
    case ElementType::bf16:
    case ElementType::fp16:
      return 2;
    case ElementType::fp32:
    case ElementType::int32:
    case ElementType::uint32:
      return 4;
    case ElementType::fp64:
    case ElementType::int64:
    case ElementType::uint64:
      return 8;
  }
  return 0;
}

[[nodiscard]] constexpr const char* name(ElementType type) {
  switch (type) {
    case ElementType::bf16:
      return "bf16";
    case ElementType::fp16:
      return "fp16";
    case ElementType::fp32:
      return "fp32";
    case ElementType::fp64:
      return "fp64";
    case ElementType::fp8:
      return "fp8";
    case ElementType::int32:
      return "int32";
    case ElementType::int64:
      return "int64";
    case ElementType::int8:
      return "int8";
    case ElementType::uint8:
      return "uint8";
    case ElementType::uint32:
      return "uint32";
    case ElementType::uint64:
      return "uint64";
  }
  return "";
}

[[nodiscard]] constexpr Bytes bytes_of(Elements count, ElementType type) {
  return Bytes(count.value() * width(type));
}

/// a / b where a remainder would be a bug. Throws std::logic_error on a remainder.
[[nodiscard]] constexpr std::int64_t exact_div(std::int64_t a, std::int64_t b) {
  if (b == 0 || a % b != 0) {
    throw std::logic_error("exact_div: a remainder");
  }
  return a / b;
}

[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The smallest multiple of `multiple` that is not below `a`.
[[nodiscard]] constexpr std::int64_t pad_to(std::int64_t a, std::int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

[[nodiscard]] constexpr Bytes exact_div(Bytes a, std::int64_t b) {
  return Bytes(exact_div(a.value(), b));
}

}  // namespace trireme
