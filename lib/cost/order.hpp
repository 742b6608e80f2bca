#pragma once
// How sure the order of two predicted plans is. What both predictions get wrong alike (the rate of
// the same matrix products, the same launches) cancels; what remains grows with the share of the
// step in which they differ.
#include "cost/measured_errors.hpp"
#include "cost/plan_cost.hpp"

namespace meshplan {

// Share of the step in which two plans of the same work differ: half the sum over the terms of the
// step time of |term of a - term of b|, over the mean step time. 0: the same terms, 1: none in
// common.
[[nodiscard]] double differing_share(const PlanCost& a, const PlanCost& b);

// [F-UNC-4] Probability that `a` runs faster than `b`: 1 / (1 + exp(-d / s)), d = ln(t_b / t_a) of
// the predicted step times, s = floor + spread x differing_share. floor and spread: of largest
// likelihood on pairs of measured runs of one sweep (logistic regression, Bradley and Terry 1952),
// every source with the same weight.
[[nodiscard]] double probability_faster(const PlanCost& a, const PlanCost& b,
                                        const MeasuredErrors& errors = shipped_errors());

// Practically tied: neither plan is faster with this probability.
inline constexpr double kSureOrder = 0.8;
[[nodiscard]] bool practically_tied(const PlanCost& a, const PlanCost& b,
                                    const MeasuredErrors& errors = shipped_errors());

// The term of the step time that differs most between the two, which is the one to measure.
[[nodiscard]] Seconds TimeTerms::*separating_term(const PlanCost& a, const PlanCost& b);

}  // namespace meshplan
