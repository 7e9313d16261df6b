#include "calibrate/harness/tcp_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <unistd.h>
#include <utility>

#include <boost/asio.hpp>
#include <fmt/format.h>

#include "sim/core/error.h"
#include "sim/core/printable.h"
#include "sim/engine/execute/transport.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using engine::RankFailure;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A frame is a kind, a length and so many bytes.
enum class FrameKind : char { hello = 'H', message = 'M', failure = 'F' };

constexpr std::size_t kHeaderBytes = 5;
/// An id of a communicator is 128 bytes; the answer to all ranks holds one message of each.
constexpr std::uint32_t kLargestFrame = 1U << 24;
/// Rank 0 finds out first who is missing, and says so, before the others give rank 0 up.
constexpr milliseconds kForVerdict(3000);
constexpr milliseconds kBetweenTries(50);
/// In the place of the failed rank where rank 0 has said which it is, and says it to the user.
constexpr std::int64_t kTold = -1;

void append_length(std::string& bytes, std::size_t length) {
  for (int shift = 0; shift < 32; shift += 8) {
    bytes += static_cast<char>((length >> shift) & 0xffU);
  }
}

std::uint32_t read_length(const char* bytes) {
  std::uint32_t length = 0;
  for (unsigned i = 0; i < 4; ++i) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

std::string frame(FrameKind kind, const std::string& text) {
  ensure(text.size() <= kLargestFrame, "tcp link: a message that is too long");
  std::string bytes(1, static_cast<char>(kind));
  append_length(bytes, text.size());
  return bytes + text;
}

std::string pack(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    append_length(bytes, text.size());
    bytes += text;
  }
  return bytes;
}

/// Nothing when the bytes are not so many texts.
std::optional<std::vector<std::string>> unpack(std::string_view bytes, std::size_t count) {
  std::vector<std::string> texts;
  while (texts.size() < count) {
    if (bytes.size() < 4) {
      return std::nullopt;
    }
    const std::uint32_t length = read_length(bytes.data());
    bytes.remove_prefix(4);
    if (bytes.size() < length) {
      return std::nullopt;
    }
    texts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return bytes.empty() ? std::optional(texts) : std::nullopt;
}

struct Frame {
  FrameKind kind = FrameKind::message;
  std::string text;
};

/// One connection: reads frames all the time, so that the end of the other side is seen at once.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(tcp::socket socket) : socket_(std::move(socket)) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
  }

  void read() {
    auto self = shared_from_this();
    asio::async_read(
        socket_, asio::buffer(header_), [this, self](const error_code& error, std::size_t) {
          if (error) {
            const bool ended = error == asio::error::eof || error == asio::error::connection_reset;
            return lose(ended ? "its connection has ended" : error.message());
          }
          const std::uint32_t length = read_length(header_.data() + 1);
          const auto kind = static_cast<FrameKind>(header_[0]);
          const bool known =
              kind == FrameKind::hello || kind == FrameKind::message || kind == FrameKind::failure;
          if (length > kLargestFrame || !known) {
            return lose("it does not speak trireme-calibrate's language");
          }
          body_.resize(length);
          read_body(kind);
        });
  }

  /// Leaves the bytes to the system, in the order of the calls; what goes wrong shows when reading.
  void write(std::string bytes) {
    outgoing_.push_back(std::move(bytes));
    if (outgoing_.size() == 1) {
      write_next();
    }
  }

  void close() {
    error_code ignored;
    socket_.close(ignored);
  }

  [[nodiscard]] bool all_written() const { return outgoing_.empty(); }

  std::deque<Frame> frames;
  std::string lost;  // why nothing more can come; empty while it can

 private:
  void read_body(FrameKind kind) {
    auto self = shared_from_this();
    asio::async_read(
        socket_, asio::buffer(body_), [this, self, kind](const error_code& error, std::size_t) {
          if (error) {
            return lose("its connection has ended in the middle of a message");
          }
          frames.push_back({kind, std::exchange(body_, {})});
          read();
        });
  }

  void write_next() {
    auto self = shared_from_this();
    asio::async_write(socket_,
                      asio::buffer(outgoing_.front()),
                      [this, self](const error_code& error, std::size_t) {
                        outgoing_.pop_front();
                        if (!error && !outgoing_.empty()) {
                          write_next();
                        }
                      });
  }

  void lose(std::string reason) { lost = std::move(reason); }

  tcp::socket socket_;
  std::array<char, kHeaderBytes> header_{};
  std::string body_;
  std::deque<std::string> outgoing_;
};

using ConnectionPtr = std::shared_ptr<Connection>;

std::string own_host() {
  error_code error;
  const std::string name = asio::ip::host_name(error);
  return error ? "unknown" : name;
}

/// A rank on the other side.
struct Peer {
  ConnectionPtr connection;
  std::string host = "unknown";
  std::string process = "?";
};

class TcpLink final : public RankLink {
 public:
  TcpLink(std::int64_t rank,
          std::int64_t ranks,
          const Rendezvous& rendezvous,
          const std::string& token,
          const LinkLimits& limits)
      : rank_(rank), ranks_(ranks), rendezvous_(rendezvous), token_(token), limits_(limits) {
    if (rank_ == 0) {
      peers_.resize(static_cast<std::size_t>(ranks_));
      accept_all();
    } else {
      peers_.resize(1);  // rank 0
      connect();
    }
  }

  ~TcpLink() override {
    flush();
    for (Peer& peer : peers_) {
      if (peer.connection) {
        peer.connection->close();
      }
    }
    context_.restart();
    context_.poll();  // handlers end and let their connections go
  }

  [[nodiscard]] std::int64_t rank() const override { return rank_; }

  [[nodiscard]] std::int64_t ranks() const override { return ranks_; }

  [[nodiscard]] std::vector<std::string> exchange(const std::string& message) override {
    return rank_ == 0 ? gather(message) : ask(message);
  }

  void poll() override {
    context_.restart();
    context_.poll();
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      check_peer(i);
    }
  }

  void fail(const std::string& reason) noexcept override {
    try {
      const std::string words =
          fmt::format("rank {} on {} has failed: {}", rank_, own_host(), reason);
      tell_all(words, rank_);
    } catch (const std::exception&) {  // the connection's end says so as well
    }
  }

 private:
  /// Runs handlers until `done`, or the time is up: false then.
  template <class Done>
  bool run_until(Clock::time_point end, Done done) {
    while (!done()) {
      if (Clock::now() >= end) {
        return false;
      }
      context_.restart();
      context_.run_one_until(end);
    }
    return true;
  }

  [[nodiscard]] std::string who(std::size_t peer) const {
    const Peer& other = peers_[peer];
    return fmt::format("rank {} (process {} on {})",
                       rank_ == 0 ? peer : 0,
                       printable(other.process),
                       printable(other.host));
  }

  /// Throws when a peer has gone or has said that a rank failed.
  void check_peer(std::size_t peer) {
    const ConnectionPtr& connection = peers_[peer].connection;
    if (!connection) {
      return;
    }
    if (!connection->frames.empty() && connection->frames.front().kind == FrameKind::failure) {
      const std::string words = connection->frames.front().text;
      give_up(rank_ == 0 ? static_cast<std::int64_t>(peer) : kTold, printable(words));
    }
    if (connection->frames.empty() && !connection->lost.empty()) {
      give_up(static_cast<std::int64_t>(rank_ == 0 ? peer : 0),
              fmt::format("{} is lost: {}", who(peer), connection->lost));
    }
  }

  [[noreturn]] void give_up(std::int64_t failed, const std::string& words) {
    if (rank_ == 0) {
      tell_all(words, failed);
    }
    throw RankFailure(failed, words);
  }

  void tell_all(const std::string& words, std::int64_t except) {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i].connection && static_cast<std::int64_t>(i) != (rank_ == 0 ? except : -1)) {
        peers_[i].connection->write(frame(FrameKind::failure, words));
      }
    }
    flush();
  }

  /// Gives what is to be written a moment to leave.
  void flush() {
    constexpr milliseconds kLinger(500);
    run_until(Clock::now() + kLinger, [&] {
      return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
        return !peer.connection || peer.connection->all_written() || !peer.connection->lost.empty();
      });
    });
  }

  std::vector<std::string> gather(const std::string& message) {
    std::vector<std::string> all(static_cast<std::size_t>(ranks_));
    all[0] = message;
    const Clock::time_point end = Clock::now() + limits_.reply;
    for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
      Connection& connection = *peers_[peer].connection;
      const bool answered = run_until(end, [&] {
        for (std::size_t other = 1; other < peers_.size(); ++other) {
          check_peer(other);
        }
        return !connection.frames.empty();
      });
      if (!answered) {
        give_up(
            static_cast<std::int64_t>(peer),
            fmt::format(
                "{} is silent: rank 0 has waited {} ms for it", who(peer), limits_.reply.count()));
      }
      all[peer] = std::move(connection.frames.front().text);
      connection.frames.pop_front();
    }
    const std::string answer = frame(FrameKind::message, pack(all));
    for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
      peers_[peer].connection->write(answer);
    }
    context_.restart();
    context_.poll();
    return all;
  }

  std::vector<std::string> ask(const std::string& message) {
    Connection& connection = *peers_[0].connection;
    connection.write(frame(FrameKind::message, message));
    const bool answered = run_until(Clock::now() + limits_.reply + kForVerdict, [&] {
      check_peer(0);
      return !connection.frames.empty();
    });
    if (!answered) {
      throw RankFailure(0,
                        fmt::format("{} is silent: rank {} has waited {} ms for it",
                                    who(0),
                                    rank_,
                                    (limits_.reply + kForVerdict).count()));
    }
    auto all = unpack(connection.frames.front().text, static_cast<std::size_t>(ranks_));
    connection.frames.pop_front();
    if (!all) {
      throw RankFailure(0, fmt::format("{} has sent a damaged message", who(0)));
    }
    return std::move(*all);
  }

  /// What a rank says of itself: the token of the run, its place, its host and process.
  [[nodiscard]] std::string hello() const {
    return pack({token_,
                 std::to_string(ranks_),
                 std::to_string(rank_),
                 own_host(),
                 std::to_string(::getpid())});
  }

  /// The rank that says hello; nothing for a stray process or a rank that is there already.
  std::optional<std::size_t> introduced(const Frame& said, Peer& peer) const {
    constexpr std::size_t kParts = 5;
    const auto parts = unpack(said.text, kParts);
    if (said.kind != FrameKind::hello || !parts || (*parts)[0] != token_ ||
        (*parts)[1] != std::to_string(ranks_)) {
      return std::nullopt;
    }
    peer.host = (*parts)[3];
    peer.process = (*parts)[4];
    for (std::size_t other = 1; other < peers_.size(); ++other) {
      if ((*parts)[2] == std::to_string(other) && !peers_[other].connection) {
        return other;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::string missing() const {
    std::string names;
    for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
      if (!peers_[peer].connection) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", peer);
      }
    }
    return names;
  }

  void accept_all() {
    tcp::acceptor acceptor(context_);
    listen(acceptor);
    std::vector<ConnectionPtr> strangers;
    accept(acceptor, strangers);
    const bool all_there = run_until(Clock::now() + limits_.connect, [&] {
      welcome(strangers);
      return missing().empty();
    });
    error_code ignored;
    acceptor.close(ignored);
    for (const ConnectionPtr& stranger : strangers) {
      stranger->close();
    }
    context_.restart();
    context_.poll();
    if (!all_there) {
      const std::string names = missing();
      give_up(std::stoll(names),
              fmt::format("rank {} has not connected to rank 0 on {} within {} ms",
                          names,
                          own_host(),
                          limits_.connect.count()));
    }
    for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
      peers_[peer].connection->write(frame(FrameKind::hello, hello()));
    }
  }

  void listen(tcp::acceptor& acceptor) const {
    try {
      const tcp::endpoint any(tcp::v6(), rendezvous_.port);
      error_code no_v6;
      acceptor.open(any.protocol(), no_v6);
      if (no_v6) {
        acceptor.open(tcp::v4());
      } else {
        acceptor.set_option(asio::ip::v6_only(false));
      }
      acceptor.set_option(tcp::acceptor::reuse_address(true));
      acceptor.bind(no_v6 ? tcp::endpoint(tcp::v4(), rendezvous_.port) : any);
      acceptor.listen();
    } catch (const boost::system::system_error& failed) {
      throw Error(ErrorKind::device,
                  SourceLocation{.file = fmt::format("port {}", rendezvous_.port)},
                  fmt::format("rank 0 cannot listen: {}", failed.code().message()),
                  "give a free port to all ranks: --rendezvous HOST:PORT");
    }
  }

  void accept(tcp::acceptor& acceptor, std::vector<ConnectionPtr>& strangers) {
    acceptor.async_accept(
        [this, &acceptor, &strangers](const error_code& error, tcp::socket socket) {
          if (error == asio::error::operation_aborted) {
            return;
          }
          if (!error) {
            strangers.push_back(std::make_shared<Connection>(std::move(socket)));
            strangers.back()->read();
          }
          accept(acceptor, strangers);
        });
  }

  /// Gives connections that have said who they are their places.
  void welcome(std::vector<ConnectionPtr>& strangers) {
    for (auto stranger = strangers.begin(); stranger != strangers.end();) {
      Connection& connection = **stranger;
      if (connection.frames.empty()) {
        stranger = connection.lost.empty() ? stranger + 1 : strangers.erase(stranger);
        continue;
      }
      Peer peer{.connection = *stranger};
      const auto place = introduced(connection.frames.front(), peer);
      connection.frames.pop_front();
      if (place) {
        peers_[*place] = peer;
      } else {
        connection.close();
      }
      stranger = strangers.erase(stranger);
    }
  }

  void connect() {
    const Clock::time_point end = Clock::now() + limits_.connect;
    peers_[0].host = rendezvous_.host;
    std::string reason = "nobody listens";
    while (Clock::now() < end) {
      if (try_to_connect(reason) && wait_for_hello(end)) {
        return;
      }
      ::usleep(static_cast<useconds_t>(std::chrono::microseconds(kBetweenTries).count()));
    }
    throw RankFailure(0,
                      fmt::format("rank {} has not reached rank 0 at {}:{} within {} ms: {}",
                                  rank_,
                                  rendezvous_.host,
                                  rendezvous_.port,
                                  limits_.connect.count(),
                                  reason));
  }

  bool try_to_connect(std::string& reason) {
    tcp::socket socket(context_);
    error_code error;
    tcp::resolver resolver(context_);
    const auto places = resolver.resolve(rendezvous_.host, std::to_string(rendezvous_.port), error);
    if (!error) {
      asio::connect(socket, places, error);
    }
    if (error) {
      reason = error.message();
      return false;
    }
    peers_[0].connection = std::make_shared<Connection>(std::move(socket));
    peers_[0].connection->read();
    peers_[0].connection->write(frame(FrameKind::hello, hello()));
    return true;
  }

  /// Rank 0 says hello when all are there. False when it hung up: it may be another run's.
  bool wait_for_hello(Clock::time_point end) {
    Connection& connection = *peers_[0].connection;
    run_until(end + kForVerdict,
              [&] { return !connection.frames.empty() || !connection.lost.empty(); });
    if (connection.frames.empty()) {
      return false;
    }
    check_peer(0);
    const auto parts = unpack(connection.frames.front().text, 5);
    connection.frames.pop_front();
    if (parts) {
      peers_[0].host = (*parts)[3];
      peers_[0].process = (*parts)[4];
    }
    return parts.has_value();
  }

  std::int64_t rank_;
  std::int64_t ranks_;
  Rendezvous rendezvous_;
  std::string token_;
  LinkLimits limits_;
  asio::io_context context_;
  std::vector<Peer> peers_;  // by rank on rank 0, where the first is empty; else rank 0 alone
};

}  // namespace

std::unique_ptr<RankLink> connect_by_tcp(std::int64_t rank,
                                         std::int64_t ranks,
                                         const Rendezvous& rendezvous,
                                         const std::string& token,
                                         const LinkLimits& limits) {
  ensure(ranks >= 1 && rank >= 0 && rank < ranks, "tcp link: a rank that is none");
  return std::make_unique<TcpLink>(rank, ranks, rendezvous, token, limits);
}

}  // namespace trireme::calibrate
