// The closed sets of words in which programs, ledgers and reports speak, with their printed names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class Phase : std::uint8_t { forward, recompute, backward, optimizer };
inline constexpr std::array<std::string_view, 4> kPhaseNames = {
    "forward", "recompute", "backward", "optimizer"};

/// The part of a transformer, or of the step, that an operation or a tensor belongs to.
enum class Component : std::uint8_t {
  attention,
  mlp,
  norm,
  embedding,
  head,
  loss,
  pipeline,
  moe,
  optimizer,
  clipping
};
inline constexpr std::array<std::string_view, 10> kComponentNames = {"attention",
                                                                     "mlp",
                                                                     "norm",
                                                                     "embedding",
                                                                     "head",
                                                                     "loss",
                                                                     "pipeline",
                                                                     "moe",
                                                                     "optimizer",
                                                                     "clipping"};

enum class CollectiveKind : std::uint8_t {
  all_to_all,
  all_gather,
  reduce_scatter,
  all_reduce,
  send_recv
};
inline constexpr std::array<std::string_view, 5> kCollectiveNames = {
    "all_to_all", "all_gather", "reduce_scatter", "all_reduce", "send_recv"};

/// What a router makes of its logits, expert by expert.
enum class RouterScore : std::uint8_t { softmax, sigmoid };

/// What a collective carries: decides under which heading its bytes are booked.
enum class Traffic : std::uint8_t { activations, gradients, parameters, optimizer };
inline constexpr std::array<std::string_view, 4> kTrafficNames = {
    "activations", "gradients", "parameters", "optimizer"};

enum class LinkClass : std::uint8_t { nvlink, nic, pcie };
inline constexpr std::array<std::string_view, 3> kLinkNames = {"nvlink", "nic", "pcie"};

/// What fills a rank's memory, as reports list it.
enum class MemoryItem : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  gathered_parameters,
  gradient_buckets,
  saved_activations,
  temporaries,
  communication_buffers,
  logits_and_loss,
  workspaces
};
inline constexpr std::array<std::string_view, 10> kMemoryItemNames = {"parameters",
                                                                      "gradients",
                                                                      "optimizer",
                                                                      "gathered_parameters",
                                                                      "gradient_buckets",
                                                                      "saved_activations",
                                                                      "temporaries",
                                                                      "communication_buffers",
                                                                      "logits_and_loss",
                                                                      "workspaces"};

template <class Enum, std::size_t N>
constexpr std::string_view name_in(const std::array<std::string_view, N>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

constexpr std::string_view name(Phase value) {
  return name_in(kPhaseNames, value);
}

constexpr std::string_view name(Component value) {
  return name_in(kComponentNames, value);
}

constexpr std::string_view name(CollectiveKind value) {
  return name_in(kCollectiveNames, value);
}

constexpr std::string_view name(Traffic value) {
  return name_in(kTrafficNames, value);
}

constexpr std::string_view name(LinkClass value) {
  return name_in(kLinkNames, value);
}

constexpr std::string_view name(MemoryItem value) {
  return name_in(kMemoryItemNames, value);
}

}  // namespace trireme
