#include "launch/deepspeed_import.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>

#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "launch/megatron_import.hpp"
#include "launch/megatron_parts.hpp"
#include "launch/settings.hpp"
#include "launch/settings_account.hpp"

namespace meshplan {
namespace {

// Files below deepspeed/ of 0.19; options of Megatron-DeepSpeed's megatron/arguments.py.
constexpr std::array kSplitsItself{"--num-layers", "--zero-stage", "--no-pipeline-parallel",
                                   "--ds-sequence-parallel-size", "--tensor-model-parallel-size"};

class Importer {
 public:
  explicit Importer(const RunContext& context) : context_(context) {}

  Result<SettingsRun> read(std::span<const NamedText> files) {
    for (const NamedText& file : files) add(file);
    if (!problems_.empty()) return problems_;
    settings_.leave_out("auto", run_.automatic);
    run_.target = Target::kDeepspeed;
    own_split_ = std::any_of(kSplitsItself.begin(), kSplitsItself.end(),
                             [&](const char* name) { return settings_.has(name); });
    run_.strategy =
        framework_preset(own_split_ ? Framework::kMegatronDeepspeed : Framework::kDeepspeed);
    read_model();
    if (!problems_.empty()) return problems_;
    read_sizes();
    read_batch();
    read_zero();
    read_precision();
    read_optimizer();
    read_recomputation();
    read_stages();
    problems_.insert(problems_.end(), settings_.problems().begin(), settings_.problems().end());
    if (!problems_.empty()) return problems_;
    run_.strategy = with_world(run_, run_.world_size);
    for (auto& [name, place] : settings_.places()) run_.places[name] = place;
    account();
    run_.settings = std::move(settings_);
    return std::move(run_);
  }

 private:
  void add(const NamedText& file) {
    const std::size_t first = file.text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (first != std::string::npos && file.text[first] == '{') {
      const Result<YamlNode> tree = parse_yaml(file.text, file.name);
      if (!tree) {
        problems_.insert(problems_.end(), tree.errors().begin(), tree.errors().end());
        return;
      }
      settings_.add(*tree, file.text, file.name);
      return;
    }
    scripts_.push_back(read_shell(file.text, shell_inputs()));
    names_.push_back(file.name);
    const ShellScript& script = scripts_.back();
    run_.grows_segments |= grows_segments(script.variables);
    if (const std::string_view other = other_purpose(script.program); !other.empty()) {
      problems_.push_back(error_at({file.name}, script.program + " " + std::string(other),
                                   "a decoder of text is what this program describes"));
      return;
    }
    add_written_config(script, file);
    for (std::size_t i = 0; i < script.words.size(); ++i) {
      const ShellWord& word = script.words[i];
      if (!word.text.starts_with("--")) continue;
      const std::size_t equals = std::min(word.text.find('='), word.text.size());
      ShellWord value;
      const ShellWord* given = nullptr;
      if (equals < word.text.size()) {
        value = {word.text.substr(equals + 1), word.line, word.column, word.unknown};
        given = &value;
      } else if (i + 1 < script.words.size() && !script.words[i + 1].text.starts_with("--")) {
        given = &script.words[i + 1];
      }
      const bool open = given != nullptr && !given->unknown.empty();
      const std::optional<KnownOption> known =
          megatron_deepspeed_options().find(word.text.substr(0, equals));
      // What is open is asked for once, by the account of all options.
      if (open && known && known->effect == OptionEffect::kModelled) continue;
      settings_.add(word.text.substr(0, equals), word, given, script, file.name);
    }
    if (context_.gpus > 0) return;
    const Result<std::int64_t> world = launched_world(script, file.name, &run_);
    if (world) {
      run_.world_size = std::max(run_.world_size, *world);
    } else {
      problems_.insert(problems_.end(), world.errors().begin(), world.errors().end());
    }
  }

  [[nodiscard]] ShellInputs shell_inputs() const {
    ShellInputs inputs = context_.shell;
    inputs.matters = [](std::string_view name) {
      const std::optional<KnownOption> known = megatron_deepspeed_options().find(name);
      return !is_launcher_option(name) && (!known || known->effect != OptionEffect::kNoEffect);
    };
    return inputs;
  }

  // cat <<EOT > ds_config.json: what --deepspeed_config names, below what the options say.
  void add_written_config(const ShellScript& script, const NamedText& file) {
    for (std::size_t i = 0; i + 1 < script.words.size(); ++i) {
      const std::string& name = script.words[i].text;
      if (name != "--deepspeed_config" && name != "--deepspeed") continue;
      const auto written = script.files.find(script.words[i + 1].text);
      if (written == script.files.end()) continue;
      const Result<YamlNode> tree = parse_yaml(written->second, file.name);
      if (tree) settings_.add(*tree, written->second, file.name);
    }
  }

  void read_model() {
    if (context_.gpus > 0) {
      run_.world_size = context_.gpus;
      run_.world_source = "--gpus";
    }
    if (context_.model) run_.model = *context_.model;
    run_.knows_model = context_.model.has_value();
    for (std::size_t i = 0; i < scripts_.size(); ++i) {
      if (!own_split_ && !settings_.has("--num-layers")) continue;
      ProgramOptions options(scripts_[i], megatron_deepspeed_options(), names_[i]);
      if (options.has("--num-layers") && !context_.model) {
        read_megatron_model(options, run_);
        run_.knows_model = true;
        if (options.problems().empty()) own_names();
      }
      options.account(context_.lenient, run_);
      problems_.insert(problems_.end(), options.problems().begin(), options.problems().end());
    }
  }

  // Where Megatron-DeepSpeed's options are not Megatron-LM's.
  void own_names() {
    ModelSpec& m = run_.model;
    m.source = "arguments of Megatron-DeepSpeed";
    if (settings_.text("--normalization") == "rmsnorm") m.norm = Norm::kRmsNorm;
    const std::int64_t groups = settings_.integer(
        "--num-key-value-heads", settings_.integer("--n-head-kv", m.num_attention_heads));
    m.num_query_groups = groups;
    m.attention = groups < m.num_attention_heads ? AttentionKind::kGqa : AttentionKind::kMha;
    const std::int64_t experts = settings_.integer("--num-experts", 1);
    m.moe.reset();
    if (experts > 1) {
      m.moe = MoeSpec{.num_experts = experts,
                      .top_k = settings_.integer("--topk", 1),
                      .expert_ffn_hidden_size = m.ffn_hidden_size,
                      .every = settings_.integer("--expert-interval", 2)};
    }
  }

  std::int64_t size(const std::string& name, IntegerRange range = kRanks) {
    return settings_.integer(name, 1, range);
  }

  // A program's options of Megatron-LM's kind are accounted for already, and say again what the
  // file says of stages.
  void account() {
    const bool whole = run_.strategy.zero < 3, split = own_split_;
    account_settings(
        settings_,
        {.keys = deepspeed_keys(),
         .whose = "DeepSpeed's settings",
         .idle_here =
             [=](std::string_view name) {
               return (whole && name.starts_with("zero_optimization.stage3_")) ||
                      (split && name.starts_with("pipeline."));
             },
         .elsewhere = [=](std::string_view name) { return split && name.starts_with("--"); }},
        run_);
  }

  // PipelineModule._partition_layers of "type:transformer|embedding": embedding and head count as a
  // layer each.
  void read_stages() {
    Strategy& s = run_.strategy;
    const std::string method = settings_.text("--pp-partition-method");
    if (s.pp < 2 || method.find("embedding") == std::string::npos || !run_.knows_model) return;
    const std::int64_t all = run_.model.num_layers + 2;
    for (std::int64_t i = 0; i < s.pp; ++i) {
      s.stage_layers.push_back(all * (i + 1) / s.pp - all * i / s.pp);
    }
    --s.stage_layers.front();
    --s.stage_layers.back();
  }

  void read_sizes() {
    Strategy& s = run_.strategy;
    if (own_split_) {
      s.tp = size("--tensor-model-parallel-size");
      s.pp = settings_.has("--no-pipeline-parallel")
                 ? 1
                 : size("--pipeline-model-parallel-size", kStages);
      s.cp = size("--ds-sequence-parallel-size");
      s.ep = size("--moe-expert-parallel-size");
      s.sequence_parallel = settings_.has("--sequence-parallel") && s.tp > 1;
      if (settings_.has("--enable-zbh1-pipeline") && s.pp > 1) s.schedule = Schedule::kZbH1;
      s.seq_len = settings_.integer("--seq-length", 0, kTokens);
    } else {
      s.tp = settings_.has("tensor_parallel.autotp_size") ? size("tensor_parallel.autotp_size")
                                                          : size("tensor_parallel.tp.tp_size");
      // The program's, but where it is written down.
      s.pp = settings_.has("pipeline.stages") ? size("pipeline.stages", kStages) : 1;
      s.cp = size("sequence_parallel_size");
      if (settings_.flag("expert_parallel.enabled", false))
        s.ep = size("expert_parallel.autoep_size");
      s.overlap.tp = s.tp > 1 && settings_.flag("tensor_parallel.tp_overlap_comm", false);
    }
    if (s.seq_len == 0) s.seq_len = context_.seq_len;
    if (s.cp > 1) s.cp_kind = CpKind::kUlysses;
    if (bounded_product({s.tp, s.pp, s.cp}) > kRanks.highest) {
      settings_.report("tensor_parallel", "the sizes multiply to more ranks than there can be");
      s.tp = s.pp = s.cp = 1;
    }
  }

  // "--name 4", "--name=4", with underscores or dashes.
  std::int64_t trainer(std::string name) {
    for (int spelling = 0; spelling < 2; ++spelling) {
      if (settings_.has("--" + name)) return settings_.integer("--" + name, 0, kSequences);
      std::replace(name.begin(), name.end(), '_', '-');
    }
    return 0;
  }

  // runtime/config.py _set_batch_related_parameters.
  void read_batch() {
    Strategy& s = run_.strategy;
    const auto stated = [&](const char* json, const char* option) {
      return settings_.has(json)     ? settings_.integer(json, 0, kSequences)
             : settings_.has(option) ? settings_.integer(option, 0, kSequences)
                                     : 0;
    };
    std::int64_t global = stated("train_batch_size", "--global-batch-size");
    std::int64_t micro = stated("train_micro_batch_size_per_gpu", "--micro-batch-size");
    std::int64_t steps = settings_.integer("gradient_accumulation_steps", 0, kSequences);
    // Arguments of Hugging Face's Trainer, which fill in what its configuration leaves "auto".
    if (micro == 0) micro = trainer("per_device_train_batch_size");
    if (steps == 0) steps = trainer("gradient_accumulation_steps");
    if (context_.global_batch > 0) global = context_.global_batch;
    if (context_.micro_batch > 0) micro = context_.micro_batch;
    if (context_.accumulation > 0) steps = context_.accumulation;
    const std::int64_t ranks = run_.world_size / (s.tp * s.pp * s.cp);
    if (micro == 0 && global > 0 && ranks > 0) {
      micro = std::max<std::int64_t>(global / ranks / std::max<std::int64_t>(steps, 1), 1);
      steps = std::max<std::int64_t>(steps, 1);
    }
    if (!settings_.problems().empty()) return;
    if (micro < 1) {
      settings_.report(
          "train_batch_size",
          global > 0 ? "how many sequences a device takes at once is not stated"
                     : "no batch size is stated",
          global > 0
              ? "give --micro-batch N, or --gpus N"
              : "give --micro-batch N and --grad-accum N, or the script that starts it" +
                    std::string(run_.automatic.empty() ? ""
                                                       : "; \"auto\" is filled in by the program"));
      return;
    }
    s.micro_batch = micro;
    // What is "auto" in the file and stated elsewhere is taken as no default.
    const bool counted = steps > 0 || global > 0;
    std::erase_if(run_.automatic, [&](const std::string& name) {
      return name == "train_batch_size" || name == "train_micro_batch_size_per_gpu" ||
             (counted && name == "gradient_accumulation_steps");
    });
    if (steps > 0 || global == 0) {
      run_.accumulation = std::max<std::int64_t>(steps, 1);
    } else {
      s.global_batch = global;
    }
  }

  void read_zero() {
    Strategy& s = run_.strategy;
    const std::int64_t stage =
        settings_.integer("zero_optimization.stage", settings_.integer("--zero-stage", 0));
    if (stage < 0 || stage > 3) {
      settings_.report("zero_optimization.stage", "'zero_optimization.stage' is from 0 to 3");
      return;
    }
    s.zero = static_cast<int>(stage);
    // runtime/engine.py: bf16 with fp32 sums and no ZeRO gets BF16_Optimizer, which shards the
    // optimizer's states.
    if (stage == 0 && own_split_ && settings_.has("--bf16")) {
      s.zero = 1;
      run_.assumed.push_back({"zero", "1", "DeepSpeed's optimizer of bf16 shards its states"});
    }
    if (const std::int64_t shards =
            settings_.integer("zero_optimization.mics_shard_size", -1, kRanks);
        shards > 0) {
      s.zero_group = shards;
    }
    // [F-MEM-2] Two to reduce, one to gather.
    const std::int64_t each = s.runtime.zero_bucket_size;
    const std::int64_t reduced = settings_.integer("zero_optimization.reduce_bucket_size", each);
    const std::int64_t gathered =
        settings_.integer("zero_optimization.allgather_bucket_size", each);
    s.runtime.zero_bucket_size = (2 * reduced + gathered) / 3;
    const bool overlapped = settings_.flag("zero_optimization.overlap_comm", stage == 3);
    s.overlap.grad_reduce = overlapped;
    const std::string ahead = "zero_optimization.stage3_prefetch_bucket_size";
    if (stage == 3) s.overlap.param_gather = settings_.integer(ahead, 1) > 0;
    if (!overlapped && stage < 3) s.overlap.param_gather = false;  // it needs the other overlap
    const std::string host = place_of("zero_optimization.offload_optimizer");
    if (host == "nvme") {
      run_.notes.emplace_back("optimizer states on NVMe are estimated as in the host's memory");
    }
    s.offload.optimizer = host != "none" || settings_.flag("zero_optimization.cpu_offload", false);
    if (s.offload.optimizer && stage == 3) {
      const std::string ratio = settings_.text("zero_optimization.offload_optimizer.ratio", "1");
      double part = 1;
      std::from_chars(ratio.data(), ratio.data() + ratio.size(), part);
      s.offload.optimizer = part > 0;
      if (part > 0) s.offload.optimizer_fraction = part;
    }
    const std::string place = place_of("zero_optimization.offload_param");
    s.offload.weights = stage == 3 && place != "none" && s.offload.optimizer;
    if (place == "nvme") {
      run_.notes.emplace_back("weights on NVMe are estimated as in the host's memory");
    } else if (place != "none" && !s.offload.weights) {
      run_.notes.emplace_back(
          "weights on the host (offload_param) without the optimizer there are estimated as on the "
          "device");
    }
    if (settings_.integer("zero_optimization.zero_hpz_partition_size", 1) > 1) {
      run_.notes.emplace_back(
          "a second partition of the weights (zero_hpz_partition_size) is not estimated");
    }
  }

  // Where an offload section puts things (runtime/zero/offload_config.py, OffloadDeviceEnum).
  std::string place_of(const std::string& section) {
    const std::string name = section + ".device";
    const std::string device = settings_.text(
        name, settings_.has(section) && section.ends_with("optimizer") ? "cpu" : "none");
    if (device != "none" && device != "cpu" && device != "nvme") {
      settings_.report(name, "there is no device '" + device + "' to offload to",
                       "none, cpu or nvme");
    }
    return device;
  }

  // runtime/engine.py, _configure_basic_optimizer; without a name it is the program's own.
  void read_optimizer() {
    const std::string stated = settings_.text("optimizer.type");
    std::string name;
    for (const char c : stated) name += static_cast<char>(std::tolower(c));
    if (name == "sgd") {
      run_.strategy.optimizer = Optimizer::kSgd;
    } else if (name == "muon") {
      run_.strategy.optimizer = Optimizer::kMuon;
    } else if (!name.empty() && name != "adam" && name != "adamw") {
      run_.notes.push_back("the optimizer " + stated + " is counted as Adam with states in fp32");
    }
  }

  void read_precision() {
    Strategy& s = run_.strategy;
    const bool bf16 = settings_.flag("bf16.enabled", settings_.flag("bfloat16.enabled", false)) ||
                      settings_.has("--bf16");
    const bool fp16 = settings_.flag("fp16.enabled", false) || settings_.has("--fp16");
    s.precision = bf16 ? Precision::kBf16 : fp16 ? Precision::kFp16 : Precision::kFp32;
    const std::string own = bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
    const std::string sum =
        settings_.text("data_types.grad_accum_dtype", own_split_ ? "fp32" : own);
    const std::optional<Dtype> grad = from_name<Dtype>(sum);
    if (!grad) {
      settings_.report("data_types.grad_accum_dtype", "there is no data type '" + sum + "'",
                       "fp32, bf16 or fp16");
    }
    s.grad_dtype = grad.value_or(Dtype::kFp32);
    if (own_split_ && bf16) {
      s.runtime.cast_reduction = settings_.text("communication_data_type") != "fp32";
    }
    s.master_weights = !settings_.flag("bf16.bf16_master_weights_and_grads", false) &&
                       !settings_.flag("fp16.fp16_master_weights_and_grads", false);
    if (settings_.flag("bf16.bf16_optimizer_states", false)) s.optimizer_dtype = Dtype::kBf16;
  }

  void read_recomputation() {
    Strategy& s = run_.strategy;
    const bool all = settings_.has("--checkpoint-activations") ||
                     settings_.has("--activations-checkpoint-method") ||
                     settings_.flag("--gradient_checkpointing", false) ||
                     settings_.text("--recompute-granularity") == "full";
    const bool parts = settings_.has("--recompute-activations") ||
                       settings_.text("--recompute-granularity") == "selective";
    const std::int64_t each = settings_.integer("pipeline.activation_checkpoint_interval", 0);
    if (all || (!own_split_ && s.pp > 1 && each > 0)) s.recompute = Recompute::kFull;
    if (!all && parts) s.recompute = Recompute::kSelective;
    if (!own_split_ && s.pp > 1 && each > 1) {
      run_.notes.push_back("recomputation in groups of " + std::to_string(each) +
                           " layers holds the activations of a whole group; counted are single "
                           "layers");
    }
    for (const char* name :
         {"--recompute-method", "--recompute-num-layers", "--deepspeed-activation-checkpointing"}) {
      (void)settings_.find(name);
    }
    if (own_split_) {
      s.flash_attention =
          settings_.has("--use-flash-attn") || settings_.has("--use-flash-attn-v1") ||
          settings_.has("--use-flash-attn-v2") || settings_.has("--use-flash-attn-triton") ||
          settings_.has("--use-flash-attn-builder");
    }
  }

  const RunContext& context_;
  Settings settings_;
  SettingsRun run_;
  Diagnostics problems_;
  std::deque<ShellScript> scripts_;
  std::vector<std::string> names_;  // of the scripts' files
  bool own_split_ = false;
};

}  // namespace

Result<SettingsRun> read_deepspeed_run(std::span<const NamedText> files,
                                       const RunContext& context) {
  return Importer(context).read(files);
}

}  // namespace meshplan
