#pragma once
// Branch and bound, best bound first: opens the nodes of the space in the order of a time (or a
// memory) that nothing below them can undercut, and stops when the next bound exceeds the worst of
// the plans wanted. What is left is then proved not to be better.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search/candidate.hpp"
#include "search/worker_pool.hpp"

namespace meshplan {

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
};

// `stop`: asked between batches; true ends the search early. `progress`: 0..1, never less than
// before. Neither affects what is found otherwise.
[[nodiscard]] Outcome best_first(SearchContext& x, std::size_t wanted, WorkerPool& pool,
                                 const std::function<bool()>& stop, const Progress& progress);

}  // namespace meshplan
