#include "sim/study/rank_record.h"

#include <array>
#include <map>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace trireme::study {

using engine::ExecutionConstants;
using engine::InstanceIndex;
using engine::LocalTensor;
using engine::Transport;
using ledger::Quantity;
using program::Access;
using program::Function;
using program::Index;
using program::Op;
using program::OpId;
using program::Program;
using program::Tensor;
using program::TensorId;

namespace {

/// Counts, message by message, what each operation sends.
class CountingTransport : public Transport {
 public:
  CountingTransport(Transport& network, std::size_t operations)
      : network_(network), sent_elements_(operations) {}

  [[nodiscard]] std::int64_t rank() const override { return network_.rank(); }

  [[nodiscard]] std::int64_t ranks() const override { return network_.ranks(); }

  void send(std::int64_t to, std::span<const double> message) override {
    sent_elements_[operation_] += static_cast<std::int64_t>(message.size());
    network_.send(to, message);
  }

  void receive(std::int64_t from, std::span<double> message) override {
    network_.receive(from, message);
  }

  /// The operation that messages belong to from now on.
  void begin(OpId operation) { operation_ = operation; }

  [[nodiscard]] std::vector<std::int64_t> take() {
    return std::exchange(sent_elements_, std::vector<std::int64_t>(sent_elements_.size()));
  }

 private:
  Transport& network_;
  std::vector<std::int64_t> sent_elements_;
  OpId operation_ = 0;
};

/// Of the stage that has the head.
TensorId find_loss(const Program& program) {
  const bool has_loss = std::any_of(program.tensors().begin(),
                                    program.tensors().end(),
                                    [](const Tensor& tensor) { return tensor.name == "loss"; });
  return has_loss ? find_tensor(program, "loss") : program::kNoTensor;
}

/// Keeps the values that are compared, the last of each tensor and step.
class Recorder {
 public:
  explicit Recorder(const Program& program)
      : program_(program),
        first_stage_(program.stage() == 0),
        loss_(find_loss(program)),
        last_stage_(loss_ != program::kNoTensor),
        up_to_date_(find_up_to_date(program)) {}

  void begin_step(std::int64_t step) { step_ = step; }

  void observe(const Op& op,
               std::size_t operand,
               const InstanceIndex& instance,
               const LocalTensor& local) {
    const program::Operand& used = program_.operands(op)[operand];
    const TensorId id = used.ref.tensor;
    const std::int64_t layer = instance[index_of(Index::layer)];
    if (op.function == Function::adam) {
      if (used.access == Access::read && program_.tensor(id).role == program::Role::gradient) {
        keep(Quantity::gradients, id, instance, op, local);
      }
    } else if (used.access != Access::read) {
      const std::string_view tensor = program_.tensor(id).name;
      if (last_stage_ && tensor == "residual stream" && layer == program_.extent(Index::layer)) {
        keep(Quantity::output, id, instance, op, local);
      } else if (first_stage_ && tensor == "residual stream gradient" && layer == 0) {
        keep(Quantity::input_gradient, id, instance, op, local);
      } else if (id == loss_) {
        keep(Quantity::loss, id, instance, op, local);
      }
    }
    const bool updates = op.function == Function::adam || op.function == Function::to_device;
    if (updates && used.access == Access::update) {
      last_update_[{id, instance_of(id, instance)}] = id_of(op);
    }
  }

  /// Parameters and optimizer states after a step.
  void keep_resident(const engine::Executor& executor) {
    for (std::size_t i = 0; i < program_.tensors().size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      const Tensor& tensor = program_.tensor(id);
      const bool state =
          tensor.role == program::Role::parameter || tensor.role == program::Role::optimizer_state;
      if (!tensor.resident || tensor.storage != program::Storage::own || !state) {
        continue;
      }
      const auto layers = program_.resident_range(tensor, Index::layer);
      for (std::int64_t layer = layers.first; layer < layers.first + layers.count; ++layer) {
        InstanceIndex instance{};
        instance[index_of(Index::layer)] = static_cast<std::int32_t>(layer);
        const TensorId held = up_to_date_[i];
        Capture& capture = captures_[{step_, Quantity::parameters, held, instance}];
        const auto update = last_update_.find({held, instance});
        capture = {step_,
                   Quantity::parameters,
                   held,
                   instance,
                   update == last_update_.end() ? optimizer() : update->second,
                   executor.resident(held, instance).values};
      }
    }
  }

  [[nodiscard]] std::vector<Capture> take() {
    std::vector<Capture> captures;
    for (auto& [key, capture] : captures_) {
      captures.push_back(std::move(capture));
    }
    return captures;
  }

  [[nodiscard]] OpId id_of(const Op& op) const {
    return static_cast<OpId>(&op - program_.ops().data());
  }

 private:
  using Key = std::tuple<std::int64_t, Quantity, TensorId, InstanceIndex>;

  /// Zero for indices that the tensor does not vary over.
  [[nodiscard]] InstanceIndex instance_of(TensorId id, InstanceIndex instance) const {
    for (std::size_t i = 0; i < program::kIndexCount; ++i) {
      if ((program_.tensor(id).varies & (1U << i)) == 0) {
        instance[i] = 0;
      }
    }
    return instance;
  }

  void keep(Quantity quantity,
            TensorId id,
            const InstanceIndex& indices,
            const Op& op,
            const LocalTensor& local) {
    const InstanceIndex instance = instance_of(id, indices);
    captures_[{step_, quantity, id, instance}] = {
        step_, quantity, id, instance, id_of(op), local.values};
  }

  /// What a step leaves of each tensor: all of it, or the shard that the optimizer updated, where
  /// the next step gathers the others.
  [[nodiscard]] static std::vector<TensorId> find_up_to_date(const Program& program) {
    std::vector<TensorId> up_to_date(program.tensors().size());
    for (std::size_t i = 0; i < up_to_date.size(); ++i) {
      up_to_date[i] = static_cast<TensorId>(i);
    }
    for (const Op& op : program.ops()) {
      for (const program::Operand& operand : program.operands(op)) {
        const TensorId id = operand.ref.tensor;
        if (operand.access != Access::read && operand.access != Access::hold) {
          const TensorId owner = program.tensor(id).root;
          const bool updates = op.function == Function::adam || op.function == Function::to_device;
          up_to_date[owner] = updates ? id : owner;
        }
      }
    }
    return up_to_date;
  }

  /// Any optimizer operation, for parameters that it updates through a view.
  [[nodiscard]] OpId optimizer() const {
    for (OpId op = 0; op < program_.ops().size(); ++op) {
      if (program_.op(op).function == Function::adam) {
        return op;
      }
    }
    return 0;
  }

  const Program& program_;
  bool first_stage_;
  TensorId loss_;
  bool last_stage_;
  std::vector<TensorId> up_to_date_;  // by owner of memory
  std::int64_t step_ = 0;
  std::map<Key, Capture> captures_;
  std::map<std::pair<TensorId, InstanceIndex>, OpId> last_update_;
};

/// A record as numbers: integers below 2^53 are exact in a double.
class RecordWriter {
 public:
  template <class Number>
  void put(Number number) {
    message_.push_back(static_cast<double>(number));
  }

  void put_all(const std::vector<double>& values) {
    put(values.size());
    message_.insert(message_.end(), values.begin(), values.end());
  }

  void put_all(const std::vector<engine::AliveTensor>& alive) {
    put(alive.size());
    for (const engine::AliveTensor& tensor : alive) {
      put(tensor.tensor);
      put(tensor.instances);
    }
  }

  [[nodiscard]] const std::vector<double>& message() const { return message_; }

 private:
  std::vector<double> message_;
};

class RecordReader {
 public:
  explicit RecordReader(std::vector<double> message) : message_(std::move(message)) {}

  template <class Number>
  void get(Number& number) {
    number = static_cast<Number>(message_.at(next_++));
  }

  [[nodiscard]] std::size_t count() {
    std::size_t value = 0;
    get(value);
    return value;
  }

  void get_all(std::vector<double>& values) {
    values.resize(count());
    for (double& value : values) {
      get(value);
    }
  }

  void get_all(std::vector<engine::AliveTensor>& alive) {
    alive.resize(count());
    for (engine::AliveTensor& tensor : alive) {
      get(tensor.tensor);
      get(tensor.instances);
    }
  }

  [[nodiscard]] Bytes bytes() {
    std::int64_t value = 0;
    get(value);
    return Bytes(value);
  }

 private:
  std::vector<double> message_;
  std::size_t next_ = 0;
};

void write_step(RecordWriter& writer, const StepCounts& step) {
  for_each_account(step.bytes, [&](std::string_view, Bytes amount) { writer.put(amount.value()); });
  for (const Bytes amount : step.bytes.sent_by_link) {
    writer.put(amount.value());
  }
  writer.put(step.sent_elements.size());
  for (const std::int64_t elements : step.sent_elements) {
    writer.put(elements);
  }
  for (const engine::HeldMemory& held : step.held) {
    writer.put(held.peak.value());
    writer.put(held.at_end.value());
    writer.put(held.peak_op);
    writer.put_all(held.alive_at_peak);
    writer.put_all(held.alive_at_end);
  }
  for (const Seconds time : step.wall_clock) {
    writer.put(time.value());
  }
}

StepCounts read_step(RecordReader& reader) {
  StepCounts step;
  for_each_account(step.bytes, [&](std::string_view, Bytes& amount) { amount = reader.bytes(); });
  for (Bytes& amount : step.bytes.sent_by_link) {
    amount = reader.bytes();
  }
  step.sent_elements.resize(reader.count());
  for (std::int64_t& elements : step.sent_elements) {
    reader.get(elements);
  }
  for (engine::HeldMemory& held : step.held) {
    held.peak = reader.bytes();
    held.at_end = reader.bytes();
    reader.get(held.peak_op);
    reader.get_all(held.alive_at_peak);
    reader.get_all(held.alive_at_end);
  }
  for (Seconds& time : step.wall_clock) {
    double seconds = 0;
    reader.get(seconds);
    time = Seconds(seconds);
  }
  return step;
}

}  // namespace

InstanceIndex in_model(const Program& stage, const Tensor& tensor, InstanceIndex instance) {
  std::int32_t& layer = instance[index_of(Index::layer)];
  // The residual stream that leaves the last layer belongs to none.
  if ((tensor.varies & program::kPerLayer) != 0 && layer < stage.extent(Index::layer)) {
    layer = static_cast<std::int32_t>(stage.layer_of_model(layer));
  }
  return instance;
}

TensorId find_tensor(const Program& program, std::string_view name) {
  for (std::size_t i = 0; i < program.tensors().size(); ++i) {
    const Tensor& tensor = program.tensors()[i];
    if (tensor.name == name && tensor.part.empty() && tensor.storage == program::Storage::own) {
      return static_cast<TensorId>(i);
    }
  }
  throw std::logic_error(fmt::format("the program has no tensor '{}'", name));
}

RankRecord record_rank(
    const Program& program,
    Transport& transport,
    std::int64_t gpus_per_node,
    std::int64_t steps,
    const ExecutionConstants& constants,
    const std::function<void(std::int64_t step, const InstanceIndex& instance, LocalTensor& local)>&
        source) {
  CountingTransport counting(transport, program.ops().size());
  Recorder recorder(program);
  RankRecord record;
  std::int64_t step = 0;
  engine::Executor executor(
      program,
      counting,
      gpus_per_node,
      [&](const InstanceIndex& instance, LocalTensor& local) { source(step, instance, local); },
      [&](const Op& op,
          std::size_t operand,
          const InstanceIndex& instance,
          const LocalTensor& local) {
        counting.begin(recorder.id_of(op));
        recorder.observe(op, operand, instance, local);
      });
  for (; step < steps; ++step) {
    recorder.begin_step(step);
    ExecutionConstants now = constants;
    now.optimizer_step = step + 1;
    engine::ExecutionResult result = executor.run_step(now);
    recorder.keep_resident(executor);
    record.steps.push_back(
        {result.wire.ledger, counting.take(), std::move(result.held), result.wall_clock});
  }
  record.captures = recorder.take();
  return record;
}

void send_record(Transport& transport, const RankRecord& record) {
  RecordWriter writer;
  writer.put(record.captures.size());
  for (const Capture& capture : record.captures) {
    writer.put(capture.step);
    writer.put(static_cast<int>(capture.quantity));
    writer.put(capture.tensor);
    for (const std::int32_t index : capture.instance) {
      writer.put(index);
    }
    writer.put(capture.op);
    writer.put_all(capture.values);
  }
  writer.put(record.steps.size());
  for (const StepCounts& step : record.steps) {
    write_step(writer, step);
  }
  const std::array length{static_cast<double>(writer.message().size())};
  transport.send(0, length);
  transport.send(0, writer.message());
}

RankRecord receive_record(Transport& transport, std::int64_t rank) {
  std::array<double, 1> length{};
  transport.receive(rank, length);
  std::vector<double> message(static_cast<std::size_t>(length[0]));
  transport.receive(rank, message);
  RecordReader reader(std::move(message));
  RankRecord record;
  record.captures.resize(reader.count());
  for (Capture& capture : record.captures) {
    int quantity = 0;
    reader.get(capture.step);
    reader.get(quantity);
    capture.quantity = static_cast<Quantity>(quantity);
    reader.get(capture.tensor);
    for (std::int32_t& index : capture.instance) {
      reader.get(index);
    }
    reader.get(capture.op);
    reader.get_all(capture.values);
  }
  record.steps.resize(reader.count());
  for (StepCounts& step : record.steps) {
    step = read_step(reader);
  }
  return record;
}

}  // namespace trireme::study
