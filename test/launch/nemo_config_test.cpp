// NeMo 1's configurations as argument lists.
#include "launch/nemo_config.hpp"

#include "launch/detect.hpp"
#include "launch/megatron_import.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;

namespace {

constexpr std::string_view kConfiguration = R"(defaults:
  - _self_
  - optional tp_overlap@model.ub_tp_comm_overlap_cfg:
trainer:
  num_nodes: 4
  devices: 8
  precision: bf16
  max_steps: 100
model:
  mcore_gpt: true
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 4
  virtual_pipeline_model_parallel_size: 2
  encoder_seq_length: ${oc.env:LENGTH,4096}
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 16
  hidden_size: 2048
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 16
  num_query_groups: 4
  hidden_dropout: 0.0
  attention_dropout: 0.0
  normalization: rmsnorm
  activation: fast-swiglu
  bias: false
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  sequence_parallel: true
  transformer_engine: true
  megatron_amp_O2: true
  fsdp: false
  activations_checkpoint_granularity: full
  activations_checkpoint_method: uniform
  activations_checkpoint_num_layers: 1
  fp8: true
  fp8_hybrid: true
  onnx_safe: false
  native_amp_init_scale: 4294967296
  tokenizer:
    library: huggingface
    type: meta-llama/Llama-2-7b-hf
  data:
    data_prefix: [1.0, "${data_dir}/text"]
  optim:
    name: mcore_distributed_optim
    overlap_grad_sync: true
    overlap_param_sync: true
    grad_sync_dtype: bf16
    lr: 1e-4
    sched: {name: CosineAnnealing}
)";

std::string nemo_with(std::string_view old, std::string_view replacement) {
  std::string text(kConfiguration);
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), replacement);
}

Result<MegatronRun> read_nemo(const std::string& text,
                              std::map<std::string, std::string> variables = {}) {
  RunContext context;
  context.shell.variables = std::move(variables);
  Result<NemoArguments> read = nemo_arguments({"gpt.yaml", text}, context.shell);
  if (!read) return read.errors();
  context.gpus = read->gpus;
  return read_megatron_run(read->options.text, "gpt.yaml", context);
}

std::string nemo_errors(const std::string& text) {
  const Result<MegatronRun> run = read_nemo(text);
  return run ? "" : to_text(run.errors());
}

TEST_CASE("NeMo 1's configuration is a run of Megatron-Core") {
  REQUIRE(is_nemo(kConfiguration));
  const NamedText file{"gpt.yaml", std::string(kConfiguration)};
  CHECK(detect_target(std::span(&file, 1), {}).value() == Target::kMegatron);
  const Result<MegatronRun> run = read_nemo(std::string(kConfiguration));
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->model.hidden_size == 2048);
  CHECK(run->model.ffn_hidden_size == 8192);
  CHECK(run->model.gated_mlp);
  CHECK(run->model.vocab_size == 32000);
  CHECK_FALSE(run->model.tied_embeddings);
  CHECK_FALSE(run->model.linear_bias);
  const Strategy& s = run->strategy;
  CHECK(s.dp == 4);  // 32 GPUs: 4 nodes of 8
  CHECK(s.tp == 2);
  CHECK(s.pp == 4);
  CHECK(s.vp == 2);
  CHECK(s.seq_len == 4096);
  CHECK(s.zero == 1);
  CHECK(s.sequence_parallel);
  CHECK(s.overlap.grad_reduce);
  CHECK(s.grad_dtype == Dtype::kBf16);
  CHECK(s.precision == Precision::kFp8);
  CHECK(s.recompute == Recompute::kFull);
  const Result<MegatronRun> longer = read_nemo(std::string(kConfiguration), {{"LENGTH", "8192"}});
  REQUIRE(longer.ok());
  CHECK(longer->strategy.seq_len == 8192);
}

TEST_CASE("a configuration of NeMo 1 acts only where its switch is on") {
  const Result<MegatronRun> run = read_nemo(nemo_with("fp8: true", "fp8: false"));
  REQUIRE(run.ok());
  CHECK(run->strategy.precision == Precision::kBf16);
  const std::string ends =
      "\n  fp8_recipe: tensorwise\n  first_last_layers_bf16: true\n"
      "  num_layers_at_end_in_bf16: 2";
  const Result<MegatronRun> low = read_nemo(nemo_with("fp8: true", "fp8: true" + ends));
  REQUIRE(low.ok());
  CHECK(low->strategy.runtime.fp8_recipe == ScalingRecipe::kTensorwise);
  CHECK(low->strategy.runtime.num_layers_at_start_in_bf16 == 1);
  CHECK(low->strategy.runtime.num_layers_at_end_in_bf16 == 2);
  const Result<MegatronRun> wide = read_nemo(nemo_with("fp8: true", "fp8: false" + ends));
  REQUIRE(wide.ok());
  CHECK(wide->strategy.runtime.num_layers_at_end_in_bf16 == 0);
  const Result<MegatronRun> kept = read_nemo(nemo_with("granularity: full", "granularity: null"));
  REQUIRE(kept.ok());
  CHECK(kept->strategy.recompute == Recompute::kNone);
  const auto offload = [](const std::string& on) {
    const Result<MegatronRun> read = read_nemo(nemo_with(
        "  onnx_safe: false\n", "  cpu_offloading: " + on + "\n  cpu_offloading_num_layers: 5\n"));
    INFO((read.ok() ? "" : to_text(read.errors())));
    REQUIRE(read.ok());
    return read->strategy.offload;
  };
  CHECK(offload("true").activations);
  CHECK(offload("true").activation_layers == 5);
  CHECK_FALSE(offload("false").activations);
  // Without Transformer Engine, which is not NeMo's default, kernels are Megatron-Core's own.
  const Result<MegatronRun> local =
      read_nemo(nemo_with("  transformer_engine: true\n", "  # as is\n"));
  if (!local) {
    CHECK_THAT(to_text(local.errors()), Contains("transformer-impl") || Contains("fp8"));
  }
}

TEST_CASE("what a configuration of NeMo 1 asks for and no argument says is refused by name") {
  CHECK_THAT(nemo_errors(nemo_with("fsdp: false", "fsdp: true")), Contains("FSDP"));
  CHECK_THAT(nemo_errors(nemo_with("amp_O2: true", "amp_O2: false")), Contains("autocast"));
  CHECK_THAT(nemo_errors(nemo_with("  onnx_safe: false", "  mm_cfg: {llm: null}")),
             Contains("vision"));
  CHECK_THAT(nemo_errors(nemo_with("  onnx_safe: false", "  bert_binary_head: true")),
             Contains("BERT"));
  CHECK_THAT(nemo_errors(nemo_with("  onnx_safe: false", "  encoder: {arch: transformer}")),
             Contains("T5"));
  CHECK_THAT(nemo_errors(nemo_with("fast-swiglu", "fast-geglu")), Contains("fast-geglu"));
  CHECK_THAT(nemo_errors(nemo_with("name: mcore_distributed_optim", "name: distributed_lion")),
             Contains("distributed_lion"));
  CHECK_THAT(nemo_errors(nemo_with("precision: bf16", "precision: 64")), Contains("64"));
  CHECK_THAT(nemo_errors(nemo_with("devices: 8", "devices: -1")), Contains("devices"));
  CHECK_THAT(nemo_errors(nemo_with("  - _self_", "  - gpt3/base")), Contains("gpt3/base"));
  CHECK_THAT(nemo_errors(nemo_with("trainer:", "restore_from_path: a.nemo\ntrainer:")),
             Contains("checkpoint"));
  CHECK_THAT(nemo_errors(nemo_with("${multiply:4, ${.hidden_size}}", "${ffn}")),
             Contains("gpt.yaml:20") && Contains("--set ffn=VALUE"));
  CHECK_THAT(nemo_errors(nemo_with("  onnx_safe: false", "  onnx_save: 7")),
             Contains("onnx_save") || Contains("onnx-save"));
  CHECK_THAT(nemo_errors(nemo_with("  num_layers: 16\n", "")), Contains("num_layers"));
}

TEST_CASE("references of a configuration that name each other end") {
  CHECK_FALSE(read_nemo(nemo_with("hidden_size: 2048", "hidden_size: ${.ffn_hidden_size}")).ok());
}

}  // namespace
