// Scripts that start programs with Transformers' Trainer (TRL's sft and dpo, run_clm.py, PEFT), and
// the configuration of `accelerate launch` beside them.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "frameworks/preset.hpp"
#include "launch/program_options.hpp"
#include "launch/recipe_import.hpp"
#include "launch/recipe_kernels.hpp"
#include "launch/recipe_keys.hpp"
#include "launch/recipe_optimizers.hpp"

namespace meshplan {
namespace {

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// "trl sft ..." is accelerate launching trl/scripts/sft.py (TRL cli.py).
std::string with_trl_scripts(std::string text) {
  for (const std::string name : {"sft", "dpo"}) {
    const std::string command = "trl " + name + " ";
    for (std::size_t at = text.find(command); at != std::string::npos;
         at = text.find(command, at + 1)) {
      if (at > 0 && text[at - 1] != '\n' && text[at - 1] != ' ') continue;
      text.replace(at, command.size(), "python trl/scripts/" + name + ".py ");
    }
  }
  return text;
}

// Whether an option is that of `accelerate launch` or torchrun. Where only a variable names the
// program, these stand among the program's own.
bool starts_ranks(const std::string& name) {
  constexpr std::array<std::string_view, 6> kAccelerate{"config_file",     "num_processes",
                                                        "num_machines",    "machine_rank",
                                                        "main_process_ip", "main_process_port"};
  return is_launcher_option("--" + name) ||
         std::find(kAccelerate.begin(), kAccelerate.end(), name) != kAccelerate.end();
}

class TrainerRun {
 public:
  explicit TrainerRun(const RunContext& context) : context_(context) {}

  Result<SettingsRun> read(std::span<const NamedText> files) {
    for (const NamedText& file : files) {
      if (is_accelerate(file.text)) {
        add_config(file);
      } else if (!has_script_) {
        add_script(file);
      } else {
        problems_.push_back(
            error_at({file.name}, "a run is one script, and accelerate's YAML beside it"));
      }
    }
    if (!problems_.empty()) return problems_;
    if (!has_script_) {
      return error_at(
          {files.front().name},
          "accelerate's configuration says how ranks share a model, not which",
          "name the script that it starts too: meshplan import recipe config.yaml train.sh");
    }
    run_.target = Target::kAccelerate;
    run_.strategy = framework_preset(Framework::kFsdp);
    const std::string name = "model_name_or_path";
    take_model(settings_, name, settings_.text(name), context_, run_);
    read_sharding();
    read_adapters();
    read_batch();
    read_numbers();
    account_recipe(settings_, trainer_keys(), context_.lenient, run_);
    account_recipe(config_, accelerate_keys(), context_.lenient, run_);
    for (const Settings* part : {&settings_, &config_}) {
      problems_.insert(problems_.end(), part->problems().begin(), part->problems().end());
    }
    if (!problems_.empty()) return problems_;
    run_.strategy = with_world(run_, run_.world_size);
    run_.places = settings_.places();
    run_.settings = std::move(settings_);
    return std::move(run_);
  }

 private:
  void add_config(const NamedText& file) {
    Result<YamlNode> tree = parse_yaml(file.text, file.name);
    if (tree) {
      config_.add(*tree, file.text, file.name);
    } else {
      problems_.insert(problems_.end(), tree.errors().begin(), tree.errors().end());
    }
  }

  void add_script(const NamedText& file) {
    has_script_ = true;
    const ShellScript script = read_shell(with_trl_scripts(file.text), context_.shell);
    run_.grows_segments |= grows_segments(script.variables);
    if (script.words.empty()) {
      problems_.push_back(error_at({file.name}, "no program is started here with options",
                                   "a script that passes --model_name_or_path is read"));
      return;
    }
    // trl/scripts/sft.py, dpo.py, run_dpo.py; not what a data set or a folder is called.
    const auto runs = [&](std::string_view name) {
      return script.program.find(name) != std::string::npos;
    };
    is_dpo_ = runs("dpo");
    is_trl_ = is_dpo_ || runs("sft") || runs("trl/");
    if (script.program.empty()) {
      run_.notes.emplace_back(
          "which program is started is not known: taken is that of Transformers' trainer for the "
          "next token, not TRL's, whose defaults differ; --set NAME=sft.py names it");
    }
    for (const std::string_view other :
         {"grpo", "ppo", "rloo", "kto", "reward", "orpo", "gkd", "online_dpo"}) {
      const std::string program = script.program.substr(script.program.find_last_of('/') + 1);
      if (program.find(other) == std::string::npos) continue;
      problems_.push_back(error_at(
          {file.name}, script.program + " trains otherwise than by the next token or pairs",
          "scripts of supervised fine-tuning, pre-training and dpo are read"));
      return;
    }
    for (std::size_t i = 0; i < script.words.size(); ++i) {
      const ShellWord& word = script.words[i];
      if (!word.text.starts_with("--")) continue;
      const std::size_t equals = std::min(word.text.find('='), word.text.size());
      std::string name = word.text.substr(2, equals - 2);
      std::replace(name.begin(), name.end(), '-', '_');
      if (script.program.empty() && starts_ranks(name)) continue;
      ShellWord value = word;
      value.text = "true";
      if (equals < word.text.size()) {
        value.text = word.text.substr(equals + 1);
      } else if (i + 1 < script.words.size() && !script.words[i + 1].text.starts_with("--")) {
        value = script.words[i + 1];
        // Options with several values, as --lora_target_modules q_proj v_proj.
        for (std::size_t k = i + 2; k < script.words.size(); ++k) {
          if (script.words[k].text.starts_with("--")) break;
          value.text += "," + script.words[k].text;
          if (value.unknown.empty()) value.unknown = script.words[k].unknown;
        }
      }
      if (name.starts_with("no_") && value.text == "true") name.erase(0, 3), value.text = "false";
      settings_.add(name, word, &value, script, file.name);
      if (!value.unknown.empty() && !is_idle(trainer_keys(), name)) {
        settings_.report(
            name, "nothing here says what " + value.unknown + " is, and --" + name + " needs it",
            "--set NAME=VALUE says it");
      }
    }
    read_launcher(script, file);
  }

  void read_launcher(const ShellScript& script, const NamedText& file) {
    const Result<std::int64_t> world = launched_world(script, file.name, &run_);
    if (world) {
      run_.world_size = *world;
    } else {
      problems_.insert(problems_.end(), world.errors().begin(), world.errors().end());
    }
    const std::vector<ShellWord>& words = script.program.empty() ? script.words : script.launcher;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      std::string name = words[i].text;
      std::replace(name.begin(), name.end(), '-', '_');
      const std::string& value = words[i + 1].text;
      if (name == "__num_processes") {
        const long long processes = std::strtoll(value.c_str(), nullptr, 10);
        if (processes > 0)
          run_.world_size = processes, run_.world_source = "accelerate's --num_processes";
      } else if (name == "__config_file" && config_.all().empty()) {
        const std::optional<std::string> text =
            context_.shell.read_file ? context_.shell.read_file(value) : std::nullopt;
        if (text) {
          add_config({value, *text});
        } else {
          run_.notes.push_back("accelerate's configuration " + value +
                               " is not here: name it beside the script");
        }
      }
    }
  }

  void read_sharding() {
    Strategy& s = run_.strategy;
    const std::string kind = config_.text("distributed_type", "NO");
    const std::int64_t processes = config_.integer("num_processes", 0, kRanks);
    const std::int64_t machines = config_.integer("num_machines", 1, kRanks);
    if (run_.world_size == 0 && processes > 0) {
      run_.world_size = processes, run_.world_source = "accelerate's num_processes";
    }
    if (context_.gpus > 0) run_.world_size = context_.gpus, run_.world_source = "--gpus";
    const std::string deepspeed =
        settings_.text("deepspeed", config_.text("deepspeed_config.deepspeed_config_file"));
    const bool is_deepspeed = kind == "DEEPSPEED" || !deepspeed.empty();
    const Loss loss = is_dpo_ ? Loss::kDpo : Loss::kLm;
    if (is_deepspeed) s = framework_preset(Framework::kDeepspeed);
    s.loss = loss;
    s.zero = 0;
    if (is_deepspeed) {
      read_deepspeed(deepspeed);
    } else if (kind == "FSDP" || settings_.has("fsdp")) {
      read_fsdp(machines);
    } else if (kind != "NO" && kind != "MULTI_GPU") {
      config_.report("distributed_type", "'" + kind + "' is not read here",
                     "NO, MULTI_GPU, FSDP and DEEPSPEED are");
    }
    const auto size = [&](const std::string& axis) {
      return config_.integer("parallelism_config.parallelism_config_" + axis + "_size", 1, kRanks);
    };
    s.tp = size("tp"), s.cp = bounded_product({size("cp"), size("sp")});
    if (const std::int64_t replicas = size("dp_replicate"); replicas > 1) run_.replicas = replicas;
    (void)size("dp_shard");
  }

  void read_fsdp(std::int64_t machines) {
    Strategy& s = run_.strategy;
    const std::string p = "fsdp_config.fsdp_";
    const std::string strategy =
        lower_case(config_.text(p + "sharding_strategy", settings_.text("fsdp", "full_shard")));
    const auto says = [&](const char* word) { return strategy.find(word) != std::string::npos; };
    const bool reshards = lower_case(config_.text(p + "reshard_after_forward", "true")) != "false";
    s.zero = says("no_shard") || strategy == "3"                     ? 0
             : says("shard_grad_op") || strategy == "2" || !reshards ? 2
                                                                     : 3;
    if (says("hybrid") && machines > 1) run_.replicas = machines;
    s.offload.optimizer = config_.flag(p + "offload_params", false) || says("offload");
    if (config_.flag(p + "activation_checkpointing", false)) s.recompute = Recompute::kFull;
  }

  // DeepSpeed's offload_param, which is estimated beside an optimizer on the host.
  void take_host_weights(const std::string& device) {
    Strategy& s = run_.strategy;
    s.offload.weights = s.offload.optimizer && s.zero == 3 && device != "none";
    if (device == "none" || s.offload.weights) return;
    run_.notes.emplace_back(
        "weights on the host (offload_param) without ZeRO-3 and the optimizer there are estimated "
        "as on the device");
  }

  // ZeRO's stage and offload from the JSON where it is beside the script, else from accelerate's
  // YAML, else from the JSON's name.
  void read_deepspeed(const std::string& file) {
    Strategy& s = run_.strategy;
    s.zero = static_cast<int>(config_.integer("deepspeed_config.zero_stage", 0, {0, 3}));
    s.offload.optimizer =
        config_.text("deepspeed_config.offload_optimizer_device", "none") != "none";
    take_host_weights(config_.text("deepspeed_config.offload_param_device", "none"));
    if (file.empty()) return;
    const std::optional<std::string> text =
        context_.shell.read_file ? context_.shell.read_file(file) : std::nullopt;
    if (!text) {
      if (const auto stage = stage_of_name(file)) {
        s.zero = *stage;
        run_.assumed.push_back({"zero", std::to_string(*stage), "the name " + file});
      } else {
        run_.notes.push_back("DeepSpeed's configuration " + file +
                             " is not here: its stage is taken as " + std::to_string(s.zero));
      }
      s.offload.optimizer = s.offload.optimizer || file.find("offload") != std::string::npos;
      return;
    }
    const Result<YamlNode> tree = parse_yaml(*text, file);
    if (!tree) {
      problems_.insert(problems_.end(), tree.errors().begin(), tree.errors().end());
      return;
    }
    Settings json;
    json.add(*tree, *text, file);
    s.zero = static_cast<int>(json.integer("zero_optimization.stage", 0, {0, 3}));
    s.offload.optimizer = json.text("zero_optimization.offload_optimizer.device", "none") != "none";
    take_host_weights(json.text("zero_optimization.offload_param.device", "none"));
    problems_.insert(problems_.end(), json.problems().begin(), json.problems().end());
  }

  void read_adapters() {
    const bool peft = settings_.flag("use_peft", false);
    const bool four = settings_.flag("load_in_4bit", false),
               eight = settings_.flag("load_in_8bit", false);
    Lora& lora = run_.strategy.lora;
    const std::int64_t rank =
        settings_.integer("lora_r", settings_.integer("lora_rank", 16, {1, 65'536}), {1, 65'536});
    const double dropout = std::strtod(settings_.text("lora_dropout", "0.05").c_str(), nullptr);
    const std::string targets = settings_.text("lora_target_modules", "");
    if (!peft) {
      for (const char* name : {"lora_r", "lora_rank", "lora_dropout", "lora_target_modules",
                               "load_in_4bit", "load_in_8bit"}) {
        if (!settings_.has(name)) continue;
        run_.notes.push_back("--" + std::string(name) +
                             " is without effect: adapters are asked for by --use_peft");
      }
      return;
    }
    lora.rank = rank, lora.dropout = dropout;
    if (four) lora.frozen_dtype = FrozenDtype::kNf4;
    if (eight) lora.frozen_dtype = FrozenDtype::kInt8;
    if (targets.empty()) {  // PEFT's own of most decoders (utils/constants.py)
      run_.assumed.push_back({"lora.targets", "q_proj, v_proj", "PEFT's default"});
    }
    const std::string names = targets.empty() ? "q_proj,v_proj" : targets;
    lora.targets = {};
    for (std::size_t begin = 0; begin < names.size();) {
      const std::size_t end = std::min(names.find(',', begin), names.size());
      const std::string one = names.substr(begin, end - begin);
      const LoraTargets known = lora_targets(one);
      if (known.empty()) {
        settings_.report("lora_target_modules",
                         "no layer that is known here is called '" + one + "'",
                         "PEFT's names of projections: q_proj, v_proj, ..., or all-linear");
      }
      lora.targets.insert(known);
      begin = end + 1;
    }
  }

  void read_batch() {
    Strategy& s = run_.strategy;
    s.micro_batch =
        settings_.integer("per_device_train_batch_size", 8, kSequences) * (is_dpo_ ? 2 : 1);
    run_.accumulation = settings_.integer(
        "gradient_accumulation_steps",
        config_.integer("deepspeed_config.gradient_accumulation_steps", 1, kSequences), kSequences);
    std::int64_t stated = 0;
    for (const char* name :
         {"max_length", "max_seq_length", "block_size", "model_max_length", "cutoff_len"}) {
      stated = std::max(stated, settings_.integer(name, 0, kTokens));
    }
    s.seq_len = context_.seq_len > 0 ? context_.seq_len : stated;
    if (s.seq_len == 0) {
      s.seq_len = 1024;
      run_.assumed.push_back(
          {"seq_len", "1024", is_trl_ ? "TRL's max_length" : "no option says it; --seq-len does"});
    }
    run_.model.max_seq_length = std::max(run_.model.max_seq_length, s.seq_len);
    s.packing = settings_.flag("packing", false) ? Packing::kPack : Packing::kNone;
    note_full_sequences(run_);
  }

  void read_numbers() {
    Strategy& s = run_.strategy;
    const std::string mixed = lower_case(config_.text("mixed_precision", "no"));
    const bool fp16 = settings_.flag("fp16", mixed == "fp16");
    const bool bf16 = settings_.flag("bf16", mixed == "bf16" || (is_trl_ && !fp16));
    s.precision = bf16 ? Precision::kBf16 : fp16 ? Precision::kFp16 : Precision::kFp32;
    if (mixed == "fp8") s.precision = Precision::kFp8;
    // Weights that are loaded in 16 bits stay so, with their gradients and states.
    const std::string dtype = settings_.text("dtype", settings_.text("torch_dtype", "auto"));
    if ((dtype == "bfloat16" || dtype == "bf16") && !fp16) {
      s.precision = Precision::kBf16;
      s.master_weights = false;
      s.grad_dtype = s.optimizer_dtype = Dtype::kBf16;
    }
    if (settings_.flag("gradient_checkpointing", is_trl_)) s.recompute = Recompute::kFull;
    if (is_trl_ && !settings_.has("gradient_checkpointing")) {
      run_.assumed.push_back(
          {"recompute", "full", "TRL checkpoints every layer unless told otherwise"});
    }
    read_reentrant(settings_, false, s);
    read_host_checkpoints(settings_, false, s);
    read_compilation(settings_, "torch_compile", false, s);
    read_fused_kernels(settings_, s);
    read_attention(settings_, s, run_.notes);
    const std::string optimizer = settings_.text("optim", kDefaultOptimizer);
    const auto known = recipe_optimizer(optimizer);
    s.optimizer = known.value_or(Optimizer::kAdam);
    s.runtime.fused_optimizer = optimizer != "adamw_torch";
    if (!known)
      run_.notes.push_back("the optimizer " + optimizer +
                           " is counted as Adam with states in fp32");
    if (s.optimizer != Optimizer::kAdam && s.optimizer != Optimizer::kSgd)
      s.optimizer_dtype = Dtype::kFp32;
  }

  const RunContext& context_;
  bool has_script_ = false, is_trl_ = false, is_dpo_ = false;
  Settings settings_, config_;
  SettingsRun run_;
  Diagnostics problems_;
};

}  // namespace

std::optional<int> stage_of_name(const std::string& file) {
  for (const auto& [word, stage] :
       {std::pair{"zero1", 1}, std::pair{"zero2", 2}, std::pair{"zero3", 3}, std::pair{"zero_1", 1},
        std::pair{"zero_2", 2}, std::pair{"zero_3", 3}, std::pair{"z2", 2}, std::pair{"z3", 3},
        std::pair{"z0", 0}}) {
    if (file.find(word) != std::string::npos) return stage;
  }
  return std::nullopt;
}

bool is_accelerate(std::string_view text) {
  const std::string_view mark = "distributed_type:";
  for (std::size_t at = text.find(mark); at != std::string_view::npos;
       at = text.find(mark, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return true;
  }
  return false;
}

Result<SettingsRun> read_trainer_run(std::span<const NamedText> files, const RunContext& context) {
  return TrainerRun(context).read(files);
}

}  // namespace meshplan
