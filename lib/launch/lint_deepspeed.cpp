#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "launch/lint.hpp"
#include "launch/lint_report.hpp"

namespace meshplan {
namespace {

constexpr std::array kSettings{
    KeySetting{"tp", "tensor_parallel.autotp_size"},
    KeySetting{"tp", "tensor_parallel.tp.tp_size"},
    KeySetting{"tp", "--tensor-model-parallel-size"},
    KeySetting{"pp", "--pipeline-model-parallel-size"},
    KeySetting{"pp", "pipeline.stages"},
    KeySetting{"cp", "sequence_parallel_size"},
    KeySetting{"cp", "--ds-sequence-parallel-size"},
    KeySetting{"ep", "expert_parallel.autoep_size"},
    KeySetting{"ep", "--moe-expert-parallel-size"},
    KeySetting{"zero", "zero_optimization.stage"},
    KeySetting{"zero", "--zero-stage"},
    KeySetting{"zero_group", "zero_optimization.mics_shard_size"},
    KeySetting{"micro_batch", "train_micro_batch_size_per_gpu"},
    KeySetting{"micro_batch", "--micro-batch-size"},
    KeySetting{"global_batch", "train_batch_size"},
    KeySetting{"global_batch", "--global-batch-size"},
    KeySetting{"global_batch", "gradient_accumulation_steps"},
    KeySetting{"seq_len", "--seq-length"},
    KeySetting{"recompute", "pipeline.activation_checkpoint_interval"},
    KeySetting{"recompute", "--recompute-granularity"},
    KeySetting{"offload.optimizer", "zero_optimization.offload_optimizer"},
    KeySetting{"overlap.tp", "tensor_parallel.tp_overlap_comm"},
    KeySetting{"precision", "bf16.enabled"},
};

// Keys of the outermost map that something of DeepSpeed 0.19 reads.
constexpr std::array<std::string_view, 62> kOutermost{"activation_checkpointing",
                                                      "aio",
                                                      "amp",
                                                      "autotuning",
                                                      "bf16",
                                                      "bfloat16",
                                                      "checkpoint",
                                                      "comet",
                                                      "comms_logger",
                                                      "communication_data_type",
                                                      "compile",
                                                      "compression_training",
                                                      "csv_monitor",
                                                      "curriculum_learning",
                                                      "data_efficiency",
                                                      "data_parallel_size",
                                                      "data_types",
                                                      "dataloader_drop_last",
                                                      "datastates",
                                                      "datastates_ckpt",
                                                      "disable_allgather",
                                                      "dump_state",
                                                      "eigenvalue",
                                                      "elasticity",
                                                      "expert_parallel",
                                                      "flops_profiler",
                                                      "fp16",
                                                      "gradient_accumulation_steps",
                                                      "gradient_allreduce_op",
                                                      "gradient_clipping",
                                                      "gradient_predivide_factor",
                                                      "graph_harvesting",
                                                      "hybrid_engine",
                                                      "log_level",
                                                      "managed_gradient_accumulation",
                                                      "memory_breakdown",
                                                      "nebula",
                                                      "optimizer",
                                                      "pipeline",
                                                      "prescale_gradients",
                                                      "progressive_layer_drop",
                                                      "quantize_training",
                                                      "scheduler",
                                                      "seq_parallel_communication_data_type",
                                                      "sequence_parallel_size",
                                                      "sparse_attention",
                                                      "sparse_gradients",
                                                      "steps_per_print",
                                                      "tensor_parallel",
                                                      "tensorboard",
                                                      "timers",
                                                      "torch_autocast",
                                                      "train_batch_size",
                                                      "train_micro_batch_size_per_gpu",
                                                      "use_data_before_expert_parallelism",
                                                      "vocabulary_size",
                                                      "wall_clock_breakdown",
                                                      "wandb",
                                                      "weight_quantization",
                                                      "zero_allow_untested_optimizer",
                                                      "zero_force_ds_cpu_optimizer",
                                                      "zero_optimization"};

// runtime/zero/config.py DeepSpeedZeroConfig: others stop it.
constexpr std::array<std::string_view, 53> kZero{"stage",
                                                 "contiguous_gradients",
                                                 "reduce_scatter",
                                                 "reduce_bucket_size",
                                                 "use_multi_rank_bucket_allreduce",
                                                 "allgather_partitions",
                                                 "allgather_bucket_size",
                                                 "overlap_comm",
                                                 "load_from_fp32_weights",
                                                 "elastic_checkpoint",
                                                 "offload_param",
                                                 "offload_optimizer",
                                                 "zenflow",
                                                 "sub_group_size",
                                                 "cpu_offload_param",
                                                 "cpu_offload_use_pin_memory",
                                                 "cpu_offload",
                                                 "prefetch_bucket_size",
                                                 "stage3_prefetch_bucket_size",
                                                 "param_persistence_threshold",
                                                 "stage3_param_persistence_threshold",
                                                 "model_persistence_threshold",
                                                 "stage3_model_persistence_threshold",
                                                 "max_live_parameters",
                                                 "stage3_max_live_parameters",
                                                 "max_reuse_distance",
                                                 "stage3_max_reuse_distance",
                                                 "gather_16bit_weights_on_model_save",
                                                 "stage3_gather_16bit_weights_on_model_save",
                                                 "module_granularity_threshold",
                                                 "stage3_module_granularity_threshold",
                                                 "use_all_reduce_for_fetch_params",
                                                 "stage3_use_all_reduce_for_fetch_params",
                                                 "allgather_sequential",
                                                 "stage3_allgather_sequential",
                                                 "stage3_gather_fp16_weights_on_model_save",
                                                 "ignore_unused_parameters",
                                                 "legacy_stage1",
                                                 "round_robin_gradients",
                                                 "zero_hpz_partition_size",
                                                 "zero_quantized_weights",
                                                 "zero_quantized_nontrainable_weights",
                                                 "zero_quantized_gradients",
                                                 "zeropp_loco_param",
                                                 "mics_shard_size",
                                                 "mics_hierarchical_params_gather",
                                                 "memory_efficient_linear",
                                                 "pipeline_loading_checkpoint",
                                                 "override_module_apply",
                                                 "log_trace_cache_warnings",
                                                 "enable_sanity_checks",
                                                 "save_muon_momentum_buffer_in_memory",
                                                 "leaf_module"};

class Linter {
 public:
  Linter(const SettingsRun& run, const std::optional<ClusterSpec>& cluster, const std::string& file)
      : run_(run),
        s_(run.strategy),
        cluster_(cluster),
        settings_(run.settings),
        report_(run, kSettings, file) {}

  Diagnostics run() {
    unknown_keys();
    batch();
    contradictions();
    report_.take_rules(cluster_);
    ignored();
    wasteful();
    for (const std::string& note : run_.notes) report_.note(note);
    return std::move(report_).all();
  }

 private:
  [[nodiscard]] bool has(std::string_view name) const { return report_.has(name); }

  static std::string meant(std::string_view word, std::span<const std::string_view> known) {
    const std::optional<std::string> near = nearest(word, known);
    return near ? "did you mean '" + *near + "'?" : "";
  }

  void unknown_keys() {
    const std::string zero = "zero_optimization.";
    for (const auto& [name, setting] : settings_.all()) {
      if (name.starts_with("--")) continue;
      if (name.find('.') == std::string::npos) {
        const bool known =
            std::find(kOutermost.begin(), kOutermost.end(), name) != kOutermost.end();
        if (known) continue;
        const std::string hint = report_.full() ? std::string() : meant(name, kOutermost);
        report_.warning(name, "DeepSpeed does not read '" + name + "'",
                        hint.empty() ? "leave it out if nothing else reads it" : hint);
      } else if (name.starts_with(zero) && name.find('.', zero.size()) == std::string::npos) {
        const std::string key = name.substr(zero.size());
        if (std::find(kZero.begin(), kZero.end(), key) != kZero.end()) continue;
        report_.error(name, "DeepSpeed refuses unknown keys in 'zero_optimization': '" + key + "'",
                      report_.full() ? std::string() : meant(key, kZero));
      }
    }
  }

  // runtime/config.py:937: train_batch_size = micro * accumulation * ranks.
  void batch() {
    const std::int64_t train = settings_.integer("train_batch_size", 0),
                       micro = settings_.integer("train_micro_batch_size_per_gpu", 0),
                       steps = settings_.integer("gradient_accumulation_steps", 0);
    if (s_.tp > 1 && !splits_itself(s_.framework) && train > 0) {
      report_.error("train_batch_size",
                    "with automatic tensor parallelism 'train_batch_size' is counted over all "
                    "ranks, not over the data-parallel ones (runtime/config.py:714)",
                    "give train_micro_batch_size_per_gpu and gradient_accumulation_steps");
      return;
    }
    if (train > 0 && micro > 0 && steps > 0 && s_.dp > 0 &&
        train != bounded_product({micro, steps, s_.dp})) {
      report_.error("train_batch_size",
                    "'train_batch_size' " + std::to_string(train) + " is not micro batch " +
                        std::to_string(micro) + " * accumulation " + std::to_string(steps) + " * " +
                        std::to_string(s_.dp) + " data-parallel ranks",
                    "leave one of the three out");
    }
    const std::int64_t stated = settings_.integer("--global-batch-size", 0);
    if (train > 0 && stated > 0 && train != stated) {
      report_.error("--global-batch-size", "--global-batch-size " + std::to_string(stated) +
                                               " and 'train_batch_size' " + std::to_string(train) +
                                               " differ");
    }
    const std::int64_t own = settings_.integer("--micro-batch-size", 0);
    if (micro > 0 && own > 0 && micro != own) {
      report_.error("--micro-batch-size", "--micro-batch-size " + std::to_string(own) +
                                              " and 'train_micro_batch_size_per_gpu' " +
                                              std::to_string(micro) + " differ");
    }
    if (!run_.automatic.empty()) {
      std::vector<std::string> names;
      for (const std::string& name : run_.automatic) names.push_back("'" + name + "'");
      report_.note(
          "only Transformers' Trainer and accelerate fill in \"auto\"; DeepSpeed itself "
          "takes its default for " +
          join_words(names));
    }
  }

  void contradictions() {
    if (settings_.flag("bf16.enabled", false) && settings_.flag("fp16.enabled", false)) {
      report_.error("fp16.enabled", "bf16 and fp16 cannot both be enabled (runtime/config.py:827)",
                    "enable one of them");
    }
    const std::int64_t stage = settings_.integer("zero_optimization.stage", 0);
    const std::int64_t other = settings_.integer("--zero-stage", stage);
    if (has("zero_optimization.stage") && other != stage) {
      report_.error("--zero-stage", "--zero-stage " + std::to_string(other) +
                                        " and 'zero_optimization.stage' " + std::to_string(stage) +
                                        " differ");
    }
    if (s_.zero == 3 && settings_.text("gradient_allreduce_op", "mean") == "sum") {
      report_.error("gradient_allreduce_op",
                    "'gradient_allreduce_op' sum cannot be combined with ZeRO-3");
    }
    if (s_.zero != 3 && has("zero_optimization.offload_optimizer.ratio") &&
        settings_.text("zero_optimization.offload_optimizer.ratio") != "1.0" &&
        settings_.text("zero_optimization.offload_optimizer.ratio") != "1") {
      report_.error("zero_optimization.offload_optimizer.ratio",
                    "a part of the optimizer on the host needs ZeRO-3 (runtime/zero/config.py)");
    }
    if (s_.zero == 0 && settings_.flag("bf16.bf16_master_weights_and_grads", false)) {
      report_.error("bf16.bf16_master_weights_and_grads",
                    "'bf16_master_weights_and_grads' needs ZeRO-1, 2 or 3");
    }
    if (settings_.flag("bf16.bf16_optimizer_states", false) && s_.master_weights) {
      report_.error("bf16.bf16_optimizer_states",
                    "'bf16_optimizer_states' needs 'bf16_master_weights_and_grads'");
    }
    if (splits_itself(s_.framework) && has("--sequence-parallel") && s_.cp > 1) {
      report_.error("--sequence-parallel",
                    "--sequence-parallel cannot be combined with --ds-sequence-parallel-size");
    }
  }

  void ignored() {
    const std::string zero = "zero_optimization.";
    if (s_.zero != 3) {
      for (const auto& [name, setting] : settings_.all()) {
        const bool late = name.starts_with(zero + "stage3_") || name == zero + "offload_param" ||
                          name == zero + "mics_shard_size" ||
                          name == zero + "zero_hpz_partition_size";
        if (late) {
          report_.warning(name, "'" + name.substr(zero.size()) + "' does nothing below ZeRO-3",
                          "leave it out");
        }
      }
    }
    if (splits_itself(s_.framework) && has("tensor_parallel")) {
      report_.warning("tensor_parallel",
                      "Megatron-DeepSpeed splits its tensors itself: 'tensor_parallel' is for "
                      "automatic tensor parallelism",
                      "leave it out");
    }
    if (has("activation_checkpointing") && s_.recompute == Recompute::kNone) {
      report_.warning("activation_checkpointing",
                      "'activation_checkpointing' says how to recompute, not what: nothing here "
                      "turns recomputation on",
                      splits_itself(s_.framework)
                          ? "add --deepspeed-activation-checkpointing "
                            "--recompute-granularity full --recompute-method uniform"
                          : "turn it on in the program, or leave it out");
    }
    if (s_.pp == 1 && has("pipeline.activation_checkpoint_interval")) {
      report_.warning("pipeline.activation_checkpoint_interval",
                      "'activation_checkpoint_interval' does nothing without a pipeline");
    }
  }

  void wasteful() {
    const std::int64_t copies = s_.dp * s_.cp;
    if (copies > 1 && s_.zero == 0) {
      report_.warning("zero_optimization.stage",
                      std::to_string(copies) + " ranks hold the same optimizer states",
                      "set zero_optimization.stage to 1");
    }
    if (copies > 1 && s_.zero > 0 && !s_.overlap.grad_reduce) {
      report_.warning(has("zero_optimization.overlap_comm") ? "zero_optimization.overlap_comm"
                                                            : "zero_optimization",
                      "gradients are reduced behind the backward pass",
                      "set zero_optimization.overlap_comm to true");
    }
    if (s_.zero == 3 && !s_.overlap.param_gather) {
      report_.warning("zero_optimization.stage3_prefetch_bucket_size",
                      "weights are gathered when they are needed, not ahead",
                      "set stage3_prefetch_bucket_size to 50000000");
    }
    if (s_.zero > 0 && !settings_.flag("zero_optimization.contiguous_gradients", true)) {
      report_.warning("zero_optimization.contiguous_gradients",
                      "gradients that are not contiguous fragment the memory",
                      "leave contiguous_gradients out");
    }
    if (s_.zero > 0 && !settings_.flag("zero_optimization.reduce_scatter", true)) {
      report_.warning("zero_optimization.reduce_scatter",
                      "every rank receives all gradients though it keeps a part of them",
                      "leave reduce_scatter out");
    }
    report_.warn_of_spread_tensor_group(splits_itself(s_.framework) ? "--tensor-model-parallel-size"
                                                                    : "tensor_parallel.autotp_size",
                                        cluster_);
    if (settings_.flag("wall_clock_breakdown", false)) {
      report_.warning("wall_clock_breakdown",
                      "'wall_clock_breakdown' waits for the device between the parts of a step",
                      "turn it off outside of measurements");
    }
    if (settings_.flag("activation_checkpointing.synchronize_checkpoint_boundary", false)) {
      report_.warning("activation_checkpointing.synchronize_checkpoint_boundary",
                      "the device is waited for at every checkpoint", "leave it out");
    }
    if (splits_itself(s_.framework) && run_.knows_model && !s_.flash_attention) {
      report_.warning("--seq-length", "attention is materialised", "add --use-flash-attn-v2");
    }
  }

  const SettingsRun& run_;
  const Strategy& s_;
  const std::optional<ClusterSpec>& cluster_;
  Settings settings_;  // asking notes what was asked
  LintReport report_;
};

}  // namespace

Diagnostics lint_deepspeed(const SettingsRun& run, const std::optional<ClusterSpec>& cluster,
                           const std::string& file) {
  return Linter(run, cluster, file).run();
}

}  // namespace meshplan
