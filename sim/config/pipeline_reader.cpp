#include "sim/config/pipeline_reader.h"

#include <utility>

#include <fmt/format.h>

#include "sim/config/bounds.h"
#include "sim/config/words.h"

namespace trireme::config {

namespace {

/// `split: count`, `split: cost` or `split: [9, 8, 8, 7]`.
void read_split(const MapReader& map, PipelineSpec& pipeline) {
  const Node* const node = map.find("split");
  if (node == nullptr || node->is_text()) {
    pipeline.split = map.optional("split", word_of(kPipelineSplitWords), "count");
    return;
  }
  pipeline.split = PipelineSplit::listed;
  for (const Node& layers : map.items("split")) {
    pipeline.layers.push_back(
        {parse_node(layers, "split", count_within("layers")), layers.where()});
  }
  const std::int64_t chunks = pipeline.degree.value * pipeline.virtual_stages.value;
  if (static_cast<std::int64_t>(pipeline.layers.size()) != chunks) {
    throw Error(ErrorKind::input,
                node->where(),
                fmt::format("split: {} numbers of layers for {} parts of the model",
                            pipeline.layers.size(),
                            chunks),
                "give one for each stage, or for each of its virtual stages",
                {{pipeline.degree.where, fmt::format("the degree is {}", pipeline.degree.value)}});
  }
}

}  // namespace

PipelineSpec read_pipeline(const MapReader& plan) {
  PipelineSpec pipeline;
  pipeline.degree = {1, plan.where()};
  pipeline.virtual_stages = {1, plan.where()};
  const Node* const written = plan.find("pipeline");
  if (written == nullptr) {
    return pipeline;
  }
  Node as_map = *written;
  if (written->is_text()) {
    as_map = make_map(written->position);
    as_map.set("degree", written->position, *written);
  }
  const MapReader map(as_map,
                      plan.path_of("pipeline"),
                      {"degree", "schedule", "virtual_stages", "split"},
                      plan.defaults());
  pipeline.degree = {parse_node(map.node("degree"), "pipeline", count_within("degree")),
                     map.node("degree").where()};
  pipeline.schedule = map.optional("schedule", word_of(kPipelineScheduleWords), "1f1b");
  if (pipeline.schedule == PipelineScheduleKind::interleaved) {
    pipeline.virtual_stages =
        map.required_located("virtual_stages", count_within("virtual_stages"));
  } else if (const Node* const chunks = map.find("virtual_stages")) {
    refuse(chunks->where(),
           "virtual_stages: has a meaning for the interleaved schedule only",
           "set 'schedule: interleaved' or leave the key out");
  }
  read_split(map, pipeline);
  return pipeline;
}

std::vector<Located<RankGroup>> read_placement(const MapReader& plan) {
  std::vector<Located<RankGroup>> placement;
  if (plan.find("placement") == nullptr) {
    return placement;
  }
  for (const Node& node : plan.items("placement")) {
    const Located<RankGroup> group = {parse_node(node, "placement", word_of(kRankGroupWords)),
                                      node.where()};
    for (const Located<RankGroup>& before : placement) {
      if (before.value == group.value) {
        throw Error(ErrorKind::input,
                    group.where,
                    fmt::format("placement: '{}' has a place already",
                                word_for(kRankGroupWords, group.value)),
                    "name each group once, the one of neighbouring ranks first",
                    {{before.where, "the first one stands here"}});
      }
    }
    placement.push_back(group);
  }
  return placement;
}

}  // namespace trireme::config
