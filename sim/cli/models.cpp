#include "sim/cli/commands.h"
#include "sim/cli/listings.h"
#include "sim/config/model.h"
#include "sim/config/words.h"

namespace trireme::cli {

namespace {

report::Cell published_count(const config::ModelSpec& model) {
  if (model.parameters_published) {
    return *model.parameters_published;
  }
  return {};
}

report::Cell agrees(const config::ModelSpec& model) {
  if (model.parameters_published) {
    return config::agrees_with_published(model);
  }
  return {};
}

}  // namespace

ExitCode run_models(const Invocation& call) {
  const config::Library library(call.data);
  report::Listing listing;
  listing.command = "models";
  listing.columns = {{"name", "model"},
                     {"layers", "layers"},
                     {"hidden", "hidden"},
                     {"heads", "heads"},
                     {"kv_heads", "KV heads"},
                     {"head_dim", "head dim"},
                     {"mlp", "MLP"},
                     {"mlp_width", "width"},
                     {"vocabulary", "vocabulary"},
                     {"parameters", "parameters"},
                     {"parameters_published", "published"},
                     {"agrees_with_published", "agrees"},
                     {"source", "source"}};
  for (const std::string& name : library.names(config::PresetKind::model)) {
    const config::ModelSpec model = config::read_model(preset_node(name), library);
    listing.rows.push_back({name,
                            model.layers.value,
                            model.hidden.value,
                            model.heads.value,
                            model.kv_heads.value,
                            model.head_dim.value,
                            std::string(config::word_for(config::kMlpWords, model.mlp_kind)),
                            model.mlp_width.value,
                            model.vocabulary.value,
                            config::parameter_count(model),
                            published_count(model),
                            agrees(model),
                            model.source});
  }
  return write_listing(call, listing);
}

}  // namespace trireme::cli
