// Numbers as text for people. Only sim/report rounds.
#pragma once

#include <optional>
#include <string>

#include "sim/ledger/result.h"
#include "sim/units/units.h"

namespace trireme::report {

/// `value` with at most 9 significant digits, as JSON and CSV carry it.
[[nodiscard]] double nine_digits(double value);

/// nine_digits in the shortest decimal text that reads back: "0.1", "1.5e-07".
[[nodiscard]] std::string nine_digit_text(double value);

/// GiB with two digits, without the unit: "22.97".
[[nodiscard]] std::string gibibytes(Bytes amount);

/// In the unit that people would pick, with three significant digits: "28 KiB", "1.75 GiB".
[[nodiscard]] std::string human(Bytes amount);

/// "11.3 s", "845 ms", "12.5 us".
[[nodiscard]] std::string human(Seconds time);

/// The same with five significant digits, for seconds that differ little: "845.12 ms".
[[nodiscard]] std::string fine(Seconds time);

/// "8.03 billion", "351 million".
[[nodiscard]] std::string human(Elements count);

/// "47.1 %".
[[nodiscard]] std::string percent(double fraction);

/// "12,345".
[[nodiscard]] std::string with_thousands(double value);

/// A value along a swept key in the key's own unit: tokens as "61K", others with three digits.
[[nodiscard]] std::string along_key(const std::string& key, double value);

}  // namespace trireme::report
