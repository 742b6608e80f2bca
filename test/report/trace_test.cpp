#include "report/trace.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cost/step.hpp"
#include "cost/support.hpp"
#include "report/detail.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;
using Json = nlohmann::json;

namespace {

constexpr ToolInfo kTestTool{"9.9.9"};

StepTimeline traced(Schedule schedule, std::int64_t vp) {
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 4, 2);
  s.schedule = schedule, s.vp = vp, s.global_batch = 32;
  return step_timeline(m, c, complete(s, m, c));
}

struct Row {
  Schedule schedule;
  std::int64_t vp;
};
const auto kRows = {Row{Schedule::k1f1b, 1}, Row{Schedule::kInterleaved, 2},
                    Row{Schedule::kZbH1, 1}, Row{Schedule::kZbV, 2}, Row{Schedule::kDualPipe, 2}};

}  // namespace

TEST_CASE("a trace has a track per pipeline rank and stream, and every task once") {
  const Row row = GENERATE(values(kRows));
  const StepTimeline t = traced(row.schedule, row.vp);
  const Json json = Json::parse(trace_document(kTestTool, "a <name>", t));
  CHECK(json["displayTimeUnit"] == "ms");
  CHECK(json["otherData"] == Json{{"tool", "meshplan 9.9.9"}, {"name", "a <name>"}});
  std::map<std::pair<int, int>, std::size_t> slices;
  std::set<std::pair<int, int>> named;
  for (const Json& e : json["traceEvents"]) {
    const std::pair<int, int> track{e["pid"], e["tid"]};
    if (e["ph"] == "X") ++slices[track];
    if (e["ph"] == "M" && e["name"] == "thread_name") CHECK(named.insert(track).second);
  }
  CHECK(named.size() == 4 * 3);
  for (int r = 0; r < 4; ++r) {
    const RankTimeline& rank = t.ranks[static_cast<std::size_t>(r)];
    CHECK(slices[{r, 0}] == rank.tasks.size());
    CHECK(slices[{r, 1}] == rank.sends.size());
  }
}

TEST_CASE("a step of more passes than anyone can look at has no timeline") {
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 4, 2);
  s.global_batch = 2 * 16'001;
  CHECK(!timeline_of(m, c, complete(s, m, c)));
  s.global_batch = 32;
  CHECK(timeline_of(m, c, complete(s, m, c)));
}

TEST_CASE("times of a trace are microseconds, and slices of one compute track do not overlap") {
  const Row row = GENERATE(values(kRows));
  const StepTimeline t = traced(row.schedule, row.vp);
  const Json json = Json::parse(trace_document(kTestTool, "x", t));
  std::map<int, double> busy_until;
  double last = 0;
  for (const Json& e : json["traceEvents"]) {
    if (e["ph"] != "X") continue;
    const double start = e["ts"], end = start + e["dur"].get<double>();
    last = std::max(last, end);
    if (e["tid"] != 0) continue;
    CHECK(start >= busy_until[e["pid"]] - 1e-6);
    busy_until[e["pid"]] = end;
  }
  CHECK(last == Approx(t.step_time.si() * 1e6));
}

TEST_CASE("arrows lead from a message to the task that waits for it, each with both ends") {
  const Row row = GENERATE(values(kRows));
  const StepTimeline t = traced(row.schedule, row.vp);
  const Json json = Json::parse(trace_document(kTestTool, "x", t));
  std::map<std::int64_t, const Json*> begun;
  std::size_t sends = 0, ended = 0;
  for (const Json& e : json["traceEvents"]) {
    if (e["ph"] == "X" && e["cat"] == "send") ++sends;
    if (e["ph"] == "s") CHECK(begun.emplace(e["id"].get<std::int64_t>(), &e).second);
    if (e["ph"] != "f") continue;
    ++ended;
    REQUIRE(begun.count(e["id"]) == 1);
    CHECK(e["ts"] >= (*begun[e["id"]])["ts"]);
    CHECK(e["pid"] != (*begun[e["id"]])["pid"]);
  }
  CHECK(sends > 0);
  CHECK(ended == sends);
  CHECK(begun.size() == sends);
}
