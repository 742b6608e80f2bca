#include "search/best_first.hpp"

#include <algorithm>

#include "search/near.hpp"
#include "search/tree_search.hpp"

namespace meshplan {

namespace {

// Plans that take so many times the best one's time are ranked, however many nodes that takes, and
// slower ones as long as that takes few: all choices that may give one take several times as many.
constexpr double kNear = 1.01;
constexpr std::int64_t kMany = 65'536;  // about a second's

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

// Whether two plans are of one leaf of the tree, of which only the better one is wanted.
bool same_leaf(Strategy a, const Strategy& b) {
  a.stage_layers = b.stage_layers, a.chunk_layers = b.chunk_layers;
  a.recompute = b.recompute, a.recompute_modules = b.recompute_modules;
  a.recompute_layers = b.recompute_layers, a.offload = b.offload;
  return a == b;
}

// Adds what is not among the best yet.
void merge(std::vector<Found> others, std::size_t wanted, Objective objective,
           std::vector<Found>& best) {
  for (Found& found : others) {
    const bool again = std::any_of(best.begin(), best.end(), [&](const Found& other) {
      return same_leaf(found.strategy, other.strategy);
    });
    if (!again) best.push_back(std::move(found));
  }
  std::sort(best.begin(), best.end(),
            [&](const Found& a, const Found& b) { return ranks_before(a, b, objective); });
  if (best.size() > wanted) best.resize(wanted);
}

// The first pass leaves out what is unusual. What that would give its best plan is mostly found
// near it, where every choice is looked at: until nothing there is better. The less time the limit
// of the second pass leaves, the less that opens.
void look_near(SearchContext& x, std::size_t wanted, WorkerPool& pool,
               const std::function<bool()>& stop, Outcome& first) {
  constexpr std::int64_t kWorthIt = 8'192;  // nodes of the first pass; after fewer all take less
  constexpr std::int64_t kPart = 4;         // of as many nodes as the first pass took
  constexpr int kTimes = 3;
  if (x.objective == Objective::kMemory || first.best.empty() || x.nodes < kWorthIt) return;
  std::int64_t nodes = x.nodes / kPart;
  if (x.request.node_limit) nodes = std::min(nodes, *x.request.node_limit - x.nodes);
  for (int i = 0; i < kTimes && nodes > 0 && !stop(); ++i) {
    SearchRequest request = x.request;
    request.limits.clear();
    keep_near(request, first.best.front().strategy);
    if (!SearchSpace::can_narrow(request.limits)) return;
    const SearchSpace space = x.space.narrowed(request.limits);
    request.limits = x.request.limits;
    request.node_limit = nodes;
    request.plans_only = true;
    SearchContext near(x.model, x.cluster, request, space, &x.caches());
    near.unlimited_memory = x.unlimited_memory, near.budget = x.budget;
    TreeSearch search(near, wanted, pool, Breadth::kAll);
    search.only_prepare();
    const double best = first.best.front().score(x.objective);
    const double cutoff = first.best.size() < wanted ? x.cutoff.value_or(kNothingFound)
                                                     : first.best.back().score(x.objective);
    Outcome found = search.run(cutoff, stop, {});
    x.nodes += near.nodes, nodes -= near.nodes;
    for (const MetPlan& plan : near.met.all()) x.met.add(plan.strategy, plan.step_time);
    merge(std::move(found.best), wanted, x.objective, first.best);
    if (first.best.front().score(x.objective) >= best) return;
  }
}

}  // namespace

Outcome best_first(SearchContext& x, std::size_t wanted, WorkerPool& pool,
                   const std::function<bool()>& stop, const Progress& progress) {
  const double given = x.cutoff.value_or(kNothingFound);
  Outcome first;
  // What is given by who wants plans alone is as good as what a first pass finds.
  if (!x.plans_only() || given == kNothingFound || x.request.usual_only) {
    TreeSearch usual(x, wanted, pool, Breadth::kUsual);
    if (!x.request.usual_only) usual.only_prepare();
    first = usual.run(given, stop, progress);
    if (!x.request.usual_only) look_near(x, wanted, pool, stop, first);
  }
  if (x.request.usual_only) {
    first.exact = false;
    first.least_bound = 0;
    if (progress) progress({.share = 1});
    return first;
  }
  const double cutoff = first.best.size() < wanted ? given : first.best.back().score(x.objective);
  TreeSearch search(x, wanted, pool, Breadth::kAll);
  if (wanted > 1 && x.objective != Objective::kMemory && !first.best.empty()) {
    search.rank_within(kNear, first.best.front().score(x.objective), kMany);
  }
  Outcome all = search.run(cutoff, stop, with_known(progress, first, x.objective));
  // What the first pass found may not have been found again.
  if (!all.exact || all.ranked_to < kNothingFound) {
    merge(std::move(first.best), wanted, x.objective, all.best);
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
