#include <vector>

#include "search/cases.hpp"
#include "search/search.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Without plans nothing would be said.
Case with_plans(unsigned seed) {
  for (;; seed += 100) {
    Case c = random_case(seed);
    c.request.objective = Objective::kStepTime;
    const Result<SearchResult> found = search(c.model, c.cluster, c.request);
    if (found.ok() && !found->plans.empty()) return c;
  }
}

}  // namespace

TEST_CASE("what a search says on its way comes closer to its answer and is never refuted by it") {
  const unsigned seed = GENERATE(range(0U, 12U));
  const Case c = with_plans(seed);
  std::vector<SearchProgress> said;
  const Result<SearchResult> found =
      search(c.model, c.cluster, c.request,
             [&](const SearchProgress& progress) { said.push_back(progress); });
  REQUIRE(found.ok());
  const double answer = found->plans.front().step_time.si();
  REQUIRE_FALSE(said.empty());
  CHECK(said.back().share == 1);
  double share = 0, best = 1e300;
  for (const SearchProgress& now : said) {
    CHECK(now.share >= share);
    CHECK(now.share <= 1);
    share = now.share;
    if (!now.best) continue;
    CHECK(now.best->si() >= answer);
    CHECK(now.best->si() <= best);
    best = now.best->si();
    if (now.gap) CHECK(now.best->si() * (1 - *now.gap) <= answer * (1 + 1e-9));
  }
}
