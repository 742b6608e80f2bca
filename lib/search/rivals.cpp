#include "search/rivals.hpp"

#include <algorithm>
#include <chrono>

#include "frameworks/assign.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using Clock = std::chrono::steady_clock;

struct Decision {
  std::string key;
  KeyValue value;
};

class Decisions {
 public:
  explicit Decisions(const Strategy& best) : best_(best) {}

  void add_degree(const std::string& key, std::int64_t degree, std::int64_t most) {
    if (degree > 1) add(key, degree % 2 == 0 ? degree / 2 : std::int64_t{1});
    if (2 * degree <= most) add(key, 2 * degree);
  }
  void add(const std::string& key, KeyValue value) {
    if (value_text(best_, key) != key_text(value)) all_.push_back({key, std::move(value)});
  }
  [[nodiscard]] std::vector<Decision> take() { return std::move(all_); }

 private:
  const Strategy& best_;
  std::vector<Decision> all_;
};

// What people weigh first comes first: later ones may find no time left.
std::vector<Decision> decisions_of(const ModelSpec& m, const Strategy& s) {
  const std::int64_t gpus = num_gpus(s);
  Decisions list(s);
  list.add_degree("tp", s.tp, gpus);
  if (s.pp > 2) list.add("pp", std::int64_t{1});
  list.add_degree("pp", s.pp, std::min(gpus, m.num_layers));
  for (int stage = 0; stage <= 3; ++stage) list.add("zero", stage);
  for (const Recompute kind : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    list.add("recompute", kind);
  }
  if (s.cp > 1) list.add("cp", std::int64_t{1});
  if (s.ep > 1) list.add_degree("ep", s.ep, gpus);
  if (s.pp > 1) list.add("schedule", kPlainSchedule);
  if (s.offload.optimizer) list.add("offload.optimizer", false);
  if (s.offload.activations) list.add("offload.activations", false);
  if (s.sequence_parallel && s.ep == 1) list.add("sequence_parallel", false);
  if (s.flash_attention) list.add("flash_attention", false);
  return list.take();
}

// Whether the request leaves this value open. One that is fixed has no alternative.
bool is_open(const SearchRequest& request, const Decision& d) {
  Strategy s = request.base;
  if (!assign(s, d.key, d.value)) return false;
  return std::all_of(request.limits.begin(), request.limits.end(),
                     [&](const Limit& limit) { return limit.key != d.key || satisfies(s, limit); });
}

class Comparison {
 public:
  Comparison(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
             const SearchResult& result, SearchCaches* caches)
      : model_(m), cluster_(c), result_(result), request_(request), caches_(caches) {
    request_.top = 1;
    request_.plans_only = true;
    request_.with_closest_miss = false;
    request_.cutoff = kFarSlower * result.plans.front().step_time.si();
  }

  [[nodiscard]] Rival run(const Decision& d, Seconds limit) const {
    Rival rival;
    rival.key = d.key;
    rival.value = key_text(d.value);
    const Limit only{d.key, LimitOp::kEqual, {d.value}};
    // Plans are ranked: the first of the list with that value is the best one with it.
    for (const PlanCost& plan : result_.plans) {
      if (!satisfies(plan.strategy, only)) continue;
      rival.plan = plan;
      return rival;
    }
    SearchRequest narrow = request_;
    narrow.limits.push_back(only);
    narrow.time_limit = limit;
    // A value that the space has no strategy with is an error of its search.
    const Result<SearchResult> found = search(model_, cluster_, narrow, {}, caches_);
    rival.exact =
        found && found->proof.exact && found->statistics.illegal < found->statistics.space_size;
    if (found && !found->plans.empty()) rival.plan = found->plans.front();
    return rival;
  }

 private:
  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const SearchResult& result_;
  SearchRequest request_;
  SearchCaches* caches_;
};

}  // namespace

std::vector<Rival> rivals(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                          const SearchResult& result, Seconds budget, SearchCaches* caches) {
  std::vector<Rival> all;
  if (result.plans.empty() || !result.proof.exact || request.objective == Objective::kMemory) {
    return all;
  }
  const Comparison comparison(m, c, request, result, caches);
  const Clock::time_point start = Clock::now();
  std::vector<Decision> open = decisions_of(m, result.plans.front().strategy);
  std::erase_if(open, [&](const Decision& d) { return !is_open(request, d); });
  for (std::size_t i = 0; i < open.size() && !is_interrupted(request); ++i) {
    const Seconds used{std::chrono::duration<double>(Clock::now() - start).count()};
    // Twice its share: most need far less of it, and what is left goes to the others.
    const Seconds most = (budget - used) * (2.0 / static_cast<double>(open.size() - i + 1));
    if (most <= Seconds{}) break;
    all.push_back(comparison.run(open[i], most));
  }
  return all;
}

Seconds rival_budget(const SearchRequest& request, const SearchResult& result) {
  constexpr Seconds kLeast{2};
  const Seconds wall = result.statistics.wall;
  const Seconds budget = std::max(kLeast, wall / 2);
  return request.time_limit ? std::min(budget, *request.time_limit - wall) : budget;
}

}  // namespace meshplan
