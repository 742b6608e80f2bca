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

// Numbers of recomputed layers, the same on every rank, that some division may allow. A division
// whose ranks all recompute u layers is one of those whose ranks recompute what they must, but u or
// more, and of those whose ranks recompute what they must, but u or fewer: of either there are the
// more the smaller, and the larger, u is. Numbers are multiples of the chunks of a rank.
class UniformCounts {
 public:
  UniformCounts(const StageContext& context, const DivisionRules& rules, double most)
      : context_(of_fewest(context)), rules_(rules), most_(most), asked_(context_, rules, most) {}
  UniformCounts(const UniformCounts&) = delete;
  UniformCounts& operator=(const UniformCounts&) = delete;

  // The fewest, by halving; nothing where no number may do.
  [[nodiscard]] std::optional<std::int64_t> fewest() {
    const std::int64_t step = context_.strategy.vp;
    if (!has_time() || !may_be_more(step)) return std::nullopt;
    std::int64_t low = 1, high = ceil_div(context_.model.num_layers, step);
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (asked_.may_divide(step, middle * step)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low * step;
  }

  // Whether that number, or a larger one, may do.
  [[nodiscard]] bool may_be_more(std::int64_t n) {
    if (n > known_) known_ = asked_.may_divide(n, kAllLayers) ? n : known_;
    return n <= known_;
  }

  [[nodiscard]] std::int64_t effort() const { return asked_.effort(); }  // as in Divided

 private:
  // Whether there is for the least number, whatever memory there is: far less to work out.
  [[nodiscard]] bool has_time() const {
    if (context_.prefix.leading == 0 || most_ >= kUnlimited) return true;
    StageContext x = context_;
    x.any_memory = true;
    return may_divide_within(x, rules_, most_);
  }

  static StageContext of_fewest(StageContext x) {
    x.counts = CountRule::kFewest, x.uniform = x.strategy.vp;
    return x;
  }

  StageContext context_;
  const DivisionRules& rules_;
  double most_;
  CountsAsked asked_;
  std::int64_t known_ = 0;  // may_be_more() of it
};

}  // namespace

bool may_divide_within(const StageContext& context, const DivisionRules& rules, double most,
                       std::int64_t* effort) {
  bool may = false;
  for_each_rounds(context, rules, [&](const StageContext& x) {
    Stages stages(x);
    may = can_divide(stages, most);
    if (effort != nullptr) *effort += stages.worked_out();
    return !may;
  });
  return may;
}

bool may_have_more(const StageContext& x, std::int64_t n, double most) {
  if (n >= x.model.num_layers) return false;
  const bool two_ranks =
      traits_of(x.strategy.schedule).layout == ChunkLayout::kBidirectional;  // hold a stage
  if (most >= kUnlimited || two_ranks) return true;
  const BlockQuanta quanta = block_quanta(x.blocks, x.prefix, x.model);
  std::vector<std::int64_t> pass, again;
  for (const std::size_t k : x.prefix.table.of_layer) {
    pass.push_back(quanta.pass[k]), again.push_back(quanta.full[k]);
  }
  std::sort(pass.begin(), pass.end());
  std::sort(again.begin(), again.end());
  const auto least = std::accumulate(pass.begin(), pass.begin() + n + 1, std::int64_t{0}) +
                     std::accumulate(again.begin(), again.begin() + n, std::int64_t{0});
  // Rounding to quanta moves each block's time by half a quantum at most.
  const double rounding = static_cast<double>(x.model.num_layers + 8) * quanta.seconds;
  const double each = most / static_cast<double>(num_microbatches(x.strategy));
  return static_cast<double>(least) * quanta.seconds <= each + rounding;
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
  const bool halve = rules.partition == PartitionRule::kAny && context.measure == Measure::kTime &&
                     traits_of(context.strategy.schedule).layout != ChunkLayout::kBidirectional;
  Divided none;
  none.fits = halve && most < kUnlimited;  // what is too slow may fit
  std::optional<UniformCounts> counts;
  std::optional<std::int64_t> fewest = step;
  if (halve) fewest = counts.emplace(context, rules, most).fewest();
  const std::int64_t end = fewest ? context.model.num_layers + step : 0;
  for (context.uniform = fewest.value_or(0); context.uniform < end; context.uniform += step) {
    if (counts && !counts->may_be_more(context.uniform)) break;
    Divided divided = divide_all(context, rules, most);
    none.effort += divided.effort;
    if (divided.lists) {
      none.lists = std::move(divided.lists), none.fits = divided.fits;
      break;
    }
    none.fits |= divided.fits;
    if (context.measure == Measure::kTime && none.fits &&
        !may_have_more(context, context.uniform, most)) {
      break;
    }
  }
  if (counts) none.effort += counts->effort();
  return none;
}

}  // namespace meshplan
