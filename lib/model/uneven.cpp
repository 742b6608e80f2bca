#include "model/uneven.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <queue>
#include <random>

#include "base/check.hpp"

namespace meshplan {
namespace {

// A distribution at evenly spaced values.
class Grid {
 public:
  explicit Grid(const std::vector<Weighted>& all) {
    double high = low_ = all.front().value, sum = 0;
    for (const Weighted& w : all) {
      low_ = std::min(low_, w.value), high = std::max(high, w.value);
      sum += w.share;
    }
    spread(high);
    for (const Weighted& w : all) add(w.value, w.share / sum);
  }

  [[nodiscard]] double mean() const {
    double sum = 0;
    for (std::size_t i = 0; i < shares_.size(); ++i) sum += at(i) * shares_[i];
    return sum;
  }

  // The least value that this share does not exceed, between points of the grid.
  [[nodiscard]] double quantile(double share) const {
    double before = 0;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (before + shares_[i] >= share) {
        const double part = shares_[i] > 0 ? (share - before) / shares_[i] : 1;
        return i == 0 ? at(0) : at(i) - step_ * (1 - std::clamp(part, 0.0, 1.0));
      }
      before += shares_[i];
    }
    return at(shares_.size() - 1);
  }

  // Of the largest of n independent ones.
  [[nodiscard]] Grid largest(double n) const {
    Grid result = *this;
    double sum = 0, before = 0;
    for (double& share : result.shares_) {
      sum += share;
      const double until = std::pow(std::min(1.0, sum), n);
      share = until - before;
      before = until;
    }
    return result;
  }

  // Of the sum of n independent ones.
  [[nodiscard]] Grid sum(std::int64_t n) const {
    PLAN_CHECK(n >= 1);
    Grid twofold = *this;
    while (n % 2 == 0) twofold = twofold.plus(twofold), n /= 2;
    Grid result = twofold;
    for (n /= 2; n > 0; n /= 2) {
      twofold = twofold.plus(twofold);
      if (n % 2 == 1) result = result.plus(twofold);
    }
    return result;
  }

 private:
  static constexpr std::size_t kPoints = 512;

  Grid() = default;
  [[nodiscard]] double at(std::size_t i) const { return low_ + step_ * static_cast<double>(i); }

  void spread(double high) {
    const bool one = !(high > low_);
    shares_.assign(one ? 1 : kPoints, 0);
    step_ = one ? 0 : (high - low_) / static_cast<double>(kPoints - 1);
  }

  // Between two points a share goes to both, so that the mean stays.
  void add(double value, double share) {
    const double place = step_ > 0 ? (value - low_) / step_ : 0;
    const auto i = std::min(static_cast<std::size_t>(std::max(0.0, place)), shares_.size() - 1);
    const double part = i + 1 < shares_.size() ? std::max(0.0, place - static_cast<double>(i)) : 0;
    shares_[i] += share * (1 - part);
    if (part > 0) shares_[i + 1] += share * part;
  }

  [[nodiscard]] Grid plus(const Grid& other) const {
    Grid sum;
    sum.low_ = low_ + other.low_;
    sum.spread(at(shares_.size() - 1) + other.at(other.shares_.size() - 1));
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i] <= 0) continue;
      for (std::size_t k = 0; k < other.shares_.size(); ++k) {
        sum.add(at(i) + other.at(k), shares_[i] * other.shares_[k]);
      }
    }
    return sum.trimmed();
  }

  // Without ends that next to nothing reaches, so that sums of many stay finely divided.
  [[nodiscard]] Grid trimmed() const {
    constexpr double kNothing = 1e-13;
    std::size_t first = 0, last = shares_.size() - 1;
    double cut = 0;
    while (first < last && cut + shares_[first] < kNothing) cut += shares_[first++];
    cut = 0;
    while (last > first && cut + shares_[last] < kNothing) cut += shares_[last--];
    if (first == 0 && last + 1 == shares_.size()) return *this;
    Grid less;
    less.low_ = at(first);
    less.spread(at(last));
    double left = 0;
    for (std::size_t i = first; i <= last; ++i) less.add(at(i), shares_[i]), left += shares_[i];
    for (double& share : less.shares_) share /= left;
    return less;
  }

  double low_ = 0, step_ = 0;
  std::vector<double> shares_;
};

bool is_one_value(const std::vector<Weighted>& row) {
  return std::all_of(row.begin(), row.end(),
                     [&](const Weighted& w) { return w.value == row.front().value; });
}

// Rows drawn by share, largest first.
class Draws {
 public:
  explicit Draws(const std::vector<Weighted>& row) {
    double sum = 0;
    for (const Weighted& w : row) {
      values_.push_back(w.value), until_.push_back(sum += w.share);
    }
  }
  std::vector<double> sorted(std::size_t n, std::mt19937_64& engine) const {
    std::vector<double> drawn(n);
    for (double& value : drawn) {
      const double u = std::ldexp(static_cast<double>(engine() >> 11), -53) * until_.back();
      const auto at = std::upper_bound(until_.begin(), until_.end() - 1, u);
      value = values_[static_cast<std::size_t>(at - until_.begin())];
    }
    std::sort(drawn.rbegin(), drawn.rend());
    return drawn;
  }

 private:
  std::vector<double> values_, until_;
};

// Largest of `ranks` sums of as many values each; values sorted, largest first.
double largest_sum(const double* values, std::size_t ranks, std::size_t each) {
  using Open = std::pair<double, std::size_t>;  // sum so far, values
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  for (std::size_t r = 0; r < ranks; ++r) open.push({0, 0});
  double most = 0;
  for (std::size_t i = 0; i < ranks * each; ++i) {
    auto [sum, count] = open.top();
    open.pop();
    sum += values[i];
    most = std::max(most, sum);
    if (++count < each) open.push({sum, count});
  }
  return most;
}

double mean_of(const std::vector<Weighted>& row) {
  double sum = 0, shares = 0;
  for (const Weighted& w : row) sum += w.value * w.share, shares += w.share;
  return sum / shares;
}

HeaviestRank over_mean(HeaviestRank r, double mean) {
  const auto ratio = [&](double value) { return std::max(1.0, value / mean); };
  return {ratio(r.mean), ratio(r.median), ratio(r.p99)};
}

constexpr double kMedian = 0.5, kHigh = 0.99;

}  // namespace

HeaviestRank heaviest_rank(const std::vector<Weighted>& row, const DealtRows& dealt) {
  if (is_one_value(row)) return {};
  Grid each = Grid(row).sum(dealt.rows);
  const double mean = each.mean() * static_cast<double>(dealt.microbatches);
  if (dealt.together > 1) each = each.largest(static_cast<double>(dealt.together));
  const Grid step =
      each.sum(dealt.microbatches)
          .largest(static_cast<double>(dealt.ranks) / static_cast<double>(dealt.together));
  return over_mean({step.mean(), step.quantile(kMedian), step.quantile(kHigh)}, mean);
}

HeaviestRank heaviest_of_balanced(const std::vector<Weighted>& row, const DealtRows& dealt) {
  if (is_one_value(row)) return {};
  if (dealt.ranks == 1 || dealt.microbatches * dealt.rows == 1) return heaviest_rank(row, dealt);
  const auto capped = [](std::int64_t n, std::int64_t most) {
    return static_cast<std::size_t>(std::min(n, most));
  };
  const std::size_t ranks = capped(dealt.ranks, 64), rows = capped(dealt.rows, 8);
  const std::size_t microbatches = capped(dealt.microbatches, 16);
  const std::size_t n = ranks * rows * microbatches;
  const std::size_t steps = std::clamp<std::size_t>((std::size_t{1} << 18) / n, 32, 512);
  std::mt19937_64 engine(20250311);
  const Draws draws(row);
  std::vector<double> all;
  for (std::size_t i = 0; i < steps; ++i) {
    const std::vector<double> values = draws.sorted(n, engine);
    double sum = 0;
    if (dealt.together > 1) {
      for (std::size_t k = 0; k < n; k += ranks * rows) sum += largest_sum(&values[k], ranks, rows);
    } else {
      sum = largest_sum(values.data(), ranks, rows * microbatches);
    }
    all.push_back(sum);
  }
  std::sort(all.begin(), all.end());
  double total = 0;
  for (const double value : all) total += value;
  const auto at = [&](double share) {
    return all[static_cast<std::size_t>(share * static_cast<double>(steps - 1))];
  };
  return over_mean({total / static_cast<double>(steps), at(kMedian), at(kHigh)},
                   mean_of(row) * static_cast<double>(rows * microbatches));
}

DealtRows dealt_rows(const Strategy& s) {
  DealtRows dealt{s.dp, 1, std::max<std::int64_t>(1, num_microbatches(s)), s.micro_batch};
  // Ranks of a group that are data-parallel: context and tensor ranks have the same documents.
  const auto of_group = [&](std::int64_t size, std::int64_t copies) {
    return std::clamp<std::int64_t>(size / copies, 1, s.dp);
  };
  if (s.zero == 3) dealt.together = of_group(shard_group(s), s.cp);
  if (s.ep > 1) dealt.together = std::max(dealt.together, of_group(s.ep * s.etp, s.tp * s.cp));
  return dealt;
}

Unevenness unevenness(const ModelSpec& m, const Strategy& s) {
  PLAN_CHECK(m.lengths.has_value());
  if (s.packing == Packing::kPad) return {};
  const DealtRows dealt = dealt_rows(s);
  // A search asks for the same again and again.
  struct Known {
    LengthSpec lengths;
    std::int64_t seq_len = 0;
    std::map<std::array<std::int64_t, 5>, Unevenness> all;
  };
  thread_local Known known;
  if (known.seq_len != s.seq_len || known.lengths != *m.lengths) {
    known = {*m.lengths, s.seq_len, {}};
  }
  const auto [at, made] = known.all.try_emplace({static_cast<std::int64_t>(s.packing), dealt.ranks,
                                                 dealt.together, dealt.microbatches, dealt.rows});
  if (!made) return at->second;
  const RowVariety v = row_variety(*m.lengths, s.packing, s.seq_len, s.micro_batch);
  DealtRows whole = dealt;  // where microbatches are described, not rows
  whole.rows = 1;
  Unevenness u;
  if (s.packing == Packing::kNone) {
    u = {heaviest_rank(v.tokens, whole), heaviest_rank(v.squares, whole)};
  } else {
    u.squares = s.packing == Packing::kBalanced ? heaviest_of_balanced(v.squares, dealt)
                                                : heaviest_rank(v.squares, dealt);
  }
  return at->second = u;
}

}  // namespace meshplan
