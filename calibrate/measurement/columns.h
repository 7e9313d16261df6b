// The columns of each measurement file: one list serves header, writer and reader.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "calibrate/measurement/environment.h"
#include "calibrate/measurement/measurement.h"

namespace trireme::calibrate {

enum class Presence : std::uint8_t { required, optional };

/// Is shown the columns of a row, in order, with the values that they hold or take.
class Columns {
 public:
  Columns() = default;
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;
  virtual ~Columns() = default;

  virtual void text(std::string_view column, std::string& value, Presence presence) = 0;
  virtual void count(std::string_view column, std::int64_t& value, std::int64_t least) = 0;
  virtual void seconds(std::string_view column, Seconds& value) = 0;
  virtual void flag(std::string_view column, bool& value) = 0;
  /// `value` is a place in `names`.
  virtual void choice(std::string_view column,
                      std::size_t& value,
                      std::span<const std::string_view> names) = 0;

  void bytes(std::string_view column, Bytes& value, std::int64_t least) {
    std::int64_t number = value.value();
    count(column, number, least);
    value = Bytes(number);
  }

  void tokens(std::string_view column, Tokens& value) {
    std::int64_t number = value.value();
    count(column, number, 1);
    value = Tokens(number);
  }

  template <class Enum>
  void word(std::string_view column, Enum& value, std::span<const std::string_view> names) {
    auto place = static_cast<std::size_t>(value);
    choice(column, place, names);
    value = static_cast<Enum>(place);
  }
};

void visit(Columns& columns, CollectivePoint& point);
void visit(Columns& columns, AttentionPoint& point);
void visit(Columns& columns, GemmPoint& point);
void visit(Columns& columns, MemoryBoundPoint& point);
void visit(Columns& columns, LaunchPoint& point);
void visit(Columns& columns, HostCopyPoint& point);
void visit(Columns& columns, InterferencePoint& point);
void visit(Columns& columns, Timing& timing);
void visit(Columns& columns, Measurement& measurement);
void visit(Columns& columns, MemoryMeasurement& measurement);
void visit(Columns& columns, Environment& environment);

}  // namespace trireme::calibrate
