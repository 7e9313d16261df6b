#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "calibrate/import/log_lines.h"
#include "calibrate/import/topology.h"
#include "sim/core/error.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace {

constexpr std::size_t kMostDevices = 1024;

/// The most NVLinks that a GPU has (H100, H200, B200, by their datasheets): when every pair shows
/// so many that a GPU would have more, each shows all links of its GPU to a switch.
constexpr std::int64_t kMostNvlinks = 18;

/// Any cell says fewer.
constexpr std::int64_t kMostInCell = 1000;

/// A cell: the GPU or adapter itself, NVLinks, or a way over PCIe.
struct Cell {
  bool self = false;
  std::int64_t links = 0;
  PciPath path = PciPath::sys;

  friend bool operator==(const Cell&, const Cell&) = default;
};

std::optional<Cell> parse_cell(std::string_view text) {
  if (text == "X") {
    return Cell{.self = true};
  }
  for (const PciPath path :
       {PciPath::pix, PciPath::pxb, PciPath::phb, PciPath::node, PciPath::sys}) {
    if (text == name(path)) {
      return Cell{.path = path};
    }
  }
  if (text == "SOC") {  // SYS of drivers before 2018
    return Cell{};
  }
  if (text.starts_with("NV")) {
    text.remove_prefix(2);
    std::int64_t links = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), links);
    if (problem == std::errc() && end == text.data() + text.size() && links >= 1 &&
        links <= kMostInCell) {
      return Cell{.links = links};
    }
  }
  return std::nullopt;
}

bool is_gpu_name(std::string_view text) {
  return text.size() > 3 && text.starts_with("GPU") &&
         std::all_of(text.begin() + 3, text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The names of devices of a header line: those before the affinities. Empty for any other line.
std::vector<std::string> parse_header(const std::vector<LogToken>& tokens) {
  std::vector<std::string> names;
  for (const LogToken& token : tokens) {
    if (token.text == "CPU") {
      break;
    }
    if (parse_cell(token.text) || token.text == "OK") {
      return {};
    }
    names.emplace_back(token.text);
  }
  const bool is_header = !names.empty() && is_gpu_name(names.front()) &&
                         names.size() <= kMostDevices &&
                         (names.size() < tokens.size() ||
                          std::all_of(names.begin(), names.end(), [](const std::string& device) {
                            return is_gpu_name(device) || device.starts_with("NIC") ||
                                   device.find('_') != std::string::npos;
                          }));
  return is_header ? names : std::vector<std::string>();
}

class MatrixReader {
 public:
  MatrixReader(std::string_view text, const std::string& file) : lines_(text), file_(file) {}

  Topology read() {
    std::optional<LogLine> line = find_header();
    cells_.resize(names_.size());
    while ((line = lines_.next())) {
      const std::vector<LogToken> tokens = tokens_of(line->text);
      if (!tokens.empty()) {
        read_line(*line, tokens);
      }
    }
    check_whole();
    return topology();
  }

 private:
  [[noreturn]] void fail(const LogLine& line,
                         int column,
                         std::string message,
                         std::string hint = {}) const {
    throw Error(ErrorKind::input,
                SourceLocation{.file = file_,
                               .line = line.number,
                               .column = column,
                               .source_line = std::string(line.raw)},
                std::move(message),
                std::move(hint));
  }

  std::optional<LogLine> find_header() {
    while (std::optional<LogLine> line = lines_.next()) {
      names_ = parse_header(tokens_of(line->text));
      if (names_.empty()) {
        continue;
      }
      header_ = *line;
      for (std::size_t i = 0; i < names_.size(); ++i) {
        if (!place_of_.emplace(names_[i], i).second) {
          fail(*line, 1, fmt::format("the device {} stands twice", in_quotes(names_[i])));
        }
      }
      return line;
    }
    throw Error(ErrorKind::input,
                SourceLocation{.file = file_},
                "no matrix of nvidia-smi topo -m was found",
                "its header begins with GPU0");
  }

  void read_line(const LogLine& line, const std::vector<LogToken>& tokens) {
    if (!parse_header(tokens).empty()) {
      other_matrix_ = true;  // of nvidia-smi topo -p2p, or of a second machine
      return;
    }
    read_legend(tokens);
    const auto place = place_of_.find(std::string(tokens.front().text));
    if (place == place_of_.end() || tokens.size() < 2) {
      return;
    }
    const bool is_way = parse_cell(tokens[1].text).has_value();
    if (other_matrix_) {
      if (is_way && tokens.size() > names_.size() &&
          std::any_of(tokens.begin() + 1, tokens.end(), [](const LogToken& token) {
            const auto cell = parse_cell(token.text);
            return cell && !cell->self;
          })) {
        fail(line, tokens.front().column, "a second matrix", "give each machine a file of its own");
      }
      return;
    }
    read_cells(line, tokens, place->second);
  }

  void read_cells(const LogLine& line, const std::vector<LogToken>& tokens, std::size_t row) {
    if (!cells_[row].empty()) {
      fail(line,
           tokens.front().column,
           fmt::format("the row {} stands twice", in_quotes(names_[row])),
           "give each machine a file of its own");
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (i + 1 >= tokens.size()) {
        fail(line,
             static_cast<int>(utf8_count(line.raw)) + 1,
             fmt::format("the row {} ends before the column {}",
                         in_quotes(names_[row]),
                         in_quotes(names_[i])),
             "was the output cut?");
      }
      const LogToken& token = tokens[i + 1];
      const std::optional<Cell> cell = parse_cell(token.text);
      if (!cell || cell->self != (i == row)) {
        fail(line,
             token.column,
             fmt::format("{} to {}: {} is no connection",
                         in_quotes(names_[row]),
                         in_quotes(names_[i]),
                         in_quotes(token.text)),
             "accepted: X for the device itself, NV and the number of NVLinks, PIX, PXB, PHB, "
             "NODE, SYS");
      }
      cells_[row].push_back(*cell);
    }
    lines_of_rows_[row] = line;
    read_affinity(tokens, row);
  }

  /// The processors, then the NUMA node, of a GPU.
  void read_affinity(const std::vector<LogToken>& tokens, std::size_t row) {
    const std::size_t at = names_.size() + 2;
    if (at >= tokens.size()) {
      return;
    }
    const std::string_view text = tokens[at].text;
    std::int64_t numa = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), numa);
    if (problem == std::errc() && end == text.data() + text.size() && numa >= 0) {
      numa_[row] = numa;
    }
  }

  /// "NIC0: mlx5_0"
  void read_legend(const std::vector<LogToken>& tokens) {
    constexpr std::size_t kPair = 2;
    if (tokens.size() == kPair && tokens.front().text.ends_with(':')) {
      std::string name(tokens.front().text.substr(0, tokens.front().text.size() - 1));
      if (place_of_.contains(name)) {
        legend_.emplace(std::move(name), printable(tokens[1].text));
      }
    }
  }

  void check_whole() const {
    for (std::size_t row = 0; row < names_.size(); ++row) {
      if (cells_[row].empty()) {
        fail(header_,
             1,
             fmt::format("the row {} is missing", in_quotes(names_[row])),
             "was the output cut?");
      }
      for (std::size_t column = 0; column < row; ++column) {
        if (!(cells_[row][column] == cells_[column][row])) {
          fail(lines_of_rows_.at(row),
               1,
               fmt::format("{} and {} are connected differently in their two rows",
                           in_quotes(names_[column]),
                           in_quotes(names_[row])));
        }
      }
    }
  }

  [[nodiscard]] Topology topology() const {
    Topology topology;
    topology.kind = "nvidia-smi topo -m";
    std::vector<std::size_t> gpus;
    std::vector<std::size_t> nics;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      (is_gpu_name(names_[i]) ? gpus : nics).push_back(i);
    }
    for (const std::size_t nic : nics) {
      const auto named = legend_.find(names_[nic]);
      TopologyNic read;
      read.name = named == legend_.end() ? printable(names_[nic]) : named->second;
      topology.nics.push_back(std::move(read));
    }
    for (const std::size_t gpu : gpus) {
      TopologyGpu read;
      read.name = names_[gpu];
      if (const auto numa = numa_.find(gpu); numa != numa_.end()) {
        read.numa = numa->second;
      }
      topology.gpus.push_back(std::move(read));
      std::vector<PciPath> paths;
      for (const std::size_t nic : nics) {
        paths.push_back(cells_[gpu][nic].path);
      }
      topology.paths.push_back(std::move(paths));
    }
    count_links(topology, gpus);
    find_near_nics(topology);
    return topology;
  }

  /// Behind a switch every pair shows all links of a GPU; direct links are shown pair by pair.
  void count_links(Topology& topology, const std::vector<std::size_t>& gpus) const {
    std::int64_t least = kMostInCell;
    std::int64_t most = 0;
    for (const std::size_t a : gpus) {
      for (const std::size_t b : gpus) {
        if (a != b) {
          least = std::min(least, cells_[a][b].links);
          most = std::max(most, cells_[a][b].links);
        }
      }
    }
    const auto others = static_cast<std::int64_t>(gpus.size()) - 1;
    const bool alike = least == most;
    if (most == 0) {
      topology.wiring = NvlinkWiring::none;
    } else if (alike && others * most > kMostNvlinks) {
      topology.wiring = NvlinkWiring::switched;
    } else if (others > 1) {
      topology.wiring = alike ? NvlinkWiring::mesh : NvlinkWiring::partial;
    } else {
      topology.notes.emplace_back("of two GPUs a matrix does not tell direct links from a switch");
    }
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      std::int64_t sum = 0;
      for (const std::size_t other : gpus) {
        sum += cells_[gpus[i]][other].links;
      }
      if (sum > kMostNvlinks && topology.wiring != NvlinkWiring::switched) {
        fail(lines_of_rows_.at(gpus[i]),
             1,
             fmt::format("{} has {} NVLinks, more than a GPU has", names_[gpus[i]], sum));
      }
      topology.gpus[i].links = topology.wiring == NvlinkWiring::switched ? most : sum;
    }
  }

  LogLines lines_;
  const std::string& file_;
  LogLine header_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t> place_of_;
  std::vector<std::vector<Cell>> cells_;  // by row
  std::map<std::size_t, LogLine> lines_of_rows_;
  std::map<std::size_t, std::int64_t> numa_;
  std::map<std::string, std::string> legend_;
  bool other_matrix_ = false;
};

}  // namespace

bool has_topology_matrix(std::string_view text) {
  LogLines lines(text);
  while (const std::optional<LogLine> line = lines.next()) {
    if (line->text.find("GPU") != std::string::npos &&
        !parse_header(tokens_of(line->text)).empty()) {
      return true;
    }
  }
  return false;
}

Topology read_topology_matrix(std::string_view text, const std::string& file) {
  return MatrixReader(text, file).read();
}

}  // namespace trireme::calibrate
