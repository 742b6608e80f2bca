#include "study/length_spread.hpp"

#include <algorithm>
#include <cmath>

#include "cost/step.hpp"

namespace meshplan {
namespace {

// Tokens that the longest microbatch of a step is padded to, at most this long in this share of the
// steps: of the largest of all its documents.
std::int64_t longest_of_steps(const LengthSpec& lengths, const Strategy& s, double share) {
  const double each = std::pow(share, 1 / static_cast<double>(s.global_batch));
  const double tokens = std::ceil(length_quantile(lengths, each));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(tokens), 1, s.seq_len);
}

Bytes peak_with(const ModelSpec& m, const ClusterSpec& c, Strategy s, std::int64_t tokens) {
  s.seq_len = tokens;
  return cost_of(m, c, s).memory().peak;
}

}  // namespace

std::optional<LengthSpread> length_spread(const ModelSpec& m, const ClusterSpec& c,
                                          const PlanCost& plan) {
  if (!m.lengths) return std::nullopt;
  const Strategy& s = plan.strategy;
  LengthSpread spread;
  spread.row = row_statistics(*m.lengths, s.packing, s.seq_len, s.micro_batch);
  spread.cut = cut_share(*m.lengths, s.seq_len);
  spread.uneven = unevenness(m, s);
  const Seconds even = plan.step_time - plan.time.uneven;
  const UnevenWork work = uneven_work(m, c, s);
  const auto step = [&](double HeaviestRank::*which) {
    return even + work.tokens * (spread.uneven.tokens.*which - 1) +
           work.pairs * (spread.uneven.squares.*which - 1);
  };
  spread.step_median = step(&HeaviestRank::median);
  spread.step_p99 = step(&HeaviestRank::p99);
  spread.peak_median = spread.peak_p99 = plan.memory().peak;
  if (s.packing == Packing::kNone) {
    constexpr double kMedian = 0.5, kHigh = 0.99;
    spread.peak_median = peak_with(m, c, s, longest_of_steps(*m.lengths, s, kMedian));
    spread.peak_p99 = peak_with(m, c, s, longest_of_steps(*m.lengths, s, kHigh));
  }
  return spread;
}

std::vector<PackingChoice> packing_choices(const ModelSpec& m, const ClusterSpec& c,
                                           const PlanCost& plan) {
  std::vector<PackingChoice> all;
  if (!m.lengths) return all;
  for (const auto& choice : NameTable<Packing>::rows) {
    Strategy s = plan.strategy;
    s.packing = choice.value;
    const PlanCost cost = s == plan.strategy ? plan : cost_of(m, c, s);
    const RowStatistics row = row_statistics(*m.lengths, s.packing, s.seq_len, s.micro_batch);
    all.push_back({choice.value, cost.tokens_per_step / cost.step_time.si(), row.padding(),
                   cost.memory().peak});
  }
  return all;
}

}  // namespace meshplan
