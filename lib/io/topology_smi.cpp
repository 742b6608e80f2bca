#include <algorithm>
#include <array>
#include <map>

#include "base/quantity.hpp"
#include "io/topology.hpp"
#include "io/yaml_tree.hpp"

namespace meshplan {
namespace {

using Words = std::vector<std::string>;

constexpr std::int64_t kMostGpus = 1024;

// Cells of a line: split at blanks of any kind (no cell of the matrix holds one), without the codes
// that some versions underline the header with.
Words words_of(std::string_view line) {
  Words words(1);
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && line[i] != 'm') ++i;
    } else if (line[i] == ' ' || line[i] == '\t') {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += line[i];
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// "GPU12" -> 12
std::optional<std::int64_t> gpu_number(std::string_view word) {
  if (!word.starts_with("GPU")) return std::nullopt;
  const Result<std::int64_t> n = parse_integer(word.substr(3));
  return n.ok() && *n >= 0 ? std::optional(*n) : std::nullopt;
}

bool is_nic(std::string_view word) { return word.starts_with("NIC") || word.starts_with("mlx"); }

// From near to far; NVLinks are not paths to a card.
constexpr std::array<std::string_view, 5> kPaths{"PIX", "PXB", "PHB", "NODE", "SYS"};

std::size_t distance(std::string_view cell) {
  return static_cast<std::size_t>(std::find(kPaths.begin(), kPaths.end(), cell) - kPaths.begin());
}

struct Matrix {
  std::string file;
  Words header;                                     // devices and cards, in the order of columns
  std::vector<std::pair<std::string, Words>> rows;  // name, its cells
  std::vector<int> lines;                           // where each row stands
};

// The header is the first line that begins with GPU0 and goes on with columns; rows follow.
Matrix matrix_of(std::string_view text, const std::string& file) {
  Matrix m;
  m.file = file;
  const std::string lines = normalised_lines(text);
  int number = 0;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    Words words = words_of(std::string_view(lines).substr(at, end - at));
    at = end + 1;
    ++number;
    if (words.empty() || (!gpu_number(words[0]) && !is_nic(words[0]))) continue;
    const bool columns =
        words.size() == 1 || gpu_number(words[1]) || is_nic(words[1]) || words[1] == "CPU";
    if (m.header.empty() && columns) {
      for (std::string& word : words) {
        if (!gpu_number(word) && !is_nic(word)) break;
        m.header.push_back(std::move(word));
      }
    } else if (!m.header.empty() && words.size() > m.header.size()) {
      m.rows.emplace_back(words[0], Words(words.begin() + 1, words.end()));
      m.lines.push_back(number);
    }
  }
  return m;
}

Result<std::int64_t> links_of(const Matrix& m, std::size_t row, std::string_view cell) {
  if (cell == "X" || distance(cell) < kPaths.size()) return std::int64_t{0};
  if (cell.starts_with("NV")) {
    const Result<std::int64_t> n = parse_integer(cell.substr(2));
    if (n.ok() && *n > 0 && *n < kMostGpus) return *n;
  }
  return error_at({m.file, m.lines[row], 1},
                  "'" + std::string(cell) + "' is no connection that nvidia-smi knows",
                  "NV#, PIX, PXB, PHB, NODE or SYS");
}

// All pairs alike and more links than a device has: a switch stands between them.
bool is_switched(const NodeTopology& node) {
  constexpr std::int64_t kMostLinks = 18;  // Hopper and Blackwell; Ampere has 12, Volta 6
  const std::int64_t one = node.gpus > 1 ? node.nvlinks[0][1] : 0;
  for (std::size_t i = 0; i < node.nvlinks.size(); ++i) {
    for (std::size_t j = 0; j < node.nvlinks.size(); ++j) {
      if (i != j && node.nvlinks[i][j] != one) return false;
    }
  }
  return one * (node.gpus - 1) > kMostLinks;
}

}  // namespace

Result<NodeTopology> parse_smi_topology(std::string_view text, const std::string& file) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  if (text.size() > kLargest)
    return error_at({file}, "larger than 1 MiB: not the matrix of a node");
  const Matrix m = matrix_of(text, file);
  NodeTopology node;
  for (const std::string& name : m.header) {
    if (gpu_number(name)) {
      ++node.gpus;
    } else {
      node.nics.push_back({.name = name});
    }
  }
  if (node.gpus == 0 || node.gpus > kMostGpus) {
    return error_at({file}, "no matrix of nvidia-smi topo -m is in this file",
                    "give what 'nvidia-smi topo -m' prints");
  }
  const auto gpus = static_cast<std::size_t>(node.gpus);
  std::size_t read = 0;
  for (std::size_t row = 0; row < m.rows.size(); ++row) {
    const auto& [name, cells] = m.rows[row];
    if (!gpu_number(name)) continue;
    if (read++ == gpus) break;
    std::vector<std::int64_t> links;
    for (std::size_t j = 0; j < gpus; ++j) {
      const Result<std::int64_t> n = links_of(m, row, cells[j]);
      if (!n) return n.errors();
      links.push_back(*n);
    }
    node.nvlinks.push_back(std::move(links));
    std::size_t nearest = kPaths.size();
    for (std::size_t j = gpus; j < m.header.size(); ++j) {
      nearest = std::min(nearest, distance(cells[j]));
    }
    for (std::size_t j = gpus; j < m.header.size(); ++j) {
      if (nearest < kPaths.size() && distance(cells[j]) == nearest) {
        node.nics[j - gpus].nearest = true;
      }
    }
  }
  if (node.nvlinks.size() != gpus) {
    return error_at({file},
                    "the matrix has " + std::to_string(node.gpus) + " columns of devices and " +
                        std::to_string(node.nvlinks.size()) + " whole rows",
                    "give all of what 'nvidia-smi topo -m' prints");
  }
  node.switched = is_switched(node);
  return node;
}

}  // namespace meshplan
