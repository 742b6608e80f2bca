// Every key of a strategy, fixed, limited and freed.
#include "io/limits.hpp"

#include <algorithm>

#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "search/cases.hpp"
#include "search/search.hpp"
#include "space/target.hpp"
#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// A model with experts and room for choices, on two nodes.
Case wide_case(Bytes memory) {
  Case c;
  c.model = small_model(8, 2048);
  add_experts(c.model, 4, 1, 1);
  c.cluster = small_cluster(2, 4, memory);
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = 32;
  c.request.base.seq_len = 4096;
  c.request.threads = 1;
  return c;
}

std::vector<Limit> limits(const std::string& text) {
  const auto parsed = parse_limits(text, "--fix");
  INFO(text << (parsed.ok() ? "" : ": " + parsed.errors().front().message));
  REQUIRE(parsed.ok());
  return *parsed;
}

SearchResult found(const Case& c) {
  Result<SearchResult> result = search(c.model, c.cluster, c.request);
  INFO((result.ok() ? "" : result.errors().front().message));
  REQUIRE(result.ok());
  return std::move(result).value();
}

Seconds best_time(const Case& c) {
  const SearchResult result = found(c);
  return result.plans.empty() ? Seconds{1e300} : result.plans.front().step_time;
}

struct Row {
  const char* fixed;    // to a value that the best plan lacks
  const char* limited;  // so that the fixed value, or the best plan's, is left out
};

}  // namespace

TEST_CASE("a fixed key is in every plan, and a limited one keeps its limit") {
  const Row row = GENERATE(values<Row>({
      {"tp=4", "tp>=2"},
      {"pp=4", "pp<=2"},
      {"vp=3", "vp<=2"},
      {"cp=2", "cp>=2"},
      {"cp=2,cp_kind=allgather", "cp=2,cp_kind=allgather|ulysses"},
      {"cp=2,cp_kind=ulysses", "cp>=2,cp_kind=ring|allgather"},
      {"ep=2", "ep<=2"},
      {"etp=2", "etp>=2"},
      {"dp=2", "dp<=4"},
      {"zero=0", "zero<=1"},
      {"zero=3", "zero>=2"},
      {"zero=1,zero_group=2", "zero_group=2|4"},
      {"order=tp-cp-ep-pp-dp", "order=tp-cp-ep-dp-pp"},
      {"order=dp-tp-cp-ep-pp", "order=dp-tp-cp-ep-pp|tp-cp-ep-pp-dp"},
      {"micro_batch=4", "micro_batch>=2"},
      {"schedule=zb-h1", "schedule=gpipe|zb-h1"},
      {"schedule=dualpipe", "schedule=dualpipe|zb-v"},
      {"sequence_parallel=true", "sequence_parallel=false"},
      {"stage_layers=[3,5]", "stage_layers=[3,5]|[5,3]"},
      {"recompute=full", "recompute=none|selective"},
      {"recompute=selective", "recompute=full|selective"},
      {"recompute=selective,recompute_modules=[moe_act]",
       "recompute_modules=[moe_act]|[layernorm,moe_act]"},
      {"offload.optimizer=true,offload.optimizer_fraction=0.5",
       "offload.optimizer=true,offload.optimizer_fraction=0.5|1"},
      {"pp=2,recompute_layers=[1,2]", "pp=2,recompute_layers=[1,2]|[2,1]"},
      {"offload.optimizer=true", "offload.optimizer=false"},
      {"offload.activations=true", "offload.activations=false"},
      {"overlap.grad_reduce=false,overlap.param_gather=false", "overlap.tp=false"},
      {"grad_dtype=bf16", "grad_dtype=bf16|fp32"},
  }));
  Case c = wide_case(Bytes{40 * kGiB});
  const Seconds free = best_time(c);
  for (const std::string text : {row.fixed, row.limited}) {
    CAPTURE(text);
    c.request.limits = limits(text);
    const SearchResult result = found(c);
    REQUIRE_FALSE(result.plans.empty());
    CHECK(result.proof.exact);
    for (const PlanCost& plan : result.plans) {
      CAPTURE(to_text(plan.strategy));
      for (const Limit& limit : c.request.limits) CHECK(satisfies(plan.strategy, limit));
    }
    // Only keys that no search varies by itself can make a plan faster.
    const bool varied =
        text.find("dtype") == std::string::npos && text.find("overlap") == std::string::npos &&
        text.find("modules") == std::string::npos && text.find("order=dp") == std::string::npos &&
        text.find("layers") == std::string::npos;
    if (varied) CHECK(result.plans.front().step_time >= free * (1 - 1e-12));
  }
}

// The value that the best plan has anyway takes nothing away.
TEST_CASE("fixing what the best plan has keeps it") {
  const Case free = wide_case(Bytes{12 * kGiB});
  const SearchResult all = found(free);
  REQUIRE_FALSE(all.plans.empty());
  const Strategy& best = all.plans.front().strategy;
  for (const char* key :
       {"tp", "pp", "vp", "cp", "cp_kind", "ep", "etp", "dp", "zero", "zero_group", "order",
        "micro_batch", "schedule", "sequence_parallel", "stage_layers", "recompute",
        "recompute_layers", "offload.optimizer", "offload.activations"}) {
    CAPTURE(key);
    Case c = free;
    c.request.limits = {only(key, {value_text(best, key)})};
    const SearchResult result = found(c);
    REQUIRE_FALSE(result.plans.empty());
    CHECK(to_text(result.plans.front().strategy) == to_text(best));
    CHECK(result.plans.front().step_time == all.plans.front().step_time);
  }
}

TEST_CASE("a freed key never worsens the optimum, in any space") {
  const auto space = GENERATE(Space::kFull, Space::kMegatron, Space::kDeepspeed, Space::kFsdp,
                              Space::kTorchtitan, Space::kAxolotl, Space::kTorchtune);
  CAPTURE(name_of(space));
  Case c = wide_case(Bytes{24 * kGiB});
  c.model = small_model(8, 2048);
  c.request.space = space;
  if (space == Space::kTorchtitan) {  // runs the models that it has
    const auto model = load_model("llama-3.1-8b", DataFolders({MESHPLAN_SOURCE_DIR}));
    REQUIRE(model.ok());
    c.model = *model;
    c.cluster.device.memory = Bytes{80 * kGiB};
    c.request.base = framework_preset(Framework::kTorchtitan);
  }
  if (space == Space::kAxolotl || space == Space::kTorchtune) {
    c.request.base =
        as_configured(space, framework_preset(*framework_of(space)), c.model, c.cluster);
  }
  c.request.base.global_batch = 16;
  c.request.base.seq_len = 4096;
  const SearchResult before = found(c);
  const Seconds best =
      before.plans.empty() ? Seconds{1e300} : before.plans.front().step_time * (1 + 1e-12);
  int larger = 0;
  for (const char* key : {"tp",
                          "pp",
                          "vp",
                          "cp",
                          "cp_kind",
                          "etp",
                          "dp",
                          "zero",
                          "zero_group",
                          "order",
                          "micro_batch",
                          "schedule",
                          "sequence_parallel",
                          "stage_layers",
                          "recompute",
                          "recompute_layers",
                          "recompute_modules",
                          "offload.optimizer",
                          "offload.activations",
                          "overlap.tp",
                          "overlap.pp"}) {
    CAPTURE(key);
    c.request.limits = {any(key)};
    const SearchResult after = found(c);
    CHECK(after.statistics.space_size >= before.statistics.space_size);
    larger += after.statistics.space_size > before.statistics.space_size ? 1 : 0;
    REQUIRE_FALSE(after.plans.empty());
    CHECK(after.plans.front().step_time <= best);
  }
  CHECK(larger >= 2);
}

TEST_CASE("strategies that differ in the layers left in bf16 are searched beside each other") {
  constexpr unsigned kWithFp8 = 18;  // random_case
  Case c = random_case(kWithFp8);
  const std::string key = "kernels.num_layers_at_start_in_bf16";
  c.request.top = 1;
  Seconds fastest{1e300};
  for (const char* value : {"0", "1"}) {
    SearchRequest one = c.request;
    one.limits.push_back(only(key, {value}));
    const Result<SearchResult> found = search(c.model, c.cluster, one);
    REQUIRE(found.ok());
    REQUIRE_FALSE(found->plans.empty());
    CHECK(value_text(found->plans.front().strategy, key) == value);
    fastest = std::min(fastest, found->plans.front().step_time);
  }
  c.request.limits.push_back(only(key, {"0", "1"}));
  const Result<SearchResult> both = search(c.model, c.cluster, c.request);
  REQUIRE(both.ok());
  REQUIRE_FALSE(both->plans.empty());
  CHECK(both->proof.exact);
  CHECK(both->plans.front().step_time == fastest);
}
