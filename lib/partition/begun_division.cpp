#include "partition/begun_division.hpp"

#include <algorithm>

#include "base/units.hpp"

namespace meshplan {

BegunDivision::BegunDivision(const DivisionGraph& graph, const DivisionCuts& cuts,
                             const DivisionBranch& branch)
    : graph_(graph), scores_(1), score_to_go_(scores_to_go(graph, branch)) {
  for (DivisionCuts::Length& each : cuts.lengths_of(branch)) {
    Bound& bound = bounds_.emplace_back();
    bound.to_go = graph.least_to_go(each.cost);
    bound.cost = std::move(each.cost), bound.constant = each.constant;
  }
  passed_.emplace_back(bounds_.size(), 0.0);
}

void BegunDivision::push(const DivisionGraph::Edge& edge) {
  std::vector<double> passed = passed_.back();
  for (std::size_t k = 0; k < passed.size(); ++k) passed[k] += bounds_[k].cost[index(edge.taken)];
  passed_.push_back(std::move(passed));
  scores_.push_back(scores_.back().with(edge.move));
  begun_.push_back(edge);
}

void BegunDivision::pop() { passed_.pop_back(), scores_.pop_back(), begun_.pop_back(); }

double BegunDivision::least() const {
  double most = 0;
  for (std::size_t k = 0; k < bounds_.size(); ++k) {
    const Bound& bound = bounds_[k];
    most = std::max(most, passed_.back()[k] + bound.to_go[index(node())] + bound.constant);
  }
  return most;
}

bool BegunDivision::may_rank_before(const Division& other, std::int64_t weight) const {
  const DivisionScore least = scores_.back().with(score_to_go_[index(node())]);
  const DivisionScore theirs = DivisionScore::of(other);
  if (least != theirs) return least.ranks_before(theirs, weight);
  for (std::size_t r = 0; r < begun_.size(); ++r) {
    const StageMove &a = begun_[r].move, &b = other.stages[r];
    if (a.first != b.first) return a.first < b.first;
    if (a.second != b.second) return a.second < b.second;
  }
  return true;
}

std::vector<DivisionGraph::Edge> BegunDivision::next() const {
  const Bound& mean = bounds_.front();
  const auto least = [&](const DivisionGraph::Edge& e) {
    return mean.cost[index(e.taken)] + mean.to_go[index(e.to)];
  };
  const std::span<const DivisionGraph::Edge> all = graph_.edges(node());
  std::vector<DivisionGraph::Edge> sorted(all.begin(), all.end());
  std::erase_if(sorted, [&](const DivisionGraph::Edge& e) { return least(e) == kNoDivision; });
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const DivisionGraph::Edge& a, const DivisionGraph::Edge& b) {
                     return least(a) < least(b);
                   });
  return sorted;
}

}  // namespace meshplan
