#include "launch/log_arguments.hpp"

#include "launch/deepspeed_import.hpp"
#include "launch/megatron_import.hpp"
#include "launch/torchtitan_import.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

PrintedArguments printed(std::string_view log) {
  const std::optional<PrintedArguments> all = printed_arguments(log, "x.log").value();
  if (!all) FAIL("no arguments were found");
  return *all;
}

MegatronRun megatron(const PrintedArguments& all) {
  REQUIRE(all.files.size() == 1);
  RunContext context;
  context.gpus = all.gpus;
  Result<MegatronRun> run = read_megatron_run(all.files.front().text, "x.log", context);
  if (!run.ok()) FAIL(to_text(run.errors()));
  return *std::move(run);
}

// As megatron/training/arguments.py prints them.
constexpr std::string_view kMegatron =
    "[default0]:using world size: 16\n"
    "[default0]:------------------------ arguments ------------------------\n"
    "[default0]:  add_bias_linear ................................. False\n"
    "[default0]:  bf16 ............................................ True\n"
    "[default0]:  exp_avg_dtype ................................... torch.float32\n"
    "[default0]:  ffn_hidden_size ................................. 14336\n"
    "[default0]:  fp8 ............................................. hybrid\n"
    "[default0]:  global_batch_size ............................... 128\n"
    "[default0]:  group_query_attention ........................... True\n"
    "[default0]:  hidden_dropout .................................. 0.0\n"
    "[default0]:  hidden_size ..................................... 4096\n"
    "[default0]:  img_h ........................................... 224\n"
    "[default0]:  micro_batch_size ................................ 2\n"
    "[default0]:  moe_layer_freq .................................. [0, 1]\n"
    "[default0]:  normalization ................................... RMSNorm\n"
    "[default0]:  num_attention_heads ............................. 32\n"
    "[default0]:  num_experts ..................................... None\n"
    "[default0]:  num_layers ...................................... 32\n"
    "[default0]:  num_layers_per_virtual_pipeline_stage ........... 8\n"
    "[default0]:  num_query_groups ................................ 8\n"
    "[default0]:  overlap_p2p_comm ................................ False\n"
    "[default0]:  pipeline_model_parallel_size .................... 2\n"
    "[default0]:  recompute_granularity ........................... selective\n"
    "[default0]:  recompute_modules ............................... ['core_attn', 'layernorm']\n"
    "[default0]:  seq_length ...................................... 8192\n"
    "[default0]:  sequence_parallel ............................... True\n"
    "[default0]:  swiglu .......................................... True\n"
    "[default0]:  tensor_model_parallel_size ...................... 4\n"
    "[default0]:  untie_embeddings_and_output_weights ............. True\n"
    "[default0]:  use_distributed_optimizer ....................... True\n"
    "[default0]:  use_something_of_ours ........................... True\n"
    "[default0]:  virtual_pipeline_model_parallel_size ............ 2\n"
    "[default0]:  world_size ...................................... 16\n"
    "[default0]:-------------------- end of arguments ---------------------\n"
    "[default0]:  hidden_size ..................................... 1\n"
    "[default0]: > padded vocab (size: 128256) with 256 dummy tokens (new size: 128512)\n";

TEST_CASE("Megatron-LM's printed arguments are read as a script's") {
  const PrintedArguments all = printed(kMegatron);
  CHECK(all.target == Target::kMegatron);
  CHECK(all.gpus == 16);
  CHECK(all.line == 2);
  CHECK(all.unknown == std::vector<std::string>{"use_something_of_ours"});
  const MegatronRun run = megatron(all);
  CHECK(run.model.hidden_size == 4096);
  CHECK(run.model.ffn_hidden_size == 14336);
  CHECK(run.model.num_query_groups == 8);
  CHECK(run.model.vocab_size == 128512);
  CHECK_FALSE(run.model.linear_bias);
  CHECK(run.model.norm == Norm::kRmsNorm);
  CHECK(run.strategy.tp == 4);
  CHECK(run.strategy.pp == 2);
  CHECK(run.strategy.vp == 2);
  CHECK(run.strategy.dp == 2);
  CHECK(run.strategy.micro_batch == 2);
  CHECK(run.strategy.global_batch == 128);
  CHECK(run.strategy.sequence_parallel);
  CHECK_FALSE(run.strategy.overlap.pp);
  CHECK(run.strategy.precision == Precision::kFp8);
  CHECK(run.strategy.recompute == Recompute::kSelective);
  CHECK(run.strategy.zero == 1);
}

TEST_CASE("what is wrong with a printed argument is reported in its line of the log") {
  std::string log(kMegatron);
  log.replace(log.find("32\n", log.find("num_layers")), 2, "many");
  const PrintedArguments all = printed(log);
  RunContext context;
  context.gpus = 16;
  const Result<MegatronRun> run = read_megatron_run(all.files.front().text, "x.log", context);
  REQUIRE_FALSE(run.ok());
  CHECK(run.errors().front().where.line == 18);
}

TEST_CASE("DeepSpeed's printed configuration, with the world that its engine names") {
  const PrintedArguments all = printed(
      "[2024-01-01 10:00:00,000] [INFO] [config.py:964:print]   world_size ................... 8\n"
      "[2024-01-01 10:00:00,000] [INFO] [config.py:950:print_user_config]   json = {\n"
      "    \"train_micro_batch_size_per_gpu\": 2, \n"
      "    \"gradient_accumulation_steps\": 4, \n"
      "    \"bf16\": {\n"
      "        \"enabled\": true\n"
      "    }, \n"
      "    \"zero_optimization\": {\n"
      "        \"stage\": 3\n"
      "    }\n"
      "}\n"
      "[2024-01-01 10:00:01,000] [INFO] something else }\n");
  CHECK(all.target == Target::kDeepspeed);
  CHECK(all.gpus == 8);
  RunContext context;
  context.gpus = all.gpus;
  const Result<SettingsRun> run = read_deepspeed_run(all.files, context);
  if (!run.ok()) FAIL(to_text(run.errors()));
  CHECK(run->strategy.zero == 3);
  CHECK(run->strategy.micro_batch == 2);
  CHECK(run->strategy.global_batch == 64);
  CHECK_FALSE(run->knows_model);
}

TEST_CASE("torchtitan's printed configuration, as JSON and as Python writes it") {
  for (const char* text :
       {"[rank0]:[titan] - root - INFO - Running with configs: {\n"
        "[rank0]:  \"model\": {\"name\": \"llama3\", \"flavor\": \"8B\", \"tokenizer_path\": "
        "null},\n"
        "[rank0]:  \"training\": {\"local_batch_size\": 2, \"seq_len\": 8192,\n"
        "[rank0]:    \"mixed_precision_param\": \"bfloat16\", \"compile\": true},\n"
        "[rank0]:  \"parallelism\": {\"tensor_parallel_degree\": 2}\n"
        "[rank0]:}\n",
        "[titan] - root - INFO - Running with args: {'model': {'name': 'llama3', 'flavor': '8B', "
        "'tokenizer_path': None}, 'training': {'local_batch_size': 2, 'seq_len': 8192, 'compile': "
        "True}, 'parallelism': {'tensor_parallel_degree': 2}}\n"}) {
    const PrintedArguments all = printed(text);
    CHECK(all.target == Target::kTorchtitan);
    RunContext context;
    context.gpus = 8;
    const Result<SettingsRun> run = read_torchtitan_run(all.files, context);
    if (!run.ok()) FAIL(to_text(run.errors()));
    CHECK(run->model.hidden_size == 4096);
    CHECK(run->strategy.tp == 2);
    CHECK(run->strategy.seq_len == 8192);
    CHECK(run->strategy.micro_batch == 2);
  }
}

TEST_CASE("NeMo 1 prints its configuration as YAML") {
  const PrintedArguments all = printed(
      "[NeMo I 2023-08-23 14:21:35 megatron_gpt_pretraining:34] \n"
      "    \n"
      "    ************** Experiment configuration ***********\n"
      "[NeMo I 2023-08-23 14:21:35 megatron_gpt_pretraining:35] \n"
      "    trainer:\n"
      "      devices: 8\n"
      "      num_nodes: 2\n"
      "      precision: bf16\n"
      "    model:\n"
      "      micro_batch_size: 4\n"
      "      global_batch_size: 256\n"
      "      tensor_model_parallel_size: 4\n"
      "      pipeline_model_parallel_size: 1\n"
      "      virtual_pipeline_model_parallel_size: null\n"
      "      encoder_seq_length: 4096\n"
      "      max_position_embeddings: 4096\n"
      "      num_layers: 32\n"
      "      hidden_size: 4096\n"
      "      ffn_hidden_size: 11008\n"
      "      num_attention_heads: 32\n"
      "      hidden_dropout: 0.0\n"
      "      normalization: rmsnorm\n"
      "      bias: false\n"
      "      activation: fast-swiglu\n"
      "      position_embedding_type: rope\n"
      "      share_embeddings_and_output_weights: false\n"
      "      sequence_parallel: true\n"
      "      optim:\n"
      "        name: distributed_fused_adam\n"
      "        overlap_grad_sync: true\n"
      "[NeMo I 2023-08-23 14:21:36 exp_manager:1] Experiments will be logged\n");
  CHECK(all.gpus == 16);
  CHECK(all.program == "NeMo");
  const MegatronRun run = megatron(all);
  CHECK(run.model.gated_mlp);
  CHECK(run.model.norm == Norm::kRmsNorm);
  CHECK(run.model.ffn_hidden_size == 11008);
  CHECK(run.strategy.seq_len == 4096);
  CHECK(run.strategy.dp == 4);
  CHECK(run.strategy.zero == 1);
  CHECK(run.strategy.overlap.grad_reduce);
}

TEST_CASE("a log without printed arguments, or with the beginning of them") {
  CHECK_FALSE(
      printed_arguments("iteration 1/2 | elapsed time per iteration (ms): 10 |\n", "x").value());
  CHECK_FALSE(printed_arguments("---- arguments ----\n  hidden_size ..... 1\n", "x").value());
  CHECK_FALSE(printed_arguments("[INFO]   json = {\n  \"a\": {\n", "x").value());
  CHECK_FALSE(printed_arguments("Running with args: {'a': [", "x").value());
  CHECK_FALSE(printed_arguments("**** Experiment configuration ****\n", "x").value());
}

}  // namespace
}  // namespace meshplan
