#include "search/rivals.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "frameworks/assign.hpp"
#include "search/near.hpp"
#include "search/search_caches.hpp"
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
    if (value_text(best_, key) == key_text(value)) return;
    const bool known = std::any_of(all_.begin(), all_.end(), [&](const Decision& d) {
      return d.key == key && key_text(d.value) == key_text(value);
    });
    if (!known) all_.push_back({key, std::move(value)});
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
  if (s.overlap.ep) list.add("overlap.ep", false);
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

  // What is known without a search.
  [[nodiscard]] Rival known(const Decision& d) const {
    Rival rival{d.key, key_text(d.value), false, std::nullopt};
    // Plans are ranked: the first of the list with that value is the best one with it.
    for (const PlanCost& plan : result_.plans) {
      if (!satisfies(plan.strategy, only(d))) continue;
      rival.plan = plan, rival.exact = plan.step_time.si() <= result_.proof.ranked_to;
      return rival;
    }
    const MetPlan* met = best_met(only(d));
    if (met != nullptr) rival.plan = full_plan(model_, cluster_, met->strategy);
    return rival;
  }

  // Looks for a better one: of what is usual near the best plan, or of everything. Takes the nodes
  // that it expands from `nodes`.
  void improve(Rival& rival, const Decision& d, bool everything, std::int64_t& nodes,
               const std::optional<Seconds>& time) {
    SearchRequest narrow = request_;
    narrow.limits.push_back(only(d));
    narrow.time_limit = time;
    narrow.node_limit = nodes;
    narrow.usual_only = !everything;
    Space space;
    if (is_of_search(d)) {
      space = space_of(narrow, d);
    } else if (everything && nodes < nodes_of_space(result_)) {
      return;
    }
    if (!everything) {
      const std::size_t before = narrow.limits.size();
      keep_near(narrow, result_.plans.front().strategy, d.key);
      space = narrowed(space, {narrow.limits.begin() + static_cast<std::ptrdiff_t>(before),
                               narrow.limits.end()});
    }
    if (rival.plan) narrow.cutoff = rival.plan->step_time.si();
    const Result<SearchResult> found =
        search(model_, cluster_, narrow, {}, caches_, std::move(space));
    if (!found || found->statistics.illegal == found->statistics.space_size) return;
    nodes -= found->statistics.nodes;
    rival.exact = found->proof.exact;
    if (!found->plans.empty()) rival.plan = found->plans.front();
  }

 private:
  static Limit only(const Decision& d) { return {d.key, LimitOp::kEqual, {d.value}}; }

  using Space = std::shared_ptr<const SearchSpace>;

  // Whether that decision's space is one of the search's with shorter lists.
  [[nodiscard]] bool is_of_search(const Decision& d) const {
    return result_.space != nullptr &&
           (SearchSpace::can_narrow({only(d)}) || SearchSpace::can_relist({only(d)}));
  }

  // Nothing where that must be made from the request.
  static Space narrowed(const Space& space, const std::vector<Limit>& limits) {
    if (space == nullptr || !SearchSpace::can_narrow(limits)) return nullptr;
    return std::make_shared<const SearchSpace>(space->narrowed(limits));
  }

  // Of everything with that decision, which is_of_search(). One that takes longer to make is kept
  // for its second search.
  Space space_of(const SearchRequest& narrow, const Decision& d) {
    if (Space space = narrowed(result_.space, {only(d)})) return space;
    const auto known = std::find_if(made_.begin(), made_.end(),
                                    [&](const auto& made) { return made.first == only(d); });
    if (known != made_.end()) return known->second;
    SpaceMemo* memo = caches_ == nullptr ? nullptr : &caches_->spaces;
    const auto space = std::make_shared<const SearchSpace>(
        result_.space->relisted(model_, cluster_, narrow, memo));
    made_.emplace_back(only(d), space);
    return space;
  }

  // Of those that are not far slower.
  [[nodiscard]] const MetPlan* best_met(const Limit& only) const {
    const MetPlan* best = nullptr;
    for (const MetPlan& plan : result_.met) {
      if (plan.step_time.si() > *request_.cutoff || !satisfies(plan.strategy, only)) continue;
      if (best == nullptr || plan.step_time < best->step_time) best = &plan;
    }
    return best;
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const SearchResult& result_;
  SearchRequest request_;
  SearchCaches* caches_;
  std::vector<std::pair<Limit, Space>> made_;
};

}  // namespace

std::vector<Rival> rivals(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                          const SearchResult& result, const RivalBudget& budget,
                          SearchCaches* caches, const Progress& progress) {
  std::vector<Rival> all;
  if (result.plans.empty() || !result.proof.exact || request.objective == Objective::kMemory) {
    return all;
  }
  if (budget.nodes <= 0 || is_interrupted(request)) return all;
  Comparison comparison(m, c, request, result, caches);
  const Clock::time_point start = Clock::now();
  std::vector<Decision> open = decisions_of(m, result.plans.front().strategy);
  std::erase_if(open, [&](const Decision& d) { return !is_open(request, d); });
  for (const Decision& d : open) all.push_back(comparison.known(d));
  std::int64_t nodes = budget.nodes;
  std::size_t done = 0;
  for (const bool everything : {false, true}) {
    for (std::size_t i = 0; i < open.size() && !is_interrupted(request); ++i, ++done) {
      if (progress) {
        progress({.share = static_cast<double>(done) / static_cast<double>(2 * open.size())});
      }
      if (all[i].exact) continue;
      // Twice its share: most need far less of it, and what is left goes to the others.
      const auto left = static_cast<std::int64_t>(open.size() - i) + 1;
      std::int64_t mine = std::max<std::int64_t>(1, 2 * nodes / left);
      std::optional<Seconds> time;
      if (budget.time) {
        const Seconds used{std::chrono::duration<double>(Clock::now() - start).count()};
        time = (*budget.time - used) * (2.0 / static_cast<double>(left));
        if (*time <= Seconds{}) return all;
      }
      if (nodes <= 0) return all;
      nodes -= mine;
      comparison.improve(all[i], open[i], everything, mine, time);
      nodes += mine;
    }
  }
  return all;
}

std::int64_t nodes_for_comparison(const SearchResult& result) {
  constexpr std::int64_t kLeast = 2560;
  return std::max(kLeast, result.statistics.nodes / 8);
}

std::int64_t nodes_of_space(const SearchResult& result) {
  constexpr std::int64_t kEachMesh = 2, kUnknown = 512;
  if (result.space == nullptr) return kUnknown;
  return kEachMesh * static_cast<std::int64_t>(result.space->meshes().size());
}

RivalBudget rival_budget(const SearchRequest& request, const SearchResult& result) {
  RivalBudget budget{nodes_for_comparison(result), std::nullopt};
  const Seconds wall = result.statistics.wall;
  if (request.time_limit) budget.time = std::min(wall / 2, *request.time_limit - wall);
  return budget;
}

}  // namespace meshplan
