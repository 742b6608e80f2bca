#pragma once
// Lower bounds on the time of every division of a graph at once, each from the run of one of them.
#include <vector>

#include "partition/division_graph.hpp"

namespace meshplan {

// [F-SEARCH-11] The critical path of one division's run [F-PIPE-10] is a chain of tasks in every
// other one: its length, as a sum over the stages, is a bound whose least value over all divisions
// (or over all that begin alike) is a shortest path. So is any mean of such chains, and the mean
// that keeps the least value large holds all stages at once where one chain holds few.
class DivisionCuts {
 public:
  struct Cut {
    std::vector<double> cost, to_go;  // by share; from each node
    double constant = 0;              // seconds of messages

    [[nodiscard]] double least() const { return constant + to_go.front(); }
  };

  // `after`: by share, seconds that follow the last task of a rank that holds it at least.
  DivisionCuts(const DivisionGraph& graph, std::vector<double> after)
      : graph_(graph), after_(std::move(after)) {}

  // One more chain. With `steps` the mean is moved until its least value exceeds `enough`.
  void add(const CriticalPath& path, int steps, double enough);

  [[nodiscard]] bool empty() const { return cuts_.empty(); }
  // The mean first, then the chains.
  [[nodiscard]] const std::vector<Cut>& all() const { return cuts_; }
  // No division takes less.
  [[nodiscard]] double least() const { return cuts_.front().least(); }
  // The division of the mean's least value.
  [[nodiscard]] std::vector<DivisionGraph::Edge> best() const {
    return graph_.shortest(cuts_.front().cost, cuts_.front().to_go);
  }

 private:
  [[nodiscard]] bool raise();
  [[nodiscard]] Cut mean_of(const Cut& a, const Cut& b, double share) const;

  const DivisionGraph& graph_;
  std::vector<double> after_;
  std::vector<Cut> cuts_;
};

// A division that grows by one stage after the other, with what all of its kind take at least.
class SharedEndsDivisions {
 public:
  SharedEndsDivisions(const DivisionGraph& graph, DivisionCuts& cuts);

  [[nodiscard]] const DivisionGraph& graph() const { return graph_; }
  void push(const DivisionGraph::Edge& edge);
  void pop();
  // Seconds of the pipeline, however it goes on.
  [[nodiscard]] double least() const;
  // Whether some division that begins so may rank before another that takes as long
  // (partition.hpp).
  [[nodiscard]] bool may_rank_before(const Division& other, std::int64_t weight) const;
  // The edges of a node, those of the least bound first.
  [[nodiscard]] std::vector<DivisionGraph::Edge> promising(std::int32_t node) const;

  [[nodiscard]] bool takes_more() const { return cuts_.all().size() < kMostCuts; }
  void add(const CriticalPath& path);

 private:
  static constexpr std::size_t kMostCuts = 48;
  struct Score {  // of partition.hpp
    std::int64_t sum = 0, largest = 0, squares = 0;
  };
  [[nodiscard]] static Score score_of(const DivisionGraph::Edge& e);

  const DivisionGraph& graph_;
  DivisionCuts& cuts_;
  std::vector<DivisionGraph::Edge> begun_;
  std::vector<std::vector<double>> passed_;  // by stage: seconds of each cut until there
  std::vector<Score> scores_, score_to_go_;  // by stage; by node, each the least
};

}  // namespace meshplan
