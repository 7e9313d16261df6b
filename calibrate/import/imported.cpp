#include "calibrate/import/imported.h"

#include <algorithm>
#include <utility>

namespace trireme::calibrate {

void ImportedLog::refuse(Refusal refusal, std::int64_t rows) {
  ++refusal_count;
  refused_rows += rows;
  if (refusals.size() < kMostRefusals) {
    refusals.push_back(std::move(refusal));
  }
}

void ImportedLog::note(std::string text) {
  if (std::find(notes.begin(), notes.end(), text) == notes.end()) {
    notes.push_back(std::move(text));
  }
}

}  // namespace trireme::calibrate
