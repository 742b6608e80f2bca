#pragma once
// Ranks that wait for the one with the longest documents.
#include <cstdint>
#include <vector>

#include "model/packing.hpp"

namespace meshplan {

// What the rank that all others wait for has to do, over the mean; of steps.
struct HeaviestRank {
  double mean = 1, median = 1, p99 = 1;
  bool operator==(const HeaviestRank&) const = default;
};

// How a step's rows go to ranks.
struct DealtRows {
  std::int64_t ranks = 1;         // data-parallel
  std::int64_t together = 1;      // that wait for each other in every microbatch
  std::int64_t microbatches = 1;  // of a rank
  std::int64_t rows = 1;          // of a microbatch
  bool operator==(const DealtRows&) const = default;
};

// [F-LEN-4] Rows are independent, each with distribution F. A microbatch has the sum of its rows;
// ranks that meet in every microbatch take the largest of theirs each time, with distribution F^g
// for g of them, and a step the sum of its microbatches; of d ranks in groups of g the last one
// ends with the distribution G^(d/g) of the largest of such sums (order statistics: David and
// Nagaraja 2003, Order Statistics, sec. 2.1). Sums are convolutions on a grid that keeps means.
[[nodiscard]] HeaviestRank heaviest_rank(const std::vector<Weighted>& row, const DealtRows& dealt);

// [F-LEN-5] The same where the rows of a step are sorted first: the next largest goes to the rank
// with the least so far (Graham 1969, SIAM J. Appl. Math. 17(2)), all with as many rows; where
// ranks meet in every microbatch, rows next to each other by size form the microbatches of one
// time. Monte Carlo with a fixed seed, up to 64 ranks, 16 microbatches and 8 rows.
[[nodiscard]] HeaviestRank heaviest_of_balanced(const std::vector<Weighted>& row,
                                                const DealtRows& dealt);

// Of the tokens that a step's heaviest rank computes, and of the pairs of its attention.
struct Unevenness {
  HeaviestRank tokens, squares;
  bool operator==(const Unevenness&) const = default;
};

// Ranks meet in every microbatch where they gather weights for it (zero 3) or exchange tokens
// between experts (ep), else at the end of the step. The model must have lengths.
[[nodiscard]] Unevenness unevenness(const ModelSpec& m, const Strategy& s);

[[nodiscard]] DealtRows dealt_rows(const Strategy& s);

}  // namespace meshplan
