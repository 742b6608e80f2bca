#include "search/best_first.hpp"

#include <algorithm>

#include "search/tree_search.hpp"

namespace meshplan {

namespace {

// Progress of a second pass, which meets again what the first has found.
Progress with_known(const Progress& progress, const Outcome& first, Objective objective) {
  if (!progress || first.best.empty() || objective == Objective::kMemory) return progress;
  return [progress, known = first.best.front().step_time](SearchProgress now) {
    if (!now.best || *now.best > known) {
      if (now.best && now.gap) now.gap = std::max(0.0, 1 - *now.best / known * (1 - *now.gap));
      now.best = known;
    }
    progress(now);
  };
}

}  // namespace

Outcome best_first(SearchContext& x, std::size_t wanted, WorkerPool& pool,
                   const std::function<bool()>& stop, const Progress& progress) {
  const double given = x.cutoff.value_or(kNothingFound);
  Outcome first;
  // What is given by who wants plans alone is as good as what a first pass finds.
  if (!x.plans_only() || given == kNothingFound || x.request.usual_only) {
    first = TreeSearch(x, wanted, pool, Breadth::kUsual).run(given, stop, progress);
  }
  if (x.request.usual_only) {
    first.exact = false;
    first.least_bound = 0;
    if (progress) progress({.share = 1});
    return first;
  }
  const double cutoff = first.best.size() < wanted ? given : first.best.back().score(x.objective);
  Outcome all = TreeSearch(x, wanted, pool, Breadth::kAll)
                    .run(cutoff, stop, with_known(progress, first, x.objective));
  if (!all.exact) {  // stopped: what the first pass found may not have been found again
    for (Found& found : first.best) {
      const bool again = std::any_of(all.best.begin(), all.best.end(), [&](const Found& other) {
        return other.strategy == found.strategy;
      });
      if (!again) all.best.push_back(std::move(found));
    }
    std::sort(all.best.begin(), all.best.end(),
              [&](const Found& a, const Found& b) { return ranks_before(a, b, x.objective); });
    if (all.best.size() > wanted) all.best.resize(wanted);
  }
  if (progress) progress({.share = 1});
  return all;
}

FallingBudgets::FallingBudgets(SearchContext& x, WorkerPool& pool)
    : x_(x),
      pool_(pool),
      all_(std::make_unique<TreeSearch>(x, 1, pool, Breadth::kAll, TreeSearch::Keep::kForLess)) {}

FallingBudgets::~FallingBudgets() = default;

Outcome FallingBudgets::within(Bytes budget, const std::function<bool()>& stop) {
  x_.budget = budget;
  double cutoff = all_->known_time();
  if (cutoff == kNothingFound) {
    const Outcome first = TreeSearch(x_, 1, pool_, Breadth::kUsual).run(cutoff, stop, {});
    if (!first.best.empty()) cutoff = first.best.front().score(x_.objective);
  }
  return all_->run(cutoff, stop, {});
}

}  // namespace meshplan
