#pragma once
// Lower bounds on the time of all divisions of a pipeline's layers, built up from the last rank.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "partition/division_graph.hpp"
#include "schedule/traits.hpp"

namespace meshplan {

// What follows the last task of a rank, in seconds, by the graph's shares.
struct TailEnds {
  std::vector<double> exposed;  // reductions that the step waits for
  std::vector<double> after;  // what follows the slowest of them on every rank: the longest counts
  double tied = 0;            // and behind it, on all
  double least_after = 0;
};

// [F-SEARCH-17] The ranks from r on answer the forward messages that reach them with backward
// messages: as every start is a maximum of sums ([F-PIPE-1]), the answer to microbatch k is
// max_j (arrival of j + longest path from there), and so is the last of their ends. These paths are
// all that the ranks before r can tell of the layers behind them (Baccelli et al. 1992,
// "Synchronization and Linearity", sec. 1.3). One rank more in front makes one matrix of paths of
// another. Of two divisions of the same layers over the same ranks, one whose paths are all as
// short or shorter leaves out the other; where more than `width` are left, the least promising are
// put together with the least of each path, which bounds them all (a relaxed decision diagram:
// Bergman, Cire, van Hoeve and Hooker 2016, chapter 4). Where none were, the bound is the best
// division's own time.
class TailBound {
 public:
  // Schedules with one chunk on each rank, and not too many microbatches: a rank costs their cube.
  [[nodiscard]] static bool knows(const PipelineShape& s);

  TailBound(const DivisionGraph& graph, const PipelineShape& shape, const SendTime& send,
            TailEnds ends);

  struct Answer {
    double least = std::numeric_limits<double>::infinity();  // none takes less; no division: inf.
    // A division that may take so little, and whether it does.
    std::vector<DivisionGraph::Edge> path;
    bool is_own = false;
  };
  // Of the divisions that take no more than `limit`.
  [[nodiscard]] Answer least(double limit, std::size_t width);

  // Ranks put in front of others so far, times the cube of the microbatches.
  [[nodiscard]] double work() const { return work_; }

 private:
  // Ranks from a node of the graph on.
  struct Tail {
    std::vector<double> paths;  // by answered microbatch and arrival, then the ends' by arrival
    double after = 0;
    double bound = 0;                   // of a step, whatever the ranks before hold
    std::int32_t edge = -1, next = -1;  // its first rank's share, and the tail behind that
    bool merged = false;
  };
  // What the ranks before a node take at least.
  struct Front {
    double forward = 0, backward = 0;            // of one microbatch, messages among them too
    double forward_each = 0, backward_each = 0;  // from one microbatch to the next
    double end = -std::numeric_limits<double>::infinity();  // from the last answer to a rank's end
    bool reached = false;
  };

  void find_fronts();
  void put_in_front(const DivisionGraph::Edge& edge, const Tail* behind, Tail& tail);
  [[nodiscard]] double bound_of(const Tail& tail, std::int32_t node) const;
  void reduce(std::vector<Tail>& tails, std::size_t width) const;
  [[nodiscard]] int stage_of(std::int32_t node) const {
    return node == graph_.goal() ? static_cast<int>(ranks_)
                                 : stages_[static_cast<std::size_t>(node)];
  }

  const DivisionGraph& graph_;
  PipelineShape shape_;
  double transfer_, sent_, taken_;
  TailEnds ends_;
  std::size_t ranks_, m_;
  bool splits_;
  std::vector<TaskOrder> orders_;  // by rank
  std::vector<int> stages_;        // by node
  std::size_t widest_ = 1;         // nodes of a stage at most
  std::vector<Front> fronts_;      // by node
  double first_exposed_ = 0;       // of the first rank, at least
  double work_ = 0;
  // Scratch of put_in_front().
  std::vector<double> free_, forwards_, backwards_, start_, arrivals_;
};

}  // namespace meshplan
