#include "sim/cli/commands.h"
#include "sim/cli/listings.h"
#include "sim/config/plan_presets.h"
#include "sim/plan/lower.h"
#include "sim/plan/parameters.h"

namespace trireme::cli {

ExitCode run_plans(const Invocation& call) {
  report::Listing listing;
  listing.command = "plans";
  listing.columns = {{"kind", "kind"},
                     {"name", "name"},
                     {"description", "what it is"},
                     {"keys", "keys of a plan"},
                     {"source", "source"}};
  for (const config::PlanPreset& preset : config::plan_presets()) {
    listing.rows.push_back({std::string("preset"),
                            std::string(preset.name),
                            std::string(preset.description),
                            std::string(preset.yaml),
                            report::Cell()});
  }
  for (const plan::LoweringInfo& lowering : plan::lowering_table()) {
    listing.rows.push_back({std::string(lowering.part),
                            std::string(lowering.name),
                            std::string(lowering.description),
                            report::Cell(),
                            std::string(lowering.bibliography_key)});
  }
  for (const plan::ShardingInfo& sharding : plan::sharding_table()) {
    listing.rows.push_back({std::string("sharding"),
                            std::string(sharding.name),
                            std::string(sharding.description),
                            report::Cell(),
                            std::string(sharding.bibliography_key)});
  }
  return write_listing(call, listing);
}

}  // namespace trireme::cli
