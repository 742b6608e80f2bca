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
