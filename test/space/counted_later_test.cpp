// What a search counts after it has found its plans.
#include "search/cases.hpp"
#include "space/space.hpp"
#include "space/space_memo.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

TEST_CASE("illegal meshes that are counted later are counted alike") {
  int counted = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed);
    CAPTURE(seed);
    SpaceMemo memo;
    const Result<SearchSpace> whole = SearchSpace::make(c.model, c.cluster, c.request);
    Result<SearchSpace> later =
        SearchSpace::make_uncounted(c.model, c.cluster, c.request, seed % 2 == 0 ? &memo : nullptr);
    REQUIRE(static_cast<bool>(whole) == static_cast<bool>(later));
    if (!whole) continue;
    SearchSpace counted_later = std::move(later).value();
    REQUIRE(counted_later.meshes().size() == whole->meshes().size());
    counted += counted_later.size() < whole->size() ? 1 : 0;
    for (int twice = 0; twice < 2; ++twice) {
      counted_later.count_illegal(c.model, c.cluster, c.request, seed % 2 == 0 ? &memo : nullptr);
      REQUIRE(counted_later.size() == whole->size());
      REQUIRE(counted_later.illegal() == whole->illegal());
    }
  }
  CAPTURE(counted);
  CHECK(counted > 20);
}
