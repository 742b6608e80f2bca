// What Megatron-LM cannot be told is refused, and the nearest plan keeps every rule.
#include "frameworks/target.hpp"

#include "launch/plans.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using test::plan_of;

struct Row {
  const char* model;
  const char* keys;
  const char* message;  // part of the refusal
  const char* nearest;  // a key of the nearest plan
  const char* value;
};

}  // namespace

TEST_CASE("refusals of Megatron-LM name the rule and the nearest plan") {
  const auto row = GENERATE(values<Row>({
      {"llama-2-7b", "framework=deepspeed,zero=1", "made for deepspeed", "framework", "megatron"},
      {"llama-2-7b", "pp=4,schedule=zb-h1", "not zb-h1", "schedule", "1f1b"},
      {"llama-2-7b", "pp=2,vp=2,schedule=zb-v", "not zb-v", "schedule", "interleaved"},
      {"llama-2-7b", "pp=2,vp=2,schedule=v-half", "not v-half", "schedule", "interleaved"},
      {"llama-2-7b", "pp=2,schedule=gpipe", "not gpipe", "schedule", "1f1b"},
      {"llama-2-7b", "pp=2,vp=2,schedule=interleaved,overlap.pp=false", "overlap.pp", "overlap.pp",
       "true"},
      {"llama-2-7b", "tp=2,overlap.tp_backward=false", "always overlaps", "overlap.tp_backward",
       "true"},
      {"llama-2-7b", "tp=2,pp=2,dp=4,order=pp-tp-cp-ep-dp", "numbered", "order", "tp-cp-ep-dp-pp"},
      {"llama-2-7b", "cp=2,pp=2,dp=4,order=tp-cp-ep-pp-dp", "as many copies", "order",
       "tp-cp-ep-dp-pp"},
      {"mixtral-8x7b", "tp=2,etp=2", "need 'sequence_parallel'", "sequence_parallel", "true"},
      {"llama-2-7b", "tp=2,sequence_parallel=true,kernels.tp_recompute_allgather=false",
       "gathered again", "kernels.tp_recompute_allgather", "true"},
      {"mixtral-8x7b", "ep=8,overlap.ep=true,precision=fp32", "16-bit", "overlap.ep", "false"},
      {"nemotron-3-nano-30b-a3b", "ep=8,overlap.ep=true", "not of hybrids", "overlap.ep", "false"},
      {"deepseek-v3",
       "ep=8,overlap.ep=true,kernels.cuda_graph=layer,kernels.cuda_graph_modules=[mlp]",
       "graphs of whole layers", "overlap.ep", "false"},
      {"llama-2-7b", "zero=3,offload.optimizer=true", "distributed optimizer", "zero", "1"},
      {"llama-2-7b", "pp=2,recompute=full,recompute_layers=[3,5]", "same number",
       "recompute_layers", "[5,5]"},
      {"llama-2-7b", "pp=2,vp=2,schedule=interleaved,recompute=full,recompute_layers=[3,3]",
       "same number", "recompute_layers", "[4,4]"},
      {"llama-2-7b", "pp=2,recompute=selective,recompute_modules=[mlp],recompute_layers=[3,3]",
       "not both", "recompute", "selective"},
      {"llama-2-7b", "recompute=selective", "of a dense MLP alone", "recompute_modules", "[mlp]"},
      {"deepseek-v3", "ep=8,recompute=selective", "of a dense MLP alone", "recompute_modules",
       "[moe_act,layernorm,mla_up_proj,mlp]"},
      {"gpt-oss-120b", "tp=2,etp=2,sequence_parallel=true,runtime.split_expert_biases=true",
       "not split", "etp", "1"},
      {"deepseek-v3", "ep=8,pp=2,recompute=full,recompute_layers=[3,3]", "every layer or none",
       "recompute_layers", "[31,30]"},
      {"llama-2-7b", "precision=tf32", "tf32", "precision", "fp32"},
      {"llama-2-7b", "master_weights=false", "fp32 copy", "master_weights", "true"},
      {"llama-2-7b", "grad_dtype=fp16", "weights' type", "grad_dtype", "fp32"},
      {"llama-2-7b", "zero=0,optimizer_dtype=bf16", "precision-aware", "optimizer_dtype", "fp32"},
      {"llama-2-7b", "kernels.attention=triton", "no attention kernel", "kernels.attention",
       "best"},
      {"llama-2-7b", "kernels.cuda_graph=layer,recompute=full", "full iteration alone",
       "kernels.cuda_graph", "full_iteration"},
      {"mixtral-8x7b", "kernels.cuda_graph=layer", "not captured whole", "kernels.cuda_graph",
       "full_iteration"},
      {"mixtral-8x7b", "kernels.cuda_graph=layer,kernels.cuda_graph_modules=[attn,mlp]",
       "needs a layer without experts", "kernels.cuda_graph", "full_iteration"},
      {"mixtral-8x7b", "kernels.cuda_graph=layer,kernels.cuda_graph_modules=[attn,moe]",
       "not captured whole", "kernels.cuda_graph", "full_iteration"},
      {"llama-2-7b", "runtime.defer_embedding_wgrad_compute=true", "needs a pipeline",
       "runtime.defer_embedding_wgrad_compute", "false"},
      {"llama-2-7b",
       "pp=2,runtime.defer_embedding_wgrad_compute=true,kernels.fused_grad_accumulation=false",
       "needs 'kernels.fused_grad_accumulation'", "runtime.defer_embedding_wgrad_compute", "false"},
      {"mixtral-8x7b",
       "ep=8,kernels.flex_dispatcher=false,kernels.allgather_dispatcher=true,"
       "runtime.expert_capacity_factor=1",
       "where they are sent", "kernels.allgather_dispatcher", "false"},
      {"mixtral-8x7b", "ep=8,zero_group=4", "copies of the experts", "zero_group", "0"},
      {"llama-2-7b", "kernels.fused_norm=false", "norms are fused", "kernels.fused_norm", "true"},
      {"gpt-oss-120b", "cp=2", "sliding window", "cp_kind", "allgather"},
      {"gpt3-175b", "seq_len=4096", "learned positions", "seq_len", "2048"},
  }));
  INFO(row.model << " " << row.keys);
  const LaunchPlan p = plan_of(row.model, "dgx-a100-80gb", 16, row.keys);
  const Findings broken = target_findings(Target::kMegatron, p.strategy, p.model, p.cluster);
  REQUIRE(broken.has_errors());
  CHECK(to_text(broken.diagnostics()).find(row.message) != std::string::npos);
  const std::optional<Strategy> near =
      nearest_expressible(Target::kMegatron, p.strategy, p.model, p.cluster);
  REQUIRE(near.has_value());
  CHECK(value_text(*near, row.nearest) == row.value);

  const Result<LaunchFiles> refused = launch_files(LaunchFormat::kMegatron, p, "test");
  REQUIRE(!refused.ok());
  CHECK(to_text(refused.errors()).find("the nearest plan that it can: ") != std::string::npos);
  const Result<LaunchFiles> accepted =
      launch_files(LaunchFormat::kMegatron, {p.model, p.cluster, *near}, "test");
  CHECK(accepted.ok());
}

namespace {

constexpr Target kDs = Target::kDeepspeed, kTt = Target::kTorchtitan, kAc = Target::kAccelerate;
constexpr LaunchFormat kDsFile = LaunchFormat::kDeepspeed, kTtFile = LaunchFormat::kTorchtitan,
                       kAcFile = LaunchFormat::kAccelerate;

struct TargetRow {
  Target target;
  LaunchFormat format;
  Row row;
};

}  // namespace

TEST_CASE("refusals of the other targets name the rule and the nearest plan") {
  const TargetRow all = GENERATE(values<TargetRow>({
      {kDs, kDsFile, {"llama-2-7b", "zero=1", "not for DeepSpeed", "framework", "deepspeed"}},
      {kDs,
       kDsFile,
       {"llama-2-7b", "framework=deepspeed,zero=1,pp=2,schedule=gpipe", "runs 1f1b", "schedule",
        "1f1b"}},
      {kDs,
       kDsFile,
       {"llama-2-7b", "framework=deepspeed,zero=1,pp=2,stage_layers=[15,17]", "as many layers",
        "stage_layers", "[16,16]"}},
      {kDs,
       kDsFile,
       {"llama-2-7b", "framework=deepspeed,zero=1,pp=2,tp=2", "cannot be combined with a pipeline",
        "framework", "megatron-deepspeed"}},
      {kDs,
       kDsFile,
       {"llama-2-7b", "framework=deepspeed,cp=2", "as Ulysses does", "cp_kind", "ulysses"}},
      {kDs, kDsFile, {"mixtral-8x7b", "framework=deepspeed,ep=8", "zero=3", "zero", "2"}},
      {kDs,
       kDsFile,
       {"llama-2-7b", "framework=deepspeed,zero=2,zero_group=8", "for zero=3", "zero_group", "0"}},
      {kDs,
       kDsFile,
       {"llama-2-7b", "framework=deepspeed,precision=tf32", "not tf32", "precision", "fp32"}},
      {kDs,
       kDsFile,
       {"llama-2-7b", "framework=deepspeed,recompute=selective", "not parts", "recompute", "full"}},
      {kDs,
       kDsFile,
       {"llama-2-7b",
        "framework=megatron-deepspeed,flash_attention=false,recompute=selective,"
        "recompute_modules=[core_attn]",
        "cannot be listed", "recompute_modules", "[]"}},
      {kDs,
       kDsFile,
       {"llama-2-7b",
        "framework=deepspeed,zero=2,offload.optimizer=true,offload.optimizer_fraction=0.5",
        "zero=3", "offload.optimizer_fraction", "1"}},
      {kDs,
       kDsFile,
       {"llama-2-7b", "framework=megatron-deepspeed,recompute=selective", "materialised",
        "recompute", "full"}},
      {kDs,
       kDsFile,
       {"llama-2-7b",
        "framework=megatron-deepspeed,tp=2,pp=2,sequence_parallel=true,schedule=zb-h1",
        "without 'sequence_parallel'", "schedule", "1f1b"}},
      {kTt, kTtFile, {"llama-3.1-8b", "zero=3", "not for torchtitan", "framework", "torchtitan"}},
      {kTt,
       kTtFile,
       {"llama-3.1-8b", "framework=torchtitan,pp=2,schedule=zb-h1", "not zb-h1", "schedule",
        "1f1b"}},
      {kTt,
       kTtFile,
       {"llama-3.1-8b", "framework=torchtitan,pp=2,vp=2,schedule=v-min", "not v-min", "schedule",
        "zb-v"}},
      {kTt, kTtFile, {"llama-3.1-8b", "framework=torchtitan,zero=1", "zero=2", "zero", "2"}},
      {kTt,
       kTtFile,
       {"llama-3.1-8b", "framework=torchtitan,tp=2", "always splits the sequence",
        "sequence_parallel", "true"}},
      {kTt,
       kTtFile,
       {"llama-3.1-8b", "framework=torchtitan,precision=fp16", "not fp16", "precision", "bf16"}},
      {kTt,
       kTtFile,
       {"llama-3.1-8b", "framework=torchtitan,recompute=full,recompute_layers=[4]",
        "every layer is recomputed or none", "recompute_layers", "[32]"}},
      {kTt,
       kTtFile,
       {"llama-3.1-8b", "framework=torchtitan,overlap.grad_reduce=false", "always overlaps",
        "overlap.grad_reduce", "true"}},
      {kAc, kAcFile, {"llama-2-7b", "zero=3", "not for PyTorch FSDP", "framework", "fsdp"}},
      {kAc, kAcFile, {"llama-2-7b", "framework=fsdp,zero=1,pp=2", "no pipeline", "pp", "1"}},
      {kAc, kAcFile, {"llama-2-7b", "framework=fsdp,zero=1", "got zero=1", "zero", "3"}},
      {kAc,
       kAcFile,
       {"llama-2-7b", "framework=fsdp,cp=2,cp_kind=ulysses", "rotates", "cp_kind", "allgather"}},
      {kAc,
       kAcFile,
       {"llama-2-7b", "framework=fsdp,offload.optimizer=true,offload.weights=false",
        "to the host too", "offload.optimizer", "false"}},
      {kAc, kAcFile, {"mixtral-8x7b", "framework=fsdp,ep=8", "not spread", "ep", "1"}},
  }));
  const auto& [target, format, row] = all;
  INFO(name_of(target) << " " << row.model << " " << row.keys);
  const LaunchPlan p = plan_of(row.model, "dgx-h100", 16, row.keys);
  const Findings broken = target_findings(target, p.strategy, p.model, p.cluster);
  REQUIRE(broken.has_errors());
  CHECK(to_text(broken.diagnostics()).find(row.message) != std::string::npos);
  const std::optional<Strategy> near = nearest_expressible(target, p.strategy, p.model, p.cluster);
  REQUIRE(near.has_value());
  CHECK(value_text(*near, row.nearest) == row.value);
  CHECK(!launch_files(format, p, "test").ok());
  CHECK(launch_files(format, {p.model, p.cluster, *near}, "test").ok());
}

TEST_CASE("models that no flag describes have no nearest plan") {
  for (const char* name : {"palm-540b", "bloom-176b", "gpt-neox-20b"}) {
    INFO(name);
    const LaunchPlan p = plan_of(name, "dgx-a100-80gb", 16, "tp=8,seq_len=2048");
    CHECK(target_findings(Target::kMegatron, p.strategy, p.model, p.cluster).has_errors());
    CHECK(!nearest_expressible(Target::kMegatron, p.strategy, p.model, p.cluster));
  }
}

TEST_CASE("what no option of Megatron-LM describes is Megatron-Bridge's") {
  const auto carrier = [](const char* model, const char* keys) {
    const LaunchPlan plan = plan_of(model, "hgx-h200", 64, keys);
    return target_of(plan.strategy, plan.model);
  };
  CHECK(carrier("llama-3-8b", "tp=2") == Target::kMegatron);
  CHECK(carrier("nemotron-3-nano-30b-a3b", "ep=8") == Target::kMegatron);  // a pattern says it
  CHECK(carrier("llama-3-8b", "tp=2,lora.rank=16") == Target::kMegatronBridge);
  CHECK(carrier("qwen3-next-80b-a3b", "ep=8") == Target::kMegatronBridge);
  CHECK(carrier("gemma-3-27b", "tp=2") == Target::kMegatronBridge);  // gated gelu, an encoder
  CHECK(carrier("deepseek-v4-flash", "ep=8") == Target::kMegatronBridge);
  CHECK(carrier("deepseek-v4-flash", "ep=8,framework=fsdp") == Target::kAccelerate);
}

TEST_CASE("Megatron-Bridge refuses layers that it lacks, and what its own cannot do") {
  const auto refusal = [](const ModelSpec& m, const char* keys) {
    const LaunchPlan plan = plan_of("deepseek-v4-flash", "hgx-h200", 64, keys);
    const Findings f = target_findings(Target::kMegatronBridge, plan.strategy, m, plan.cluster);
    return f.has_errors() ? to_text(f.diagnostics()) : std::string();
  };
  ModelSpec m = plan_of("deepseek-v4-flash", "hgx-h200", 64, "ep=8").model;
  CHECK(refusal(m, "ep=8,pp=2,recompute=selective").empty());
  CHECK(refusal(m, "ep=8,tp=2,sequence_parallel=true").find("no tensor parallelism") !=
        std::string::npos);
  CHECK(refusal(m, "ep=8,recompute=full").find("not recomputed whole") != std::string::npos);
  m.layers.front().layer.mixer = LightningSpec{64, 64};
  CHECK(refusal(m, "ep=8").find("no lightning attention") != std::string::npos);
}

TEST_CASE("which frameworks leave first and last layers in bf16, and how many") {
  const auto refusal = [](Target target, const std::string& keys) {
    const LaunchPlan p = plan_of("llama-3.1-8b", "dgx-b200", 8, "precision=" + keys);
    const Findings f = target_findings(target, p.strategy, p.model, p.cluster);
    return f.has_errors() ? to_text(f.diagnostics()) : std::string();
  };
  const std::string one = ",kernels.num_layers_at_start_in_bf16=1";
  const std::string nine = ",kernels.num_layers_at_end_in_bf16=9";
  for (const Target target : {Target::kMegatron, Target::kMegatronBridge}) {
    CHECK(refusal(target, "fp8" + one + nine).empty());
    CHECK(refusal(target, "fp8,kernels.fp8_recipe=delayed" + one).find("do not go with") !=
          std::string::npos);
    CHECK(refusal(target, "fp8,pp=4" + nine).find("a stage's 8 may be in bf16") !=
          std::string::npos);
    CHECK(refusal(target, "nvfp4,pp=4" + nine).empty());  // checked of fp8 alone
  }
  CHECK(refusal(Target::kTorchtitan, "fp8,framework=torchtitan" + one + nine).empty());
  CHECK(refusal(Target::kAccelerate, "fp8,framework=fsdp" + one)
            .find("all layers' products are in fp8") != std::string::npos);
}

TEST_CASE("Megatron-Bridge is told the stages of models that no option describes") {
  const auto script = [](const char* model, const char* keys) {
    const auto files =
        launch_files(LaunchFormat::kMegatronBridge, plan_of(model, "hgx-h200", 64, keys), "test");
    if (!files.ok()) FAIL(to_text(files.errors()));
    const auto at = std::find_if(files->files.begin(), files->files.end(),
                                 [](const LaunchFile& f) { return f.name == "train.sh"; });
    return at->text;
  };
  const auto has = [](const std::string& text, const char* part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(has(script("qwen3-next-80b-a3b", "pp=2,ep=8,stage_layers=[25,23]"),
            "model.num_layers_in_first_pipeline_stage=25"));
  CHECK(has(script("nemotron-h-56b", "tp=4,pp=2,sequence_parallel=true"),
            "model.hybrid_layer_pattern="));
  CHECK(has(script("deepseek-v4-flash", "pp=2,ep=8,recompute=selective"),
            "model.use_fused_mhc=true"));
  const std::string streams =
      script("deepseek-v4-flash",
             "pp=2,ep=8,recompute=selective,recompute_modules=[moe_act,mhc],"
             "runtime.mhc_recompute_layers=3");
  CHECK(has(streams, "model.recompute_modules=[moe_act,mhc]"));
  CHECK(has(streams, "model.mhc_recompute_layer_num=3"));
  CHECK(has(script("deepseek-v4-flash", "pp=2,ep=8,recompute=selective,stage_layers=[22,21]"),
            "model.pipeline_model_parallel_layout="));
}

TEST_CASE("Megatron-LM's hyper-connections have no pipelines and are not fused") {
  LaunchPlan plan = plan_of("llama-2-7b", "hgx-h200", 64, "kernels.fused_mhc=false");
  plan.model.mhc_num_residual_streams = 4;
  CHECK(target_of(plan.strategy, plan.model) == Target::kMegatron);
  plan.strategy.runtime.fused_mhc = true;
  CHECK(target_of(plan.strategy, plan.model) == Target::kMegatronBridge);
  plan =
      plan_of("llama-2-7b", "hgx-h200", 64, "pp=2,kernels.fused_mhc=false,kernels.fp32_mhc=true");
  plan.model.mhc_num_residual_streams = 4;
  CHECK(target_of(plan.strategy, plan.model) == Target::kMegatronBridge);
}

TEST_CASE("what full recomputation repeats is the framework's") {
  const auto what = [](const std::string& keys) {
    const LaunchPlan plan = plan_of("llama-3.1-8b", "dgx-h100", 8, keys);
    return inexpressible(plan.strategy, plan.model, plan.cluster);
  };
  CHECK(what("tp=8,recompute=full").empty());
  CHECK(what("tp=8,recompute=full,runtime.recompute_early_stop=true")
            .find("full recomputation repeats whole layers") != std::string::npos);
  CHECK(what("tp=8,runtime.recompute_early_stop=true").empty());  // nothing is recomputed
  CHECK(what("framework=torchtitan,recompute=full").empty());
  CHECK(what("framework=torchtitan,recompute=full,runtime.recompute_early_stop=false")
            .find("stops at the last tensor") != std::string::npos);
}

TEST_CASE("a plan of FSDP can be run if one of its programs can") {
  const char* const pure =
      "framework=fsdp,zero=3,micro_batch=64,recompute=full,master_weights=false,grad_dtype=bf16,"
      "optimizer_dtype=bf16,packing=pack,";
  const auto what = [&](const std::string& keys) {
    const LaunchPlan plan = plan_of("llama-3.1-8b", "dgx-h100", 8, pure + keys);
    return inexpressible(plan.strategy, plan.model, plan.cluster);
  };
  CHECK(what("runtime.optimizer_in_backward=true").empty());  // torchtune
  CHECK(what("runtime.optimizer_in_backward=true,optimizer=muon")
            .find("weights are updated after the backward pass") != std::string::npos);
}

TEST_CASE("Megatron-Bridge runs Kimi K3 without virtual stages and context parallelism") {
  const auto first = [](const char* keys) {
    const LaunchPlan plan = plan_of("kimi-k3", "gb300-nvl72", 512, keys);
    REQUIRE(target_of(plan.strategy, plan.model) == Target::kMegatronBridge);
    return inexpressible(plan.strategy, plan.model, plan.cluster);
  };
  CHECK(first("tp=4,pp=4,ep=8,sequence_parallel=true").empty());
  CHECK(first("tp=4,cp=2,ep=8,sequence_parallel=true").find("context parallelism") !=
        std::string::npos);
  CHECK(first("pp=4,vp=2,ep=8,schedule=interleaved").find("virtual stages") != std::string::npos);
  CHECK(first("pp=4,ep=8,kernels.fused_attn_res=true").find("not fused") != std::string::npos);
  // Its residuals around other layers, and its delta attention without them, are nobody's.
  LaunchPlan plain = plan_of("llama-2-7b", "hgx-h200", 64, "tp=4");
  plain.model.attn_res_block_size = 4;
  CHECK(inexpressible(plain.strategy, plain.model, plain.cluster).find("in Kimi K3 alone") !=
        std::string::npos);
  LaunchPlan other =
      plan_of("kimi-k3", "gb300-nvl72", 512, "tp=4,pp=4,ep=8,sequence_parallel=true");
  other.model.attn_res_block_size = 0;
  CHECK(inexpressible(other.strategy, other.model, other.cluster).find("but in Kimi K3") !=
        std::string::npos);
}

TEST_CASE("orders that number ranks alike are the same") {
  Strategy s;
  s.tp = 2, s.dp = 4;
  s.order = {Axis::kTp, Axis::kDp, Axis::kCp, Axis::kEp, Axis::kPp};
  CHECK(same_rank_order(s, kDefaultOrder));
  s.pp = 2;
  CHECK(same_rank_order(s, kDefaultOrder));
  s.order = kPipelineInsideOrder;
  CHECK(!same_rank_order(s, kDefaultOrder));
}

TEST_CASE("every rule cites its file") {
  for (const auto& row : NameTable<Target>::rows) {
    CHECK(!target_rules(row.value).empty());
    for (const TargetRule& rule : target_rules(row.value)) {
      CHECK(!rule.source.empty());
      CHECK(rule.check != nullptr);
    }
  }
}

}  // namespace meshplan
