#pragma once
// Finds the best strategies of a declared space and says how far that is proved.
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cost/plan_cost.hpp"
#include "cost/step.hpp"
#include "search/met_plans.hpp"
#include "space/space.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct SearchRequest : SpaceRequest {
  std::size_t top = 5;
  double memory_risk = 1;             // accepted probability of running out of memory [F-UNC-3];
                                      // 1: whatever is predicted to fit
  int threads = 0;                    // 0: one per core; the result does not depend on it
  std::optional<Seconds> time_limit;  // may turn an exact proof into a bounded one
  const std::atomic<bool>* interrupted = nullptr;  // once true the search ends, as at the limit
  std::optional<double> cutoff;   // score (s, or bytes of the objective memory): nothing worse
                                  // is wanted, and left out
  bool with_closest_miss = true;  // where nothing fits, look for what misses memory by least
  std::optional<std::int64_t> node_limit;  // as time_limit, but of the statistics' `nodes`: so what
                                           // is found does not depend on the load of the machine
  bool usual_only = false;  // only choices that nearly all good plans make alike: proves nothing
};

[[nodiscard]] inline bool is_interrupted(const SearchRequest& request) {
  return request.interrupted != nullptr && request.interrupted->load(std::memory_order_relaxed);
}

struct SearchStatistics {
  std::int64_t space_size = 0;                     // strategies of the space before any rule
  std::int64_t illegal = 0;                        // ruled out by a rule, by name in `infeasible`
  std::int64_t evaluated = 0;                      // costed completely
  std::int64_t pruned = 0;                         // ruled out by a bound without being costed
  std::int64_t feasible = 0;                       // of the evaluated
  std::map<std::string, std::int64_t> infeasible;  // by reason
  std::int64_t nodes = 0;  // of the search tree that were expanded, and what divisions took instead
  Seconds wall;
};

struct Proof {
  bool exact = true;
  double gap = 0;         // (best - proved lower bound) / best when not exact
  std::string statement;  // for people: what was proved over which space
  // Choices of keys of which not every division of the layers was costed or ruled out, and how much
  // faster than the best plan one of those divisions might be at most: (best - bound) / best.
  std::int64_t undecided = 0;
  double undecided_gap = 0;
  // The same of which none is faster than the best plan, but one might be among the other plans.
  std::int64_t unranked = 0;
  // Of the plans only those that score no more (s) are surely the best ones in that order: others
  // are the best that were met. Infinite where all are ranked.
  double ranked_to = std::numeric_limits<double>::infinity();
};

struct SearchResult {
  std::vector<PlanCost> plans;  // ranked, best first
  SearchStatistics statistics;
  Proof proof;
  std::string refused;  // why the space's framework takes no strategy with the fixed keys, if so
  // When nothing fits: the strategy that misses memory by least, and what would make it fit.
  std::optional<Verdict> closest_miss;
  std::optional<Strategy> closest_strategy;
  std::vector<MetPlan> met;                  // where the step time is minimised
  std::shared_ptr<const SearchSpace> space;  // that was searched
};

struct SearchProgress {
  double share = 0;               // of the space that is done, 0..1
  std::optional<Seconds> best{};  // step time of the fastest plan so far, where time is minimised
  std::optional<double> gap{};    // by which none can be faster: (best - proved bound) / best
};
// Called now and then from one thread.
using Progress = std::function<void(const SearchProgress&)>;

class SearchCaches;

// `caches`: of this model and cluster (search_caches.hpp), for searches that follow each other;
// they change no result. `space`: the request's, where it is made already.
[[nodiscard]] Result<SearchResult> search(const ModelSpec& m, const ClusterSpec& c,
                                          const SearchRequest& request,
                                          const Progress& progress = {},
                                          SearchCaches* caches = nullptr,
                                          std::shared_ptr<const SearchSpace> space = nullptr);

// The cost of a strategy that a search has found, whose memory it has judged.
[[nodiscard]] PlanCost full_plan(const ModelSpec& m, const ClusterSpec& c, const Strategy& s);

struct Rival;

// Why the best plan wins and what binds it, as sentences, one per fact. Decisions are compared with
// the best plan that takes them otherwise, where rivals() found it.
[[nodiscard]] std::vector<std::string> explain(const ModelSpec& m, const ClusterSpec& c,
                                               const SearchResult& result,
                                               const std::vector<Rival>& rivals);

}  // namespace meshplan
