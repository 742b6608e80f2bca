#include "partition/partition.hpp"

#include <numeric>

#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Any times, with holes: stage r holding units [i, i + n) takes times[r][i][n], or does not fit.
struct RandomTable {
  int stages = 0, units = 0;
  std::vector<std::int64_t> times;  // -1: does not fit

  RandomTable(Dice& dice, int num_stages, int num_units) : stages(num_stages), units(num_units) {
    const bool steep = dice.once_in(2);
    for (int i = 0; i < stages * (units + 1) * (units + 1); ++i) {
      const std::int64_t n = i % (units + 1);
      const std::int64_t base = steep ? 20 * n : 0;
      times.push_back(dice.once_in(6) ? -1 : base + dice.between(1, dice.one_of({4, 30})));
    }
  }
  [[nodiscard]] std::int64_t time(int stage, int from, int n) const {
    return times[static_cast<std::size_t>((stage * (units + 1) + from) * (units + 1) + n)];
  }

  [[nodiscard]] int num_stages() const { return stages; }
  [[nodiscard]] int num_states() const { return units + 1; }
  [[nodiscard]] int start() const { return 0; }
  [[nodiscard]] bool is_goal(int state) const { return state == units; }
  template <class Visit>
  std::int64_t moves(int stage, int state, std::int64_t limit, Visit visit) const {
    std::int64_t over = kUnbounded;
    for (int n = 1; state + n <= units; ++n) {
      const std::int64_t t = time(stage, state, n);
      if (t < 0) continue;
      if (t > limit) {
        over = std::min(over, t);
      } else {
        visit(StageMove{state + n, t, n, 0});
      }
    }
    return over;
  }
};

struct Rank {
  std::int64_t cost, largest, squares;
  std::vector<int> sizes;
  auto operator<=>(const Rank&) const = default;
};

// Every composition of the units, best first by the declared order.
std::optional<Rank> by_enumeration(const RandomTable& t, std::int64_t weight) {
  std::optional<Rank> best;
  std::vector<int> sizes;
  const auto visit = [&](auto&& self, int stage, int from, std::int64_t sum,
                         std::int64_t largest) -> void {
    if (stage == t.stages) {
      if (from != t.units) return;
      Rank r{sum + weight * largest, largest, 0, sizes};
      for (const int n : sizes) r.squares += n * n;
      if (!best || r < *best) best = r;
      return;
    }
    for (int n = 1; from + n <= t.units; ++n) {
      const std::int64_t time = t.time(stage, from, n);
      if (time < 0) continue;
      sizes.push_back(n);
      self(self, stage + 1, from + n, sum + time, std::max(largest, time));
      sizes.pop_back();
    }
  };
  visit(visit, 0, 0, 0, 0);
  return best;
}

std::vector<int> sizes_of(const Division& d) {
  std::vector<int> sizes;
  for (const StageMove& move : d.stages) sizes.push_back(move.first);
  return sizes;
}

}  // namespace

TEST_CASE("[F-SEARCH-1] the division is the best of all compositions") {
  Dice dice(7);
  int found = 0;
  for (int i = 0; i < 4000; ++i) {
    const int stages = static_cast<int>(dice.between(1, 5));
    const RandomTable t(dice, stages, static_cast<int>(dice.between(stages, 9)));
    const std::int64_t weight = dice.one_of<std::int64_t>({0, 1, 3, 20, 1000});
    const auto expected = by_enumeration(t, weight);
    Partitioner<RandomTable> partitioner(t);
    const auto division = partitioner.best(weight, 0, 0, kUnbounded - 1);
    REQUIRE(division.has_value() == expected.has_value());
    if (!expected) continue;
    ++found;
    CAPTURE(i, stages, t.units, weight);
    REQUIRE(division->sum + weight * division->largest == expected->cost);
    REQUIRE(division->largest == expected->largest);
    REQUIRE(sizes_of(*division) == expected->sizes);
  }
  CHECK(found > 1000);
}

TEST_CASE("a limit on the largest stage keeps the best division or leaves none") {
  Dice dice(8);
  for (int i = 0; i < 1000; ++i) {
    const RandomTable t(dice, 3, static_cast<int>(dice.between(3, 8)));
    Partitioner<RandomTable> partitioner(t);
    const auto free = partitioner.best(50, 0, 0, kUnbounded - 1);
    REQUIRE(partitioner.is_possible(kUnbounded - 1) == free.has_value());
    if (!free) continue;
    const auto least = partitioner.min_bottleneck(0, kUnbounded - 1);
    REQUIRE(least.has_value());
    CHECK(partitioner.is_possible(least->largest));
    CHECK_FALSE(partitioner.is_possible(least->largest - 1));
    CHECK(least->largest <= free->largest);
    CHECK_FALSE(partitioner.best(50, 0, 0, least->largest - 1).has_value());
    const auto limited = partitioner.best(50, 0, 0, free->largest);
    REQUIRE(limited.has_value());
    CHECK(sizes_of(*limited) == sizes_of(*free));
  }
}
