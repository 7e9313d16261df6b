#include "sim/cli/commands.h"
#include "sim/cli/listings.h"
#include "sim/config/profile.h"

namespace trireme::cli {

ExitCode run_profiles(const Invocation& call) {
  const config::Library library(call.data);
  const auto text_or_nothing = [](const std::string& text) {
    return text.empty() ? report::Cell() : report::Cell(text);
  };
  report::Listing listing;
  listing.command = "profiles";
  listing.columns = {{"name", "profile"},
                     {"gpu", "GPU"},
                     {"nccl", "NCCL"},
                     {"driver", "driver"},
                     {"date", "date"},
                     {"coefficients", "coefficients"},
                     {"description", "what was measured"}};
  for (const std::string& name : library.names(config::PresetKind::profile)) {
    const config::Resolved resolved =
        library.resolve(config::PresetKind::profile, preset_node(name), name);
    const config::ProfileSpec profile = config::read_profile(resolved.node, name);
    listing.rows.push_back({name,
                            profile.gpu.value,
                            text_or_nothing(profile.nccl),
                            text_or_nothing(profile.driver),
                            text_or_nothing(profile.date),
                            static_cast<std::int64_t>(profile.coefficients.size()),
                            profile.description});
  }
  return write_listing(call, listing);
}

}  // namespace trireme::cli
