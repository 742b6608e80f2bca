// Megatron-Bridge's configurations as Megatron-LM's arguments.
#include "launch/bridge_config.hpp"

#include <algorithm>

#include "launch/detect.hpp"
#include "launch/log_arguments.hpp"
#include "launch/megatron_import.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;

namespace {

constexpr std::string_view kBridgeConfig =
    R"(_target_: megatron.bridge.training.config.ConfigContainer
checkpoint:
  _target_: megatron.bridge.training.config.CheckpointConfig
  save_interval: 500
comm_overlap:
  _target_: megatron.bridge.training.comm_overlap.CommOverlapConfig
  tp_comm_overlap: true
dataset:
  _target_: megatron.bridge.training.config.GPTDatasetConfig
  sequence_length: 8192
  split_matrix:
  - - 0
    - 0.5
ddp:
  _target_: megatron.bridge.training.config.DistributedDataParallelConfig
  average_in_collective: true
  grad_reduce_in_fp32: false
  overlap_grad_reduce: true
  overlap_param_gather: true
  use_distributed_optimizer: true
dist:
  use_torch_fsdp2: false
model:
  _target_: megatron.bridge.models.qwen.qwen_provider.Qwen3MoEModelProvider
  activation_func:
    _call_: false
    _target_: torch.nn.functional.silu
  add_bias_linear: false
  apply_rope_fusion: true
  attention_backend:
    _args_:
    - 5
    _call_: true
    _target_: megatron.core.transformer.enums.AttnBackend
  attention_dropout: 0.0
  bf16: true
  context_parallel_size: 2
  cross_entropy_loss_fusion: true
  cuda_graph_scope: full
  enable_cuda_graph: false
  expert_model_parallel_size: 4
  ffn_hidden_size: 6144
  gated_linear_unit: true
  gradient_accumulation_fusion: true
  hidden_dropout: 0.0
  hidden_size: 2048
  init_method:
    _partial_: true
    _target_: torch.nn.init.normal_
    std: 0.02
  kv_channels: 128
  layernorm_epsilon: 1.0e-06
  moe_ffn_hidden_size: 768
  moe_grouped_gemm: true
  moe_layer_freq: 1
  moe_router_topk: 8
  moe_token_dispatcher_type: alltoall
  normalization: RMSNorm
  num_attention_heads: 32
  num_layers: 48
  num_layers_in_first_pipeline_stage: null
  num_moe_experts: 128
  num_query_groups: 4
  overlap_p2p_comm: true
  params_dtype:
    _call_: false
    _target_: torch.bfloat16
  pipeline_model_parallel_layout: null
  pipeline_model_parallel_size: 2
  position_embedding_type: rope
  qk_layernorm: true
  recompute_granularity: selective
  recompute_modules:
  - layernorm
  - moe_act
  rotary_base: 1000000.0
  seq_length: 40960
  sequence_parallel: true
  share_embeddings_and_output_weights: false
  should_pad_vocab: false
  tensor_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: 3
  vocab_size: 151936
  window_size: null
optimizer:
  _target_: megatron.bridge.training.config.OptimizerConfig
  exp_avg_dtype:
    _call_: false
    _target_: torch.bfloat16
  main_grads_dtype:
    _call_: false
    _target_: torch.float32
  optimizer: adam
  overlap_param_gather: false
  use_distributed_optimizer: true
  use_precision_aware_optimizer: true
peft: null
train:
  _target_: megatron.bridge.training.config.TrainingConfig
  global_batch_size: 512
  micro_batch_size: 2
)";

Result<MegatronRun> read_bridge(std::string text) {
  const Result<NamedText> list = bridge_arguments({"run_config.yaml", std::move(text)});
  if (!list) return list.errors();
  return read_megatron_run(list->text, list->name, {.gpus = 64});
}

std::string bridge_errors(std::string text) {
  const Result<MegatronRun> run = read_bridge(std::move(text));
  return run ? "none" : to_text(run.errors());
}

std::string changed_bridge(std::string_view from, std::string_view to) {
  std::string text(kBridgeConfig);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_bridge_run(const MegatronRun& run) {
  const ModelSpec& m = run.model;
  CHECK(m.num_layers == 48);
  CHECK(m.num_query_groups == 4);
  CHECK(m.head_dim == 128);
  CHECK(m.gated_mlp);
  CHECK(m.qk_norm);
  CHECK_FALSE(m.linear_bias);
  CHECK_FALSE(m.tied_embeddings);
  CHECK(m.vocab_size == 151936);
  REQUIRE(m.moe);
  CHECK(m.moe->num_experts == 128);
  CHECK(m.moe->top_k == 8);
  const Strategy& s = run.strategy;
  CHECK(s.tp == 2);
  CHECK(s.pp == 2);
  CHECK(s.vp == 3);
  CHECK(s.cp == 2);
  CHECK(s.ep == 4);
  CHECK(s.zero == 1);
  CHECK(s.sequence_parallel);
  CHECK(s.seq_len == 8192);  // the data's, not what the model could take
  CHECK(s.micro_batch == 2);
  CHECK(s.global_batch == 512);
  CHECK(s.overlap.grad_reduce);
  CHECK(s.overlap.tp);
  CHECK(s.recompute == Recompute::kSelective);
  CHECK(s.recompute_modules.has(RecomputeModule::kLayernorm));
  CHECK(s.recompute_modules.has(RecomputeModule::kMoeAct));
  CHECK(s.grad_dtype == Dtype::kBf16);
  CHECK(s.optimizer_dtype == Dtype::kBf16);
  CHECK(s.runtime.cuda_graph == CudaGraph::kNone);  // a scope of graphs that are off
}

}  // namespace

TEST_CASE("what a configuration of Megatron-Bridge sets in the environment is there") {
  const auto read = [](const std::string& variables) {
    const Result<NamedText> arguments =
        bridge_arguments({"run_config.yaml", std::string(kBridgeConfig) + variables});
    REQUIRE(arguments.ok());
    const Result<MegatronRun> run = read_megatron_run(arguments->text, "run_config.yaml");
    REQUIRE(run.ok());
    return run->strategy.runtime;
  };
  CHECK_FALSE(read("").expandable_segments);
  CHECK(read("env_vars:\n  CUDA_DEVICE_MAX_CONNECTIONS: 32\n"
             "  PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True\n")
            .expandable_segments);
  const std::string list = std::string(kBridgeConfig) + "env_vars:\n  NCCL_DEBUG: [INFO]\n";
  CHECK_THAT(to_text(bridge_arguments({"run_config.yaml", list}).errors()),
             Contains("no variable of an environment"));
}

TEST_CASE("a gate of which activation is not said is refused") {
  std::string text(kBridgeConfig);
  const std::size_t begin = text.find("  activation_func:");
  text.erase(begin, text.find("  add_bias_linear", begin) - begin);
  CHECK_THAT(to_text(bridge_arguments({"run_config.yaml", text}).errors()),
             Contains("a gate of which activation is not said"));
}

TEST_CASE("a configuration of Megatron-Bridge says the run, field by field") {
  const std::string text(kBridgeConfig);
  CHECK(is_bridge_config(text));
  const std::vector<NamedText> files{{"run_config.yaml", text}};
  CHECK(detect_target(files, {}).value() == Target::kMegatron);
  const Result<MegatronRun> run = read_bridge(text);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  check_bridge_run(*run);
}

namespace {

// A log that prints the configuration with a rank before every line.
std::string log_with(std::string_view config) {
  std::string log = "> finished creating GPT datasets ...\ndone with setup ...\n";
  std::string_view rest = config;
  const auto add = [&](std::string_view line) { log += "0: " + std::string(line) + "\n"; };
  add("------- Task Configuration -------");
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    add(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  add("");
  add("----------------------------------");
  add("Training ...");
  return log;
}

}  // namespace

TEST_CASE("the configuration that Megatron-Bridge prints in its log says the same") {
  const std::optional<PrintedArguments> printed =
      printed_arguments(log_with(kBridgeConfig), "bridge.log").value();
  REQUIRE(printed);
  CHECK(printed->program == "Megatron-Bridge");
  CHECK(printed->line == 4);
  REQUIRE(printed->files.size() == 1);
  const Result<MegatronRun> run =
      read_megatron_run(printed->files[0].text, printed->files[0].name, {.gpus = 64});
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  check_bridge_run(*run);
}

TEST_CASE("a configuration in a log that trains what nothing here says is refused by its line") {
  const Result<std::optional<PrintedArguments>> printed =
      printed_arguments(log_with(changed_bridge("peft: null\n",
                                                "peft:\n"
                                                "  _target_: megatron.bridge.peft.dora.DoRA\n"
                                                "  dim: 8\n")),
                        "bridge.log");
  REQUIRE_FALSE(printed.ok());
  CHECK(to_text(printed.errors()).find("bridge.log:") != std::string::npos);
  CHECK(to_text(printed.errors()).find("DoRA") != std::string::npos);
}

TEST_CASE("a layout of layers and graphs that are on are read from Megatron-Bridge") {
  std::string layout;
  for (const char* stage : {"- - embedding\n", "- - decoder\n"}) {
    layout += std::string("  ") + stage;
    const int layers = layout.find("embedding") == layout.rfind("- -") + 4 ? 20 : 27;
    for (int i = 0; i < layers; ++i) layout += "    - decoder\n";
  }
  layout += "    - loss\n";
  const Result<MegatronRun> run = read_bridge(changed_bridge(
      "  pipeline_model_parallel_layout: null\n", "  pipeline_model_parallel_layout:\n" + layout));
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->strategy.vp == 1);
  CHECK(run->strategy.stage_layers == std::vector<std::int64_t>{20, 28});
  const Result<MegatronRun> graphs = read_bridge(
      changed_bridge("  cuda_graph_scope: full\n  enable_cuda_graph: false\n",
                     "  cuda_graph_impl: transformer_engine\n  cuda_graph_scope:\n  - attn\n"
                     "  enable_cuda_graph: false\n"));
  INFO((graphs.ok() ? "" : to_text(graphs.errors())));
  REQUIRE(graphs.ok());
  CHECK(graphs->strategy.runtime.cuda_graph == CudaGraph::kLayer);
}

TEST_CASE("Megatron-Bridge offloads activations of so many layers where it is told to offload") {
  const auto offload = [](const std::string& on) {
    const Result<MegatronRun> run = read_bridge(changed_bridge(
        "  enable_cuda_graph: false\n", "  enable_cuda_graph: false\n  cpu_offloading: " + on +
                                            "\n  cpu_offloading_num_layers: 5\n"));
    INFO((run.ok() ? "" : to_text(run.errors())));
    REQUIRE(run.ok());
    return run->strategy.offload;
  };
  CHECK(offload("true").activations);
  CHECK(offload("true").activation_layers == 5);
  CHECK_FALSE(offload("false").activations);
}

TEST_CASE("adapters of Megatron-Bridge are the strategy's") {
  const auto with_lora = [](const std::string& fields) {
    return changed_bridge("peft: null",
                          "peft:\n  _target_: megatron.bridge.peft.lora.LoRA\n" + fields);
  };
  const Result<MegatronRun> run = read_bridge(
      with_lora("  alpha: 32\n  dim: 16\n  dropout: 0.1\n  exclude_modules: []\n  target_modules:\n"
                "  - linear_qkv\n  - linear_fc2\n  a2a_experimental: true\n"
                "  sequence_parallel_input_regather: true"));
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->strategy.lora.rank == 16);
  CHECK(run->strategy.lora.dropout == 0.1);
  CHECK(run->strategy.lora.all_to_all);
  CHECK(run->strategy.lora.input_regather);
  CHECK(run->strategy.lora.targets == LoraTargets{LoraTarget::kQkv, LoraTarget::kFc2});
  // As Megatron-Bridge itself goes on.
  std::string whole = with_lora("  dim: 8\n  sequence_parallel_input_regather: true");
  const std::string_view selective =
      "recompute_granularity: selective\n  recompute_modules:\n  - layernorm\n  - moe_act\n";
  whole.replace(whole.find(selective), selective.size(),
                "recompute_granularity: full\n  recompute_method: uniform\n"
                "  recompute_num_layers: 1\n");
  const Result<MegatronRun> beside = read_bridge(whole);
  INFO((beside.ok() ? "" : to_text(beside.errors())));
  REQUIRE(beside.ok());
  CHECK_FALSE(beside->strategy.lora.input_regather);
  CHECK(std::any_of(beside->notes.begin(), beside->notes.end(), [](const std::string& note) {
    return note.find("sequence_parallel_input_regather") != std::string::npos;
  }));
  const Result<MegatronRun> plain = read_bridge(with_lora("  dim: 8"));
  REQUIRE(plain.ok());
  CHECK(plain->strategy.lora.targets == kDefaultLoraTargets);
  CHECK_THAT(bridge_errors(with_lora("  dim: 8\n  target_modules: ['*.layers.0.*.linear_qkv']")),
             Contains("no adapters are known on '*.layers.0.*.linear_qkv'"));
  CHECK_THAT(bridge_errors(with_lora("  dim: 8\n  exclude_modules: [linear_qkv]")),
             Contains("modules that are left out"));
}

TEST_CASE("what Megatron-Bridge trains and Megatron-LM's arguments cannot say is refused") {
  CHECK_THAT(
      bridge_errors(changed_bridge("peft: null",
                                   "peft:\n  _target_: megatron.bridge.peft.dora.DoRA\n  dim: 32")),
      Contains("run_config.yaml:98") && Contains("adapters other than LoRA's are not read: DoRA"));
  CHECK_THAT(bridge_errors(changed_bridge("torch.nn.functional.silu", "torch.nn.functional.relu")),
             Contains("run_config.yaml:27") && Contains("a gated relu is no activation"));
  CHECK_THAT(
      bridge_errors(changed_bridge("  window_size: null", "  vision_config:\n    depth: 27")),
      Contains("vision encoder"));
  CHECK_THAT(bridge_errors(changed_bridge(
                 "  pipeline_model_parallel_layout: null",
                 "  pipeline_model_parallel_layout:\n    _target_: megatron.core.Layout")),
             Contains("a layout that is an object is not read"));
  CHECK_THAT(bridge_errors(changed_bridge("  num_layers: 48\n", "")),
             Contains("no 'model' with its sizes"));
}

TEST_CASE("a whole configuration of Megatron-Bridge says whether attention is in 8 bits") {
  const Result<MegatronRun> on = read_bridge(changed_bridge(
      "  gated_linear_unit: true\n",
      "  fp8: hybrid\n  fp8_dot_product_attention: true\n  gated_linear_unit: true\n"));
  INFO((on.ok() ? "" : to_text(on.errors())));
  REQUIRE(on.ok());
  CHECK(on->strategy.runtime.fp8_attention);
  const Result<MegatronRun> off = read_bridge(changed_bridge(
      "  gated_linear_unit: true\n",
      "  fp8: hybrid\n  fp8_dot_product_attention: false\n  gated_linear_unit: true\n"));
  REQUIRE(off.ok());
  CHECK_FALSE(off->strategy.runtime.fp8_attention);
}
