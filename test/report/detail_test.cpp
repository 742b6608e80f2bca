#include "report/detail.hpp"

#include <algorithm>

#include "cost/step.hpp"
#include "cost/support.hpp"
#include "report/json_detail.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

Strategy piped(std::int64_t batch) {
  Strategy s = plain_strategy(1, 4, 2);
  s.global_batch = batch;
  return s;
}

StepTimeline sample_timeline(std::int64_t batch) {
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(8);
  return step_timeline(m, c, complete(piped(batch), m, c));
}

std::size_t count_tasks(const Json& timeline) {
  std::size_t n = 0;
  for (const Json& rank : timeline["ranks"]) {
    n += rank["tasks"]["kinds"].get<std::string>().size();
  }
  return n;
}

}  // namespace

TEST_CASE("a timeline's lists are as long as its tasks and messages are many") {
  const Json json = timeline_json(sample_timeline(32));
  REQUIRE(json["ranks"].size() == 4);
  CHECK(count_tasks(json) == 4 * 2 * 16);  // 4 ranks, forward and backward of 16 microbatches
  CHECK(json["omitted"].is_null());
  for (const Json& rank : json["ranks"]) {
    for (const char* list : {"tasks", "sends"}) {
      const std::size_t n = rank[list]["starts_us"].size();
      for (const Json& column : rank[list]) {
        CHECK((column.is_string() ? column.get<std::string>().size() : column.size()) == n);
      }
    }
    CHECK(rank["tasks"]["kinds"].get<std::string>().size() == rank["tasks"]["ends_us"].size());
  }
  CHECK(json["ranks"][0]["sends"]["to"] == Json(std::vector<int>(16, 1)));
}

TEST_CASE("a long step keeps its beginning and its end, and says what was left out") {
  const StepTimeline whole = sample_timeline(2000);
  const Json json = timeline_json(whole, 400);
  CHECK(count_tasks(json) <= 400);
  CHECK(count_tasks(json) > 350);
  const std::int64_t from = json["omitted"]["start_us"], to = json["omitted"]["end_us"];
  CHECK(from < to);
  for (std::size_t r = 0; r < 4; ++r) {
    const Json& tasks = json["ranks"][r]["tasks"];
    CHECK(tasks["starts_us"].front() ==
          std::llround(whole.ranks[r].tasks.front().start.si() * 1e6));
    CHECK(tasks["ends_us"].back() == std::llround(whole.ranks[r].tasks.back().end.si() * 1e6));
    for (std::size_t i = 0; i < tasks["starts_us"].size(); ++i) {
      const bool inside = tasks["starts_us"][i] > from && tasks["ends_us"][i] < to;
      CHECK_FALSE(inside);
    }
  }
}

TEST_CASE("the map says where each rank sits along each axis") {
  // rank = tp + 2 dp + 4 pp on two nodes of four devices.
  ClusterSpec c = plain_cluster(8);
  c.gpus_per_node = 4, c.nodes = 2, c.levels[0].span = 4;
  const Json json = rank_map_json(plain_strategy(2, 2, 2), c);
  CHECK(json["nodes"] == 2);
  const Json axes = {{{"name", "tp"}, {"size", 2}, {"level", "nvlink"}},
                     {{"name", "dp"}, {"size", 2}, {"level", "nvlink"}},
                     {{"name", "pp"}, {"size", 2}, {"level", "ib"}}};
  CHECK(json["axes"] == axes);
  REQUIRE(json["shown"].size() == 2);
  CHECK(json["shown"][0]["positions"]["tp"] == Json({0, 1, 0, 1}));
  CHECK(json["shown"][0]["positions"]["dp"] == Json({0, 0, 1, 1}));
  CHECK(json["shown"][0]["positions"]["pp"] == Json({0, 0, 0, 0}));
  CHECK(json["shown"][0]["groups"]["tp"] == Json({0, 0, 2, 2}));
  CHECK(json["shown"][0]["groups"]["dp"] == Json({0, 1, 0, 1}));
  CHECK(json["shown"][1]["groups"]["pp"] == Json({0, 1, 2, 3}));
  CHECK(json["shown"][1]["first_rank"] == 4);
  CHECK(json["shown"][1]["positions"]["pp"] == Json({1, 1, 1, 1}));
}

TEST_CASE("of many nodes the map shows those that rank 0 talks to") {
  const Json json = rank_map_json(plain_strategy(8, 4, 64), plain_cluster(2048));
  CHECK(json["nodes"] == 256);
  CHECK(json["shown"].size() == 32);
  std::vector<std::int64_t> nodes;
  for (const Json& node : json["shown"]) nodes.push_back(node["node"]);
  // The pipeline of rank 0 steps over 8 x 64 devices, 64 nodes.
  for (const std::int64_t n : {0, 64, 128, 192}) {
    CHECK(std::count(nodes.begin(), nodes.end(), n) == 1);
  }
  CHECK(std::is_sorted(nodes.begin(), nodes.end()));
}

TEST_CASE("evaluated plans carry every key that tells them apart") {
  SurveyedPlan fast{plain_strategy(1, 4, 2), Seconds{2}, Bytes{60}, true, true, 1};
  SurveyedPlan slow{plain_strategy(2, 2, 2), Seconds{3}, Bytes{90}, false, false, 0};
  const std::vector<SurveyedPlan> all{fast, slow};
  const Json json = evaluated_plans_json(all, Bytes{80});
  CHECK(json["count"] == 2);
  CHECK(json["capacity_bytes"] == 80);
  CHECK(json["step_times_s"] == Json({2.0, 3.0}));
  CHECK(json["fits"] == Json({true, false}));
  CHECK(json["ranks"] == Json({1, 0}));
  const Json keys = {{{"key", "tp"}, {"choices", {"1", "2"}}, {"values", {0, 1}}},
                     {{"key", "pp"}, {"choices", {"4", "2"}}, {"values", {0, 1}}}};
  CHECK(json["keys"] == keys);
}

TEST_CASE("the detail of a search holds the best plan's timeline and the space's plans") {
  const search_test::Case c = search_test::random_case(3);
  const SearchResult result = search(c.model, c.cluster, c.request).value();
  REQUIRE(!result.plans.empty());
  const PlanDetail detail = plan_detail(c.model, c.cluster, c.request, result);
  REQUIRE(detail.timeline);
  CHECK(detail.timeline->step_time.si() ==
        Approx(result.plans.front().step_time.si()).epsilon(1e-12));
  CHECK(detail.surveyed.size() > result.plans.size());
}

TEST_CASE("lists of numbers stand on one line of a document") {
  const Json json = {
      {"numbers", {1, 2.5, true, nullptr}}, {"words", {"a", "b"}}, {"none", Json::array()}};
  CHECK(document_text(json) ==
        "{\n  \"numbers\": [1, 2.5, true, null],\n  \"words\": [\n    \"a\",\n    \"b\"\n  ],\n"
        "  \"none\": []\n}\n");
  CHECK(Json::parse(document_text(json)) == json);
}
