#include "recipes.hpp"

#include "accuracy/made_up.hpp"
#include "bridge_recipes.hpp"
#include "frameworks/preset.hpp"
#include "support/catch.hpp"

namespace meshplan::accuracy {
namespace {

TEST_CASE("DeepSeek-V3's last stage holds fewer layers beside its extra ones") {
  const Source bridge = source_called("Megatron-Bridge performance summaries");
  Run run;
  run.model.name = "DeepSeekV3", run.model.num_layers = 61;
  Strategy s = framework_preset(Framework::kMegatron);
  s.pp = s.vp = 4;
  apply_recipe(s, bridge, run);
  CHECK(s.stage_layers == std::vector<std::int64_t>{16, 16, 16, 13});
  REQUIRE(s.chunk_layers.size() == 16);
  CHECK(s.chunk_layers[14] == 4);
  CHECK(s.chunk_layers[15] == 1);
  s = framework_preset(Framework::kMegatron);
  s.pp = 8, s.vp = 4;  // H100's layout: the first chunk gives way as well
  apply_recipe(s, bridge, run);
  CHECK(s.stage_layers == std::vector<std::int64_t>{7, 8, 8, 8, 8, 8, 8, 6});
  CHECK(s.chunk_layers.front() == 1);
  CHECK(s.chunk_layers.back() == 0);
  s = framework_preset(Framework::kMegatron);
  s.pp = 16;
  apply_recipe(s, bridge, run);
  CHECK(s.stage_layers.back() == 1);
  CHECK(s.chunk_layers.empty());
  s = framework_preset(Framework::kMegatron);
  run.model.name = "Qwen3_30B";
  s.pp = s.vp = 4;
  apply_recipe(s, bridge, run);
  CHECK(s.stage_layers.empty());
}

TEST_CASE("NeMo's script for DeepSeek-V3 drops tokens and spares the first and last stage") {
  Run run;
  run.where = "NVIDIA/dgxc-benchmarking@c5c765f268 (tag v25.05.05) deepseek_v3/pretraining";
  run.model.name = "DeepSeekV3", run.model.num_layers = 61;
  Strategy s = framework_preset(Framework::kMegatron);
  s.pp = 8;
  apply_recipe(s, source_called("several sources"), run);
  CHECK(s.stage_layers == std::vector<std::int64_t>{7, 8, 8, 8, 8, 8, 8, 6});
  CHECK_FALSE(s.runtime.flex_dispatcher);
  CHECK(s.runtime.pad_to_capacity);
}

TEST_CASE("a preset's pipeline layout and a recipe's deferred head are the rows' that have them") {
  const Source bridge = source_called("Megatron-Bridge performance summaries");
  Run run;
  run.where = "(26.04 container)", run.gpu = "NVIDIA H100 80GB", run.precision = "bf16";
  run.model.name = "Kimi_K2", run.model.moe = MoeSpec{}, run.model.num_layers = 61;
  run.tp = 8, run.pp = 16, run.vp = 2, run.ep = 64;
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = 8, s.pp = 16, s.vp = 2, s.ep = 64;
  REQUIRE(preset_of_table(bridge, run) != nullptr);
  apply_recipe(s, bridge, run);
  CHECK(s.chunk_layers == preset_of_table(bridge, run)->chunk_layers);
  CHECK(s.stage_layers.front() == 3);
  CHECK(s.stage_layers.back() == 2);
  run = Run{};
  run.gpu = "NVIDIA GB200", run.model.name = "Llama-3-70B";
  run.recompute_detail = "recipe llama3_70b_sft_32gpu_gb200_fp8cs_config";
  run.gpus = 32, run.global_batch = 32;
  s = framework_preset(Framework::kMegatron);
  s.pp = 8, s.vp = 10;
  apply_recipe(s, bridge, run);
  CHECK(s.runtime.defer_embedding_wgrad_compute);
  CHECK(s.runtime.wgrad_deferral_limit == 22);
}

TEST_CASE("the library's recipes fuse no rotary embedding and reduce in fp32") {
  Source source = source_called("dispatchers of Megatron-Bridge");
  Run run;
  run.where = "(26.02 container)", run.gpu = "NVIDIA H100", run.ep = 8;
  run.model.name = "Qwen3-30B-A3B", run.model.moe = MoeSpec{};
  const auto strategy = [&] {
    Strategy s = framework_preset(Framework::kMegatron);
    s.ep = 8, s.pp = 2, s.vp = 2;
    apply_recipe(s, source, run);
    return s;
  };
  CHECK(strategy().runtime.fused_rope);
  CHECK(strategy().runtime.fused_router);
  CHECK(strategy().overlap.ep);  // NVIDIA's preset of that release
  const std::string preset = run.model.name;
  run.model.name = "Moonlight-16B-A3B";  // of which NVIDIA has no preset
  CHECK_FALSE(strategy().runtime.fused_router);
  CHECK(strategy().runtime.fused_permute);
  run.model.name = preset;
  run.notes = "functional verification run, not tuned";
  CHECK(strategy().grad_dtype == Dtype::kBf16);
  CHECK_FALSE(strategy().runtime.fused_rope);
  CHECK_FALSE(strategy().overlap.ep);
  run.notes.clear();
  source.repo = "github somebody/else";
  CHECK(strategy().grad_dtype == Dtype::kFp32);
  CHECK_FALSE(strategy().runtime.fused_rope);
  run.model.name = "Llama-3.1-8B", run.model.moe.reset();
  CHECK(strategy().runtime.fused_rope);
  source.repo = "github NVIDIA-NeMo/Megatron-Bridge";
  CHECK(strategy().grad_dtype == Dtype::kBf16);
}

TEST_CASE("before their presets were files, recipes go by release and GPU") {
  const Source bridge = source_called("Megatron-Bridge performance summaries");
  struct Row {
    const char *where, *gpu;
    std::int64_t ep;
    bool overlap, flex;
  };
  const auto row = GENERATE(values<Row>({
      {"(25.11 container)", "NVIDIA B200", 8, false, false},
      {"(25.11 container)", "NVIDIA H100", 8, true, false},
      {"(25.11 container)", "NVIDIA GB300", 8, false, true},
      {"(25.09 container)", "NVIDIA H100", 64, true, true},
      {"(25.09 container)", "NVIDIA GB200", 64, false, false},
      {"table 1", "NVIDIA GB200", 8, false, true},
  }));
  CAPTURE(row.where, row.gpu, row.ep);
  Run run;
  run.where = row.where, run.gpu = row.gpu, run.precision = "fp8", run.ep = row.ep;
  run.model.name = "Qwen3_30B_a3B", run.model.moe = MoeSpec{};
  Strategy s = framework_preset(Framework::kMegatron);
  s.ep = row.ep;
  apply_recipe(s, bridge, run);
  CHECK(s.overlap.ep == row.overlap);
  CHECK(s.runtime.flex_dispatcher == row.flex);
  CHECK(s.grad_dtype == Dtype::kBf16);
  s.pp = 8;  // under a pipeline the overlap needs virtual stages
  apply_recipe(s, bridge, run);
  CHECK_FALSE(s.overlap.ep);
  run.model.name = "Qwen3_30B_a3B.tokendrop";  // dropped tokens are padded
  apply_recipe(s, bridge, run);
  CHECK_FALSE(s.runtime.flex_dispatcher);
}

Run table_row(const std::string& container, const std::string& gpu, const std::string& model) {
  Run run;
  run.where = "docs/performance-summary.md (" + container + " container)";
  run.gpu = gpu, run.model.name = model, run.precision = "mxfp8";
  run.model.moe = MoeSpec{};
  run.tp = run.pp = run.vp = 1, run.ep = 8, run.micro_batch = 4;
  return run;
}

TEST_CASE("a table's row has the preset of its release, model, GPU, precision and layout") {
  const Source bridge = source_called("Megatron-Bridge performance summaries");
  Run run = table_row("26.06", "NVIDIA GB200", "Qwen3_30B_a3B");
  Strategy s = framework_preset(Framework::kMegatron);
  s.ep = 8, s.recompute = Recompute::kSelective;
  apply_recipe(s, bridge, run);
  CHECK(s.overlap.ep);
  CHECK(s.runtime.cuda_graph == CudaGraph::kFullIteration);  // a graph of the whole iteration
  CHECK(s.recompute == Recompute::kNone);
  run = table_row("26.04", "NVIDIA GB200", "Qwen3_30B_a3B");
  s = framework_preset(Framework::kMegatron);
  s.ep = 8;
  apply_recipe(s, bridge, run);
  CHECK_FALSE(s.overlap.ep);
  using enum CudaGraphModule;
  CHECK(s.runtime.cuda_graph == CudaGraph::kLayer);  // of parts of a layer
  CHECK(s.runtime.cuda_graph_modules == CudaGraphModules{kMoeRouter, kMoePreprocess});
  // A row's own words come before those of its preset.
  run.cuda_graphs = "transformer_engine: ['attn', 'moe_router']";
  apply_graphs(s, run);
  CHECK(s.runtime.cuda_graph_modules == CudaGraphModules{kAttn, kMoeRouter});
  run.cuda_graphs = "full_iteration (MCORE_CUDA_GRAPH=1)";
  apply_graphs(s, run);
  CHECK(s.runtime.cuda_graph == CudaGraph::kFullIteration);
  CHECK(s.runtime.cuda_graph_modules.empty());
  // The table of 26.02.01 prints for B300 what 26.02's preset ran, with overlapped experts.
  run = table_row("26.02.01", "NVIDIA B300", "Qwen3_235B_a22B");
  run.pp = 8, run.vp = 4, run.micro_batch = 1;
  const BridgePreset* preset = preset_of_table(bridge, run);
  REQUIRE(preset != nullptr);
  CHECK(preset->release == release_number("26.02"));
  CHECK(preset->a2a_overlap);
  run.tp = 4;
  CHECK(preset_of_table(bridge, run) == nullptr);
  CHECK(preset_of_table(source_called("NeMo"), table_row("26.06", "NVIDIA GB200", "x")) == nullptr);
}

TEST_CASE("a row whose notes name a recipe has what the recipe sets") {
  const Source bridge = source_called("Megatron-Bridge model verification cards");
  Run run;
  run.gpu = "NVIDIA H100 80GB", run.model.name = "Qwen3-30B-A3B", run.model.moe = MoeSpec{};
  run.gpus = 16, run.global_batch = 1024;
  run.notes = "recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config";
  Strategy s = framework_preset(Framework::kMegatron);
  s.ep = 16;
  apply_recipe(s, bridge, run);
  CHECK(s.overlap.ep);  // of the tuned recipe; the library's has none
  CHECK(s.runtime.flex_dispatcher);
  using enum CudaGraphModule;
  CHECK(s.runtime.cuda_graph_modules == CudaGraphModules{kMoeRouter, kMoePreprocess});
  CHECK(s.grad_dtype == Dtype::kBf16);
  run.notes = "recipe qwen3_8b_sft_4gpu_h100_bf16_config; functional run";
  s = framework_preset(Framework::kMegatron);
  apply_recipe(s, bridge, run);
  CHECK(s.grad_dtype == Dtype::kFp32);
  CHECK_FALSE(s.overlap.grad_reduce);
  CHECK_FALSE(s.runtime.inplace_cross_entropy);
  run.notes = "recipe nobody_ever_wrote_config";
  CHECK(named_recipe(bridge_recipes(), run) == NamedRecipe{});
  // Beside what it recomputes a recipe is named too, unless it is another container's.
  run.notes.clear();
  run.recompute_detail = "recipe qwen3_8b_sft_4gpu_h100_bf16_config at 067f987 (static reading)";
  REQUIRE(named_recipe(bridge_recipes(), run).recipe != nullptr);
  CHECK(named_recipe(bridge_recipes(), run).recipe->name == "qwen3_8b_sft_4gpu_h100_bf16_config");
  run.recompute_detail += "; container 26.02 may differ";
  CHECK(named_recipe(bridge_recipes(), run) == NamedRecipe{});
}

TEST_CASE("a model without presets sends tokens as the library's recipe of its layout does") {
  const Source bridge = source_called("Megatron-Bridge agent skills");
  Run run;
  run.gpu = "NVIDIA H100 80GB", run.model.name = "Moonlight-16B-A3B", run.model.moe = MoeSpec{};
  run.precision = "bf16", run.tp = 2, run.ep = 8;
  const auto sends_once = [&] {
    Strategy s = framework_preset(Framework::kMegatron);
    apply_recipe(s, bridge, run);
    return s.runtime.flex_dispatcher;
  };
  CHECK_FALSE(sends_once());
  run.dispatcher = "flex/hybridep";  // a row's own words come first
  CHECK(sends_once());
  run.dispatcher.clear();
  run.tp = 16;  // no recipe has this layout
  CHECK(library_dispatcher(bridge_recipes(), run) == std::nullopt);
  CHECK(sends_once());
}

TEST_CASE("a row's modules are what selective recomputation repeats") {
  Run run;
  run.recompute = "selective", run.recompute_modules = {"moe_act", "layernorm", "something"};
  Strategy s = framework_preset(Framework::kMegatron);
  apply_recompute(s, run, 32);
  CHECK(s.recompute_modules ==
        RecomputeModules{RecomputeModule::kMoeAct, RecomputeModule::kLayernorm});
  run.recompute = "none";
  s = framework_preset(Framework::kMegatron);
  apply_recompute(s, run, 32);
  CHECK(s.recompute_modules.empty());
}

TEST_CASE("of two recipes of one name a row has that of its batch, with its layout") {
  const Source bridge = source_called("Megatron-Bridge model verification cards");
  Run run;
  run.gpu = "NVIDIA H100 80GB", run.model.name = "DeepSeek-V3", run.model.moe = MoeSpec{};
  run.model.num_layers = 61;
  run.notes = "recipe deepseek_v3_pretrain_1024gpu_h100_bf16_config";
  run.gpus = 1024, run.tp = 2, run.pp = 16, run.ep = 64;
  const auto strategy = [&](std::int64_t batch) {
    run.global_batch = batch;
    Strategy s = framework_preset(Framework::kMegatron);
    s.tp = 2, s.pp = 16, s.ep = 64, s.dp = 32;
    apply_recipe(s, bridge, run);
    return s;
  };
  const Strategy tuned = strategy(16384);
  CHECK(tuned.pp == 8);
  CHECK(tuned.vp == 4);
  CHECK(tuned.dp == 64);
  CHECK(tuned.recompute_modules ==
        RecomputeModules{RecomputeModule::kMlaUpProj, RecomputeModule::kMlp});
  const Strategy library = strategy(4096);
  CHECK(library.pp == 16);
  CHECK(library.recompute == Recompute::kNone);
}

TEST_CASE("recipes name no module that is unknown") {
  REQUIRE(bridge_recipes().size() > 500);
  for (const BridgeRecipe& r : bridge_recipes()) {
    INFO(r.name);
    for (const std::string& name : r.setting.recompute_modules) {
      // The norm of a gated delta rule by itself.
      const bool left_out = name == "gdn_norm_out";
      CHECK((from_name<RecomputeModule>(name).has_value() || left_out));
    }
    for (const std::string& name : r.setting.cuda_graph_scope) {
      CHECK((from_name<CudaGraphModule>(name).has_value() || name == "full_iteration"));
    }
  }
}

TEST_CASE("releases of presets are ordered and named as containers are") {
  CHECK(release_number("26.02") < release_number("26.02.01"));
  CHECK(release_number("26.02.01") < release_number("26.04"));
  CHECK(release_number("none") == 0);
  REQUIRE(bridge_presets().size() > 100);
  for (const BridgePreset& p : bridge_presets()) {
    CHECK(p.release >= release_number("25.11"));
    CHECK(p.pp >= 1);
  }
}

}  // namespace
TEST_CASE("rows that offload the inputs of recomputed layers do so, in switches or in words") {
  Run run;
  run.recompute = "full";
  Strategy s = framework_preset(Framework::kFsdp);
  apply_recompute(s, run, 32);
  CHECK_FALSE(s.runtime.host_checkpoints);
  run.host_checkpoints = true;
  apply_recompute(s, run, 32);
  CHECK(s.runtime.host_checkpoints);
  run.offload_modules = {"expert_fc1", "core_attn", "something"};
  apply_recompute(s, run, 32);
  CHECK(s.offload.modules == OffloadModules{OffloadModule::kExpertFc1, OffloadModule::kCoreAttn});
  run.host_checkpoints = false;
  run.recompute_detail = "gradient checkpointing with offload to system RAM";
  apply_recompute(s, run, 32);
  CHECK(s.runtime.host_checkpoints);
  run.recompute = "none";
  apply_recompute(s, run, 32);
  CHECK_FALSE(s.runtime.host_checkpoints);
}

TEST_CASE("packed documents of a known data set attend to themselves") {
  Candidate c;
  Run run;
  run.lengths = "SQuAD v1.1 packed to 4096 tokens";
  apply_documents(c, run);
  CHECK_FALSE(c.model.lengths);
  run.packed = true;
  apply_documents(c, run);
  REQUIRE(c.model.lengths);
  CHECK_THAT(mean_length(*c.model.lengths), Catch::Matchers::WithinRel(200, 0.01));
  CHECK(c.strategy.packing == Packing::kPack);
  Candidate other;
  run.lengths = "SCROLLS GovReport packed to 8192 tokens; cu_seqlen not used";
  apply_documents(other, run);
  CHECK_FALSE(other.model.lengths);
  // Rows as long as their documents, whose lengths are stated.
  Candidate uneven;
  run = {};
  run.length_mean = 3234.4, run.length_deviation = 2547.5;
  apply_documents(uneven, run);
  REQUIRE(uneven.model.lengths);
  CHECK_THAT(mean_length(*uneven.model.lengths), Catch::Matchers::WithinRel(3234.4, 0.01));
  CHECK(uneven.strategy.packing == Packing::kNone);
}

}  // namespace meshplan::accuracy
