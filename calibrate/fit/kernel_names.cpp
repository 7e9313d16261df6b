#include "calibrate/fit/kernel_names.h"

#include <algorithm>
#include <set>
#include <variant>

#include <fmt/format.h>

#include "sim/core/error.h"
#include "sim/core/nearest.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

const std::vector<std::string>& profile_kernels() {
  static const std::vector<std::string> names = {"flash2", "flash3", "cudnn"};
  return names;
}

void rename_kernels(const std::map<std::string, std::string>& places,
                    std::vector<Measurement>& rows) {
  std::set<std::string> measured;
  for (Measurement& row : rows) {
    if (auto* const attention = std::get_if<AttentionPoint>(&row.point)) {
      measured.insert(attention->kernel);
      const auto place = places.find(attention->kernel);
      if (place != places.end()) {
        attention->kernel = place->second;
      }
    }
  }
  const auto require =
      [](const std::string& name, const std::vector<std::string>& known, const char* what) {
        if (std::find(known.begin(), known.end(), name) == known.end()) {
          throw Error(ErrorKind::input,
                      SourceLocation{.file = "trireme-calibrate"},
                      fmt::format("{} {}", what, in_quotes(name)),
                      hint_near(name, known));
        }
      };
  const std::vector<std::string> names(measured.begin(), measured.end());
  for (const auto& [kernel, place] : places) {
    require(kernel, names, "no attention was measured with the kernel");
    require(place, profile_kernels(), "a profile has no attention kernel");
  }
}

}  // namespace trireme::calibrate
