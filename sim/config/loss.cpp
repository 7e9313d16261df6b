#include "sim/config/loss.h"

#include "sim/config/bounds.h"
#include "sim/config/words.h"

namespace trireme::config {

std::int64_t parse_chunks(std::string_view text) {
  if (text == "auto") {
    return kAutomatic;
  }
  try {
    return count_within("chunks")(text);
  } catch (const BadText& bad) {
    throw BadText(bad.what(), bad.hint() + ", or auto");
  }
}

void read_loss(const MapReader& map, PlanSpec& plan) {
  constexpr Choice<ElementType> kLogitsWords[] = {{"fp32", ElementType::fp32},
                                                  {"bf16", ElementType::bf16}};
  plan.loss = map.optional("implementation", word_of(kLossWords), "fused");
  if (plan.loss == LossKind::chunked) {
    plan.loss_chunks = map.optional("chunks", parse_chunks, "auto");
  } else if (const Node* const chunks = map.find("chunks")) {
    refuse(chunks->where(),
           "chunks: has a meaning for the chunked loss only",
           "set 'implementation: chunked' or leave the key out");
  }
  if (plan.loss == LossKind::chunked || plan.loss == LossKind::eager) {
    plan.logits_type = map.optional("logits", word_of(kLogitsWords), "fp32");
  } else if (const Node* const logits = map.find("logits")) {
    refuse(logits->where(),
           "logits: the eager and the chunked loss alone have logits of a type of their own",
           "leave the key out");
  }
}

}  // namespace trireme::config
