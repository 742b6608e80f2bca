#pragma once
// Distribution of values of which some are only known to lie above or below a limit.
#include <span>
#include <utility>
#include <vector>

namespace meshplan::accuracy {

// In (low, high]; known exactly where both are the same. Infinite where nothing bounds it.
struct Censored {
  double low = 0;
  double high = 0;

  [[nodiscard]] bool exact() const { return low == high; }
};

// Values and their shares, which add up to one: the distribution under which the observations are
// most likely (Turnbull 1976, J. R. Stat. Soc. B 38(3), by self-consistency). Between two limits
// that tell nothing apart the share lies in the middle, beyond all of them just past the last. Not
// empty.
[[nodiscard]] std::vector<std::pair<double, double>> most_likely(std::span<const Censored> seen);

}  // namespace meshplan::accuracy
