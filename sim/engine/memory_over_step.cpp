#include "sim/engine/memory_over_step.h"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace trireme::engine {

using program::Node;
using program::Op;
using program::OpId;
using program::Program;
using program::Segment;
using program::Tensor;
using program::TensorId;

namespace {

class Walk {
 public:
  explicit Walk(const Program& program) : program_(program) {
    for (const Tensor& tensor : program.tensors()) {
      if (tensor.resident && tensor.storage == program::Storage::own) {
        change(tensor, program.resident_instances(tensor));
      }
    }
  }

  void nodes(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i < last;) {
      const Node& node = program_.nodes()[i];
      if (node.kind == Node::Kind::run) {
        run(node);
        ++i;
        continue;
      }
      std::optional<std::int64_t>& value = index(node.index);
      const std::optional<std::int64_t> outer = value;
      for (std::int32_t k = 0; k < node.count; ++k) {
        value = node.first + node.step * k;
        nodes(i + 1, node.end);
      }
      value = outer;
      for (const program::RepeatDeath& death : program_.deaths(node)) {
        change(program_.tensor(death.tensor), -death.instances);
      }
      i = node.end;
    }
  }

  [[nodiscard]] std::vector<ledger::MemoryInstant> take() { return std::move(found_); }

 private:
  std::optional<std::int64_t>& index(program::Index which) {
    switch (which) {
      case program::Index::micro_batch:
        return now_.micro_batch;
      case program::Index::layer:
        return now_.layer;
      case program::Index::chunk:
        return now_.chunk;
    }
    return now_.layer;
  }

  void change(const Tensor& tensor, std::int64_t instances) {
    const Bytes bytes = instances * tensor.local_bytes();
    if (tensor.place == program::Place::host) {
      now_.on_host += bytes;
      return;
    }
    now_.allocated += bytes;
    now_.by_item[ledger::index(program::memory_item(tensor))] += bytes;
  }

  void change(std::span<const TensorId> tensors, std::int64_t instances) {
    for (const TensorId id : tensors) {
      change(program_.tensor(id), instances);
    }
  }

  void run(const Node& node) {
    const Segment& segment = program_.segments()[node.segment];
    for (OpId id = segment.first_op; id < segment.first_op + segment.ops; ++id) {
      const Op& op = program_.op(id);
      change(program_.births(op), 1);
      now_.phase = op.phase;
      now_.component = op.component;
      now_.operation = op.label;
      found_.push_back(now_);
      change(program_.deaths(op), -1);
    }
  }

  const Program& program_;
  ledger::MemoryInstant now_;
  std::vector<ledger::MemoryInstant> found_;
};

}  // namespace

std::vector<ledger::MemoryInstant> memory_over_step(const Program& program) {
  Walk walk(program);
  walk.nodes(0, static_cast<std::uint32_t>(program.nodes().size()));
  return walk.take();
}

}  // namespace trireme::engine
