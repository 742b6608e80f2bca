#include "study/fallback.hpp"

#include <algorithm>
#include <map>

#include "study/steps.hpp"

namespace meshplan {
namespace {

// Fewer nodes than these are rarely faster: three sizes that have plans, and never below half.
constexpr int kSizesTried = 3;

class Book {
 public:
  Book(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request)
      : model_(m), cluster_(c), request_(request) {
    request_.objective = Objective::kStepTime;
    request_.top = 1;
  }

  Diagnostics run(Fallback& entry, const Progress& progress, bool& exact) {
    int found = 0;
    const std::int64_t least = (entry.nodes_left + 1) / 2;
    for (std::int64_t n = entry.nodes_left; n >= least && found < kSizesTried; --n) {
      if (progress) progress(static_cast<double>(found) / kSizesTried);
      if (!known_.contains(n)) {
        Diagnostics problems = look_up(n, exact);
        if (!problems.empty()) return problems;
      }
      const std::optional<PlanCost>& plan = known_[n];
      if (!plan) continue;
      ++found;
      if (entry.plan && entry.plan->step_time <= plan->step_time) continue;
      entry.plan = plan;
      entry.nodes_used = n;
    }
    return {};
  }

 private:
  // The best plan of so many nodes, looked for once: small losses end at the same sizes.
  Diagnostics look_up(std::int64_t nodes, bool& exact) {
    const ClusterSpec c = with_gpus(cluster_, nodes * cluster_.gpus_per_node);
    const Result<SearchResult> result = search(model_, c, request_);
    if (!result) return result.errors();
    exact = exact && result->proof.exact;
    std::optional<PlanCost>& plan = known_[nodes];
    if (!result->plans.empty()) plan = result->plans.front();
    return {};
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  SearchRequest request_;
  std::map<std::int64_t, std::optional<PlanCost>> known_;  // by nodes
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
    entry.nodes_lost = all[i];
    entry.nodes_left = c.nodes - all[i];
    const Diagnostics problems = study.run(entry, steps.of(i), book.exact);
    if (!problems.empty()) return problems;
    book.entries.push_back(std::move(entry));
  }
  // More nodes may idle: what is best after a larger loss is a plan after a smaller one too.
  for (std::size_t i = book.entries.size(); i-- > 1;) {
    const Fallback& fewer = book.entries[i];
    Fallback& more = book.entries[i - 1];
    if (!fewer.plan || (more.plan && more.plan->step_time <= fewer.plan->step_time)) continue;
    more.plan = fewer.plan;
    more.nodes_used = fewer.nodes_used;
  }
  for (Fallback& entry : book.entries) {
    if (!entry.plan) continue;
    entry.slowdown = entry.plan->step_time / best.step_time;
    entry.reshard = reshard(best.strategy, entry.plan->strategy);
  }
  return book;
}

}  // namespace meshplan
