#pragma once
// Scores over plain numbers. Everything is a fraction: 0.05 is five per cent.
#include <optional>
#include <span>
#include <vector>

namespace meshplan::accuracy {

// Signed relative error of a prediction: predicted / measured - 1.
[[nodiscard]] double relative_error(double predicted, double measured);

// The value below which the share `p` of the sample lies, linear between order statistics
// (Hyndman & Fan 1996, type 7). The sample must not be empty.
[[nodiscard]] double quantile(std::vector<double> values, double p);
[[nodiscard]] double median(std::vector<double> values);
[[nodiscard]] double mean(std::span<const double> values);

struct ErrorStats {
  double median_abs = 0, mean_abs = 0, p90_abs = 0;
  double bias = 0;         // mean of the signed errors
  double median_bias = 0;  // their median

  bool operator==(const ErrorStats&) const = default;
};
[[nodiscard]] ErrorStats error_stats(std::span<const double> signed_errors);  // not empty

// One group of runs that compete with each other.
struct ChoicePair {
  double predicted = 0;
  double measured = 0;
};

// Measured time of the run predicted fastest over the measured best, minus 1; the mean over the
// runs that share the smallest prediction (repeats of one configuration).
[[nodiscard]] double regret(std::span<const ChoicePair> group);

// Kendall's tau-b (ties corrected; Kendall 1945); empty where one side does not vary at all.
[[nodiscard]] std::optional<double> kendall_tau(std::span<const ChoicePair> group);

// Spearman's rank correlation with mean ranks for ties; empty where one side does not vary.
[[nodiscard]] std::optional<double> spearman(std::span<const ChoicePair> group);

}  // namespace meshplan::accuracy
