#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "cost/order.hpp"
#include "cost/uncertainty.hpp"
#include "errors.hpp"
#include "frameworks/preset.hpp"
#include "mapping.hpp"
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
  return key + "|" + code_name(s) + "|" + std::string(name_of(s.precision));
}

constexpr std::size_t kPairsPerSource = 3000;

std::vector<OrderedPair> thinned(const std::vector<OrderedPair>& pairs) {
  const std::size_t n = std::min(pairs.size(), kPairsPerSource);
  std::vector<OrderedPair> some;
  for (std::size_t i = 0; i < n; ++i) some.push_back(pairs[i * pairs.size() / n]);
  return some;
}

TimeResidual time_residual(const Prediction& p, std::size_t source, Regime regime) {
  const Strategy& s = p.cost.strategy;
  return {source,      regime,
          p.device,    full_name(preset_of(s)),
          num_gpus(s), std::log(*p.run->step_time / p.cost.step_time)};
}

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// What a run without published memory says of its error, from whether it ran.
Censored from_outcome(const Prediction& p, bool whole_device) {
  const MemoryBreakdown& m = p.cost.memory();
  const double unseen = whole_device ? 0 : (m.context + m.communicators).si();
  const double limit = std::log((m.capacity.si() - unseen) / (m.peak.si() - unseen));
  const bool ran = p.source->use == Use::kScore;
  return ran ? Censored{-kUnbounded, limit} : Censored{limit, kUnbounded};
}

void add_outcomes(Residuals& all, const std::vector<Prediction>& shipped) {
  std::set<std::size_t> by_device;  // sources that publish what the device counts
  for (const MemoryResidual& r : all.memory) {
    if (r.whole_device) by_device.insert(r.source);
  }
  for (const auto& [p, source] : with_both_outcomes(shipped, all.sources)) {
    const bool ran = p->source->use == Use::kScore;
    if (ran && p->run->memory) continue;
    const bool whole_device = by_device.contains(source);
    all.memory.push_back({source, whole_device, from_outcome(*p, whole_device)});
  }
}

}  // namespace

std::vector<std::pair<const Prediction*, std::size_t>> with_both_outcomes(
    const std::vector<Prediction>& predictions, const std::vector<std::string>& sources) {
  std::map<std::size_t, std::string> titles;  // of scored sources
  std::set<std::string> ran_out;
  for (const Prediction& p : predictions) {
    const auto at = std::find(sources.begin(), sources.end(), p.source->name);
    if (at != sources.end())
      titles[static_cast<std::size_t>(at - sources.begin())] = p.source->title;
    if (p.source->use != Use::kScore && is_out_of_memory(p.run->status))
      ran_out.insert(p.source->title);
  }
  std::vector<std::pair<const Prediction*, std::size_t>> chosen;
  for (const auto& scored : titles) {
    const std::size_t number = scored.first;
    const auto same = [&](const std::string& other) { return other.starts_with(scored.second); };
    if (std::none_of(ran_out.begin(), ran_out.end(), same)) continue;
    for (const Prediction& p : predictions) {
      const bool ran = p.source->use == Use::kScore;
      if (ran ? p.source->name == sources[number]
              : is_out_of_memory(p.run->status) && same(p.source->title))
        chosen.emplace_back(&p, number);
    }
  }
  return chosen;
}

void add_unfitted(Residuals& residuals, const std::vector<Prediction>& unfitted) {
  std::map<std::string, std::size_t> numbers;
  for (const Prediction& p : unfitted) {
    const auto [at, added] = numbers.emplace(p.source->name, residuals.sources.size());
    if (added) residuals.sources.push_back(p.source->name);
    residuals.time.push_back(time_residual(p, at->second, regime_of(p.cost)));
  }
}

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
    all.time.push_back(time_residual(p, source, regimes.at(p.run)));
    if (p.searched.empty()) sweeps[{source, sweep_of(p)}].push_back(&p);
    if (!p.run->memory) continue;
    const MemoryKind kind = p.run->memory->kind;
    const Bytes predicted = comparable_memory(p.cost, kind);
    const double log_ratio = std::log(p.run->memory->peak.si() / predicted.si());
    all.memory.push_back({source, kind == MemoryKind::kDevice, {log_ratio, log_ratio}});
  }
  add_outcomes(all, shipped);
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
