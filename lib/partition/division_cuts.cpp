#include "partition/division_cuts.hpp"

#include <algorithm>
#include <limits>

#include "base/units.hpp"

namespace meshplan {
namespace {}  // namespace

void DivisionCuts::add(const CriticalPath& path, int steps, double enough) {
  Cut cut;
  cut.cost = graph_.seconds_of(path);
  cut.constant = path.messages;
  const auto ranks = static_cast<std::int64_t>(graph_.num_ranks());
  const bool mirrored = ranks > graph_.num_stages();
  const std::int64_t stage = mirrored ? std::min(path.rank, ranks - 1 - path.rank) : path.rank;
  for (std::size_t i = 0; i < cut.cost.size(); ++i) {
    if (graph_.shares()[i].stage == stage) cut.cost[i] += after_[i];
  }
  cut.to_go = graph_.least_to_go(cut.cost);
  if (cuts_.empty()) cuts_.push_back(cut);
  cuts_.push_back(std::move(cut));
  for (int i = 0; i < steps && least() <= enough; ++i) {
    if (!raise()) return;
  }
}

DivisionCuts::Cut DivisionCuts::mean_of(const Cut& a, const Cut& b, double share) const {
  Cut mean;
  mean.constant = (1 - share) * a.constant + share * b.constant;
  mean.cost.reserve(a.cost.size());
  for (std::size_t i = 0; i < a.cost.size(); ++i) {
    mean.cost.push_back((1 - share) * a.cost[i] + share * b.cost[i]);
  }
  mean.to_go = graph_.least_to_go(mean.cost);
  return mean;
}

// Moves the mean towards the chain that is longest in the mean's own best division.
bool DivisionCuts::raise() {
  constexpr double kShares[] = {0.5, 0.2, 0.07, 0.02};
  constexpr double kLeastGain = 1e-6;
  const std::vector<DivisionGraph::Edge> path = best();
  const Cut* longest = nullptr;
  double most = least() * (1 + kLeastGain);
  for (std::size_t k = 1; k < cuts_.size(); ++k) {
    double length = cuts_[k].constant;
    for (const DivisionGraph::Edge& e : path) length += cuts_[k].cost[index(e.taken)];
    if (length > most) most = length, longest = &cuts_[k];
  }
  if (longest == nullptr) return false;
  Cut better;
  for (const double share : kShares) {
    Cut mean = mean_of(cuts_.front(), *longest, share);
    if (better.to_go.empty() || mean.least() > better.least()) better = std::move(mean);
  }
  if (better.least() <= least() * (1 + kLeastGain)) return false;
  cuts_.front() = std::move(better);
  return true;
}

SharedEndsDivisions::SharedEndsDivisions(const DivisionGraph& graph, DivisionCuts& cuts)
    : graph_(graph), cuts_(cuts), scores_(1), score_to_go_(index(graph.num_nodes())) {
  passed_.emplace_back(cuts.all().size(), 0.0);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (std::int32_t node = graph.goal(); node-- > 0;) {
    Score least{kMost, kMost, kMost};
    for (const DivisionGraph::Edge& e : graph.edges(node)) {
      const Score &rest = score_to_go_[index(e.to)], mine = score_of(e);
      least.sum = std::min(least.sum, mine.sum + rest.sum);
      least.largest = std::min(least.largest, std::max(mine.largest, rest.largest));
      least.squares = std::min(least.squares, mine.squares + rest.squares);
    }
    score_to_go_[index(node)] = least;
  }
}

SharedEndsDivisions::Score SharedEndsDivisions::score_of(const DivisionGraph::Edge& e) {
  const StageMove& m = e.move;
  return {m.time, m.time, std::int64_t{m.first} * m.first + std::int64_t{m.second} * m.second};
}

void SharedEndsDivisions::push(const DivisionGraph::Edge& edge) {
  std::vector<double> passed = passed_.back();
  for (std::size_t k = 0; k < passed.size(); ++k) {
    passed[k] += cuts_.all()[k].cost[index(edge.taken)];
  }
  passed_.push_back(std::move(passed));
  const Score &before = scores_.back(), mine = score_of(edge);
  scores_.push_back({before.sum + mine.sum, std::max(before.largest, mine.largest),
                     before.squares + mine.squares});
  begun_.push_back(edge);
}

void SharedEndsDivisions::pop() { passed_.pop_back(), scores_.pop_back(), begun_.pop_back(); }

double SharedEndsDivisions::least() const {
  const std::size_t node = begun_.empty() ? 0 : index(begun_.back().to);
  double most = 0;
  for (std::size_t k = 0; k < passed_.back().size(); ++k) {
    const DivisionCuts::Cut& cut = cuts_.all()[k];
    most = std::max(most, passed_.back()[k] + cut.to_go[node] + cut.constant);
  }
  return most;
}

bool SharedEndsDivisions::may_rank_before(const Division& other, std::int64_t weight) const {
  const Score& rest = score_to_go_[begun_.empty() ? 0 : index(begun_.back().to)];
  const Score& mine = scores_.back();
  const std::int64_t largest = std::max(mine.largest, rest.largest);
  const std::int64_t cost = mine.sum + rest.sum + weight * largest;
  const std::int64_t others = other.sum + weight * other.largest;
  if (cost != others) return cost < others;
  if (largest != other.largest) return largest < other.largest;
  std::int64_t squares = 0;
  for (const StageMove& m : other.stages) squares += score_of({m}).squares;
  if (mine.squares + rest.squares != squares) return mine.squares + rest.squares < squares;
  for (std::size_t r = 0; r < begun_.size(); ++r) {
    const StageMove &a = begun_[r].move, &b = other.stages[r];
    if (a.first != b.first) return a.first < b.first;
    if (a.second != b.second) return a.second < b.second;
  }
  return true;
}

std::vector<DivisionGraph::Edge> SharedEndsDivisions::promising(std::int32_t node) const {
  const DivisionCuts::Cut& mean = cuts_.all().front();
  const auto least = [&](const DivisionGraph::Edge& e) {
    return mean.cost[index(e.taken)] + mean.to_go[index(e.to)];
  };
  const std::span<const DivisionGraph::Edge> all = graph_.edges(node);
  std::vector<DivisionGraph::Edge> sorted(all.begin(), all.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const DivisionGraph::Edge& a, const DivisionGraph::Edge& b) {
                     return least(a) < least(b);
                   });
  return sorted;
}

// Seconds that the stages begun with add up to in the new chain.
void SharedEndsDivisions::add(const CriticalPath& path) {
  cuts_.add(path, 0, 0);
  const DivisionCuts::Cut& cut = cuts_.all().back();
  double passed = 0;
  passed_.front().push_back(0);
  for (std::size_t r = 0; r < begun_.size(); ++r) {
    passed += cut.cost[index(begun_[r].taken)];
    passed_[r + 1].push_back(passed);
  }
}

}  // namespace meshplan
