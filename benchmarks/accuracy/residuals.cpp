#include <cmath>
#include <map>

#include "cost/order.hpp"
#include "cost/uncertainty.hpp"
#include "errors.hpp"
#include "summary.hpp"

namespace meshplan::accuracy {
namespace {

std::vector<OrderedPair> pairs_of(const std::vector<const Prediction*>& sweep, std::size_t source) {
  std::vector<OrderedPair> pairs;
  for (std::size_t i = 0; i < sweep.size(); ++i) {
    for (std::size_t j = i + 1; j < sweep.size(); ++j) {
      const Prediction* fast = sweep[i];
      const Prediction* slow = sweep[j];
      if (fast->cost.step_time > slow->cost.step_time) std::swap(fast, slow);
      const double ratio = std::log(slow->cost.step_time / fast->cost.step_time);
      // Repeats of one configuration have no order.
      if (ratio < 1e-9 || *fast->run->step_time == *slow->run->step_time) continue;
      pairs.push_back({source, ratio, differing_share(fast->cost, slow->cost),
                       *fast->run->step_time < *slow->run->step_time});
    }
  }
  return pairs;
}

std::string sweep_of(const Prediction& p) {
  const Strategy& s = p.cost.strategy;
  std::string key = choice_group(*p.run) + "|" + p.run->gpu + "|" + p.cluster;
  return key + "|" + std::string(name_of(s.framework)) + "|" + std::string(name_of(s.precision));
}

constexpr std::size_t kPairsPerSource = 3000;

std::vector<OrderedPair> thinned(const std::vector<OrderedPair>& pairs) {
  const std::size_t n = std::min(pairs.size(), kPairsPerSource);
  std::vector<OrderedPair> some;
  for (std::size_t i = 0; i < n; ++i) some.push_back(pairs[i * pairs.size() / n]);
  return some;
}

}  // namespace

Residuals residuals_of(const std::vector<Prediction>& held_out,
                       const std::vector<Prediction>& shipped) {
  Residuals all;
  std::map<const Run*, Regime> regimes;
  for (const Prediction& p : shipped) regimes[p.run] = regime_of(p.cost);
  std::map<std::string, std::size_t> numbers;
  std::map<std::pair<std::size_t, std::string>, std::vector<const Prediction*>> sweeps;
  for (const Prediction& p : held_out) {
    const auto [at, added] = numbers.emplace(p.source->name, numbers.size());
    if (added) all.sources.push_back(p.source->name);
    const std::size_t source = at->second;
    const Strategy& s = p.cost.strategy;
    all.time.push_back({source, regimes.at(p.run), p.device, s.framework, num_gpus(s),
                        std::log(*p.run->step_time / p.cost.step_time)});
    if (p.searched.empty()) sweeps[{source, sweep_of(p)}].push_back(&p);
    if (!p.run->memory) continue;
    const MemoryKind kind = p.run->memory->kind;
    const Bytes predicted = comparable_memory(p.cost.memory(), kind);
    all.memory.push_back(
        {source, kind == MemoryKind::kDevice, std::log(p.run->memory->peak.si() / predicted.si())});
  }
  std::vector<std::vector<OrderedPair>> by_source(all.sources.size());
  for (const auto& [key, sweep] : sweeps) {
    if (sweep.size() < kSmallestGroup) continue;
    for (const OrderedPair& pair : pairs_of(sweep, key.first)) by_source[key.first].push_back(pair);
  }
  for (const auto& pairs : by_source) {
    for (const OrderedPair& pair : thinned(pairs)) all.pairs.push_back(pair);
  }
  return all;
}

}  // namespace meshplan::accuracy
