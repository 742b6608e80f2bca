#pragma once
// Branch and bound, best bound first: opens the nodes of the space in the order of a time (or a
// memory) that nothing below them can undercut, and stops when the next bound exceeds the worst of
// the plans wanted. What is left is then proved not to be better.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search/candidate.hpp"
#include "search/worker_pool.hpp"

namespace meshplan {

// Of a score: sums in another order differ in the last digits, and what differs by less than that
// is no better.
inline constexpr double kAsGood = 1 - 1e-9;

struct Outcome {
  std::vector<Found> best;  // ranked
  std::int64_t evaluated = 0;
  std::int64_t feasible = 0;
  std::map<std::string, std::int64_t> infeasible;  // illegal ones not included
  bool exact = true;
  double least_bound = 0;  // of what was not opened, where it was stopped
  // Of each choice of keys of which not every division of the layers was costed or ruled out: a
  // time that none of them undercuts.
  std::vector<double> undecided;
  // Of `best` only what scores no more is surely in its place: others are the best that were met.
  double ranked_to = std::numeric_limits<double>::infinity();
};

// `stop`: asked by all threads between nodes; once true, always true: ends the search early.
// `progress`: 0..1, never less than before. Neither affects what is found otherwise.
[[nodiscard]] Outcome best_first(SearchContext& x, std::size_t wanted, WorkerPool& pool,
                                 const std::function<bool()>& stop, const Progress& progress);

class TreeSearch;

// The fastest plan within one memory budget after the other, each smaller than the one before: one
// search that goes on. With less memory no plan becomes faster, so bounds stay good, what does not
// fit never does, and what was dropped for its time waits for a budget that allows it.
class FallingBudgets {
 public:
  // Of a context for step time that wants plans only.
  FallingBudgets(SearchContext& x, WorkerPool& pool);
  ~FallingBudgets();
  FallingBudgets(const FallingBudgets&) = delete;
  FallingBudgets& operator=(const FallingBudgets&) = delete;

  // What best_first() finds for one plan with so much device memory; nothing is counted.
  [[nodiscard]] Outcome within(Bytes budget, const std::function<bool()>& stop);

 private:
  SearchContext& x_;
  WorkerPool& pool_;
  std::unique_ptr<TreeSearch> all_;
};

}  // namespace meshplan
