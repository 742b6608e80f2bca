// Recipes of axolotl, LLaMA-Factory and torchtune, written as these projects' examples are.
#include <algorithm>

#include "launch/detect.hpp"
#include "recipe_reading.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

constexpr std::string_view kAxolotl = R"(base_model: meta-llama/Llama-3.1-8B
load_in_4bit: true
datasets:
  - path: data/train.jsonl
    type: alpaca
val_set_size: 0.05
output_dir: ./out
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
lora_target_modules: [q_proj, k_proj, v_proj]
sequence_len: 4096
sample_packing: true
gradient_accumulation_steps: 4
micro_batch_size: 2
optimizer: paged_adamw_8bit
learning_rate: 0.0002
bf16: auto
gradient_checkpointing: true
flash_attention: true
wandb_project:
liger_rope: true
)";

constexpr std::string_view kLlamaFactory = R"(model_name_or_path: meta-llama/Meta-Llama-3.1-70B
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all
deepspeed: examples/deepspeed/ds_z3_config.json
dataset: identity
template: llama3
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
bf16: true
plot_loss: true
)";

constexpr std::string_view kTorchtune = R"(output_dir: /tmp/torchtune/out
model:
  _component_: torchtune.models.llama3_1.qlora_llama3_1_8b
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  apply_lora_to_output: False
  lora_rank: 16
  lora_alpha: 32
  lora_dropout: 0.0
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 4096
dataset:
  _component_: torchtune.datasets.alpaca_cleaned_dataset
  packed: True
batch_size: 2
optimizer:
  _component_: bitsandbytes.optim.PagedAdamW8bit
  lr: 3e-4
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
gradient_accumulation_steps: 8
compile: True
dtype: bf16
enable_activation_checkpointing: True
enable_activation_offloading: False
profiler:
  enabled: False
)";

}  // namespace

TEST_CASE("an axolotl recipe of QLoRA") {
  const Result<SettingsRun> run = read(kAxolotl, {.gpus = 4});
  if (!run) FAIL(to_text(run.errors()));
  const Strategy& s = run->strategy;
  CHECK(run->model.name == "llama-3.1-8b");
  CHECK(s.framework == Framework::kFsdp);
  CHECK(s.zero == 0);
  CHECK(s.lora.rank == 32);
  CHECK(s.lora.dropout == 0.05);
  CHECK(s.lora.targets == LoraTargets{LoraTarget::kQ, LoraTarget::kK, LoraTarget::kV});
  CHECK(s.lora.frozen_dtype == FrozenDtype::kNf4);
  CHECK(s.seq_len == 4096);
  CHECK(s.micro_batch == 2);
  CHECK(s.dp == 4);
  CHECK(s.global_batch == 2 * 4 * 4);
  CHECK(s.precision == Precision::kBf16);
  CHECK(s.recompute == Recompute::kFull);
  CHECK(is_about(*run, "liger_rope", OptionEffect::kModelled));
  CHECK(s.runtime.fused_rope);
  CHECK_FALSE(s.runtime.fused_norm);
  CHECK_FALSE(s.runtime.fused_linear_cross_entropy);
  CHECK_FALSE(s.runtime.host_checkpoints);
  CHECK(is_about(*run, "learning_rate", OptionEffect::kNoEffect));
  CHECK(is_about(*run, "lora_r", OptionEffect::kModelled));
  const auto says = [&](std::string_view words) {
    return std::any_of(run->notes.begin(), run->notes.end(), [&](const std::string& note) {
      return note.find(words) != std::string::npos;
    });
  };
  CHECK(s.optimizer == Optimizer::kPagedAdam8bit);
  CHECK(says("with --lengths documents count as long as they are, packing=pack"));
}

TEST_CASE("a LLaMA-Factory recipe of LoRA with ZeRO-3") {
  const Result<SettingsRun> run = read(kLlamaFactory, {.gpus = 8});
  if (!run) FAIL(to_text(run.errors()));
  const Strategy& s = run->strategy;
  CHECK(run->model.name == "llama-3.1-70b");
  CHECK(s.framework == Framework::kDeepspeed);
  CHECK(s.zero == 3);
  CHECK(s.lora.rank == 8);
  CHECK(s.lora.targets == lora_targets("all-linear"));
  CHECK(s.lora.frozen_dtype == FrozenDtype::kTraining);
  CHECK(s.recompute == Recompute::kFull);  // checkpointing is on unless it is disabled
  CHECK(!s.runtime.recompute_early_stop);  // its checkpoints are reentrant unless told
  CHECK(s.global_batch == 16);
  REQUIRE(run->assumed.size() == 1);
  CHECK(run->assumed.front().source == "the name examples/deepspeed/ds_z3_config.json");
}

TEST_CASE("a recipe is told from its text") {
  const NamedText one = file(kAxolotl), other = file(kLlamaFactory);
  CHECK(*detect_target({&one, 1}, {}) == Target::kAccelerate);
  CHECK(*detect_target({&other, 1}, {}) == Target::kAccelerate);
}

TEST_CASE("LLaMA-Factory freezes the encoder of a vision-language model unless told") {
  const std::string text =
      "model_name_or_path: google/gemma-3-4b-it\nstage: sft\nfinetuning_type: full\n"
      "deepspeed: ds_z3_config.json\ncutoff_len: 2048\nper_device_train_batch_size: 1\n"
      "bf16: true\n";
  const auto frozen = [&](const std::string& more) {
    const Result<SettingsRun> run = read(text + more, {.gpus = 8});
    if (!run) FAIL(to_text(run.errors()));
    return run->strategy.frozen;
  };
  CHECK(frozen({}) == FrozenParts{FrozenPart::kVisionModel, FrozenPart::kVisionProjection});
  CHECK(frozen("freeze_vision_tower: false\nfreeze_multi_modal_projector: false\n").empty());
  CHECK(frozen("freeze_language_model: true\nfreeze_multi_modal_projector: false\n") ==
        FrozenParts{FrozenPart::kVisionModel, FrozenPart::kLanguageModel});
  const Result<SettingsRun> told = read(text, {.gpus = 8});
  CHECK(std::any_of(told->assumed.begin(), told->assumed.end(),
                    [](const auto& a) { return a.source == "LLaMA-Factory's default"; }));
  // A model without an encoder has nothing of the kind.
  CHECK(read(kLlamaFactory, {.gpus = 8})->strategy.frozen.empty());
}

TEST_CASE("what recipes cannot be") {
  std::string text(kAxolotl);
  CHECK(errors_of(text + "lora_rr: 8\n").find("'lora_rr' is not known") != std::string::npos);
  CHECK(errors_of(text + "rl: kto\n").find("'kto' trains on preferences") != std::string::npos);
  text.replace(text.find("meta-llama/Llama-3.1-8B"), 23, "someone/Some-Model-7B");
  CHECK(errors_of(text).find("the sizes of 'someone/Some-Model-7B' are not known here") !=
        std::string::npos);
  std::string factory(kLlamaFactory);
  factory.replace(factory.find("finetuning_type: lora"), 21, "finetuning_type: oft");
  CHECK(errors_of(factory).find("'oft' is neither adapters of low rank nor all weights") !=
        std::string::npos);
  RunContext lenient;
  lenient.lenient = true;
  const Result<SettingsRun> run = read(std::string(kAxolotl) + "lora_rr: 8\n", lenient);
  REQUIRE(run);
  CHECK(run->unknown == std::vector<std::string>{"lora_rr"});
}

TEST_CASE("preferences by DPO: a recipe's batch counts pairs") {
  const std::string text =
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 2\nbf16: true\n";
  const Result<SettingsRun> plain = read(text, {.gpus = 1});
  const Result<SettingsRun> pairs = read(text + "rl: dpo\nrl_beta: 0.1\n", {.gpus = 1});
  if (!plain) FAIL(to_text(plain.errors()));
  if (!pairs) FAIL(to_text(pairs.errors()));
  CHECK(plain->strategy.loss == Loss::kLm);
  CHECK(pairs->strategy.loss == Loss::kDpo);
  CHECK(pairs->strategy.micro_batch == 2 * plain->strategy.micro_batch);
  CHECK(pairs->strategy.global_batch == 2 * plain->strategy.global_batch);
}

TEST_CASE("optimizers by the names that Transformers gives them") {
  const std::string text =
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: true\n";
  const auto optimizer = [&](const std::string& name) {
    const Result<SettingsRun> run = read(text + "optimizer: " + name + "\n", {.gpus = 1});
    if (!run) FAIL(to_text(run.errors()));
    return run->strategy.optimizer;
  };
  CHECK(optimizer("adamw_torch_fused") == Optimizer::kAdam);
  CHECK(optimizer("adamw_8bit") == Optimizer::kAdam8bit);
  CHECK(optimizer("adamw_bnb_8bit") == Optimizer::kAdam8bit);
  CHECK(optimizer("paged_adamw_32bit") == Optimizer::kPagedAdam);
  CHECK(optimizer("adafactor") == Optimizer::kAdafactor);
  CHECK(optimizer("muon") == Optimizer::kMuon);
  // One that is not known is said to be counted as Adam.
  const Result<SettingsRun> other = read(text + "optimizer: lion_8bit\n", {.gpus = 1});
  REQUIRE(other);
  CHECK(std::any_of(other->notes.begin(), other->notes.end(), [](const std::string& note) {
    return note.find("lion_8bit is counted as Adam") != std::string::npos;
  }));
}

TEST_CASE("a torchtune recipe of QLoRA") {
  const Result<SettingsRun> run = read(kTorchtune);
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->model.name == "llama-3.1-8b");
  const Strategy& s = run->strategy;
  CHECK(s.dp == 1);
  CHECK(s.lora.rank == 16);
  CHECK(s.lora.frozen_dtype == FrozenDtype::kNf4);
  LoraTargets targets;
  for (const char* name : {"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}) {
    targets.insert(lora_targets(name));
  }
  CHECK(s.lora.targets == targets);
  CHECK(s.micro_batch == 2);
  CHECK(s.global_batch == 16);
  CHECK(s.seq_len == 4096);
  CHECK(s.packing == Packing::kPack);
  CHECK(s.optimizer == Optimizer::kPagedAdam8bit);
  CHECK(s.recompute == Recompute::kFull);
  CHECK_FALSE(s.offload.activations);
  CHECK(is_about(*run, "compile", OptionEffect::kModelled));
  CHECK(is_about(*run, "optimizer.lr", OptionEffect::kNoEffect));
  CHECK(is_about(*run, "model.lora_rank", OptionEffect::kModelled));
  CHECK(run->unknown.empty());
}

TEST_CASE("weights, gradients and states of a full torchtune recipe are of its dtype") {
  std::string text(kTorchtune);
  text.replace(text.find("qlora_"), 6, "");
  text.replace(text.find("bitsandbytes.optim.PagedAdamW8bit"), 33, "torch.optim.AdamW");
  for (const char* key : {"lora_attn", "apply_lora_to_mlp", "apply_lora_to_output", "lora_rank",
                          "lora_alpha", "lora_dropout"}) {
    const std::size_t begin = text.rfind('\n', text.find(key));
    text.erase(begin, text.find('\n', begin + 1) - begin);
  }
  const Result<SettingsRun> run = read(text, {.gpus = 8, .seq_len = 512});
  if (!run) FAIL(to_text(run.errors()));
  const Strategy& s = run->strategy;
  CHECK(s.dp == 8);
  CHECK(s.zero == 3);
  CHECK(s.lora.rank == 0);
  CHECK(s.precision == Precision::kBf16);
  CHECK_FALSE(s.master_weights);
  CHECK(s.optimizer_dtype == Dtype::kBf16);
  CHECK(s.seq_len == 512);
}

TEST_CASE("torchtune recipes of other tasks are named") {
  const auto with = [](std::string line) {
    return errors_of(std::string(kTorchtune) + line + "\n");
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(with("reward_functions: []"), Contains("learns from rewards"));
  CHECK_THAT(with("teacher_model: {_component_: x}"), Contains("second model's outputs"));
  CHECK_THAT(with("enable_kv_cache: True"), Contains("runs inference"));
  CHECK_THAT(with("gradient_accumulation: 3"), Contains("'gradient_accumulation' is not known"));
  std::string vision(kTorchtune);
  vision.replace(vision.find("llama3_1.qlora_llama3_1_8b"), 26,
                 "llama3_2_vision.lora_llama3_2_vision_11b");
  CHECK_THAT(errors_of(vision), Contains("images and text"));
}
