// One line of comma-separated values, with the place of each field.
//
// Source: RFC 4180, section 2: a field with commas or quotes stands in quotes, and a quote in it
// twice.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::calibrate {

struct CsvField {
  std::string text;
  int column = 1;  // 1-based, in characters: where the field begins in its line
};

/// The fields of a line without its end; a carriage return at the end belongs to that. Throws
/// BadText for a quote that is not closed or stands where none may stand.
[[nodiscard]] std::vector<CsvField> split_csv(std::string_view line);

/// A line, its end included, that split_csv() takes apart again. Control characters become spaces
/// or question marks.
[[nodiscard]] std::string join_csv(const std::vector<std::string>& fields);

}  // namespace trireme::calibrate
