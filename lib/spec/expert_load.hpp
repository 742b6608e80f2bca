#pragma once
// How unevenly tokens go to experts, and what of it the busiest expert-parallel rank gets.
#include <cstdint>
#include <span>
#include <vector>

#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// [F-MOE-1] Loads of experts of Zipf popularity, i-th proportional to i^-s, over their mean. An
// expert gets a token at most once, so no load exceeds n / k: what is above goes to the others in
// proportion. n experts, k of them per token, s exponent.
// Zipf 1949; capped inclusion probabilities: Tille 2006, Sampling Algorithms, sec. 2.10.
[[nodiscard]] std::vector<double> zipf_loads(std::int64_t experts, std::int64_t top_k, double s);

// Loads over their mean, the busiest first; the counts must not all be zero.
[[nodiscard]] std::vector<double> relative_loads(std::span<const double> counts);

// [F-MOE-2] Load of the busiest of r ranks that hold n / r experts each, over the mean, for every
// r that divides n: median and 99th percentile over random placements of the experts. Which
// experts are busy differs from layer to layer and with the data (DeepSeek-V3, 2412.19437,
// app. C), and no placement follows it. Monte Carlo with a fixed seed: the same numbers
// on every machine.
[[nodiscard]] std::vector<RankLoad> rank_loads(std::span<const double> loads);

// What `moe` says of its experts' loads -> imbalance and rank_loads. Does nothing where it states
// a plain number. The keys must be valid (findings).
void derive_loads(MoeSpec& moe);

// [F-MOE-3] Load of the busiest rank where only the busiest expert's load l over the mean is known:
// min(l, r). It holds no rank above its busiest expert's share, and no rank gets more than all
// tokens; so one rank has the mean. r ranks.
[[nodiscard]] RankLoad rank_load(const MoeSpec& moe, std::int64_t ranks);

// [F-MOE-4] The same of a strategy's expert-parallel ranks: at most the capacity factor, and as
// much as it where experts' inputs are padded (Megatron-Core moe/moe_utils.py, get_capacity).
[[nodiscard]] RankLoad expert_load(const MoeSpec& moe, const Strategy& s);

}  // namespace meshplan
