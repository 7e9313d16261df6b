#include "calibrate/measurement/csv.h"

#include <boost/token_functions.hpp>
#include <boost/tokenizer.hpp>

#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

bool quotes_are_closed(std::string_view line) {
  bool open = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      open = !open;
    }
  }
  return !open;
}

}  // namespace

std::vector<CsvField> split_csv(std::string_view line) {
  if (!quotes_are_closed(line)) {
    throw BadText("a quote is not closed", "close it with \"");
  }
  using Separator = boost::escaped_list_separator<char>;
  const boost::tokenizer<Separator, std::string_view::const_iterator> tokens(
      line.begin(), line.end(), Separator());
  std::vector<CsvField> fields;
  std::string_view::const_iterator begin = line.begin();
  try {
    for (auto token = tokens.begin(); token != tokens.end(); ++token) {
      const auto before = static_cast<std::size_t>(begin - line.begin());
      fields.push_back(
          {.text = *token, .column = static_cast<int>(utf8_count(line.substr(0, before))) + 1});
      begin = token.base();
    }
  } catch (const boost::escaped_list_error&) {
    throw BadText("a backslash before a character that needs none",
                  "write \\\\ for a backslash, \\\" for a quote");
  }
  return fields;
}

std::string join_csv(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    line += &field == fields.data() ? "" : ",";
    const std::string text = printable(field);
    const bool quoted = text.find_first_of(",\"\\") != std::string::npos;
    line += quoted ? "\"" : "";
    for (const char character : text) {
      if (character == '"' || character == '\\') {
        line += '\\';
      }
      line += character;
    }
    line += quoted ? "\"" : "";
  }
  return line + '\n';
}

}  // namespace trireme::calibrate
