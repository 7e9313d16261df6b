#include "tests/support/program_editor.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "sim/program/layout_rules.h"
#include "sim/program/lifetimes.h"

namespace trireme::program {

OpId ProgramEditor::find(std::string_view label, Phase phase) const {
  for (OpId id = 0; id < program_.ops_.size(); ++id) {
    if (program_.ops_[id].label == label && program_.ops_[id].phase == phase) {
      return id;
    }
  }
  throw std::logic_error("no operation '" + std::string(label) + "'");
}

TensorId ProgramEditor::tensor_id(std::string_view name, std::string_view part) const {
  for (std::size_t id = 0; id < program_.tensors_.size(); ++id) {
    if (program_.tensors_[id].name == name && program_.tensors_[id].part == part) {
      return static_cast<TensorId>(id);
    }
  }
  throw std::logic_error("no tensor '" + std::string(name) + "'");
}

Operand& ProgramEditor::operand(OpId op, std::size_t number) {
  return program_.operands_.at(program_.ops_.at(op).first_operand + number);
}

void ProgramEditor::redirect(TensorId from, TensorId to, OpId first) {
  for (OpId id = first; id < program_.ops_.size(); ++id) {
    for (std::size_t i = 0; i < program_.ops_[id].operands; ++i) {
      Operand& used = operand(id, i);
      used.ref.tensor = used.ref.tensor == from ? to : used.ref.tensor;
    }
  }
}

/// Keeps segments on their operations when one is put in or taken out at `op`.
void ProgramEditor::move_segments(OpId op, int change) {
  for (Segment& segment : program_.segments_) {
    if (segment.first_op > op) {
      segment.first_op = static_cast<OpId>(static_cast<int>(segment.first_op) + change);
    } else if (op < segment.first_op + segment.ops) {
      segment.ops = static_cast<std::uint32_t>(static_cast<int>(segment.ops) + change);
    }
  }
}

void ProgramEditor::remove_op(OpId op) {
  remove_operands(op, 0, program_.ops_.at(op).operands);
  program_.ops_.erase(program_.ops_.begin() + op);
  move_segments(op, -1);
}

void ProgramEditor::repeat_op(OpId op) {
  Op again = program_.ops_.at(op);
  Op& once = program_.ops_[op];
  again.births = 0;
  again.first_death = once.first_death;
  once.deaths = 0;  // of the first time: let go after the second
  program_.ops_.insert(program_.ops_.begin() + op + 1, again);
  move_segments(op, 1);
}

void ProgramEditor::remove_operands(OpId op, std::size_t first, std::size_t count) {
  Op& changed = program_.ops_.at(op);
  const auto begin =
      program_.operands_.begin() + static_cast<std::ptrdiff_t>(changed.first_operand + first);
  program_.operands_.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  const std::uint32_t at = changed.first_operand;
  changed.operands = static_cast<std::uint16_t>(changed.operands - count);
  for (Op& other : program_.ops_) {
    if (other.first_operand > at) {
      other.first_operand -= static_cast<std::uint32_t>(count);
    }
  }
}

void ProgramEditor::add_operand(OpId op, Operand added, std::size_t before) {
  Op& changed = program_.ops_.at(op);
  program_.operands_.insert(
      program_.operands_.begin() + static_cast<std::ptrdiff_t>(changed.first_operand + before),
      added);
  const std::uint32_t at = changed.first_operand;
  ++changed.operands;
  for (Op& other : program_.ops_) {
    if (other.first_operand > at) {
      ++other.first_operand;
    }
  }
}

void ProgramEditor::set_count(OpId inside, std::int32_t count) {
  for (std::size_t run = 0; run < program_.nodes_.size(); ++run) {
    const Node& node = program_.nodes_[run];
    if (node.kind != Node::Kind::run) {
      continue;
    }
    const Segment& segment = program_.segments_[node.segment];
    if (inside < segment.first_op || inside >= segment.first_op + segment.ops) {
      continue;
    }
    for (std::size_t repeat = run; repeat-- > 0;) {
      Node& around = program_.nodes_[repeat];
      if (around.kind == Node::Kind::repeat && around.end > run) {
        around.count = count;
        return;
      }
    }
  }
  throw std::logic_error("no repeat around the operation");
}

std::vector<ProgramEditor::Death> ProgramEditor::deaths() const {
  std::vector<Death> all;
  for (OpId id = 0; id < program_.ops_.size(); ++id) {
    const Op& op = program_.ops_[id];
    for (std::uint32_t i = op.first_death; i < op.first_death + op.deaths; ++i) {
      all.push_back({id, program_.deaths_[i], program_.death_operands_[i]});
    }
  }
  return all;
}

void ProgramEditor::set_deaths(std::vector<Death> all) {
  std::stable_sort(
      all.begin(), all.end(), [](const Death& a, const Death& b) { return a.op < b.op; });
  program_.deaths_.clear();
  program_.death_operands_.clear();
  for (Op& op : program_.ops_) {
    op.deaths = 0;
  }
  for (const Death& death : all) {
    Op& op = program_.ops_[death.op];
    if (op.deaths++ == 0) {
      op.first_death = static_cast<std::uint32_t>(program_.deaths_.size());
    }
    program_.deaths_.push_back(death.tensor);
    program_.death_operands_.push_back(death.operand);
  }
}

void ProgramEditor::move_death(TensorId tensor, OpId to, std::size_t number) {
  std::vector<Death> all = deaths();
  for (Death& death : all) {
    if (death.tensor == tensor) {
      death.op = to;
      death.operand = static_cast<std::uint16_t>(number);
    }
  }
  set_deaths(std::move(all));
}

void ProgramEditor::remove_death(TensorId tensor) {
  std::vector<Death> all = deaths();
  all.erase(std::remove_if(
                all.begin(), all.end(), [&](const Death& death) { return death.tensor == tensor; }),
            all.end());
  set_deaths(std::move(all));
}

Program ProgramEditor::checked() && {
  for (Op& op : program_.ops_) {
    check_operands(program_.mesh_, program_.tensors_, op, program_.operands(op));
    op.births = 0;
    op.deaths = 0;
  }
  for (Node& node : program_.nodes_) {
    node.deaths = 0;
  }
  derive_lifetimes(program_);
  return std::move(program_);
}

}  // namespace trireme::program
