#include "calibrate/import/nccl_table.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "calibrate/import/nccl_collective.h"
#include "sim/core/printable.h"
#include "sim/units/text.h"

namespace trireme::calibrate {

namespace {

constexpr std::int64_t kMostRanks = 1'000'000;

std::optional<std::int64_t> number_at(const std::vector<LogToken>& tokens, std::size_t i) {
  if (i >= tokens.size()) {
    return std::nullopt;
  }
  const std::string_view text = tokens[i].text;
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0 ||
      value >= kMostRanks) {
    return std::nullopt;
  }
  return value;
}

std::size_t find_word(const std::vector<LogToken>& tokens, std::string_view word) {
  return static_cast<std::size_t>(
      std::find_if(
          tokens.begin(), tokens.end(), [&](const LogToken& token) { return token.text == word; }) -
      tokens.begin());
}

/// Ranks in all and on a node.
struct Ranks {
  std::int64_t all = 0;
  std::int64_t per_node = 0;
};

/// Why a table as a whole is refused.
struct TableFault final : std::exception {
  explicit TableFault(std::string reason_text, std::string hint_text = {})
      : reason(std::move(reason_text)), hint(std::move(hint_text)) {}

  std::string reason;
  std::string hint;
};

class Judge {
 public:
  Judge(const NcclTable& table,
        const std::string& file,
        const std::string& key,
        const Statements& statements,
        ImportedLog& log)
      : table_(table), file_(file), key_(key), statements_(statements), log_(log) {}

  void judge() {
    for (const NcclRow& row : table_.rows) {
      if (row.size == 0) {
        ++log_.empty_rows;
      } else if (std::string fault = fault_of(row); !fault.empty()) {
        refuse_row(row, std::move(fault));
      } else {
        sound_.push_back(row);
      }
    }
    if (sound_.empty()) {
      return;
    }
    try {
      check_list();
      check_statements();
      const NcclCollective& collective = find_collective();
      const Ranks ranks = find_ranks(collective);
      for (const NcclRow& row : sound_) {
        take(row, collective, ranks);
      }
    } catch (const TableFault& fault) {
      log_.refuse({place_of_table(), fault.reason, fault.hint},
                  static_cast<std::int64_t>(sound_.size()));
    }
  }

 private:
  void refuse_row(const NcclRow& row, std::string reason) {
    if (!row.name.empty()) {
      reason = fmt::format("{}: {}", row.name, reason);
    }
    log_.refuse({place_of(row), std::move(reason), {}}, 1);
  }

  [[nodiscard]] SourceLocation place_of(const NcclRow& row) const {
    return {.file = file_,
            .line = row.line,
            .column = row.column,
            .source_line = std::string(row.source_line)};
  }

  /// The row that stands for the table.
  [[nodiscard]] SourceLocation place_of_table() const { return place_of(sound_.front()); }

  /// What the list of devices says about itself.
  void check_list() const {
    std::set<std::int64_t> seen;
    for (const RankLine& line : table_.ranks) {
      if (!seen.insert(line.rank).second) {
        throw TableFault{
            fmt::format("rank {} is listed twice: these are several programs, not one", line.rank),
            "was nccl-tests built without MPI and started by mpirun?"};
      }
      if (line.group != table_.ranks.front().group) {
        throw TableFault{"several communicators ran at once"};
      }
      if (line.device_name != table_.ranks.front().device_name) {
        throw TableFault{fmt::format("the ranks run on different devices: {} and {}",
                                     in_quotes(table_.ranks.front().device_name),
                                     in_quotes(line.device_name))};
      }
    }
    if (table_.columns && table_.columns->cpu_time) {
      throw TableFault{"the times are those of the processor that launches, not of the collective",
                       "run nccl-tests without -C"};
    }
  }

  static void check_statement(std::string_view option,
                              const std::string& stated,
                              const std::string& logged) {
    if (!stated.empty() && !logged.empty() && stated != logged) {
      throw TableFault{
          fmt::format(
              "--{} says {}, the log says {}", option, in_quotes(stated), in_quotes(logged)),
          fmt::format("leave --{} out", option)};
    }
  }

  void check_statements() const {
    check_statement("device", statements_.device, device());
    check_statement("nccl", statements_.nccl, table_.nccl);
    check_statement("date", statements_.date, table_.date);
  }

  [[nodiscard]] std::string device() const {
    return table_.ranks.empty() ? std::string() : table_.ranks.front().device_name;
  }

  /// Ranks that the list of devices counts; nullopt when there is none or its end is not known.
  [[nodiscard]] std::optional<std::int64_t> listed_ranks() const {
    if (table_.ranks.empty() || table_.ranks_end_unknown) {
      return std::nullopt;
    }
    return 1 +
           std::max_element(table_.ranks.begin(),
                            table_.ranks.end(),
                            [](const RankLine& a, const RankLine& b) { return a.rank < b.rank; })
               ->rank;
  }

  /// Whether the list names every rank from 0 to the last.
  [[nodiscard]] bool list_is_whole() const {
    return listed_ranks() == static_cast<std::int64_t>(table_.ranks.size()) &&
           !table_.ranks_left_out;
  }

  /// The ranks that list or statement give, 0 for none.
  [[nodiscard]] std::int64_t stated_ranks() const {
    const std::int64_t listed = listed_ranks().value_or(0);
    if (listed != 0 && statements_.ranks != 0 && listed != statements_.ranks) {
      throw TableFault{fmt::format("--ranks says {}, the log lists {}", statements_.ranks, listed),
                       "leave --ranks out"};
    }
    return std::max(listed, statements_.ranks);
  }

  [[nodiscard]] std::string stated_collective() const {
    if (statements_.collective.empty()) {
      return table_.collective;
    }
    for (const NcclCollective& collective : nccl_collectives()) {
      if (collective.kind && name(*collective.kind) == statements_.collective) {
        check_statement("collective", std::string(collective.name), table_.collective);
        return std::string(collective.name);
      }
    }
    return table_.collective;
  }

  [[nodiscard]] bool fits(const NcclCollective& collective, std::int64_t ranks) const {
    return std::all_of(sound_.begin(),
                       sound_.end(),
                       [&](const NcclRow& row) {
                         return has_shape_of(collective, row, table_.columns) &&
                                (ranks == 0 || (count_agrees(collective, row, ranks) &&
                                                bandwidths_agree(collective, row, ranks)));
                       }) &&
           (ranks != 0 || !ranks_by_columns(collective, sound_).empty());
  }

  [[nodiscard]] const NcclCollective& find_collective() {
    const NcclCollective* found = nullptr;
    if (const std::string stated = stated_collective(); !stated.empty()) {
      found = find_nccl_collective(stated);
    } else {
      found = &collective_by_columns();
    }
    if (found == nullptr || !found->kind) {
      throw TableFault{fmt::format("{} is not a collective that a plan uses",
                                   found == nullptr ? table_.collective : found->name)};
    }
    return *found;
  }

  [[nodiscard]] const NcclCollective& collective_by_columns() {
    const std::int64_t ranks = stated_ranks();
    std::vector<const NcclCollective*> candidates;
    std::string names;
    for (const NcclCollective& collective : nccl_collectives()) {
      if (fits(collective, ranks)) {
        candidates.push_back(&collective);
        names += fmt::format("{}{}", names.empty() ? "" : ", ", collective.name);
      }
    }
    if (candidates.size() == 1) {
      log_.note(fmt::format("the log does not name its collective: by its columns it is {}",
                            candidates.front()->name));
      return *candidates.front();
    }
    if (candidates.empty()) {
      throw TableFault{
          ranks == 0
              ? "the columns are those of no collective"
              : fmt::format(
                    "the columns are those of no collective of {} ranks{}", ranks, other_ranks()),
          "name it with --collective to see which rows disagree"};
    }
    throw TableFault{fmt::format("the log does not name its collective, which can be {}", names),
                     "name it with --collective"};
  }

  /// ", but of all_reduce of 128" when the columns speak of another number of ranks.
  [[nodiscard]] std::string other_ranks() const {
    std::string found;
    for (const NcclCollective& collective : nccl_collectives()) {
      const RankRange range = ranks_by_columns(collective, sound_);
      if (range.is_one() && fits(collective, range.least)) {
        found += fmt::format(
            "{} of {} of {}", found.empty() ? ", but" : " or", collective.name, range.least);
      }
    }
    return found;
  }

  [[nodiscard]] Ranks find_ranks(const NcclCollective& collective) {
    Ranks ranks;
    ranks.all = stated_ranks();
    if (ranks.all == 0) {
      const RankRange range = ranks_by_columns(collective, sound_);
      if (!range.is_one()) {
        throw TableFault{"the log does not say how many ranks there were",
                         "state them with --ranks"};
      }
      ranks.all = range.least;
      log_.note(
          fmt::format("the log does not list its ranks: its columns are those of {}", ranks.all));
    }
    if (ranks.all == 1) {
      throw TableFault{"one rank sends to itself: that measures no link"};
    }
    if (table_.devices_per_process != 0 && ranks.all % table_.devices_per_process != 0) {
      throw TableFault{fmt::format(
          "{} ranks are not processes of {} devices each", ranks.all, table_.devices_per_process)};
    }
    ranks.per_node = find_ranks_per_node(ranks.all);
    if (ranks.all % ranks.per_node != 0) {
      throw TableFault{fmt::format("{} ranks do not fill nodes of {}", ranks.all, ranks.per_node)};
    }
    return ranks;
  }

  [[nodiscard]] std::int64_t find_ranks_per_node(std::int64_t ranks) {
    std::optional<std::int64_t> found = ranks_per_node_by_hosts();
    if (!found) {
      found = ranks_per_node_by_devices(ranks);
    }
    if (!found && table_.devices_per_process == ranks) {
      log_.note("one process drives all devices, so they are in one node");
      found = ranks;
    }
    if (found && statements_.ranks_per_node != 0 && *found != statements_.ranks_per_node) {
      throw TableFault{
          fmt::format(
              "--ranks-per-node says {}, the log says {}", statements_.ranks_per_node, *found),
          "leave --ranks-per-node out"};
    }
    if (!found && statements_.ranks_per_node == 0) {
      throw TableFault{"the log does not say how many ranks a node has",
                       "state them with --ranks-per-node"};
    }
    if (!found && !hosts_agree(statements_.ranks_per_node)) {
      throw TableFault{fmt::format("the hosts of the listed ranks are not nodes of {} ranks each",
                                   statements_.ranks_per_node),
                       "correct --ranks-per-node"};
    }
    return found.value_or(statements_.ranks_per_node);
  }

  /// By the hosts of a list that names all ranks. Throws TableFault when nodes differ or ranks do
  /// not fill them in order.
  [[nodiscard]] std::optional<std::int64_t> ranks_per_node_by_hosts() const {
    const bool named = std::all_of(table_.ranks.begin(),
                                   table_.ranks.end(),
                                   [](const RankLine& line) { return !line.host.empty(); });
    if (!list_is_whole() || !named) {
      return std::nullopt;
    }
    std::map<std::int64_t, std::string> host_of;
    std::map<std::string, std::int64_t> ranks_of;
    for (const RankLine& line : table_.ranks) {
      host_of[line.rank] = line.host;
      ++ranks_of[line.host];
    }
    const std::int64_t per_node = ranks_of.begin()->second;
    for (const auto& [host, count] : ranks_of) {
      if (count != per_node) {
        throw TableFault{fmt::format("nodes have {} and {} ranks", per_node, count)};
      }
    }
    for (const auto& [rank, host] : host_of) {
      if (host != host_of.at(rank - rank % per_node)) {
        throw TableFault{"the ranks do not fill one node after the other"};
      }
    }
    return per_node;
  }

  /// Whether every listed host is one node of `per_node` ranks. What is listed may have gaps.
  [[nodiscard]] bool hosts_agree(std::int64_t per_node) const {
    std::map<std::int64_t, std::string> host_of_node;
    std::map<std::string, std::int64_t> node_of_host;
    return std::all_of(table_.ranks.begin(), table_.ranks.end(), [&](const RankLine& line) {
      const std::int64_t node = line.rank / per_node;
      return line.host.empty() ||
             (host_of_node.emplace(node, line.host).first->second == line.host &&
              node_of_host.emplace(line.host, node).first->second == node);
    });
  }

  /// The only number of ranks per node with which every listed rank has the device of its place in
  /// the node, and the last rank ends one. Not 1: ranks that see one GPU each number it 0.
  [[nodiscard]] std::optional<std::int64_t> ranks_per_node_by_devices(std::int64_t ranks) {
    if (table_.ranks.empty() || listed_ranks() != ranks) {
      return std::nullopt;
    }
    std::optional<std::int64_t> found;
    for (std::int64_t per_node = 2; per_node <= ranks; ++per_node) {
      const bool matches =
          ranks % per_node == 0 &&
          std::all_of(table_.ranks.begin(),
                      table_.ranks.end(),
                      [&](const RankLine& line) { return line.rank % per_node == line.device; }) &&
          hosts_agree(per_node);
      if (matches && found) {
        return std::nullopt;
      }
      if (matches) {
        found = per_node;
      }
    }
    if (found) {
      log_.note(fmt::format("by the device numbers of the listed ranks a node has {}", *found));
    }
    return found;
  }

  [[nodiscard]] Environment environment_of(const Ranks& ranks) const {
    Environment environment;
    environment.date = table_.date.empty() ? statements_.date : table_.date;
    environment.source = statements_.source.empty()
                             ? std::filesystem::path(file_).filename().string()
                             : statements_.source;
    environment.hosts = ranks.all / ranks.per_node;
    environment.device = device().empty() ? statements_.device : device();
    environment.devices_per_host = ranks.per_node;
    environment.cuda = table_.cuda;
    environment.nccl = table_.nccl.empty() ? statements_.nccl : table_.nccl;
    return environment;
  }

  /// The key of an environment of this file that is the same, or of a new one.
  [[nodiscard]] std::string environment_key(const Ranks& ranks) {
    Environment environment = environment_of(ranks);
    const auto same = [&](const Environment& other) {
      return other.date == environment.date && other.hosts == environment.hosts &&
             other.device == environment.device &&
             other.devices_per_host == environment.devices_per_host &&
             other.cuda == environment.cuda && other.nccl == environment.nccl;
    };
    const auto found = std::find_if(log_.environments.begin(), log_.environments.end(), same);
    if (found != log_.environments.end()) {
      return found->key;
    }
    const std::size_t number = log_.environments.size() + 1;
    environment.key = number == 1 ? key_ : fmt::format("{}-{}", key_, number);
    log_.environments.push_back(environment);
    return environment.key;
  }

  /// What contradicts the ranks in a row.
  [[nodiscard]] static std::string contradiction(const NcclRow& row,
                                                 const std::optional<TableColumns>& columns,
                                                 const NcclCollective& collective,
                                                 std::int64_t ranks) {
    if (!has_shape_of(collective, row, columns)) {
      return fmt::format("reduction, root or checks are not those of {}", collective.name);
    }
    if (!count_agrees(collective, row, ranks)) {
      return fmt::format("{} elements of {} bytes{} are not {} bytes",
                         row.count,
                         width(row.type),
                         collective.split ? fmt::format(" from each of {} ranks", ranks) : "",
                         row.size);
    }
    if (!bandwidths_agree(collective, row, ranks)) {
      const RankRange range = ranks_by_columns(collective, {row});
      return fmt::format("{}: algorithm and bus bandwidth are not those of {} ranks{}",
                         collective.name,
                         ranks,
                         range.is_one() ? fmt::format(" but of {}", range.least) : "");
    }
    if (collective.in_place && row.in_place && row.in_place->check == DataCheck::wrong) {
      return "the in-place result was wrong";
    }
    return {};
  }

  void take(const NcclRow& row, const NcclCollective& collective, const Ranks& ranks) {
    if (std::string reason = contradiction(row, table_.columns, collective, ranks.all);
        !reason.empty()) {
      refuse_row(row, std::move(reason));
      return;
    }
    const std::string environment = environment_key(ranks);
    std::string method = table_.rccl || device().starts_with("AMD ") ? "rccl" : "nccl";
    if (collective.reduces && collective.kind != CollectiveKind::send_recv &&
        !row.reduction.empty() && row.reduction != "sum") {
      method += ' ' + row.reduction;
    }
    const auto add = [&](const NcclTiming& timing, const std::string& by) {
      const Seconds time(with_moved_point(timing.time_us.value, -6));
      log_.measurements.push_back({CollectivePoint{.collective = *collective.kind,
                                                   .method = by,
                                                   .ranks = ranks.all,
                                                   .ranks_per_node = ranks.per_node,
                                                   .type = row.type,
                                                   .payload = Bytes(row.size)},
                                   Timing{.median = time,
                                          .lower_quartile = time,
                                          .upper_quartile = time,
                                          .samples = 0,
                                          .settled = true},
                                   environment});
      if (timing.check == DataCheck::not_done) {
        log_.note("some results were not compared with the expected ones");
      }
    };
    if (row.out_of_place) {
      add(*row.out_of_place, method);
    }
    if (row.in_place && collective.in_place) {
      add(*row.in_place, method + " in place");
    } else if (row.in_place) {
      log_.note(fmt::format("{}: in-place columns are left out, as NCCL has no such operation",
                            collective.name));
    }
  }

  const NcclTable& table_;
  const std::string& file_;
  const std::string& key_;
  const Statements& statements_;
  ImportedLog& log_;
  std::vector<NcclRow> sound_;  // of some bytes, and without a fault of their own
};

}  // namespace

std::optional<RankLine> parse_rank_line(const std::vector<LogToken>& tokens) {
  std::size_t at = find_word(tokens, "Rank");
  const auto is = [&](std::string_view word) {
    return at < tokens.size() && tokens[at].text == word;
  };
  // A word and its number, which stand next to each other unless other output came between them.
  const auto number_behind = [&](std::string_view word) -> std::optional<std::int64_t> {
    if (!is(word)) {
      return std::nullopt;
    }
    at += 2;
    return number_at(tokens, at - 1);
  };
  RankLine line;
  const std::optional<std::int64_t> rank = number_behind("Rank");
  const std::optional<std::int64_t> group = is("Group") ? number_behind("Group") : 0;
  if (is("Pid")) {
    at += 2;
  }
  if (is("on") && at + 1 < tokens.size()) {
    line.host = tokens[at + 1].text;
    at += 2;
  }
  const std::optional<std::int64_t> device = number_behind("device");
  // "[0000:1b:00]" or "[0x07]", then the name.
  const bool has_bus =
      at < tokens.size() && tokens[at].text.starts_with('[') && tokens[at].text.ends_with(']');
  if (!rank || !group || !device || !has_bus) {
    return std::nullopt;
  }
  line.rank = *rank;
  line.group = *group;
  line.device = *device;
  for (++at; at < tokens.size(); ++at) {
    if (is("(node") && at + 2 == tokens.size()) {
      line.host = tokens[at + 1].text;
      break;
    }
    line.device_name += (line.device_name.empty() ? "" : " ") + printable(tokens[at].text);
  }
  return line;
}

void judge_table(const NcclTable& table,
                 const std::string& file,
                 const std::string& key,
                 const Statements& statements,
                 ImportedLog& log) {
  Judge(table, file, key, statements, log).judge();
}

}  // namespace trireme::calibrate
