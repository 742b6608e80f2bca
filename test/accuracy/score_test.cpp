#include "score.hpp"

#include <algorithm>

#include "support/catch.hpp"

namespace meshplan::accuracy {
namespace {

TEST_CASE("relative error is positive where the prediction is too slow") {
  CHECK(relative_error(12, 10) == Approx(0.2));
  CHECK(relative_error(8, 10) == Approx(-0.2));
}

TEST_CASE("the median of an even sample lies between its middle values") {
  CHECK(median({4, 1, 3, 2}) == Approx(2.5));
  CHECK(median({5, 1, 3}) == Approx(3));
  CHECK(median({7}) == Approx(7));
}

TEST_CASE("the 90th percentile interpolates between order statistics") {
  // Eleven values 0..10: position 0.9 * 10 = 9 exactly.
  std::vector<double> eleven;
  for (int i = 10; i >= 0; --i) eleven.push_back(i);
  CHECK(quantile(eleven, 0.9) == Approx(9));
  // Two values: position 0.9 between them.
  CHECK(quantile({10, 20}, 0.9) == Approx(19));
  CHECK(quantile({10, 20}, 0) == Approx(10));
  CHECK(quantile({10, 20}, 1) == Approx(20));
}

TEST_CASE("error statistics take absolute values but keep the sign in the bias") {
  const std::vector<double> errors{-0.1, 0.1, 0.3, -0.5};
  const ErrorStats stats = error_stats(errors);
  CHECK(stats.mean_abs == Approx(0.25));
  CHECK(stats.median_abs == Approx(0.2));           // of 0.1 0.1 0.3 0.5
  CHECK(stats.p90_abs == Approx(0.3 + 0.7 * 0.2));  // position 2.7
  CHECK(stats.bias == Approx(-0.05));
  CHECK(stats.median_bias == Approx(0.0).margin(1e-15));  // of -0.5 -0.1 0.1 0.3
}

TEST_CASE("regret compares the run predicted fastest with the measured best") {
  // Predicted fastest is the second run, measured 12; the best measured is 10.
  const std::vector<ChoicePair> group{{5, 10}, {4, 12}, {6, 20}};
  CHECK(regret(group) == Approx(0.2));
  const std::vector<ChoicePair> right{{3, 10}, {4, 12}, {6, 20}};
  CHECK(regret(right) == Approx(0.0).margin(1e-15));
}

TEST_CASE("regret averages runs that share the smallest prediction") {
  const std::vector<ChoicePair> repeats{{4, 10}, {4, 14}, {6, 11}};
  CHECK(regret(repeats) == Approx(0.2));  // (10 + 14) / 2 over 10
}

TEST_CASE("Kendall's tau counts agreeing pairs") {
  const std::vector<ChoicePair> same{{1, 10}, {2, 20}, {3, 30}};
  const std::vector<ChoicePair> reversed{{1, 30}, {2, 20}, {3, 10}};
  // Pairs of (1,3) (2,1) (3,2) in the second coordinate: two of three disagree.
  const std::vector<ChoicePair> mixed{{1, 3}, {2, 1}, {3, 2}};
  CHECK(kendall_tau(same).value() == Approx(1));
  CHECK(kendall_tau(reversed).value() == Approx(-1));
  CHECK(kendall_tau(mixed).value() == Approx(-1.0 / 3));
}

TEST_CASE("Kendall's tau-b corrects for ties") {
  // Pairs: (1,2) tied in x; (1,3) and (2,3) agree. tau-b = 2 / sqrt(2 * 3).
  const std::vector<ChoicePair> tied{{1, 1}, {1, 2}, {2, 3}};
  CHECK(kendall_tau(tied).value() == Approx(0.8164965809));
  const std::vector<ChoicePair> constant{{1, 1}, {1, 2}, {1, 3}};
  CHECK_FALSE(kendall_tau(constant).has_value());
}

TEST_CASE("Spearman's correlation uses mean ranks for ties") {
  // The textbook form without ties: 1 - 6 * sum d^2 / (n (n^2 - 1)), d = 2, -1, -1: 1 - 36 / 24.
  const std::vector<ChoicePair> mixed{{1, 3}, {2, 1}, {3, 2}};
  CHECK(spearman(mixed).value() == Approx(-0.5));
  // Ranks 1.5 1.5 3 against 1 2 3: covariance 1.5, variances 1.5 and 2: 1.5 / sqrt(3).
  const std::vector<ChoicePair> tied{{1, 1}, {1, 2}, {2, 3}};
  CHECK(spearman(tied).value() == Approx(0.8660254038));
  const std::vector<ChoicePair> constant{{1, 5}, {2, 5}};
  CHECK_FALSE(spearman(constant).has_value());
}

TEST_CASE("rank correlations do not depend on the order of the runs or on their scale") {
  std::vector<ChoicePair> group{{3, 8}, {1, 2}, {4, 4}, {1, 5}, {9, 9}, {2, 6}};
  const double tau = kendall_tau(group).value();
  const double rho = spearman(group).value();
  const double loss = regret(group);
  std::reverse(group.begin(), group.end());
  for (ChoicePair& run : group) run.predicted = run.predicted * run.predicted * 7;
  CHECK(kendall_tau(group).value() == Approx(tau));
  CHECK(spearman(group).value() == Approx(rho));
  CHECK(regret(group) == Approx(loss));
}

}  // namespace
}  // namespace meshplan::accuracy
