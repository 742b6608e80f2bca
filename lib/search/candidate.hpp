#pragma once
// One candidate examined completely: for each way of trading time for memory the best division of
// layers, whether it fits, and how long a step takes.
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/division_search.hpp"
#include "partition/in_flight_cache.hpp"
#include "partition/layer_reductions.hpp"
#include "partition/stages.hpp"
#include "search/search.hpp"
#include "search/search_caches.hpp"
#include "space/partial_strategy.hpp"
#include "space/space.hpp"
#include "space/target.hpp"

namespace meshplan {

inline constexpr Bytes kNoLimit{std::numeric_limits<std::int64_t>::max() / 4};  // of memory
inline constexpr double kUnlimited = 1e18;                                      // seconds

// What all candidates of a search share.
class SearchContext {
 public:
  const ModelSpec& model;
  const ClusterSpec& cluster;
  const SearchRequest& request;
  const SearchSpace& space;
  SpaceTarget target;
  Objective objective;
  bool unlimited_memory;         // looks for the strategy that misses memory by least
  bool lists_modules;            // some options recompute a list of modules
  std::optional<double> cutoff;  // nothing that scores worse is wanted
  std::optional<Bytes> budget;   // instead of the device's memory
  std::int64_t nodes = 0;        // expanded so far
  MetPlans met;
  SharedMemo<3, Bytes> least_communicators;   // of all shardings, by mesh, ep and etp
  SharedMemo<4, WholeReductions> reductions;  // of shardings, by mesh, ep, etp and sharding

  // `shared`: of this model and cluster; nullptr: of its own.
  SearchContext(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& r,
                const SearchSpace& s, SearchCaches* shared = nullptr);

  [[nodiscard]] SearchCaches& caches() { return caches_; }

 private:
  std::unique_ptr<SearchCaches> own_;
  SearchCaches& caches_;
  std::vector<std::size_t> base_numbers_;  // of the caches, by base of the space

 public:
  InFlightCache& in_flight;
  StepModelPool& models;
  LeastEndsMemo& ends;

  // The layers as `s` runs them. Stays good.
  [[nodiscard]] const LayerPrefix& prefix(const Strategy& s) const { return caches_.prefix(s); }
  // Of `s`, which was made from that base of the space. References stay good.
  [[nodiscard]] const BlockCosts& blocks(const Strategy& s, std::size_t base) {
    return caches_.blocks.costs(s, base_numbers_[base]);
  }
  // Of ZeRO-2 or 3: the same, to be thrown away.
  [[nodiscard]] BlockCosts sharded_blocks(const Strategy& s, std::size_t base) {
    return caches_.blocks.sharded_costs(s, base_numbers_[base]);
  }
  // Of `s`, ZeRO-2 or 3: what `of` says of its blocks, which are not kept; always the same
  // function.
  template <class Of>
  [[nodiscard]] double of_sharded(const Strategy& s, std::size_t base, Of of) {
    return caches_.blocks.of_sharded(s, base_numbers_[base], of);
  }
  [[nodiscard]] PartTime without_experts(const Strategy& s, std::size_t base) {
    return caches_.parts.without_experts(s, base_numbers_[base], prefix(s));
  }
  [[nodiscard]] PartTime experts(const Strategy& s, std::size_t base) {
    return caches_.parts.experts(s, base_numbers_[base], prefix(s));
  }
  [[nodiscard]] double least_pipeline_time(const Strategy& s, const BlockCosts& costs,
                                           double limit) const {
    return caches_.pipelines.least(s, costs, prefix(s), limit);
  }
  [[nodiscard]] Bytes communicators(const Strategy& s, std::size_t base) {
    return caches_.communicators(s, base_numbers_[base]);
  }
  [[nodiscard]] const Placement& placement(const Strategy& s, std::size_t base) {
    return caches_.placement(s, base_numbers_[base]);
  }
  // What a peak may be at most. The second: with so many bytes of communicators, or more. Then what
  // else a rank holds may only be less, so that a bound with fewer communicators than a strategy
  // has is compared with the capacity of as few.
  [[nodiscard]] Bytes capacity() const;
  [[nodiscard]] Bytes capacity(Bytes communicators) const;
  [[nodiscard]] bool is_at_node_limit() const {
    return request.node_limit && nodes >= *request.node_limit;
  }
  [[nodiscard]] bool plans_only() const { return request.plans_only; }
  [[nodiscard]] Bytes host_capacity() const;  // of host memory, per device
  [[nodiscard]] Bytes node_memory() const;    // of host memory, per node

 private:
  mutable SharedMemo<1, Bytes> safe_peaks_;
};

struct Found {
  Strategy strategy;  // complete
  Seconds step_time;
  Bytes peak;
  std::uint64_t leaf = 0;  // of the search tree: its choice of keys

  // What the objective minimises first: seconds, or bytes.
  [[nodiscard]] double score(Objective o) const {
    return o == Objective::kMemory ? peak.si() : step_time.si();
  }
};

// Total order of plans: objective, step time or memory, fewer unusual features, smaller
// tp * pp * cp * ep, then the text of the strategy.
[[nodiscard]] bool ranks_before(const Found& a, const Found& b, Objective o);

struct Examined {
  std::optional<Found> best;
  // A time that no division of the layers undercuts, where others than those costed may be as good
  // as what is wanted: infinite where there are none.
  double left = std::numeric_limits<double>::infinity();
  std::int64_t evaluated = 0;
  std::int64_t feasible = 0;
  // Partial divisions of its layers that were looked at; where only one was chosen, as in Divided.
  std::int64_t effort = 0;
  std::map<std::string, std::int64_t> infeasible;
  KnownChains chains;  // that say most of its divisions, where those were looked at
};

// Ways of recomputing that are worth a look: none; layers as a whole; and selective, by which of
// the lists of listed_modules() is repeated, a bit each. All of those beyond the last bit are.
struct RecomputeModes {
  bool none = true;
  bool full = true;
  std::uint8_t selective = 0xff;

  static constexpr std::size_t kMostLists = 8;
  [[nodiscard]] bool any() const { return none || full || selective != 0; }
  [[nodiscard]] bool has_list(std::size_t i) const {
    return i >= kMostLists || (selective >> i & 1) != 0;
  }
  void add_list(std::size_t i) { selective = static_cast<std::uint8_t>(selective | 1U << i); }
};

// The lists of modules that some of the options repeat, each once.
[[nodiscard]] std::vector<RecomputeModules> listed_modules(
    const std::vector<MemoryOption>& options);

// How many divisions of the layers are looked at.
struct Effort {
  bool every = false;       // all, with their step times; else the one that [F-SEARCH-1] chooses
  std::int64_t starts = 0;  // of all options: partial divisions after which that is given up
  std::int64_t least = 0;   // of each option, whatever the others before it took
  // Whether only an answer for all options is of use: what is left open of one ends it.
  bool all_or_none = false;
  const std::vector<std::int64_t>* known = nullptr;  // layers per rank of a good one
  const KnownChains* chains = nullptr;               // of a strategy of the same pipeline shape
};

// Options that cannot score below `cutoff` may be left out. `pipeline`: a time that the pipeline
// takes at least, without the ends of the step.
[[nodiscard]] Examined examine(SearchContext& x, const PartialStrategy& choice,
                               const std::vector<MemoryOption>& options,
                               RecomputeModes recompute_modes, double pipeline, double cutoff,
                               const Effort& effort = {});

}  // namespace meshplan
