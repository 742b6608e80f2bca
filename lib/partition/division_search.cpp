#include "partition/division_search.hpp"

#include <algorithm>
#include <utility>

#include "partition/divide.hpp"
#include "partition/rounds_search.hpp"

namespace meshplan {
namespace {

// Of divisions whose rounds have the context's totals.
bool search_rounds(const DivisionQuery& q, DivisionSearch& search) {
  const StageContext& x = q.context;
  switch (q.rules.partition) {
    case PartitionRule::kAny:
      return search.try_every();
    case PartitionRule::kEven:
      search.try_all({stage_layers(x.strategy, x.model)});
      return true;
    case PartitionRule::kGiven: {
      std::vector<std::vector<std::int64_t>> all = q.rules.given;
      for (std::vector<std::int64_t>& layers : all) {
        if (layers.empty()) layers = stage_layers(x.strategy, x.model);
      }
      std::erase_if(all, [&](const std::vector<std::int64_t>& layers) {
        return static_cast<std::int64_t>(layers.size()) != x.strategy.pp;
      });
      search.try_all(all);
      return true;
    }
  }
  return true;
}

FastestDivision search_divisions(DivisionQuery q, const StageContext& context) {
  FastestDivision best;
  double least = 1e300;
  std::int64_t effort = q.effort;
  std::optional<Division> division;
  for_each_rounds(context, q.rules, [&](const StageContext& x) {
    DivisionSearch search(q, x, effort);
    const bool every = search_rounds(q, search);
    const FastestDivision found = search.result(every);
    effort = std::max<std::int64_t>(1, search.left());
    best.work += search.work();
    best.every = best.every && every;
    if (!every) least = std::min(least, found.least);
    if (!found.chains.chains.empty()) best.chains = found.chains;
    const bool goes_on = q.ask == DivisionAsk::kFastest || !search.gave_up();
    if (!found.lists || !search.improves(division, best.step_time)) return goes_on;
    best.lists = found.lists, best.step_time = found.step_time;
    division = search.best();
    q.most = std::min(q.most, best.step_time);
    return true;
  });
  best.least = best.every ? 0 : least;
  best.effort_left = effort;
  return best;
}

// Whether no number from the context's on allows a division within the limit; else what none of
// them undercuts. Takes a part of the effort.
FastestDivision search_from(const DivisionQuery& query, StageContext x) {
  constexpr std::int64_t kPart = 4;
  DivisionQuery q = query;
  q.ask = DivisionAsk::kAnyCounts;
  q.effort = std::max<std::int64_t>(1, q.effort / kPart);
  x.counts = CountRule::kFewest;
  FastestDivision found = search_divisions(q, x);
  found.effort_left = std::max<std::int64_t>(1, query.effort - (q.effort - found.effort_left));
  return found;
}

// The same number on every rank: more of them may allow a better division.
FastestDivision search_uniform(DivisionQuery q) {
  FastestDivision best;
  double least = 1e300;
  StageContext x = q.context;
  const std::int64_t step = x.strategy.vp;
  const bool many = q.rules.partition == PartitionRule::kAny;
  bool asks = many;  // whether any number from this one on may do
  for (x.uniform = step; x.uniform < x.model.num_layers + step; x.uniform += step) {
    if (asks) {
      const FastestDivision rest = search_from(q, x);
      best.work += rest.work;
      if (rest.every) break;
      if (q.effort <= 1) {
        best.every = false, least = std::min(least, rest.least);
        break;
      }
      q.effort = rest.effort_left;
    }
    const FastestDivision found = search_divisions(q, x);
    best.work += found.work;
    asks = many && found.effort_left < q.effort;
    q.effort = found.effort_left;
    const bool last = !may_have_more(x, x.uniform, q.most - q.end);
    if (!found.chains.chains.empty()) best.chains = found.chains, q.chains = &best.chains;
    best.every = best.every && found.every;
    if (!found.every) least = std::min(least, found.least);
    const bool better =
        found.lists &&
        (!best.lists || found.step_time < best.step_time * (1 - DivisionSearch::kSame));
    if (better) {
      best.lists = found.lists, best.step_time = found.step_time;
      q.most = std::min(q.most, best.step_time);
    }
    if (last) break;
  }
  best.least = best.every ? 0 : least;
  best.effort_left = q.effort;
  return best;
}

}  // namespace

bool takes_longer(const StageContext& context, const DivisionRules& rules, StepModelPool& models,
                  const Placement& placement, double most, std::int64_t& effort,
                  KnownChains& chains) {
  if (rules.partition != PartitionRule::kAny) return false;  // few divisions: each is tried
  DivisionQuery query{context, rules, models, placement, most, 0, false, effort, nullptr, &chains};
  query.ask = DivisionAsk::kAnySharding;
  FastestDivision found = search_divisions(query, context);
  effort = found.effort_left;
  if (!found.chains.chains.empty()) chains = std::move(found.chains);
  return found.every;
}

bool takes_longer_in_any_memory(DivisionQuery query, std::int64_t& work) {
  StageContext context = query.context;
  context.any_memory = true;
  context.counts = CountRule::kNone;
  query.ask = DivisionAsk::kAnyCounts;
  const FastestDivision found = search_divisions(query, context);
  work += found.work;
  return found.every;
}

FastestDivision fastest_division(const DivisionQuery& query) {
  if (query.context.counts == CountRule::kUniform) return search_uniform(query);
  return search_divisions(query, query.context);
}

}  // namespace meshplan
