#pragma once
// A division that grows by one stage after the other, with what all that begin so take at least.
#include <cstdint>
#include <vector>

#include "partition/division_cuts.hpp"

namespace meshplan {

// Of a branch with few divisions: to look at each is quicker than to split it further.
class BegunDivision {
 public:
  // With the chains that weigh in the branch's mean, and that mean itself.
  BegunDivision(const DivisionGraph& graph, const DivisionCuts& cuts, const DivisionBranch& branch);

  void push(const DivisionGraph::Edge& edge);
  void pop();
  [[nodiscard]] const std::vector<DivisionGraph::Edge>& edges() const { return begun_; }
  [[nodiscard]] bool is_whole() const { return node() == graph_.goal(); }
  // Seconds of the pipeline, however it goes on.
  [[nodiscard]] double least() const;
  // Whether some division that begins so may rank before another that takes as long
  // (partition.hpp).
  [[nodiscard]] bool may_rank_before(const Division& other, std::int64_t weight) const;
  // What may come next, the least bound first.
  [[nodiscard]] std::vector<DivisionGraph::Edge> next() const;

 private:
  struct Bound {
    std::vector<double> cost, to_go;  // by share; from each node
    double constant = 0;
  };
  [[nodiscard]] std::int32_t node() const { return begun_.empty() ? 0 : begun_.back().to; }

  const DivisionGraph& graph_;
  std::vector<Bound> bounds_;  // the mean first
  std::vector<DivisionGraph::Edge> begun_;
  std::vector<std::vector<double>> passed_;          // by stage: seconds of each bound until there
  std::vector<DivisionScore> scores_, score_to_go_;  // by stage; by node, each the least
};

}  // namespace meshplan
