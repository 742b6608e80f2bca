// Published configurations: legal, fitting with the sharding and recomputation that their sizes
// need, and not far from the best plan of the same job.
#include <algorithm>
#include <string>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "search/rivals.hpp"
#include "search/search.hpp"
#include "search/search_caches.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

struct Case {
  const char* why;  // with its source
  const char* model;
  const char* cluster;
  std::int64_t gpus;
  const char* strategy;  // as published, with the sharding and recomputation it needs
  const char* without;   // the same without them
  bool fits_without;
  double slack;  // how much faster the best plan may be before the explanation must say why
};

const Case kCases[] = {
    {"1T on 4,096 A100-40GB, 8 x 64 x 8 (2104.04473 table 1 trains 1T with TP 8 and PP 64)",
     "megatron-1t", "dgx-a100-40gb", 4096,
     "tp=8,pp=64,dp=8,sequence_parallel=true,recompute=full,global_batch=3072,seq_len=2048",
     "tp=8,pp=64,dp=8,sequence_parallel=true,global_batch=3072,seq_len=2048", false, 0.25},
    {"GPT-3 175B on 64 DGX H100, 8 x 8 x 8", "gpt3-175b", "dgx-h100", 512,
     "tp=8,pp=8,dp=8,sequence_parallel=true,global_batch=1536,seq_len=2048",
     "tp=8,pp=8,dp=8,sequence_parallel=true,zero=0,global_batch=1536,seq_len=2048", true, 0.25},
    {"GPT-3 175B on 1,024 V100, 8 x 8 x 16: only with a sharded optimizer", "gpt3-175b", "dgx-v100",
     1024,
     "tp=8,pp=8,dp=16,sequence_parallel=true,precision=fp16,recompute=full,global_batch=1536,"
     "seq_len=2048",
     "tp=8,pp=8,dp=16,sequence_parallel=true,precision=fp16,recompute=full,zero=0,"
     "global_batch=1536,seq_len=2048",
     false, 0.25},
    {"MT-NLG 530B on 2,240 A100, 8 x 35 x 8 (2201.11990)", "mt-nlg-530b", "dgx-a100-80gb", 2240,
     "tp=8,pp=35,dp=8,sequence_parallel=true,global_batch=1920,seq_len=2048",
     "tp=8,pp=35,dp=8,sequence_parallel=true,zero=0,global_batch=1920,seq_len=2048", true, 0.25},
    {"Llama 3 405B on 16,384 H100, TP 8, PP 16, DP 128 (2407.21783 table 4)", "llama-3.1-405b",
     "dgx-h100", 16384,
     "tp=8,pp=16,vp=8,dp=128,sequence_parallel=true,schedule=interleaved,recompute=selective,"
     "stage_layers=[7,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7],global_batch=2048,seq_len=8192",
     "tp=8,pp=16,vp=8,dp=128,sequence_parallel=true,schedule=interleaved,"
     "stage_layers=[7,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7],global_batch=2048,seq_len=8192",
     false, 0.25},
    {"Llama 3 405B at 131,072 tokens, CP 16, DP 8 (2407.21783 table 4)", "llama-3.1-405b",
     "dgx-h100", 16384,
     "tp=8,pp=16,cp=16,dp=8,sequence_parallel=true,recompute=selective,global_batch=128,"
     "seq_len=131072",
     "tp=8,pp=16,cp=16,dp=8,sequence_parallel=true,global_batch=128,seq_len=131072", false, 0.25},
    {"Mixtral 8x22B on 2,048 H100, TP 8, PP 4, DP 64 with EP 8", "mixtral-8x22b", "dgx-h100", 2048,
     "tp=8,pp=4,dp=64,ep=8,sequence_parallel=true,global_batch=2048,seq_len=4096",
     "tp=8,pp=4,dp=64,ep=8,sequence_parallel=true,zero=0,global_batch=2048,seq_len=4096", false,
     0.25},
};

struct Job {
  ModelSpec model;
  ClusterSpec cluster;
};

Job job_of(const Case& k) {
  const DataFolders data({MESHPLAN_SOURCE_DIR});
  const Result<ModelSpec> model = load_model(k.model, data);
  const Result<ClusterSpec> cluster = load_cluster(k.cluster, data);
  REQUIRE(model.ok());
  REQUIRE(cluster.ok());
  return {*model, with_gpus(*cluster, k.gpus)};
}

Strategy strategy_of(const char* text) {
  Strategy defaults = framework_preset(Framework::kMegatron);
  defaults.dp = 0;
  const Result<Strategy> s = load_strategy(text, defaults);
  REQUIRE(s.ok());
  return *s;
}

}  // namespace

TEST_CASE("published configurations fit with the sharding and recomputation they need") {
  for (const Case& k : kCases) {
    CAPTURE(k.why);
    const Job job = job_of(k);
    const Verdict with = evaluate(job.model, job.cluster, strategy_of(k.strategy));
    CHECK(with.feasible());
    const Verdict without = evaluate(job.model, job.cluster, strategy_of(k.without));
    CHECK(without.feasible() == k.fits_without);
    if (!without.feasible()) CHECK_FALSE(without.infeasible().remedies.empty());
  }
}

TEST_CASE("the best plan is at least as good as the published one, and says what makes it better") {
  for (const Case& k : kCases) {
    CAPTURE(k.why);
    const Job job = job_of(k);
    const Strategy published = strategy_of(k.strategy);
    const Verdict verdict = evaluate(job.model, job.cluster, published);
    REQUIRE(verdict.feasible());
    SearchRequest request;
    request.base = published;
    request.top = 2;
    SearchCaches caches(job.model, job.cluster);
    const Result<SearchResult> found = search(job.model, job.cluster, request, {}, &caches);
    REQUIRE(found.ok());
    REQUIRE_FALSE(found->plans.empty());
    CHECK(found->proof.exact);
    const Seconds best = found->plans.front().step_time;
    CHECK(best <= verdict.cost().step_time);
    const std::vector<Rival> all =
        rivals(job.model, job.cluster, request, *found, rival_budget(request, *found), &caches);
    const std::vector<std::string> why = explain(job.model, job.cluster, *found, all);
    const bool compares = std::any_of(why.begin(), why.end(), [](const std::string& sentence) {
      return sentence.find("; at best ") != std::string::npos;
    });
    if (verdict.cost().step_time > best * (1 + k.slack)) CHECK(compares);
  }
}

TEST_CASE("the rule of thumb: eight 40 GB devices hold 20 to 40 billion parameters fully sharded") {
  // States only, 2 to 4 bytes per value of weights, gradients and two Adam moments: 8 to 16 bytes
  // per parameter; 8 x 40 GB hold 20 to 40 billion; four such nodes about 80 billion at fp32.
  const DataFolders data({MESHPLAN_SOURCE_DIR});
  const auto cluster = load_cluster("dgx-a100-40gb", data);
  REQUIRE(cluster.ok());
  const auto holds = [&](const char* model, std::int64_t gpus, Precision p) {
    const auto m = load_model(model, data);
    REQUIRE(m.ok());
    SearchRequest request;
    request.base = framework_preset(Framework::kFsdp);
    request.base.precision = p;
    request.base.master_weights = false;
    request.base.grad_dtype = p == Precision::kFp32 ? Dtype::kFp32 : Dtype::kBf16;
    request.base.optimizer_dtype = request.base.grad_dtype;
    request.base.global_batch = gpus;
    request.base.seq_len = 2048;
    request.space = Space::kFsdp;
    request.ignore_activations = true;
    request.limits = {{"offload.optimizer", LimitOp::kEqual, {false}}};
    const auto found = search(*m, with_gpus(*cluster, gpus), request);
    REQUIRE(found.ok());
    return !found->plans.empty();
  };
  CHECK(holds("gpt-neox-20b", 8, Precision::kBf16));
  CHECK_FALSE(holds("llama-2-70b", 8, Precision::kBf16));  // 70 B x 8 bytes is more than 320 GB
  CHECK(holds("llama-2-70b", 32, Precision::kFp32));       // 70 B x 16 bytes on 1,280 GB
  CHECK_FALSE(holds("gpt3-175b", 32, Precision::kFp32));
}
