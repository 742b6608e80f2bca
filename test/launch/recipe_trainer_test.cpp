// Scripts of TRL and of Transformers' trainer, with the YAML and JSON that belong to them.
#include <algorithm>
#include <array>

#include "recipe_reading.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

constexpr std::string_view kTrainer = R"(#!/bin/bash
accelerate launch --config_file zero2.yaml trl/scripts/sft.py \
    --model_name_or_path meta-llama/Llama-3.1-8B \
    --dataset_name trl-lib/Capybara \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --max_length 4096 --packing --learning_rate 2.0e-4 \
    --use_peft --lora_r 32 --lora_target_modules all-linear --load_in_4bit \
    --optim paged_adamw_8bit --output_dir out
)";

constexpr std::string_view kAccelerate = R"(compute_environment: LOCAL_MACHINE
deepspeed_config:
  offload_optimizer_device: none
  zero_stage: 2
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 8
)";

Result<SettingsRun> read_pair(std::string_view script, std::string_view config,
                              const RunContext& context = {}) {
  const std::array<NamedText, 2> files{NamedText{"config.yaml", std::string(config)},
                                       NamedText{"train.sh", std::string(script)}};
  return read_recipe_run(files, context);
}

}  // namespace

TEST_CASE("a script of TRL with accelerate's configuration") {
  const Result<SettingsRun> run = read_pair(kTrainer, kAccelerate);
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->model.name == "llama-3.1-8b");
  const Strategy& s = run->strategy;
  CHECK(s.framework == Framework::kDeepspeed);
  CHECK(s.zero == 2);
  CHECK(s.dp == 8);
  CHECK(s.global_batch == 2 * 8 * 8);
  CHECK(s.seq_len == 4096);
  CHECK(s.packing == Packing::kPack);
  CHECK(s.precision == Precision::kBf16);
  CHECK(s.recompute == Recompute::kFull);  // TRL's default
  CHECK(s.runtime.recompute_early_stop);   // likewise
  CHECK(s.lora.rank == 32);
  CHECK(s.lora.frozen_dtype == FrozenDtype::kNf4);
  CHECK(s.lora.targets == lora_targets("all-linear"));
  CHECK(s.optimizer == Optimizer::kPagedAdam8bit);
  CHECK(is_about(*run, "learning_rate", OptionEffect::kNoEffect));
  CHECK(is_about(*run, "deepspeed_config.zero_stage", OptionEffect::kModelled));
}

TEST_CASE("what accelerate's --config_file names is read beside the script") {
  RunContext context;
  context.shell.read_file = [](const std::string& name) -> std::optional<std::string> {
    if (name != "zero2.yaml") return std::nullopt;
    return std::string(kAccelerate);
  };
  const Result<SettingsRun> run = read(kTrainer, context);
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->strategy.zero == 2);
  CHECK(run->strategy.dp == 8);
  // Without it, its name is in the notes.
  const Result<SettingsRun> alone = read(kTrainer, {.gpus = 4});
  REQUIRE(alone);
  CHECK(alone->strategy.dp == 4);
  CHECK(std::any_of(alone->notes.begin(), alone->notes.end(), [](const std::string& note) {
    return note.find("zero2.yaml is not here") != std::string::npos;
  }));
}

TEST_CASE("FSDP of accelerate shards as its strategy says") {
  const auto zero_of = [](std::string lines) {
    const Result<SettingsRun> run = read_pair(
        kTrainer,
        "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\nfsdp_config:\n" + lines);
    if (!run) FAIL(to_text(run.errors()));
    CHECK(run->strategy.framework == Framework::kFsdp);
    return run->strategy.zero;
  };
  CHECK(zero_of("  fsdp_sharding_strategy: FULL_SHARD\n") == 3);
  CHECK(zero_of("  fsdp_sharding_strategy: SHARD_GRAD_OP\n") == 2);
  CHECK(zero_of("  fsdp_sharding_strategy: NO_SHARD\n") == 0);
  CHECK(zero_of("  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n") == 2);
}

TEST_CASE("pairs, weights in 16 bits and ranks of a trainer's script") {
  const Result<SettingsRun> run = read(
      "torchrun --nproc_per_node 4 dpo.py --model_name_or_path meta-llama/Llama-3.1-8B "
      "--per_device_train_batch_size 2 --dtype bfloat16 --no-gradient-checkpointing");
  if (!run) FAIL(to_text(run.errors()));
  const Strategy& s = run->strategy;
  CHECK(s.loss == Loss::kDpo);
  CHECK(s.micro_batch == 4);
  CHECK(s.dp == 4);
  CHECK(s.zero == 0);
  CHECK_FALSE(s.master_weights);
  CHECK(s.optimizer_dtype == Dtype::kBf16);
  CHECK(s.recompute == Recompute::kNone);
}

TEST_CASE("what a trainer's files leave open or say of other tasks is named") {
  using Catch::Matchers::Contains;
  const NamedText config{"fsdp.yaml", std::string(kAccelerate)};
  CHECK_THAT(to_text(read_recipe_run({&config, 1}, {}).errors()), Contains("name the script"));
  CHECK_THAT(errors_of("python grpo.py --model_name_or_path meta-llama/Llama-3.1-8B"),
             Contains("grpo.py"));
  CHECK_THAT(errors_of("python sft.py --model_name_or_path meta-llama/Llama-3.1-8B --max_lenght 5"),
             Contains("'max_lenght' is not known"));
  CHECK_THAT(errors_of("python sft.py --model_name_or_path me/mine-3b"),
             Contains("sizes of 'me/mine-3b'"));
  CHECK_THAT(
      errors_of("python sft.py --model_name_or_path meta-llama/Llama-3.1-8B --max_length $SEQ"),
      Contains("SEQ"));
  const Result<SettingsRun> odd = read_pair(kTrainer, "distributed_type: XLA\nnum_processes: 4\n");
  REQUIRE_FALSE(odd);
  CHECK_THAT(to_text(odd.errors()), Contains("'XLA' is not read here"));
}

TEST_CASE("a trainer's option of several values keeps them all") {
  const Result<SettingsRun> run = read(
      "torchrun --nproc_per_node 2 sft.py --model_name_or_path meta-llama/Llama-3.1-8B --use_peft "
      "--lora_target_modules q_proj k_proj --max_length 512");
  if (!run) FAIL(to_text(run.errors()));
  LoraTargets both = lora_targets("q_proj");
  both.insert(lora_targets("k_proj"));
  CHECK(run->strategy.lora.targets == both);
  CHECK(run->strategy.seq_len == 512);
}

TEST_CASE(
    "TRL is told by its program, not by the name of a data set; adapters need to be asked for") {
  const Result<SettingsRun> run = read(
      "torchrun --nproc_per_node 2 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B "
      "--dataset_name trl-lib/Capybara --block_size 512 --lora_r 8");
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->strategy.recompute == Recompute::kNone);
  CHECK(run->strategy.precision == Precision::kFp32);
  CHECK(run->strategy.lora.rank == 0);
  CHECK(std::any_of(run->notes.begin(), run->notes.end(), [](const std::string& note) {
    return note.find("--lora_r is without effect") != std::string::npos;
  }));
}

TEST_CASE("TRL's own command starts its scripts") {
  const Result<SettingsRun> run =
      read("trl dpo --model_name_or_path meta-llama/Llama-3.1-8B --max_length 512\n", {.gpus = 2});
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->strategy.loss == Loss::kDpo);
  CHECK(run->strategy.recompute == Recompute::kFull);
  CHECK(run->strategy.seq_len == 512);
  CHECK(errors_of("echo hello\n").find("no program is started") != std::string::npos);
}

TEST_CASE(
    "a trainer's weights go to the host with ZeRO-3 and its optimizer, or it is said that not") {
  const auto run_of = [](std::string_view config) {
    const Result<SettingsRun> run = read_pair(kTrainer, config);
    if (!run) FAIL(to_text(run.errors()));
    return *run;
  };
  const auto says_so = [](const SettingsRun& run) {
    return std::any_of(run.notes.begin(), run.notes.end(), [](const std::string& note) {
      return note.find("weights on the host (offload_param) without ZeRO-3") != std::string::npos;
    });
  };
  const auto config = [](const std::string& stage, const std::string& optimizer,
                         const std::string& weights) {
    return "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\n"
           "deepspeed_config:\n  zero_stage: " +
           stage + "\n  offload_optimizer_device: " + optimizer +
           "\n  offload_param_device: " + weights + "\n";
  };
  const SettingsRun both = run_of(config("3", "cpu", "cpu"));
  CHECK(both.strategy.offload.weights);
  CHECK(both.strategy.offload.optimizer);
  CHECK_FALSE(says_so(both));
  const SettingsRun neither = run_of(config("3", "cpu", "none"));
  CHECK_FALSE(neither.strategy.offload.weights);
  CHECK_FALSE(says_so(neither));
  for (const std::string& other : {config("2", "cpu", "cpu"), config("3", "none", "cpu")}) {
    const SettingsRun alone = run_of(other);
    CHECK_FALSE(alone.strategy.offload.weights);
    CHECK(says_so(alone));
  }
}

TEST_CASE("a trainer's script tells of the allocator") {
  const auto grows = [](const std::string& first) {
    const Result<SettingsRun> run = read_pair(first + std::string(kTrainer), kAccelerate);
    REQUIRE(run.ok());
    return run->strategy.runtime.expandable_segments;
  };
  CHECK_FALSE(grows(""));
  CHECK(grows("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"));
}

TEST_CASE("DeepSpeed's JSON beside a trainer's script puts weights on the host") {
  RunContext context;
  context.shell.read_file = [](const std::string& name) -> std::optional<std::string> {
    if (name != "ds.json") return std::nullopt;
    return R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"},
                                     "offload_param": {"device": "cpu"}}})";
  };
  const Result<SettingsRun> run = read(
      "deepspeed --num_gpus 4 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B "
      "--block_size 512 --bf16 --deepspeed ds.json",
      context);
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->strategy.zero == 3);
  CHECK(run->strategy.offload.weights);
}

TEST_CASE("a trainer's program that only a variable names is started all the same") {
  // As exports to accelerate are: who has to say where rank 0 is need not say it to be read.
  const Result<SettingsRun> run = read_pair(
      "accelerate launch --config_file \"$here/accelerate.yaml\" --machine_rank \"$NODE_RANK\" "
      "--main_process_ip \"$MASTER_ADDR\" --num_processes 16 \"$TRAIN_PROGRAM\" "
      "--model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 2\n",
      kAccelerate);
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->strategy.micro_batch == 2);
  CHECK(run->strategy.dp == 16);
  CHECK(run->strategy.zero == 2);
  CHECK(std::any_of(run->notes.begin(), run->notes.end(), [](const std::string& note) {
    return note.find("which program is started is not known") != std::string::npos;
  }));
  CHECK_THAT(errors_of("accelerate launch --num_processes 4 \"$TRAIN_PROGRAM\" --max_length $SEQ "
                       "--model_name_or_path meta-llama/Llama-3.1-8B\n"),
             Catch::Matchers::Contains("SEQ"));
  CHECK_THAT(errors_of("accelerate launch --num_processes 4 \"$TRAIN_PROGRAM\" "
                       "--per_device_train_batch_size 2\n"),
             Catch::Matchers::Contains("nothing here says which model, as 'model_name_or_path'"));
}
