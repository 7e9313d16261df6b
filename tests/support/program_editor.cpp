#include "tests/support/program_editor.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "sim/program/layout_rules.h"
#include "sim/program/lifetimes.h"

namespace trireme::program {

ProgramEditor::ProgramEditor(Program program)
    : pool_(std::make_shared<Pool>(*program.pool_)), program_(std::move(program)) {
  program_.pool_ = pool_;
}

OpId ProgramEditor::find(std::string_view label, Phase phase) const {
  for (OpId id = 0; id < pool_->ops.size(); ++id) {
    if (pool_->ops[id].label == label && pool_->ops[id].phase == phase) {
      return id;
    }
  }
  throw std::logic_error("no operation '" + std::string(label) + "'");
}

TensorId ProgramEditor::tensor_id(std::string_view name, std::string_view part) const {
  for (std::size_t id = 0; id < pool_->tensors.size(); ++id) {
    if (pool_->tensors[id].name == name && pool_->tensors[id].part == part) {
      return static_cast<TensorId>(id);
    }
  }
  throw std::logic_error("no tensor '" + std::string(name) + "'");
}

Operand& ProgramEditor::operand(OpId op, std::size_t number) {
  return pool_->operands.at(pool_->ops.at(op).first_operand + number);
}

void ProgramEditor::redirect(TensorId from, TensorId to, OpId first) {
  for (OpId id = first; id < pool_->ops.size(); ++id) {
    for (std::size_t i = 0; i < pool_->ops[id].operands; ++i) {
      Operand& used = operand(id, i);
      used.ref.tensor = used.ref.tensor == from ? to : used.ref.tensor;
    }
  }
}

/// Keeps segments on their operations when one is put in or taken out at `op`.
void ProgramEditor::move_segments(OpId op, int change) {
  for (Segment& segment : pool_->segments) {
    if (segment.first_op > op) {
      segment.first_op = static_cast<OpId>(static_cast<int>(segment.first_op) + change);
    } else if (op < segment.first_op + segment.ops) {
      segment.ops = static_cast<std::uint32_t>(static_cast<int>(segment.ops) + change);
    }
  }
}

void ProgramEditor::remove_op(OpId op) {
  remove_operands(op, 0, pool_->ops.at(op).operands);
  pool_->ops.erase(pool_->ops.begin() + op);
  move_segments(op, -1);
}

void ProgramEditor::repeat_op(OpId op) {
  Op again = pool_->ops.at(op);
  Op& once = pool_->ops[op];
  again.births = 0;
  again.first_death = once.first_death;
  once.deaths = 0;  // of the first time: let go after the second
  pool_->ops.insert(pool_->ops.begin() + op + 1, again);
  move_segments(op, 1);
}

void ProgramEditor::remove_operands(OpId op, std::size_t first, std::size_t count) {
  Op& changed = pool_->ops.at(op);
  const auto begin =
      pool_->operands.begin() + static_cast<std::ptrdiff_t>(changed.first_operand + first);
  pool_->operands.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  const std::uint32_t at = changed.first_operand;
  changed.operands = static_cast<std::uint16_t>(changed.operands - count);
  for (Op& other : pool_->ops) {
    if (other.first_operand > at) {
      other.first_operand -= static_cast<std::uint32_t>(count);
    }
  }
}

void ProgramEditor::add_operand(OpId op, Operand added, std::size_t before) {
  Op& changed = pool_->ops.at(op);
  pool_->operands.insert(
      pool_->operands.begin() + static_cast<std::ptrdiff_t>(changed.first_operand + before), added);
  const std::uint32_t at = changed.first_operand;
  ++changed.operands;
  for (Op& other : pool_->ops) {
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
    const Segment& segment = pool_->segments[node.segment];
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
  for (OpId id = 0; id < pool_->ops.size(); ++id) {
    const Op& op = pool_->ops[id];
    for (std::uint32_t i = op.first_death; i < op.first_death + op.deaths; ++i) {
      all.push_back({id, pool_->deaths[i], pool_->death_operands[i]});
    }
  }
  return all;
}

void ProgramEditor::set_deaths(std::vector<Death> all) {
  std::stable_sort(
      all.begin(), all.end(), [](const Death& a, const Death& b) { return a.op < b.op; });
  pool_->deaths.clear();
  pool_->death_operands.clear();
  for (Op& op : pool_->ops) {
    op.deaths = 0;
  }
  for (const Death& death : all) {
    Op& op = pool_->ops[death.op];
    if (op.deaths++ == 0) {
      op.first_death = static_cast<std::uint32_t>(pool_->deaths.size());
    }
    pool_->deaths.push_back(death.tensor);
    pool_->death_operands.push_back(death.operand);
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
  for (Op& op : pool_->ops) {
    check_operands(pool_->mesh,
                   pool_->tensors,
                   op,
                   std::span(pool_->operands).subspan(op.first_operand, op.operands));
    op.births = 0;
    op.deaths = 0;
  }
  for (Node& node : program_.nodes_) {
    node.deaths = 0;
  }
  derive_lifetimes(*pool_, program_.nodes_, program_.repeat_deaths_);
  return std::move(program_);
}

}  // namespace trireme::program
