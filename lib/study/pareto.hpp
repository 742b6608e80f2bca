#pragma once
// Plans that no other plan beats in everything: step time, memory, devices and price.
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "search/search.hpp"

namespace meshplan {

struct ParetoPoint {
  std::int64_t gpus = 0;
  PlanCost plan;

  [[nodiscard]] Bytes headroom() const { return plan.memory().capacity - plan.memory().peak; }
};

// True if `a` is at least as good as `b` in step time, memory left and devices, and better in one.
// A step's price is devices x time x rate: it cannot be worse where neither factor is, so a fourth
// comparison would change nothing.
[[nodiscard]] bool dominates(const ParetoPoint& a, const ParetoPoint& b);

// The points that no other one dominates, fastest first; of equal ones the first.
[[nodiscard]] std::vector<ParetoPoint> non_dominated(std::vector<ParetoPoint> points);

struct ParetoFront {
  std::vector<ParetoPoint> points;  // fastest first
  Bytes resolution;                 // plans nearer to one another in memory are left out
  bool exact = true;                // every search ran to its end
};

// [F-PARETO-1] The fastest plan within a memory budget of M, then within that plan's peak less the
// resolution, and so on until nothing fits: every point is the optimum of its budget.
// Haimes, Lasdon and Wismer 1971 (epsilon-constraint method), IEEE Trans. SMC 1(3).
//
// The request's objective is ignored. Fails if a size is no cluster or the request is invalid.
[[nodiscard]] Result<ParetoFront> pareto_front(const ModelSpec& m, const ClusterSpec& c,
                                               const SearchRequest& request,
                                               std::span<const std::int64_t> sizes,
                                               Bytes resolution, const Progress& progress = {});

}  // namespace meshplan
