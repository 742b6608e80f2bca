#include "mapping.hpp"

#include "accuracy/made_up.hpp"
#include "machine.hpp"
#include "predict.hpp"
#include "recipes.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

namespace meshplan::accuracy {
namespace {

Mapped mapped(const Source& source, const Run& run) {
  auto result = map_run(source, run);
  REQUIRE(std::holds_alternative<Mapped>(result));
  return std::get<Mapped>(result);
}

Strategy strategy(const Source& source, const Run& run) {
  (void)shipped_preset("nanotron");  // the files are read
  const Mapped all = mapped(source, run);
  REQUIRE(all.candidates.size() == 1);
  return all.candidates.front().strategy;
}

std::string skip_reason(const Source& source, const Run& run) {
  const auto result = map_run(source, run);
  REQUIRE(std::holds_alternative<Skip>(result));
  return std::get<Skip>(result).reason;
}

TEST_CASE("the training code follows from the words of the file") {
  const auto row = GENERATE(table<const char*, const char*>({
      {"BigScience BLOOM", "megatron-deepspeed"},
      {"vTrain ground truth: Megatron-DeepSpeed", "megatron-deepspeed"},
      {"benchmark of nanotron configurations", "nanotron"},
      {"fms-fsdp (PyTorch FSDP)", "fsdp"},
      {"MPT training benchmarks (llm-foundry)", "llm-foundry"},
      {"InternEvo training performance", "internevo"},
      {"torchtitan benchmarks", "torchtitan"},
      {"Large-Scale Training Using Megatron-LM", "megatron"},
      {"A paper about nothing known", "megatron"},
  }));
  CHECK(framework_of(source_called(std::get<0>(row)), {}) == std::get<1>(row));
}

TEST_CASE("a row may name another code than its file") {
  Run run;
  run.zero_stage = 3;
  run.notes = "ZeRO-3 without model parallelism; DeepSpeed";
  CHECK(framework_of(source_called("Megatron-LM"), run) == "deepspeed");
  run.fsdp = "Megatron-FSDP";
  CHECK(framework_of(source_called("Bridge"), run) == "megatron");
  Run sharded;
  sharded.fsdp = "torch FSDP2";
  CHECK(framework_of(source_called("InternEvo"), sharded) == "fsdp");
  CHECK(framework_of(source_called("torchtitan"), sharded) == "torchtitan");
}

TEST_CASE("attention texts tell whether a flash kernel runs") {
  const auto row = GENERATE(table<const char*, std::optional<bool>>({
      {"flash_attention2 + RMS kernel", true},
      {"SDPA flash attention v2 + torch.compile", true},
      {"TransformerEngine fused attention", true},
      {"fused", false},
      {"torch", false},
      {"plain attention", false},
      {"no flash attention", false},
      {"unfused (pre-FlashAttention)", false},
      {"unknown (TransformerEngine or Megatron core attention)", std::nullopt},
      {"", std::nullopt},
  }));
  CHECK(flash_attention_of(std::get<0>(row)) == std::get<1>(row));
}

TEST_CASE("every 8-bit recipe is fp8, and what it scales over is read where it is said") {
  CHECK(precision_of("mxfp8") == Precision::kFp8);
  CHECK(precision_of("fp8 (fine-grained 1x128)") == Precision::kFp8);
  CHECK(precision_of("bf16 with float8 linear layers") == Precision::kFp8);
  CHECK(precision_of("fp32 (TF32?)") == Precision::kFp32);
  CHECK(precision_of("bf16") == Precision::kBf16);
  CHECK(precision_of("nvfp4") == Precision::kNvfp4);
  CHECK_FALSE(precision_of("int8").has_value());
  CHECK(recipe_of("mxfp8") == ScalingRecipe::kMxfp8);
  CHECK(recipe_of("fp8 (fine-grained 1x128)") == ScalingRecipe::kBlockwise);
  CHECK(recipe_of("fp8 blockwise") == ScalingRecipe::kBlockwise);
  CHECK(recipe_of("fp8 (torchao float8 tensorwise dynamic)") == ScalingRecipe::kTensorwise);
  CHECK(recipe_of("fp8 delayed") == ScalingRecipe::kDelayed);
  CHECK_FALSE(recipe_of("fp8").has_value());
}

TEST_CASE("an overlap that depends on the model is looked up by its name") {
  const std::string text = "ub_tp_comm_overlap true in llama2_70b/nemotron confs, false in gpt3";
  CHECK(stated_overlap(text, "LLAMA2-70B") == true);
  CHECK(stated_overlap(text, "Nemotron-8B") == true);
  CHECK(stated_overlap(text, "GPT3-5B") == false);
  CHECK(stated_overlap("true", "x") == true);
  CHECK(stated_overlap("false", "x") == false);
  CHECK(stated_overlap("FSDP prefetch", "x") == true);
  CHECK_FALSE(stated_overlap("", "x").has_value());
}

TEST_CASE("a complete row maps to one strategy") {
  const Strategy s = strategy(source_called("nanotron"), complete_run());
  CHECK(s.tp == 2);
  CHECK(s.pp == 2);
  CHECK(s.dp == 4);
  CHECK(s.zero == 1);
  CHECK(s.sequence_parallel);
  CHECK(s.global_batch == 64);
  CHECK(s.seq_len == 2048);
  CHECK(s.schedule == Schedule::k1f1b);
  CHECK(s.flash_attention);
  CHECK(s.framework == shipped_preset("nanotron").framework());
}

TEST_CASE("the data-parallel size follows where it is not stated") {
  Run run = complete_run();
  run.dp.reset();
  CHECK(strategy(source_called("nanotron"), run).dp == 4);
}

TEST_CASE("an interleaved schedule needs more than one chunk per rank") {
  Run run = complete_run();
  run.schedule = "1f1b-interleaved";
  run.vp = 2;
  CHECK(strategy(source_called("Megatron-LM"), run).schedule == Schedule::kInterleaved);
  run.vp = 1;
  CHECK(strategy(source_called("Megatron-LM"), run).schedule == Schedule::k1f1b);
}

TEST_CASE("what a row says of its schedule in brackets is not its schedule") {
  Run run = complete_run();
  run.vp.reset();
  run.schedule = "1f1b ";
  run.schedule_source = "(code of Jan 2021, before the interleaved schedule was released)";
  const Strategy s = strategy(source_called("Megatron-LM"), run);
  CHECK(s.schedule == Schedule::k1f1b);
  CHECK(s.vp == 1);
  CHECK_FALSE(s.runtime.scatter_gather);
}

TEST_CASE("Megatron code without flash attention overlaps nothing and keeps fp16 gradients") {
  Run run = complete_run();
  run.precision = "fp16";
  run.attention_impl = "unfused (pre-FlashAttention)";
  const Strategy s = strategy(source_called("Megatron-LM"), run);
  CHECK(s.overlap == Overlap{.tp_backward = false});
  CHECK(code_name(s) == "megatron-v2");
  CHECK(s.grad_dtype == Dtype::kFp16);
  CHECK_FALSE(s.flash_attention);
}

TEST_CASE("tensor-parallel overlap needs Transformer Engine and sequence parallelism") {
  Run run = complete_run();
  run.attention_impl = "TransformerEngine";
  CHECK(strategy(source_called("Megatron-LM"), run).overlap.tp);
  run.sequence_parallel = false;
  CHECK_FALSE(strategy(source_called("Megatron-LM"), run).overlap.tp);
}

TEST_CASE("stated shard groups are taken, whole ones are the default") {
  Run run = complete_run();
  run.optimizer = "Adam, ZeRO-1 group size 2";
  CHECK(strategy(source_called("InternEvo"), run).zero_group == 2);
  run.optimizer = "Adam, ZeRO-1 group size 4";  // all of dp
  CHECK(strategy(source_called("InternEvo"), run).zero_group == 0);
  run.optimizer.clear();
  run.gpus = 64;
  run.dp = 16;
  run.fsdp = "HSDP (hybrid: shard inside the node of 8, replicate across)";
  CHECK(strategy(source_called("fms-fsdp"), run).zero_group == 8);
}

TEST_CASE("a share of recomputed blocks follows from the quoted ratio of FLOPs") {
  Run run = complete_run();
  run.gpus = 8;
  run.pp = 1;
  run.dp = 4;
  run.recompute = "selective";
  run.recompute_detail = "a fraction of the blocks is checkpointed (HFU/MFU gives 1.25)";
  const Strategy s = strategy(source_called("fms-fsdp"), run);
  CHECK(s.recompute_layers == std::vector<std::int64_t>{6});  // 3 * 0.25 of 8 layers
}

TEST_CASE("fields that the source leaves open are searched over their legal values") {
  Run run = complete_run();
  run.micro_batch.reset();
  const Mapped batches = mapped(source_called("nanotron"), run);
  CHECK(batches.candidates.size() == 5);  // 1, 2, 4, 8, 16 of 64 / 4 sequences
  CHECK(batches.searched == std::vector<std::string>{"micro_batch"});

  run = complete_run();
  run.sequence_parallel.reset();
  run.recompute.clear();
  // None, selective, full, and full of 1 to 3 layers of a stage.
  CHECK(mapped(source_called("nanotron"), run).candidates.size() == 2 * 6);
  run.notes = "the main sweep is without sequence parallelism";
  CHECK(mapped(source_called("nanotron"), run).candidates.size() == 6);
  run.notes += "; its recipes offload activations of some layers";
  const Mapped offloads = mapped(source_called("nanotron"), run);
  REQUIRE(offloads.candidates.size() == 7);
  CHECK(offloads.candidates.back().strategy.offload.activations);

  run = complete_run();
  run.precision = "fp32 (TF32?)";
  const Mapped precisions = mapped(source_called("nanotron"), run);
  REQUIRE(precisions.candidates.size() == 2);
  CHECK(precisions.candidates[0].strategy.precision == Precision::kFp32);
  CHECK(precisions.candidates[1].strategy.precision == Precision::kTf32);

  run = complete_run();
  run.vp.reset();
  run.schedule = "1f1b-interleaved";
  CHECK(mapped(source_called("Megatron"), run).candidates.size() == 2);  // 2, 4 of 8 / 2 layers
  run.schedule = "1f1b";
  CHECK(mapped(source_called("Megatron"), run).candidates.size() == 1);

  run = complete_run();
  run.zero_stage.reset();
  CHECK(mapped(source_called("Megatron"), run).candidates.size() == 2);
}

TEST_CASE("open attention heads are those that the file states for the same width") {
  Source source = source_called("BigScience");
  Run run = complete_run();
  source.runs.push_back(run);  // 8 heads at width 1024
  run.model.num_attention_heads = 16;
  source.runs.push_back(run);
  run.model.num_attention_heads.reset();
  source.runs.push_back(run);
  const Mapped all = mapped(source, run);
  REQUIRE(all.candidates.size() == 2);
  CHECK(all.candidates[0].model.num_attention_heads == 8);
  CHECK(all.candidates[1].model.num_attention_heads == 16);
  CHECK(all.candidates[1].model.head_dim == 64);
}

TEST_CASE("open attention heads are those of the model nearest in depth") {
  Source source = source_called("BigScience");
  Run run = complete_run();
  run.model.num_attention_heads = 4;
  run.model.num_layers = 2;
  source.runs.push_back(run);
  run.model.num_attention_heads = 8;
  run.model.num_layers = 24;
  source.runs.push_back(run);
  run.model.num_attention_heads.reset();
  run.model.num_layers = 20;
  source.runs.push_back(run);
  const Mapped all = mapped(source, run);
  REQUIRE(all.candidates.size() == 1);
  CHECK(all.candidates[0].model.num_attention_heads == 8);
}

TEST_CASE("a run is skipped for what it lacks, in words") {
  const Source source = source_called("Megatron");
  Run run = complete_run();
  run.precision = "int8";
  CHECK(skip_reason(source, run) == "precision not modelled: int8");
  run = complete_run();
  run.dp = 8;
  CHECK(skip_reason(source, run) ==
        "the row contradicts itself: tp x pp x cp x dp = 32, gpus = 16");
  run = complete_run();
  run.global_batch.reset();
  CHECK(skip_reason(source, run) == "global batch not stated");
  run = complete_run();
  run.model.vocab_size.reset();
  CHECK(skip_reason(source, run) == "model not stated: vocab_size");
  run = complete_run();
  run.tp.reset();
  CHECK(skip_reason(source, run) == "layout not stated: tp, pp");
}

TEST_CASE("families carry what the format has no key for") {
  Run run = complete_run();
  const auto model = [&](const char* name) {
    run.model.name = name;
    return std::get<ModelSpec>(model_of(run));
  };
  CHECK(model("bloom-proto-181B").embedding_norm);
  CHECK(model("GPT-NeoX-20B").parallel_block);
  CHECK(model("Qwen3_30B").qk_norm);
  run.model.num_layers = 61;
  CHECK(model("DeepSeekV3").mtp_layers == 1);
  run.notes = "w/o MTP";
  CHECK(model("DeepSeekV3").mtp_layers == 0);
  CHECK_FALSE(model("llama").qk_norm);
}

TEST_CASE("a GPU's name and memory choose the cluster") {
  const auto row = GENERATE(table<const char*, const char*>({
      {"NVIDIA A100-SXM4-40GB", "dgx-a100-40gb"},
      {"NVIDIA A100-SXM4-80GB", "dgx-a100-80gb"},
      {"NVIDIA H100 80GB 700W", "dgx-h100"},
      {"NVIDIA B200", "dgx-b200"},
      {"NVIDIA GB200", "gb200-nvl72"},
      {"NVIDIA B300", "dgx-b300"},
      {"NVIDIA GB300", "gb300-nvl72"},
      {"V100-32GB (DGX-2)", "dgx-2-v100"},
  }));
  Run run;
  run.gpu = std::get<0>(row);
  const auto choice = choose_machine(source_called("Megatron"), run);
  REQUIRE(std::holds_alternative<MachineChoice>(choice));
  CHECK(std::get<MachineChoice>(choice).cluster == std::get<1>(row));
}

TEST_CASE("a GPU that does not ship is named") {
  Run run;
  run.gpu = "Gaudi 3";
  const auto choice = choose_machine(source_called("Megatron"), run);
  REQUIRE(std::holds_alternative<NoMachine>(choice));
  CHECK(std::get<NoMachine>(choice).reason == "device not shipped: Gaudi 3");
}

TEST_CASE("variants of a GPU change its numbers only") {
  Run run;
  run.gpu = "NVIDIA H800";
  const auto h800 = std::get<MachineChoice>(choose_machine(source_called("x"), run));
  CHECK(h800.cluster == "dgx-h100");
  CHECK(h800.nvlink == BytesPerSecond{200e9});
  run.gpu = "NVIDIA H100 96GB";
  const auto hbm2e = std::get<MachineChoice>(choose_machine(source_called("x"), run));
  CHECK(hbm2e.cluster == "hgx-h100-96gb");
}

TEST_CASE("a named system has a network of its own") {
  const auto bloom = choose_machine(source_called("BigScience BLOOM"), {});
  CHECK(std::get<MachineChoice>(bloom).cluster == "jean-zay-a100");
  Machines machines(MESHPLAN_ACCURACY_CLUSTERS, DataFolders::standard());
  const auto cluster = machines.cluster(std::get<MachineChoice>(bloom), 384);
  REQUIRE(cluster.ok());
  CHECK(num_gpus(*cluster) == 384);
  CHECK(cluster->levels.back().bandwidth == BytesPerSecond{6.25e9});  // 4 x 100 Gbit/s over 8
}

TEST_CASE("an instance of a cloud that the network's words name is the cluster that ships") {
  Source source = source_called("x");
  Run run;
  const auto cluster = [&](const char* gpu) {
    run.gpu = gpu;
    return std::get<MachineChoice>(choose_machine(source, run)).cluster;
  };
  CHECK(cluster("NVIDIA H100 80GB") == "dgx-h100");
  source.inter_node = "EFA: p6-b300 16 EFA NICs per node; p5 (H100) 32 EFA = 3.2 Tb/s per node";
  CHECK(cluster("NVIDIA H100 80GB") == "aws-p5");
  CHECK(cluster("NVIDIA B300") == "aws-p6-b300");
  CHECK(cluster("NVIDIA B200") == "dgx-b200");
}

TEST_CASE("networks are read from the words of the hardware section") {
  CHECK(stated_network("8x 200 Gb/s HDR InfiniBand per node", 8) == BytesPerSecond{25e9});
  CHECK(stated_network("4 x 100 Gb RoCE per node", 8) == BytesPerSecond{6.25e9});
  CHECK(stated_network("InfiniBand 8 x 50 GB/s per node", 8) == BytesPerSecond{50e9});
  CHECK(stated_network("RoCE 400 Gb/s per GPU, three layers", 8) == BytesPerSecond{50e9});
  CHECK(stated_network("1600 Gbps node-node RoCE", 8) == BytesPerSecond{25e9});
  CHECK_FALSE(stated_network("not stated", 8).has_value());
}

TEST_CASE("jobs beyond one NVLink domain take equal parts of the domains") {
  Machines machines(MESHPLAN_ACCURACY_CLUSTERS, DataFolders::standard());
  MachineChoice nvl72;
  nvl72.cluster = "gb200-nvl72";
  CHECK(machines.cluster(nvl72, 256)->levels.front().span == 64);
  CHECK(machines.cluster(nvl72, 144)->levels.front().span == 72);
  CHECK(machines.cluster(nvl72, 64)->levels.front().span == 72);
}

TEST_CASE("every shipped cluster of the benchmark is valid") {
  const auto name = GENERATE("dgx-2-v100", "fms-a100", "fms-h100", "hf-h100-efa", "internevo-a100",
                             "jean-zay-a100", "oci-a100-40gb-roce", "oci-a100-roce", "vtrain-a100");
  Machines machines(MESHPLAN_ACCURACY_CLUSTERS, DataFolders::standard());
  MachineChoice choice;
  choice.cluster = name;
  const auto cluster = machines.cluster(choice, 8);
  REQUIRE(cluster.ok());
  CHECK(validate(*cluster).empty());
}

TEST_CASE("a row's container is its release") {
  CHECK(stated_release("docs/performance-summary.md line 45 (26.08 container)") == 2608);
  CHECK(stated_release("line 7 (26.04.01 container)") == 2604);
  CHECK(stated_release("a@c5c765f268 (tag v25.05.05) deepseek_v3/README.md") == 2505);
  CHECK(stated_release("table 3") == 0);
}

TEST_CASE("a model cut to fewer layers has no multi-token prediction") {
  Run run = complete_run();
  run.model.name = "deepseekv3-4L", run.model.num_layers = 4;
  const auto cut = model_of(run);
  REQUIRE(std::holds_alternative<ModelSpec>(cut));
  CHECK(std::get<ModelSpec>(cut).mtp_layers == 0);
  run.model.name = "DeepSeekV3", run.model.num_layers = 61;
  CHECK(std::get<ModelSpec>(model_of(run)).mtp_layers == 1);
}

TEST_CASE("torchtitan's selective layer recomputes every second block") {
  Run run = complete_run();
  run.pp = 1, run.tp = 1, run.dp = 16, run.vp.reset();
  run.sequence_parallel = false, run.recompute = "selective";
  run.recompute_detail = "selective layer";
  const Strategy s = strategy(source_called("torchtitan benchmark pages"), run);
  CHECK(s.recompute == Recompute::kNone);
  CHECK(s.recompute_layers == std::vector<std::int64_t>{4});
  run.recompute_detail = "selective op";
  CHECK(strategy(source_called("torchtitan benchmark pages"), run).recompute ==
        Recompute::kSelective);
}

TEST_CASE("the way of experts' tokens is read from the row's words") {
  Run run = complete_run();
  run.ep = 4, run.overlap_words = "DeepEP dispatcher + 1F1B EP-communication overlap";
  const Source source = source_called("Megatron-LM");
  CHECK(strategy(source, run).overlap.ep);
  CHECK(strategy(source, run).runtime.flex_dispatcher);
  run.overlap_words.clear(), run.notes = "capacity factor 1, alltoall dispatcher";
  CHECK_FALSE(strategy(source, run).overlap.ep);
  CHECK_FALSE(strategy(source, run).runtime.flex_dispatcher);
  CHECK(strategy(source, run).runtime.fused_permute);
  run.notes = "moe_permute_fusion off";
  CHECK_FALSE(strategy(source, run).runtime.fused_permute);
}

TEST_CASE("families are known with and without spaces in their names") {
  Run run = complete_run();
  for (const char* name : {"gpt-oss-120b", "GPT OSS 120B", "gpt_oss"}) {
    run.model.name = name;
    CHECK(std::get<ModelSpec>(model_of(run)).expert_bias);
  }
}

TEST_CASE("a doubtful row is skipped, with the reason that its status gives") {
  Source source = source_called("nanotron");
  Run run = complete_run();
  run.status = "doubtful: another layout";
  Machines machines(MESHPLAN_ACCURACY_CLUSTERS, DataFolders::standard());
  const auto task = prepare(source, run, machines, {});
  REQUIRE(std::holds_alternative<Skipped>(task));
  CHECK(std::get<Skipped>(task).reason == run.status);
}

}  // namespace
}  // namespace meshplan::accuracy
