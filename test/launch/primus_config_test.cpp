// AMD Primus's experiments as argument lists.
#include "launch/primus_config.hpp"

#include <algorithm>
#include <map>

#include "launch/detect.hpp"
#include "launch/megatron_import.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;

namespace {

constexpr std::string_view kExperiment = R"(exp_name: test
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: ${MODEL:tiny}.yaml
    overrides:
      stderr_sink_level: DEBUG
      micro_batch_size: 2
      global_batch_size: 64
      seq_length: ${SEQ:2048}
      tensor_model_parallel_size: ${TP:1}
      pipeline_model_parallel_size: 2
      lr_decay_iters: null
      enable_primus_turbo: true
      use_turbo_deepep: true
)";

const std::map<std::string, std::string> kCheckout{
    {"../../primus/configs/modules/megatron/pre_trainer.yaml",
     "extends: [trainer_base.yaml]\nuse_distributed_optimizer: true\nseq_length: 1024\n"},
    {"../../primus/configs/modules/megatron/trainer_base.yaml",
     "extends: [../module_base.yaml]\nbf16: true\nuse_distributed_optimizer: false\n"
     "enable_primus_turbo: false\nsome_default: 7\n"},
    {"../../primus/configs/models/megatron/tiny.yaml",
     "extends:\n  - language_model.yaml\nnum_layers: 8\nhidden_size: 1024\nnum_attention_heads: "
     "16\n"
     "ffn_hidden_size: 4096\nnum_experts: 8\nmoe_router_topk: 2\nexpert_model_parallel_size: 4\n"},
    {"../../primus/configs/models/megatron/language_model.yaml",
     "num_layers: 24\nhidden_size: 512\nswiglu: true\nadd_bias_linear: false\nvocab_size: 32000\n"
     "untie_embeddings_and_output_weights: true\nposition_embedding_type: rope\n"
     "moe_token_dispatcher_type: allgather\nmodel_type: gpt\nanother_default: true\n"}};

ShellInputs shell(std::map<std::string, std::string> variables = {},
                  const std::map<std::string, std::string>& files = kCheckout) {
  ShellInputs inputs;
  inputs.variables = std::move(variables);
  inputs.read_file = [files](const std::string& name) -> std::optional<std::string> {
    const auto found = files.find(name);
    return found != files.end() ? std::optional(found->second) : std::nullopt;
  };
  return inputs;
}

Result<MegatronRun> read_experiment(std::string text, const ShellInputs& inputs = shell()) {
  const Result<NamedText> list = primus_arguments({"job.yaml", std::move(text)}, inputs);
  if (!list) return list.errors();
  return read_megatron_run(list->text, list->name, {.gpus = 16});
}

std::string errors_of(std::string text, const ShellInputs& inputs = shell()) {
  const Result<MegatronRun> run = read_experiment(std::move(text), inputs);
  return run ? "none" : to_text(run.errors());
}

std::string with(std::string_view line) {
  return std::string(kExperiment) + "      " + std::string(line) + "\n";
}

}  // namespace

TEST_CASE("an experiment of Primus is the run that its files, one above the other, describe") {
  const std::string text(kExperiment);
  CHECK(is_primus(text));
  const std::vector<NamedText> files{{"job.yaml", text}};
  CHECK(detect_target(files, {}).value() == Target::kMegatron);
  const Result<MegatronRun> run = read_experiment(text);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->model.num_layers == 8);  // the model's, not what it extends
  CHECK(run->model.hidden_size == 1024);
  CHECK(run->model.gated_mlp);          // of what it extends
  CHECK_FALSE(run->model.linear_bias);  // a switch that is off is another option
  REQUIRE(run->model.moe);
  CHECK(run->model.moe->num_experts == 8);
  CHECK(run->strategy.seq_len == 2048);  // overrides
  CHECK(run->strategy.micro_batch == 2);
  CHECK(run->strategy.tp == 1);
  CHECK(run->strategy.pp == 2);
  CHECK(run->strategy.ep == 4);
  CHECK(run->strategy.zero == 1);
  CHECK(run->strategy.runtime.flex_dispatcher);  // Primus-Turbo's DeepEP
  // What only the defaults have is not reported, what the experiment states is.
  const auto read = [&](std::string_view name) {
    return std::any_of(run->options.begin(), run->options.end(),
                       [&](const ReadOption& option) { return option.name == name; });
  };
  CHECK(read("--stderr-sink-level"));
  CHECK_FALSE(read("--some-default"));
}

TEST_CASE(
    "hybrids of Primus have an MLP behind every mixer, and attention in the share asked for") {
  const auto layers = [](const std::string& lines, const std::string& spec) {
    auto files = kCheckout;
    files["../../primus/configs/models/megatron/tiny.yaml"] =
        "extends:\n  - language_model.yaml\nbases:\n  - nothing.yaml\nmodel_type: mamba\n"
        "hidden_size: 1024\nnum_attention_heads: 16\nffn_hidden_size: 4096\n" +
        lines;
    const std::string text =
        "modules:\n  pre_trainer:\n    framework: megatron\n    model: tiny.yaml\n"
        "    overrides:\n      micro_batch_size: 1\n      global_batch_size: 64\n"
        "      seq_length: 2048\n      bf16: true\n      spec: ['a', '" +
        spec + "']\n";
    const Result<MegatronRun> run = read_experiment(text, shell({}, files));
    INFO((run.ok() ? "" : to_text(run.errors())));
    REQUIRE(run.ok());
    std::string found;
    for (std::int64_t i = 0; i < run->model.num_layers; ++i) {
      const LayerSpec layer = layer_spec(run->model, i);
      if (std::holds_alternative<Mamba2Spec>(layer.mixer)) found += 'M';
      if (std::holds_alternative<GatedDeltaNetSpec>(layer.mixer)) found += 'G';
      if (std::holds_alternative<AttentionSpec>(layer.mixer)) found += '*';
      if (std::holds_alternative<DenseMlpSpec>(layer.feed_forward)) found += '-';
    }
    return found;
  };
  // hybrid_block.py, allocate_layers: blocks of attention and the mixers between.
  CHECK(layers("num_layers: 16\nhybrid_attention_ratio: 0.25\n", "hybrid_stack_spec") ==
        "*-M-M-M-*-M-M-M-");
  CHECK(layers("num_layers: 10\nhybrid_attention_ratio: 0.4\n", "hybrid_stack_spec") ==
        "*-M-*-M-M-");
  CHECK(layers("num_layers: 8\nhybrid_attention_ratio: 0.75\n", "hybrid_stack_spec") == "*-*-*-M-");
  CHECK(layers("num_layers: 4\n", "gdn_hybrid_stack_spec") == "G-G-");
  CHECK(layers("num_layers: 4\nhybrid_override_pattern: '*-M-'\n", "gdn_hybrid_stack_spec_no_te") ==
        "*-G-");
  CHECK(layers("num_layers: 3\n", "mamba_stack_spec") == "MMM");  // Megatron-LM's own
}

TEST_CASE("a share of attention that is none is refused") {
  CHECK_THAT(errors_of(with("model_type: mamba") + "      hybrid_attention_ratio: much\n"
                                                   "      spec: ['a', 'hybrid_stack_spec']\n"),
             Contains("a share between 0 and 1, got much"));
}

TEST_CASE("hybrids of Primus with Kimi Delta Attention are refused by name") {
  CHECK_THAT(errors_of(with("model_type: mamba") + "      spec: ['a', 'kda_hybrid_stack_spec']\n"),
             Contains("Kimi Delta Attention has no letter"));
}

TEST_CASE("variables of an experiment take what is stated, or their default") {
  const Result<MegatronRun> run =
      read_experiment(std::string(kExperiment), shell({{"TP", "4"}, {"SEQ", "4096"}}));
  REQUIRE(run.ok());
  CHECK(run->strategy.tp == 4);
  CHECK(run->strategy.seq_len == 4096);
  CHECK_THAT(errors_of(with("num_workers: ${WORKERS}")),
             Contains("nothing says what ${WORKERS} is") && Contains("--set WORKERS=VALUE"));
}

TEST_CASE("a list of layers per stage is a layout") {
  const Result<MegatronRun> run =
      read_experiment(with("decoder_pipeline_manual_split_list: [3, 5]"));
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->strategy.stage_layers == std::vector<std::int64_t>{3, 5});
  CHECK_THAT(errors_of(with("decoder_pipeline_manual_split_list: [2, 2, 2, 2]")),
             Contains("job.yaml:17") && Contains("4 numbers is no stage for each rank"));
}

TEST_CASE("what an experiment says and nobody understands is refused in its line") {
  CHECK_THAT(
      errors_of(with("tensor_model_parallel_siez: 2")),
      Contains("job.yaml:17") && Contains("there is no option --tensor-model-parallel-siez"));
  CHECK_THAT(errors_of(with("patch_zero_bubble: true")),
             Contains("job.yaml:17") && Contains("schedules of Primus's own"));
  CHECK_THAT(errors_of(with("model_type: kimi_k3")), Contains("models of type 'kimi_k3'"));
  std::string titan(kExperiment);
  titan.replace(titan.find("megatron"), 8, "torchtitan");
  CHECK_THAT(errors_of(titan), Contains("job.yaml:4") && Contains("'torchtitan' is not read"));
  CHECK_THAT(errors_of(std::string(kExperiment), shell({{"MODEL", "other"}})),
             Contains("job.yaml:6") && Contains("megatron/other.yaml' is not found"));
  std::string images(kExperiment);
  images.insert(images.find("    overrides"), "    trainer_class: FluxPretrainTrainer\n");
  CHECK_THAT(errors_of(images), Contains("job.yaml:7") && Contains("'FluxPretrainTrainer'"));
  auto files = kCheckout;
  files["../../primus/configs/models/megatron/tiny.yaml"] = "extends: [tiny.yaml]\nnum_layers: 8\n";
  CHECK_THAT(errors_of(std::string(kExperiment), shell({}, files)), Contains("is not found"));
  CHECK_THAT(errors_of("modules: [\n"), Contains("error"));
  CHECK(errors_of("modules:\n  pre_trainer: {config: a}\n") != "none");
}
