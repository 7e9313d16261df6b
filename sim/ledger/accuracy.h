// How far predictions of steps are off measured ones, and which plans that leaves undecided.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::ledger {

/// What judged runs of one kind say about a prediction of that kind.
struct AccuracyBand {
  std::string kind;       // such as "on one node"
  std::int64_t runs = 0;  // that were judged
  double low = 1;         // measured over predicted seconds of a step: 8 of 10 runs lie between
  double high = 1;
  double median_error = 0;  // of predicted over measured seconds, without its sign
};

/// A plan whose step differs by less than the error from that of the fastest plan of its point.
struct TooClose {
  std::string point;  // in words; empty where there is only one
  std::string fastest;
  std::string plan;
  double difference = 0;  // of the plan's step over the fastest one's
  AccuracyBand band;
};

}  // namespace trireme::ledger
