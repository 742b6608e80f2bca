#include "spec/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "model/rules.hpp"
#include "spec/findings.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

// Median and 99th percentile of the busiest rank over all orders of the experts, counted exactly.
RankLoad exact_load(std::vector<double> loads, std::int64_t ranks) {
  const std::size_t each = loads.size() / static_cast<std::size_t>(ranks);
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> all;
  do {
    double most = 0;
    for (std::size_t i = 0; i < order.size(); i += each) {
      double sum = 0;
      for (std::size_t k = 0; k < each; ++k) sum += loads[order[i + k]];
      most = std::max(most, sum / static_cast<double>(each));
    }
    all.push_back(most);
  } while (std::next_permutation(order.begin(), order.end()));
  std::sort(all.begin(), all.end());
  const auto at = [&](double share) {
    return all[static_cast<std::size_t>(std::ceil(share * static_cast<double>(all.size()))) - 1];
  };
  return {ranks, at(0.5), at(0.99)};
}

RankLoad of_ranks(const std::vector<RankLoad>& all, std::int64_t ranks) {
  for (const RankLoad& load : all) {
    if (load.ranks == ranks) return load;
  }
  FAIL("no load for " << ranks << " ranks");
  return {};
}

}  // namespace

TEST_CASE("[F-MOE-1] Zipf loads by hand") {
  // 1, 1/2, 1/3, 1/4: the sum is 25/12, the mean 25/48.
  const std::vector<double> loads = zipf_loads(4, 1, 1);
  REQUIRE(loads.size() == 4);
  CHECK(loads[0] == Approx(48.0 / 25));
  CHECK(loads[1] == Approx(24.0 / 25));
  CHECK(loads[2] == Approx(16.0 / 25));
  CHECK(loads[3] == Approx(12.0 / 25));
  for (const double load : zipf_loads(16, 2, 0)) CHECK(load == Approx(1));
}

TEST_CASE("[F-MOE-1] no expert gets a token twice") {
  // Two of four experts per token: at most 2 each. 1, 1/4, 1/9, 1/16 over their mean starts with
  // 2.81, so the first gets 2, and the others share the remaining 2 as 36 : 16 : 9.
  const std::vector<double> loads = zipf_loads(4, 2, 2);
  CHECK(loads[0] == Approx(2));
  CHECK(loads[1] == Approx(2 * 36.0 / 61));
  CHECK(loads[2] == Approx(2 * 16.0 / 61));
  CHECK(loads[3] == Approx(2 * 9.0 / 61));
  const double exponent = GENERATE(0.3, 1.0, 3.0, 8.0);
  const std::vector<double> many = zipf_loads(256, 8, exponent);
  CHECK(std::accumulate(many.begin(), many.end(), 0.0) == Approx(256));
  CHECK(many.front() <= 32 * (1 + 1e-12));
  CHECK(std::is_sorted(many.rbegin(), many.rend()));
}

TEST_CASE("[F-MOE-2] the busiest rank is that of an exact enumeration") {
  const std::vector<double> loads =
      GENERATE(std::vector<double>{2, 1, 0.6, 0.4}, std::vector<double>{3, 1, 0.5, 0.5, 0.5, 0.5},
               std::vector<double>{2.5, 1.5, 1, 0.7, 0.2, 0.1},
               std::vector<double>{1.6, 1.2, 1.1, 1, 1, 0.9, 0.8, 0.4});
  const std::vector<RankLoad> all = rank_loads(loads);
  for (const RankLoad& load : all) {
    CAPTURE(loads.size(), load.ranks);
    const RankLoad exact = exact_load(loads, load.ranks);
    CHECK(load.median == Approx(exact.median));
    CHECK(load.p99 == Approx(exact.p99));
  }
}

TEST_CASE("[F-MOE-2] one rank has the mean, a rank per expert the busiest, and more ranks more") {
  const std::vector<double> loads = zipf_loads(64, 4, 0.6);
  const std::vector<RankLoad> all = rank_loads(loads);
  REQUIRE(all.size() == 7);
  CHECK(all.front().ranks == 1);
  CHECK(all.front().median == Approx(1));
  CHECK(all.front().p99 == Approx(1));
  CHECK(all.back().ranks == 64);
  CHECK(all.back().median == Approx(loads.front()));
  CHECK(all.back().p99 == Approx(loads.front()));
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(all[i].median >= all[i - 1].median);
    CHECK(all[i].p99 >= all[i - 1].p99);
    CHECK(all[i].p99 >= all[i].median);
  }
}

TEST_CASE("[F-MOE-2] the busiest of two ranks by hand") {
  // Of 2, 1, 1, 0 in pairs: 2 + 1 against 1 + 0 in two of three pairings, 2 + 0 against 1 + 1 in
  // one.
  const RankLoad two = of_ranks(rank_loads(std::vector<double>{2, 1, 1, 0}), 2);
  CHECK(two.median == Approx(1.5));
  CHECK(two.p99 == Approx(1.5));
}

TEST_CASE("[F-MOE-3] a plain number bounds the busiest rank, and conservation bounds it too") {
  MoeSpec moe{.num_experts = 64, .top_k = 4, .expert_ffn_hidden_size = 8, .imbalance = 3};
  CHECK(rank_load(moe, 1) == RankLoad{1, 1, 1});
  CHECK(rank_load(moe, 2) == RankLoad{2, 2, 2});
  CHECK(rank_load(moe, 4) == RankLoad{4, 3, 3});
  CHECK(rank_load(moe, 64) == RankLoad{64, 3, 3});
  moe.imbalance = 1;
  CHECK(rank_load(moe, 64) == RankLoad{64, 1, 1});
}

TEST_CASE("a histogram gives the busiest expert and a load per number of ranks") {
  MoeSpec moe{.num_experts = 4, .top_k = 1, .expert_ffn_hidden_size = 8};
  moe.load_histogram = {10, 20, 40, 10};
  derive_loads(moe);
  CHECK(moe.imbalance == Approx(2));
  CHECK(rank_load(moe, 4).median == Approx(2));
  CHECK(rank_load(moe, 1).p99 == Approx(1));
  MoeSpec plain{.num_experts = 4, .top_k = 1, .expert_ffn_hidden_size = 8, .imbalance = 1.5};
  derive_loads(plain);
  CHECK(plain.imbalance == 1.5);
  CHECK(plain.rank_loads.empty());
}

TEST_CASE("loads that no router can give are refused") {
  struct Row {
    const char* why;
    std::vector<double> histogram;
    std::optional<double> zipf;
    const char* message;
  };
  const Row row = GENERATE(
      Row{"wrong length",
          {1, 2},
          {},
          "'moe.imbalance.histogram' needs one load for each of the 4 experts, got 2"},
      Row{"negative",
          {1, -2, 1, 1},
          {},
          "'moe.imbalance.histogram' must hold loads of zero or more, one of them above"},
      Row{"all zero",
          {0, 0, 0, 0},
          {},
          "'moe.imbalance.histogram' must hold loads of zero or more, one of them above"},
      Row{"twice a token",
          {9, 1, 1, 1},
          {},
          "'moe.imbalance.histogram' gives an expert 3.00 times the mean load, but with 2 of 4 "
          "experts per token none can get more than 2.00 times"},
      Row{"negative exponent", {}, -1, "'moe.imbalance.zipf' must be from 0 to 8, got -1"});
  CAPTURE(row.why);
  ModelSpec m;
  m.name = "m";
  m.num_layers = 2, m.hidden_size = 64, m.num_attention_heads = m.num_query_groups = 4;
  m.head_dim = 16, m.vocab_size = 100, m.max_seq_length = 64;
  m.moe = MoeSpec{.num_experts = 4, .top_k = 2, .expert_ffn_hidden_size = 8};
  CHECK_FALSE(findings(m).has_errors());
  m.moe->load_histogram = row.histogram;
  m.moe->load_zipf = row.zipf;
  const Findings found = findings(m);
  REQUIRE(found.has_errors());
  CHECK(found.all().front().diagnostic.message == row.message);
}
