// What the commands share that list presets.
#pragma once

#include <string>

#include "sim/cli/invocation.h"
#include "sim/cli/output.h"
#include "sim/config/node.h"
#include "sim/core/error.h"
#include "sim/report/listing.h"

namespace trireme::cli {

/// A reference to a preset, as a study would write it.
[[nodiscard]] inline config::Node preset_node(const std::string& name) {
  return config::make_text(name, {});
}

/// Writes the listing in the call's format.
inline ExitCode write_listing(const Invocation& call, const report::Listing& listing) {
  write_result_as(
      call,
      [&] { return report::to_json(listing); },
      [&] { return report::to_csv(listing); },
      [&] { return report::to_terminal(listing, call.color); });
  return ExitCode::done;
}

}  // namespace trireme::cli
