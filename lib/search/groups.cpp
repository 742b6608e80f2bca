#include "search/groups.hpp"

#include <algorithm>
#include <tuple>

#include "cost/order.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

auto decision_of(const Strategy& s) {
  return std::tie(s.tp, s.pp, s.cp, s.ep, s.etp, s.dp, s.zero, s.zero_group, s.recompute,
                  s.offload.optimizer, s.offload.activations);
}

std::vector<std::string> differing_keys(const Strategy& a, const Strategy& b) {
  std::vector<std::string> keys;
  for (const std::string_view key : strategy_keys()) {
    if (value_text(a, key) != value_text(b, key)) keys.emplace_back(key);
  }
  return keys;
}

void add_new(const std::vector<std::string>& keys, std::vector<std::string>& all) {
  for (const std::string& key : keys) {
    if (std::find(all.begin(), all.end(), key) == all.end()) all.push_back(key);
  }
}

}  // namespace

bool same_decision(const Strategy& a, const Strategy& b) {
  return decision_of(a) == decision_of(b);
}

std::vector<PlanGroup> grouped(const std::vector<PlanCost>& plans) {
  std::vector<PlanGroup> groups;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const PlanCost& plan = plans[i];
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const PlanGroup& g) {
      const PlanCost& first = plans[g.first];
      return same_decision(first.strategy, plan.strategy) && practically_tied(first, plan);
    });
    if (group == groups.end()) {
      groups.push_back({i, {}, {}});
      continue;
    }
    group->variants.push_back(i);
    add_new(differing_keys(plans[group->first].strategy, plan.strategy), group->keys);
  }
  return groups;
}

void keep_groups(std::vector<PlanCost>& plans, std::size_t most) {
  const std::vector<PlanGroup> groups = grouped(plans);
  if (groups.size() <= most) return;
  std::vector<bool> kept(plans.size(), false);
  for (std::size_t g = 0; g < most; ++g) {
    kept[groups[g].first] = true;
    for (const std::size_t i : groups[g].variants) kept[i] = true;
  }
  std::size_t i = 0;
  std::erase_if(plans, [&](const PlanCost&) { return !kept[i++]; });
}

std::vector<std::string> group_names(const std::vector<PlanCost>& plans,
                                     const std::vector<PlanGroup>& groups) {
  std::vector<std::string> texts;
  for (const PlanGroup& g : groups) texts.push_back(short_text(plans[g.first].strategy));
  std::vector<std::string> names = texts;
  for (std::size_t a = 0; a < groups.size(); ++a) {
    const Strategy& s = plans[groups[a].first].strategy;
    std::vector<std::string> keys;
    for (std::size_t b = 0; b < groups.size(); ++b) {
      if (a == b || texts[a] != texts[b]) continue;
      add_new(differing_keys(s, plans[groups[b].first].strategy), keys);
    }
    for (const std::string& key : keys) names[a] += " " + key + "=" + value_text(s, key);
  }
  return names;
}

}  // namespace meshplan
