// What adapters keep of their inputs: the ways that a space holds beside the stated one.
#include "search/cases.hpp"
#include "space/counts.hpp"
#include "space/space.hpp"
#include "space/strategies.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

TEST_CASE("adapters keep their gathered inputs or gather them again, unless the key is fixed") {
  ModelSpec m = small_model(4, 1024);
  const ClusterSpec c = small_cluster(2, 2, Bytes{80 * kGiB});
  SearchRequest r = request_for(8);
  r.base.lora.rank = 8;
  const auto space = [&] {
    auto made = SearchSpace::make(m, c, r);
    REQUIRE(made.ok());
    return std::move(made.value());
  };
  const SearchSpace both = space();
  REQUIRE(both.bases().size() == 2);
  CHECK_FALSE(both.bases()[0].lora.input_regather);
  CHECK(both.bases()[1].lora.input_regather);
  int again = 0;
  // Nothing is listed that the key does not change.
  for_each_legal(both, [&](const Strategy& s, const MemoryOption&) {
    if (!s.lora.input_regather) return;
    ++again;
    CHECK(regathers_input(s));
  });
  CHECK(again > 0);
  r.limits = {only("lora.input_regather", {"true"})};
  CHECK(space().bases().size() == 1);
  r.limits = {only("lora.input_regather", {"false"})};
  const SearchSpace kept = space();
  CHECK(kept.bases().size() == 1);
  CHECK(num_legal(both) == num_legal(kept) + again);
  r.limits.clear();
  SECTION("all weights are trained") { r.base.lora = {}; }
  SECTION("the second matrices alone have adapters") {
    r.base.lora.targets = {LoraTarget::kProj, LoraTarget::kFc2};
  }
  SECTION("their outputs are exchanged") { r.base.lora.all_to_all = true; }
  CHECK(space().bases().size() == 1);
}

TEST_CASE("a mixture's adapters have both ways of keeping inputs with either way of dispatch") {
  ModelSpec m = small_model(4, 1024);
  add_experts(m, 8, 0, 1);
  const ClusterSpec c = small_cluster(2, 2, Bytes{80 * kGiB});
  SearchRequest r = request_for(8);
  r.base.lora.rank = 8;
  const auto made = SearchSpace::make(m, c, r);
  REQUIRE(made.ok());
  REQUIRE(made->bases().size() == 4);
  int alone = 0, beside = 0;
  for_each_legal(*made, [&](const Strategy& s, const MemoryOption&) {
    if (!s.lora.input_regather) return;
    ++(s.overlap.ep ? beside : alone);
    CHECK((!s.overlap.ep || s.ep > 1));
  });
  CHECK(alone > 0);
  CHECK(beside > 0);
}
