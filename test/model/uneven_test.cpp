#include "model/uneven.hpp"

#include <algorithm>
#include <random>

#include "support/catch.hpp"

using namespace meshplan;

namespace {

const std::vector<Weighted> kCoin{{1, 0.5}, {3, 0.5}};

// Steps drawn one by one, as heaviest_rank() describes them.
double drawn_mean(const std::vector<Weighted>& row, const DealtRows& dealt, int steps) {
  std::mt19937_64 engine(7);
  std::vector<double> until;
  for (const Weighted& w : row) until.push_back((until.empty() ? 0 : until.back()) + w.share);
  const auto draw = [&] {
    const double u = std::ldexp(static_cast<double>(engine() >> 11), -53) * until.back();
    const auto at = std::upper_bound(until.begin(), until.end() - 1, u) - until.begin();
    return row[static_cast<std::size_t>(at)].value;
  };
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    double last = 0;
    for (std::int64_t group = 0; group < dealt.ranks / dealt.together; ++group) {
      double time = 0;
      for (std::int64_t m = 0; m < dealt.microbatches; ++m) {
        double most = 0;
        for (std::int64_t r = 0; r < dealt.together; ++r) {
          double rows = 0;
          for (std::int64_t b = 0; b < dealt.rows; ++b) rows += draw();
          most = std::max(most, rows);
        }
        time += most;
      }
      last = std::max(last, time);
    }
    sum += last;
  }
  double mean = 0;
  for (const Weighted& w : row) mean += w.value * w.share;
  return sum / steps / (mean * static_cast<double>(dealt.microbatches * dealt.rows));
}

}  // namespace

TEST_CASE("[F-LEN-4] a coin's rows by hand") {
  // One rank waits for none.
  CHECK(heaviest_rank(kCoin, {1, 1, 4, 2}).mean == Approx(1));
  // Of two ranks with a row each the largest is 3 in three steps of four: 2.5 over the mean of 2.
  const HeaviestRank two = heaviest_rank(kCoin, {2, 1, 1, 1});
  CHECK(two.mean == Approx(1.25));
  CHECK(two.median == Approx(1.5).epsilon(0.01));
  CHECK(two.p99 == Approx(1.5).epsilon(0.01));
  // Two microbatches: sums are 2, 4, 6 with 1/4, 1/2, 1/4; the largest of two with 1/16, 8/16,
  // 7/16: 4.75 over 4. Where the ranks meet in each: 2 x 2.5 over 4.
  CHECK(heaviest_rank(kCoin, {2, 1, 2, 1}).mean == Approx(4.75 / 4).epsilon(1e-3));
  CHECK(heaviest_rank(kCoin, {2, 2, 2, 1}).mean == Approx(1.25).epsilon(1e-3));
  // Two rows of one microbatch are summed as two microbatches are.
  CHECK(heaviest_rank(kCoin, {2, 2, 1, 2}).mean == Approx(4.75 / 4).epsilon(1e-3));
}

TEST_CASE("[F-LEN-4] the grid agrees with steps that are drawn") {
  const std::vector<Weighted> row{{100, 0.5}, {250, 0.3}, {700, 0.15}, {4000, 0.05}};
  for (const DealtRows& dealt : {DealtRows{8, 1, 4, 1}, DealtRows{8, 8, 4, 2},
                                 DealtRows{16, 4, 3, 1}, DealtRows{4, 1, 32, 1}}) {
    CHECK(heaviest_rank(row, dealt).mean == Approx(drawn_mean(row, dealt, 20'000)).epsilon(0.01));
  }
}

TEST_CASE("[F-LEN-4] more ranks wait longer, more rows of each less") {
  const std::vector<Weighted> row{{1, 0.7}, {5, 0.2}, {20, 0.1}};
  double before = 1;
  for (const std::int64_t ranks : {2, 8, 64, 1024}) {
    const double now = heaviest_rank(row, {ranks, 1, 8, 1}).mean;
    CHECK(now > before);
    before = now;
  }
  CHECK(heaviest_rank(row, {8, 1, 64, 1}).mean < heaviest_rank(row, {8, 1, 8, 1}).mean);
  CHECK(heaviest_rank(row, {8, 1, 1'000'000, 1}).mean < 1.01);
  CHECK(heaviest_rank({{5, 0.2}, {5, 0.8}}, {64, 64, 8, 1}).mean == 1);
}

TEST_CASE("[F-LEN-5] rows that are dealt out by size make ranks wait less") {
  const std::vector<Weighted> row{{1, 0.7}, {5, 0.2}, {20, 0.1}};
  for (const std::int64_t together : {std::int64_t{1}, std::int64_t{8}}) {
    const DealtRows dealt{8, together, 8, 1};
    const HeaviestRank plain = heaviest_rank(row, dealt),
                       balanced = heaviest_of_balanced(row, dealt);
    CHECK(balanced.mean < 1 + 0.5 * (plain.mean - 1));
    CHECK(balanced.mean >= 1);
    CHECK(balanced.median <= balanced.p99);
  }
  // Alone in its microbatch a row cannot be balanced by another.
  CHECK(heaviest_of_balanced(row, {8, 1, 1, 1}) == heaviest_rank(row, {8, 1, 1, 1}));
}

TEST_CASE("[F-LEN-4] ranks meet where they gather weights or exchange tokens") {
  Strategy s;
  s.dp = 16, s.global_batch = 64, s.micro_batch = 2, s.zero = 1;
  CHECK(dealt_rows(s) == DealtRows{16, 1, 2, 2});
  s.zero = 3;
  CHECK(dealt_rows(s) == DealtRows{16, 16, 2, 2});
  s.zero_group = 4;
  CHECK(dealt_rows(s) == DealtRows{16, 4, 2, 2});
  s.zero = 1, s.zero_group = 0, s.ep = 8;
  CHECK(dealt_rows(s) == DealtRows{16, 8, 2, 2});
  s.tp = 4;
  CHECK(dealt_rows(s) == DealtRows{16, 2, 2, 2});
}
