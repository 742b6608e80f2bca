#include "partition/divide.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "schedule/traits.hpp"

namespace meshplan {

namespace {

std::optional<Division> best_of(const Stages& stages, const StageContext& x,
                                const std::vector<std::vector<std::int64_t>>& partitions) {
  std::optional<Division> best;
  for (const std::vector<std::int64_t>& given : partitions) {
    const std::optional<Division> d =
        stages.with_layers(given.empty() ? stage_layers(x.strategy, x.model) : given);
    if (d && (!best || stages.prefers(*d, *best))) best = d;
  }
  return best;
}

// Of divisions whose rounds have the context's totals; `best`: the best with other totals, replaced
// if one of these ranks before it.
Divided divide_rounds(const StageContext& x, Stages& stages, const DivisionRules& rules,
                      double most, std::optional<Division>& best) {
  std::optional<Division> found;
  Divided result;
  switch (rules.partition) {
    case PartitionRule::kAny: {
      const std::int64_t limit =
          std::min(stages.max_bottleneck(most), best ? stages.most_useful(*best) : kUnbounded);
      const bool unlimited = limit >= kUnbounded / 4;
      result.fits = unlimited ? stages.may_fit() : true;
      stages.limit_to(limit);
      if (!result.fits || (!unlimited && !stages.may_fit_limit())) return result;
      const std::int64_t least = stages.min_bottleneck(limit);
      Partitioner<Stages> partitioner(stages);
      found = stages.measures_memory()
                  ? partitioner.min_bottleneck(least, limit)
                  : partitioner.best(stages.weight(), stages.least_sum(), least, limit);
      if (unlimited && x.counts == CountRule::kUniform) result.fits = found.has_value();
      break;
    }
    case PartitionRule::kEven:
      found = best_of(stages, x, {{}});
      result.fits = found.has_value();
      break;
    case PartitionRule::kGiven:
      found = best_of(stages, x, rules.given);
      result.fits = found.has_value();
      break;
  }
  if (!found || (best && !stages.prefers(*found, *best))) return result;
  result.lists = stages.lists(*found);
  best = std::move(found);
  return result;
}

Divided divide_all(const StageContext& x, const DivisionRules& rules, double most) {
  std::optional<Division> best;
  Divided all;
  for_each_rounds(x, rules, [&](const StageContext& of_rounds) {
    Stages stages(of_rounds);
    Divided divided = divide_rounds(of_rounds, stages, rules, most, best);
    all.fits |= divided.fits;
    all.effort += stages.worked_out();
    if (divided.lists) all.lists = std::move(divided.lists);
    return x.measure == Measure::kMemory || !all.lists;
  });
  return all;
}

constexpr double kUnlimited = 1e18;  // seconds: whatever fits

constexpr std::int64_t kAllLayers = std::numeric_limits<std::int64_t>::max();

// Whether a division of these stages lets a step take `most` seconds or less.
bool can_divide(Stages& stages, double most) {
  const std::int64_t limit = stages.max_bottleneck(most);
  stages.limit_to(limit);
  if (!stages.may_fit_limit()) return false;
  std::int64_t over = 0;
  if (stages.are_alike() && !stages.reach_all(limit, over)) return false;
  const bool known = stages.are_alike() && !stages.layout().takes_from_back();
  if (known && !stages.knows_chains()) return true;
  return Partitioner<Stages>(stages).is_possible(limit);
}

// may_divide_within() of several numbers of recomputed layers. Divisions of totals that nobody asks
// about are not prepared.
class CountsAsked {
 public:
  CountsAsked(const StageContext& x, const DivisionRules& rules, double most)
      : context_(x), rules_(rules), most_(most) {}

  // Whether ranks may recompute `uniform` layers or more, and `most_recomputed` or fewer.
  [[nodiscard]] bool may_divide(std::int64_t uniform, std::int64_t most_recomputed) {
    bool may = false;
    std::size_t i = 0;
    for_each_rounds(context_, rules_, [&](const StageContext& x) {
      if (i == of_rounds_.size()) of_rounds_.push_back(std::make_unique<Stages>(x));
      Stages& stages = *of_rounds_[i++];
      stages.set_counts(uniform, most_recomputed);
      may = can_divide(stages, most_);
      return !may;
    });
    return may;
  }

  [[nodiscard]] std::int64_t effort() const {
    std::int64_t all = 0;
    for (const std::unique_ptr<Stages>& stages : of_rounds_) all += stages->worked_out();
    return all;
  }

 private:
  const StageContext& context_;
  const DivisionRules& rules_;
  double most_;
  std::vector<std::unique_ptr<Stages>> of_rounds_;
};

// Numbers of recomputed layers, the same on every rank, that some division may allow.
struct UniformCounts {
  std::int64_t fewest = 1, most = 0;  // none where fewest > most
  std::int64_t effort = 0;            // to find out, as in Divided
};

// A division whose ranks all recompute u layers is one of those whose ranks recompute what they
// must, but u or more, and of those whose ranks recompute what they must, but u or fewer: of either
// there are the more the smaller, and the larger, u is. So both ends of the numbers that come into
// question are found by halving. `step`: numbers are multiples of it.
UniformCounts uniform_counts(StageContext x, const DivisionRules& rules, double most,
                             std::int64_t step) {
  x.counts = CountRule::kFewest, x.uniform = step;
  const std::int64_t all = (x.model.num_layers + step - 1) / step;
  CountsAsked asked(x, rules, most);
  const auto from = [&](std::int64_t n) { return asked.may_divide(n * step, kAllLayers); };
  if (!from(1)) return {.effort = asked.effort()};
  std::int64_t low = 1, high = all;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (from(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::int64_t last = low;
  const auto up_to = [&](std::int64_t n) { return asked.may_divide(step, n * step); };
  low = 1, high = last;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (up_to(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return {low * step, last * step, asked.effort()};
}

}  // namespace

bool may_divide_within(const StageContext& context, const DivisionRules& rules, double most) {
  bool may = false;
  for_each_rounds(context, rules, [&](const StageContext& x) {
    Stages stages(x);
    may = can_divide(stages, most);
    return !may;
  });
  return may;
}

std::vector<Rounds> given_rounds(const StageContext& x, const DivisionRules& rules) {
  const Strategy& s = x.strategy;
  std::vector<std::vector<std::int64_t>> given = rules.given;
  if (rules.partition == PartitionRule::kEven) given = {{}};
  std::set<RoundTotals> all;
  for (std::vector<std::int64_t>& layers : given) {
    if (layers.empty()) layers = stage_layers(s, x.model);
    const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
    if (sum == x.model.num_layers) all.insert(round_totals(layers, s.vp));
  }
  std::vector<Rounds> rounds;
  for (const RoundTotals& totals : all) rounds.emplace_back(totals, s.pp);
  return rounds;
}

Divided divide(StageContext context, const DivisionRules& rules, double most) {
  if (context.counts != CountRule::kUniform) return divide_all(context, rules, most);
  // The same number in every chunk of a rank: the fewest with which there is a division.
  const std::int64_t step = context.strategy.vp;
  UniformCounts counts{step, context.model.num_layers + step - 1};
  const bool halve = rules.partition == PartitionRule::kAny && context.measure == Measure::kTime &&
                     traits_of(context.strategy.schedule).layout != ChunkLayout::kBidirectional;
  if (halve) counts = uniform_counts(context, rules, most, step);
  Divided none;
  none.effort = counts.effort;
  none.fits = halve && most < kUnlimited;  // what is too slow may fit
  for (context.uniform = counts.fewest; context.uniform <= counts.most; context.uniform += step) {
    Divided divided = divide_all(context, rules, most);
    none.effort += divided.effort;
    if (divided.lists) {
      divided.effort = none.effort;
      return divided;
    }
    none.fits |= divided.fits;
  }
  return none;
}

}  // namespace meshplan
