#include "report/html.hpp"

#include <nlohmann/json.hpp>

#include "cost/step.hpp"
#include "cost/support.hpp"
#include "report/page.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;
using Json = nlohmann::json;

namespace {

// The text of the element that holds the result.
std::string embedded(const std::string& html) {
  const std::string open = R"(<script type="application/json" id="result">)";
  const std::size_t begin = html.find(open);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = html.find('<', begin + open.size());
  return html.substr(begin + open.size(), end - begin - open.size());
}

}  // namespace

// Where the program is built without Node.js there is no page to test.
TEST_CASE("a report holds its result unchanged, whatever the names in it") {
  if (!has_page()) return;
  const Json result{
      {"model", {{"name", "</script><script>alert('&amp;')</script><!-- {{result}}"}}},
      {"plans", {1, 2.5, nullptr, "\xe2\x80\xa8"}}};
  const std::string html = html_report(result.dump());
  CHECK(Json::parse(embedded(html)) == result);
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(html.size() > page_template().size());
  CHECK(html.find("<script>alert") == std::string::npos);
}

TEST_CASE("the page forbids every connection, and asks for nothing") {
  if (!has_page()) return;
  const std::string_view page = page_template();
  CHECK(page.find("default-src 'none'; script-src 'sha256-") != std::string_view::npos);
  CHECK(page.find("connect-src") == std::string_view::npos);
  CHECK(page.find("<link") == std::string_view::npos);
  CHECK(page.size() < 500'000);
  CHECK(page.find("Mike Bostock") != std::string_view::npos);  // the licences come along
}

TEST_CASE("measurements that are none, or too much, are refused with the reason") {
  const Json plan{{"rank", 1},
                  {"new_rank", 1},
                  {"strategy_text", "tp=2"},
                  {"predicted_step_time_s", 1.0},
                  {"step_time_s", 1.1},
                  {"deviation", 0.1},
                  {"within_tolerance", true},
                  {"coverage", 0.5},
                  {"extrapolated", 0},
                  {"unmeasured", 0.5},
                  {"operations", Json::array()}};
  const Json good{
      {"model", "m"},
      {"cluster", "c"},
      {"machine", {{"ranks", Json::array()}, {"nodes", 1}, {"backend", "mpi"}, {"date", "d"}}},
      {"tolerance", 0.15},
      {"within_tolerance", true},
      {"samples", 1},
      {"not_reached", 0},
      {"failures", Json::array()},
      {"plans", {plan}}};
  const auto problem = [](const Json& result, const std::string& validation) {
    const Result<std::string> both = with_validation(result.dump(), validation, "v.json");
    return both.ok() ? std::string() : to_text(both.errors());
  };
  const auto with = [&](const char* key, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(key)] = value;
    return changed.dump();
  };
  const Json result{{"plans", {{{"rank", 1}, {"strategy_text", "tp=2"}}}}};
  CHECK(problem(result, good.dump()).empty());
  const std::string none = "v.json: error: is no result of 'meshplan validate --json'";
  CHECK(problem(result, "{").find(none) == 0);
  CHECK(problem(result, with("/plans/0/strategy_text", 5)).find(none) == 0);
  CHECK(problem(result, with("/plans/0/deviation", "a")).find(none) == 0);
  CHECK(problem(result, with("/plans/0", 5)).find(none) == 0);
  CHECK(problem(result, with("/machine", 5)).find(none) == 0);
  const std::string other = "v.json: error: validates other plans: that of rank 1 is not";
  CHECK(problem(result, with("/plans/0/strategy_text", "tp=4")).find(other) == 0);
  CHECK(problem({{"plans", {5, {{"rank", 1}, {"strategy_text", 5}}}}}, good.dump()).find(other) ==
        0);
  Json keys = Json::object();
  for (int i = 0; i < 1500; ++i) keys["k" + std::to_string(i)] = 1;
  for (const std::string& text : {std::string(10'000, '['), with("/machine/environment", keys)}) {
    CHECK(problem(result, text).find("v.json: error: holds too many values or keys") == 0);
  }
}

TEST_CASE("what an older result lacks is added, and what it has is kept") {
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(8);
  const Strategy s = complete(plain_strategy(1, 4, 2), m, c);
  const Json added = Json::parse(with_detail(R"({"plans": []})", m, c, s));
  CHECK(added["timeline"]["ranks"].size() == 4);
  CHECK(added["placement"]["nodes"] == 1);
  const std::string_view own = R"({"timeline": 1, "placement": 2})";
  CHECK(Json::parse(with_detail(own, m, c, s)) == Json::parse(own));
}
