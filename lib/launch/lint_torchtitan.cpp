#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "launch/lint.hpp"
#include "launch/lint_report.hpp"

namespace meshplan {
namespace {

constexpr std::array kSettings{
    KeySetting{"tp", "parallelism.tensor_parallel_degree"},
    KeySetting{"sequence_parallel", "parallelism.tensor_parallel_degree"},
    KeySetting{"pp", "parallelism.pipeline_parallel_degree"},
    KeySetting{"schedule", "parallelism.pipeline_parallel_schedule"},
    KeySetting{"vp", "parallelism.pipeline_parallel_layers_per_stage"},
    KeySetting{"stage_layers", "parallelism.module_fqns_per_model_part"},
    KeySetting{"cp", "parallelism.context_parallel_degree"},
    KeySetting{"cp_kind", "parallelism.context_parallel_rotate_method"},
    KeySetting{"ep", "parallelism.expert_parallel_degree"},
    KeySetting{"etp", "parallelism.expert_tensor_parallel_degree"},
    KeySetting{"dp", "parallelism.data_parallel_shard_degree"},
    KeySetting{"zero", "parallelism.data_parallel_shard_degree"},
    KeySetting{"zero_group", "parallelism.data_parallel_replicate_degree"},
    KeySetting{"micro_batch", "parallelism.pipeline_parallel_microbatch_size"},
    KeySetting{"micro_batch", "training.local_batch_size"},
    KeySetting{"global_batch", "training.global_batch_size"},
    KeySetting{"global_batch", "training.local_batch_size"},
    KeySetting{"seq_len", "training.seq_len"},
    KeySetting{"recompute", "activation_checkpoint.mode"},
    KeySetting{"recompute_layers", "activation_checkpoint.selective_ac_option"},
    KeySetting{"precision", "training.mixed_precision_param"},
    KeySetting{"master_weights", "training.dtype"},
    KeySetting{"optimizer_dtype", "training.dtype"},
    KeySetting{"offload.optimizer", "training.enable_cpu_offload"},
    KeySetting{"kernels.flex_dispatcher", "parallelism.expert_parallel_comm_backend"},
};

// config/job_config.py: fields of the sections that decide a plan; others stop it.
constexpr std::array<std::string_view, 51> kFields{
    "model.name",
    "model.flavor",
    "model.hf_assets_path",
    "model.tokenizer_path",
    "model.converters",
    "model.print_after_conversion",
    "training.dataset",
    "training.dataset_path",
    "training.local_batch_size",
    "training.global_batch_size",
    "training.seq_len",
    "training.max_norm",
    "training.steps",
    "training.enable_cpu_offload",
    "training.dtype",
    "training.mixed_precision_param",
    "training.mixed_precision_reduce",
    "training.gc_freq",
    "training.gc_debug",
    "training.dataloader",
    "parallelism.data_parallel_replicate_degree",
    "parallelism.data_parallel_shard_degree",
    "parallelism.fsdp_reshard_after_forward",
    "parallelism.tensor_parallel_degree",
    "parallelism.disable_loss_parallel",
    "parallelism.enable_async_tensor_parallel",
    "parallelism.pipeline_parallel_degree",
    "parallelism.module_fqns_per_model_part",
    "parallelism.pipeline_parallel_first_stage_less_layers",
    "parallelism.pipeline_parallel_last_stage_less_layers",
    "parallelism.pipeline_parallel_layers_per_stage",
    "parallelism.pipeline_parallel_schedule",
    "parallelism.pipeline_parallel_schedule_csv",
    "parallelism.pipeline_parallel_microbatch_size",
    "parallelism.pipeline_parallel_expert_parallel_overlap",
    "parallelism.context_parallel_degree",
    "parallelism.context_parallel_load_balancer",
    "parallelism.context_parallel_rotate_method",
    "parallelism.expert_parallel_degree",
    "parallelism.expert_tensor_parallel_degree",
    "parallelism.expert_parallel_comm_backend",
    "activation_checkpoint.mode",
    "activation_checkpoint.selective_ac_option",
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
    "activation_checkpoint.early_stop",
    "activation_checkpoint.memory_budget",
    "activation_checkpoint.visualize_memory_budget_pareto",
    "activation_checkpoint.preserve_rng_state",
    "activation_checkpoint.determinism_check",
    "activation_checkpoint.debug",
    "compile.enable"};
constexpr std::array<std::string_view, 2> kCompileFields{"compile.components", "compile.backend"};
constexpr std::array<std::string_view, 18> kSections{
    "job",          "profiling",      "metrics",    "model",
    "optimizer",    "lr_scheduler",   "training",   "parallelism",
    "checkpoint",   "quantize",       "comm",       "activation_checkpoint",
    "compile",      "debug",          "validation", "memory_estimation",
    "experimental", "fault_tolerance"};

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
    mesh();
    batch();
    report_.take_rules(cluster_);
    contradictions();
    ignored();
    wasteful();
    for (const std::string& note : run_.notes) report_.note(note);
    return std::move(report_).all();
  }

 private:
  [[nodiscard]] bool has(std::string_view name) const { return report_.has(name); }

  void unknown_keys() {
    std::vector<std::string_view> known(kFields.begin(), kFields.end());
    known.insert(known.end(), kCompileFields.begin(), kCompileFields.end());
    for (const auto& [name, setting] : settings_.all()) {
      const std::size_t dot = name.find('.');
      const std::string section = name.substr(0, dot);
      const bool there = std::find(kSections.begin(), kSections.end(), section) != kSections.end();
      if (!there && dot == std::string::npos) unknown(name, kSections);
      const bool listed = section == "model" || section == "training" || section == "parallelism" ||
                          section == "activation_checkpoint" || section == "compile";
      const bool outer = dot != std::string::npos && name.find('.', dot + 1) == std::string::npos;
      if (listed && outer && std::find(known.begin(), known.end(), name) == known.end()) {
        unknown(name, known);
      }
    }
  }
  void unknown(const std::string& name, std::span<const std::string_view> known) {
    const std::optional<std::string> near = report_.full() ? std::nullopt : nearest(name, known);
    report_.error(name, "torchtitan v0.2.2 has no setting '" + name + "' and stops",
                  near ? "did you mean '" + *near + "'?" : "leave it out");
  }

  // distributed/parallel_dims.py:53.
  void mesh() {
    const std::int64_t gpus = num_gpus(s_);
    // With a cluster the rules of every strategy say it.
    if (cluster_ || run_.world_size == 0 || s_.dp == 0 || gpus == run_.world_size) return;
    report_.error("parallelism.data_parallel_shard_degree",
                  "the degrees multiply to " + std::to_string(gpus) + " ranks, the job has " +
                      std::to_string(run_.world_size),
                  "set data_parallel_shard_degree to -1");
  }

  // train.py:203.
  void batch() {
    const std::int64_t local = settings_.integer("training.local_batch_size", 8);
    const std::int64_t once = local * s_.dp;
    if (once > 0 && s_.global_batch % once != 0) {
      report_.error(has("training.global_batch_size") ? "training.global_batch_size"
                                                      : "training.local_batch_size",
                    "'training.global_batch_size' " + std::to_string(s_.global_batch) +
                        " must be a multiple of the local batch " + std::to_string(local) + " * " +
                        std::to_string(s_.dp) + " data-parallel ranks");
    }
    const std::int64_t parts = s_.tp * 2 * s_.cp;
    if (s_.seq_len % parts != 0) {
      report_.error("training.seq_len",
                    "'training.seq_len' " + std::to_string(s_.seq_len) +
                        " must be a multiple of tp * 2 * cp = " + std::to_string(parts) +
                        " (models/*/infra/parallelize.py)");
    }
    const std::int64_t stages = s_.pp * s_.vp;
    if (s_.pp > 1 && s_.micro_batch > 0 && local / s_.micro_batch < stages) {
      report_.warning("training.local_batch_size",
                      std::to_string(local / s_.micro_batch) + " microbatches fill " +
                          std::to_string(stages) + " pipeline stages badly",
                      "a larger local_batch_size, up to the global batch over the data-parallel "
                      "ranks");
    }
  }

  void contradictions() {
    const bool compiled = settings_.flag("compile.enable", false);
    if (s_.overlap.tp && !compiled) {
      report_.error("parallelism.enable_async_tensor_parallel",
                    "enable_async_tensor_parallel needs the compiled model "
                    "(distributed/tensor_parallel.py:20)",
                    "[compile] enable = true");
    }
    if (settings_.text("activation_checkpoint.mode", "selective") == "memory_budget" && !compiled) {
      report_.error("activation_checkpoint.mode", "memory_budget is the compiler's choice",
                    "[compile] enable = true");
    }
    if (settings_.text("training.mixed_precision_reduce", "float32") != "float32") {
      report_.error("training.mixed_precision_reduce", "gradients are reduced in float32 only");
    }
    if (has("parallelism.pipeline_parallel_schedule_csv") &&
        !settings_.text("parallelism.pipeline_parallel_schedule_csv").empty()) {
      report_.warning("parallelism.pipeline_parallel_schedule_csv",
                      "the schedule of the CSV file is not read: the estimate is of '" +
                          std::string(name_of(s_.schedule)) + "'");
    }
  }

  void ignored() {
    const auto does_nothing = [&](std::string_view name, bool without, const char* what) {
      if (without && has(name)) {
        report_.warning(name, "'" + std::string(name) + "' does nothing without " + what,
                        "leave it out");
      }
    };
    const std::string p = "parallelism.";
    for (const char* key : {"pipeline_parallel_schedule", "pipeline_parallel_microbatch_size",
                            "pipeline_parallel_layers_per_stage", "module_fqns_per_model_part"}) {
      does_nothing(p + key, s_.pp == 1, "a pipeline");
    }
    does_nothing(p + "context_parallel_rotate_method", s_.cp == 1, "context parallelism");
    does_nothing(p + "enable_async_tensor_parallel", s_.tp == 1 && s_.overlap.tp,
                 "tensor parallelism");
    does_nothing(p + "expert_parallel_comm_backend", s_.ep == 1, "expert parallelism");
    does_nothing(p + "expert_parallel_degree", !run_.model.moe && experts() > 1, "experts");
    does_nothing("activation_checkpoint.selective_ac_option", !selective(),
                 "activation_checkpoint.mode = \"selective\"");
    if (s_.dp * s_.cp == 1) {
      does_nothing(p + "fsdp_reshard_after_forward", true, "shards");
    }
    if (s_.ep == 1 && run_.model.moe) {
      if (settings_.integer(p + "expert_tensor_parallel_degree", 1) > 1) {
        report_.warning(p + "expert_tensor_parallel_degree",
                        "without expert parallelism the experts are split by tp, whatever "
                        "expert_tensor_parallel_degree says",
                        "leave it out");
      }
    }
  }
  [[nodiscard]] bool selective() {
    return settings_.text("activation_checkpoint.mode", "selective") == "selective";
  }
  [[nodiscard]] std::int64_t experts() {
    return settings_.integer("parallelism.expert_parallel_degree", 1);
  }

  void wasteful() {
    if (!settings_.flag("compile.enable", false)) {
      report_.warning("compile.enable",
                      "the model is not compiled: norms, rotary embedding and activations are "
                      "chains of small kernels",
                      "[compile] enable = true");
    }
    if (s_.pp > 1 && s_.zero == 3) {
      report_.warning("parallelism.fsdp_reshard_after_forward",
                      "a pipeline gathers the weights again for every microbatch",
                      "fsdp_reshard_after_forward = \"default\"");
    }
    if (s_.zero == 0 && s_.dp > 1) {
      report_.warning("parallelism.data_parallel_replicate_degree",
                      std::to_string(s_.dp) + " ranks hold the same weights and optimizer states",
                      "set data_parallel_shard_degree to -1");
    }
    report_.warn_of_spread_tensor_group("parallelism.tensor_parallel_degree", cluster_);
    const bool fp8 = s_.precision == Precision::kFp8;
    if (fp8 && s_.zero == 3 &&
        !settings_.flag("quantize.linear.float8.enable_fsdp_float8_all_gather", false)) {
      report_.warning("model.converters", "weights are gathered in 16 bits for 8-bit products",
                      "[quantize.linear.float8] enable_fsdp_float8_all_gather = true");
    }
  }

  const SettingsRun& run_;
  const Strategy& s_;
  const std::optional<ClusterSpec>& cluster_;
  Settings settings_;  // asking notes what was asked
  LintReport report_;
};

}  // namespace

Diagnostics lint_torchtitan(const SettingsRun& run, const std::optional<ClusterSpec>& cluster,
                            const std::string& file) {
  return Linter(run, cluster, file).run();
}

}  // namespace meshplan
