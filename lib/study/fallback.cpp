#include "study/fallback.hpp"

#include <algorithm>
#include <map>

#include "study/steps.hpp"

namespace meshplan {
namespace {

// Fewer nodes than these are rarely faster: three sizes that the job divides over, and never below
// half.
constexpr int kSizesTried = 3;

// The fastest plan known, on so many nodes.
struct Fastest {
  std::optional<PlanCost> plan;
  std::int64_t nodes = 0;
};

// From the largest loss to the smallest: nodes may idle, so what is best after a larger loss is a
// plan after a smaller one too, and only faster ones are looked for.
class Book {
 public:
  Book(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request)
      : model_(m), cluster_(c), request_(request) {
    request_.objective = Objective::kStepTime;
    request_.top = 1;
    request_.with_closest_miss = false;
    request_.plans_only = true;
  }

  Diagnostics run(Fallback& entry, const Progress& progress, bool& exact) {
    int tried = 0;
    const std::int64_t least = (entry.nodes_left + 1) / 2;
    for (std::int64_t n = entry.nodes_left; n >= least && tried < kSizesTried; --n) {
      if (progress) progress({.share = static_cast<double>(tried) / kSizesTried});
      if (!known_.contains(n)) {
        const Diagnostics problems = look_up(n, exact);
        if (!problems.empty()) return problems;
      }
      tried += known_[n] ? 1 : 0;
    }
    entry.plan = fastest_.plan;
    entry.nodes_used = fastest_.nodes;
    return {};
  }

 private:
  // Takes the best plan of so many nodes if it is faster than all of those before.
  Diagnostics look_up(std::int64_t nodes, bool& exact) {
    const ClusterSpec c = with_gpus(cluster_, nodes * cluster_.gpus_per_node);
    request_.cutoff = std::nullopt;
    if (fastest_.plan) request_.cutoff = fastest_.plan->step_time.si();
    const Result<SearchResult> result = search(model_, c, request_);
    if (!result) return result.errors();
    exact = exact && result->proof.exact;
    const SearchStatistics& s = result->statistics;
    known_[nodes] = s.space_size > s.illegal && (fastest_.plan || !result->plans.empty());
    if (result->plans.empty()) return {};
    const PlanCost& plan = result->plans.front();
    const bool faster = !fastest_.plan || plan.step_time < fastest_.plan->step_time;
    const bool as_fast = fastest_.plan && plan.step_time == fastest_.plan->step_time;
    if (faster || (as_fast && nodes > fastest_.nodes)) fastest_ = {plan, nodes};
    return {};
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  SearchRequest request_;
  Fastest fastest_;
  std::map<std::int64_t, bool> known_;  // by nodes: whether the job divides over them
};

}  // namespace

std::vector<std::int64_t> losses(std::int64_t nodes) {
  std::vector<std::int64_t> all;
  for (std::int64_t lost = 1; nodes - lost >= std::max<std::int64_t>(1, nodes / 2); lost *= 2) {
    all.push_back(lost);
  }
  return all;
}

Result<FallbackBook> fallback_book(const ModelSpec& m, const ClusterSpec& c,
                                   const SearchRequest& request, const PlanCost& best,
                                   const Progress& progress) {
  FallbackBook book;
  const std::vector<std::int64_t> all = losses(c.nodes);
  const Steps steps(progress, all.size());
  Book study(m, c, request);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Fallback entry;
    entry.nodes_lost = all[all.size() - 1 - i];
    entry.nodes_left = c.nodes - entry.nodes_lost;
    const Diagnostics problems = study.run(entry, steps.of(i), book.exact);
    if (!problems.empty()) return problems;
    book.entries.push_back(std::move(entry));
  }
  std::reverse(book.entries.begin(), book.entries.end());
  for (Fallback& entry : book.entries) {
    if (!entry.plan) continue;
    entry.slowdown = entry.plan->step_time / best.step_time;
    entry.reshard = reshard(best.strategy, entry.plan->strategy);
  }
  return book;
}

}  // namespace meshplan
