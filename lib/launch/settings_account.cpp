#include "launch/settings_account.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace meshplan {
namespace {

constexpr auto kDeepspeedWithoutEffect =
    std::to_array<std::string_view>({"gradient_clipping",
                                     "gradient_predivide_factor",
                                     "prescale_gradients",
                                     "gradient_allreduce_op",
                                     "managed_gradient_accumulation",
                                     "steps_per_print",
                                     "scheduler*",
                                     "optimizer.params*",
                                     "optimizer.legacy_fusion",
                                     "wall_clock_breakdown",
                                     "memory_breakdown",
                                     "dump_state",
                                     "log_level",
                                     "timers*",
                                     "tensorboard*",
                                     "wandb*",
                                     "comet*",
                                     "csv_monitor*",
                                     "comms_logger*",
                                     "checkpoint*",
                                     "nebula*",
                                     "datastates*",
                                     "elasticity*",
                                     "dataloader_drop_last",
                                     "vocabulary_size",
                                     "disable_allgather",
                                     "zero_allow_untested_optimizer",
                                     "zero_force_ds_cpu_optimizer",
                                     "fp16.loss_scale*",
                                     "fp16.initial_scale_power",
                                     "fp16.hysteresis",
                                     "fp16.consecutive_hysteresis",
                                     "fp16.min_loss_scale",
                                     "fp16.auto_cast",
                                     "bf16.check_grad_overflow",
                                     "activation_checkpointing.contiguous_memory_optimization",
                                     "activation_checkpointing.number_checkpoints",
                                     "activation_checkpointing.synchronize_checkpoint_boundary",
                                     "activation_checkpointing.profile",
                                     "aio*",
                                     "pipeline.seed_layers",
                                     "zero_optimization.contiguous_gradients",
                                     "zero_optimization.reduce_scatter",
                                     "zero_optimization.use_multi_rank_bucket_allreduce",
                                     "zero_optimization.allgather_partitions",
                                     "zero_optimization.load_from_fp32_weights",
                                     "zero_optimization.elastic_checkpoint",
                                     "zero_optimization.sub_group_size",
                                     "zero_optimization.cpu_offload_use_pin_memory",
                                     "zero_optimization.offload_optimizer.*",
                                     "zero_optimization.offload_param.*",
                                     "zero_optimization.gather_16bit_weights_on_model_save",
                                     "zero_optimization.stage3_gather_*",
                                     "zero_optimization.ignore_unused_parameters",
                                     "zero_optimization.legacy_stage1",
                                     "zero_optimization.round_robin_gradients",
                                     "zero_optimization.pipeline_loading_checkpoint",
                                     "zero_optimization.override_module_apply",
                                     "zero_optimization.log_trace_cache_warnings",
                                     "zero_optimization.enable_sanity_checks",
                                     "zero_optimization.save_muon_momentum_buffer_in_memory"});
constexpr auto kDeepspeedNotModelled = std::to_array<NotModelledKey>(
    {{"communication_data_type", "reduces gradients as they are summed"},
     {"seq_parallel_communication_data_type", "sends what it splits in the activations' type"},
     {"sparse_gradients", "reduces whole gradients"},
     {"sparse_attention*", "computes attention of all pairs of tokens"},
     {"compression_training*", "compresses no weights and no activations"},
     {"quantize_training*", "compresses no weights and no activations"},
     {"weight_quantization*", "compresses no weights and no activations"},
     {"progressive_layer_drop*", "computes every layer"},
     {"eigenvalue*", "computes no eigenvalues"},
     {"curriculum_learning*", "takes full sequences in every step"},
     {"data_efficiency*", "takes full sequences and every layer in every step"},
     {"flops_profiler*", "takes no profile"},
     {"amp*", "trains in the type that bf16 and fp16 say"},
     {"torch_autocast*", "trains in the type that bf16 and fp16 say"},
     {"hybrid_engine*", "generates nothing between steps"},
     {"autotuning*", "runs what the other settings say"},
     {"compile*", "counts kernels of the framework's preset"},
     {"graph_harvesting", "captures no CUDA graphs"},
     {"use_data_before_expert_parallelism", "numbers ranks as its key order says"},
     {"zenflow*", "updates all weights in every step"},
     {"zero_optimization.zenflow*", "updates all weights in every step"},
     {"zero_optimization.zero_quantized_weights", "gathers weights in 16 bits"},
     {"zero_optimization.zero_quantized_nontrainable_weights", "gathers weights in 16 bits"},
     {"zero_optimization.zero_quantized_gradients", "reduces gradients in 16 bits"},
     {"zero_optimization.zeropp_loco_param*", "reduces gradients in 16 bits"},
     {"zero_optimization.mics_hierarchical_params_gather", "gathers in one collective"},
     {"zero_optimization.use_all_reduce_for_fetch_params", "gathers weights by all-gathers"},
     {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "gathers weights by all-gathers"},
     {"zero_optimization.allgather_sequential", "gathers a layer's weights at once"},
     {"zero_optimization.stage3_allgather_sequential", "gathers a layer's weights at once"},
     {"zero_optimization.prefetch_bucket_size", "gathers the next layer ahead"},
     {"zero_optimization.max_live_parameters", "holds one layer's weights and the next one's"},
     {"zero_optimization.stage3_max_*", "holds one layer's weights and the next one's"},
     {"zero_optimization.max_reuse_distance", "holds one layer's weights and the next one's"},
     {"zero_optimization.param_persistence_threshold", "shards all weights"},
     {"zero_optimization.stage3_param_persistence_threshold", "shards all weights"},
     {"zero_optimization.model_persistence_threshold", "shards all weights"},
     {"zero_optimization.stage3_model_persistence_threshold", "shards all weights"},
     {"zero_optimization.module_granularity_threshold", "gathers layer by layer"},
     {"zero_optimization.stage3_module_granularity_threshold", "gathers layer by layer"},
     {"zero_optimization.leaf_module*", "gathers layer by layer"},
     {"zero_optimization.memory_efficient_linear", "keeps no weights for the backward pass"},
     {"activation_checkpointing.partition_activations", "keeps whole inputs on every tensor rank"},
     {"activation_checkpointing.cpu_checkpointing", "keeps inputs of layers on the device"}});

constexpr auto kTorchtitanWithoutEffect =
    std::to_array<std::string_view>({"job.*",
                                     "profiling.*",
                                     "metrics.*",
                                     "lr_scheduler.*",
                                     "checkpoint.*",
                                     "comm.*",
                                     "memory_estimation.*",
                                     "experimental.*",
                                     "validation.*",
                                     "debug.seed",
                                     "debug.deterministic_warn_only",
                                     "debug.moe_force_load_balance",
                                     "model.hf_assets_path",
                                     "model.tokenizer_path",
                                     "model.print_after_conversion",
                                     "optimizer.name",
                                     "optimizer.lr",
                                     "optimizer.beta1",
                                     "optimizer.beta2",
                                     "optimizer.eps",
                                     "optimizer.weight_decay",
                                     "training.dataset*",
                                     "training.dataloader*",
                                     "training.max_norm",
                                     "training.steps",
                                     "training.gc_freq",
                                     "training.gc_debug",
                                     "training.mixed_precision_reduce",
                                     "activation_checkpoint.preserve_rng_state",
                                     "activation_checkpoint.determinism_check",
                                     "activation_checkpoint.debug",
                                     "activation_checkpoint.visualize_memory_budget_pareto",
                                     "quantize.linear.mx.mxfp8_dim1_cast_kernel_choice"});
constexpr auto kTorchtitanNotModelled = std::to_array<NotModelledKey>(
    {{"fault_tolerance.*", "counts no replacement of ranks and no synchronisation between jobs"},
     {"activation_checkpoint.memory_budget", "recomputes nothing where the compiler chooses"},
     {"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
      "repeats every second product"},
     {"compile.backend", "counts what PyTorch's own compiler fuses"},
     {"parallelism.context_parallel_load_balancer", "counts even work of context ranks"},
     {"parallelism.pipeline_parallel_schedule_csv", "counts the schedule that is named"},
     {"quantize.linear.float8.recipe_name", "scales by one tensor"},
     {"quantize.linear.float8.*", "counts torchao's float8 as it is by default"},
     {"quantize.linear.mx.*", "counts torchao's MXFP8 as it is by default"},
     {"quantize.grouped_mm.*", "counts experts' products in the layers' type"}});

// Of "training_args", not of `--training-args`.
std::string underscored(std::string_view option) {
  std::string name(option.substr(2));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace

RecipeKeys deepspeed_keys() { return {kDeepspeedWithoutEffect, kDeepspeedNotModelled}; }

RecipeKeys torchtitan_keys() { return {kTorchtitanWithoutEffect, kTorchtitanNotModelled}; }

void account_settings(const Settings& settings, const SettingsAccount& how, SettingsRun& run) {
  run.not_read = settings.not_read();
  for (const auto& [name, setting] : settings.all()) {
    if (setting.value.kind == YamlNode::Kind::kMap || how.elsewhere(name)) continue;
    const bool option = name.starts_with("--");
    const bool read =
        std::find(run.not_read.begin(), run.not_read.end(), name) == run.not_read.end();
    // Programs that take DeepSpeed's file besides are Hugging Face's Trainer, as a rule.
    const RecipeKeys& own = option ? trainer_keys() : how.keys;
    const std::string key = option ? underscored(name) : name;
    const std::string_view instead = instead_of(own, key);
    ReadOption& account =
        run.options.emplace_back(ReadOption{name, setting.value.text, OptionEffect::kModelled,
                                            std::string(how.whose), setting.place.where.line});
    if (option) account.what = "options of the program";
    if (read) continue;
    if (how.idle_here(name) || is_idle(own, key) || (!instead.empty() && is_off(setting.value))) {
      account.effect = OptionEffect::kNoEffect;
    } else {
      account.effect = OptionEffect::kNotModelled;
      account.what = instead.empty() ? "not known here: nothing of it is estimated"
                                     : "the estimate " + std::string(instead);
    }
  }
}

}  // namespace meshplan
