#include "calibrate/probe/gpu/nccl_communicator.h"

#include <cstring>
#include <cuda.h>
#include <utility>

#include <fmt/format.h>

#include "calibrate/probe/gpu/check.h"
#include "calibrate/probe/gpu/kernels.h"
#include "sim/core/error.h"

namespace trireme::calibrate::gpu {

namespace {

constexpr ElementType kType = ElementType::bf16;
constexpr ncclDataType_t kNcclType = ncclBfloat16;

std::size_t elements(Bytes amount) {
  return static_cast<std::size_t>(exact_div(amount.value(), width(kType)));
}

std::string reason_of(ncclResult_t result, ncclComm_t communicator) {
  const char* const last = ncclGetLastError(communicator);
  return last == nullptr || *last == '\0' ? ncclGetErrorString(result)
                                          : fmt::format("{}: {}", ncclGetErrorString(result), last);
}

ncclConfig_t config_of(CopyBy copy_by) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;  // a framework's communicators have buffers of their own
  if (copy_by == CopyBy::copy_engines) {
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  }
  return config;
}

}  // namespace

Communicator::Communicator(CallWatch& watch,
                           ncclComm_t communicator,
                           std::int64_t rank,
                           std::int64_t ranks)
    : watch_(watch), communicator_(communicator), rank_(rank), ranks_(ranks) {}

std::unique_ptr<Communicator> Communicator::of_all_ranks(CallWatch& watch) {
  RankLink& link = watch.link();
  ncclUniqueId id{};
  if (link.rank() == 0) {
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) {
      watch.fail("ncclGetUniqueId", reason_of(result, nullptr));
    }
  }
  const std::string of_rank_0 = broadcast(link, 0, std::string(id.internal, sizeof(id.internal)));
  ensure(of_rank_0.size() == sizeof(id.internal), "communicator: an id of another length");
  std::memcpy(id.internal, of_rank_0.data(), sizeof(id.internal));

  ncclConfig_t config = config_of(CopyBy::multiprocessors);
  ncclComm_t handle = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(
      &handle, static_cast<int>(link.ranks()), id, static_cast<int>(link.rank()), &config);
  if (handle == nullptr) {
    watch.fail("ncclCommInitRankConfig", reason_of(result, nullptr));
  }
  std::unique_ptr<Communicator> all(new Communicator(watch, handle, link.rank(), link.ranks()));
  all->issued(result, "ncclCommInitRankConfig");
  return all;
}

Communicator::~Communicator() {
  abort();
}

void Communicator::abort() {
  if (communicator_ != nullptr) {
    ncclCommAbort(std::exchange(communicator_, nullptr));
  }
}

std::unique_ptr<Communicator> Communicator::split(int color, CopyBy copy_by) {
  ncclConfig_t config = config_of(copy_by);
  ncclComm_t handle = nullptr;
  issued(ncclCommSplit(communicator_, color, static_cast<int>(rank_), &handle, &config),
         "ncclCommSplit");
  if (handle == nullptr) {
    watch_.fail("ncclCommSplit", "made no communicator");
  }
  std::unique_ptr<Communicator> part(new Communicator(watch_, handle, 0, 0));
  part->issued(ncclSuccess, "ncclCommSplit");  // the part is ready later than its parent
  int rank = 0;
  int ranks = 0;
  part->issued(ncclCommUserRank(handle, &rank), "ncclCommUserRank");
  part->issued(ncclCommCount(handle, &ranks), "ncclCommCount");
  part->rank_ = rank;
  part->ranks_ = ranks;
  return part;
}

CallState Communicator::state() const {
  ncclResult_t status = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &status);
  if (asked != ncclSuccess) {
    status = asked;
  }
  if (status == ncclInProgress) {
    return {};
  }
  return {.done = true,
          .failure = status == ncclSuccess ? std::string() : reason_of(status, communicator_)};
}

void Communicator::issued(ncclResult_t result, std::string_view call) {
  try {
    if (result != ncclSuccess && result != ncclInProgress) {
      watch_.fail(call, reason_of(result, communicator_));
    }
    watch_.await(call, [this] { return state(); });
  } catch (...) {
    abort();
    throw;
  }
}

void Communicator::await(const Event& event, std::string_view call) {
  try {
    watch_.await(call, [&] {
      CallState now = state();
      now.done = now.done && event.passed();
      return now;
    });
  } catch (...) {
    abort();
    throw;
  }
}

SymmetricWindow::SymmetricWindow(Communicator& communicator, CallWatch& watch, Bytes amount)
    : communicator_(communicator) {
  const ncclResult_t allocated = ncclMemAlloc(&memory_, static_cast<std::size_t>(amount.value()));
  if (allocated != ncclSuccess) {
    memory_ = nullptr;
    cudaGetLastError();  // the runtime would report it again at the next launch
  }
  // Registering waits for all ranks, so they agree first whether to.
  bool all = true;
  for (const std::string& rank : watch.link().exchange(memory_ == nullptr ? "n" : "y")) {
    all = all && rank == "y";
  }
  if (!all) {
    if (memory_ != nullptr) {
      ncclMemFree(memory_);
    }
    throw PointRefused("a rank has no memory left that can be registered");
  }
  communicator.issued(ncclCommWindowRegister(communicator.get(),
                                             memory_,
                                             static_cast<std::size_t>(amount.value()),
                                             &window_,
                                             NCCL_WIN_COLL_SYMMETRIC),
                      "ncclCommWindowRegister");
}

SymmetricWindow::~SymmetricWindow() {
  if (window_ != nullptr && communicator_.get() != nullptr) {
    ncclCommWindowDeregister(communicator_.get(), window_);
  }
  ncclMemFree(memory_);
}

CollectiveExtents collective_extents(CollectiveKind kind, Bytes payload, std::int64_t ranks) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return {exact_div(payload, ranks), payload};
    case CollectiveKind::reduce_scatter:
      return {payload, exact_div(payload, ranks)};
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_reduce:
    case CollectiveKind::send_recv:
      return {payload, payload};
  }
  throw std::logic_error("collective_extents: not a collective");
}

namespace {

std::string_view call_of(CollectiveKind kind, bool own_all_to_all) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return "ncclAllGather";
    case CollectiveKind::reduce_scatter:
      return "ncclReduceScatter";
    case CollectiveKind::all_reduce:
      return "ncclAllReduce";
    case CollectiveKind::all_to_all:
      return own_all_to_all ? "ncclAlltoAll" : "ncclSend and ncclRecv of an all-to-all";
    case CollectiveKind::send_recv:
      return "ncclSend and ncclRecv";
  }
  return "";
}

/// Sends and receives in one group, so that none waits for another.
template <class Issue>
void grouped(Communicator& communicator, std::string_view call, const Issue& issue) {
  ncclResult_t first_failure = ncclGroupStart();
  issue([&](ncclResult_t result) {
    if (first_failure == ncclSuccess && result != ncclInProgress) {
      first_failure = result;
    }
  });
  const ncclResult_t ended = ncclGroupEnd();
  communicator.issued(first_failure == ncclSuccess ? ended : first_failure, call);
}

}  // namespace

void issue_collective(Communicator& communicator,
                      CollectiveKind kind,
                      bool own_all_to_all,
                      Bytes payload,
                      const void* input,
                      void* output,
                      const Stream& stream) {
  const std::string_view call = call_of(kind, own_all_to_all);
  const std::int64_t ranks = communicator.ranks();
  const ncclComm_t handle = communicator.get();
  switch (kind) {
    case CollectiveKind::all_gather:
      communicator.issued(
          ncclAllGather(
              input, output, elements(exact_div(payload, ranks)), kNcclType, handle, stream.get()),
          call);
      return;
    case CollectiveKind::reduce_scatter:
      communicator.issued(ncclReduceScatter(input,
                                            output,
                                            elements(exact_div(payload, ranks)),
                                            kNcclType,
                                            ncclSum,
                                            handle,
                                            stream.get()),
                          call);
      return;
    case CollectiveKind::all_reduce:
      communicator.issued(
          ncclAllReduce(input, output, elements(payload), kNcclType, ncclSum, handle, stream.get()),
          call);
      return;
    case CollectiveKind::all_to_all: {
      const Bytes chunk = exact_div(payload, ranks);
      if (own_all_to_all) {
        communicator.issued(
            ncclAlltoAll(input, output, elements(chunk), kNcclType, handle, stream.get()), call);
        return;
      }
      grouped(communicator, call, [&](const auto& note) {
        for (std::int64_t peer = 0; peer < ranks; ++peer) {
          const std::int64_t offset = peer * chunk.value();
          note(ncclSend(static_cast<const char*>(input) + offset,
                        elements(chunk),
                        kNcclType,
                        static_cast<int>(peer),
                        handle,
                        stream.get()));
          note(ncclRecv(static_cast<char*>(output) + offset,
                        elements(chunk),
                        kNcclType,
                        static_cast<int>(peer),
                        handle,
                        stream.get()));
        }
      });
      return;
    }
    case CollectiveKind::send_recv: {
      const auto next = static_cast<int>((communicator.rank() + 1) % ranks);
      const auto previous = static_cast<int>((communicator.rank() + ranks - 1) % ranks);
      grouped(communicator, call, [&](const auto& note) {
        note(ncclSend(input, elements(payload), kNcclType, next, handle, stream.get()));
        note(ncclRecv(output, elements(payload), kNcclType, previous, handle, stream.get()));
      });
      return;
    }
  }
}

void fill_input(const Communicator& communicator,
                CollectiveKind kind,
                Bytes payload,
                void* input,
                const Stream& stream) {
  const Bytes sent = collective_extents(kind, payload, communicator.ranks()).sent;
  const auto count = static_cast<std::int64_t>(elements(sent));
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter) {
    fill_summands(stream.get(), input, count, communicator.rank(), communicator.ranks());
  } else {
    fill_moved_bits(stream.get(), input, count, communicator.rank(), 0);
  }
}

std::uint64_t count_wrong(const Communicator& communicator,
                          CollectiveKind kind,
                          Bytes payload,
                          const void* output,
                          const Stream& stream) {
  const std::int64_t ranks = communicator.ranks();
  const std::int64_t rank = communicator.rank();
  const Buffer counter(Bytes(sizeof(std::uint64_t)));
  auto* const wrong = static_cast<std::uint64_t*>(counter.get());
  check(cudaMemsetAsync(wrong, 0, sizeof(*wrong), stream.get()), "cudaMemsetAsync");
  const auto all = static_cast<std::int64_t>(elements(payload));
  switch (kind) {
    case CollectiveKind::all_reduce:
      check_sums(stream.get(), output, all, ranks, 0, wrong);
      break;
    case CollectiveKind::reduce_scatter:
      check_sums(stream.get(), output, all / ranks, ranks, rank * (all / ranks), wrong);
      break;
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      for (std::int64_t source = 0; source < ranks; ++source) {
        const std::int64_t part = all / ranks;
        // Of an all-to-all, this rank's chunk of what the source held.
        const std::int64_t first_index = kind == CollectiveKind::all_to_all ? rank * part : 0;
        check_moved_bits(stream.get(),
                         static_cast<const std::uint16_t*>(output) + source * part,
                         part,
                         source,
                         first_index,
                         wrong);
      }
      break;
    case CollectiveKind::send_recv:
      check_moved_bits(stream.get(), output, all, (rank + ranks - 1) % ranks, 0, wrong);
      break;
  }
  std::uint64_t found = 0;
  check(cudaMemcpyAsync(&found, wrong, sizeof(found), cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync");
  stream.wait();
  return found;
}

namespace {

template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &function, 12030, cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion");
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

/// The name of the function of a kernel node; empty where the driver does not tell.
std::string kernel_name(cudaGraphNode_t node) {
  using NodeParams = CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*);
  using FunctionName = CUresult (*)(const char**, CUfunction);
  const auto params_of = driver_function<NodeParams>("cuGraphKernelNodeGetParams");
  const auto name_of = driver_function<FunctionName>("cuFuncGetName");
  CUDA_KERNEL_NODE_PARAMS params{};
  const char* name = nullptr;
  if (params_of == nullptr || name_of == nullptr || params_of(node, &params) != CUDA_SUCCESS ||
      params.func == nullptr || name_of(&name, params.func) != CUDA_SUCCESS || name == nullptr) {
    return {};
  }
  return name;
}

class Graph {
 public:
  explicit Graph(cudaGraph_t graph) : graph_(graph) {}

  ~Graph() { cudaGraphDestroy(graph_); }

  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  [[nodiscard]] std::vector<cudaGraphNode_t> nodes() const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    check(cudaGraphGetNodes(graph_, nodes.data(), &count), "cudaGraphGetNodes");
    return nodes;
  }

 private:
  cudaGraph_t graph_;
};

}  // namespace

std::vector<std::string> recorded_kernels(const Stream& stream,
                                          const std::function<void()>& issue) {
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
  issue();
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(stream.get(), &captured), "cudaStreamEndCapture");
  const Graph graph(captured);
  std::vector<std::string> names;
  for (cudaGraphNode_t node : graph.nodes()) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type == cudaGraphNodeTypeKernel) {
      names.push_back(kernel_name(node));
    }
  }
  return names;
}

}  // namespace trireme::calibrate::gpu
