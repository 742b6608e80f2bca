#include "probe/sample.hpp"

#include <algorithm>

#include "probe/fake_backend.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

std::vector<Seconds> seconds(std::initializer_list<double> values) {
  std::vector<Seconds> out;
  for (const double v : values) out.emplace_back(v);
  return out;
}

TEST_CASE("every repetition takes as long as its slowest rank") {
  Sample s;
  summarise({seconds({1, 2, 3, 4, 5}), seconds({2, 1, 4, 3, 6})}, s);
  CHECK(s.times == seconds({2, 2, 4, 4, 6}));
  CHECK(s.median == Seconds{4});
  CHECK(s.slowest_rank == 1);  // in three of five
  // Quartiles of {2,2,4,4,6} are 2 and 4.
  CHECK(s.spread == Approx(0.5));
  CHECK(s.outliers == 0);
}

TEST_CASE("a repetition far from the others is an outlier and does not move the median") {
  Sample s;
  summarise({seconds({1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 50.0})}, s);
  CHECK(s.outliers == 1);
  CHECK(s.median.si() == Approx(1.0));
  CHECK_FALSE(is_noisy(s));
}

TEST_CASE("the lag of the slowest rank is over the middle one of the others") {
  Sample s;
  summarise({seconds({2, 2, 2}), seconds({3, 3, 9}), seconds({1, 1, 1})}, s);
  REQUIRE(s.lag.has_value());
  CHECK(*s.lag == Approx(3 / 1.5 - 1));  // the others' medians are 2 and 1
  summarise({seconds({2, 2, 2})}, s);
  CHECK_FALSE(s.lag.has_value());
}

TEST_CASE("a rank that lags in half of what each does alone is a straggler") {
  const auto sample = [](std::int64_t slowest, double lag, double spread) {
    Sample s;
    s.operation = GemmOperation{};
    s.slowest_rank = slowest, s.lag = lag, s.spread = spread;
    return s;
  };
  std::vector<Sample> all{sample(1, 0.2, 0.01), sample(1, 0.3, 0.01), sample(0, 0.02, 0.01),
                          sample(1, 0.4, 0.5)};  // within its own spread
  CHECK(stragglers(all) == std::vector<Straggler>{{1, 2, 4, 0.3}});
  all.push_back(sample(0, 0.01, 0.01));
  CHECK(stragglers(all).empty());
  Sample collective = sample(1, 0.9, 0.01);
  collective.operation = CollectiveOperation{};
  CHECK(stragglers({collective}).empty());
}

TEST_CASE("equal times have neither spread nor outliers") {
  Sample s;
  summarise({seconds({2, 2, 2, 2})}, s);
  CHECK(s.spread == 0);
  CHECK(s.outliers == 0);
}

TEST_CASE("the median of an even number of values lies between the middle two") {
  CHECK(median_of(seconds({4, 1, 3, 2})) == Seconds{2.5});
  CHECK(median_of({}) == Seconds{0});
}

TEST_CASE("a group touches as many nodes as its members sit on") {
  const Machine m = fake_machine(16, 8);
  CHECK(nodes_of({.size = 8, .stride = 1}, m) == 1);
  CHECK(nodes_of({.size = 16, .stride = 1}, m) == 2);
  CHECK(nodes_of({.size = 2, .stride = 8}, m) == 2);
  CHECK(nodes_of({.size = 3, .stride = 1}, m) == 2);  // ranks 6, 7, 8 straddle
}

TEST_CASE("repetitions count in which no rank was disturbed") {
  using Repetitions = std::vector<bool>;
  const std::vector<std::vector<double>> times{{1, 9, 1, 1, 8}, {1, 2, 1, 7, 1}};
  // Rank 0 in the second, rank 1 in the fourth: three are left, whatever their times.
  CHECK(counting_repetitions(times, {{0, 1, 0, 0, 0}, {0, 0, 0, 1, 0}}) ==
        Repetitions{true, false, true, false, true});
  CHECK(counting_repetitions(times, {}) == Repetitions(5, true));
  // Too few are left: the three whose slowest rank was fastest.
  CHECK(counting_repetitions(times, {{1, 1, 1, 1, 0}, {0, 0, 0, 0, 0}}) ==
        Repetitions{true, false, true, true, false});
  // All of them, where there are no more.
  CHECK(counting_repetitions({{3, 1}}, {{1, 1}}) == Repetitions{true, true});
  // A quarter of many.
  std::vector<double> many, all(40, 1);
  for (int i = 0; i < 40; ++i) many.push_back(40 - i);
  const Repetitions counts = counting_repetitions({many}, {all});
  CHECK(std::count(counts.begin(), counts.end(), true) == 10);
  CHECK(counts.back());
}

}  // namespace
}  // namespace meshplan
