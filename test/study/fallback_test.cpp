#include "study/fallback.hpp"

#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

TEST_CASE("losses double until half of the nodes are gone") {
  using List = std::vector<std::int64_t>;
  CHECK(losses(1).empty());
  CHECK(losses(2) == List{1});
  CHECK(losses(3) == List{1, 2});
  CHECK(losses(8) == List{1, 2, 4});
  CHECK(losses(9) == List{1, 2, 4});
  CHECK(losses(2048).size() == 11);
  CHECK(losses(2048).back() == 1024);
}

TEST_CASE("a fallback is the fastest of the next sizes that have a plan") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Case c = random_case(seed);
    c.cluster = small_cluster(6, 2, Bytes{40 * kGiB});
    c.request.base.global_batch = 24;
    const Result<SearchResult> best = search(c.model, c.cluster, c.request);
    REQUIRE(best.ok());
    if (best->plans.empty()) continue;
    const Result<FallbackBook> book =
        fallback_book(c.model, c.cluster, c.request, best->plans.front());
    REQUIRE(book.ok());
    REQUIRE(book->entries.size() == 2);  // 1 and 2 of 6 nodes; 4 would leave less than half
    for (const Fallback& entry : book->entries) {
      CAPTURE(seed, entry.nodes_lost);
      CHECK(entry.nodes_left == 6 - entry.nodes_lost);
      Seconds fastest{1e300};
      if (entry.nodes_lost == 1 && book->entries[1].plan) {
        fastest = book->entries[1].plan->step_time;
      }
      int with_plan = 0;
      for (std::int64_t n = entry.nodes_left; 2 * n >= entry.nodes_left && with_plan < 3; --n) {
        const Result<SearchResult> there = search(c.model, with_gpus(c.cluster, 2 * n), c.request);
        REQUIRE(there.ok());
        if (there->plans.empty()) continue;
        ++with_plan;
        fastest = std::min(fastest, there->plans.front().step_time);
      }
      REQUIRE(entry.plan.has_value() == (with_plan > 0));
      if (!entry.plan) continue;
      CHECK(entry.plan->step_time == fastest);
      CHECK(num_gpus(entry.plan->strategy) == 2 * entry.nodes_used);
      CHECK(entry.slowdown == Approx(entry.plan->step_time / best->plans.front().step_time));
      CHECK(entry.reshard.kind == reshard(best->plans.front().strategy, entry.plan->strategy).kind);
    }
  }
}
