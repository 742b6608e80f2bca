// What the keys of recipes are about.
#include "launch/recipe_keys.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "io/load.hpp"

namespace meshplan {
namespace {

// axolotl 0.12 utils/schemas/config.py; LLaMA-Factory 0.9 hparams/*.py; Transformers'
// TrainingArguments.
constexpr auto kTrainerWithoutEffect =
    std::to_array<std::string_view>({"datasets",
                                     "dataset*",
                                     "test_datasets",
                                     "val_set_size",
                                     "val_size",
                                     "output_dir",
                                     "wandb*",
                                     "mlflow*",
                                     "comet*",
                                     "swanlab*",
                                     "report_to",
                                     "num_epochs",
                                     "num_train_epochs",
                                     "max_steps",
                                     "learning_rate",
                                     "lr_*",
                                     "cosine_*",
                                     "warmup*",
                                     "weight_decay",
                                     "adam_*",
                                     "max_grad_norm",
                                     "train_on_inputs",
                                     "early_stopping*",
                                     "resume_from_checkpoint",
                                     "auto_resume*",
                                     "logging*",
                                     "log*",
                                     "eval*",
                                     "save*",
                                     "saves_per_epoch",
                                     "evals_per_epoch",
                                     "do_train",
                                     "do_eval",
                                     "do_predict",
                                     "predict*",
                                     "debug",
                                     "special_tokens",
                                     "tokens",
                                     "added_tokens*",
                                     "chat_template*",
                                     "template",
                                     "tokenizer*",
                                     "resize_token*",
                                     "model_type",
                                     "model_config_type",
                                     "is_*",
                                     "trust_remote_code",
                                     "hub*",
                                     "push_to_hub*",
                                     "strict",
                                     "lora_alpha",
                                     "loraplus*",
                                     "peft_use_rslora",
                                     "use_rslora",
                                     "lora_fan_in*",
                                     "lora_model_dir",
                                     "seed",
                                     "do_train",
                                     "bf16_full_eval",
                                     "eos_token",
                                     "pad_token",
                                     "report*",
                                     "overwrite*",
                                     "gradient_checkpointing_use*",
                                     "lora_task_type",
                                     "output*",
                                     "num_proc",
                                     "text_column",
                                     "torch_empty*",
                                     "disable_tqdm",
                                     "label_names",
                                     "max_prompt_length",
                                     "assistant_only*",
                                     "completion_only*",
                                     "formatting*",
                                     "loss_type",
                                     "beta",
                                     "sync_ref*",
                                     "truncation*",
                                     "padding_free",
                                     "trackio*",
                                     "project*",
                                     "run*",
                                     "bnb_4bit*",
                                     "model_revision",
                                     "attn_implementation",
                                     "shuffle*",
                                     "overwrite*",
                                     "preprocessing*",
                                     "dataloader*",
                                     "ddp_timeout",
                                     "plot_loss",
                                     "include_num*",
                                     "plugins",
                                     "type",
                                     "roles*",
                                     "message*",
                                     "field*",
                                     "default_system*",
                                     "excess_length*",
                                     "skip_prepare*",
                                     "remove_unused*",
                                     "run_name",
                                     "save_safetensors",
                                     "bench*",
                                     "max_samples",
                                     "split",
                                     "streaming",
                                     "mix_strategy",
                                     "interleave*",
                                     "cache_dir",
                                     "local_rank",
                                     "gc_steps",
                                     "pref_*",
                                     "dpo_*",
                                     "rl_beta",
                                     "ref_model*",
                                     "precompute_ref*",
                                     "profiler*",
                                     "fsdp_config.version",
                                     "fsdp_config.cpu_offload_pin_memory",
                                     "fsdp_config.auto_wrap_policy",
                                     "fsdp_config.transformer_layer_cls_to_wrap",
                                     "fsdp_config.state_dict_type",
                                     "fsdp_config.final_state_dict_type",
                                     "fsdp_config.cpu_ram_efficient_loading",
                                     "fsdp_config.sync_module_states",
                                     "fsdp_config.use_orig_params"});

constexpr auto kTrainerNotModelled = std::to_array<NotModelledKey>(
    {{"lora_modules_to_save", "counts these layers as frozen"},
     {"additional_target", "counts these layers as frozen"},
     {"unfrozen_parameters", "trains all weights or adapters alone"},
     {"peft_use_dora", "counts adapters without magnitudes"},
     {"use_dora", "counts adapters without magnitudes"},
     {"relora*", "counts plain adapters"},
     {"use_galore", "counts Adam of whole gradients"},
     {"use_badam", "counts Adam of all weights"},
     {"pissa*", "counts plain adapters"},
     {"torch_compile_*", "counts the compiler's default mode"},
     {"unsloth*", "counts kernels of the framework's preset"},
     {"use_unsloth*", "counts kernels of the framework's preset"},
     {"lora_embedding_kernel", "counts embeddings without adapters"},
     {"liger_rms_norm_gated", "counts kernels of the framework's preset"},
     {"liger_use_token_scaling", "counts the loss without it"},
     {"group_by_length", "counts every sequence as full"},
     {"s2_attention", "counts full attention"},
     {"shift_attn", "counts full attention"},
     {"neftune*", "leaves the noise out"},
     {"noisy_embedding*", "leaves the noise out"},
     {"gradient_checkpointing_kwargs*", "recomputes every layer from its input"},
     {"fsdp_config", "shards weights, gradients and states"},
     {"fsdp_config.fsdp_*", "shards weights, gradients and states"},
     {"fsdp_config.min_num_params", "shards layer by layer"},
     {"fsdp_config.mixed_precision_policy", "computes in the recipe's precision"},
     {"fsdp_config.limit_all_gathers", "gathers one layer ahead"},
     {"fsdp_config.backward_prefetch*", "gathers one layer ahead"},
     {"fsdp_config.forward_prefetch", "gathers one layer ahead"},
     {"rope*", "counts rotary embedding as the model says"},
     {"overrides_of_model*", "takes the model as it ships"},
     {"mixture_of_depths", "counts every layer for every token"}});

// torchtune 0.6 recipes/configs and the constructors that they name.
constexpr auto kTorchtuneWithoutEffect = std::to_array<std::string_view>({"output_dir",
                                                                          "tokenizer*",
                                                                          "checkpointer*",
                                                                          "ref_checkpointer*",
                                                                          "resume*",
                                                                          "save_*",
                                                                          "dataset*",
                                                                          "seed",
                                                                          "shuffle",
                                                                          "optimizer",
                                                                          "optimizer.*",
                                                                          "lr_scheduler*",
                                                                          "epochs",
                                                                          "max_steps*",
                                                                          "clip_grad_norm",
                                                                          "metric_logger*",
                                                                          "log_*",
                                                                          "device",
                                                                          "profiler*",
                                                                          "low_cpu_ram",
                                                                          "run_val*",
                                                                          "batch_size_val",
                                                                          "collate_fn",
                                                                          "adapter_checkpoint",
                                                                          "model",
                                                                          "model.lora_alpha",
                                                                          "loss",
                                                                          "loss.beta",
                                                                          "loss.label_smoothing",
                                                                          "keep_last*",
                                                                          "checkpoint_dir",
                                                                          "cudnn*",
                                                                          "dataloader*",
                                                                          "base_model_path"});
constexpr auto kTorchtuneNotModelled = std::to_array<NotModelledKey>(
    {{"model.use_dora", "counts adapters without magnitudes"},
     {"model.apply_lora_to_output", "counts the output layer as frozen"},
     {"model.attn_dropout", "counts attention without dropout"},
     {"compile.*", "counts kernels of the framework's preset"},
     {"compile_*", "counts kernels of the framework's preset"},
     {"quantizer*", "counts weights without the rounding of quantisation-aware training"},
     {"groupsize", "counts weights without the rounding of quantisation-aware training"},
     {"custom_sharded_layers", "shards every layer"},
     {"fsdp.*", "shards weights, gradients and states"},
     {"fsdp_sharding*", "shards weights, gradients and states"},
     {"memory_efficient_fsdp_wrap", "shards weights, gradients and states"},
     {"tensor_parallel_plan*", "splits attention, feed-forward and vocabulary as Megatron-LM does"},
     {"ac_mode", "recomputes every layer from its input"},
     {"ac_option", "recomputes every layer from its input"}});

// accelerate 1.7 commands/config/config_args.py.
constexpr auto kAccelerateWithoutEffect =
    std::to_array<std::string_view>({"compute_environment",
                                     "debug",
                                     "downcast_bf16",
                                     "enable_cpu_affinity",
                                     "machine_rank",
                                     "main_training_function",
                                     "main_process_*",
                                     "num_machines",
                                     "rdzv_*",
                                     "same_network",
                                     "tpu_*",
                                     "use_cpu",
                                     "gpu_ids",
                                     "num_processes",
                                     "commands",
                                     "command_file",
                                     "deepspeed_config.deepspeed_multinode_launcher",
                                     "deepspeed_config.deepspeed_hostfile",
                                     "deepspeed_config.zero3_*",
                                     "deepspeed_config.gradient_clipping",
                                     "deepspeed_config.deepspeed_config_file",
                                     "fsdp_config.fsdp_auto_wrap_policy",
                                     "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
                                     "fsdp_config.fsdp_min_num_params",
                                     "fsdp_config.fsdp_cpu_ram_efficient_loading",
                                     "fsdp_config.fsdp_state_dict_type",
                                     "fsdp_config.fsdp_sync_module_states",
                                     "fsdp_config.fsdp_use_orig_params",
                                     "fsdp_config.fsdp_version",
                                     "fsdp_config.fsdp_backward_prefetch*",
                                     "fsdp_config.fsdp_forward_prefetch"});
constexpr auto kAccelerateNotModelled = std::to_array<NotModelledKey>(
    {{"dynamo_config*", "counts kernels of the framework's preset"},
     {"parallelism_config.parallelism_config_sp_*", "splits sequences as cp_kind says"},
     {"deepspeed_config.seq_parallel*", "sends what it splits in the activations' type"}});

bool is_meant(std::string_view row, std::string_view key) {
  if (!row.ends_with('*')) return key == row;
  row.remove_suffix(1);
  return key.starts_with(row);
}

}  // namespace

std::string_view instead_of(const RecipeKeys& keys, std::string_view key) {
  for (const NotModelledKey& row : keys.not_modelled) {
    if (is_meant(row.key, key)) return row.instead;
  }
  return {};
}

bool is_off(const YamlNode& value) {
  return value.kind == YamlNode::Kind::kScalar &&
         (value.text == "false" || value.text == "False" || value.text == "none");
}

bool is_idle(const RecipeKeys& keys, std::string_view key) {
  return std::any_of(keys.without_effect.begin(), keys.without_effect.end(),
                     [&](std::string_view row) { return is_meant(row, key); });
}

RecipeKeys accelerate_keys() { return {kAccelerateWithoutEffect, kAccelerateNotModelled}; }

RecipeKeys trainer_keys() { return {kTrainerWithoutEffect, kTrainerNotModelled}; }

RecipeKeys torchtune_keys() { return {kTorchtuneWithoutEffect, kTorchtuneNotModelled}; }

void take_model(Settings& settings, const std::string& key, const std::string& stated,
                const RunContext& context, SettingsRun& run) {
  if (context.model) {
    run.model = *context.model;
    return;
  }
  const Result<ModelSpec> shipped = load_model(stated, DataFolders::standard());
  if (shipped && stated.find(".yaml") == std::string::npos) {
    run.model = *shipped;
    return;
  }
  settings.report(key,
                  stated.empty() ? "nothing here says which model, as '" + key + "' does"
                                 : "the sizes of '" + stated + "' are not known here",
                  "name a model that ships or import its config.json: --model NAME|FILE");
}

void note_full_sequences(SettingsRun& run) {
  run.notes.push_back(
      "every sequence counts as full: with --lengths documents count as long as they are, "
      "packing=" +
      std::string(name_of(run.strategy.packing)));
}

void account_recipe(Settings& settings, const RecipeKeys& keys, bool lenient, SettingsRun& run) {
  const std::vector<std::string> unread = settings.not_read();
  const std::map<std::string, Settings::Setting> all = settings.all();
  for (const auto& [name, setting] : all) {
    if (setting.value.kind == YamlNode::Kind::kMap) {  // its keys follow one by one
      const auto next = all.upper_bound(name);
      if (next != all.end() && next->first.starts_with(name + ".")) continue;
    }
    const bool read = std::find(unread.begin(), unread.end(), name) == unread.end();
    const int line = setting.place.where.line;
    const std::string_view instead = instead_of(keys, name);
    const bool idle = is_idle(keys, name);
    if (!instead.empty() && !is_off(setting.value)) {
      run.options.push_back({name, setting.value.text, OptionEffect::kNotModelled,
                             "the estimate " + std::string(instead), line});
    } else if (read || idle || !instead.empty()) {
      run.options.push_back({name, setting.value.text,
                             read ? OptionEffect::kModelled : OptionEffect::kNoEffect,
                             read ? "the recipe" : "data, learning rate, logging", line});
    } else if (lenient) {
      run.unknown.push_back(name);
    } else {
      settings.report(name, "'" + name + "' is not known",
                      "a key of another release? --lenient goes on without it");
    }
  }
}

}  // namespace meshplan
