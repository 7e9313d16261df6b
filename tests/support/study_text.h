// Studies written in a test.
#pragma once

#include <memory>
#include <string>

#include "sim/config/study_file.h"

namespace trireme::test {

/// Reads a study from its text, with the built-in presets.
inline config::StudyFile study_of(const std::string& text) {
  return config::StudyFile::parse(std::make_shared<const config::SourceText>("study.yaml", text),
                                  config::DataSource{});
}

}  // namespace trireme::test
