// Peak memory: summaries of runs, composed, and what is alive at the peak.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/sizes.h"

namespace trireme::engine {

using program::Node;
using program::Op;
using program::OpId;
using program::Place;
using program::Program;
using program::Segment;
using program::Tensor;
using program::TensorId;

namespace {

/// Where in the program memory peaks: an operation, and the run node that executes it.
struct Spot {
  OpId op = 0;
  std::uint32_t run = 0;
};

/// Memory of a part of the program, relative to where it starts.
struct Summary {
  Bytes net;
  Bytes peak;
  Spot spot;
};

Summary then(const Summary& first, const Summary& second) {
  const Bytes later = first.net + second.peak;
  return {first.net + second.net,
          std::max(first.peak, later),
          later > first.peak ? second.spot : first.spot};
}

Bytes total_bytes(const Program& program, std::span<const TensorId> tensors, Place place) {
  Bytes bytes;
  for (const TensorId id : tensors) {
    if (const Tensor& tensor = program.tensor(id); tensor.place == place) {
      bytes += tensor.local_bytes();
    }
  }
  return bytes;
}

Summary summarise(const Program& program, const Segment& segment, Place place) {
  Summary summary;
  summary.spot.op = segment.first_op;
  for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
    const Op& op = program.op(id);
    const Bytes born = total_bytes(program, program.births(op), place);
    const Bytes dead = total_bytes(program, program.deaths(op), place);
    summary = then(summary, {born - dead, born, {id, 0}});
  }
  return summary;
}

/// Memory of each segment in one place, by number: the same for all programs that share them.
struct SegmentSummaries {
  Place place = Place::device;
  std::vector<Summary> of;
};

SegmentSummaries summarise_segments(const Program& program, Place place) {
  SegmentSummaries summaries{place, {}};
  summaries.of.reserve(program.segments().size());
  for (const Segment& segment : program.segments()) {
    summaries.of.push_back(summarise(program, segment, place));
  }
  return summaries;
}

/// Memory of nodes [first, last). `grows`, when given, learns of each repeat whether an iteration
/// leaves more than it found: then the last one peaks, else the first.
Summary summarise(const Program& program,
                  const SegmentSummaries& segments,
                  std::uint32_t first,
                  std::uint32_t last,
                  std::vector<bool>* grows) {
  Summary whole;
  whole.spot = {0, first};
  for (std::uint32_t i = first; i < last;) {
    const Node& node = program.nodes()[i];
    if (node.kind == Node::Kind::run) {
      Summary run = segments.of[node.segment];
      run.spot.run = i;
      whole = then(whole, run);
      ++i;
      continue;
    }
    const Summary body = summarise(program, segments, i + 1, node.end, grows);
    if (grows != nullptr) {
      (*grows)[i] = body.net > Bytes(0);
    }
    Summary repeated;
    repeated.net = node.count * body.net;
    repeated.peak = body.peak + std::max(Bytes(0), (node.count - 1) * body.net);
    repeated.spot = body.spot;
    for (const program::RepeatDeath& death : program.deaths(node)) {
      if (const Tensor& tensor = program.tensor(death.tensor); tensor.place == segments.place) {
        repeated.net -= death.instances * tensor.local_bytes();
      }
    }
    whole = then(whole, repeated);
    i = node.end;
  }
  return whole;
}

Summary summarise(const Program& program,
                  const SegmentSummaries& segments,
                  std::vector<bool>* grows = nullptr) {
  return summarise(program, segments, 0, static_cast<std::uint32_t>(program.nodes().size()), grows);
}

Bytes resident_bytes(const Program& program, Place place) {
  Bytes resident;
  for (const Tensor& tensor : program.tensors()) {
    if (tensor.resident && tensor.storage == program::Storage::own && tensor.place == place) {
      resident += program.resident_instances(tensor) * tensor.local_bytes();
    }
  }
  return resident;
}

/// Where memory peaks: the repeats around it, outermost first, and how many of their iterations
/// come before it.
struct PeakPath {
  struct Step {
    std::uint32_t node;
    std::int64_t iterations_before;
  };

  Spot spot;
  std::vector<Step> steps;
};

PeakPath path_to_peak(const Program& program, Place place) {
  std::vector<bool> grows(program.nodes().size());
  PeakPath path;
  path.spot = summarise(program, summarise_segments(program, place), &grows).spot;
  for (std::uint32_t i = 0; i < path.spot.run; ++i) {
    const Node& node = program.nodes()[i];
    if (node.kind == Node::Kind::repeat && node.end > path.spot.run) {
      path.steps.push_back({i, grows[i] ? node.count - 1 : 0});
    }
  }
  return path;
}

/// Live instances of every tensor, counted in program order up to an instant.
class LiveInstances {
 public:
  explicit LiveInstances(const Program& program)
      : program_(program), live_(program.tensors().size(), 0) {}

  /// Counts the births before the peak operation and the deaths before it.
  void count_up_to(const PeakPath& path) {
    count(0, static_cast<std::uint32_t>(program_.nodes().size()), 1, path, 0);
  }

  [[nodiscard]] std::int64_t operator[](TensorId id) const { return live_[id]; }

 private:
  /// Counts nodes [first, last), `times` over; returns true when the peak was reached.
  bool count(std::uint32_t first,
             std::uint32_t last,
             std::int64_t times,
             const PeakPath& path,
             std::size_t depth) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        if (count_run(i, times, path.spot, depth == path.steps.size())) {
          return true;
        }
        ++i;
        continue;
      }
      if (depth < path.steps.size() && path.steps[depth].node == i) {
        count(i + 1, node.end, path.steps[depth].iterations_before, path, kNever);
        return count(i + 1, node.end, 1, path, depth + 1);
      }
      count(i + 1, node.end, times * node.count, path, kNever);
      for (const program::RepeatDeath& death : program_.deaths(node)) {
        live_[death.tensor] -= times * death.instances;
      }
      i = node.end;
    }
    return false;
  }

  bool count_run(std::uint32_t run, std::int64_t times, const Spot& spot, bool may_stop) {
    const Segment& segment = program_.segments()[program_.nodes()[run].segment];
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const Op& op = program_.op(id);
      for (const TensorId tensor : program_.births(op)) {
        live_[tensor] += times;
      }
      if (may_stop && run == spot.run && id == spot.op) {
        return true;
      }
      for (const TensorId tensor : program_.deaths(op)) {
        live_[tensor] -= times;
      }
    }
    return false;
  }

  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);

  const Program& program_;
  std::vector<std::int64_t> live_;
};

std::string instant_name(const Program& program, const PeakPath& path) {
  if (program.ops().empty()) {
    return "no operation";
  }
  const Op& op = program.op(path.spot.op);
  std::string text(name(op.phase));
  for (const auto& step : path.steps) {
    const Node& node = program.nodes()[step.node];
    if (node.count > 1) {
      text += fmt::format(", {} {}",
                          program::kIndexNames[static_cast<std::size_t>(node.index)],
                          node.first + node.step * step.iterations_before);
    }
  }
  return fmt::format("{}, {}: {}", text, name(op.component), op.label);
}

/// Calls `visit(tensor, instances)` for every tensor of that memory that is alive at the peak, as
/// declared.
template <class Visit>
void for_each_alive(const Program& program, const PeakPath& path, Place place, Visit visit) {
  LiveInstances live(program);
  live.count_up_to(path);
  for (std::size_t i = 0; i < program.tensors().size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const Tensor& tensor = program.tensor(id);
    if (tensor.storage != program::Storage::own || tensor.place != place) {
      continue;
    }
    const std::int64_t instances = tensor.resident ? program.resident_instances(tensor) : live[id];
    if (instances != 0) {
      visit(tensor, instances);
    }
  }
}

}  // namespace

MemoryPeak read_peak(const Program& program, Place place) {
  return read_peaks(std::span(&program, 1), place).front();
}

std::vector<MemoryPeak> read_peaks(std::span<const Program> stages, Place place) {
  std::vector<MemoryPeak> peaks;
  std::vector<SegmentSummaries> known(stages.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::size_t first = 0;
    while (!stages[first].shares_segments_with(stages[stage])) {
      ++first;
    }
    if (first == stage) {
      known[first] = summarise_segments(stages[stage], place);
    }
    const Summary summary = summarise(stages[stage], known[first]);
    MemoryPeak& peak = peaks.emplace_back();
    peak.resident = first == stage ? resident_bytes(stages[stage], place) : peaks[first].resident;
    peak.allocated = peak.resident + summary.peak;
    peak.op = summary.spot.op;
  }
  return peaks;
}

Bytes read_net_memory(const Program& program, Place place) {
  return summarise(program, summarise_segments(program, place)).net;
}

std::vector<ledger::MemoryEntry> memory_entries(const Program& program, Place place) {
  std::vector<ledger::MemoryEntry> entries;
  const auto add = [&](const Tensor& tensor, std::int64_t instances) {
    ledger::MemoryEntry entry;
    entry.item = program::memory_item(tensor);
    entry.tensor = program::display_name(tensor);
    entry.shape_symbols = program::shape_in_symbols(program.mesh(), tensor);
    entry.shape_numbers = program::shape_in_numbers(program.mesh(), tensor);
    entry.type = tensor.type;
    entry.instances = instances;
    entry.bytes = instances * tensor.local_bytes();
    entries.push_back(std::move(entry));
  };
  for_each_alive(program, path_to_peak(program, place), place, add);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.bytes > b.bytes;
  });
  return entries;
}

ledger::MemoryLedger read_memory(const Program& program, Place place) {
  ledger::MemoryLedger memory;
  memory.resident = resident_bytes(program, place);
  const PeakPath path = path_to_peak(program, place);
  memory.instant = instant_name(program, path);
  for_each_alive(program, path, place, [&](const Tensor& tensor, std::int64_t instances) {
    const Bytes bytes = instances * tensor.local_bytes();
    memory.by_item[ledger::index(program::memory_item(tensor))] += bytes;
    memory.allocated += bytes;
  });
  return memory;
}

std::vector<Bytes> memory_of_tasks(const Program& program) {
  std::vector<Bytes> levels;
  Bytes level = resident_bytes(program, Place::device);
  const auto walk = [&](const auto& self, std::uint32_t first, std::uint32_t last) -> void {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program.nodes()[i];
      if (node.kind == Node::Kind::run) {
        const Segment& segment = program.segments()[node.segment];
        for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
          const Op& op = program.op(id);
          level += total_bytes(program, program.births(op), Place::device);
          if (op.function != program::Function::keep) {
            levels.push_back(level);
          } else if (!levels.empty()) {  // what it brings into being is there while the last runs
            levels.back() = std::max(levels.back(), level);
          }
          level -= total_bytes(program, program.deaths(op), Place::device);
        }
        ++i;
        continue;
      }
      for (std::int32_t k = 0; k < node.count; ++k) {
        self(self, i + 1, node.end);
      }
      for (const program::RepeatDeath& death : program.deaths(node)) {
        if (const Tensor& tensor = program.tensor(death.tensor); tensor.place == Place::device) {
          level -= death.instances * tensor.local_bytes();
        }
      }
      i = node.end;
    }
  };
  walk(walk, 0, static_cast<std::uint32_t>(program.nodes().size()));
  return levels;
}

}  // namespace trireme::engine
