#include <algorithm>

#include "launch/lint.hpp"
#include "launch/megatron_import.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"
#include "model/parameters.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using test::plan_of;

std::vector<std::string> texts(const ShellScript& script) {
  std::vector<std::string> all;
  for (const ShellWord& word : script.words) all.push_back(word.text);
  return all;
}

// Keys that Megatron-LM's arguments carry.
constexpr std::array kCarried{"tp",
                              "pp",
                              "vp",
                              "cp",
                              "ep",
                              "etp",
                              "dp",
                              "zero",
                              "seq_len",
                              "sequence_parallel",
                              "micro_batch",
                              "global_batch",
                              "schedule",
                              "recompute",
                              "precision",
                              "grad_dtype",
                              "order",
                              "optimizer_dtype",
                              "flash_attention",
                              "overlap.grad_reduce",
                              "overlap.ep",
                              "overlap.delay_wgrad_compute",
                              "runtime.single_device_connection",
                              "kernels.flex_dispatcher",
                              "kernels.num_layers_at_start_in_bf16",
                              "kernels.num_layers_at_end_in_bf16",
                              "kernels.cuda_graph",
                              "kernels.cuda_graph_modules",
                              "offload.optimizer",
                              "offload.modules",
                              "runtime.expandable_segments",
                              "offload.activation_fraction",
                              "kernels.fused_softmax",
                              "kernels.fused_cross_entropy"};

}  // namespace

TEST_CASE("words of a script: quotes, comments, variables, arrays, continued lines") {
  const ShellScript s = read_shell(
      "#!/bin/bash\n"
      "TP=8  # tensor ranks\n"
      "args=(\n  --tensor-model-parallel-size $TP  # why\n  --x 'a b'\n --num-layers 2)\n"
      "torchrun --nproc_per_node ${GPUS:-4} \\\n  t.py \"${args[@]}\" --y=\"$TP\"1\n");
  CHECK(texts(s) == std::vector<std::string>{"--tensor-model-parallel-size", "8", "--x", "a b",
                                             "--num-layers", "2", "--y=81"});
  CHECK(s.program == "t.py");
  REQUIRE(s.launcher.size() == 3);
  CHECK(s.launcher[2].text == "4");
  CHECK(s.variables.at("TP").text == "8");
  CHECK(s.words[0].line == 4);
  CHECK(s.words[0].column == 3);
}

TEST_CASE("options inside of an assigned text are words where they stand") {
  const ShellScript s = read_shell("A=\"\n --bf16 \\\n --lr 1e-4\n\"\nrun $A\n");
  REQUIRE(texts(s) == std::vector<std::string>{"--bf16", "--lr", "1e-4"});
  CHECK(s.words[1].line == 3);
  CHECK(s.words[1].column == 2);
}

TEST_CASE("what was exported is read back") {
  struct Row {
    const char* model;
    std::int64_t gpus;
    const char* keys;
  };
  const auto row = GENERATE(values<Row>({
      {"llama-3.1-70b", 64, "tp=4,pp=4,vp=5,schedule=interleaved,sequence_parallel=true"},
      {"llama-3.1-70b", 64, "tp=4,pp=4,stage_layers=[19,21,21,19],recompute=selective"},
      {"llama-3.1-405b", 128, "tp=8,pp=16,sequence_parallel=true,recompute=full"},
      {"llama-2-7b", 8, "pp=2,vp=2,schedule=interleaved,stage_layers=[15,17]"},
      {"llama-2-7b", 16, "zero=3,recompute=full,recompute_layers=[8]"},
      {"gpt3-175b", 64, "tp=8,seq_len=2048,zero=0,overlap.param_gather=false"},
      {"mixtral-8x7b", 64, "tp=2,sequence_parallel=true,pp=2,ep=8,cp=2,cp_kind=ulysses"},
      {"deepseek-v3", 256, "ep=8,pp=4,recompute=full"},
      {"mixtral-8x7b", 64, "pp=2,vp=2,schedule=interleaved,ep=8,overlap.ep=true"},
      {"mixtral-8x7b", 64, "ep=8,overlap.ep=true,overlap.delay_wgrad_compute=true"},
      {"mixtral-8x7b", 64, "ep=8,kernels.flex_dispatcher=true"},
      {"mixtral-8x7b", 64, "ep=8,kernels.cuda_graph=full_iteration"},
      {"llama-2-7b", 8, "kernels.cuda_graph=layer,runtime.expandable_segments=true"},
      {"mixtral-8x7b", 64,
       "ep=8,kernels.cuda_graph=layer,kernels.cuda_graph_modules=[attn,moe_router,moe_preprocess]"},
      {"mixtral-8x7b", 64, "ep=8,offload.modules=[core_attn,attn_proj,expert_fc1]"},
      {"mixtral-8x7b", 64, "ep=8,offload.modules=[moe_act],offload.activation_fraction=0.5"},
      {"qwen3-32b", 32, "tp=2,precision=fp8,optimizer_dtype=bf16"},
      {"qwen3-32b", 32, "tp=2,precision=fp8,kernels.fp8_recipe=blockwise"},
      {"qwen3-32b", 32, "tp=2,precision=fp8,kernels.num_layers_at_start_in_bf16=2"},
      {"megatron-22b", 16, "tp=4,pp=2,precision=fp16,seq_len=2048,order=tp-cp-ep-pp-dp"},
  }));
  INFO(row.model << " " << row.keys);
  const LaunchPlan p = plan_of(row.model, "dgx-h100", row.gpus, row.keys);
  const LaunchCommand command = megatron_command(p);
  for (const std::string& text : {arguments_text(p, command), node_script(p, command)}) {
    const Result<MegatronRun> run = read_megatron_run(text, "train.sh");
    REQUIRE(run.ok());
    CHECK(run->world_size == row.gpus);
    for (const char* key : kCarried) {
      INFO(key);
      CHECK(value_text(run->strategy, key) == value_text(p.strategy, key));
    }
    CHECK(stage_layers(run->strategy, run->model) == p.strategy.stage_layers);
    CHECK(parameter_count(run->model).total == parameter_count(p.model).total);
    CHECK(parameter_count(run->model).mtp == parameter_count(p.model).mtp);
    CHECK(!has_errors(lint(*run, p.cluster, "train.sh")));
  }
}

TEST_CASE("what is missing or no number is said with its place") {
  const Result<MegatronRun> missing = read_megatron_run("--num-layers 4 --bf16", "a.sh");
  REQUIRE(!missing.ok());
  CHECK(to_text(missing.errors()).find("--hidden-size and --num-attention-heads are missing") !=
        std::string::npos);
  const Result<MegatronRun> word =
      read_megatron_run("--num-layers 4\n --hidden-size big --num-attention-heads 8", "a.sh");
  REQUIRE(!word.ok());
  CHECK(to_text(word.errors())
            .find("a.sh:2:16: error: --hidden-size must be a whole number, got "
                  "\"big\"") != std::string::npos);
}

TEST_CASE("numbers that no run can have are refused where they stand, before they are used") {
  struct Row {
    const char* arguments;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"--pipeline-model-parallel-size 0", "-size must be 1 or more, got 0"},
      {"--pipeline-model-parallel-size -4", "-size must be 1 or more, got -4"},
      {"--pipeline-model-parallel-size 1000000000", "-size must be at most 100,000, got"},
      {"--pipeline-model-parallel-size 9000000000000000000 --decoder-first-pipeline-num-layers 1",
       "-size must be at most 100,000, got 9000000000000000000"},
      {"--num-virtual-stages-per-pipeline-rank 0", "-rank must be 1 or more, got 0"},
      {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank -3",
       "-rank must be 1 or more, got -3"},
      {"--tensor-model-parallel-size 4294967296", "-size must be at most 16,777,216, got"},
      {"--tensor-model-parallel-size 16777216 --context-parallel-size 2",
       "tp * pp * cp must be at most 16,777,216, got 33554432"},
      {"--context-parallel-size 0", "-size must be 1 or more, got 0"},
      {"--micro-batch-size -7", "-size must be 1 or more, got -7"},
      {"--micro-batch-size 4611686018427387905", "-size must be at most 1,000,000,000, got"},
      {"--global-batch-size 0", "-size must be 1 or more, got 0"},
      {"--seq-length -5", "--seq-length must be 1 or more, got -5"},
      {"--hidden-size 9223372036854775807", "--hidden-size must be at most 1,073,741,824, got"},
      {"--window-size 9223372036854775807,0", "--window-size must be at most"},
      {"--nproc-per-node -8", "--nproc-per-node must be 1 or more, got -8"},
      {"--nproc-per-node 8192 --nnodes 8192", "must be at most 16,777,216, got 67108864"},
      {"WORLD_SIZE=-1", "WORLD_SIZE must be 1 or more, got -1"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '((t*999)*999)*999'",
       "this pipeline layout cannot be read"},
  }));
  INFO(row.arguments);
  const Result<MegatronRun> run = read_megatron_run(
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --recompute-granularity full "
      "--recompute-method block\n" +
          std::string(row.arguments),
      "a.sh");
  REQUIRE(!run.ok());
  CHECK(to_text(run.errors()).find(row.message) != std::string::npos);
  CHECK(run.errors().front().where.file == "a.sh");
}

TEST_CASE("what a release does by default is that of the release that runs") {
  const std::string arguments = "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --bf16";
  const auto runtime_of = [&](const std::string& release) {
    RunContext context;
    context.gpus = 1, context.release = release;
    const Result<MegatronRun> run = read_megatron_run(arguments, "a.sh", context);
    REQUIRE(run.ok());
    return run->strategy.runtime;
  };
  CHECK(runtime_of("").head_dummy_gradient);
  CHECK(runtime_of("core_r0.14").head_dummy_gradient);
  CHECK(runtime_of("2025-09-01").head_dummy_gradient);
  CHECK_FALSE(runtime_of("2025-07-28").head_dummy_gradient);
  CHECK(runtime_of("2025-09-01").layer_dummy_gradients);
  CHECK_FALSE(runtime_of("core_r0.12").layer_dummy_gradients);
  CHECK_FALSE(runtime_of("").split_expert_biases);
  CHECK(runtime_of("core_r0.14").split_expert_biases);
  CHECK(runtime_of("2025-09-01").split_expert_biases);
  CHECK_FALSE(runtime_of("core_r0.15").split_expert_biases);
  CHECK(runtime_of("core_r0.14").cuda_graph_warmup_steps == 0);
  CHECK(runtime_of("core_r0.15").cuda_graph_warmup_steps == 3);
  RunContext context;
  context.gpus = 1, context.release = "core_r9";
  const Result<MegatronRun> unknown = read_megatron_run(arguments, "a.sh", context);
  REQUIRE_FALSE(unknown.ok());
  CHECK(to_text(unknown.errors()).find("core_r9") != std::string::npos);
}

TEST_CASE("CUDA graphs of layers, of their parts and of iterations are read") {
  const auto read = [](const std::string& more) {
    RunContext context;
    context.gpus = 8;
    Result<MegatronRun> run = read_megatron_run(
        "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --bf16 " + more, "a.sh", context);
    REQUIRE(run.ok());
    return std::move(run).value();
  };
  const auto graph = [&](const std::string& more) {
    return read(more).strategy.runtime.cuda_graph;
  };
  const auto left_out = [&](const std::string& more) {
    const MegatronRun run = read(more);
    return std::any_of(run.options.begin(), run.options.end(),
                       [](const ReadOption& o) { return o.effect == OptionEffect::kNotModelled; });
  };
  CHECK(graph("") == CudaGraph::kNone);
  CHECK(graph("--cuda-graph-impl none --cuda-graph-scope full") == CudaGraph::kNone);
  CHECK(graph("--cuda-graph-impl full_iteration") == CudaGraph::kFullIteration);
  CHECK(graph("--cuda-graph-impl local --cuda-graph-scope full_iteration") ==
        CudaGraph::kFullIteration);
  CHECK(graph("--cuda-graph-impl transformer_engine") == CudaGraph::kLayer);
  CHECK(graph("--enable-cuda-graph") == CudaGraph::kLayer);
  CHECK_FALSE(left_out("--external-cuda-graph --cuda-graph-scope full"));
  const auto parts = [&](const std::string& more) {
    return read(more).strategy.runtime.cuda_graph_modules;
  };
  using enum CudaGraphModule;
  const std::string engine = "--cuda-graph-impl transformer_engine ";
  CHECK(graph(engine + "--cuda-graph-modules attn mlp") == CudaGraph::kLayer);
  CHECK(parts(engine + "--cuda-graph-modules attn mlp") == CudaGraphModules{kAttn, kMlp});
  CHECK(parts(engine + "--cuda-graph-scope moe_router") == CudaGraphModules{kMoeRouter});
  // The module's own graphs do not tell these two apart.
  CHECK(parts("--cuda-graph-impl local --cuda-graph-scope moe_router") ==
        CudaGraphModules{kMoeRouter, kMoePreprocess});
  CHECK(parts("--cuda-graph-scope attn").empty());  // of no graph
  CHECK(read("--cuda-graph-scope attn").notes.size() > read("").notes.size());
  CHECK(graph(engine + "--cuda-graph-modules other") == CudaGraph::kNone);
  CHECK(read(engine + "--cuda-graph-modules other").notes.size() >
        read(engine + "--cuda-graph-modules attn").notes.size());
  const auto warmup = [&](const std::string& more) {
    return read(more).strategy.runtime.cuda_graph_warmup_steps;
  };
  CHECK(warmup(engine) == 3);
  CHECK(warmup(engine + "--cuda-graph-warmup-steps 0") == 0);
  CHECK(warmup("--cuda-graph-impl local --cuda-graph-warmup-steps 0") == 1);
}

TEST_CASE("what kernels choose experts and sort tokens to them") {
  const auto read = [](const std::string& more) {
    RunContext context;
    context.gpus = 8;
    const Result<MegatronRun> run = read_megatron_run(
        "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --bf16 " + more, "a.sh", context);
    REQUIRE(run.ok());
    return run->strategy.runtime;
  };
  const std::string mixture = "--num-experts 8 --moe-router-topk 2 --moe-grouped-gemm ";
  CHECK_FALSE(read(mixture).fused_router);
  CHECK_FALSE(read(mixture).fused_permute);
  CHECK(read(mixture + "--moe-router-fusion").fused_router);
  CHECK_FALSE(read(mixture + "--moe-router-fusion").fused_permute);
  CHECK(read(mixture + "--moe-permute-fusion").fused_permute);
  CHECK(read("").fused_router);  // nothing to choose: as the preset says
  CHECK(read("").fused_permute);
}

TEST_CASE("what selective recomputation repeats, and how much of the optimizer is on the host") {
  const auto read = [](const std::string& more) {
    RunContext context;
    context.gpus = 8;
    const Result<MegatronRun> run = read_megatron_run(
        "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --bf16 "
        "--use-distributed-optimizer " +
            more,
        "a.sh", context);
    REQUIRE(run.ok());
    return run->strategy;
  };
  using enum RecomputeModule;
  CHECK(read("").recompute == Recompute::kNone);
  const Strategy plain = read("--recompute-granularity selective");
  CHECK(plain.recompute == Recompute::kSelective);
  CHECK(plain.recompute_modules == RecomputeModules{kCoreAttn});
  CHECK(read("--recompute-activations").recompute_modules == RecomputeModules{kCoreAttn});
  CHECK(read("--recompute-granularity selective --recompute-modules layernorm mlp")
            .recompute_modules == RecomputeModules{kLayernorm, kMlp});
  CHECK(read("--moe-layer-recompute").recompute_modules == RecomputeModules{kCoreAttn, kMoe});
  // Named in the report, and not taken for another.
  const Strategy other = read("--recompute-granularity selective --recompute-modules gdp_qkv");
  CHECK(other.recompute == Recompute::kNone);
  CHECK(other.recompute_modules.empty());
  CHECK(read("--recompute-granularity full --recompute-modules mlp").recompute_modules.empty());

  CHECK_FALSE(read("--optimizer-offload-fraction 0.5").offload.optimizer);
  CHECK(read("--optimizer-cpu-offload").offload ==
        Offload{.optimizer = true, .master_weights = false});
  CHECK(read("--optimizer-cpu-offload --optimizer-offload-fraction 0.25 "
             "--use-precision-aware-optimizer --overlap-cpu-optimizer-d2h-h2d")
            .offload ==
        Offload{.optimizer = true, .optimizer_fraction = 0.25, .overlap_copies = true});
  CHECK_FALSE(read("--optimizer-cpu-offload --optimizer-offload-fraction 0").offload.optimizer);
}

TEST_CASE("layers of one's own are never fused attention, and the script says cuBLAS' workspace") {
  const auto read = [](const std::string& before, const std::string& more) {
    const std::string script =
        before +
        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
        "--num-attention-heads 8 --seq-length 1024 --micro-batch-size 1 "
        "--global-batch-size 8 --vocab-size 1024 --bf16 " +
        more + "\n";
    const Result<MegatronRun> run = read_megatron_run(script, "train.sh");
    REQUIRE(run.ok());
    return run->strategy;
  };
  CHECK(read("", "").flash_attention);
  CHECK(read("", "").runtime.transformer_engine);
  CHECK(read("", "").runtime.cublas_workspace_bytes == 0);
  CHECK_FALSE(read("", "--transformer-impl local").flash_attention);
  CHECK_FALSE(read("", "--transformer-impl local").runtime.transformer_engine);
  CHECK_FALSE(read("", "--transformer-impl local --use-flash-attn").flash_attention);
  CHECK_FALSE(read("", "--use-legacy-models").flash_attention);
  CHECK(read("", "--use-legacy-models --use-flash-attn").flash_attention);
  CHECK_FALSE(read("", "--fp8-param-gather").runtime.fp8_param_gather);
  CHECK(read("", "--fp8-format hybrid --fp8-param-gather").runtime.fp8_param_gather);
  // Megatron-LM scales by earlier steps unless told otherwise.
  CHECK(read("", "--fp8-format hybrid").runtime.fp8_recipe == ScalingRecipe::kDelayed);
  CHECK(read("", "--fp8-format e4m3 --fp8-recipe mxfp8").runtime.fp8_recipe ==
        ScalingRecipe::kMxfp8);
  CHECK(read("", "--fp8-recipe mxfp8").runtime.fp8_recipe == ScalingRecipe::kBest);
  const auto in_bf16 = [&](const std::string& more) {
    const Runtime k = read("", more).runtime;
    return std::pair{k.num_layers_at_start_in_bf16, k.num_layers_at_end_in_bf16};
  };
  using Ends = std::pair<std::int64_t, std::int64_t>;
  const std::string scaled = "--fp8-format hybrid --fp8-recipe tensorwise ";
  CHECK(in_bf16(scaled + "--num-layers-at-end-in-bf16 4") == Ends{0, 0});
  CHECK(in_bf16(scaled + "--first-last-layers-bf16") == Ends{1, 1});
  CHECK(in_bf16(scaled + "--first-last-layers-bf16 --num-layers-at-start-in-bf16 0 "
                         "--num-layers-at-end-in-bf16 2") == Ends{0, 2});
  CHECK(in_bf16("--first-last-layers-bf16") == Ends{0, 0});  // nothing is in few bits
  const Strategy four = read("", "--fp4-format e2m1 --fp4-recipe nvfp4 --fp4-param-gather");
  CHECK(four.precision == Precision::kNvfp4);
  CHECK(four.runtime.fp8_param_gather);
  const auto workspace = [&](const std::string& value) {
    return read("export CUBLAS_WORKSPACE_CONFIG=" + value + "\n", "")
        .runtime.cublas_workspace_bytes;
  };
  CHECK(workspace(":4096:8") == 32 * kMiB);
  CHECK(workspace(":4096:2:16:8") == 8 * kMiB + 128 * kKiB);
  CHECK(workspace("4096:8") == 0);
  // Queues of the device matter where messages and kernels are issued to several streams.
  const std::string experts =
      "--num-experts 8 --moe-grouped-gemm --expert-model-parallel-size 8 "
      "--moe-token-dispatcher-type alltoall ";
  const std::string beside = experts + "--overlap-moe-expert-parallel-comm ";
  const auto one_queue = [&](const std::string& queues, const std::string& more) {
    return read("export CUDA_DEVICE_MAX_CONNECTIONS=" + queues + "\n", more)
        .runtime.single_device_connection;
  };
  CHECK(one_queue("1", beside));
  CHECK_FALSE(one_queue("32", beside));
  CHECK_FALSE(one_queue("1", experts));
  CHECK(read("", beside + "--delay-wgrad-compute").overlap.delay_wgrad_compute);
}

}  // namespace meshplan
