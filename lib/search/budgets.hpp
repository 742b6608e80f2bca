#pragma once
// The fastest plans of one job with less and less device memory.
#include <memory>
#include <optional>

#include "search/search.hpp"

namespace meshplan {

class BudgetSearch {
 public:
  // The request's objective, number of plans and cutoff are ignored. Fails as search() does.
  [[nodiscard]] static Result<BudgetSearch> make(const ModelSpec& m, const ClusterSpec& c,
                                                 const SearchRequest& request);
  ~BudgetSearch();
  BudgetSearch(BudgetSearch&&) noexcept;
  BudgetSearch& operator=(BudgetSearch&&) noexcept;

  struct Fastest {
    std::optional<Strategy> strategy;  // none if nothing fits
    bool exact = true;                 // the search ran to its end
  };
  // What search() finds on devices with so much memory. Budgets must fall.
  [[nodiscard]] Fastest within(Bytes budget);

 private:
  struct State;
  explicit BudgetSearch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshplan
