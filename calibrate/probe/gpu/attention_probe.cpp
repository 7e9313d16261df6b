#include "calibrate/probe/gpu/attention_probe.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/measurement/measurement_file.h"
#include "calibrate/probe/attention_reference.h"
#include "calibrate/probe/gpu/host_copy.h"
#include "calibrate/probe/pattern.h"
#include "sim/core/error.h"

namespace trireme::calibrate::gpu {

namespace {

constexpr std::int64_t kMostSets = 4;
constexpr std::uint64_t kSeedsOfSet = 8;
/// Terms are rounded to bf16, half a unit of which is 2^-9 of a number; four times that.
constexpr double kTolerance = 1.0 / 128;
/// Older ones need work-arounds, or had wrong results; and one must not run older than was compiled
/// against, its last number aside.
/// Source: cudnn-frontend, the version checks of its attention nodes
constexpr std::size_t kLeastCudnn = std::max<std::size_t>(91600, CUDNN_VERSION / 100 * 100);
constexpr double kStatsTolerance = 1e-3;  // of a logarithm that is kept in fp32

/// Rows to compare: the first two, the last and some between, fewer where a row is long.
std::vector<std::int64_t> sampled_rows(std::int64_t tokens) {
  const std::int64_t between = std::clamp<std::int64_t>((std::int64_t{1} << 20) / tokens, 2, 32);
  std::set<std::int64_t> rows = {0, std::min<std::int64_t>(1, tokens - 1), tokens - 1};
  for (std::int64_t i = 1; i <= between; ++i) {
    rows.insert(i * (tokens - 1) / (between + 1));
  }
  return {rows.begin(), rows.end()};
}

/// One head of a tensor that fill_bf16() filled, as rows.
std::vector<float> filled_head(std::uint64_t seed,
                               std::int64_t sequence,
                               std::int64_t tokens,
                               std::int64_t heads,
                               std::int64_t head,
                               std::int64_t head_dim) {
  std::vector<float> rows;
  rows.reserve(static_cast<std::size_t>(tokens * head_dim));
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t first = ((sequence * tokens + token) * heads + head) * head_dim;
    for (std::int64_t i = 0; i < head_dim; ++i) {
      rows.push_back(uniform_value(seed, static_cast<std::uint64_t>(first + i)));
    }
  }
  return rows;
}

/// One head of a bf16 tensor on the device.
std::vector<float> device_head(const Buffer& buffer,
                               std::int64_t sequence,
                               std::int64_t tokens,
                               std::int64_t heads,
                               std::int64_t head,
                               std::int64_t head_dim) {
  return read_bf16_rows(buffer.get(),
                        (sequence * tokens * heads + head) * head_dim,
                        tokens,
                        head_dim,
                        heads * head_dim);
}

std::span<const float> row_of(const std::vector<float>& rows,
                              std::int64_t row,
                              std::int64_t width) {
  return std::span(rows).subspan(static_cast<std::size_t>(row * width),
                                 static_cast<std::size_t>(width));
}

class AttentionTrial final : public Trial {
 public:
  AttentionTrial(Device& device,
                 const CudnnHandle& handle,
                 const AttentionPoint& point,
                 std::shared_ptr<AttentionKernel> forward,
                 std::shared_ptr<AttentionKernel> backward)
      : device_(device),
        handle_(handle),
        point_(point),
        forward_(std::move(forward)),
        backward_(std::move(backward)),
        softmax_sum_(sum_bytes()),
        q_accumulator_(attention_scratch(point) - sum_bytes()),
        workspace_(std::max(forward_->workspace(),
                            backward_ == nullptr ? Bytes(0) : backward_->workspace())) {
    const std::int64_t sets =
        rotated_sets(attention_buffer_bytes(point, point.pass), device.cache(), kMostSets);
    for (std::int64_t set = 0; set < sets; ++set) {
      AttentionBuffers& buffers = buffers_.emplace_back(point, point.pass);
      buffers.fill(device.stream(), kSeedsOfSet * static_cast<std::uint64_t>(set));
    }
    for (const AttentionBuffers& buffers : buffers_) {
      Descriptor pass = forward_->bind(buffers, softmax_sum_, q_accumulator_, workspace_);
      if (backward_ != nullptr) {  // it reads what the forward pass wrote
        forward_->execute(handle_, pass);
        device_.stream().wait();
        pass = backward_->bind(buffers, softmax_sum_, q_accumulator_, workspace_);
      }
      bound_.push_back(std::move(pass));
    }
    device_.stream().wait();
  }

  void verify() override {
    kernel().execute(handle_, bound_.front());
    device_.stream().wait();
    // The last head of the last sequence: offsets are largest there.
    const std::int64_t head = point_.heads - 1;
    const std::vector<float> query = filled(0, point_.heads, head, point_.query_tokens);
    const std::vector<float> key = filled(1, point_.kv_heads, key_head(), point_.key_tokens);
    const std::vector<float> value = filled(2, point_.kv_heads, key_head(), point_.key_tokens);
    if (point_.pass == Pass::forward) {
      verify_output(view(query, key, value));
    } else {
      verify_query_gradient(view(query, key, value));
      verify_key_value_gradients(key, value);
    }
  }

  [[nodiscard]] Seconds run(std::int64_t times) override {
    return device_.time(times, [&](std::int64_t number) {
      const auto set = static_cast<std::size_t>(number) % bound_.size();
      kernel().execute(handle_, bound_[set]);
    });
  }

 private:
  [[nodiscard]] Bytes sum_bytes() const {
    return point_.pass == Pass::forward
               ? Bytes(0)
               : Bytes(4 * point_.sequences * point_.heads * point_.query_tokens.value());
  }

  [[nodiscard]] const AttentionKernel& kernel() const {
    return backward_ != nullptr ? *backward_ : *forward_;
  }

  [[nodiscard]] std::int64_t key_head() const { return point_.kv_heads - 1; }

  [[nodiscard]] std::vector<float> filled(std::uint64_t seed,
                                          std::int64_t heads,
                                          std::int64_t head,
                                          Tokens tokens) const {
    return filled_head(seed, point_.sequences - 1, tokens.value(), heads, head, point_.head_dim);
  }

  [[nodiscard]] AttentionHead view(std::span<const float> query,
                                   std::span<const float> key,
                                   std::span<const float> value) const {
    return {.head_dim = point_.head_dim,
            .queries = point_.query_tokens.value(),
            .keys = point_.key_tokens.value(),
            .causal = point_.causal,
            .query = query,
            .key = key,
            .value = value};
  }

  [[nodiscard]] std::vector<float> on_device(const Buffer& buffer,
                                             std::int64_t heads,
                                             std::int64_t head,
                                             Tokens tokens) const {
    return device_head(buffer, point_.sequences - 1, tokens.value(), heads, head, point_.head_dim);
  }

  /// The log-sum-exps of one query head.
  [[nodiscard]] std::vector<float> stats_of(std::int64_t head) const {
    const std::int64_t queries = point_.query_tokens.value();
    const std::int64_t first = ((point_.sequences - 1) * point_.heads + head) * queries;
    return read_rows<float>(buffers_.front().stats.get(), first, 1, queries, queries);
  }

  [[noreturn]] void wrong(std::string_view what, std::int64_t row) const {
    throw WrongResult(fmt::format("{}: {} of row {} is wrong", in_words(Point(point_)), what, row));
  }

  void verify_output(const AttentionHead& head) const {
    const std::vector<float> output =
        on_device(buffers_.front().output, point_.heads, point_.heads - 1, point_.query_tokens);
    const std::vector<float> stats = stats_of(point_.heads - 1);
    for (const std::int64_t row : sampled_rows(head.queries)) {
      const OutputRow reference = output_row(head, row);
      if (!agrees(reference.output, row_of(output, row, point_.head_dim), kTolerance)) {
        wrong("the output", row);
      }
      const double kept = static_cast<double>(stats[static_cast<std::size_t>(row)]);
      if (!(std::abs(kept - reference.log_sum_exp) <= kStatsTolerance)) {
        wrong("the log-sum-exp", row);
      }
    }
  }

  void verify_query_gradient(const AttentionHead& head) const {
    const std::vector<float> output_gradient =
        filled(3, point_.heads, point_.heads - 1, point_.query_tokens);
    const std::vector<float> gradient =
        on_device(buffers_.front().q_gradient, point_.heads, point_.heads - 1, point_.query_tokens);
    for (const std::int64_t row : sampled_rows(head.queries)) {
      const ReferenceRow reference =
          query_gradient(head, row, row_of(output_gradient, row, point_.head_dim));
      if (!agrees(reference, row_of(gradient, row, point_.head_dim), kTolerance)) {
        wrong("the query's gradient", row);
      }
    }
  }

  /// Sums over the query heads that share the last key/value head.
  void verify_key_value_gradients(const std::vector<float>& key,
                                  const std::vector<float>& value) const {
    const std::vector<std::int64_t> rows = sampled_rows(point_.key_tokens.value());
    std::vector<KeyValueGradients> references(rows.size(), KeyValueGradients(point_.head_dim));
    const std::int64_t group = point_.heads / point_.kv_heads;
    for (std::int64_t head = key_head() * group; head < point_.heads; ++head) {
      const std::vector<float> query = filled(0, point_.heads, head, point_.query_tokens);
      const std::vector<float> gradient = filled(3, point_.heads, head, point_.query_tokens);
      const std::vector<float> output =
          on_device(buffers_.front().output, point_.heads, head, point_.query_tokens);
      const std::vector<float> stats = stats_of(head);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        references[i].add(view(query, key, value), rows[i], output, gradient, stats);
      }
    }
    const std::vector<float> key_gradient =
        on_device(buffers_.front().k_gradient, point_.kv_heads, key_head(), point_.key_tokens);
    const std::vector<float> value_gradient =
        on_device(buffers_.front().v_gradient, point_.kv_heads, key_head(), point_.key_tokens);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!agrees(references[i].key_row(),
                  row_of(key_gradient, rows[i], point_.head_dim),
                  kTolerance)) {
        wrong("the key's gradient", rows[i]);
      }
      if (!agrees(references[i].value_row(),
                  row_of(value_gradient, rows[i], point_.head_dim),
                  kTolerance)) {
        wrong("the value's gradient", rows[i]);
      }
    }
  }

  Device& device_;
  const CudnnHandle& handle_;
  AttentionPoint point_;
  std::shared_ptr<AttentionKernel> forward_;
  std::shared_ptr<AttentionKernel> backward_;
  Buffer softmax_sum_;
  Buffer q_accumulator_;
  Buffer workspace_;
  std::vector<AttentionBuffers> buffers_;
  std::vector<Descriptor> bound_;
};

}  // namespace

AttentionProbe::AttentionProbe(Device& device,
                               std::string_view name,
                               std::vector<AttentionPoint> points)
    : device_(device), name_(name), points_(std::move(points)) {}

std::vector<Point> AttentionProbe::points() const {
  return {points_.begin(), points_.end()};
}

const CudnnHandle& AttentionProbe::handle() {
  if (handle_ == nullptr) {
    handle_ = std::make_unique<CudnnHandle>(device_.stream());
  }
  return *handle_;
}

void AttentionProbe::start(MemoryStages& stages) {
  static_cast<void>(handle());
  stages.note("cudnn", memory_state().used());
}

std::shared_ptr<AttentionKernel> AttentionProbe::forward_kernel(AttentionPoint point) {
  point.pass = Pass::forward;
  if (kept_kernel_ == nullptr || !(kept_point_ == point)) {
    kept_kernel_ = std::make_shared<AttentionKernel>(point);
    kept_point_ = point;
  }
  return kept_kernel_;
}

std::unique_ptr<Trial> AttentionProbe::prepare(const Point& any_point) {
  const auto& point = std::get<AttentionPoint>(any_point);
  if (cudnnGetVersion() < kLeastCudnn) {
    throw PointRefused(fmt::format("cuDNN {} is older than {}", cudnnGetVersion(), kLeastCudnn));
  }
  try {
    std::shared_ptr<AttentionKernel> backward;
    if (point.pass == Pass::backward) {
      backward = std::make_shared<AttentionKernel>(point);
    }
    return std::make_unique<AttentionTrial>(
        device_, handle(), point, forward_kernel(point), std::move(backward));
  } catch (const CudnnError& error) {
    if (error.not_supported()) {
      throw PointRefused(error.what());
    }
    throw Error(ErrorKind::device, {}, error.what());
  }
}

}  // namespace trireme::calibrate::gpu
