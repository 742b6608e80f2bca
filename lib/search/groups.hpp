#pragma once
// Ranked plans by what a person decides: the variants of one decision stand together.
#include <cstddef>
#include <string>
#include <vector>

#include "cost/plan_cost.hpp"

namespace meshplan {

// Indices into a list of ranked plans.
struct PlanGroup {
  std::size_t first = 0;              // the best one, which stands for the others
  std::vector<std::size_t> variants;  // the others, best first
  std::vector<std::string> keys;      // of the strategy, in which a variant differs from the first
};

// Whether two strategies have the same degrees, sharding, recomputation and offloading. Schedule,
// chunks, micro-batch, rank order, kind of context parallelism and the division of the layers are
// ways to run such a decision.
[[nodiscard]] bool same_decision(const Strategy& a, const Strategy& b);

// In the order of their first plans. A variant is of the same decision and practically tied with
// the first [F-UNC-4]; what is clearly slower is a group of its own.
[[nodiscard]] std::vector<PlanGroup> grouped(const std::vector<PlanCost>& plans);

// Only the plans of the first `most` groups.
void keep_groups(std::vector<PlanCost>& plans, std::size_t most);

// What a table calls each group's first plan: its short text, and the keys that this leaves out
// where plans with the same text differ in them, as "cp_kind=ulysses".
[[nodiscard]] std::vector<std::string> group_names(const std::vector<PlanCost>& plans,
                                                   const std::vector<PlanGroup>& groups);

}  // namespace meshplan
