// A study and its sweep: the file is read once, and again with other values for each point.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sim/config/library.h"
#include "sim/config/node.h"
#include "sim/config/study_reader.h"
#include "sim/config/study_spec.h"

namespace trireme::config {

/// A study with more points is refused: nobody reads such a table, and a slip of the pen makes one.
inline constexpr std::int64_t kMostSweepPoints = 100'000;

/// Keys that vary together in one point.
inline constexpr std::size_t kMostSweptKeys = 16;

class StudyFile {
 public:
  /// Reads and checks the study, its sweep and one value of each swept key. Throws Error (input),
  /// located.
  [[nodiscard]] static StudyFile read(const std::filesystem::path& path, DataSource data);

  /// The same for a study in memory, such as an embedded one; `source` says what to call its file.
  [[nodiscard]] static StudyFile parse(const std::shared_ptr<const SourceText>& source,
                                       DataSource data);

  /// The study without its sweep applied; `sweep` in it holds all points.
  [[nodiscard]] const StudySpec& base() const { return base_; }

  /// Every point of the grid, the first key varying slowest, or the rows of a list of maps.
  /// Empty without a sweep.
  [[nodiscard]] const std::vector<SweepPoint>& points() const { return base_.sweep; }

  /// The study with the values of `point` in place. Throws Error (input) at a value or key of the
  /// sweep that the study does not accept there. May be called by several threads at once.
  [[nodiscard]] StudySpec at(const SweepPoint& point) const;

 private:
  StudyFile(const Node& root, std::shared_ptr<const Library> library);

  std::shared_ptr<const Library> library_;
  Node root_;                                  // without `sweep`
  std::shared_ptr<const SharedParts> shared_;  // of a study with a sweep
  StudySpec base_;
};

}  // namespace trireme::config
