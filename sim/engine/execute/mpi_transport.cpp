#include "sim/engine/execute/mpi_transport.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <list>
#include <mpi.h>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "sim/engine/execute/mpi_calls.h"
#include "sim/units/units.h"

namespace trireme::engine {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Between two signs of life of a rank.
constexpr milliseconds kHeartbeat(100);
/// mpirun follows SIGTERM by SIGKILL after a second (odls_base_sigkill_timeout): what is to be said
/// is said before.
constexpr milliseconds kAfterSigterm(800);
/// A rank that has been heard of this recently is taken to be alive when a run ends.
constexpr milliseconds kRecently(600);
/// For last messages to leave a process that is about to end.
constexpr milliseconds kLinger(200);
/// For a rank that has failed by itself to print why, before the others leave.
constexpr milliseconds kForLastWords(3000);

volatile std::sig_atomic_t sigterm_arrived = 0;

void on_sigterm(int /*signal*/) {
  sigterm_arrived = 1;
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    throw std::runtime_error(fmt::format("{}: {}", call, text.data()));
  }
}

/// The state letter of a process as Linux shows it, 'T' when it is stopped; 0 when it is gone.
char process_state(std::int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // "12 (name) T ...", where the name may hold anything.
  const std::size_t name_end = text.rfind(')');
  const char state =
      name_end == std::string::npos || name_end + 2 >= text.size() ? '\0' : text[name_end + 2];
  return state == 'Z' || state == 'X' ? '\0' : state;
}

/// For calls whose failure means that `peer` cannot be reached.
void check(int code, const char* call, std::int64_t peer) {
  try {
    check(code, call);
  } catch (const std::runtime_error& error) {
    throw RankFailure(peer, fmt::format("rank {} cannot be reached: {}", peer, error.what()));
  }
}

constexpr std::int64_t kNoRank = -1;

struct Process {
  std::int64_t id = 0;
  std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
};

/// What ranks tell each other beside the program's messages.
enum class Sign : std::int64_t { alive, lost, failed };

struct SignMessage {
  Sign sign = Sign::alive;
  std::int64_t rank = kNoRank;  // that is lost or has failed; that a living one waits for
};

/// What one rank knows of another.
struct Peer {
  Process process;
  bool observable = false;  // its process is seen from here
  Clock::time_point last_heard;
  std::int64_t waits_for = kNoRank;
  SignMessage heartbeat{};  // on its way to it
  MPI_Request heartbeat_sent = MPI_REQUEST_NULL;
};

/// MPI between its initialisation and its end, and the thread that watches the other ranks.
///
/// Every call of MPI is made under `mpi_`, and none of them waits for another rank, so that the
/// thread is heard and hears whatever the rank itself is doing.
class Session final : public MpiCalls {
 public:
  Session(const MpiLimits& limits, const std::function<void(const RankFailure&)>& report)
      : limits_(limits), report_(report) {
    watch_clock("start", limits_.receive);
    start();
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch_ranks(stop); });
  }

  ~Session() override { std::signal(SIGTERM, SIG_DFL); }

  [[nodiscard]] std::int64_t rank() const override { return rank_; }

  [[nodiscard]] std::int64_t ranks() const override {
    return static_cast<std::int64_t>(peers_.size());
  }

  void send(std::int64_t to, std::span<const double> message) override;
  void receive(std::int64_t from, std::span<double> message) override;
  void complete(const char* call,
                const std::function<int(MPI_Request* request)>& begin,
                Patience patience) override;
  void run_blocking(const char* call, const std::function<int()>& body) override;

  /// Waits for all ranks and finalises MPI.
  void finish();

  /// Tells the other ranks that this one has failed.
  void tell_failure() {
    const std::lock_guard lock(mpi_);
    tell({.sign = Sign::failed, .rank = rank_});
  }

 private:
  struct Outgoing {
    std::vector<double> message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void start();
  void watch_clock(std::string_view what, milliseconds limit);
  void watch_ranks(const std::stop_token& stop);
  void send_heartbeats();
  [[nodiscard]] std::optional<SignMessage> read_signs();
  [[nodiscard]] std::optional<std::int64_t> lost_rank(const std::vector<bool>& gone,
                                                      milliseconds silence) const;
  [[nodiscard]] std::string how_lost(std::int64_t rank) const;
  void tell(SignMessage notice);
  [[noreturn]] void leave(SignMessage notice);
  [[nodiscard]] RankFailure silence(std::int64_t from) const;
  void forget_sent();
  template <class Done>
  void wait_until(Done done, Patience patience = Patience::sleeping);

  MpiLimits limits_;
  std::function<void(const RankFailure&)> report_;
  std::int64_t rank_ = 0;
  std::vector<Peer> peers_;
  bool has_core_ = false;  // as this host has one for each of its ranks
  std::mutex mpi_;
  MPI_Comm signs_ = MPI_COMM_NULL;
  std::int64_t waits_for_ = kNoRank;
  std::list<Outgoing> outgoing_;  // until MPI has sent them
  std::jthread watcher_;          // last: it is ended before what it looks at
};

Peer& at(std::vector<Peer>& peers, std::int64_t rank) {
  return peers[static_cast<std::size_t>(rank)];
}

const Peer& at(const std::vector<Peer>& peers, std::int64_t rank) {
  return peers[static_cast<std::size_t>(rank)];
}

void Session::start() {
  // On fewer cores than ranks OpenMPI yields in every call that finds nothing. The loops here yield
  // or sleep themselves; beside ranks that compute, one more yield a call makes a thread fall
  // silent.
  setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
  int level = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  if (level < MPI_THREAD_SERIALIZED) {
    throw std::runtime_error("this MPI cannot be used by two threads, even in turn");
  }
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &signs_), "MPI_Comm_dup");
  int rank = 0;
  int ranks = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  rank_ = rank;

  Process own{.id = getpid()};
  int length = 0;
  check(MPI_Get_processor_name(own.host.data(), &length), "MPI_Get_processor_name");
  std::vector<Process> processes(static_cast<std::size_t>(ranks));
  check(MPI_Allgather(&own,
                      sizeof(Process),
                      MPI_BYTE,
                      processes.data(),
                      sizeof(Process),
                      MPI_BYTE,
                      MPI_COMM_WORLD),
        "MPI_Allgather");
  for (const Process& process : processes) {
    peers_.push_back({.process = process,
                      .observable = process.host == own.host && process_state(process.id) != 0,
                      .last_heard = Clock::now()});
  }
  const auto here = std::count_if(processes.begin(), processes.end(), [&](const Process& process) {
    return process.host == own.host;
  });
  has_core_ = here <= ::sysconf(_SC_NPROCESSORS_ONLN);
  std::signal(SIGTERM, on_sigterm);
}

/// Sleeps that long, or until a stop is requested: false then.
bool sleep(const std::stop_token& stop, milliseconds length) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  never.wait_for(lock, stop, length, [] { return false; });
  return !stop.stop_requested();
}

/// Ends the process when what follows, a call of MPI that can wait, is not over in time: when
/// another watch has not begun by then. Calls no MPI itself.
void Session::watch_clock(std::string_view what, milliseconds limit) {
  watcher_ = std::jthread([this, what, limit](const std::stop_token& stop) {
    if (sleep(stop, limit)) {
      report_(RankFailure(
          rank_,
          fmt::format("rank {} has waited {} ms for all ranks to {}", rank_, limit.count(), what)));
      _exit(static_cast<int>(ExitCode::device));
    }
  });
}

void Session::watch_ranks(const std::stop_token& stop) {
  Clock::time_point round = Clock::now();
  Clock::time_point judges_from = round;
  std::optional<Clock::time_point> sigterm;
  while (sleep(stop, kHeartbeat)) {
    const Clock::time_point now = Clock::now();
    if (now - round > limits_.silence / 2) {
      // It is this rank that was stopped: what the others have said meanwhile is to be read first.
      judges_from = now + kRecently;
      for (Peer& peer : peers_) {
        peer.last_heard = now;
      }
    }
    round = now;
    if (sigterm_arrived != 0 && !sigterm) {
      sigterm = now;
    }
    // Before the signs are read: who leaves says why first.
    std::vector<bool> gone;
    for (const Peer& peer : peers_) {
      gone.push_back(peer.observable && process_state(peer.process.id) == 0);
    }
    std::optional<SignMessage> notice;
    {
      const std::lock_guard lock(mpi_);
      send_heartbeats();
      notice = read_signs();
    }
    const bool must_end = sigterm && now - *sigterm > kAfterSigterm;
    if (!notice && now >= judges_from) {
      if (const auto lost = lost_rank(gone, must_end ? kRecently : limits_.silence)) {
        notice = SignMessage{.sign = Sign::lost, .rank = *lost};
      }
    }
    if (notice) {
      leave(*notice);
    }
    if (must_end) {
      std::signal(SIGTERM, SIG_DFL);
      kill(getpid(), SIGTERM);
    }
  }
}

// A sign that cannot be sent or read shows as silence: errors need no treatment of their own.

void Session::send_heartbeats() {
  for (std::int64_t to = 0; to < ranks(); ++to) {
    Peer& peer = at(peers_, to);
    int done = 0;
    MPI_Test(&peer.heartbeat_sent, &done, MPI_STATUS_IGNORE);
    if (to != rank_ && done != 0) {
      peer.heartbeat.rank = waits_for_;
      MPI_Isend(&peer.heartbeat,
                sizeof(SignMessage),
                MPI_BYTE,
                static_cast<int>(to),
                0,
                signs_,
                &peer.heartbeat_sent);
    }
  }
}

std::optional<SignMessage> Session::read_signs() {
  // A probe looks at some of what has arrived, and the program's messages stand before the signs.
  constexpr int kProbes = 10;
  std::optional<SignMessage> notice;
  for (int in_vain = 0; in_vain < kProbes; ++in_vain) {
    int arrived = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, signs_, &arrived, &status) != MPI_SUCCESS || arrived == 0) {
      continue;
    }
    SignMessage sign;
    if (MPI_Recv(&sign,
                 sizeof(SignMessage),
                 MPI_BYTE,
                 status.MPI_SOURCE,
                 0,
                 signs_,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      continue;
    }
    in_vain = 0;
    Peer& source = at(peers_, status.MPI_SOURCE);
    source.last_heard = Clock::now();
    if (sign.sign == Sign::alive) {
      source.waits_for = sign.rank;
    } else if (!notice) {
      notice = sign;
    }
  }
  return notice;
}

std::optional<std::int64_t> Session::lost_rank(const std::vector<bool>& gone,
                                               milliseconds silence) const {
  for (std::int64_t peer = 0; peer < ranks(); ++peer) {
    if (gone[static_cast<std::size_t>(peer)]) {
      return peer;
    }
  }
  for (std::int64_t peer = 0; peer < ranks(); ++peer) {
    if (peer != rank_ && Clock::now() - at(peers_, peer).last_heard > silence) {
      return peer;
    }
  }
  return std::nullopt;
}

std::string Session::how_lost(std::int64_t rank) const {
  const Peer& peer = at(peers_, rank);
  const std::string who =
      fmt::format("rank {} (process {} on {})", rank, peer.process.id, peer.process.host.data());
  const char state = peer.observable ? process_state(peer.process.id) : 'R';
  if (state == 0) {
    return fmt::format("{} is lost: its process has ended", who);
  }
  if (state == 'T') {
    return fmt::format("{} is lost: its process is stopped", who);
  }
  return fmt::format(
      "{} is lost: it has given no sign of life for {} ms",
      who,
      std::chrono::duration_cast<milliseconds>(Clock::now() - peer.last_heard).count());
}

/// Sends a last sign to all ranks, the lost one included: it may wake up again. Needs the lock.
void Session::tell(SignMessage notice) {
  std::vector<MPI_Request> requests;
  for (std::int64_t to = 0; to < ranks(); ++to) {
    if (to != rank_) {
      MPI_Isend(&notice,
                sizeof(SignMessage),
                MPI_BYTE,
                static_cast<int>(to),
                0,
                signs_,
                &requests.emplace_back(MPI_REQUEST_NULL));
    }
  }
  const Clock::time_point end = Clock::now() + kLinger;
  int done = 0;
  while (done == 0 && Clock::now() < end) {
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    std::this_thread::sleep_for(milliseconds(1));
  }
}

/// Ends the process because of another rank. Does not unlock: nothing is sent any more.
void Session::leave(SignMessage notice) {
  if (notice.sign == Sign::failed) {
    std::this_thread::sleep_for(kForLastWords);
    _exit(static_cast<int>(ExitCode::device));
  }
  const RankFailure failure(notice.rank, how_lost(notice.rank));
  mpi_.lock();
  tell(notice);
  // One speaks for all: the first that is there.
  const Clock::time_point now = Clock::now();
  std::int64_t speaker = 0;
  while (speaker != rank_ &&
         (speaker == notice.rank || now - at(peers_, speaker).last_heard > kRecently)) {
    ++speaker;
  }
  if (speaker == rank_ && notice.rank != rank_) {
    report_(failure);
  } else {
    // When it ends, mpirun ends the others: not before it has spoken.
    std::this_thread::sleep_for(kLinger);
  }
  _exit(static_cast<int>(ExitCode::device));
}

/// Drops the messages that have left. Needs the lock.
void Session::forget_sent() {
  outgoing_.remove_if([](Outgoing& message) {
    int done = 0;
    check(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
}

/// Calls `done` under the lock until it is true. Polls, since a call that waits could not be left:
/// eagerly where MPI moves data in these calls alone and is timed. A rank with a core of its own
/// does not yield at first: another process would have the core for milliseconds.
template <class Done>
void Session::wait_until(Done done, Patience patience) {
  constexpr std::int64_t kTriesWithCore = 2000;  // for some hundred microseconds
  constexpr std::int64_t kTriesWithout = 100;
  const std::int64_t first_tries = has_core_ ? kTriesWithCore : kTriesWithout;
  for (std::int64_t tries = 0;; ++tries) {
    {
      const std::lock_guard lock(mpi_);
      forget_sent();
      if (done()) {
        return;
      }
    }
    if (tries < first_tries && has_core_) {
      continue;
    }
    if (tries < first_tries || patience == Patience::eager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

int message_length(std::size_t elements) {
  ensure(elements <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
         "MPI: a message of 2^31 elements or more");
  return static_cast<int>(elements);
}

void Session::send(std::int64_t to, std::span<const double> message) {
  const std::lock_guard lock(mpi_);
  forget_sent();
  Outgoing& sent = outgoing_.emplace_back();
  sent.message.assign(message.begin(), message.end());
  check(MPI_Isend(sent.message.data(),
                  message_length(message.size()),
                  MPI_DOUBLE,
                  static_cast<int>(to),
                  0,
                  MPI_COMM_WORLD,
                  &sent.request),
        "MPI_Isend",
        to);
}

void Session::receive(std::int64_t from, std::span<double> message) {
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::lock_guard lock(mpi_);
    check(MPI_Irecv(message.data(),
                    message_length(message.size()),
                    MPI_DOUBLE,
                    static_cast<int>(from),
                    0,
                    MPI_COMM_WORLD,
                    &request),
          "MPI_Irecv",
          from);
  }
  const Clock::time_point end = Clock::now() + limits_.receive;
  MPI_Status status;
  wait_until([&] {
    int done = 0;
    check(MPI_Test(&request, &done, &status), "MPI_Irecv", from);
    if (done == 0 && Clock::now() > end) {
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);  // of the own buffer: does not wait for the other rank
      throw silence(from);
    }
    waits_for_ = done == 0 ? from : kNoRank;
    return done != 0;
  });
  int received = 0;
  check(MPI_Get_count(&status, MPI_DOUBLE, &received), "MPI_Get_count");
  if (received != static_cast<int>(message.size())) {
    throw std::logic_error(fmt::format("rank {} sent {} elements where rank {} expected {}",
                                       from,
                                       received,
                                       rank_,
                                       message.size()));
  }
}

void Session::complete(const char* call,
                       const std::function<int(MPI_Request* request)>& begin,
                       Patience patience) {
  MPI_Request request = MPI_REQUEST_NULL;
  const Clock::time_point end = Clock::now() + limits_.receive;
  {
    const std::lock_guard lock(mpi_);
    check(begin(&request), call);
  }
  wait_until(
      [&] {
        int done = 0;
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
        if (done == 0 && Clock::now() > end) {
          // All ranks wait in it, but for the one that is at fault: which, no rank can tell by
          // itself.
          throw RankFailure(
              kNoRank,
              fmt::format("rank {} on {} has waited {} ms in {}: a rank does not take "
                          "part",
                          rank_,
                          at(peers_, rank_).process.host.data(),
                          limits_.receive.count(),
                          call));
        }
        return done != 0;
      },
      patience);
}

void Session::run_blocking(const char* call, const std::function<int()>& body) {
  const std::lock_guard lock(mpi_);  // the watch stands still: a clock takes its place
  const std::jthread clock([this, call](const std::stop_token& stop) {
    if (sleep(stop, limits_.receive)) {
      report_(RankFailure(rank_,
                          fmt::format("rank {} has waited {} ms for all ranks in {}",
                                      rank_,
                                      limits_.receive.count(),
                                      call)));
      _exit(static_cast<int>(ExitCode::device));
    }
  });
  check(body(), call);
}

/// Who is silent when this rank has waited for `from` in vain: the one at the end of the chain of
/// ranks that wait for each other, as far as they have said. Needs the lock.
RankFailure Session::silence(std::int64_t from) const {
  std::int64_t silent = from;
  for (std::int64_t hop = 0; hop < ranks() && at(peers_, silent).waits_for != kNoRank; ++hop) {
    silent = at(peers_, silent).waits_for;
  }
  if (silent == rank_ || at(peers_, silent).waits_for != kNoRank) {
    return RankFailure(from,
                       fmt::format("rank {} waits for rank {}, which waits as well: ranks wait for "
                                   "each other, for {} ms by now",
                                   rank_,
                                   from,
                                   limits_.receive.count()));
  }
  return RankFailure(silent,
                     fmt::format("rank {} is silent: rank {} has waited {} ms for rank {}",
                                 silent,
                                 rank_,
                                 limits_.receive.count(),
                                 from));
}

void Session::finish() {
  wait_until([this] { return outgoing_.empty(); });
  MPI_Request barrier = MPI_REQUEST_NULL;
  {
    const std::lock_guard lock(mpi_);
    check(MPI_Ibarrier(MPI_COMM_WORLD, &barrier), "MPI_Ibarrier");
  }
  wait_until([&] {
    int done = 0;
    check(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Ibarrier");
    return done != 0;
  });
  watch_clock("end", limits_.silence);
  MPI_Finalize();
}

}  // namespace

ExitCode run_mpi_rank(const MpiLimits& limits,
                      const std::function<void(const RankFailure&)>& report,
                      const std::function<ExitCode(Transport& transport)>& body) {
  return run_mpi_calls(limits, report, body);
}

ExitCode run_mpi_calls(const MpiLimits& limits,
                       const std::function<void(const RankFailure&)>& report,
                       const std::function<ExitCode(MpiCalls& mpi)>& body) {
  Session session(limits, report);
  try {
    const ExitCode code = body(session);
    session.finish();
    return code;
  } catch (const std::exception&) {
    session.tell_failure();
    throw;
  }
}

}  // namespace trireme::engine
