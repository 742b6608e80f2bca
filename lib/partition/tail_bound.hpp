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
// messages, and where a rank has chunks of several rounds also with forward messages to the first
// rank, which sends them backward ones in turn. As every start is a maximum of sums ([F-PIPE-1]),
// an answer is max_i (arrival of i + longest path from there), and so is the last of their ends.
// These paths are all that the ranks before r can tell of those behind (Baccelli et al. 1992,
// "Synchronization and Linearity", sec. 1.3). One rank more in front makes one matrix of paths of
// another. Of two divisions of the same layers over the same ranks, one whose paths are all as
// short or shorter leaves out the other; where more than `width` are left, the least promising are
// put together with the least of each path, which bounds them all (a relaxed decision diagram:
// Bergman, Cire, van Hoeve and Hooker 2016, chapter 4). Where none were, the bound is the best
// division's own time.
class TailBound {
 public:
  // Numbers by which messages of all rounds reach a rank from both sides: a rank costs their cube.
  [[nodiscard]] static std::int64_t messages(const PipelineShape& s) {
    return (2 * s.vp - 1) * s.microbatches;
  }
  // Schedules whose ranks hold chunks in rounds and do one task at a time, with few messages.
  [[nodiscard]] static bool knows(const PipelineShape& s);

  TailBound(const DivisionGraph& graph, const PipelineShape& shape, const SendTime& send,
            TailEnds ends);

  struct Answer {
    double least = std::numeric_limits<double>::infinity();  // none takes less; no division: inf.
    // A division that may take so little, and whether it does.
    std::vector<DivisionGraph::Edge> path;
    bool is_own = false;
  };
  // Of the divisions that take no more than `limit`. Nothing is known, 0, once there was more to do
  // than `most_work`.
  [[nodiscard]] Answer least(double limit, std::size_t width,
                             double most_work = std::numeric_limits<double>::infinity());

  // Paths looked at so far: a rank put in front of others takes the cube of their messages.
  [[nodiscard]] double work() const { return work_; }

 private:
  // Ranks from a node of the graph on.
  struct Tail {
    std::vector<double> paths;  // by answer and arrival, then the ends' by arrival
    double after = 0;
    double bound = 0;                   // of a step, whatever the ranks before hold
    std::int32_t edge = -1, next = -1;  // its first rank's share, and the tail behind that
    bool merged = false;
  };
  // What the ranks before a node take at least.
  struct Front {
    std::vector<double> forward, backward;  // of one microbatch and round, messages among them too
    double forward_any = 0, backward_any = 0;               // of whichever rounds
    double forward_each = 0, backward_each = 0;             // from one task to the next
    double end = -std::numeric_limits<double>::infinity();  // from the last answer to a rank's end
    bool reached = false;
  };

  void find_fronts();
  void put_in_front(const DivisionGraph::Edge& edge, const Tail* behind, Tail& tail);
  // Of a whole division: seconds until the last rank's end.
  [[nodiscard]] double put_first(const DivisionGraph::Edge& edge, const Tail& behind);
  [[nodiscard]] double bound_of(const Tail& tail, std::int32_t node);
  // Of what arrives, in arrivals of `in` that are known so far.
  [[nodiscard]] double answer(const Tail& tail, std::size_t row,
                              const std::vector<double>& in) const;
  void reduce(std::vector<Tail>& tails, std::size_t width);
  [[nodiscard]] int stage_of(std::int32_t node) const {
    return node == graph_.goal() ? static_cast<int>(ranks_)
                                 : stages_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] std::size_t round_of(const Task& task) const {
    return static_cast<std::size_t>(task.chunk) / ranks_;
  }
  // Of a message of the round: forward arrivals and backward answers come first, then what goes
  // between the last rank and the first.
  [[nodiscard]] std::size_t place(std::size_t round, std::size_t microbatch) const {
    return round * m_ + microbatch;
  }

  const DivisionGraph& graph_;
  double transfer_, sent_, taken_;
  TailEnds ends_;
  std::size_t ranks_, rounds_, m_;
  std::size_t passed_;  // messages of all rounds in one direction
  std::size_t all_;     // with those between the last rank and the first
  bool splits_;
  std::vector<TaskOrder> orders_;  // by rank
  std::vector<int> stages_;        // by node
  std::size_t widest_ = 1;         // nodes of a stage at most
  std::vector<Front> fronts_;      // by node
  double first_exposed_ = 0;       // of the first rank, at least
  double work_ = 0;
  // Scratch.
  std::vector<double> free_, forwards_, backwards_, arrivals_, in_;
};

}  // namespace meshplan
