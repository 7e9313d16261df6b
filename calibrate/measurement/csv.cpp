#include "calibrate/measurement/csv.h"

#include <algorithm>

#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

/// What stands between the quotes that `rest` begins with; takes both and it off `rest`.
std::string quoted_field(std::string_view& rest) {
  std::string text;
  rest.remove_prefix(1);
  while (true) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) {
      throw BadText("a quote is not closed", "close it with \"");
    }
    text += rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) {
      return text;
    }
    text += '"';
    rest.remove_prefix(1);
  }
}

}  // namespace

std::vector<CsvField> split_csv(std::string_view line) {
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  std::vector<CsvField> fields;
  std::string_view rest = line;
  while (true) {
    const std::string_view before = line.substr(0, line.size() - rest.size());
    CsvField field{.text = {}, .column = static_cast<int>(utf8_count(before)) + 1};
    if (rest.starts_with('"')) {
      field.text = quoted_field(rest);
    } else {
      const std::size_t end = std::min(rest.find(','), rest.size());
      field.text = rest.substr(0, end);
      rest.remove_prefix(end);
      if (field.text.find('"') != std::string::npos) {
        throw BadText("a quote inside a field that does not begin with one",
                      "write it twice, and the field in quotes");
      }
    }
    fields.push_back(std::move(field));
    if (rest.empty()) {
      return fields;
    }
    if (!rest.starts_with(',')) {
      throw BadText("text after a quote that closes a field",
                    "write a quote inside a field twice, and the field in quotes");
    }
    rest.remove_prefix(1);
  }
}

std::string join_csv(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    line += &field == fields.data() ? "" : ",";
    const std::string text = printable(field);
    if (text.find_first_of(",\"") == std::string::npos) {
      line += text;
      continue;
    }
    line += '"';
    for (const char character : text) {
      line += character == '"' ? "\"\"" : std::string(1, character);
    }
    line += '"';
  }
  return line + '\n';
}

}  // namespace trireme::calibrate
