#include "partition/division_cuts.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/units.hpp"
#include "partition/matrix_game.hpp"

namespace meshplan {
namespace {

constexpr double kLeastGain = 1e-6;  // of a length, that is worth another turn

// What shares of a stage are told apart by.
using Feature = std::int64_t (*)(const DivisionGraph::Edge&);
constexpr std::array<Feature, 4> kFeatures = {
    [](const DivisionGraph::Edge& e) -> std::int64_t { return e.move.time; },
    [](const DivisionGraph::Edge& e) -> std::int64_t { return e.move.first; },
    [](const DivisionGraph::Edge& e) -> std::int64_t { return e.move.second; },
    [](const DivisionGraph::Edge& e) -> std::int64_t { return e.taken; }};

// With the shares of `stage` up to, or above, a feature's value alone.
std::vector<DivisionBranch> parts(const DivisionGraph& graph, const DivisionBranch& branch,
                                  int stage, Feature feature, double most) {
  std::vector<DivisionBranch> two(2, branch);
  for (const DivisionGraph::Edge& e : graph.edges()) {
    if (graph.shares()[index(e.taken)].stage != stage) continue;
    const bool above = static_cast<double>(feature(e)) > most;
    two[above ? 0 : 1].closed[index(e.taken)] = 1;
  }
  return two;
}

}  // namespace

DivisionBranch DivisionCuts::all() const {
  DivisionBranch all;
  all.closed.assign(graph_.shares().size(), 0);
  return all;
}

DivisionBranch DivisionCuts::all(const KnownChains& known) {
  for (CriticalPath path : known.chains) {
    path.messages = 0;  // another strategy's take another time
    add(path);
  }
  DivisionBranch branch = all();
  if (!known.chains.empty()) try_mean(branch, known.weights);
  return branch;
}

KnownChains DivisionCuts::chains_of(const DivisionBranch& branch) const {
  KnownChains known;
  for (std::size_t k = 0; k < branch.weights.size(); ++k) {
    if (branch.weights[k] <= 0) continue;
    known.chains.push_back(chains_[k].path);
    known.weights.push_back(branch.weights[k]);
  }
  return known;
}

DivisionCuts::Chain DivisionCuts::chain_of(const CriticalPath& path) const {
  Chain chain{graph_.seconds_of(path), path.messages, path};
  const auto ranks = static_cast<std::int64_t>(graph_.num_ranks());
  const bool mirrored = ranks > graph_.num_stages();
  const std::int64_t stage = mirrored ? std::min(path.rank, ranks - 1 - path.rank) : path.rank;
  for (std::size_t i = 0; i < chain.cost.size(); ++i) {
    if (graph_.shares()[i].stage == stage) chain.cost[i] += after_[i];
  }
  return chain;
}

void DivisionCuts::add(const CriticalPath& path) {
  chains_.push_back(chain_of(path));
  std::vector<double>& lengths = lengths_.emplace_back();
  for (const Path& known : paths_) lengths.push_back(length(chains_.back(), known));
  for (std::size_t p = 0; p < paths_.size(); ++p) note_longest(p, chains_.size() - 1);
}

void DivisionCuts::note_longest(std::size_t path, std::size_t chain) {
  if (lengths_[chain][path] > lengths_[longest_[path]][path]) longest_[path] = chain;
}

bool DivisionCuts::is_longer(const CriticalPath& path) const {
  if (paths_.empty()) return true;
  const double enough = length(chain_of(path), latest()) * (1 - kLeastGain);
  return std::all_of(lengths_.begin(), lengths_.end(),
                     [&](const std::vector<double>& all) { return all[latest_] < enough; });
}

double DivisionCuts::length(const Length& chain, const Path& path) const {
  double length = chain.constant;
  for (const DivisionGraph::Edge& e : path) length += chain.cost[index(e.taken)];
  return length;
}

DivisionCuts::Length DivisionCuts::mean_of(const DivisionBranch& branch,
                                           const std::vector<double>& weights) const {
  Length mean;
  mean.cost.assign(branch.closed.size(), 0.0);
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (weights[k] == 0) continue;
    mean.constant += weights[k] * chains_[k].constant;
    for (std::size_t i = 0; i < mean.cost.size(); ++i) {
      mean.cost[i] += weights[k] * chains_[k].cost[i];
    }
  }
  for (std::size_t i = 0; i < mean.cost.size(); ++i) {
    if (branch.closed[i] != 0) mean.cost[i] = kNoDivision;
  }
  return mean;
}

std::vector<DivisionCuts::Length> DivisionCuts::lengths_of(const DivisionBranch& branch) const {
  std::vector<Length> all{mean_of(branch, branch.weights)};
  for (std::size_t k = 0; k < branch.weights.size(); ++k) {
    if (branch.weights[k] <= 0) continue;
    Length& length = all.emplace_back(chains_[k]);
    for (std::size_t i = 0; i < length.cost.size(); ++i) {
      if (branch.closed[i] != 0) length.cost[i] = kNoDivision;
    }
  }
  return all;
}

// Keeps the mean if it is better, and the division that takes least in any case. Whether that is a
// new one, or the mean better.
bool DivisionCuts::try_mean(DivisionBranch& branch, const std::vector<double>& weights) {
  const Length mean = mean_of(branch, weights);
  const std::vector<double> to_go = graph_.least_to_go(mean.cost);
  const double least = mean.constant + to_go.front();
  if (least == kNoDivision) {
    branch.least = kNoDivision;
    return false;
  }
  latest_ = number_of(graph_.shortest(mean.cost, to_go));
  const bool is_new =
      std::find(branch.paths.begin(), branch.paths.end(), latest_) == branch.paths.end();
  if (is_new) branch.paths.push_back(latest_);
  const bool better = least > branch.least * (1 + kLeastGain);
  if (better || branch.weights.empty()) branch.least = std::max(branch.least, least);
  if (better || branch.weights.empty()) branch.weights = weights;
  return is_new || better;
}

std::size_t DivisionCuts::number_of(Path path) {
  const auto is_it = [&](const Path& other) {
    return std::equal(path.begin(), path.end(), other.begin(), other.end(),
                      [](const DivisionGraph::Edge& a, const DivisionGraph::Edge& b) {
                        return a.taken == b.taken && a.to == b.to;
                      });
  };
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, of whole numbers instead of bytes
  for (const DivisionGraph::Edge& e : path) {
    for (const std::int64_t part : {std::int64_t{e.taken}, std::int64_t{e.to}}) {
      hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x100000001b3U;
    }
  }
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    if (is_it(paths_[known->second])) return known->second;
  }
  const std::size_t number = paths_.size();
  by_hash_.emplace(hash, number);
  longest_.push_back(0);
  for (std::size_t k = 0; k < lengths_.size(); ++k) {
    lengths_[k].push_back(length(chains_[k], path));
    note_longest(number, k);
  }
  paths_.push_back(std::move(path));
  seen_.push_back(0);
  return number;
}

bool DivisionCuts::turn_to_unseen(const DivisionBranch& branch) {
  if (branch.paths.empty()) return false;
  const std::vector<double> mixture = game_of(branch).mixture;
  std::size_t most = branch.paths.size();
  for (std::size_t p = 0; p < mixture.size(); ++p) {
    if (seen_[branch.paths[p]] != 0 || mixture[p] <= 0) continue;
    if (most == branch.paths.size() || mixture[p] > mixture[most]) most = p;
  }
  if (most == branch.paths.size()) return false;
  latest_ = branch.paths[most];
  seen_[latest_] = 1;
  return true;
}

bool DivisionCuts::is_open(const DivisionBranch& branch, const Path& path) const {
  return std::all_of(path.begin(), path.end(), [&](const DivisionGraph::Edge& e) {
    return branch.closed[index(e.taken)] == 0;
  });
}

void DivisionCuts::close_longer(DivisionBranch& branch, double most) const {
  const Length mean = mean_of(branch, branch.weights);
  const std::vector<double> least = graph_.least_with(mean.cost);
  for (std::size_t i = 0; i < least.size(); ++i) {
    if (mean.constant + least[i] > most) branch.closed[i] = 1;
  }
  drop_closed_paths(branch);
}

void DivisionCuts::drop_closed_paths(DivisionBranch& branch) const {
  std::erase_if(branch.paths, [&](std::size_t p) { return !is_open(branch, paths_[p]); });
}

// Of the chains that count: those that are longest in some of the divisions, or in the mean so far.
// Others have no weight in nearly every game, and without them a mean is a bound as well.
DivisionCuts::Game DivisionCuts::game_of(const DivisionBranch& branch) const {
  std::vector<char> counts(chains_.size(), 0);
  for (std::size_t k = 0; k < branch.weights.size(); ++k) counts[k] = branch.weights[k] > 0 ? 1 : 0;
  for (const std::size_t p : branch.paths) counts[longest_[p]] = 1;
  std::vector<std::vector<double>> rows;
  for (std::size_t k = 0; k < chains_.size(); ++k) {
    if (counts[k] == 0) continue;
    std::vector<double>& row = rows.emplace_back();
    for (const std::size_t p : branch.paths) row.push_back(lengths_[k][p]);
  }
  GameValue value = solve_game(rows);
  Game game{std::vector<double>(chains_.size(), 0.0), std::move(value.mixture)};
  for (std::size_t k = 0, row = 0; k < chains_.size(); ++k) {
    if (counts[k] != 0) game.weights[k] = value.weights[row++];
  }
  return game;
}

// Between the best mean and the one that the game asks for: that alone jumps to and fro.
bool DivisionCuts::raise(DivisionBranch& branch, int steps, double enough) {
  bool moved = false;
  const double evenly = 1 / static_cast<double>(chains_.size());
  branch.weights.resize(chains_.size(), branch.weights.empty() ? evenly : 0.0);
  for (int i = 0; i < steps && branch.least <= enough; ++i) {
    if (branch.paths.empty()) {
      moved |= try_mean(branch, branch.weights);
      if (!branch.has_any()) return true;
      continue;
    }
    const Game game = game_of(branch);
    std::vector<double> between = branch.weights;
    for (std::size_t k = 0; k < between.size(); ++k) {
      between[k] = (between[k] + game.weights[k]) / 2;
    }
    if (!try_mean(branch, between) && !try_mean(branch, game.weights)) break;
    moved = true;
  }
  return moved;
}

std::vector<DivisionBranch> DivisionCuts::split(DivisionBranch branch) const {
  if (branch.paths.size() < 2) return {};
  const std::vector<double> mixture = game_of(branch).mixture;
  std::vector<std::size_t> torn;  // between these
  std::vector<double> share;
  for (std::size_t p = 0; p < mixture.size(); ++p) {
    if (mixture[p] > 0) torn.push_back(branch.paths[p]), share.push_back(mixture[p]);
  }
  branch.paths = torn;
  for (const Feature feature : kFeatures) {
    int stage = -1;
    double widest = 0, middle = 0;
    for (int r = 0; r < graph_.num_stages(); ++r) {
      double mean = 0, spread = 0;
      const auto of = [&](std::size_t p) {
        return static_cast<double>(feature(paths_[torn[p]][index(r)]));
      };
      for (std::size_t p = 0; p < torn.size(); ++p) mean += share[p] * of(p);
      for (std::size_t p = 0; p < torn.size(); ++p) {
        spread += share[p] * (of(p) - mean) * (of(p) - mean);
      }
      if (spread <= widest || spread <= 1e-9 * mean * mean) continue;
      widest = spread, stage = r, middle = mean;
    }
    if (stage < 0) continue;
    std::vector<DivisionBranch> two = parts(graph_, branch, stage, feature, middle);
    for (DivisionBranch& part : two) drop_closed_paths(part);
    return two;
  }
  return {};
}

void DivisionCuts::set_levels(const DivisionBranch& of) {
  std::vector<double> times(of.closed.size(), kNoDivision);
  for (const DivisionGraph::Edge& e : graph_.edges()) {
    const std::size_t i = index(e.taken);
    if (of.closed[i] == 0) times[i] = static_cast<double>(e.move.time);
  }
  const double longest = graph_.min_bottleneck(times);
  const double mean = graph_.least_to_go(times).front() / static_cast<double>(graph_.num_stages());
  above_.clear();
  for (const double level : {longest, mean}) {
    std::vector<char>& above = above_.emplace_back();
    for (const double time : times) above.push_back(time > level ? 1 : 0);
  }
}

std::vector<DivisionBranch> DivisionCuts::by_level(DivisionBranch branch) const {
  if (branch.free == 0) {
    ++branch.level;
    branch.free = static_cast<int>(graph_.num_stages());
  }
  const std::vector<char>& is_above = above_[index(branch.level)];
  const auto free = static_cast<std::size_t>(branch.free);
  std::vector<DivisionBranch> all(free + 1, branch);  // the last one: none of them
  for (std::size_t r = 0; r < all.size(); ++r) all[r].free = r < free ? static_cast<int>(r) : 0;
  for (std::size_t i = 0; i < is_above.size(); ++i) {
    const auto stage = index(graph_.shares()[i].stage);
    if (stage >= free) continue;
    if (is_above[i] == 0) {
      all[stage].closed[i] = 1;
      continue;
    }
    for (std::size_t r = 0; r < stage; ++r) all[r].closed[i] = 1;
    all[free].closed[i] = 1;
  }
  for (DivisionBranch& part : all) drop_closed_paths(part);
  return all;
}

DivisionScore DivisionScore::of(const Division& division) {
  DivisionScore score;
  for (const StageMove& move : division.stages) score = score.with(move);
  return score;
}

DivisionScore DivisionScore::with(const DivisionScore& other) const {
  return {sum + other.sum, std::max(largest, other.largest), squares + other.squares};
}

DivisionScore DivisionScore::with(const StageMove& m) const {
  return with(DivisionScore{m.time, m.time,
                            std::int64_t{m.first} * m.first + std::int64_t{m.second} * m.second});
}

bool DivisionScore::ranks_before(const DivisionScore& other, std::int64_t weight) const {
  const std::int64_t cost = sum + weight * largest, others = other.sum + weight * other.largest;
  if (cost != others) return cost < others;
  if (largest != other.largest) return largest < other.largest;
  return squares < other.squares;
}

std::vector<DivisionScore> scores_to_go(const DivisionGraph& graph, const DivisionBranch& branch) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  std::vector<DivisionScore> to_go(index(graph.num_nodes()), DivisionScore{kMost, kMost, kMost});
  to_go.back() = {};
  for (std::int32_t node = graph.goal(); node-- > 0;) {
    DivisionScore& least = to_go[index(node)];
    for (const DivisionGraph::Edge& e : graph.edges(node)) {
      const DivisionScore& rest = to_go[index(e.to)];
      if (branch.closed[index(e.taken)] != 0 || rest.sum >= kMost) continue;
      const DivisionScore with = rest.with(e.move);
      least.sum = std::min(least.sum, with.sum);
      least.largest = std::min(least.largest, with.largest);
      least.squares = std::min(least.squares, with.squares);
    }
  }
  return to_go;
}

bool has_few(const DivisionGraph& graph, const DivisionBranch& branch, std::int64_t most) {
  std::vector<std::int64_t> ways(index(graph.num_nodes()), 0);
  ways.back() = 1;
  for (std::int32_t node = graph.goal(); node-- > 0;) {
    std::int64_t& mine = ways[index(node)];
    for (const DivisionGraph::Edge& e : graph.edges(node)) {
      if (branch.closed[index(e.taken)] == 0) mine = std::min(most + 1, mine + ways[index(e.to)]);
    }
  }
  return ways.front() <= most;
}

std::vector<DivisionBranch> halve(const DivisionGraph& graph, const DivisionBranch& branch) {
  for (const Feature feature : kFeatures) {
    int stage = -1;
    double widest = 0, middle = 0;
    std::vector<std::int64_t> least(index(graph.num_stages()),
                                    std::numeric_limits<std::int64_t>::max());
    std::vector<std::int64_t> most(index(graph.num_stages()), -1);
    for (const DivisionGraph::Edge& e : graph.edges()) {
      if (branch.closed[index(e.taken)] != 0) continue;
      const std::size_t r = index(graph.shares()[index(e.taken)].stage);
      least[r] = std::min(least[r], feature(e)), most[r] = std::max(most[r], feature(e));
    }
    for (int r = 0; r < graph.num_stages(); ++r) {
      const double low = static_cast<double>(least[index(r)]);
      const double width = static_cast<double>(most[index(r)]) - low;
      if (width > widest) widest = width, stage = r, middle = low + width / 2;
    }
    if (stage >= 0) return parts(graph, branch, stage, feature, middle);
  }
  return {};
}

}  // namespace meshplan
