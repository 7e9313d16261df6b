#include "calibrate/probe/gpu_points.h"

#include <algorithm>

namespace trireme::calibrate {

namespace {

constexpr std::int64_t kKi = 1024;

/// Query heads of a point: tokens x heads x head dim stays at that of 32 heads of 128 over 16 K
/// tokens, from which on a GPU is full and only the time grows.
std::int64_t heads_for(std::int64_t tokens, std::int64_t head_dim) {
  constexpr std::int64_t kMostHeads = 32;
  const std::int64_t heads = kMostHeads * 128 * 16 * kKi / (tokens * head_dim);
  return std::clamp<std::int64_t>(heads, 2, kMostHeads);
}

}  // namespace

std::vector<Bytes> collective_payloads() {
  constexpr std::int64_t kLeast = 4 * kKi;
  constexpr std::int64_t kMost = 8 * kKi * kKi * kKi;
  std::vector<Bytes> payloads;
  for (std::int64_t payload = kLeast; payload < kMost; payload *= 4) {
    payloads.emplace_back(payload);
  }
  payloads.emplace_back(kMost);
  return payloads;
}

Bytes divisible_payload(Bytes payload, std::int64_t ranks) {
  return Bytes(pad_to(payload.value(), 16 * ranks));
}

std::vector<AttentionPoint> attention_points(bool unified) {
  std::vector<AttentionPoint> points;
  const auto add = [&](std::int64_t head_dim, bool causal, bool grouped, std::int64_t tokens) {
    const std::int64_t heads = heads_for(tokens, head_dim);
    AttentionPoint point{.kernel = "cudnn",
                         .pass = Pass::forward,
                         .sequences = 1,
                         .query_tokens = Tokens(tokens),
                         .key_tokens = Tokens(tokens),
                         .heads = heads,
                         .kv_heads = grouped ? std::max<std::int64_t>(heads / 4, 1) : heads,
                         .head_dim = head_dim,
                         .causal = causal,
                         .type = ElementType::bf16};
    points.push_back(point);
    point.pass = Pass::backward;
    points.push_back(point);
    if (unified && !causal) {
      point.kernel = "cudnn unified";
      point.pass = Pass::forward;
      points.push_back(point);
    }
  };
  const auto add_lengths = [&](std::int64_t head_dim, bool causal, bool grouped) {
    for (std::int64_t tokens = kKi; tokens <= 256 * kKi; tokens *= 4) {
      add(head_dim, causal, grouped, tokens);
    }
  };
  // What most models have comes first, in case that the time is up.
  for (const std::int64_t head_dim : {128, 64, 256}) {
    add_lengths(head_dim, true, true);
  }
  add_lengths(128, true, false);
  for (const std::int64_t head_dim : {128, 64, 256}) {
    add_lengths(head_dim, false, true);
  }
  add_lengths(128, false, false);
  return points;
}

std::vector<GemmPoint> gemm_grid() {
  std::vector<GemmPoint> points;
  for (const std::int64_t tokens : {1 * kKi, 4 * kKi, 16 * kKi, 64 * kKi}) {
    for (const std::int64_t outputs : {1 * kKi, 4 * kKi, 16 * kKi}) {
      for (const std::int64_t inputs : {1 * kKi, 4 * kKi, 16 * kKi}) {
        points.push_back({.m = tokens, .n = outputs, .k = inputs, .pass = GemmPass::forward});
      }
    }
  }
  for (const std::int64_t tokens : {4 * kKi, 16 * kKi}) {
    for (const std::int64_t outputs : {4 * kKi, 16 * kKi}) {
      points.push_back({.m = tokens, .n = 4 * kKi, .k = outputs, .pass = GemmPass::data_gradient});
      for (const bool accumulates : {false, true}) {
        points.push_back({.m = outputs,
                          .n = 4 * kKi,
                          .k = tokens,
                          .pass = GemmPass::weight_gradient,
                          .fp32_accumulation = accumulates});
      }
    }
  }
  return points;
}

}  // namespace trireme::calibrate
