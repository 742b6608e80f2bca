#include "study/mixed.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "base/names.hpp"
#include "base/text.hpp"
#include "schedule/traits.hpp"
#include "search/bounds.hpp"
#include "search/search_caches.hpp"
#include "space/fixed_keys.hpp"
#include "space/lists.hpp"
#include "space/space.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kGroups = 2;
constexpr double kEqual = 1 + 1e-9;  // times that rounding alone tells apart

Seconds since(Clock::time_point start) {
  return Seconds{std::chrono::duration<double>(Clock::now() - start).count()};
}

// The kind's machines in the number of the whole job, with the slower network between nodes.
Result<ClusterSpec> joined(const ClusterSpec& own, const ClusterSpec& other) {
  for (const ClusterSpec* c : {&own, &other}) {
    if (c->levels.size() < 2) {
      return error(c->name + " has no network between its nodes to join it with other machines",
                   "describe one: a second entry of 'levels'");
    }
  }
  const std::int64_t all = num_gpus(own) + num_gpus(other);
  ClusterSpec c = with_gpus(own, all);
  if (num_gpus(c) != all) {
    return error(with_thousands(num_gpus(other)) + " GPUs of " + other.name +
                     " are no whole number of nodes of " + own.name,
                 "take a multiple of " + std::to_string(own.gpus_per_node));
  }
  LinkLevel& between = c.levels.back();
  const LinkLevel& theirs = other.levels.back();
  if (theirs.bandwidth < between.bandwidth || theirs.latency > between.latency) {
    // What was measured on the faster network is of no use.
    std::erase_if(c.collectives, [&](const CollectiveFit& f) { return f.level == between.name; });
    between.bandwidth = std::min(between.bandwidth, theirs.bandwidth);
    between.latency = std::max(between.latency, theirs.latency);
  }
  return c;
}

Limit only(std::string_view key, KeyValue value) {
  return {std::string(key), LimitOp::kEqual, {std::move(value)}};
}

template <class T>
concept Named = requires {
  NameTable<T>::rows;
};

// The parts that a key's values fall into where two plans differ in it; empty where they cannot be
// told apart by limits.
template <class T>
std::vector<Limit> cut(std::string_view key, const T& a, const T& b) {
  if constexpr (std::is_same_v<T, bool>) {
    return {only(key, a), only(key, b)};
  } else if constexpr (std::is_same_v<T, int> || std::is_same_v<T, std::int64_t>) {
    const KeyValue low{std::min(a, b)};
    return {{std::string(key), LimitOp::kAtMost, {low}},
            {std::string(key), LimitOp::kAbove, {low}}};
  } else if constexpr (Named<T>) {
    std::vector<Limit> parts{only(key, a), only(key, b)};
    Limit rest{std::string(key), LimitOp::kEqual, {}};
    for (const auto& row : NameTable<T>::rows) {
      if (row.value == a || row.value == b) continue;
      if constexpr (std::is_same_v<T, Schedule>) {
        if (!traits_of(row.value).searched) continue;
      }
      rest.values.emplace_back(row.value);
    }
    if (!rest.values.empty()) parts.push_back(std::move(rest));
    return parts;
  } else {
    return {};
  }
}

// By the first key in which the two differ that can be cut. The batch differs always.
std::vector<Limit> cut(const Strategy& a, const Strategy& b) {
  std::vector<Limit> parts;
  for_each_key(a, [&](std::string_view key, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if (!parts.empty() || key == "global_batch" || !is_searched(key)) return;
    for_each_key(b, [&](std::string_view other, const auto& theirs) {
      if constexpr (std::is_same_v<T, std::decay_t<decltype(theirs)>>) {
        if (other == key && !(value == theirs)) parts = cut(key, value, theirs);
      }
    });
  });
  return parts;
}

// A size of a replica with a split of the batch.
struct Split {
  std::int64_t size = 0;  // devices of a replica
  std::array<std::int64_t, kGroups> sequences{};
  double bound = 0;  // s; no plan is faster
};

class MixedSearch {
 public:
  MixedSearch(const ModelSpec& m, const MixedClusters& own, const MixedClusters& joined,
              const SearchRequest& request, Clock::time_point start)
      : model_(m),
        clusters_(joined),
        gpus_{num_gpus(own[0]), num_gpus(own[1])},
        request_(request),
        caches_{SearchCaches(m, clusters_[0]), SearchCaches(m, clusters_[1])} {
    start_ = start;
    request_.top = 1;
    request_.plans_only = true;
    request_.with_closest_miss = false;
  }

  void run(const Progress& progress, Mixed& found) {
    const std::vector<Split> splits = every_split();
    solve_all(splits, true, progress);  // one of them is good enough to rule most others out
    found.even = best_;
    solve_all(splits, false, progress);
    found.best = std::move(best_);
    found.searches = searches_;
    if (found.best) {
      found.gap = std::max(0.0, 1 - least_open_ / found.best->step_time.si());
      if (found.gap < kEqual - 1) found.gap = 0;
    }
    found.exact = found.best ? found.gap == 0 : !left_;
  }

 private:
  [[nodiscard]] std::int64_t replicas(std::size_t g, std::int64_t size) const {
    return gpus_[g] / size;
  }

  [[nodiscard]] double bound_of(std::size_t g, const Split& split) const {
    Strategy s = request_.base;
    s.tp = split.size;
    s.dp = (gpus_[0] + gpus_[1]) / split.size;
    s.global_batch = split.sequences[g] * s.dp;
    return flops_bound(model_, clusters_[g], caches_[g].prefix(s), s);
  }

  [[nodiscard]] std::vector<Split> every_split() const {
    std::vector<Split> all;
    for (const std::int64_t size : divisors(std::gcd(gpus_[0], gpus_[1]))) {
      const std::int64_t first = replicas(0, size), second = replicas(1, size);
      for (std::int64_t b = 1; first * b < request_.base.global_batch; ++b) {
        const std::int64_t left = request_.base.global_batch - first * b;
        if (left % second != 0) continue;
        Split split{size, {b, left / second}};
        split.bound = std::max(bound_of(0, split), bound_of(1, split));
        all.push_back(split);
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Split& a, const Split& b) { return a.bound < b.bound; });
    return all;
  }

  [[nodiscard]] bool is_over() const {
    return is_interrupted(request_) ||
           (request_.time_limit && since(start_) >= *request_.time_limit);
  }

  void solve_all(const std::vector<Split>& splits, bool even, const Progress& progress) {
    for (std::size_t i = 0; i < splits.size(); ++i) {
      const Split& split = splits[i];
      if (best_ && split.bound * kEqual >= best_->step_time.si()) break;
      if (even != (split.sequences[0] == split.sequences[1])) continue;
      if (is_over()) {
        leave(split.bound);
        break;
      }
      solve(split);
      if (progress) {
        SearchProgress p;
        p.share = static_cast<double>(i + 1) / static_cast<double>(splits.size());
        if (best_) p.best = best_->step_time;
        progress(p);
      }
    }
  }

  // A pipeline's ranks lie next to each other, so that a replica has machines of one kind.
  void solve(const Split& split) {
    const std::int64_t shared = std::gcd(replicas(0, split.size), replicas(1, split.size));
    std::vector<Limit> limits{
        only("dp", (gpus_[0] + gpus_[1]) / split.size),
        {"ep", LimitOp::kEqual, {}},
    };
    for (const std::int64_t ep : divisors(shared)) limits.back().values.emplace_back(ep);
    limits.push_back(only("pp", std::int64_t{1}));
    solve(split, limits);
    limits.back() = {"pp", LimitOp::kAbove, {std::int64_t{1}}};
    limits.push_back(only("order", kPipelineInside));
    solve(split, limits);
  }

  void solve(const Split& split, const std::vector<Limit>& limits) {
    if (is_over()) return leave(split.bound);
    // The group that matrix products alone say is slower first: it mostly rules the split out.
    const std::size_t slow = bound_of(1, split) > bound_of(0, split) ? 1 : 0;
    std::array<std::optional<PlanCost>, kGroups> optima;
    double bound = 0;
    for (const std::size_t g : {slow, 1 - slow}) {
      const std::optional<SearchResult> found = search_of(g, split, limits);
      if (!found) return;
      if (found->plans.empty()) {
        if (!found->proof.exact) leave(split.bound);
        return;
      }
      optima[g] = found->plans.front();
      bound = std::max(bound, optima[g]->step_time.si() * (1 - found->proof.gap));
    }
    const std::array<Strategy, kGroups> s{optima[0]->strategy, optima[1]->strategy};
    const std::vector<Limit> parts = cut(s[0], s[1]);
    for (const std::size_t g : {slow, 1 - slow}) {
      try_on_both(split, limits, g, *optima[g]);
      if (best_ && best_->step_time.si() <= bound * kEqual) return;
    }
    if (parts.empty()) return leave(bound);
    for (const Limit& part : parts) {
      std::vector<Limit> narrow = limits;
      narrow.push_back(part);
      solve(split, narrow);
    }
  }

  // Nothing: no strategy of the space is as the limits say.
  std::optional<SearchResult> search_of(std::size_t g, const Split& split,
                                        const std::vector<Limit>& limits) {
    SearchRequest one = request_;
    one.base.global_batch = split.sequences[g] * (gpus_[0] + gpus_[1]) / split.size;
    one.limits.insert(one.limits.end(), limits.begin(), limits.end());
    if (best_) one.cutoff = best_->step_time.si();
    if (one.time_limit) one.time_limit = *one.time_limit - since(start_);
    ++searches_;
    Result<SearchResult> found = search(model_, clusters_[g], one, {}, &caches_[g]);
    if (!found) return std::nullopt;
    return std::move(found).value();
  }

  // The plan of one group on the other one too: what its searched keys say, and nothing else.
  void try_on_both(const Split& split, std::vector<Limit> limits, std::size_t g,
                   const PlanCost& plan) {
    for_each_key(plan.strategy, [&](std::string_view key, const auto& value) {
      if (is_searched(key) && key != "order") limits.push_back(only(key, KeyValue{value}));
    });
    const std::optional<SearchResult> other = search_of(1 - g, split, limits);
    if (!other || other->plans.empty()) return;
    MixedPlan both;
    for (std::size_t k = 0; k < kGroups; ++k) {
      MixedGroup& group = both.groups[k];
      group.plan = k == g ? plan : other->plans.front();
      group.gpus = gpus_[k];
      group.replicas = replicas(k, split.size);
      group.sequences = split.sequences[k];
      group.microbatches = num_microbatches(group.plan.strategy);
      both.step_time = std::max(both.step_time, group.plan.step_time);
    }
    if (!best_ || both.step_time < best_->step_time) best_ = std::move(both);
  }

  // Not decided: some plan might take `bound` or more.
  void leave(double bound) {
    left_ = true;
    least_open_ = std::min(least_open_, bound);
  }

  const ModelSpec& model_;
  const MixedClusters& clusters_;
  const std::array<std::int64_t, kGroups> gpus_;
  SearchRequest request_;
  std::array<SearchCaches, kGroups> caches_;
  Clock::time_point start_;
  std::optional<MixedPlan> best_;
  std::int64_t searches_ = 0;
  double least_open_ = std::numeric_limits<double>::infinity();
  bool left_ = false;
};

}  // namespace

Result<Mixed> mixed(const ModelSpec& m, const MixedClusters& clusters, const SearchRequest& request,
                    const Progress& progress) {
  const Clock::time_point start = Clock::now();
  PLAN_CHECK(request.objective == Objective::kStepTime);
  Mixed found;
  for (std::size_t g = 0; g < kGroups; ++g) {
    Result<ClusterSpec> all = joined(clusters[g], clusters[1 - g]);
    if (!all) return all.errors();
    found.clusters[g] = std::move(all).value();
    SearchRequest one = request;
    one.top = 1;
    one.with_closest_miss = false;
    if (one.time_limit) one.time_limit = *one.time_limit - since(start);
    Result<SearchResult> alone = search(m, clusters[g], one);
    if (!alone) return alone.errors();
    SearchResult own = std::move(alone).value();
    found.alone_open[g] = own.plans.empty() && !own.proof.exact;
    if (!own.plans.empty()) found.alone[g] = std::move(own.plans.front());
  }
  MixedSearch(m, clusters, found.clusters, request, start).run(progress, found);
  found.wall = since(start);
  return found;
}

}  // namespace meshplan
