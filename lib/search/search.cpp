#include "search/search.hpp"

#include <chrono>
#include <cmath>

#include "base/text.hpp"
#include "frameworks/assign.hpp"
#include "search/best_first.hpp"
#include "search/search_caches.hpp"
#include "space/target.hpp"

namespace meshplan {
namespace {

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point start) {
  return Seconds{std::chrono::duration<double>(Clock::now() - start).count()};
}

void fill_statistics(const SearchSpace& space, const Outcome& outcome, SearchStatistics& s) {
  s.space_size = space.size();
  s.infeasible = outcome.infeasible;
  for (const auto& [reason, n] : space.illegal()) {
    s.illegal += n;
    s.infeasible[reason] += n;
  }
  s.evaluated = outcome.evaluated;
  s.feasible = outcome.feasible;
  s.pruned = s.space_size - s.illegal - s.evaluated;
}

// What is proved of divisions of the layers, which are not among the keys of a strategy.
std::string divisions_of(const Proof& proof) {
  if (proof.undecided == 0) {
    const std::string all = ", with any division of its layers that the space allows";
    if (std::isfinite(proof.ranked_to)) {
      return all +
             "; the plans after it are the best that were met, and others may belong among them";
    }
    if (proof.unranked == 0) return all;
    return all + "; among the plans after it " + with_thousands(proof.unranked) +
           (proof.unranked == 1 ? " more strategy" : " more strategies") +
           " may belong, whose divisions are too many to try";
  }
  const bool one = proof.undecided == 1;
  return "; that holds for every division of the layers that the space allows, except of " +
         with_thousands(proof.undecided) + (one ? " strategy" : " strategies") +
         " whose divisions are too many to try: none of those can be faster by more than " +
         human_percent(proof.undecided_gap);
}

// Which strategies of the space are wanted at all.
std::string wanted_of(const SearchRequest& request) {
  if (request.memory_risk >= 1 || request.ignore_activations) return {};
  return "at most " + short_percent(request.memory_risk) + " likely to run out of memory";
}

// What the number of plans, their order and the bound prove.
Proof proof_of(const SearchContext& x, const SearchSpace& space, const Outcome& outcome) {
  Proof proof;
  proof.exact = outcome.exact, proof.ranked_to = outcome.ranked_to;
  const std::string where = "the " + std::string(name_of(x.request.space)) + " space of " +
                            with_thousands(space.size()) + " strategies (" + space.description() +
                            ")";
  if (outcome.best.empty()) {
    const std::string wanted = wanted_of(x.request);
    const std::string none = (wanted.empty() ? " fits" : " is " + wanted) +
                             (x.cutoff ? " and is as good as asked for" : "");
    proof.statement = outcome.exact ? "no strategy of " + where + none
                                    : "stopped before any strategy of " + where + " was found";
    proof.gap = outcome.exact ? 0 : 1;
    return proof;
  }
  const double best = outcome.best.front().score(x.objective) * kAsGood;
  for (const double least : outcome.undecided) {
    ++(least < best ? proof.undecided : proof.unranked);
    proof.undecided_gap = std::max(proof.undecided_gap, 1 - least / best);
  }
  const std::string what = x.objective == Objective::kMemory ? "needs less memory" : "is faster";
  const std::string wanted = wanted_of(x.request);
  const std::string of = where + (wanted.empty() ? "" : " that is " + wanted);
  if (outcome.exact) {
    proof.statement =
        (proof.undecided == 0 ? "exact: no strategy of " : "bounded: no strategy of ") + of + " " +
        what + (x.objective == Objective::kMemory ? "" : divisions_of(proof));
    return proof;
  }
  proof.gap = std::max(0.0, 1 - outcome.least_bound / best);
  proof.statement = "stopped early: no strategy of " + of + " " + what + " by more than " +
                    human_percent(proof.gap);
  return proof;
}

}  // namespace

PlanCost full_plan(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  EvaluateOptions options;
  options.ignore_memory = true;  // with ignore_activations the search itself has judged memory
  Verdict verdict = evaluate(m, c, s, options);
  PLAN_CHECK(verdict.feasible());
  return std::get<PlanCost>(std::move(verdict.state));
}

namespace {

// The strategy that misses the memory by least, with what would help. In a space of its own: where
// memory is the objective, full recomputation means every layer, not the fewest that fit.
void add_closest_miss(const ModelSpec& m, const ClusterSpec& c, SearchRequest request,
                      WorkerPool& pool, SearchCaches* caches, SearchResult& result) {
  request.objective = Objective::kMemory;
  request.cutoff = std::nullopt;
  const Result<SearchSpace> space = SearchSpace::make(m, c, request);
  if (!space) return;
  SearchContext x(m, c, request, *space, caches);
  x.unlimited_memory = true;
  const Outcome outcome = best_first(x, 1, pool, [] { return false; }, {});
  if (outcome.best.empty()) return;
  result.closest_strategy = outcome.best.front().strategy;
  result.closest_miss = evaluate(m, c, *result.closest_strategy);
}

// Of a space without strategies: why its framework cannot be told the keys that are fixed.
std::string refusal_of_fixed(const ModelSpec& m, const ClusterSpec& c,
                             const SearchRequest& request) {
  Strategy s = request.base;
  for (const Limit& limit : request.limits) {
    if (limit.op == LimitOp::kEqual && limit.values.size() == 1) {
      static_cast<void>(assign(s, limit.key, limit.values.front()));
    }
  }
  return SpaceTarget(request.space, m, c).refusal_of(s);
}

}  // namespace

Result<SearchResult> search(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                            const Progress& progress, SearchCaches* caches,
                            std::shared_ptr<const SearchSpace> space) {
  const Clock::time_point start = Clock::now();
  SpaceMemo* memo = caches == nullptr ? nullptr : &caches->spaces;
  std::shared_ptr<SearchSpace> uncounted;
  if (space == nullptr) {
    Result<SearchSpace> made = SearchSpace::make_uncounted(m, c, request, memo);
    if (!made) return made.errors();
    uncounted = std::make_shared<SearchSpace>(std::move(made).value());
    space = uncounted;
  }
  WorkerPool pool(request.threads);
  const auto stop = [&] {
    return is_interrupted(request) || (request.time_limit && since(start) >= *request.time_limit);
  };
  SearchResult result;
  result.space = space;
  Outcome outcome;
  {
    SearchContext context(m, c, request, *space, caches);
    outcome = best_first(context, request.top, pool, stop, progress);
    if (uncounted != nullptr && !request.plans_only) {
      uncounted->count_illegal(m, c, request, memo);
    }
    result.proof = proof_of(context, *space, outcome);
    result.statistics.nodes = context.nodes;
    if (context.objective != Objective::kMemory) result.met = context.met.all();
  }
  fill_statistics(*space, outcome, result.statistics);
  if (result.statistics.space_size == 0) result.refused = refusal_of_fixed(m, c, request);
  for (const Found& found : outcome.best) result.plans.push_back(full_plan(m, c, found.strategy));
  if (request.with_closest_miss && result.plans.empty() && outcome.exact) {
    add_closest_miss(m, c, request, pool, caches, result);
  }
  result.statistics.wall = since(start);
  return result;
}

}  // namespace meshplan
