#include "launch/neox_import.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "frameworks/preset.hpp"
#include "launch/recipe_keys.hpp"

namespace meshplan {
namespace {

// GPT-NeoX 2.0 megatron/neox_arguments/neox_args.py and deepspeed_args.py.
constexpr auto kWithoutEffect =
    std::to_array<std::string_view>({"vocab_file",
                                     "merge_file",
                                     "save",
                                     "load",
                                     "data_path",
                                     "train_data*",
                                     "valid_data*",
                                     "test_data*",
                                     "data_impl",
                                     "split",
                                     "init_method*",
                                     "output_layer_init_method",
                                     "optimizer",
                                     "optimizer.*",
                                     "scheduler*",
                                     "min_lr",
                                     "lr_decay*",
                                     "warmup*",
                                     "decay_lr_to",
                                     "override_lr_scheduler",
                                     "weight_decay",
                                     "gradient_clipping",
                                     "train_iters",
                                     "train_epochs",
                                     "distributed_backend",
                                     "checkpoint_factor",
                                     "checkpoint_scale",
                                     "checkpoint_validation*",
                                     "eval_*",
                                     "extra_save_iters",
                                     "keep_last*",
                                     "log_*",
                                     "steps_per_print",
                                     "wall_clock_breakdown",
                                     "tensorboard*",
                                     "wandb*",
                                     "use_wandb",
                                     "comet*",
                                     "use_comet",
                                     "num_workers",
                                     "hostfile",
                                     "launcher",
                                     "deepspeed_slurm",
                                     "deepspeed_extra_args*",
                                     "comment",
                                     "finetune",
                                     "seed",
                                     "zero_optimization",
                                     "fp16",
                                     "bf16",
                                     "fp16.loss_scale*",
                                     "fp16.hysteresis",
                                     "fp16.min_loss_scale",
                                     "fp16.initial_scale_power",
                                     "fp16.auto_cast",
                                     "fp16.fp16",
                                     "loss_scale*",
                                     "hysteresis",
                                     "min_loss_scale",

                                     "zero_optimization.allgather*",
                                     "zero_optimization.reduce*",
                                     "zero_optimization.contiguous_gradients",
                                     "zero_optimization.load_from*",
                                     "rms_norm_epsilon",
                                     "layernorm_epsilon",
                                     "rotary_emb_base",
                                     "use_bias_in_norms",
                                     "output_layer_parallelism",
                                     "data_types",
                                     "synchronize_each_layer",
                                     "global_num_gpus",
                                     "tokenizer_type",
                                     "debug",
                                     "verbose",
                                     "profile*",
                                     "prof_all",
                                     "memory_profiling*",
                                     "comms_logger*",
                                     "hostfile",
                                     "include",
                                     "exclude",
                                     "num_nodes",
                                     "num_gpus",
                                     "s3_*",
                                     "checkpoint",
                                     "checkpoint.*",
                                     "data_efficiency*",
                                     "is_pipe_parallel",
                                     "iteration",
                                     "config_files",
                                     "attention_softmax_in_fp32",
                                     "use_shared_fs",
                                     "save_iters",
                                     "label_data*",
                                     "pos_emb_*",
                                     "eod_mask*"});
constexpr auto kNotModelled = std::to_array<NotModelledKey>(
    {{"fp32_allreduce", "sends gradients in the type that they are summed in"},
     {"partition_activations", "keeps every rank's own activations"},
     {"contiguous_checkpointing", "lets the allocator place checkpoints"},
     {"cpu_checkpointing", "keeps checkpoints on the device"},
     {"layernorm_fusion", "counts kernels of the framework's preset"},
     {"rope_fusion", "counts kernels of the framework's preset"},
     {"te_*", "counts kernels of the framework's preset"},

     {"bias_gelu_fusion", "counts kernels of the framework's preset"},
     {"bias_dropout_fusion", "counts kernels of the framework's preset"},
     {"scaled_upper_triang_masked_softmax_fusion", "counts kernels of the framework's preset"},
     {"scaled_masked_softmax_fusion", "counts kernels of the framework's preset"},
     {"zero_optimization.round_robin_gradients", "shards gradients in order"},
     {"sparsity_config*", "counts full attention"},
     {"use_bnb_optimizer", "counts Adam with states in fp32"}});

// Attention of a kind that meshplan describes; the others are refused.
bool is_full_attention(std::string_view kind) { return kind == "global" || kind == "flash"; }

class NeoxRun {
 public:
  explicit NeoxRun(const RunContext& context) : context_(context) {}

  Result<SettingsRun> read(std::span<const NamedText> files) {
    Diagnostics problems;
    for (const NamedText& file : files) {
      Result<YamlNode> tree = parse_yaml(file.text, file.name);
      if (!tree) {
        problems.insert(problems.end(), tree.errors().begin(), tree.errors().end());
        continue;
      }
      YamlNode root = std::move(tree).value();
      for (YamlEntry& entry : root.entries) {
        std::string& key = entry.first.text;
        std::replace(key.begin(), key.end(), '-', '_');
        if (settings_.all().count(key) == 0) continue;
        problems.push_back(
            error_at({file.name, entry.first.line, entry.first.column, entry.first.length},
                     "'" + key + "' is in another of these files too"));
      }
      settings_.add(root, file.text, file.name);
    }
    if (!problems.empty()) return problems;
    run_.target = Target::kDeepspeed;
    run_.strategy = framework_preset(Framework::kMegatronDeepspeed);
    if (context_.gpus > 0) run_.world_size = context_.gpus, run_.world_source = "--gpus";
    if (context_.model) {
      run_.model = *context_.model;
      (void)settings_.integer("num_layers", 0), (void)settings_.integer("hidden_size", 0);
      for (const char* key :
           {"num_attention_heads", "num_kv_heads", "norm", "pos_emb", "rotary_pct", "activation",
            "intermediate_size", "mlp_multiple_of", "no_weight_tying", "gpt_j_residual"}) {
        (void)settings_.find(key);
      }
    } else {
      read_model();
    }
    read_sizes();
    read_numbers();
    account_recipe(settings_, {kWithoutEffect, kNotModelled}, context_.lenient, run_);
    if (!settings_.problems().empty()) return settings_.problems();
    run_.strategy = with_world(run_, run_.world_size);
    run_.places = settings_.places();
    run_.settings = std::move(settings_);
    return std::move(run_);
  }

 private:
  void read_model() {
    ModelSpec& m = run_.model;
    m.name = "imported";
    const IntegerRange any{1, 1 << 24};
    m.num_layers = settings_.integer("num_layers", 0, {1, 100'000});
    m.hidden_size = settings_.integer("hidden_size", 0, any);
    m.num_attention_heads = settings_.integer("num_attention_heads", 0, any);
    if (m.num_layers == 0 || m.hidden_size == 0 || m.num_attention_heads == 0) {
      settings_.report("num_layers",
                       "'num_layers', 'hidden_size' and 'num_attention_heads' must be here",
                       "configurations of one run are read together: name them all");
      return;
    }
    m.head_dim = m.hidden_size / m.num_attention_heads;
    m.num_query_groups = settings_.integer("num_kv_heads", m.num_attention_heads, any);
    m.attention =
        m.num_query_groups < m.num_attention_heads ? AttentionKind::kGqa : AttentionKind::kMha;
    read_feed_forward();
    const std::string norm = settings_.text("norm", "layernorm");
    m.norm = norm.find("rms") != std::string::npos ? Norm::kRmsNorm : Norm::kLayerNorm;
    const std::string position = settings_.text("pos_emb", "learned");
    m.position_embedding = position == "rotary"  ? PositionEmbedding::kRope
                           : position == "alibi" ? PositionEmbedding::kAlibi
                           : position == "none"  ? PositionEmbedding::kNone
                                                 : PositionEmbedding::kLearned;
    m.rotary_percent = std::strtod(settings_.text("rotary_pct", "1").c_str(), nullptr);
    m.tied_embeddings = !settings_.flag("no_weight_tying", false);
    m.parallel_block = settings_.flag("gpt_j_residual", false);
    m.parallel_shared_norm = m.parallel_block && settings_.flag("gpt_j_tied", false);
    const bool attention = settings_.flag("use_bias_in_attn_linear", true),
               mlp = settings_.flag("use_bias_in_mlp", true);
    m.linear_bias = attention && mlp;
    m.qkv_bias = m.attention_out_bias = attention;
    m.mlp_bias = mlp;
    m.dropout = std::strtod(settings_.text("hidden_dropout", "0").c_str(), nullptr);
    (void)settings_.find("attention_dropout");
    m.max_seq_length = settings_.integer("max_position_embeddings", 2048, kTokens);
    if (settings_.integer("moe_num_experts", 1) > 1) {
      settings_.report("moe_num_experts", "mixtures of experts of GPT-NeoX are not read");
    }
    m.window = settings_.integer("sliding_window_width", 0, kTokens);
    read_attention();
    read_vocabulary();
  }

  // megatron/model/transformer.py, ParallelMLP: a gated feed-forward takes two thirds of what is
  // stated for its gate and its values together, each rounded up.
  void read_feed_forward() {
    ModelSpec& m = run_.model;
    const std::string activation = settings_.text("activation", "gelu");
    const std::int64_t stated =
        settings_.integer("intermediate_size", 4 * m.hidden_size, {1, 1 << 26});
    const std::int64_t multiple = settings_.integer("mlp_multiple_of", 256, {1, 1 << 20});
    m.gated_mlp = activation == "swiglu" || activation == "geglu" || activation == "reglu" ||
                  activation == "glu";
    const std::int64_t width = m.gated_mlp ? stated * 2 / 3 / 2 : stated;
    m.ffn_hidden_size = ceil_div(width, multiple) * multiple;
    if (m.gated_mlp) {
      run_.assumed.push_back(
          {"ffn_hidden_size", std::to_string(m.ffn_hidden_size),
           "of intermediate_size GPT-NeoX takes a third each for gate and values"});
    }
    m.activation = activation == "swiglu" || activation == "silu"  ? Activation::kSilu
                   : activation == "relu" || activation == "reglu" ? Activation::kRelu
                                                                   : Activation::kGelu;
  }

  // [[["flash"], 12]]: the kinds of so many layers in turn.
  void read_attention() {
    run_.strategy.flash_attention = false;
    const Settings::Setting* set = settings_.find("attention_config");
    if (set == nullptr) return;
    for (const YamlNode& part : set->value.items) {
      if (part.items.empty()) continue;
      for (const YamlNode& kind : part.items.front().items) {
        if (!is_full_attention(kind.text)) {
          settings_.report("attention_config", "layers of kind '" + kind.text + "' are not read",
                           "global and flash are; --model says what the layers are");
          return;
        }
        if (kind.text == "flash") run_.strategy.flash_attention = true;
      }
    }
  }

  void read_vocabulary() {
    const std::string kind = settings_.text("tokenizer_type", "GPT2BPETokenizer");
    const std::int64_t plain = kind == "HFTokenizer"                   ? 50'277  // of GPT-NeoX-20B
                               : kind.find("SPM") != std::string::npos ? 32'000
                                                                       : 50'257;
    const std::int64_t tp = settings_.integer("model_parallel_size", 1, {0, kRanks.highest});
    const std::int64_t multiple =
        settings_.integer("make_vocab_size_divisible_by", 128, {1, 1 << 20}) *
        std::max<std::int64_t>(1, tp);
    run_.model.vocab_size = ceil_div(plain, multiple) * multiple;
    run_.assumed.push_back(
        {"vocab_size", std::to_string(run_.model.vocab_size), "usual for " + kind});
  }

  void read_sizes() {
    Strategy& s = run_.strategy;
    // Zero is no pipeline module, one stage.
    s.pp =
        std::max<std::int64_t>(1, settings_.integer("pipe_parallel_size", 1, {0, kStages.highest}));
    s.tp =
        std::max<std::int64_t>(1, settings_.integer("model_parallel_size", 1, {0, kRanks.highest}));
    s.sequence_parallel = settings_.flag("sequence_parallel", false) && s.tp > 1;
    if (s.pp > run_.model.num_layers && run_.model.num_layers > 0) {
      settings_.report("pipe_parallel_size", "more stages than the model has layers");
    }
    s.seq_len =
        context_.seq_len > 0 ? context_.seq_len : settings_.integer("seq_length", 2048, kTokens);
    (void)settings_.find("seq_length");
    s.micro_batch =
        settings_.integer("train_micro_batch_size_per_gpu", context_.micro_batch, kSequences);
    s.global_batch = settings_.integer("train_batch_size", context_.global_batch, kSequences);
    run_.accumulation =
        settings_.integer("gradient_accumulation_steps",
                          context_.accumulation > 0 ? context_.accumulation : 1, kSequences);
    if (s.micro_batch == 0) {
      settings_.report("train_micro_batch_size_per_gpu",
                       "how many sequences a device takes at once is not stated",
                       "--micro-batch N says it");
    }
    if (s.global_batch > 0) run_.accumulation = 0;
    run_.model.max_seq_length = std::max(run_.model.max_seq_length, s.seq_len);
  }

  void read_numbers() {
    Strategy& s = run_.strategy;
    s.zero = static_cast<int>(settings_.integer("zero_optimization.stage", 0, {0, 3}));
    s.offload.optimizer =
        settings_.flag("zero_optimization.cpu_offload", false) ||
        settings_.text("zero_optimization.offload_optimizer.device", "none") != "none";
    s.overlap.grad_reduce = settings_.flag("zero_optimization.overlap_comm", s.zero == 3);
    const std::string precision = settings_.text("precision", "");
    const bool in_section = settings_.flag("bf16.enabled", false),
               half = settings_.flag("fp16.enabled", false);
    const std::string type = settings_.text("fp16.type", "");
    const bool bf16 = precision == "bfloat16" || type == "bfloat16" || in_section;
    const bool fp16 = precision == "fp16" || half;
    s.precision = bf16 ? Precision::kBf16 : fp16 ? Precision::kFp16 : Precision::kFp32;
    const std::string sums = settings_.text("data_types.grad_accum_dtype", "fp32");
    s.grad_dtype = sums == "bf16" ? Dtype::kBf16 : sums == "fp16" ? Dtype::kFp16 : Dtype::kFp32;
    if (settings_.flag("checkpoint_activations", false)) s.recompute = Recompute::kFull;
    if (settings_.integer("checkpoint_num_layers", 1) > 1) {
      run_.notes.push_back("checkpoints of several layers are estimated as one of each");
    }
  }

  const RunContext& context_;
  Settings settings_;
  SettingsRun run_;
};

}  // namespace

bool is_neox(std::string_view text) {
  return text.find("pipe_parallel_size") != std::string_view::npos ||
         text.find("pipe-parallel-size") != std::string_view::npos;
}

Result<SettingsRun> read_neox_run(std::span<const NamedText> files, const RunContext& context) {
  return NeoxRun(context).read(files);
}

}  // namespace meshplan
