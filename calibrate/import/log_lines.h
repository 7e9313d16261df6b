// The lines of a log as a launcher, a terminal or a copy from a page left them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::calibrate {

/// One line, its colours and launcher tags blanked: every character keeps its place.
struct LogLine {
  int number = 0;         // 1-based
  std::string_view raw;   // as in the file, without its end
  std::string text;       // empty for a line that is too long
  bool ended = true;      // false for the last line of a file that ends within it
  bool too_long = false;  // more than kLongestLine bytes: not read
};

/// A row of a table has about 200 characters.
inline constexpr std::size_t kLongestLine = 4096;

class LogLines {
 public:
  /// `text` outlives the lines.
  explicit LogLines(std::string_view text);

  /// The next line, or nullopt at the end. A carriage return ends a line as a line feed does, but
  /// only a line feed is counted.
  [[nodiscard]] std::optional<LogLine> next();

 private:
  std::string_view rest_;
  int number_ = 1;
};

/// A word between spaces and where it begins, 1-based in bytes.
struct LogToken {
  std::string_view text;
  int column = 0;
};

[[nodiscard]] std::vector<LogToken> tokens_of(std::string_view text);

}  // namespace trireme::calibrate
