#include "search/groups.hpp"

#include "search/cases.hpp"
#include "search/search.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

PlanCost plan(std::int64_t tp, std::int64_t vp, double seconds) {
  PlanCost p;
  p.strategy.tp = tp;
  p.strategy.vp = vp;
  p.time.compute = p.step_time = Seconds{seconds};
  return p;
}

}  // namespace

TEST_CASE("variants of a decision within the tie are one group, slower ones their own") {
  const std::vector<PlanCost> plans{plan(8, 4, 1), plan(8, 2, 1.0001), plan(4, 4, 1.0002),
                                    plan(8, 1, 1.0003), plan(8, 8, 2)};
  const std::vector<PlanGroup> groups = grouped(plans);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].first == 0);
  CHECK(groups[0].variants == std::vector<std::size_t>{1, 3});
  CHECK(groups[0].keys == std::vector<std::string>{"vp"});
  CHECK(groups[1].first == 2);
  CHECK(groups[1].variants.empty());
  CHECK(groups[2].first == 4);
}

TEST_CASE("every plan is in one group, and dropping groups leaves the others as they were") {
  const int seed = GENERATE(range(0, 6));
  Case c = random_case(seed);
  c.request.top = 12;
  const Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  const std::vector<PlanGroup> groups = grouped(found->plans);
  std::size_t members = groups.size();
  for (const PlanGroup& g : groups) {
    members += g.variants.size();
    for (const std::size_t i : g.variants) {
      CHECK(i > g.first);
      CHECK(same_decision(found->plans[g.first].strategy, found->plans[i].strategy));
    }
  }
  CHECK(members == found->plans.size());
  std::vector<PlanCost> fewer = found->plans;
  keep_groups(fewer, 2);
  const std::vector<PlanGroup> left = grouped(fewer);
  REQUIRE(left.size() == std::min<std::size_t>(2, groups.size()));
  for (std::size_t g = 0; g < left.size(); ++g) {
    CHECK(fewer[left[g].first].strategy == found->plans[groups[g].first].strategy);
    CHECK(left[g].variants.size() == groups[g].variants.size());
  }
}

TEST_CASE("rows with the same short text are told apart by the keys that it leaves out") {
  PlanCost ring = plan(1, 1, 1), gathered = plan(1, 1, 3), other = plan(2, 1, 4);
  ring.strategy.cp = gathered.strategy.cp = 2;
  gathered.strategy.cp_kind = CpKind::kAllGather;
  const std::vector<PlanCost> plans{ring, gathered, other};
  const std::vector<std::string> names = group_names(plans, grouped(plans));
  REQUIRE(names.size() == 3);
  CHECK(names[0] == short_text(ring.strategy) + " cp_kind=ring");
  CHECK(names[1] == short_text(ring.strategy) + " cp_kind=allgather");
  CHECK(names[2] == short_text(other.strategy));
}
