#include "report/json.hpp"

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/check.hpp"
#include "cost/uncertainty.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "report/model_yaml.hpp"
#include "report/sample.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Json = nlohmann::json;

namespace {

constexpr ToolInfo kTestTool{"9.9.9"};

Json feasible_document() {
  Verdict v;
  v.state = sample_plan();
  return Json::parse(
      estimate_document(kTestTool, sample_model(), sample_cluster(), sample_strategy(), v));
}

SearchRequest sample_request() {
  SearchRequest request;
  request.base = sample_strategy();
  return request;
}

}  // namespace

TEST_CASE("every document starts with the schema version and the tool") {
  const Json json = feasible_document();
  CHECK(json["schema_version"] == 1);
  CHECK(json["tool"] == Json{{"name", "meshplan"}, {"version", "9.9.9"}});
}

TEST_CASE("the model carries its parameter count") {
  // Per layer 4 h^2 for attention, 2 h f for the MLP, 2 h for norms; then V h and a last norm h.
  const std::int64_t h = 1024, layer = 4 * h * h + 2 * h * 4096 + 2 * h;
  CHECK(feasible_document()["model"]["parameters"] == 12 * layer + 32000 * h + h);
}

TEST_CASE("the terms of the time add up to the step time in the order they are written") {
  const Json plan = feasible_document()["plan"];
  double sum = 0;
  for (const char* key :
       {"compute_s", "recompute_s", "tp_comm_exposed_s", "cp_comm_exposed_s", "ep_comm_exposed_s",
        "pp_comm_exposed_s", "pp_bubble_s", "dp_comm_exposed_s", "optimizer_s", "other_s"}) {
    sum += plan["time"][key].get<double>();
  }
  CHECK(sum == plan["step_time_s"].get<double>());
  CHECK(plan["time"].size() == 11);
}

TEST_CASE("the memory of every stage adds up to its peak") {
  const Json document = feasible_document();
  for (const Json& m : document["plan"]["memory"]) {
    const auto bytes = [&m](const char* key) { return m.at(key).get<std::int64_t>(); };
    CHECK(bytes("peak_bytes") == bytes("weights_bytes") + bytes("gradients_bytes") +
                                     bytes("optimizer_bytes") + bytes("activations_bytes") +
                                     bytes("buffers_bytes") + bytes("reserved_bytes"));
  }
}

TEST_CASE("the numbers of a plan are those of its terms") {
  const Json plan = feasible_document()["plan"];
  CHECK(plan["tokens_per_s_per_gpu"] == 31250.0);
  CHECK(plan["model_tflops_per_gpu"] == 250.0);
  const StepTimeInterval interval = step_time_interval(sample_cluster(), sample_plan());
  CHECK(plan["step_time_interval_s"][0].get<double>() == interval.low.si());
  CHECK(plan["step_time_interval_s"][1].get<double>() == interval.high.si());
  CHECK(plan["step_time_regime"] == "waiting");  // 1.25 of 4 seconds
  CHECK(plan["extrapolated"]["device"] == true);
  CHECK(plan["extrapolated"]["framework"] == false);
  const MemoryInterval memory = memory_interval(sample_memory(32));
  CHECK(plan["memory_interval_bytes"] == Json{memory.low.count(), memory.high.count()});
  CHECK(plan["out_of_memory_probability"] == out_of_memory_probability(sample_memory(32)));
  // 20 of 80 GiB are free, beside 32 of activations.
  CHECK(plan["out_of_memory_term"]["term"] == "activations_bytes");
  CHECK(plan["out_of_memory_term"]["growth_that_exceeds"] == 0.625);
  CHECK(plan["communication"][1]["level"] == "between");
  CHECK_FALSE(plan.contains("usd_per_step"));
}

TEST_CASE("the placement shows each group of rank 0 and the level it crosses") {
  const Json groups = feasible_document()["plan"]["placement"]["groups"];
  REQUIRE(groups.size() == 14);
  for (const Json& group : groups) {
    // tp 2 innermost, then dp 2, then pp 2 on nodes of four.
    if (group["kind"] == "tp") {
      CHECK(group["first_ranks"] == Json{0, 1});
      CHECK(group["level"] == "inside");
    } else if (group["kind"] == "dp") {
      CHECK(group["first_ranks"] == Json{0, 2});
    } else if (group["kind"] == "pp") {
      CHECK(group["first_ranks"] == Json{0, 4});
      CHECK(group["level"] == "between");
    } else if (group["kind"] == "cp") {
      CHECK(group["size"] == 1);
      CHECK(group["level"].is_null());
    }
  }
}

TEST_CASE("at most 64 ranks of a group are listed") {
  PlanCost p = sample_plan();
  p.strategy.tp = p.strategy.pp = 1;
  p.strategy.dp = 1024;
  p.strategy.global_batch = 1024;
  p.strategy.stage_layers = {12};
  Verdict v;
  v.state = p;
  const ClusterSpec c = with_gpus(sample_cluster(), 1024);
  const Json json = Json::parse(estimate_document(kTestTool, sample_model(), c, p.strategy, v));
  for (const Json& group : json["plan"]["placement"]["groups"]) {
    CHECK(group["first_ranks"].size() ==
          std::min<std::size_t>(group["size"].get<std::size_t>(), 64));
  }
}

TEST_CASE("a strategy in a result reads back as the same strategy") {
  Strategy s = sample_strategy();
  s.cp_kind = CpKind::kUlysses;
  s.recompute = Recompute::kSelective;
  s.overlap.tp = !s.overlap.tp;
  s.offload.optimizer = true;
  s.runtime.host_factor = 1.5;
  s.order = {Axis::kTp, Axis::kDp, Axis::kCp, Axis::kEp, Axis::kPp};
  PlanCost p = sample_plan();
  p.strategy = s;
  Verdict v;
  v.state = p;
  const Json json =
      Json::parse(estimate_document(kTestTool, sample_model(), sample_cluster(), s, v));
  const auto path = std::filesystem::temp_directory_path() /
                    ("meshplan_strategy_" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << json["plan"]["strategy"].dump();
  const Result<Strategy> file = load_strategy(path.string(), framework_preset(Framework::kFsdp));
  std::filesystem::remove(path);
  REQUIRE(file.ok());
  CHECK(*file == s);
  const Result<Strategy> text = load_strategy(json["plan"]["strategy_text"].get<std::string>(), s);
  REQUIRE(text.ok());
  CHECK(*text == s);
}

TEST_CASE("a number that is not finite is a bug, not a document") {
  Verdict v;
  PlanCost p = sample_plan();
  p.mfu = std::numeric_limits<double>::quiet_NaN();
  v.state = p;
  CHECK_THROWS_AS(
      estimate_document(kTestTool, sample_model(), sample_cluster(), sample_strategy(), v),
      InternalError);
}

TEST_CASE("terms that do not add up to the step time are a bug, not a document") {
  Verdict v;
  PlanCost p = sample_plan();
  p.step_time = Seconds{4.1};
  v.state = p;
  CHECK_THROWS_AS(
      estimate_document(kTestTool, sample_model(), sample_cluster(), sample_strategy(), v),
      InternalError);
}

TEST_CASE("a strategy that does not fit is reported with reason, shortfall and remedies") {
  const Json json = Json::parse(estimate_document(kTestTool, sample_model(), sample_cluster(),
                                                  sample_strategy(), sample_miss()));
  CHECK(json["verdict"] == "infeasible");
  CHECK_FALSE(json.contains("plan"));
  CHECK(json["infeasible"]["reason"] == "activations");
  CHECK(json["infeasible"]["shortfall_bytes"] == 10737418240);  // 10 GiB
  CHECK(json["infeasible"]["remedies"][0] == "recompute=full: fits");
  CHECK(json["infeasible"]["memory"].size() == 1);
}

TEST_CASE("a search is reported with its counts, its proof and its plans in order") {
  const Json json = Json::parse(plan_document(kTestTool, sample_model(), sample_cluster(),
                                              sample_request(), sample_result()));
  CHECK(json["search"]["space_size"] == 1200);
  CHECK(json["search"]["infeasible"]["model_states"] == 150);
  CHECK(json["search"]["proof"] == "exact");
  CHECK(json["search"]["gap"] == 0.0);
  REQUIRE(json["plans"].size() == 2);
  CHECK(json["plans"][0]["rank"] == 1);
  CHECK(json["plans"][1]["rank"] == 2);
  CHECK(json["plans"][1]["step_time_s"] == 5.0);
  CHECK(json["workload"]["tokens_per_step"] == 16 * 2048);
  CHECK_FALSE(json.contains("closest_miss"));
}

TEST_CASE("a bounded search states its gap") {
  SearchResult r = sample_result();
  const auto search = [&] {
    return Json::parse(
        plan_document(kTestTool, sample_model(), sample_cluster(), sample_request(), r))["search"];
  };
  r.proof = {false, 0.04, "stopped by the time limit"};
  CHECK(search()["proof"] == "bounded");
  CHECK(search()["gap"] == 0.04);
  // Divisions that nobody decided leave a gap too.
  r.proof = {true, 0, "bounded", 3, 0.02, 5};
  CHECK(search()["proof"] == "bounded");
  CHECK(search()["gap"] == 0.02);
  CHECK(search()["divisions_undecided"] == 3);
  CHECK(search()["divisions_unranked"] == 5);
  // Those that can only be among the later plans leave none.
  r.proof = {true, 0, "exact", 0, 0, 5};
  CHECK(search()["proof"] == "exact");
  CHECK(search()["gap"] == 0);
  CHECK(search()["ranked_to_s"].is_null());
  r.proof.ranked_to = 5.5;
  CHECK(search()["ranked_to_s"] == 5.5);
}

TEST_CASE("errors carry their position and hint") {
  const Json json = Json::parse(
      error_document(kTestTool, {error_at({"m.yaml", 3, 7}, "wrong", "do this"), error("other")}));
  REQUIRE(json["errors"].size() == 2);
  CHECK(json["errors"][0] == Json{{"file", "m.yaml"},
                                  {"line", 3},
                                  {"column", 7},
                                  {"message", "wrong"},
                                  {"hint", "do this"}});
  CHECK(json["errors"][1]["file"] == "");
}

TEST_CASE("text that is not UTF-8 does not end the run") {
  const std::string text = error_document(kTestTool, {error("bad \xff byte")});
  CHECK(Json::parse(text)["errors"].size() == 1);
}

TEST_CASE("control characters are escaped, also those that JSON takes as they are") {
  const std::string name = "\x7f\u0085\u2028\u202e";
  const std::string text = error_document(kTestTool, {error(name)});
  CHECK(text.find("\"\\u007f\\u0085\\u2028\\u202e\"") != std::string::npos);
  CHECK(Json::parse(text)["errors"][0]["message"] == name);
}

TEST_CASE("every shipped model reads back from its YAML as the same model") {
  const DataFolders data({std::filesystem::path(MESHPLAN_SOURCE_DIR)});
  const std::vector<std::string> names = data.names(kModelFolder);
  REQUIRE(names.size() > 10);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Result<ModelSpec> model = load_model(name, data);
    REQUIRE(model.ok());
    const Result<ModelSpec> again = parse_model(model_yaml(*model), "again.yaml");
    REQUIRE(again.ok());
    CHECK(*again == *model);
  }
}

TEST_CASE("names that YAML would read as something else are quoted") {
  ModelSpec m = sample_model();
  m.name = GENERATE("true", "No", "1e5", "a: b", "x # y", "-", "", "tab\there", "\"", "\x7f",
                    "\u0085", "\u2028");
  if (m.name.empty()) return;  // an empty name is refused when read
  const Result<ModelSpec> again = parse_model(model_yaml(m), "again.yaml");
  REQUIRE(again.ok());
  CHECK(again->name == m.name);
}
