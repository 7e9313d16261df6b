// One line of comma-separated values, with the place of each field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::calibrate {

struct CsvField {
  std::string text;
  int column = 1;  // 1-based, in characters: where the field begins in its line
};

/// The fields of a line without its end. Throws BadText for an escape that is none or a quote that
/// is not closed.
[[nodiscard]] std::vector<CsvField> split_csv(std::string_view line);

/// A line, its end included, that split_csv() takes apart again. Control characters become spaces
/// or question marks.
[[nodiscard]] std::string join_csv(const std::vector<std::string>& fields);

}  // namespace trireme::calibrate
