#include "launch/megatron.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using test::plan_of;

// The words behind an option, joined; "-" if the option is absent.
std::string option(const LaunchCommand& command, const std::string& name) {
  for (const LaunchCommand::Section& section : command.sections) {
    for (const std::vector<std::string>& line : section.lines) {
      if (line.front() != name) continue;
      std::string text;
      for (std::size_t i = 1; i < line.size(); ++i) text += (i > 1 ? " " : "") + line[i];
      return text;
    }
  }
  return "-";
}

std::string environment(const LaunchCommand& command, const std::string& name) {
  for (const auto& [key, value] : command.environment) {
    if (key == name) return value;
  }
  return "-";
}

LaunchCommand megatron(const std::string& model, std::int64_t gpus, const std::string& keys) {
  return megatron_command(plan_of(model, "dgx-h100", gpus, keys));
}

// The layout as Megatron-LM unrolls it: "(tt|)*2" is "tt|tt|".
std::vector<std::string> unrolled(std::string text) {
  for (std::size_t open = text.find('('); open != std::string::npos; open = text.find('(')) {
    const std::size_t close = text.find(")*", open);
    std::size_t end = close + 2;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    const std::string part = text.substr(open + 1, close - open - 1);
    std::string all;
    for (int i = std::stoi(text.substr(close + 2)); i > 0; --i) all += part;
    text.replace(open, end - open, all);
  }
  std::vector<std::string> stages(1);
  for (const char c : text) {
    if (c == '|') {
      stages.emplace_back();
    } else {
      stages.back() += c;
    }
  }
  return stages;
}

}  // namespace

TEST_CASE(
    "pretrain_gpt.py is not asked for Transformer Engine's loss, and what that costs is said") {
  const LaunchPlan p =
      plan_of("llama-2-7b", "dgx-h100", 8, "tp=2,micro_batch=2,kernels.inplace_cross_entropy=true");
  const auto asks = [](const LaunchCommand& command) {
    return std::any_of(command.sections.begin(), command.sections.end(), [](const auto& section) {
      return std::any_of(section.lines.begin(), section.lines.end(), [](const auto& line) {
        return line.front() == "--cross-entropy-fusion-impl";
      });
    });
  };
  CHECK(asks(megatron_command(p)));  // of which Megatron-Bridge's overrides are made
  const LaunchCommand command = pretrain_command(p);
  CHECK_FALSE(asks(command));
  const auto said = [](const LaunchCommand& c) {
    return std::count_if(c.notes.begin(), c.notes.end(), [](const std::string& note) {
      return note.find("refuses Transformer Engine's loss") != std::string::npos;
    });
  };
  CHECK(said(command) == 1);
  // 8 bytes of 2 x 4,096 tokens' logits over half of 32,000 words.
  CHECK_THAT(command.notes.back(),
             Catch::Matchers::Contains(human_bytes(Bytes{8LL * 8192 * 16000})));
  const LaunchPlan native = plan_of("llama-2-7b", "dgx-h100", 8, "tp=2");
  CHECK(said(pretrain_command(native)) == 0);
}

TEST_CASE("lists of layers are written as Python does") {
  CHECK(python_list(5, [](std::int64_t i) { return i >= 3; }) == "([0]*3+[1]*2)");
  CHECK(python_list(3, [](std::int64_t i) { return i == 1; }) == "([0]+[1]+[0])");
}

TEST_CASE("equal stages have numbers, unequal ends flags, the rest a layout") {
  const LaunchCommand even = megatron("llama-3.1-70b", 64, "tp=4,pp=4,sequence_parallel=true");
  CHECK(option(even, "--pipeline-model-parallel-layout") == "-");
  CHECK(option(even, "--decoder-first-pipeline-num-layers") == "-");
  CHECK(option(even, "--num-virtual-stages-per-pipeline-rank") == "-");

  const LaunchCommand ends = megatron("llama-3.1-70b", 64, "tp=4,pp=4,stage_layers=[19,21,21,19]");
  CHECK(option(ends, "--pipeline-model-parallel-layout") == "-");
  CHECK(option(ends, "--decoder-first-pipeline-num-layers") == "19");
  CHECK(option(ends, "--decoder-last-pipeline-num-layers") == "19");

  const LaunchCommand layout =
      megatron("llama-3.1-70b", 64, "tp=4,pp=4,stage_layers=[18,22,21,19]");
  const std::vector<std::string> stages =
      unrolled(option(layout, "--pipeline-model-parallel-layout"));
  REQUIRE(stages.size() == 4);
  CHECK(stages[0] == "E" + std::string(18, 't'));
  CHECK(stages[1] == std::string(22, 't'));
  CHECK(stages[3] == std::string(19, 't') + "L");
}

TEST_CASE("a layout lists the chunks of all ranks before the second chunk of any") {
  // 2 ranks with 2 chunks each; 15 layers: the first rank's first chunk holds the embedding.
  const LaunchCommand c =
      megatron("llama-2-7b", 8, "pp=2,vp=2,schedule=interleaved,stage_layers=[15,17],dp=4");
  const std::vector<std::string> stages = unrolled(option(c, "--pipeline-model-parallel-layout"));
  REQUIRE(stages.size() == 4);
  CHECK(stages[0].size() - 1 + stages[2].size() == 15);  // E is no layer
  CHECK(stages[1].size() + stages[3].size() - 1 == 17);  // nor is L
  CHECK(stages[0].front() == 'E');
  CHECK(stages[3].back() == 'L');
}

TEST_CASE("multi-token prediction stands before the loss") {
  const LaunchCommand c = megatron("deepseek-v3", 1024, "pp=16,ep=8,global_batch=1024");
  CHECK(option(c, "--mtp-num-layers") == "1");
  CHECK(unrolled(option(c, "--pipeline-model-parallel-layout")).back().ends_with("mL"));
}

TEST_CASE("a model's features have their flags") {
  const LaunchCommand mla = megatron("deepseek-v3", 1024, "pp=16,ep=8,global_batch=1024");
  CHECK(option(mla, "--kv-lora-rank") == "512");
  CHECK(option(mla, "--qk-head-dim") == "128");
  CHECK(option(mla, "--qk-pos-emb-head-dim") == "64");
  CHECK(option(mla, "--group-query-attention") == "-");
  CHECK(option(mla, "--no-rope-fusion").empty());
  CHECK(option(mla, "--moe-layer-freq") == "([0]*3+[1]*58)");
  CHECK(option(mla, "--moe-router-enable-expert-bias").empty());
  CHECK(option(mla, "--moe-shared-expert-intermediate-size") == "2048");

  const LaunchCommand gqa = megatron("llama-3.1-8b", 8, "tp=2,sequence_parallel=true");
  CHECK(option(gqa, "--group-query-attention").empty());
  CHECK(option(gqa, "--num-query-groups") == "8");
  CHECK(option(gqa, "--swiglu").empty());
  CHECK(option(gqa, "--disable-bias-linear").empty());
  CHECK(option(gqa, "--untie-embeddings-and-output-weights").empty());

  const LaunchCommand gpt = megatron("gpt3-175b", 64, "tp=8,seq_len=2048");
  CHECK(option(gpt, "--position-embedding-type") == "learned_absolute");
  CHECK(option(gpt, "--max-position-embeddings") == "2048");
  CHECK(option(gpt, "--disable-bias-linear") == "-");
  CHECK(option(gpt, "--untie-embeddings-and-output-weights") == "-");
  CHECK(option(gpt, "--swiglu") == "-");
  CHECK(option(gpt, "--hidden-dropout") != "-");

  const LaunchCommand sinks = megatron("gpt-oss-120b", 64, "ep=8");
  CHECK(option(sinks, "--softmax-type") == "learnable");
  CHECK(option(sinks, "--window-size") == "127,0");
  CHECK(option(sinks, "--disable-bias-linear") == "-");
}

TEST_CASE("sharding of states, by degree") {
  const LaunchCommand zero0 = megatron("llama-2-7b", 8, "zero=0,overlap.param_gather=false");
  CHECK(option(zero0, "--use-distributed-optimizer") == "-");
  const LaunchCommand zero1 = megatron("llama-2-7b", 16, "zero=1,zero_group=8");
  CHECK(option(zero1, "--use-distributed-optimizer").empty());
  CHECK(option(zero1, "--num-distributed-optimizer-instances") == "2");
  CHECK(option(zero1, "--overlap-param-gather").empty());
  CHECK(option(zero1, "--use-megatron-fsdp") == "-");
  const LaunchCommand zero2 = megatron("llama-2-7b", 8, "zero=2");
  CHECK(option(zero2, "--data-parallel-sharding-strategy") == "optim_grads");
  const LaunchCommand zero3 = megatron("llama-2-7b", 8, "zero=3,tp=2,sequence_parallel=true");
  CHECK(option(zero3, "--data-parallel-sharding-strategy") == "optim_grads_params");
  CHECK(option(zero3, "--ckpt-format") == "fsdp_dtensor");
  CHECK(zero3.unset == std::vector<std::string>{"CUDA_DEVICE_MAX_CONNECTIONS"});
  CHECK(environment(zero3, "CUDA_DEVICE_MAX_CONNECTIONS") == "-");
}

TEST_CASE("one launch queue where collectives must go first, and only before Blackwell") {
  CHECK(environment(megatron("llama-2-7b", 8, "tp=2"), "CUDA_DEVICE_MAX_CONNECTIONS") == "1");
  CHECK(environment(megatron("llama-2-7b", 8, "dp=8"), "CUDA_DEVICE_MAX_CONNECTIONS") == "-");
  const LaunchCommand b200 = megatron_command(plan_of("llama-2-7b", "dgx-b200", 8, "tp=2"));
  CHECK(environment(b200, "CUDA_DEVICE_MAX_CONNECTIONS") == "-");
}

TEST_CASE("the cluster's links decide what NCCL is told") {
  const LaunchCommand slow = megatron_command(plan_of("llama-2-7b", "a100-ethernet", 16, "tp=8"));
  CHECK(environment(slow, "NCCL_IB_DISABLE") == "1");
  const LaunchCommand rack =
      megatron_command(plan_of("llama-2-7b", "gb200-nvl72", 72, "tp=4,global_batch=576"));
  CHECK(environment(rack, "NCCL_MNNVL_ENABLE") == "1");
  CHECK(environment(megatron("llama-2-7b", 64, "tp=8"), "NCCL_IB_DISABLE") == "-");
}

TEST_CASE("segments of the allocator that grow leave graphs' buffers unregistered") {
  const auto of = [](const std::string& keys) { return megatron("llama-2-7b", 8, "dp=8" + keys); };
  const std::string grow = ",runtime.expandable_segments=true";
  CHECK(environment(of(grow), "PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:True");
  CHECK(environment(of(grow), "NCCL_GRAPH_REGISTER") == "-");
  CHECK(environment(of(grow + ",kernels.cuda_graph=layer"), "NCCL_GRAPH_REGISTER") == "0");
  CHECK(environment(of(",kernels.cuda_graph=layer"), "NCCL_GRAPH_REGISTER") == "-");
}

TEST_CASE("recomputation: none, selective, some layers of every chunk, all") {
  CHECK(option(megatron("llama-2-7b", 8, "tp=2"), "--recompute-granularity") == "-");
  const LaunchCommand some = megatron("llama-2-7b", 8, "recompute=selective");
  CHECK(option(some, "--recompute-modules") == "layernorm mlp");
  const LaunchCommand scores =
      megatron("llama-2-7b", 8, "recompute=selective,flash_attention=false");
  CHECK(option(scores, "--recompute-modules") == "core_attn");
  const LaunchCommand listed = megatron(
      "deepseek-v3", 64, "ep=8,recompute=selective,recompute_modules=[moe_act,mla_up_proj]");
  CHECK(option(listed, "--recompute-modules") == "moe_act mla_up_proj");
  const LaunchCommand all = megatron("llama-2-7b", 8, "recompute=full");
  CHECK(option(all, "--recompute-method") == "uniform");
  CHECK(option(all, "--recompute-num-layers") == "1");
  const LaunchCommand block = megatron(
      "llama-2-7b", 8, "pp=2,vp=4,schedule=interleaved,recompute=full,recompute_layers=[8,8]");
  CHECK(option(block, "--recompute-method") == "block");
  CHECK(option(block, "--recompute-num-layers") == "2");
}

TEST_CASE("precision has its flags") {
  CHECK(option(megatron("llama-2-7b", 8, "tp=2"), "--bf16").empty());
  CHECK(option(megatron("llama-2-7b", 8, "grad_dtype=bf16"), "--grad-reduce-in-bf16").empty());
  const LaunchCommand half = megatron("llama-2-7b", 8, "precision=fp16");
  CHECK(option(half, "--fp16").empty());
  CHECK(option(half, "--accumulate-allreduce-grads-in-fp32").empty());
  CHECK(option(megatron("llama-2-7b", 8, "precision=fp8"), "--fp8-recipe") == "tensorwise");
  const LaunchCommand b200 =
      megatron_command(plan_of("llama-2-7b", "dgx-b200", 8, "precision=fp8"));
  CHECK(option(b200, "--fp8-recipe") == "mxfp8");
  CHECK(option(b200, "--fp8-format") == "e4m3");
  const std::string delayed = "precision=fp8,kernels.fp8_recipe=delayed";
  CHECK(option(megatron("llama-2-7b", 8, delayed), "--fp8-recipe") == "delayed");
  const LaunchCommand four =
      megatron_command(plan_of("llama-2-7b", "dgx-b200", 8, "precision=nvfp4"));
  CHECK(option(four, "--bf16").empty());
  CHECK(option(four, "--fp4-format") == "e2m1");
  CHECK(option(four, "--fp4-recipe") == "nvfp4");
  CHECK(option(four, "--first-last-layers-bf16") == "-");
  const LaunchCommand ends = megatron_command(
      plan_of("llama-2-7b", "dgx-b200", 8, "precision=nvfp4,kernels.num_layers_at_end_in_bf16=4"));
  CHECK(option(ends, "--first-last-layers-bf16").empty());
  CHECK(option(ends, "--num-layers-at-start-in-bf16") == "0");
  CHECK(option(ends, "--num-layers-at-end-in-bf16") == "4");
}

TEST_CASE("no flag is written twice and every section but the dry start follows from the plan") {
  const LaunchCommand c = megatron("mixtral-8x7b", 64, "tp=2,sequence_parallel=true,pp=2,ep=8");
  std::vector<std::string> names;
  for (const LaunchCommand::Section& section : c.sections) {
    for (const std::vector<std::string>& line : section.lines) {
      CHECK(line.front().starts_with("--"));
      names.push_back(line.front());
    }
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("Megatron-Bridge gets every option of a plan as an override") {
  const auto words = [](const char* model, std::int64_t gpus, const char* keys) {
    const LaunchCommand c = bridge_command(plan_of(model, "dgx-h100", gpus, keys));
    std::vector<std::string> all;
    for (const auto& line : c.sections.at(0).lines) all.push_back(line.at(0));
    CHECK(std::all_of(all.begin(), all.end(),
                      [](const std::string& w) { return w.find('=') != std::string::npos; }));
    return all;
  };
  const auto holds = [](const std::vector<std::string>& all, const char* word) {
    return std::find(all.begin(), all.end(), word) != all.end();
  };
  const auto dense = words("llama-3.1-70b", 64,
                           "tp=4,pp=4,vp=5,schedule=interleaved,sequence_parallel=true,"
                           "recompute=selective,overlap.pp=false");
  CHECK(holds(dense, "model.virtual_pipeline_model_parallel_size=5"));
  CHECK(holds(dense, "model.sequence_parallel=true"));
  CHECK(holds(dense, "model.recompute_modules=[layernorm,mlp]"));
  CHECK(holds(dense, "comm_overlap.overlap_p2p_comm=false"));
  CHECK(holds(dense, "mixed_precision=bf16_mixed"));
  const auto graphs = words("llama-3.1-8b", 8, "kernels.cuda_graph=full_iteration");
  CHECK(holds(graphs, "model.cuda_graph_impl=local"));
  CHECK(holds(graphs, "model.cuda_graph_scope=[full_iteration]"));
  CHECK(holds(graphs, "model.use_te_rng_tracker=true"));
  CHECK(holds(graphs, "rng.te_rng_tracker=true"));
  CHECK(holds(graphs, "rerun_state_machine.check_for_nan_in_loss=false"));
  const auto parts = words("mixtral-8x7b", 64,
                           "ep=8,kernels.cuda_graph=layer,"
                           "kernels.cuda_graph_modules=[moe_router,attn,moe_preprocess]");
  CHECK(holds(parts, "model.cuda_graph_impl=transformer_engine"));
  CHECK(holds(parts, "model.cuda_graph_scope=[attn,moe_router,moe_preprocess]"));
  const auto experts = words("mixtral-8x7b", 64, "ep=8,zero=3,precision=fp8,grad_dtype=bf16");
  CHECK(holds(experts, "model.expert_model_parallel_size=8"));
  CHECK(holds(experts, "ddp.data_parallel_sharding_strategy=optim_grads_params"));
  // Its recipe of one scale per tensor leaves the first and the last layer in bf16.
  CHECK(holds(experts, "mixed_precision.fp8_recipe=tensorwise"));
  CHECK(holds(experts, "mixed_precision.first_last_layers_bf16=false"));
  const auto ends = words("mixtral-8x7b", 64,
                          "ep=8,precision=fp8,kernels.num_layers_at_start_in_bf16=1,"
                          "kernels.num_layers_at_end_in_bf16=1,runtime.fp8_param_gather=true");
  CHECK(holds(ends, "mixed_precision=bf16_with_fp8_current_scaling_mixed"));
  const auto last =
      words("mixtral-8x7b", 64, "ep=8,precision=fp8,kernels.num_layers_at_end_in_bf16=3");
  CHECK(holds(last, "mixed_precision.first_last_layers_bf16=true"));
  CHECK(holds(last, "mixed_precision.num_layers_at_start_in_bf16=0"));
  CHECK(holds(last, "mixed_precision.num_layers_at_end_in_bf16=3"));
  // The recipe of the precision stores weights in 8 bits by itself.
  const auto stored = words("mixtral-8x7b", 64,
                            "ep=8,zero=3,precision=fp8,kernels.fp8_recipe=delayed,"
                            "runtime.fp8_param_gather=true,grad_dtype=fp32");
  CHECK(holds(stored, "mixed_precision=bf16_with_fp8_delayed_scaling_mixed"));
  CHECK(holds(experts, "mixed_precision.grad_reduce_in_fp32=false"));
}

}  // namespace meshplan
