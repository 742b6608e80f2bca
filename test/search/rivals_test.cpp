#include "search/rivals.hpp"

#include "search/cases.hpp"
#include "search/near.hpp"
#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

const Rival* rival_of(const std::vector<Rival>& all, const std::string& key) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Rival& r) { return r.key == key; });
  return found == all.end() ? nullptr : &*found;
}

Case with_cluster(unsigned seed) {
  Case c = random_case(seed);
  c.cluster = small_cluster(4, 4, Bytes{40 * kGiB});
  c.request.base.global_batch = 32;
  c.request.limits.clear();
  c.request.objective = Objective::kStepTime;
  return c;
}

}  // namespace

TEST_CASE("a rival is what a search with its key fixed finds, and never faster than the best") {
  const unsigned seed = GENERATE(range(0U, 8U));
  const Case c = with_cluster(seed);
  const Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  REQUIRE_FALSE(found->plans.empty());
  const PlanCost& best = found->plans.front();
  const std::vector<Rival> all =
      rivals(c.model, c.cluster, c.request, *found, RivalBudget{1LL << 40, {}});
  CHECK_FALSE(all.empty());
  for (const Rival& rival : all) {
    CAPTURE(rival.key, rival.value);
    CHECK(value_text(best.strategy, rival.key) != rival.value);
    if (!rival.exact) continue;
    SearchRequest fixed = c.request;
    fixed.top = 1;
    const auto limits = parse_limits(rival.key + "=" + rival.value, "test");
    REQUIRE(limits.ok());
    fixed.limits.insert(fixed.limits.end(), limits->begin(), limits->end());
    const Result<SearchResult> alone = search(c.model, c.cluster, fixed);
    REQUIRE(alone.ok());
    if (!rival.plan) {
      for (const PlanCost& plan : alone->plans) CHECK(plan.step_time > kFarSlower * best.step_time);
      continue;
    }
    CHECK(value_text(rival.plan->strategy, rival.key) == rival.value);
    // Without its kernels attention may be faster in tiny layers; that is asked for, not chosen.
    if (rival.key != "flash_attention") CHECK(rival.plan->step_time >= best.step_time);
    REQUIRE_FALSE(alone->plans.empty());
    CHECK(rival.plan->step_time == alone->plans.front().step_time);
  }
}

TEST_CASE("a small budget gives upper bounds, the same ones whatever the number of threads") {
  const unsigned seed = GENERATE(range(0U, 6U));
  Case c = with_cluster(seed);
  const Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  REQUIRE_FALSE(found->plans.empty());
  const std::vector<Rival> whole =
      rivals(c.model, c.cluster, c.request, *found, RivalBudget{1LL << 40, {}});
  c.request.threads = 1;
  const std::vector<Rival> alone =
      rivals(c.model, c.cluster, c.request, *found, RivalBudget{512, {}});
  c.request.threads = 2;
  const std::vector<Rival> together =
      rivals(c.model, c.cluster, c.request, *found, RivalBudget{512, {}});
  REQUIRE(alone.size() == together.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CAPTURE(alone[i].key, alone[i].value);
    CHECK(alone[i].exact == together[i].exact);
    REQUIRE(alone[i].plan.has_value() == together[i].plan.has_value());
    if (!alone[i].plan) continue;
    CHECK(alone[i].plan->strategy == together[i].plan->strategy);
    CHECK(value_text(alone[i].plan->strategy, alone[i].key) == alone[i].value);
    REQUIRE(whole[i].plan);
    CHECK(alone[i].plan->step_time >= whole[i].plan->step_time);
  }
}

TEST_CASE("what the request fixes or excludes has no rival, and without time there is none") {
  Case c = with_cluster(3);
  const auto limits = parse_limits("tp=2,zero<=1", "test");
  REQUIRE(limits.ok());
  c.request.limits = *limits;
  const Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  REQUIRE_FALSE(found->plans.empty());
  const std::vector<Rival> all =
      rivals(c.model, c.cluster, c.request, *found, RivalBudget{1LL << 40, {}});
  CHECK(rival_of(all, "tp") == nullptr);
  for (const Rival& rival : all) CHECK((rival.key != "zero" || rival.value <= "1"));
  CHECK(rivals(c.model, c.cluster, c.request, *found, RivalBudget{}).empty());
}

TEST_CASE("the reasons say of each decision how far its best alternative is behind") {
  const Case c = with_cluster(5);
  const Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  REQUIRE_FALSE(found->plans.empty());
  PlanCost slower = found->plans.front();
  slower.step_time = slower.step_time * 1.25;
  const std::string twice = std::to_string(2 * found->plans.front().strategy.tp);
  const std::vector<Rival> all{{"tp", twice, true, slower}, {"pp", "7", false, std::nullopt}};
  const std::vector<std::string> why = explain(c.model, c.cluster, *found, all);
  const auto says = [&](const std::string& text) {
    return std::any_of(why.begin(), why.end(), [&](const std::string& sentence) {
      return sentence.find(text) != std::string::npos;
    });
  };
  CHECK(says("at best tp=" + twice + " is 25.0 % slower"));
  CHECK_FALSE(says("pp=7"));
  const std::vector<Rival> bound{{"tp", twice, false, slower}};
  CHECK(explain(c.model, c.cluster, *found, bound) != why);
}

TEST_CASE("near a plan are those that split at most twice and at least half as far") {
  SearchRequest request;
  Strategy plan;
  plan.tp = 4, plan.pp = 3, plan.micro_batch = 2;
  keep_near(request, plan, "micro_batch");
  const auto is_near = [&](std::int64_t tp, std::int64_t pp, std::int64_t micro_batch) {
    Strategy s = plan;
    s.tp = tp, s.pp = pp, s.micro_batch = micro_batch;
    return satisfies(s, request.limits);
  };
  CHECK(is_near(4, 3, 2));
  CHECK(is_near(2, 6, 64));
  CHECK(is_near(8, 2, 1));
  CHECK_FALSE(is_near(1, 3, 2));
  CHECK_FALSE(is_near(16, 3, 2));
  CHECK_FALSE(is_near(4, 1, 2));
  CHECK_FALSE(is_near(4, 7, 2));
}

TEST_CASE("an interrupt ends a search as its time limit does") {
  const Case c = with_cluster(2);
  const std::atomic<bool> yes = true, no = false;
  SearchRequest request = c.request;
  request.interrupted = &no;
  const Result<SearchResult> whole = search(c.model, c.cluster, request);
  REQUIRE(whole.ok());
  CHECK(whole->proof.exact);
  request.interrupted = &yes;
  const Result<SearchResult> cut = search(c.model, c.cluster, request);
  REQUIRE(cut.ok());
  CHECK_FALSE(cut->proof.exact);
  CHECK(rivals(c.model, c.cluster, request, *whole, RivalBudget{1LL << 40, {}}).empty());
}
