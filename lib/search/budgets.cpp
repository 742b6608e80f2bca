#include "search/budgets.hpp"

#include <chrono>
#include <utility>

#include "search/best_first.hpp"

namespace meshplan {

struct BudgetSearch::State {
  State(const ModelSpec& m, const ClusterSpec& c, SearchRequest r, SearchSpace s)
      : model(m),
        cluster(c),
        request(std::move(r)),
        space(std::move(s)),
        context(model, cluster, request, space),
        pool(request.threads),
        search(context, pool) {}

  ModelSpec model;
  ClusterSpec cluster;
  SearchRequest request;
  SearchSpace space;
  SearchContext context;
  WorkerPool pool;
  FallingBudgets search;
};

BudgetSearch::BudgetSearch(std::unique_ptr<State> state) : state_(std::move(state)) {}
BudgetSearch::~BudgetSearch() = default;
BudgetSearch::BudgetSearch(BudgetSearch&&) noexcept = default;
BudgetSearch& BudgetSearch::operator=(BudgetSearch&&) noexcept = default;

Result<BudgetSearch> BudgetSearch::make(const ModelSpec& m, const ClusterSpec& c,
                                        const SearchRequest& request) {
  SearchRequest plain = request;
  plain.objective = Objective::kStepTime;
  plain.top = 1;
  plain.cutoff = std::nullopt;
  plain.plans_only = true;
  plain.memory_risk = 1;  // the budgets say what may be taken
  Result<SearchSpace> space = SearchSpace::make(m, c, plain);
  if (!space) return space.errors();
  return BudgetSearch(std::make_unique<State>(m, c, std::move(plain), std::move(space).value()));
}

BudgetSearch::Fastest BudgetSearch::within(Bytes budget) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const std::optional<Seconds> limit = state_->request.time_limit;
  const Outcome outcome = state_->search.within(budget, [&] {
    const Seconds gone{std::chrono::duration<double>(Clock::now() - start).count()};
    return is_interrupted(state_->request) || (limit && gone >= *limit);
  });
  Fastest fastest;
  fastest.exact = outcome.exact;
  if (!outcome.best.empty()) fastest.strategy = outcome.best.front().strategy;
  return fastest;
}

}  // namespace meshplan
