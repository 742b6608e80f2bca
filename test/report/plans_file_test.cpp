// What the program writes reads back as what it was written from.
#include "io/plans_file.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "report/json.hpp"
#include "search/search.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Json = nlohmann::ordered_json;

namespace {

constexpr ToolInfo kTestTool{"9.9.9"};

DataFolders shipped() { return DataFolders({std::filesystem::path(MESHPLAN_SOURCE_DIR)}); }

ModelSpec model(const std::string& name) { return load_model(name, shipped()).value(); }

// A cluster that uses every key of the format.
ClusterSpec full_cluster() {
  ClusterSpec c = with_gpus(load_cluster("dgx-a100-80gb", shipped()).value(), 16);
  c.collectives.push_back({Collective::kAllReduce,
                           c.levels[0].name,
                           8,
                           1,
                           {{Bytes{1000}, Seconds{1e-5 / 3}}, {Bytes{1 << 20}, Seconds{2.5e-5}}}});
  c.host_memory = Bytes{std::int64_t{2} << 40};
  c.usd_per_gpu_hour = 2.35;
  c.source = "a name with \"quotes\", a\ttab and umläute";
  c.device.overlap_slowdown = 1.07;
  c.device.collective_gap = Seconds{1.0 / 3e5};
  return c;
}

struct Written {
  ModelSpec m;
  ClusterSpec c;
  SearchRequest request;
  SearchResult result;
  std::string text;
};

Written written(const std::string& model_name = "llama-2-7b") {
  Written w{model(model_name), full_cluster(), {}, {}, {}};
  w.request.base = framework_preset(Framework::kMegatron);
  w.request.base.global_batch = 64;
  w.request.base.seq_len = 2048;
  w.request.top = 3;
  w.request.threads = 1;
  w.result = search(w.m, w.c, w.request).value();
  w.text = plan_document(kTestTool, w.m, w.c, w.request, w.result);
  return w;
}

const Written& sample() {
  static const Written w = written();
  return w;
}

// The document with one value replaced.
std::string with(const std::string& pointer, const Json& value) {
  Json json = Json::parse(sample().text);
  json[Json::json_pointer(pointer)] = value;
  return json.dump(2);
}

std::string without(const std::string& pointer, const std::string& key) {
  Json json = Json::parse(sample().text);
  json[Json::json_pointer(pointer)].erase(key);
  return json.dump(2);
}

std::string problems(const std::string& text) {
  const Result<PlansFile> file = parse_plans(text, "plans.json");
  return file ? "" : to_text(file.errors());
}

}  // namespace

TEST_CASE("plans read back with model, cluster, workload and strategies as they were") {
  const Result<PlansFile> file = parse_plans(sample().text, "plans.json");
  if (!file) FAIL(to_text(file.errors()));
  CHECK(file->tool_version == "9.9.9");
  CHECK(file->model == sample().m);
  CHECK(file->cluster == sample().c);
  CHECK(file->global_batch == 64);
  CHECK(file->seq_len == 2048);
  CHECK(file->gpus == 16);
  REQUIRE(file->plans.size() == sample().result.plans.size());
  for (std::size_t i = 0; i < file->plans.size(); ++i) {
    const SavedPlan& saved = file->plans[i];
    const PlanCost& plan = sample().result.plans[i];
    CHECK(saved.rank == static_cast<std::int64_t>(i) + 1);
    CHECK(saved.strategy == plan.strategy);
    CHECK(saved.step_time == plan.step_time);
    CHECK(saved.peak_memory == plan.memory().peak);
    CHECK(saved.mfu == plan.mfu);
    CHECK(saved.tokens_per_s == plan.tokens_per_step / plan.step_time.si());
    CHECK(saved.usd_per_step.has_value());
    CHECK(cost_of(file->model, file->cluster, saved.strategy).step_time == plan.step_time);
  }
}

TEST_CASE("every shipped cluster reads back from a result, to the bit") {
  const std::vector<std::string> names = shipped().names(kClusterFolder);
  REQUIRE(names.size() >= 5);
  for (const std::string& name : names) {
    CAPTURE(name);
    const ClusterSpec c = load_cluster(name, shipped()).value();
    Json json = Json::parse(sample().text);
    json["cluster"] =
        Json::parse(cluster_list_document(kTestTool, std::span(&c, 1)))["clusters"][0];
    json["plans"] = Json::array();  // made for another cluster
    const Result<PlansFile> bare = parse_plans(json.dump(), "plans.json");
    if (!bare) FAIL(to_text(bare.errors()));
    CHECK(bare->cluster == c);
    CHECK(bare->plans.empty());
  }
}

TEST_CASE("an estimate reads as a file of one plan, or of none") {
  const Written& w = sample();
  Verdict v;
  v.state = w.result.plans.front();
  const std::string text =
      estimate_document(kTestTool, w.m, w.c, w.result.plans.front().strategy, v);
  const Result<PlansFile> file = parse_plans(text, "estimate.json");
  if (!file) FAIL(to_text(file.errors()));
  REQUIRE(file->plans.size() == 1);
  CHECK(file->plans[0].strategy == w.result.plans.front().strategy);

  Verdict miss;
  miss.state = Infeasible{};
  const Result<PlansFile> none = parse_plans(
      estimate_document(kTestTool, w.m, w.c, w.result.plans.front().strategy, miss), "e.json");
  REQUIRE(none.ok());
  CHECK(none->plans.empty());
}

TEST_CASE("keys that a later version adds are passed over") {
  CHECK(problems(with("/pareto", Json{{"a b", {1, 2}}})).empty());
  CHECK(problems(with("/plans/0/timeline", Json::array())).empty());
}

TEST_CASE("what is wrong with a plans file is said with its place") {
  CHECK(problems(with("/plans/1/step_time_s", "fast"))
            .find("'plans[1].step_time_s' must be a number") != std::string::npos);
  CHECK(problems(with("/plans/1/step_time_s", -1)).find("must be above zero") != std::string::npos);
  CHECK(problems(without("/plans/0", "strategy")).find("'plans[0].strategy' is missing") !=
        std::string::npos);
  CHECK(problems(with("/plans/0/strategy/tq", 2)).find("unknown key 'tq'") != std::string::npos);
  CHECK(problems(with("/plans/0/step_time_interval_s", Json{1})).find("a pair of times") !=
        std::string::npos);
  CHECK(problems(with("/workload/gpus", 0)).find("'workload.gpus' must be above zero") !=
        std::string::npos);
  CHECK(problems(with("/cluster/spec/levels/0/bandwidth", 5)).find("has no unit") !=
        std::string::npos);
  CHECK(problems(with("/plans/0/rank", -3)).find("'plans[0].rank' must be above zero") !=
        std::string::npos);
  CHECK(problems(with("/plans/1/rank", 1)).find("'plans[1].rank' is that of another plan too") !=
        std::string::npos);
  for (const std::string key :
       {"mfu", "hfu", "tokens_per_s", "tokens_per_s_per_gpu", "usd_per_step"}) {
    CHECK(problems(with("/plans/0/" + key, -1.5))
              .find("'plans[0]." + key + "' must not be below zero") != std::string::npos);
  }
  CHECK(problems(with("/plans/0/memory/0/peak_bytes", -1)).find("must not be below zero") !=
        std::string::npos);
  CHECK(problems(with("/plans/0", 5)).find("'plans[0]' must be a map") != std::string::npos);
  CHECK(problems(with("/plans/0/strategy", 5)).find("must be a map") != std::string::npos);
  CHECK(problems(without("/cluster", "spec")).find("plan again with this version") !=
        std::string::npos);
}

TEST_CASE("a position points at the value, in the file's own lines") {
  const std::string text = with("/plans/0/strategy/tp", "eight");
  const Result<PlansFile> file = parse_plans(text, "plans.json");
  REQUIRE_FALSE(file.ok());
  const Diagnostic& d = file.errors().front();
  CHECK(d.where.file == "plans.json");
  const std::size_t at = text.find("\"eight\"");
  CHECK(d.where.line == 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
  CHECK(d.source_line.find("\"tp\": \"eight\"") != std::string::npos);
}

TEST_CASE("a strategy that breaks a rule of model or cluster is refused") {
  // 7 does not divide the 32 heads.
  const std::string text = problems(with("/plans/0/strategy/tp", 7));
  CHECK(text.find("tp") != std::string::npos);
  CHECK(text.find("plans.json:") != std::string::npos);
}

TEST_CASE("files that hold no plans say what they are") {
  CHECK(problems("name: x\n").find("this is not a file of plans") != std::string::npos);
  CHECK(problems(error_document(kTestTool, {error("bad")})).find("this run of meshplan failed") !=
        std::string::npos);
  CHECK(problems(with("/schema_version", 2)).find("'schema_version' must be 1, got 2") !=
        std::string::npos);
  CHECK_FALSE(problems("[1, 2]").empty());
  CHECK_FALSE(problems("{").empty());
}
